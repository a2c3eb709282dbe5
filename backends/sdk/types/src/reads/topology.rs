//! The counts of the pods in the cluster that are like the pod to be placed, as they are declared and as they are sent:
//! the contract wants each pair of attribute and topology key once, in ascending order.

use std::{collections::BTreeMap, fmt, sync::Arc};

use extender_policy_api::v1beta1 as api;

use super::{
    key::NodeKey,
    pods::{PodsBy, Sums},
};

/// A declared count of the pods in the cluster, from [`Reads::pods_by_topology`](crate::Reads::pods_by_topology) or
/// [`Reads::pods_and_requests_by_topology`](crate::Reads::pods_and_requests_by_topology): what
/// [`Pod::pods_like`](crate::Pod::pods_like) reads. A clone costs at most two counters.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct TopologyKey(pub(crate) Topology);

/// What pods have in common, and how they are added up.
// Compared in the order in which the contract wants them.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Topology {
    pub(crate) by: PodsBy,
    /// The key of a label of nodes; empty for the whole cluster.
    pub(crate) key: Arc<str>,
}

/// As declared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Topologies(BTreeMap<Topology, DeclaredCount>);

#[derive(Clone, Debug, PartialEq, Eq)]
struct DeclaredCount {
    sums: Sums,
    /// The label with the topology key; `None` for the whole cluster.
    label: Option<NodeKey>,
}

/// One list of counts as sent.
#[derive(Debug, PartialEq)]
pub(crate) struct SentTopology {
    pub(crate) topology: Topology,
    pub(crate) sums: Sums,
    /// With which the domain of a node is found; `None` for the whole cluster.
    pub(crate) label: Option<NodeKey>,
    /// Among the lists of a pod.
    pub(crate) position: usize,
}

impl fmt::Display for Topology {
    /// As a policy writes the arguments; long keys are cut.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { by, key } = self;
        write!(f, "{by}, {:?}", &key[..key.floor_char_boundary(64)])
    }
}

impl Topologies {
    /// Twice the same is one list, with the requests if one of the two has them.
    pub(super) fn insert(&mut self, topology: Topology, sums: Sums, label: Option<NodeKey>) {
        let declared = self.0.entry(topology).or_insert(DeclaredCount { sums, label });
        declared.sums = sums.max(declared.sums);
    }

    pub(super) fn sent(&self) -> Box<[SentTopology]> {
        let sent = |(position, (topology, declared)): (usize, (&Topology, &DeclaredCount))| {
            let DeclaredCount { sums, label } = declared.clone();
            SentTopology { topology: topology.clone(), sums, label, position }
        };
        self.0.iter().enumerate().map(sent).collect()
    }
}

impl SentTopology {
    pub(super) fn message(&self) -> api::TopologyCountReads {
        let Self { topology: Topology { by, key }, sums, label: _, position: _ } = self;
        let api::PodCountReads { by, label, requests } = by.message(*sums);
        api::TopologyCountReads { by, label, topology_key: key.as_ref().to_owned(), requests }
    }
}
