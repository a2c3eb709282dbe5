//! What a gateway sends of pods and nodes to a verb, by its declaration (SPEC.md, "What a verb reads").

use std::collections::BTreeMap;

use extender_policy_api::v1beta1 as api;

use crate::{
    declared::Terms,
    objects::{GROUPS, Node, Pod, resources},
    random::Random,
};

/// How much of an object is sent.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Extent {
    /// What the verb declares, as a gateway does.
    Declared,
    /// Everything that the declaration leaves out, in addition.
    More,
}

/// Which values of an object are sent by position.
#[derive(Default)]
struct Values {
    values: Vec<String>,
    absent: Vec<u32>,
}

impl Terms<'_> {
    /// A node.
    pub fn row(self, node: &Node, extent: Extent) -> api::NodeRow {
        let more = extent == Extent::More;
        let raw = self.has_raw_nodes() || more && self.has_facts();
        let named = self.reads().is_none_or(|reads| {
            let name = i32::from(api::NodePart::Name);
            !self.has_facts() || reads.node.as_ref().is_some_and(|node| node.parts.contains(&name))
        });
        api::NodeRow {
            name: if named || more { node.name.clone() } else { String::new() },
            facts: self.has_facts().then(|| self.node_facts(&node.facts, extent)),
            raw_json: if raw { node.json().into() } else { bytes::Bytes::new() },
            usage: (self.info.usage || more && self.has_facts()).then(|| node.usage.clone()),
            pod_counts: self.pod_counts(node),
        }
    }

    fn node_facts(self, facts: &api::NodeFacts, extent: Extent) -> api::NodeFacts {
        let Some(reads) = self.reads() else {
            let annotations = self.annotations(&facts.annotations, extent);
            return api::NodeFacts { annotations, ..facts.clone() };
        };
        let reads = reads.node.clone().unwrap_or_default();
        let has = |part: api::NodePart| extent == Extent::More || reads.parts.contains(&i32::from(part));
        let labels = values(reads.labels.as_ref(), &facts.labels);
        let annotations = values(reads.annotations.as_ref(), &facts.annotations);
        api::NodeFacts {
            labels: prefixed(reads.labels.as_ref(), &facts.labels, extent),
            annotations: prefixed(reads.annotations.as_ref(), &facts.annotations, extent),
            taints: given(has(api::NodePart::Taints), &facts.taints),
            unschedulable: has(api::NodePart::Unschedulable) && facts.unschedulable,
            conditions: given(has(api::NodePart::Conditions), &facts.conditions),
            capacity: given(has(api::NodePart::Capacity), &facts.capacity),
            allocatable: given(has(api::NodePart::Allocatable), &facts.allocatable),
            label_values: labels.values,
            annotation_values: annotations.values,
            absent_labels: labels.absent,
            absent_annotations: annotations.absent,
        }
    }

    fn pod_counts(self, node: &Node) -> Vec<api::PodCounts> {
        let declared = self.reads().and_then(|reads| reads.node.as_ref()).map(|node| &node.pod_counts);
        let mut random = Random::new(node.seed);
        declared.into_iter().flatten().map(|by| pod_counts(by, &mut random)).collect()
    }

    /// The pod to be placed.
    pub fn pod(self, pod: &Pod, extent: Extent) -> api::Pod {
        api::Pod { topology_counts: self.topology_counts(pod), ..self.victim(pod, extent) }
    }

    /// A pod that would be evicted: without counts.
    pub fn victim(self, pod: &Pod, extent: Extent) -> api::Pod {
        let declared = self.reads().map(|reads| reads.pod.clone().unwrap_or_default());
        let identified = match &declared {
            None => !self.is_pure(),
            Some(reads) => {
                reads.parts.contains(&i32::from(api::PodPart::Identity))
                    || extent == Extent::More && !self.is_pure()
            }
        };
        let raw = self.handshake.pod_raw && !self.is_pure() || extent == Extent::More;
        api::Pod {
            identity: identified.then(|| pod.identity.clone()),
            facts: Some(match declared {
                None => {
                    let annotations = self.annotations(&pod.facts.annotations, extent);
                    api::PodFacts { annotations, ..pod.facts.clone() }
                }
                Some(reads) => pod_facts(&pod.facts, &reads, extent),
            }),
            raw_json: if raw { pod.json().into() } else { bytes::Bytes::new() },
            topology_counts: Vec::new(),
        }
    }

    fn topology_counts(self, pod: &Pod) -> Vec<api::TopologyCounts> {
        let declared = self.reads().and_then(|reads| reads.pod.as_ref()).map(|pod| &pod.topology_counts);
        let mut random = Random::new(pod.seed);
        declared.into_iter().flatten().map(|by| topology_counts(by, &mut random)).collect()
    }

    /// Of a verb without a declaration.
    fn annotations(self, all: &BTreeMap<String, String>, extent: Extent) -> BTreeMap<String, String> {
        let asked = |key: &str| {
            extent == Extent::More
                || self.handshake.annotation_prefixes.iter().any(|prefix| key.starts_with(prefix.as_str()))
        };
        all.iter().filter(|(key, _)| asked(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
    }
}

fn pod_facts(facts: &api::PodFacts, reads: &api::PodReads, extent: Extent) -> api::PodFacts {
    let has = |part: api::PodPart| extent == Extent::More || reads.parts.contains(&i32::from(part));
    let labels = values(reads.labels.as_ref(), &facts.labels);
    let annotations = values(reads.annotations.as_ref(), &facts.annotations);
    api::PodFacts {
        namespace: given(has(api::PodPart::Namespace), &facts.namespace),
        labels: prefixed(reads.labels.as_ref(), &facts.labels, extent),
        annotations: prefixed(reads.annotations.as_ref(), &facts.annotations, extent),
        owner: given(has(api::PodPart::Owner), &facts.owner),
        priority: given(has(api::PodPart::Priority), &facts.priority),
        priority_class_name: given(has(api::PodPart::PriorityClassName), &facts.priority_class_name),
        requests: given(has(api::PodPart::Requests), &facts.requests),
        tolerations: given(has(api::PodPart::Tolerations), &facts.tolerations),
        node_selector: given(has(api::PodPart::NodeSelector), &facts.node_selector),
        volumes: given(has(api::PodPart::Volumes), &facts.volumes),
        scheduler_name: given(has(api::PodPart::SchedulerName), &facts.scheduler_name),
        node_affinity: given(has(api::PodPart::NodeAffinity), &facts.node_affinity),
        nonzero_requests: given(has(api::PodPart::NonzeroRequests), &facts.nonzero_requests),
        label_values: labels.values,
        annotation_values: annotations.values,
        absent_labels: labels.absent,
        absent_annotations: annotations.absent,
    }
}

/// A part, if it is sent.
fn given<T: Clone + Default>(sent: bool, part: &T) -> T {
    if sent { part.clone() } else { T::default() }
}

/// The values of the declared keys, and the positions of those that the object lacks.
fn values(reads: Option<&api::MapReads>, of: &BTreeMap<String, String>) -> Values {
    let mut sent = Values::default();
    for (position, key) in (0..).zip(reads.into_iter().flat_map(|reads| &reads.keys)) {
        let value = of.get(key);
        if value.is_none() {
            sent.absent.push(position);
        }
        sent.values.push(value.cloned().unwrap_or_default());
    }
    sent
}

/// The entries whose key begins with a declared prefix, or all.
fn prefixed(
    reads: Option<&api::MapReads>,
    of: &BTreeMap<String, String>,
    extent: Extent,
) -> BTreeMap<String, String> {
    let prefixes = || reads.into_iter().flat_map(|reads| &reads.prefixes);
    // A policy with a prefix may read all that it is sent, so nothing is added there.
    let more = extent == Extent::More && prefixes().next().is_none();
    let declared = |key: &str| more || prefixes().any(|prefix| key.starts_with(prefix.as_str()));
    of.iter().filter(|(key, _)| declared(key)).map(|(key, value)| (key.clone(), value.clone())).collect()
}

fn pod_counts(by: &api::PodCountReads, random: &mut Random) -> api::PodCounts {
    let namespace = if by.by() == api::PodCountBy::Label { "shop" } else { "" };
    let counted = GROUPS.iter().filter_map(|value| {
        let pods = u32::try_from(random.below(6)).ok().filter(|pods| *pods > 0)?;
        let requested = by.requests.then(|| api::Resources { pods: 0, ..resources(random, 4_000) });
        let (namespace, value) = (namespace.to_owned(), (*value).to_owned());
        let terminating = u32::from(random.once_in(4));
        Some(api::PodCount { namespace, value, pods, terminating, requested })
    });
    api::PodCounts { counts: counted.collect(), omitted_pods: u32::from(random.once_in(8)) }
}

fn topology_counts(by: &api::TopologyCountReads, random: &mut Random) -> api::TopologyCounts {
    let values: &[&str] = if by.topology_key.is_empty() { &[""] } else { &["", "a", "amd64", "b"] };
    let counted = values.iter().filter_map(|value| {
        let pods = u32::try_from(random.below(9)).ok().filter(|pods| *pods > 0)?;
        let requested = by.requests.then(|| api::Resources { pods: 0, ..resources(random, 4_000) });
        let terminating = u32::from(random.once_in(4));
        Some(api::DomainCount { value: (*value).to_owned(), pods, terminating, requested })
    });
    api::TopologyCounts { domains: counted.collect(), omitted_pods: u32::from(random.once_in(8)) }
}
