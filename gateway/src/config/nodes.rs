//! `nodes`: the source of facts about nodes.

use std::path::PathBuf;

use extender_config::{Cursor, Fields, Remedy, Section};

#[cfg(test)]
use super::setting::Mappings;
use super::setting::{Choice as _, Setting, Yaml, choices};

/// The source of facts about nodes. Relative paths are already joined to the file's folder.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum NodeSource {
    /// A watch of the apiserver.
    Watch,
    /// The node objects in kube-scheduler's calls (`nodeCacheCapable: false`).
    Request,
    /// A file of nodes.
    File {
        /// The file.
        path: PathBuf,
    },
    /// Only the names in kube-scheduler's calls.
    NamesOnly,
}

choices! {
    /// The values of `nodes.source`.
    pub(super) enum SourceName {
        /// See [`NodeSource::Watch`].
        Watch = "Watch",
        /// See [`NodeSource::Request`].
        Request = "Request",
        /// See [`NodeSource::File`].
        File = "File",
        /// See [`NodeSource::NamesOnly`].
        NamesOnly = "NamesOnly",
    }
}

impl NodeSource {
    pub(super) const FIELDS: Fields = Fields {
        right: "a mapping such as {source: Watch}",
        known: &["source", "file"],
        unsupported: &[("kubeconfig", "set `cluster: {kubeconfig: FILE}` instead")],
    };

    pub(super) fn read_section(fields: &Section<'_>) -> Option<Self> {
        let source = fields.or("source", SourceName::Watch, Setting::read)?;
        if source != SourceName::File && fields.optional("file").is_some() {
            fields.mistake_of(
                "file",
                "is used only with source: File",
                Remedy::Do("remove it, or change source"),
            );
        }
        match source {
            SourceName::Watch => Some(Self::Watch),
            SourceName::Request => Some(Self::Request),
            SourceName::File => {
                let path = fields.required("file", "a file of nodes such as nodes.yaml")?.file()?;
                Some(Self::File { path })
            }
            SourceName::NamesOnly => Some(Self::NamesOnly),
        }
    }
}

impl Setting for NodeSource {
    fn read(field: &Cursor<'_>) -> Option<Self> {
        Self::read_section(&field.clone().section(&Self::FIELDS)?)
    }

    fn write(&self, out: &mut Yaml) {
        let (source, file) = match self {
            Self::Watch => (SourceName::Watch, None),
            Self::Request => (SourceName::Request, None),
            Self::File { path } => (SourceName::File, Some(path)),
            Self::NamesOnly => (SourceName::NamesOnly, None),
        };
        out.mapping(|out| {
            out.field("source", |out| out.inline(source.word()));
            if let Some(path) = file {
                out.field("file", |out| path.write(out));
            }
        });
    }

    #[cfg(test)]
    fn describe(path: &str, mappings: &mut Mappings) {
        mappings.push((path.to_owned(), &Self::FIELDS));
    }
}
