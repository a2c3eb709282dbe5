//! The content of a node file.

use extender_config::echo;
use extender_gateway_object::ObjectError;

use crate::{
    objects::{FileObject, SyntaxError, for_each},
    table::NodeRelist,
};

/// Why a text is not a file of nodes. Objects are numbered from 1, through all lists and documents.
#[derive(Debug, thiserror::Error)]
pub enum ContentError {
    /// It has no objects.
    #[error(transparent)]
    Syntax(#[from] SyntaxError),
    /// The object with this number has this other kind.
    #[error("object {} is of kind {}, not Node; keep nodes alone in this file", .0, echo(.1))]
    Kind(usize, String),
    /// The node at this place cannot be read.
    #[error("{0}: {1}")]
    Node(String, ObjectError),
    /// The node at this place has the name of an earlier one.
    #[error("{0} has the same name as an earlier node; remove one of them")]
    Duplicate(String),
    /// There are no nodes. The file may be incomplete.
    #[error("the file contains no node; create it with `kubectl get nodes -o yaml`")]
    Empty,
}

/// Adds all nodes of the text to the list.
///
/// # Errors
/// It contains something else, or nothing.
pub fn read(text: &str, relist: NodeRelist) -> Result<NodeRelist, ContentError> {
    read_with(text, relist, |_| {})
}

/// The same, and passes the JSON of each node to `seen`, in the order of the text.
///
/// # Errors
/// As [`read`].
pub fn read_with(
    text: &str,
    mut relist: NodeRelist,
    mut seen: impl FnMut(&str),
) -> Result<NodeRelist, ContentError> {
    let count = for_each(text, |object: FileObject<'_>| {
        if let Some(kind) = object.kind.as_ref().filter(|kind| *kind != "Node") {
            return Err(ContentError::Kind(object.number, kind.clone()));
        }
        let added = relist.add(object.json.get().as_bytes());
        let is_new = added.map_err(|problem| ContentError::Node(object.place("Node"), problem))?;
        seen(object.json.get());
        if is_new { Ok(()) } else { Err(ContentError::Duplicate(object.place("Node"))) }
    })?;
    if count == 0 { Err(ContentError::Empty) } else { Ok(relist) }
}

#[cfg(test)]
mod tests;
