//! What the table's writer knows about one node, and the list of nodes while it arrives.
//!
//! A node's facts are kept with all annotations, in the contract's encoding: rows of later views are made from them,
//! and equal facts have equal bytes, which distinguishes a heartbeat from a change. JSON is kept only while a view has
//! it, as a slice of such a view's row.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use extender_gateway_contract::{
    facts,
    row::{self, RowMessage, RowView},
};
use extender_gateway_object::{
    ObjectError,
    counted::{CountedBy, PodCountView},
    node::{self, ObjectNode},
};
use extender_policy_api::v1beta1::{NodeFacts, NodeUsage, PodCounts};
use prost::Message;

use crate::usage::{NodePods, UsageChange};

/// A map by node name. Maps share the names.
pub(super) type NodeNames<T> = HashMap<Arc<str>, T, foldhash::fast::RandomState>;

/// The pods on the nodes.
#[derive(Debug, Default)]
pub(super) struct KnownPods {
    /// Without nodes that have no pods.
    nodes: NodeNames<NodePods>,
    /// What the pods that are nominated to nodes request; without nodes that have none.
    nominated: NodeNames<NodeUsage>,
    /// By what they are counted; `None` before the first change.
    counted_by: Option<Arc<[CountedBy]>>,
}

impl KnownPods {
    /// Sets what has changed. Returns whether this can concern nodes that the change does not name.
    pub(super) fn apply(&mut self, change: &UsageChange) -> bool {
        set(&mut self.nodes, &change.nodes);
        set(&mut self.nominated, &change.nominated);
        let before = self.counted_by.replace(Arc::clone(&change.counted_by));
        before.is_none_or(|before| before != change.counted_by)
    }

    pub(super) fn usage(&self, node: &str) -> NodeUsage {
        self.nodes.get(node).map(|pods| pods.usage.clone()).unwrap_or_default()
    }

    fn nominated(&self, node: &str) -> NodeUsage {
        self.nominated.get(node).cloned().unwrap_or_default()
    }

    /// The counts of a node in a view; `None` while pods are not counted by this.
    fn counts(&self, node: &str, view: &PodCountView) -> Option<PodCounts> {
        let place = self.counted_by.as_ref()?.binary_search(&view.by).ok()?;
        let counts = self.nodes.get(node).and_then(|pods| pods.counts.get(place));
        let mut counts = counts.cloned().unwrap_or_default();
        if !view.requests {
            counts.counts.iter_mut().for_each(|count| count.requested = None);
        }
        Some(counts)
    }
}

/// Sets what has changed; the default is not kept.
fn set<T: Clone + Default + PartialEq>(known: &mut NodeNames<T>, changed: &[(Arc<str>, T)]) {
    for (name, value) in changed {
        if *value == T::default() {
            known.remove(name);
        } else {
            known.insert(Arc::clone(name), value.clone());
        }
    }
}

/// A row as it is with these pods on its node, as far as the view shows them.
///
/// # Panics
/// `entry` is not the gateway's own encoding.
pub fn row_with_pods(entry: &Bytes, name: &str, view: &RowView, change: &UsageChange) -> Bytes {
    let mut known = KnownPods::default();
    known.apply(change);
    let mut row = row::decoded(entry);
    if row.usage.is_some() {
        row.usage = Some(known.usage(name));
    }
    if row.nominated.is_some() {
        row.nominated = Some(known.nominated(name));
    }
    let counts = view.pod_counts().iter().map(|counts| known.counts(name, counts));
    // While pods are counted anew, the row has what was counted before.
    if let Some(counts) = counts.collect() {
        row.pod_counts = counts;
    }
    row::encoded(&row)
}

/// What is known about a node; the default if only its name is.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct NodeEntry {
    facts: Option<Bytes>,
    /// The node's JSON if it is kept.
    pub(super) raw: Option<Bytes>,
}

impl NodeEntry {
    pub(super) fn new(object: &ObjectNode<'_>, raw: Option<&[u8]>) -> Self {
        let facts = object.facts().encode_to_vec().into();
        Self { facts: Some(facts), raw: raw.map(Bytes::copy_from_slice) }
    }

    /// The size of the node's JSON in bytes.
    pub(super) fn raw_len(&self) -> usize {
        self.raw.as_ref().map_or(0, Bytes::len)
    }

    /// The node's row in a view; `None` if something that the view contains is unknown. `pods` is `None` until pods are
    /// known.
    pub(super) fn row(&mut self, name: &str, view: &RowView, pods: Option<&KnownPods>) -> Option<Bytes> {
        let usage = if view.wants_usage() { Some(pods?.usage(name)) } else { None };
        let nominated = if view.wants_nominated() { Some(pods?.nominated(name)) } else { None };
        let counted = view.pod_counts().iter().map(|counts| pods?.counts(name, counts));
        let pod_counts = counted.collect::<Option<Vec<_>>>()?;
        let json = if view.needs_json() { Some(self.raw.as_deref()?) } else { None };
        let images = json.filter(|_| view.wants_images()).map(node::images).unwrap_or_default();
        let facts = match view.facts() {
            Some(view) => Some(facts::in_view(self.facts.as_ref()?, view, &images)),
            None => None,
        };
        let row = RowMessage {
            name: if view.has_name() { name } else { "" },
            facts: facts.as_deref(),
            raw: json.filter(|_| view.wants_raw()),
            usage: usage.as_ref(),
            pod_counts: &pod_counts,
            nominated: nominated.as_ref(),
        };
        let behind = row.behind_the_json();
        let mut entry = Vec::with_capacity(row.encoded_len());
        row.encode(&mut entry);
        let entry = Bytes::from(entry);
        if let (true, Some(raw)) = (view.wants_raw(), &mut self.raw) {
            // One copy of the JSON serves both.
            let end = entry.len() - behind;
            *raw = entry.slice(end - raw.len()..end);
        }
        Some(entry)
    }

    /// The value of a label; `None` if the node does not have it, or if only its name is known.
    pub(super) fn label(&self, key: &str) -> Option<&str> {
        facts::label(self.facts.as_ref()?, key)
    }

    /// The node's facts; `None` if only its name is known.
    pub(super) fn facts(&self) -> Option<NodeFacts> {
        Some(NodeFacts::decode(&**self.facts.as_ref()?).expect("the table encoded these facts itself"))
    }
}

/// The nodes of a list while it arrives, perhaps in several pages.
#[derive(Debug)]
pub struct NodeRelist {
    pub(super) keeps_raw: bool,
    pub(super) nodes: NodeNames<NodeEntry>,
}

impl NodeRelist {
    /// Adds a node. Returns false if it replaces an earlier one of the same name.
    pub fn add(&mut self, json: &[u8]) -> Result<bool, ObjectError> {
        let object = node::parse(json)?;
        let entry = NodeEntry::new(&object, self.keeps_raw.then_some(json));
        Ok(self.nodes.insert(object.name().into(), entry).is_none())
    }
}
