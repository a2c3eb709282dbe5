//! Nodes as a policy sees them: borrowed views over the request, which stays encoded. [`row`] is one node of it,
//! [`content`] what it has besides its name, [`shape`] validates it on arrival, [`facts`] reads fields of it, [`counts`]
//! the counts of pods, [`labels`] and [`values`] fields of a stored row.

#[doc(hidden)]
pub mod content;
mod counts;
mod facts;
mod labels;
#[doc(hidden)]
pub mod row;
mod shape;
mod values;

use std::fmt;

use extender_policy_api::v1beta1::{NodeAddress, NodeImage, NodeUsage, Resources, SystemInfo, Taint};

pub use self::counts::{PodCount, PodsLike};
use self::{
    facts::{Facts, Whole},
    row::RowRef,
};
use crate::{
    NodeKey, NodePart, NodePrefix, Pod, PodsKey,
    pod::given,
    reads::{Map, access::Access, keys::Place},
};

/// The nodes of one call, in the order of the request.
#[derive(Clone, Copy)]
pub struct Nodes<'a> {
    rows: &'a [RowRef<'a>],
    access: Access<'a>,
}

impl<'a> Nodes<'a> {
    #[doc(hidden)]
    pub fn new(rows: &'a [RowRef<'a>], access: Access<'a>) -> Self {
        Self { rows, access }
    }

    /// Each node in turn.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Node<'a>> + use<'a> {
        let access = self.access;
        self.rows.iter().map(move |row| Node { row: *row, access })
    }

    /// How many there are; never 0 in a call.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

impl fmt::Debug for Nodes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// One node, with what the verb declares with [`Verb::reads`](crate::Verb::reads).
///
/// Fields are read from the encoded request, or from the table of nodes, where labels are stored for lookup: no
/// memory is allocated for a label. Only what is returned as a message, such as taints and amounts, is decoded, once, at its
/// first use.
///
/// # Panics
///
/// All methods that read something else than what is declared, as [`Reads`](crate::Reads) explains.
#[derive(Clone, Copy)]
pub struct Node<'a> {
    row: RowRef<'a>,
    access: Access<'a>,
}

impl<'a> Node<'a> {
    /// metadata.name.
    #[track_caller]
    pub fn name(&self) -> &'a str {
        self.access.part(NodePart::Name);
        self.row.name
    }

    /// The value of a declared label or annotation; `None` when the node does not have it.
    #[track_caller]
    pub fn get(&self, key: &NodeKey) -> Option<&'a str> {
        let NodeKey(key) = key;
        self.value(key.map, &key.text, self.access.key(key))
    }

    /// The labels or annotations with a declared prefix, by key.
    #[track_caller]
    pub fn entries<'p>(
        &self,
        prefix: &'p NodePrefix,
    ) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a, 'p> {
        let NodePrefix(prefix) = prefix;
        self.access.prefix(prefix);
        let entries = self.facts().into_iter().flat_map(|facts| facts.map(prefix.map).entries());
        entries.filter(|(key, _)| key.starts_with(&*prefix.text))
    }

    /// The value of a label; `None` when the node does not have it.
    #[track_caller]
    pub fn label(&self, key: &str) -> Option<&'a str> {
        self.value(Map::Labels, key, self.access.text(Map::Labels, key))
    }

    /// All labels, by key, which the prefix "" declares.
    #[track_caller]
    pub fn labels(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        self.access.entries(Map::Labels, "");
        self.facts().into_iter().flat_map(|facts| facts.map(Map::Labels).entries())
    }

    /// The value of an annotation; `None` when the node does not have it.
    #[track_caller]
    pub fn annotation(&self, key: &str) -> Option<&'a str> {
        self.value(Map::Annotations, key, self.access.text(Map::Annotations, key))
    }

    /// spec.taints, in order.
    #[track_caller]
    pub fn taints(&self) -> &'a [Taint] {
        self.access.part(NodePart::Taints);
        self.whole().map_or(&[], |whole| &whole.taints)
    }

    /// spec.unschedulable: whether the node is cordoned.
    #[track_caller]
    pub fn is_unschedulable(&self) -> bool {
        self.access.part(NodePart::Unschedulable);
        self.facts().is_some_and(Facts::is_unschedulable)
    }

    /// The status of a condition: "True", "False" or "Unknown"; `None` when it is not reported.
    #[track_caller]
    pub fn condition(&self, kind: &str) -> Option<&'a str> {
        self.access.part(NodePart::Conditions);
        self.facts()?.condition(kind)
    }

    /// status.capacity; `None` while it is not reported.
    #[track_caller]
    pub fn capacity(&self) -> Option<&'a Resources> {
        self.access.part(NodePart::Capacity);
        self.whole()?.capacity.as_ref()
    }

    /// status.allocatable, the total that pods may request; `None` while it is not reported.
    #[track_caller]
    pub fn allocatable(&self) -> Option<&'a Resources> {
        self.access.part(NodePart::Allocatable);
        self.whole()?.allocatable.as_ref()
    }

    /// status.images, in order.
    #[track_caller]
    pub fn images(&self) -> &'a [NodeImage] {
        self.access.part(NodePart::Images);
        self.whole().map_or(&[], |whole| &whole.images)
    }

    /// status.nodeInfo, without what changes at a reboot; `None` while it is not reported.
    #[track_caller]
    pub fn system_info(&self) -> Option<&'a SystemInfo> {
        self.access.part(NodePart::SystemInfo);
        self.whole()?.system_info.as_ref()
    }

    /// status.addresses, in order.
    #[track_caller]
    pub fn addresses(&self) -> &'a [NodeAddress] {
        self.access.part(NodePart::Addresses);
        self.whole().map_or(&[], |whole| &whole.addresses)
    }

    /// spec.providerID; `None` if not set.
    #[track_caller]
    pub fn provider_id(&self) -> Option<&'a str> {
        self.access.part(NodePart::ProviderId);
        given(self.facts()?.provider_id())
    }

    /// What the pods on the node have requested; `None` when it is not known. It lags behind what kube-scheduler assumes, usually
    /// by some milliseconds: no basis for an exclusive allocation.
    #[track_caller]
    pub fn usage(&self) -> Option<&'a NodeUsage> {
        self.access.part(NodePart::Usage);
        self.row.content.usage()
    }

    /// What the pods that are nominated to the node (status.nominatedNodeName) and not bound request, `pods` being their number;
    /// `None` when it is not known. They wait for room there after preemption, the pod to be placed among them. It lags behind
    /// as [`usage`](Self::usage) does, which has none of them.
    #[track_caller]
    pub fn nominated(&self) -> Option<&'a NodeUsage> {
        self.access.part(NodePart::Nominated);
        self.row.content.nominated()
    }

    /// The pods on the node that are like this one: with the same owner, namespace, value of the label or priority
    /// class, as the key declares. `None` if the pod lacks that: a pod without a controller has no siblings.
    ///
    /// Pods count from when they are bound until they have ended or are gone, also while they are being deleted; the
    /// pod of a call is none of them. The count lags behind what kube-scheduler assumes by the time that a Binding
    /// needs, usually some milliseconds: the pod that it placed before may be missing.
    #[track_caller]
    pub fn pods_like<'c>(&self, key: &PodsKey, pod: &Pod<'c>) -> Option<PodsLike<'c>>
    where
        'a: 'c,
    {
        let PodsKey(by) = key;
        let counted = self.access.pods(by);
        let attribute = by.of(pod)?;
        Some(self.row.content.pod_counts(counted.position).like(counted, attribute))
    }

    /// The pods on the node, counted as the key declares, by namespace and value. Not those of
    /// [`omitted_pods`](Self::omitted_pods), and not those that lack what is counted by.
    #[track_caller]
    pub fn pod_counts(&self, key: &PodsKey) -> impl Iterator<Item = PodCount<'a>> + use<'a> {
        let counted = self.access.pods(&key.0);
        self.row.content.pod_counts(counted.position).counts(counted)
    }

    /// How many pods [`pod_counts`](Self::pod_counts) leaves out. The gateway sends at most 512 counts of a node, those
    /// with the most pods, and none whose value is longer than 253 bytes: usually 0.
    #[track_caller]
    pub fn omitted_pods(&self, key: &PodsKey) -> u32 {
        self.row.content.pod_counts(self.access.pods(&key.0).position).omitted_pods()
    }

    /// The object's JSON, unchanged; `None` if the gateway has none.
    #[track_caller]
    pub fn raw_json(&self) -> Option<&'a [u8]> {
        self.access.part(NodePart::RawJson);
        Some(self.row.content.raw_json()).filter(|raw| !raw.is_empty())
    }

    fn value(self, map: Map, key: &str, place: Place) -> Option<&'a str> {
        match (place, map) {
            (Place::Value(position), _) => self.row.content.value(map, position),
            (Place::Entry, Map::Labels) => self.row.content.label(key),
            (Place::Entry, Map::Annotations) => self.facts()?.map(map).at(key),
        }
    }

    fn facts(self) -> Option<Facts<'a>> {
        self.row.content.facts()
    }

    fn whole(self) -> Option<&'a Whole> {
        self.row.content.whole()
    }
}

impl fmt::Debug for Node<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("name", self.row.name).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
