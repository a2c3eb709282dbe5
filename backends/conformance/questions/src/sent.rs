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

impl Terms<'_> {
    /// A node.
    pub fn row(self, node: &Node, extent: Extent) -> api::NodeRow {
        let more = extent == Extent::More;
        // A verb that reads at most the name is also asked about nodes of which nothing else is known.
        let has = |part| self.reads_node(part) || more && self.has_facts();
        api::NodeRow {
            name: given(self.reads_node(api::NodePart::Name) || more, &node.name),
            facts: self.has_facts().then(|| self.node_facts(node, extent)),
            raw_json: if has(api::NodePart::RawJson) { node.json().into() } else { bytes::Bytes::new() },
            usage: has(api::NodePart::Usage).then(|| node.usage.clone()),
            pod_counts: self.pod_counts(node),
            nominated: has(api::NodePart::Nominated).then(|| node.nominated.clone()),
        }
    }

    fn node_facts(self, node: &Node, extent: Extent) -> api::NodeFacts {
        let has = |part| extent == Extent::More || self.reads_node(part);
        let (facts, reads) = (&node.facts, self.node_reads());
        api::NodeFacts {
            taints: given(has(api::NodePart::Taints), &facts.taints),
            unschedulable: given(has(api::NodePart::Unschedulable), &facts.unschedulable),
            conditions: given(has(api::NodePart::Conditions), &facts.conditions),
            capacity: given(has(api::NodePart::Capacity), &facts.capacity),
            allocatable: given(has(api::NodePart::Allocatable), &facts.allocatable),
            labels: labels(reads.everything, reads.labels.as_ref(), &node.labels, extent),
            annotations: values(reads.annotations.as_ref(), &node.annotations, extent),
            images: given(has(api::NodePart::Images), &facts.images),
            system_info: given(has(api::NodePart::SystemInfo), &facts.system_info),
            addresses: given(has(api::NodePart::Addresses), &facts.addresses),
            provider_id: given(has(api::NodePart::ProviderId), &facts.provider_id),
        }
    }

    fn pod_counts(self, node: &Node) -> Vec<api::PodCounts> {
        let mut random = Random::new(node.seed);
        self.node_reads().pod_counts.iter().map(|by| pod_counts(by, &mut random)).collect()
    }

    /// The pod to be placed.
    pub fn pod(self, pod: &Pod, extent: Extent) -> api::Pod {
        api::Pod { topology_counts: self.topology_counts(pod), ..self.victim(pod, extent) }
    }

    /// A pod that would be evicted: without counts.
    pub fn victim(self, pod: &Pod, extent: Extent) -> api::Pod {
        let has = |part| extent == Extent::More || self.reads_pod(part);
        api::Pod {
            identity: has(api::PodPart::Identity).then(|| pod.identity.clone()),
            facts: Some(self.pod_facts(pod, extent)),
            raw_json: if has(api::PodPart::RawJson) { pod.json().into() } else { bytes::Bytes::new() },
            topology_counts: Vec::new(),
        }
    }

    fn pod_facts(self, pod: &Pod, extent: Extent) -> api::PodFacts {
        let has = |part| extent == Extent::More || self.reads_pod(part);
        let (facts, reads) = (&pod.facts, self.pod_reads());
        api::PodFacts {
            namespace: given(has(api::PodPart::Namespace), &facts.namespace),
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
            labels: labels(reads.everything, reads.labels.as_ref(), &pod.labels, extent),
            annotations: values(reads.annotations.as_ref(), &pod.annotations, extent),
            containers: given(has(api::PodPart::Containers), &facts.containers),
            pod_affinity: given(has(api::PodPart::PodAffinity), &facts.pod_affinity),
            topology_spread: given(has(api::PodPart::TopologySpread), &facts.topology_spread),
            resource_claims: given(has(api::PodPart::ResourceClaims), &facts.resource_claims),
            pod_group_name: given(has(api::PodPart::PodGroupName), &facts.pod_group_name),
            runtime_class_name: given(has(api::PodPart::RuntimeClassName), &facts.runtime_class_name),
            preemption_policy: given(has(api::PodPart::PreemptionPolicy), &facts.preemption_policy),
            service_account_name: given(has(api::PodPart::ServiceAccountName), &facts.service_account_name),
        }
    }

    fn topology_counts(self, pod: &Pod) -> Vec<api::TopologyCounts> {
        let mut random = Random::new(pod.seed);
        self.pod_reads().topology_counts.iter().map(|by| topology_counts(by, &mut random)).collect()
    }
}

/// A part, if it is sent.
fn given<T: Clone + Default>(sent: bool, part: &T) -> T {
    if sent { part.clone() } else { T::default() }
}

/// Labels: with `everything`, all of them with their keys.
fn labels(
    everything: bool,
    reads: Option<&api::MapReads>,
    of: &BTreeMap<String, String>,
    extent: Extent,
) -> Option<api::MapValues> {
    let all = || api::MapReads { keys: Vec::new(), prefixes: vec![String::new()] };
    if everything { values(Some(&all()), of, extent) } else { values(reads, of, extent) }
}

/// The values of the declared keys, and the entries whose key begins with a declared prefix; absent if that is nothing.
fn values(
    reads: Option<&api::MapReads>,
    of: &BTreeMap<String, String>,
    extent: Extent,
) -> Option<api::MapValues> {
    let mut sent = api::MapValues { entries: prefixed(reads, of, extent), ..api::MapValues::default() };
    for (position, key) in (0..).zip(reads.into_iter().flat_map(|reads| &reads.keys)) {
        let value = of.get(key);
        if value.is_none() {
            sent.absent.push(position);
        }
        sent.values.push(value.cloned().unwrap_or_default());
    }
    Some(sent).filter(|sent| *sent != api::MapValues::default())
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

#[cfg(test)]
mod tests {
    use bytes::Bytes;

    use super::*;
    use crate::{
        declared::Verb,
        objects::{Objects, Vocabulary},
    };

    /// What a verb with this declaration is sent of a pod and a node.
    fn sent(pod: api::PodReads, node: api::NodeReads, extent: Extent) -> (api::Pod, api::NodeRow) {
        let reads = Some(api::Reads { pod: Some(pod), node: Some(node) });
        let info = api::VerbInfo { reads, ..api::VerbInfo::default() };
        let terms = Terms { verb: Verb::Filter, info: &info, reads_sha256: &Bytes::new() };
        let (pod, node) = objects();
        (terms.pod(&pod, extent), terms.row(&node, extent))
    }

    /// A pod of priority 0 and a node that is not cordoned, both with the label `app`.
    fn objects() -> (Pod, Node) {
        let mut objects = Objects::new(Vocabulary::new([], b"", &[]), 1);
        let (mut pod, mut node) = (objects.pod(), objects.node());
        (pod.facts.priority, node.facts.unschedulable) = (Some(0), Some(false));
        for map in [&mut pod.labels, &mut pod.annotations, &mut node.labels, &mut node.annotations] {
            *map = [("app".to_owned(), "web".to_owned())].into();
        }
        (pod, node)
    }

    fn keys(keys: &[&str], prefixes: &[&str]) -> api::MapReads {
        let texts = |texts: &[&str]| texts.iter().map(|&text| text.to_owned()).collect();
        api::MapReads { keys: texts(keys), prefixes: texts(prefixes) }
    }

    #[test]
    fn nothing_is_sent_but_what_is_declared() {
        let nothing = api::Pod { facts: Some(api::PodFacts::default()), ..api::Pod::default() };
        let (pod, row) = sent(api::PodReads::default(), api::NodeReads::default(), Extent::Declared);
        assert_eq!((pod, row), (nothing, api::NodeRow::default()));
        let parts = vec![api::NodePart::Name.into()];
        let name = api::NodeReads { parts, ..api::NodeReads::default() };
        let (_, row) = sent(api::PodReads::default(), name, Extent::Declared);
        assert_eq!(row, api::NodeRow { name: objects().1.name, ..api::NodeRow::default() });
        let parts = vec![api::NodePart::Usage.into(), api::NodePart::Unschedulable.into()];
        let used = api::NodeReads { parts, ..api::NodeReads::default() };
        let (_, row) = sent(api::PodReads::default(), used, Extent::Declared);
        let facts = Some(api::NodeFacts { unschedulable: Some(false), ..api::NodeFacts::default() });
        let usage = Some(objects().1.usage);
        assert_eq!(row, api::NodeRow { facts, usage, ..api::NodeRow::default() });
    }

    #[test]
    fn values_are_sent_by_position_and_entries_by_their_keys() {
        let pod = api::PodReads { labels: Some(keys(&["app", "zone"], &[])), ..api::PodReads::default() };
        let node = api::NodeReads {
            labels: Some(keys(&["zone"], &["a"])),
            annotations: Some(keys(&[], &["b"])),
            ..api::NodeReads::default()
        };
        let (pod, row) = sent(pod, node, Extent::Declared);
        let labels = |values: &[&str], absent: &[u32], entries: BTreeMap<String, String>| {
            Some(api::MapValues {
                values: values.iter().map(|&value| value.to_owned()).collect(),
                absent: absent.to_vec(),
                entries,
            })
        };
        assert_eq!(pod.facts.unwrap().labels, labels(&["web", ""], &[1], BTreeMap::new()));
        let facts = row.facts.unwrap();
        let app = [("app".to_owned(), "web".to_owned())].into();
        assert_eq!((facts.labels, facts.annotations), (labels(&[""], &[0], app), None));
    }

    #[test]
    fn everything_is_all_but_what_is_declared_beside_it() {
        let (of_pod, of_node) = objects();
        let all = |labels: &BTreeMap<String, String>| {
            Some(api::MapValues { entries: labels.clone(), ..api::MapValues::default() })
        };
        let pod = api::PodReads { everything: true, ..api::PodReads::default() };
        let node = api::NodeReads { everything: true, ..api::NodeReads::default() };
        let (pod, row) = sent(pod, node, Extent::Declared);
        let facts = api::PodFacts { labels: all(&of_pod.labels), ..of_pod.facts };
        assert_eq!(pod, api::Pod { facts: Some(facts), ..api::Pod::default() });
        // Images are declared beside it.
        let facts =
            Some(api::NodeFacts { labels: all(&of_node.labels), images: Vec::new(), ..of_node.facts });
        assert_eq!(row, api::NodeRow { name: of_node.name, facts, ..api::NodeRow::default() });
    }

    #[test]
    fn more_is_all_that_there_is() {
        let parts = vec![api::NodePart::Taints.into()];
        let node = api::NodeReads { parts, ..api::NodeReads::default() };
        let (pod, row) = sent(api::PodReads::default(), node, Extent::More);
        assert!(pod.identity.is_some() && !pod.raw_json.is_empty());
        assert!(!row.name.is_empty() && row.usage.is_some() && !row.raw_json.is_empty());
        for map in [pod.facts.unwrap().annotations, row.facts.unwrap().labels] {
            assert_eq!(map.unwrap().entries.len(), 1);
        }
    }
}
