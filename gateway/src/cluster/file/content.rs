//! The content of a node file: nodes, alone or in lists, as JSON or YAML, in one or more documents.

use extender_config::echo;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use serde_saphyr::Options;

use crate::{cluster::table::NodeRelist, object::ObjectError};

/// The deepest nesting of a YAML document. A node's managed fields take about 10 levels. The parser is recursive; this
/// many levels fit the stack of any thread.
const DEEPEST: usize = 24;

/// Why a text is not a file of nodes. Objects are numbered from 1, through all lists and documents.
#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    /// It begins like JSON but is not JSON.
    #[error("not JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// It is not YAML.
    #[error("not YAML: {0}")]
    Yaml(String),
    /// The object with this number has this other kind.
    #[error("object {} is of kind {}, not Node; keep nodes alone in this file", .0, echo(.1))]
    Kind(usize, String),
    /// The node with this number cannot be read.
    #[error("object {0}: {1}")]
    Node(usize, ObjectError),
    /// The node with this number has the name of an earlier one.
    #[error("object {0} has the same name as an earlier node; remove one of them")]
    Duplicate(usize),
    /// There are no nodes. The file may be incomplete.
    #[error("the file contains no node; create it with `kubectl get nodes -o yaml`")]
    Empty,
}

/// Adds all nodes of the text to the list.
pub(super) fn read(text: &str, relist: NodeRelist) -> Result<NodeRelist, ContentError> {
    let mut objects = Objects { relist, count: 0 };
    if text.trim_start().starts_with(['{', '[']) {
        for document in serde_json::Deserializer::from_str(text).into_iter::<&RawValue>() {
            objects.add_document(document?)?;
        }
    } else {
        let documents: Vec<Value> = serde_saphyr::from_multiple_with_options(text, yaml_options())
            .map_err(|error| ContentError::Yaml(error.to_string()))?;
        for document in documents {
            objects.add_document(&serde_json::value::to_raw_value(&document)?)?;
        }
    }
    if objects.count == 0 { Err(ContentError::Empty) } else { Ok(objects.relist) }
}

/// Limits for millions of values, as in 5,000 nodes. The defaults are for configuration files.
fn yaml_options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: DEEPEST,
            // kubectl writes none, and thousands of aliases of a large value could exhaust the memory.
            max_aliases: 0,
            max_events: usize::MAX,
            max_nodes: usize::MAX,
            max_documents: usize::MAX,
            max_total_scalar_bytes: usize::MAX,
        },
        strict_booleans: true,
        with_snippet: false,
    }
}

/// The list, and the number of objects so far.
struct Objects {
    relist: NodeRelist,
    count: usize,
}

/// The fields that distinguish a node from a list.
#[derive(Deserialize)]
struct DocumentHead<'a> {
    kind: Option<String>,
    #[serde(borrow)]
    items: Option<Vec<&'a RawValue>>,
}

impl Objects {
    fn add_document(&mut self, document: &RawValue) -> Result<(), ContentError> {
        if document.get().starts_with('[') {
            let objects: Vec<&RawValue> = serde_json::from_str(document.get())?;
            return objects.into_iter().try_for_each(|object| self.add_node(object));
        }
        let head: DocumentHead<'_> = serde_json::from_str(document.get())?;
        match (head.kind.as_deref(), head.items) {
            (Some("List" | "NodeList"), items) => {
                items.into_iter().flatten().try_for_each(|object| self.add_node(object))
            }
            _ => self.add_node(document),
        }
    }

    /// An item of a `NodeList` has no kind.
    fn add_node(&mut self, object: &RawValue) -> Result<(), ContentError> {
        self.count += 1;
        let head: DocumentHead<'_> = serde_json::from_str(object.get())?;
        if let Some(kind) = head.kind.filter(|kind| kind != "Node") {
            return Err(ContentError::Kind(self.count, kind));
        }
        let added = self.relist.add(object.get().as_bytes());
        let is_new = added.map_err(|problem| ContentError::Node(self.count, problem))?;
        if is_new { Ok(()) } else { Err(ContentError::Duplicate(self.count)) }
    }
}

#[cfg(test)]
mod tests;
