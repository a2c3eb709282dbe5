//! A declaration as both sides of a call use it: the contract's message, and where each value is.

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
use crate::{
    View,
    digest::{Digest, sha256},
};

/// A compiled [`Reads`] without mistakes.
#[derive(Debug)]
pub struct Layout {
    pub pod: SentFields,
    pub node: SentFields,
    /// As in the handshake.
    pub(crate) message: api::Reads,
    /// `Call.reads` of the requests that this declaration asks for.
    pub(crate) digest: Digest,
    /// As in the view of a table of nodes, where nothing is not the same as no declaration.
    pub rows: api::NodeReads,
}

/// What is sent of one kind of object.
#[derive(Debug)]
pub struct SentFields {
    pub(super) object: &'static str,
    pub(super) parts: Parts,
    pub(super) labels: Places,
    pub(super) annotations: Places,
    /// Of nodes alone. Ascending.
    pub(super) pods: Box<[SentCount]>,
    /// Of the pod to be placed alone. Ascending.
    pub(super) topologies: Box<[SentTopology]>,
}

impl Layout {
    /// For a verb with this view of nodes.
    pub(crate) fn new(reads: &Reads, view: View) -> Self {
        let (pod, node) = (SentFields::new("pod", &reads.pod), SentFields::new("node", &reads.node));
        let (labels, annotations) = (pod.labels.message(), pod.annotations.message());
        let topology_counts = pod.topologies.iter().map(SentTopology::message).collect();
        let message =
            api::PodReads { parts: pod.parts.numbers().collect(), labels, annotations, topology_counts };
        let (labels, annotations) = (node.labels.message(), node.annotations.message());
        let pod_counts = node.pods.iter().map(SentCount::message).collect();
        let rows = api::NodeReads { parts: node.parts.numbers().collect(), labels, annotations, pod_counts };
        let message = api::Reads {
            pod: Some(message).filter(|message| *message != api::PodReads::default()),
            // A view of names has them; what else is read with it is sent, for the gateway to reject.
            node: Some(rows.clone())
                .filter(|rows| (view != View::Name || reads.nodes()) && *rows != api::NodeReads::default()),
        };
        let digest = sha256(&message.encode_to_vec());
        Self { pod, node, message, digest, rows }
    }
}

impl SentFields {
    fn new(object: &'static str, declared: &Declared) -> Self {
        let Declared { parts, labels, annotations, pods, topologies } = declared;
        let (labels, annotations) = (labels.places(), annotations.places());
        let (pods, topologies) = (pods.sent(), topologies.sent());
        Self { object, parts: *parts, labels, annotations, pods, topologies }
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
