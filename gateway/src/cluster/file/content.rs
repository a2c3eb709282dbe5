//! What a node file may hold: nodes, alone or in lists, as JSON or YAML, one document or several.

use extender_config::echo;
use serde::Deserialize;
use serde_json::{Value, value::RawValue};
use serde_saphyr::Options;

use crate::{
    cluster::table::{Change, NodeRelist},
    object::ObjectError,
};

/// The deepest nesting of a YAML document. A node's managed fields take about 10 levels; the parser is
/// recursive, and this many fit the stack of any thread.
const DEEPEST: usize = 24;

/// Why a text is not a file of nodes. Says where: objects are counted from 1, through all lists and
/// documents.
#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    /// It begins like JSON and does not go on like it.
    #[error("not JSON: {0}")]
    Json(#[from] serde_json::Error),
    /// It is not YAML.
    #[error("not YAML: {0}")]
    Yaml(String),
    /// There is something else in it.
    #[error("object {place} is of kind {}, not Node; keep nodes alone in this file", echo(.kind))]
    Kind {
        /// Which object.
        place: usize,
        /// What it is.
        kind: String,
    },
    /// A node cannot be read.
    #[error("object {place}: {problem}")]
    Node {
        /// Which object.
        place: usize,
        /// What is wrong with it.
        problem: ObjectError,
    },
    /// Two nodes have one name.
    #[error("object {place} has the same name as an earlier node; remove one of them")]
    Twice {
        /// Which object is the second.
        place: usize,
    },
    /// Perhaps it is being written just now.
    #[error("the file contains no node; create it with `kubectl get nodes -o yaml`")]
    Empty,
}

/// Adds all nodes of the text to the list.
pub(super) fn read(text: &str, relist: NodeRelist) -> Result<NodeRelist, ContentError> {
    let mut objects = Objects { relist, seen: 0 };
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
    if objects.relist.is_empty() { Err(ContentError::Empty) } else { Ok(objects.relist) }
}

/// The defaults are for configuration files: 5,000 nodes are millions of values.
fn yaml_options() -> Options {
    serde_saphyr::options! {
        budget: serde_saphyr::budget! {
            max_depth: DEEPEST,
            // kubectl writes none, and thousands of a large value would be more than memory holds.
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

/// The list that is being filled, and how many objects there were.
struct Objects {
    relist: NodeRelist,
    seen: usize,
}

/// What tells a node from a list of them.
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
        self.seen += 1;
        let place = self.seen;
        let head: DocumentHead<'_> = serde_json::from_str(object.get())?;
        if let Some(kind) = head.kind.filter(|kind| kind != "Node") {
            return Err(ContentError::Kind { place, kind });
        }
        let added = self.relist.add(object.get().as_bytes());
        match added.map_err(|problem| ContentError::Node { place, problem })? {
            Change::Added => Ok(()),
            Change::Changed | Change::Unchanged => Err(ContentError::Twice { place }),
        }
    }
}

#[cfg(test)]
mod tests;
