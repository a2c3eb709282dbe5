//! What a declaration returns and a policy reads with. It holds its own text: in a verb that declares it elsewhere, it is
//! found by the text.

use std::sync::Arc;

/// A map of an object's metadata.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub(crate) enum Map {
    Labels,
    Annotations,
}

/// A label or an annotation of nodes, from [`Reads::node_label`](crate::Reads::node_label) or
/// [`Reads::node_annotation`](crate::Reads::node_annotation): what [`Node::get`](crate::Node::get) reads. A clone
/// costs a counter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodeKey(pub(crate) Key);

/// A label or an annotation of pods, from [`Reads::pod_label`](crate::Reads::pod_label) or
/// [`Reads::pod_annotation`](crate::Reads::pod_annotation): what [`Pod::get`](crate::Pod::get) reads. A clone costs a
/// counter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodKey(pub(crate) Key);

/// Labels or annotations of nodes with a prefix: what [`Node::entries`](crate::Node::entries) reads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct NodePrefix(pub(crate) Prefix);

/// Labels or annotations of pods with a prefix: what [`Pod::entries`](crate::Pod::entries) reads.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodPrefix(pub(crate) Prefix);

/// A key of a map.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Key {
    pub(crate) map: Map,
    pub(crate) text: Arc<str>,
    /// The number of keys of the map that were declared before it: where its declaration finds it first.
    pub(crate) order: usize,
}

/// A prefix of keys of a map.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub(crate) struct Prefix {
    pub(crate) map: Map,
    pub(crate) text: Arc<str>,
}
