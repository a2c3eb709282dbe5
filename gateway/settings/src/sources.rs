//! `nodes` and `pods`: the sources of facts about nodes, and about pods other than a call's own.

use std::path::PathBuf;

use extender_config::{Cursor, Remedy, Section};

use super::BackendSettings;
use super::setting::{Setting, Yaml, choices, fields, settings, word};

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

fields! {
    NodeSource: "a mapping such as {source: Watch}",
        unsupported &[("kubeconfig", "set `cluster: {kubeconfig: FILE}` instead")];
    /// The source of facts about nodes, see [nodes](#nodes).
    "source" as (NODE_SOURCE): String, absent("`Watch`");
    /// With `File`: the file of nodes.
    "file": PathBuf, absent("none");
}

/// The words for the source of nodes.
pub(super) const NODE_SOURCES: [&str; 4] = ["Watch", "Request", "File", "NamesOnly"];

impl NodeSource {
    /// Its word in the file.
    pub fn word(&self) -> &'static str {
        match self {
            Self::Watch => "Watch",
            Self::Request => "Request",
            Self::File { .. } => "File",
            Self::NamesOnly => "NamesOnly",
        }
    }

    pub(super) fn read_section(fields: &Section<'_>) -> Option<Self> {
        let source = fields.or("source", "Watch", |field| word(field, &NODE_SOURCES))?;
        if source == "File" {
            let path = fields.required("file", "a file of nodes such as nodes.yaml")?.file()?;
            return Some(Self::File { path });
        }
        if fields.has("file") {
            let remedy = Remedy::Do("remove it, or change source");
            fields.mistake_of("file", "is used only with source: File", remedy);
        }
        [Self::Watch, Self::Request, Self::NamesOnly]
            .into_iter()
            .find(|node_source| node_source.word() == source)
    }
}

impl Setting for NodeSource {
    fn read(field: &Cursor<'_>) -> Option<Self> {
        Self::read_section(&field.clone().section(&Self::FIELDS)?)
    }

    fn write(&self, out: &mut Yaml) {
        out.mapping(|out| {
            out.field("source", |out| out.inline(self.word()));
            if let Self::File { path } = self {
                out.field("file", |out| path.write(out));
            }
        });
    }
}

settings! {
    /// The source of facts about pods other than a call's own.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct PodSettings: "a mapping such as {source: Watch}";
    /// The source of facts about pods that are not in a call: victims, usage, counts. `Watch`: the apiserver; the gateway's account
    /// then needs `list` and `watch` on `pods`. `None`: no facts. Set `Watch` for backends that read usage or counts of pods: the
    /// gateway learns that from their handshake only.
    source "source": PodSource, absent("Watch where nodes are watched and a backend has preempt, otherwise None");
}

choices! {
    /// The source of facts about pods other than a call's own.
    pub enum PodSource {
        /// A watch of the apiserver.
        Watch = "Watch",
        /// No source.
        None = "None",
    }
}

impl PodSettings {
    /// The source that the file names, or the default: a watch if nodes are watched and a backend has preempt. A
    /// binder needs none, since a bind reads its pod from the apiserver.
    pub(super) fn source(self, nodes: &NodeSource, backends: &[BackendSettings]) -> PodSource {
        let preempts = backends.iter().any(|backend| backend.preempt.is_some());
        let default =
            if *nodes == NodeSource::Watch && preempts { PodSource::Watch } else { PodSource::None };
        self.source.unwrap_or(default)
    }
}
