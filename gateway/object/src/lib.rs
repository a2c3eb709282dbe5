//! Kubernetes objects as JSON, parsed once, partially and by reference, into the facts of the contract.
//!
//! [`pod::parse`] and [`node::parse`] are the only way from an object's JSON to facts. They serve watches and
//! files; for calls, [`pod::offered`] and [`node::offered`] add limits. They parse what the facts need and skip the
//! rest; strings without escapes stay slices of the input. Whatever Go's `encoding/json` tolerates in an object
//! that kube-scheduler wrote is tolerated here: unknown fields, absent `kind` and `apiVersion`, `null` for anything,
//! bytes that are not UTF-8, and any nesting of what is skipped.

mod affinity;
mod amounts;
pub mod counted;
pub mod json;
pub mod limits;
mod meta;
pub mod node;
pub mod pod;
mod pod_affinity;
pub mod quantity;
mod requests;
mod spec;
pub mod text;
pub mod view;
mod volume;

use serde::Deserialize;

use self::limits::{EntryLimits, Origin};
pub use self::requests::Share;

/// Why an object could not be parsed. Names the kind, the field and the error.
#[derive(Debug, thiserror::Error)]
#[error("{kind}{}{path}: {problem}", dot_before(.path))]
pub struct ObjectError {
    kind: &'static str,
    path: String,
    problem: String,
}

fn dot_before(path: &str) -> &'static str {
    if path.is_empty() { "" } else { "." }
}

impl ObjectError {
    /// The path of the invalid field, such as `spec.containers[0].resources.requests.cpu`; `?` where the text is
    /// not JSON, and empty if it applies to the whole object.
    pub fn path(&self) -> &str {
        &self.path
    }

    fn new(kind: &'static str, path: &str, problem: impl Into<String>) -> Self {
        Self { kind, path: path.to_owned(), problem: problem.into() }
    }
}

/// Parses all of `json` as one object. The path of an error is found by parsing a second time, so that valid
/// objects do not pay for it.
fn read<'a, T>(kind: &'static str, json: &'a [u8], origin: Origin) -> Result<T, ObjectError>
where
    T: Deserialize<'a> + Default,
{
    let limits = EntryLimits::of(origin);
    let mut text = serde_json::Deserializer::from_slice(json);
    let object = json::object(&mut text);
    object.and_then(|object| text.end().map(|()| object)).map_err(|error| {
        drop(limits);
        let path = path_of_mistake::<T>(json, origin).unwrap_or_else(|| "?".to_owned());
        ObjectError::new(kind, &path, error.to_string())
    })
}

/// The path at which parsing stops; `None` if it succeeds, for example with text after the object.
fn path_of_mistake<'a, T: Deserialize<'a> + Default>(json: &'a [u8], origin: Origin) -> Option<String> {
    let _limits = EntryLimits::of(origin);
    let mut track = serde_path_to_error::Track::new();
    let mut text = serde_json::Deserializer::from_slice(json);
    let deserializer = serde_path_to_error::Deserializer::new(&mut text, &mut track);
    let read: Result<T, _> = json::with_tracked_keys(|| json::object(deserializer));
    read.err().map(|_| track.path().to_string())
}

#[cfg(test)]
mod tests;
