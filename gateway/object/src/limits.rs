//! Limits the size of objects in calls.
//!
//! Each limit is above what kube-apiserver accepts (3 MiB per request) or etcd stores (1.5 MiB per object by
//! default), so that no object of a cluster reaches it, and low enough that one object cannot occupy the thread
//! that serves calls. Lists and maps are counted while they are parsed: an empty entry takes 3 bytes of JSON and a
//! hundred bytes of memory. Objects from the watch are not limited here: etcd has limited them, and the watch has a
//! separate thread.

use std::{borrow::Cow, cell::Cell, marker::PhantomData};

use serde::{Deserialize, de};

use super::ObjectError;

/// The most JSON of one object, in bytes. etcd stores protobuf, and JSON is a multiple of it: a `<` is written as
/// six bytes.
pub const MOST_BYTES: usize = 16 << 20;
/// The most entries of one list or map, and the most amounts of resources in all containers of a pod together.
pub const MOST_ENTRIES: usize = 20_000;
/// The longest name, namespace or UID, in bytes: names in Kubernetes have up to 253.
pub const LONGEST_NAME: usize = 1024;
/// The most entries of all lists and maps of an object together: more than an object can have whose lists are
/// within their limits, except for nested lists.
const MOST_IN_ALL: usize = 20 * MOST_ENTRIES;
/// The most entries of all lists and maps of the unknown nodes in one call: about a second of work. 20,000 nodes
/// have that many.
const MOST_OF_NODES: usize = 2_000_000;

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Origin {
    Cluster,
    Call,
}

/// How many more entries the current object may have.
#[derive(Debug, Clone, Copy)]
struct EntriesLeft {
    /// In one list or map.
    each: usize,
    /// In the following lists and maps together.
    all: usize,
}

impl EntriesLeft {
    const UNLIMITED: Self = Self { each: usize::MAX, all: usize::MAX };
}

thread_local! {
    // Derived implementations of `Deserialize` have no other way to pass a value to the lists in an object.
    static LEFT: Cell<EntriesLeft> = const { Cell::new(EntriesLeft::UNLIMITED) };
}

/// Limits the lists and maps that are parsed on this thread, until it is dropped.
pub struct EntryLimits {
    before: EntriesLeft,
    given: usize,
    /// Not `Send`: it must be dropped on the thread that created it.
    thread: PhantomData<*const ()>,
}

impl EntryLimits {
    /// Limits for all objects of a call that are parsed until it is dropped.
    pub fn of_all_nodes() -> Self {
        Self::new(EntriesLeft { each: MOST_ENTRIES, all: MOST_OF_NODES })
    }

    /// Limits for an object of this origin.
    pub(super) fn of(origin: Origin) -> Self {
        match origin {
            Origin::Cluster => Self::new(EntriesLeft::UNLIMITED),
            Origin::Call => {
                Self::new(EntriesLeft { each: MOST_ENTRIES, all: LEFT.get().all.min(MOST_IN_ALL) })
            }
        }
    }

    /// Whether all of the entries are used up.
    pub fn are_reached(&self) -> bool {
        self.given > 0 && LEFT.get().all == 0
    }

    fn new(left: EntriesLeft) -> Self {
        Self { before: LEFT.replace(left), given: left.all, thread: PhantomData }
    }
}

impl Drop for EntryLimits {
    fn drop(&mut self) {
        let used = self.given - LEFT.get().all;
        LEFT.set(EntriesLeft { all: self.before.all.saturating_sub(used), ..self.before });
    }
}

/// Counts an entry of a list or map that has `before` earlier entries.
///
/// # Errors
/// There are more than an object of its origin may have.
pub(super) fn count_entry<E: de::Error>(before: usize) -> Result<(), E> {
    let EntriesLeft { each, all } = LEFT.get();
    if each == usize::MAX {
        return Ok(());
    }
    if before >= each {
        return Err(E::custom(format!(
            "more than {MOST_ENTRIES} entries, which is the most that the gateway accepts"
        )));
    }
    let Some(all) = all.checked_sub(1) else {
        return Err(E::custom(format!(
            "more entries than the gateway accepts: {MOST_IN_ALL} in all lists of an object, {MOST_OF_NODES} in those \
             of all new nodes of a call"
        )));
    };
    LEFT.set(EntriesLeft { each, all });
    Ok(())
}

/// # Errors
/// The JSON is longer than that of any object.
pub(super) fn check_bytes(kind: &'static str, json: &[u8]) -> Result<(), ObjectError> {
    if json.len() <= MOST_BYTES {
        return Ok(());
    }
    let name = name_of(json).unwrap_or_default();
    let problem =
        format!("{name} has {} bytes of JSON, and the gateway accepts at most {MOST_BYTES}", json.len());
    Err(ObjectError::new(kind, "", problem))
}

/// The name of an object that is not parsed further, if it is a valid name.
fn name_of(json: &[u8]) -> Option<String> {
    #[derive(Debug, Default, Deserialize)]
    #[serde(default)]
    struct NamedObject<'a> {
        #[serde(borrow)]
        metadata: NamedMeta<'a>,
    }
    #[derive(Debug, Default, Deserialize)]
    #[serde(default)]
    struct NamedMeta<'a> {
        #[serde(borrow)]
        name: Cow<'a, str>,
    }
    let NamedObject { metadata } = serde_json::from_slice(json).ok()?;
    (metadata.name.len() <= LONGEST_NAME).then(|| metadata.name.into_owned())
}

#[cfg(test)]
mod tests;
