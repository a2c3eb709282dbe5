//! Counts of pods: what verbs declare, the pods that are counted, and what happens to them.
//!
//! A policy's tables are read at another offset with each other count that it is sent, as with states of nodes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::{Arc, LazyLock},
};

use extender_reference::{
    counts::{self, Count, Counted},
    model::{BoundPod, CountedBy, Life, Node, Pod, Running},
};
use serde::{Deserialize, Serialize};

use super::{Backend, Calls, Case, Manner, Pods, RUNNING, Source, UNSEEN, View, World, room};

/// What pods are counted by, in the contract's order.
pub const ATTRIBUTES: [CountedBy; 4] =
    [CountedBy::Owner, CountedBy::Namespace, CountedBy::Label("team"), CountedBy::PriorityClass];

/// The resource that some nodes report, and that only counted pods request.
pub const DISK: &str = "example.com/disk";

/// The most pods of a case that are counted.
pub const MOST_BOUND: usize = 16;

/// What a verb declares, by attribute.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Counts {
    /// Of the pods on each node.
    pub on_nodes: [Counting; ATTRIBUTES.len()],
    /// Of the pods in the cluster that are like the pod.
    pub in_cluster: [Counting; ATTRIBUTES.len()],
    /// The same by zone.
    pub in_zones: [Counting; ATTRIBUTES.len()],
}

/// How pods are counted by an attribute.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Counting {
    /// They are not.
    #[default]
    None,
    /// Their number.
    Pods,
    /// Their number and their requests.
    PodsAndRequests,
}

/// Over which nodes pods are added up.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Topology {
    /// All nodes.
    Cluster,
    /// The nodes of a zone.
    Zone,
}

/// What happens to the counted pods around the calls about a pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodNews {
    /// Before filter.
    pub before: Vec<PodEvent>,
    /// How the gateway learns of that.
    pub before_by: Feed,
    /// While filter is under way.
    pub during: Vec<PodEvent>,
    /// Between filter and prioritize.
    pub between: Vec<PodEvent>,
}

/// How the gateway learns of changes.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Feed {
    /// Event by event.
    #[default]
    Watch,
    /// By a list of all pods.
    List,
}

/// What happens to a counted pod.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct PodEvent {
    /// Which one.
    pub pod: usize,
    /// How far it has come.
    pub life: Life,
    /// Its labels from now on; `None` if they stay.
    pub labels: Option<BTreeMap<String, String>>,
}

impl Counts {
    /// Whether none are declared.
    pub fn is_empty(&self) -> bool {
        *self == Self::default()
    }

    /// What is counted on nodes, in the contract's order.
    pub fn on_nodes(&self) -> impl Iterator<Item = (CountedBy, Counting)> {
        ATTRIBUTES.into_iter().zip(self.on_nodes).filter(|(_, counting)| *counting != Counting::None)
    }

    /// What is counted over topologies, in the contract's order.
    pub fn over_topologies(&self) -> impl Iterator<Item = (CountedBy, Topology, Counting)> {
        let both = ATTRIBUTES.into_iter().zip(self.in_cluster.into_iter().zip(self.in_zones));
        let both = both.flat_map(|(by, (in_cluster, in_zones))| {
            [(by, Topology::Cluster, in_cluster), (by, Topology::Zone, in_zones)]
        });
        both.filter(|(.., counting)| *counting != Counting::None)
    }

    /// A number for these counts; 0 for none.
    pub fn number(&self) -> u32 {
        let all = [self.on_nodes, self.in_cluster, self.in_zones];
        all.into_iter().flatten().fold(0, |number, counting| 3 * number + counting as u32)
    }
}

impl Counting {
    /// What that is in the reference; of other resources, requests of these are added up.
    fn counted(self, others: impl FnOnce() -> BTreeSet<String>) -> Counted {
        match self {
            Self::None | Self::Pods => Counted::Pods,
            Self::PodsAndRequests => Counted::PodsAndRequests(others()),
        }
    }
}

/// The offset in the tables for these counts; 0 for none.
pub fn offset(counts: &[Vec<Count>]) -> usize {
    if counts.is_empty() {
        return 0;
    }
    let text = format!("{counts:?}");
    text.bytes().fold(1, |sum, byte| (31 * sum + usize::from(byte)) % 1_000_000_007)
}

/// Whether a node reports [`DISK`].
pub fn has_disks(node: Node) -> bool {
    node.is_multiple_of(2)
}

/// The zone of a node in this state, if it has one.
pub fn zone(node: Node, state: usize) -> Option<String> {
    let number = (node + state) % 4;
    (number < 3).then(|| format!("zone-{number}"))
}

/// The pods that preemption is about, as far as the gateway knows them.
static WATCHED: LazyLock<Vec<BoundPod>> = LazyLock::new(watched);

fn watched() -> Vec<BoundPod> {
    let pods = room::running().into_iter().enumerate();
    let known = pods.filter(|(victim, _)| victim % RUNNING != UNSEEN);
    let bound = |(_, Running { node, priority }): (usize, Running)| {
        let pod = Pod { namespace: "default".to_owned(), priority, ..Pod::default() };
        BoundPod { node, life: Life::Running, pod }
    };
    known.map(bound).collect()
}

impl World {
    /// The counted pods with those that preemption is about.
    fn all_pods(&self) -> impl Iterator<Item = &BoundPod> {
        self.pods.iter().chain(&*WATCHED)
    }

    /// The offset for the counts of a node in a verb's row.
    pub(super) fn counts_on(&self, node: Node, counts: &Counts) -> usize {
        let others = || has_disks(node).then(|| DISK.to_owned()).into_iter().collect();
        let by = |(by, counting): (_, Counting)| {
            counts::on_node(self.all_pods(), node, (by, &counting.counted(others)))
        };
        offset(&counts.on_nodes().map(by).collect::<Vec<_>>())
    }

    /// The offset for the counts of the pods that are like this one. Of other resources than CPU and memory, it requests
    /// none that they request.
    pub fn counts_like(&self, pod: &Pod, counts: &Counts) -> usize {
        let like = |(by, topology, counting): (_, Topology, Counting)| {
            let domain = |node| match topology {
                Topology::Cluster => Some(String::new()),
                Topology::Zone => zone(node, self.listed.get(node).copied().unwrap_or_default()),
            };
            counts::like(self.all_pods(), pod, (by, &counting.counted(BTreeSet::new)), domain)
        };
        offset(&counts.over_topologies().map(like).collect::<Vec<_>>())
    }

    /// These things happen to counted pods.
    pub fn happen(&mut self, events: &[PodEvent]) {
        for PodEvent { pod, life, labels } in events {
            let bound = &mut Arc::make_mut(&mut self.pods)[*pod];
            bound.life = *life;
            if let Some(labels) = labels {
                bound.pod.labels.clone_from(labels);
            }
        }
    }
}

impl Case {
    /// Only watched pods are counted, and changes during filter need rows that calls do not bring.
    pub(super) fn settle_counts(&mut self) {
        if self.pods == Pods::Unknown {
            self.bound.clear();
        }
        self.bound.truncate(MOST_BOUND);
        let (bound, source) = (self.bound.len(), self.source);
        for round in &mut self.rounds {
            let PodNews { before, before_by, during, between } = &mut round.news;
            for events in [&mut *before, &mut *during, &mut *between] {
                events.retain(|event| event.pod < bound);
            }
            if before.is_empty() {
                *before_by = Feed::Watch;
            }
            if source != Source::File || round.calls == Calls::PrioritizeAlone {
                during.clear();
            }
            if round.calls == Calls::PrioritizeAlone {
                between.clear();
            }
        }
        let pods = self.pods;
        for backend in &mut self.backends {
            let Backend { filter, score, preempt, .. } = backend;
            for manner in [filter, score] {
                settle_manner(manner, (source, pods));
            }
            preempt.counts = Counts::default();
        }
    }
}

/// Counts on nodes belong to facts about nodes, and those over topologies to a table of nodes.
fn settle_manner(manner: &mut Manner, (source, pods): (Source, Pods)) {
    if pods == Pods::Unknown {
        manner.counts = Counts::default();
    }
    if manner.view == View::Name {
        manner.counts.on_nodes = Default::default();
    }
    if source != Source::File {
        manner.counts.in_cluster = Default::default();
        manner.counts.in_zones = Default::default();
    }
}
