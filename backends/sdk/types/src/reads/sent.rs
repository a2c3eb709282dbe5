//! What the gateway sends of an object to a verb with a declaration, for tests of policies.

use std::collections::BTreeMap;

use extender_policy_api::v1beta1 as api;

use super::{NodePart, Part, PodPart, keys::Places, layout::SentFields};

type Texts = BTreeMap<String, String>;

impl SentFields {
    /// The pod, with the declared parts alone, and without counts by topology.
    pub fn pod(&self, pod: &api::Pod) -> api::Pod {
        let api::Pod { identity, facts, raw_json, topology_counts: _ } = pod.clone();
        api::Pod {
            identity: self.given(PodPart::Identity, identity),
            facts: facts.map(|facts| self.pod_facts(facts)),
            raw_json,
            topology_counts: Vec::new(),
        }
    }

    fn pod_facts(&self, facts: api::PodFacts) -> api::PodFacts {
        let labels = Split::of(&facts.labels, &self.labels);
        let annotations = Split::of(&facts.annotations, &self.annotations);
        api::PodFacts {
            namespace: self.given(PodPart::Namespace, facts.namespace),
            labels: labels.entries,
            annotations: annotations.entries,
            owner: self.given(PodPart::Owner, facts.owner),
            priority: self.given(PodPart::Priority, facts.priority),
            priority_class_name: self.given(PodPart::PriorityClass, facts.priority_class_name),
            requests: self.given(PodPart::Requests, facts.requests),
            tolerations: self.given(PodPart::Tolerations, facts.tolerations),
            node_selector: self.given(PodPart::NodeSelector, facts.node_selector),
            volumes: self.given(PodPart::Volumes, facts.volumes),
            scheduler_name: self.given(PodPart::SchedulerName, facts.scheduler_name),
            node_affinity: self.given(PodPart::NodeAffinity, facts.node_affinity),
            nonzero_requests: self.given(PodPart::NonzeroRequests, facts.nonzero_requests),
            label_values: labels.values,
            annotation_values: annotations.values,
            absent_labels: labels.absent,
            absent_annotations: annotations.absent,
        }
    }

    /// The facts of a node, with the declared parts alone.
    pub fn node_facts(&self, facts: api::NodeFacts) -> api::NodeFacts {
        let labels = Split::of(&facts.labels, &self.labels);
        let annotations = Split::of(&facts.annotations, &self.annotations);
        api::NodeFacts {
            labels: labels.entries,
            annotations: annotations.entries,
            taints: self.given(NodePart::Taints, facts.taints),
            unschedulable: self.given(NodePart::Unschedulable, facts.unschedulable),
            conditions: self.given(NodePart::Conditions, facts.conditions),
            capacity: self.given(NodePart::Capacity, facts.capacity),
            allocatable: self.given(NodePart::Allocatable, facts.allocatable),
            label_values: labels.values,
            annotation_values: annotations.values,
            absent_labels: labels.absent,
            absent_annotations: annotations.absent,
        }
    }

    fn given<T: Default>(&self, part: impl Part, value: T) -> T {
        if self.parts.contains(part) { value } else { T::default() }
    }
}

/// A map as values of declared keys, and entries with declared prefixes.
#[derive(Default)]
struct Split {
    values: Vec<String>,
    absent: Vec<u32>,
    entries: Texts,
}

impl Split {
    fn of(map: &Texts, places: &Places) -> Self {
        let mut split = Self::default();
        for (position, key) in (0..).zip(places.keys()) {
            let value = map.get(key);
            split.absent.extend(value.is_none().then_some(position));
            split.values.push(value.cloned().unwrap_or_default());
        }
        let covered = map.iter().filter(|(key, _)| places.covers(key));
        split.entries = covered.map(|(key, value)| (key.clone(), value.clone())).collect();
        split
    }
}
