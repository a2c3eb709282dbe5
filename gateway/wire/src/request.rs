//! The body of filter and prioritize: `ExtenderArgs`.

use std::{ops::Range, sync::Arc};

use bytes::Bytes;
use extender_gateway_object::limits::LONGEST_NAME;

use super::{
    Names, WireError,
    json::{Cursor, RawString, key_is, name_fits},
};

/// The most nodes of a request. Kubernetes supports 5,000; a body of millions of tiny names would take many
/// times its size in memory.
pub(super) const MOST_NODES: usize = 100_000;
/// The bytes of a short name in a list.
const SHORT_NAME: usize = 16;
/// The names for which there is memory before they are read.
const FIRST_NAMES: usize = 1024;
/// A node's name in errors.
const NAME: &str = "a node's name";
/// The beginning of a node as Go encodes it. Others are read as well, without known objects.
const BEFORE_THE_NAME: &str = r#"{"metadata":{"name":""#;

/// A filter or prioritize request, as positions in its body.
#[derive(Debug)]
pub struct Request {
    body: Bytes,
    pod: Range<usize>,
    /// The name at each entry of the body; none if the body is only a pod.
    quoted: Vec<RawString>,
    /// The names of the nodes, in either form.
    pub names: Arc<Names>,
    /// The form of the nodes.
    pub offer: Offer,
    /// The spelling of the keys.
    pub keys: Keys,
}

/// The spelling of a caller's keys, which distinguishes old types from newer ones.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Keys {
    /// `Pod`, or anything else.
    Usual,
    /// `pod`: kube-scheduler 1.3 to 1.5, and callers with the types of `pkg/scheduler/api/v1` of Kubernetes up to 1.16,
    /// which do not know `FailedAndUnresolvableNodes`.
    LowerCase,
}

/// How kube-scheduler offers nodes.
#[derive(Debug)]
pub enum Offer {
    /// By name (`nodeCacheCapable: true`).
    Names,
    /// As full objects (`nodeCacheCapable: false`), at these ranges of the body.
    Objects(Vec<Range<usize>>),
}

/// The JSON of nodes that earlier calls brought.
pub trait KnownObjects {
    /// The JSON of the node of this name.
    fn json(&self, name: &str) -> Option<&[u8]>;
}

/// None.
impl KnownObjects for () {
    fn json(&self, _: &str) -> Option<&[u8]> {
        None
    }
}

impl Request {
    /// Slices a body, like [`Request::read_with`] without known objects.
    ///
    /// # Errors
    /// As there.
    pub fn read(body: Bytes) -> Result<Self, WireError> {
        Self::read_with(body, &())
    }

    /// Slices a body. Nodes that have not changed since an earlier call are compared with what it brought, which is less
    /// work than to find their ends.
    ///
    /// As in Go's `encoding/json`, keys match in any letter case, the last of equal keys counts, and unknown keys
    /// are ignored.
    ///
    /// # Errors
    /// The JSON is malformed as far as it is read, the pod is missing, or not exactly one of `Nodes` and
    /// `NodeNames` is set. An empty list counts as set.
    pub fn read_with(body: Bytes, known: &impl KnownObjects) -> Result<Self, WireError> {
        let (mut pod, mut names, mut nodes, mut keys) = (None, None, None, Keys::Usual);
        let mut cursor = Cursor::new(&body);
        cursor.object(|cursor, key| {
            if key_is(key, "Pod") {
                keys = if key == b"pod" { Keys::LowerCase } else { Keys::Usual };
                pod = cursor.optional(pod_object)?;
            } else if key_is(key, "NodeNames") {
                names = cursor.optional(node_names)?;
            } else if key_is(key, "Nodes") {
                nodes = cursor.optional(|cursor| node_list(cursor, known))?;
            } else {
                cursor.value()?;
            }
            Ok(())
        })?;
        cursor.end()?;
        let pod = pod.ok_or_else(no_pod)?;
        let (quoted, offer) = match (names, nodes) {
            (Some(names), None) => (names, Offer::Names),
            (None, Some((names, objects))) => (names, Offer::Objects(objects)),
            (Some(_), Some(_)) => return Err(not_one("both Nodes and NodeNames")),
            (None, None) => return Err(not_one("neither Nodes nor NodeNames")),
        };
        let names = Arc::new(Names::read(&body, &quoted)?);
        Ok(Self { body, pod, quoted, names, offer, keys })
    }

    /// A request about nodes of these names. Neither they nor the pod's JSON are copied, so a [reply](super::reply), which has
    /// the names as they are in the body, can only be written to a request that was read.
    ///
    /// # Errors
    /// The pod is not a JSON object, or malformed as far as it is read.
    pub fn about(pod: Bytes, names: Arc<Names>) -> Result<Self, WireError> {
        let mut cursor = Cursor::new(&pod);
        let object = cursor.optional(pod_object)?.ok_or_else(no_pod)?;
        cursor.end()?;
        let (quoted, offer, keys) = (Vec::new(), Offer::Names, Keys::Usual);
        Ok(Self { body: pod, pod: object, quoted, names, offer, keys })
    }

    /// The pod's JSON.
    pub fn pod(&self) -> Bytes {
        self.body.slice(self.pod.clone())
    }

    /// The JSON of a node; `None` if only names were sent.
    #[inline]
    pub fn object(&self, node: u32) -> Option<&[u8]> {
        match &self.offer {
            Offer::Names => None,
            Offer::Objects(objects) => Some(&self.body[objects[self.names.first_entry(node)].clone()]),
        }
    }

    /// The name at an entry, with the quotes and escapes of the body.
    pub(super) fn quoted(&self, entry: usize) -> &[u8] {
        &self.body[self.quoted[entry].quoted()]
    }

    /// The range of the element at an entry in the body: a quoted name, or an object.
    pub(super) fn element(&self, entry: usize) -> Range<usize> {
        match &self.offer {
            Offer::Names => self.quoted[entry].quoted(),
            Offer::Objects(objects) => objects[entry].clone(),
        }
    }

    pub(super) fn body(&self) -> &Bytes {
        &self.body
    }
}

fn no_pod() -> WireError {
    WireError::whole("the request has no Pod")
}

pub(super) fn not_one(what: &str) -> WireError {
    WireError::whole(format!("the request has {what}; exactly one of them is expected"))
}

pub(super) fn pod_object(cursor: &mut Cursor<'_>) -> Result<Range<usize>, WireError> {
    match cursor.peek() {
        Some(b'{') => cursor.value(),
        _ => Err(WireError::at(cursor.place(), "the Pod is not an object")),
    }
}

fn node_names(cursor: &mut Cursor<'_>) -> Result<Vec<RawString>, WireError> {
    // The list ends the body of kube-scheduler. With a repeated key it does not, and has at most 12 KiB more than it needs.
    let mut names: Vec<RawString> = Vec::with_capacity((cursor.rest() / SHORT_NAME).min(FIRST_NAMES));
    cursor.array(|cursor| {
        names.push(cursor.string(NAME)?);
        bounded(names.len(), MOST_NODES, "nodes", cursor)
    })?;
    // All at once, which takes less than a comparison for each while they are read.
    let longest = names.iter().map(|name| name.inner().len()).max().unwrap_or(0);
    if longest > LONGEST_NAME {
        names.iter().try_for_each(|name| name_fits(NAME, name.quoted().start, name.inner().len()))?;
    }
    Ok(names)
}

/// Fails if `count` is above `most`; `what` names what is counted.
#[inline]
pub(super) fn bounded(count: usize, most: usize, what: &str, cursor: &Cursor<'_>) -> Result<(), WireError> {
    if count <= most { Ok(()) } else { Err(too_many(cursor, most, what)) }
}

#[cold]
fn too_many(cursor: &Cursor<'_>, most: usize, what: &str) -> WireError {
    WireError::at(cursor.place(), format!("more than {most} {what}"))
}

/// The names of the nodes, and the ranges of their objects.
type NodeObjects = (Vec<RawString>, Vec<Range<usize>>);

fn node_list(cursor: &mut Cursor<'_>, known: &impl KnownObjects) -> Result<NodeObjects, WireError> {
    let items = cursor.member("items", |cursor| cursor.optional(|cursor| node_objects(cursor, known)))?;
    Ok(items.flatten().unwrap_or_default())
}

fn node_objects(cursor: &mut Cursor<'_>, known: &impl KnownObjects) -> Result<NodeObjects, WireError> {
    let (mut names, mut objects) = NodeObjects::default();
    cursor.array(|cursor| {
        cursor.peek();
        let start = cursor.place();
        if let Some(name) = cursor.known_object(BEFORE_THE_NAME, |name| known.json(name))? {
            names.push(name);
            objects.push(start..cursor.place());
            return bounded(objects.len(), MOST_NODES, "nodes", cursor);
        }
        let mut name = None;
        // Go merges metadata that is there twice.
        cursor.member("metadata", |cursor| {
            let read = cursor.optional(|cursor| cursor.member("name", |cursor| cursor.name(NAME)))?;
            name = read.flatten().or(name);
            Ok(())
        })?;
        names.push(name.ok_or_else(|| WireError::at(start, "a node without metadata.name"))?);
        objects.push(start..cursor.place());
        bounded(objects.len(), MOST_NODES, "nodes", cursor)
    })?;
    Ok((names, objects))
}

#[cfg(test)]
mod tests;
