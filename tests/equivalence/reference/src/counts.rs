//! Pods counted from the whole list each time: those on a node, and those in the cluster that are like a pod.

use std::collections::{BTreeMap, BTreeSet};

use crate::model::{BoundPod, CountedBy, Life, Node, Place, Pod};

/// The pods that are counted together.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Count {
    /// Their namespace; only of a count by a label on a node.
    pub namespace: String,
    /// What they have in common on a node, or the domain of a topology.
    pub value: String,
    /// How many there are.
    pub pods: u32,
    /// How many of them are being deleted.
    pub terminating: u32,
    /// The sums of their requests; `None` if they are not counted.
    pub requested: Option<Requested>,
}

/// Sums of requests.
#[derive(Debug, Clone, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Requested {
    /// In thousandths of a core.
    pub milli_cpu: i64,
    /// In bytes.
    pub memory: i64,
    /// Of other resources; none of them is 0.
    pub others: BTreeMap<String, i64>,
}

/// What is counted of pods.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Counted {
    /// How many they are.
    Pods,
    /// That, and their requests; of other resources these.
    PodsAndRequests(BTreeSet<String>),
}

/// Namespace and value that pods have in common.
type Shared = (String, String);

/// The pods on a node, by what they have in common.
pub fn on_node<'p>(
    pods: impl Iterator<Item = &'p BoundPod>,
    node: Node,
    (by, counted): (CountedBy, &Counted),
) -> Vec<Count> {
    let here: Vec<_> = pods.filter(|pod| pod.node == node && is_counted(pod)).collect();
    let shared: BTreeSet<Shared> = here.iter().filter_map(|bound| shared(&bound.pod, by)).collect();
    let count = |known: Shared| {
        let together =
            here.iter().copied().filter(|bound| self::shared(&bound.pod, by).as_ref() == Some(&known));
        total(&together.collect::<Vec<_>>(), (known.clone(), counted))
    };
    shared.into_iter().map(count).collect()
}

/// The pods that have the same in common as a pod, by domain. `domain` returns that of a node; pods on nodes without
/// one are not counted.
pub fn like<'p>(
    pods: impl Iterator<Item = &'p BoundPod>,
    pod: &Pod,
    (by, counted): (CountedBy, &Counted),
    domain: impl Fn(Node) -> Option<String>,
) -> Vec<Count> {
    let Some(wanted) = shared(pod, by) else { return Vec::new() };
    let is_like = |bound: &&BoundPod| is_counted(bound) && shared(&bound.pod, by).as_ref() == Some(&wanted);
    let alike: Vec<_> = pods.filter(is_like).collect();
    let domains: BTreeSet<String> = alike.iter().filter_map(|bound| domain(bound.node)).collect();
    let count = |value: String| {
        let together = alike.iter().copied().filter(|bound| domain(bound.node).as_ref() == Some(&value));
        total(&together.collect::<Vec<_>>(), ((String::new(), value.clone()), counted))
    };
    domains.into_iter().map(count).collect()
}

/// Whether a pod takes room on its node.
fn is_counted(bound: &BoundPod) -> bool {
    matches!(bound.life, Life::Running | Life::Terminating)
}

fn shared(pod: &Pod, by: CountedBy) -> Option<Shared> {
    let alone = |value: &String| (String::new(), value.clone());
    match by {
        CountedBy::Owner => pod.owner.as_ref().map(alone),
        CountedBy::Namespace => Some(alone(&pod.namespace)),
        CountedBy::Label(key) => pod.labels.get(key).map(|value| (pod.namespace.clone(), value.clone())),
        CountedBy::PriorityClass => pod.priority_class.as_ref().map(alone),
    }
}

fn total(pods: &[&BoundPod], ((namespace, value), counted): (Shared, &Counted)) -> Count {
    let number = |pods: usize| u32::try_from(pods).unwrap_or(u32::MAX);
    let terminating = pods.iter().filter(|bound| bound.life == Life::Terminating).count();
    let requested = match counted {
        Counted::Pods => None,
        Counted::PodsAndRequests(others) => Some(requested(pods, others)),
    };
    Count { namespace, value, pods: number(pods.len()), terminating: number(terminating), requested }
}

fn requested(pods: &[&BoundPod], others: &BTreeSet<String>) -> Requested {
    let sum = |resource: &str| pods.iter().map(|bound| effective(&bound.pod, resource)).sum::<i64>();
    let others = others.iter().map(|resource| (resource.clone(), sum(resource)));
    Requested {
        milli_cpu: 1000 * sum("cpu"),
        memory: sum("memory"),
        others: others.filter(|(_, sum)| *sum > 0).collect(),
    }
}

/// What a pod takes of a resource: its containers together, or an init container if that takes more.
fn effective(pod: &Pod, resource: &str) -> i64 {
    let amounts = |place: Place| {
        let containers = pod.containers.iter().filter(move |container| container.place == place);
        containers.map(|container| container.requests.get(resource).copied().map_or(0, i64::from))
    };
    amounts(Place::Main).sum::<i64>().max(amounts(Place::Init).max().unwrap_or(0))
}
