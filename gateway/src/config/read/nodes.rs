//! The fields of `nodes`.

use std::path::Path;

use super::super::cursor::{Fields, Section};
use super::super::{NodeSource, Words};
use super::value::{choice, field_or, path};

pub(super) const NODES: Fields = Fields {
    right: "a mapping such as {source: Watch}",
    known: &["source", "file"],
    unsupported: &[("kubeconfig", "name it in `cluster: {kubeconfig: FILE}`")],
};

/// The words of `nodes.source`.
#[derive(Clone, Copy, PartialEq)]
enum Source {
    Watch,
    Request,
    File,
    NamesOnly,
}

impl Words for Source {
    const WORDS: &'static [(&'static str, Self)] = &[
        ("Watch", Self::Watch),
        ("Request", Self::Request),
        ("File", Self::File),
        ("NamesOnly", Self::NamesOnly),
    ];
}

/// Where facts about nodes come from. Relative paths are joined to `folder`.
pub(super) fn source(root: &Section<'_>, folder: &Path) -> Option<NodeSource> {
    let fields = root.subsection("nodes", &NODES)?;
    let source = field_or(&fields, "source", Source::Watch, choice)?;
    if source != Source::File && fields.optional("file").is_some() {
        fields.mistake_of("file", "is only read with source: File", "leave it out, or change source");
    }
    match source {
        Source::Watch => Some(NodeSource::Watch),
        Source::Request => Some(NodeSource::Request),
        Source::File => {
            let file = fields.required("file", "a file of nodes such as nodes.yaml")?;
            path(&file, folder).map(|path| NodeSource::File { path })
        }
        Source::NamesOnly => Some(NodeSource::NamesOnly),
    }
}
