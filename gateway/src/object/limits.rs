//! How large an object in a call may be.
//!
//! Each limit is above what kube-apiserver accepts (3 MiB a request) or etcd stores (1.5 MiB an object by default), so that
//! no object of a cluster meets one, and low enough that one object cannot occupy the thread that answers calls. Objects
//! from the watch are not limited here: etcd has done that, and the watch has a thread of its own.

use serde::Deserialize;

use super::{ObjectError, json::object, meta::Meta};

/// The most JSON of one object, in bytes. What etcd stores is protobuf, of which JSON is a multiple: a `<` is written as
/// six bytes.
pub const MOST_BYTES: usize = 16 << 20;
/// The most entries of one list or map, and the most amounts of resources in all containers of a pod together.
pub const MOST_ENTRIES: usize = 20_000;
/// The longest name, namespace or UID, in bytes: Kubernetes has names of up to 253.
pub const LONGEST_NAME: usize = 1024;

/// What is measured of an object that has been read.
pub(super) struct Measures<'o, const LISTS: usize> {
    /// `Pod` or `Node`.
    pub(super) kind: &'static str,
    /// The object, for whoever has to find it.
    pub(super) name: &'o str,
    /// Names by their paths.
    pub(super) names: [(&'static str, usize); 3],
    /// Lists and maps by their paths.
    pub(super) lists: [(&'static str, usize); LISTS],
}

impl<const LISTS: usize> Measures<'_, LISTS> {
    /// # Errors
    /// Something is above its limit.
    pub(super) fn check(&self) -> Result<(), ObjectError> {
        let long = self.names.iter().find(|(_, bytes)| *bytes > LONGEST_NAME);
        if let Some((path, bytes)) = long {
            let problem = format!("{bytes} bytes, and the gateway accepts at most {LONGEST_NAME}");
            return Err(ObjectError::new(self.kind, path, problem));
        }
        match self.lists.iter().find(|(_, entries)| *entries > MOST_ENTRIES) {
            Some((path, entries)) => {
                let name = self.name;
                let problem =
                    format!("{name} has {entries} entries, and the gateway accepts at most {MOST_ENTRIES}");
                Err(ObjectError::new(self.kind, path, problem))
            }
            None => Ok(()),
        }
    }
}

/// # Errors
/// The JSON of an object is longer than any object is.
pub(super) fn check_bytes(kind: &'static str, json: &[u8]) -> Result<(), ObjectError> {
    if json.len() <= MOST_BYTES {
        return Ok(());
    }
    let name = name_of(json).unwrap_or_default();
    let problem =
        format!("{name} has {} bytes of JSON, and the gateway accepts at most {MOST_BYTES}", json.len());
    Err(ObjectError::new(kind, "", problem))
}

/// The name of an object of which nothing else is read, as far as it is a name.
fn name_of(json: &[u8]) -> Option<String> {
    #[derive(Debug, Default, Deserialize)]
    #[serde(default)]
    struct NamedObject<'a> {
        #[serde(borrow, deserialize_with = "object")]
        metadata: Meta<'a>,
    }
    let NamedObject { metadata } = serde_json::from_slice(json).ok()?;
    (metadata.name.len() <= LONGEST_NAME).then(|| metadata.name.to_string())
}

#[cfg(test)]
mod tests;
