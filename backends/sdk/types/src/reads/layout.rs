//! A declaration as both sides of a call use it: the contract's message, and where each value is.

use std::sync::LazyLock;

use extender_policy_api::v1beta1 as api;
use prost::Message as _;

use super::{
    Declared, Reads,
    key::Map,
    keys::Places,
    parts::Parts,
    pods::{PodsBy, SentCount},
    topology::{SentTopology, Topology},
    values::Counts,
};
use crate::digest::{Digest, sha256};

/// A compiled [`Reads`] without mistakes.
#[derive(Debug)]
pub struct Layout {
    pub pod: SentFields,
    pub node: SentFields,
    /// As in the handshake.
    pub(crate) message: api::Reads,
    /// `Call.reads` of the requests that this declaration asks for.
    pub(crate) digest: Digest,
    /// What rows have: that part of the message, if empty.
    pub rows: api::NodeReads,
}

/// What is sent of one kind of object.
#[derive(Debug)]
pub struct SentFields {
    pub(super) object: &'static str,
    /// What `everything` includes, which is sent without being named: empty if that is not declared.
    everything: Parts,
    pub(super) parts: Parts,
    pub(super) labels: Places,
    pub(super) annotations: Places,
    /// Of nodes alone. Ascending.
    pub(super) pods: Box<[SentCount]>,
    /// Of the pod to be placed alone. Ascending.
    pub(super) topologies: Box<[SentTopology]>,
}

/// Everything but counts of pods, with keys for all labels and annotations: as tests of policies hold pods and nodes.
pub fn everything() -> &'static Layout {
    static EVERYTHING: LazyLock<Layout> = LazyLock::new(|| Layout::new(&Reads::new().and_everything(false)));
    &EVERYTHING
}

impl Layout {
    pub(crate) fn new(reads: &Reads) -> Self {
        let (pod, node) = (
            SentFields::new("pod", &reads.pod, Parts::of_pods()),
            SentFields::new("node", &reads.node, Parts::of_nodes()),
        );
        let rows = node.node_reads();
        let message = api::Reads {
            pod: Some(pod.pod_reads()).filter(|reads| *reads != api::PodReads::default()),
            node: Some(rows.clone()).filter(|rows| *rows != api::NodeReads::default()),
        };
        let digest = sha256(&message.encode_to_vec());
        Self { pod, node, message, digest, rows }
    }
}

impl SentFields {
    /// `included` are the parts that `everything` includes.
    fn new(object: &'static str, declared: &Declared, included: Parts) -> Self {
        let Declared { everything, parts, labels, annotations, pods, topologies } = declared;
        let (labels, annotations) = (labels.places(), annotations.places());
        let (pods, topologies) = (pods.sent(), topologies.sent());
        let everything = if *everything { included } else { Parts::default() };
        Self { object, everything, parts: *parts, labels, annotations, pods, topologies }
    }

    fn pod_reads(&self) -> api::PodReads {
        api::PodReads {
            parts: self.named_parts(),
            labels: self.named_labels(),
            annotations: self.annotations.message(),
            topology_counts: self.topologies.iter().map(SentTopology::message).collect(),
            everything: self.has_everything(),
        }
    }

    fn node_reads(&self) -> api::NodeReads {
        api::NodeReads {
            parts: self.named_parts(),
            labels: self.named_labels(),
            annotations: self.annotations.message(),
            pod_counts: self.pods.iter().map(SentCount::message).collect(),
            everything: self.has_everything(),
        }
    }

    fn has_everything(&self) -> bool {
        self.everything != Parts::default()
    }

    fn named_parts(&self) -> Vec<i32> {
        self.parts.without_all(self.everything).numbers().collect()
    }

    fn named_labels(&self) -> Option<api::MapReads> {
        if self.has_everything() { None } else { self.labels.message() }
    }

    pub(super) fn places(&self, map: Map) -> &Places {
        match map {
            Map::Labels => &self.labels,
            Map::Annotations => &self.annotations,
        }
    }

    /// The count of pods by this; `None` if it is not declared.
    pub(super) fn pods(&self, by: &PodsBy) -> Option<&SentCount> {
        let position = self.pods.binary_search_by(|sent| sent.by.cmp(by)).ok()?;
        self.pods.get(position)
    }

    /// The counts of pods by this topology; `None` if they are not declared.
    pub(super) fn topology(&self, topology: &Topology) -> Option<&SentTopology> {
        let position = self.topologies.binary_search_by(|sent| sent.topology.cmp(topology)).ok()?;
        self.topologies.get(position)
    }

    /// The counts by topology that come with the pod to be placed.
    pub(crate) fn topologies(&self) -> &[SentTopology] {
        &self.topologies
    }

    /// The number of values and of counts that come with each object.
    pub fn counts(&self) -> Counts {
        let (labels, annotations) = (self.labels.values(), self.annotations.values());
        Counts { labels, annotations, pods: self.pods.len() }
    }
}
