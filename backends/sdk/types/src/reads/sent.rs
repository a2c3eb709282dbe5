//! What the gateway sends of an object to a verb, for tests of policies. The objects have their labels and annotations as
//! entries.

use extender_policy_api::v1beta1 as api;

use super::{
    NodePart, Part, PodPart, PodsBy,
    access::Access,
    keys::Places,
    layout::{self, SentFields},
    pods::Attribute,
};
use crate::Pod;

impl SentFields {
    /// The pod, with the declared parts alone, and without counts by topology.
    pub fn pod(&self, pod: &api::Pod) -> api::Pod {
        let api::Pod { identity, facts, raw_json, topology_counts: _ } = pod.clone();
        api::Pod {
            identity: self.given(PodPart::Identity, identity),
            facts: facts.map(|facts| self.pod_facts(facts)),
            raw_json: self.given(PodPart::RawJson, raw_json),
            topology_counts: Vec::new(),
        }
    }

    fn pod_facts(&self, facts: api::PodFacts) -> api::PodFacts {
        api::PodFacts {
            namespace: self.given(PodPart::Namespace, facts.namespace),
            owner: self.given(PodPart::Owner, facts.owner),
            // Present also if it is 0.
            priority: self.given(PodPart::Priority, Some(facts.priority.unwrap_or_default())),
            priority_class_name: self.given(PodPart::PriorityClass, facts.priority_class_name),
            requests: self.given(PodPart::Requests, facts.requests),
            tolerations: self.given(PodPart::Tolerations, facts.tolerations),
            node_selector: self.given(PodPart::NodeSelector, facts.node_selector),
            volumes: self.given(PodPart::Volumes, facts.volumes),
            scheduler_name: self.given(PodPart::SchedulerName, facts.scheduler_name),
            node_affinity: self.given(PodPart::NodeAffinity, facts.node_affinity),
            nonzero_requests: self.given(PodPart::NonzeroRequests, facts.nonzero_requests),
            labels: values(facts.labels, &self.labels),
            annotations: values(facts.annotations, &self.annotations),
            containers: self.given(PodPart::Containers, facts.containers),
            pod_affinity: self.given(PodPart::PodAffinity, facts.pod_affinity),
            topology_spread: self.given(PodPart::TopologySpread, facts.topology_spread),
            resource_claims: self.given(PodPart::ResourceClaims, facts.resource_claims),
            pod_group_name: self.given(PodPart::PodGroup, facts.pod_group_name),
            runtime_class_name: self.given(PodPart::RuntimeClass, facts.runtime_class_name),
            preemption_policy: self.given(PodPart::PreemptionPolicy, facts.preemption_policy),
            service_account_name: self.given(PodPart::ServiceAccount, facts.service_account_name),
        }
    }

    /// The row of a node, with the declared parts alone, and without counts of pods.
    pub fn row(&self, row: &api::NodeRow) -> api::NodeRow {
        let api::NodeRow { name, facts, raw_json, usage, nominated, pod_counts: _ } = row.clone();
        api::NodeRow {
            name: self.given(NodePart::Name, name),
            facts: facts.map(|facts| self.node_facts(facts)),
            raw_json: self.given(NodePart::RawJson, raw_json),
            usage: self.given(NodePart::Usage, usage),
            nominated: self.given(NodePart::Nominated, nominated),
            pod_counts: Vec::new(),
        }
    }

    fn node_facts(&self, facts: api::NodeFacts) -> api::NodeFacts {
        api::NodeFacts {
            taints: self.given(NodePart::Taints, facts.taints),
            // Present also if it is false.
            unschedulable: self.given(NodePart::Unschedulable, Some(facts.unschedulable.unwrap_or_default())),
            conditions: self.given(NodePart::Conditions, facts.conditions),
            capacity: self.given(NodePart::Capacity, facts.capacity),
            allocatable: self.given(NodePart::Allocatable, facts.allocatable),
            labels: values(facts.labels, &self.labels),
            annotations: values(facts.annotations, &self.annotations),
            images: self.given(NodePart::Images, facts.images),
            system_info: self.given(NodePart::SystemInfo, facts.system_info),
            addresses: self.given(NodePart::Addresses, facts.addresses),
            provider_id: self.given(NodePart::ProviderId, facts.provider_id),
        }
    }

    fn given<T: Default>(&self, part: impl Part, value: T) -> T {
        if self.parts.contains(part) { value } else { T::default() }
    }
}

/// The values of declared keys, and the entries with declared prefixes; `None` if that is nothing.
fn values(map: Option<api::MapValues>, places: &Places) -> Option<api::MapValues> {
    let mut entries = map.unwrap_or_default().entries;
    let mut sent = api::MapValues::default();
    for (position, key) in (0..).zip(places.keys()) {
        let value = entries.get(key);
        sent.absent.extend(value.is_none().then_some(position));
        sent.values.push(value.cloned().unwrap_or_default());
    }
    entries.retain(|key, _| places.covers(key));
    sent.entries = entries;
    Some(sent).filter(|sent| *sent != api::MapValues::default())
}

/// What a pod, of which nothing is left out, has of an attribute.
pub(super) fn attribute<'p>(by: &PodsBy, pod: &'p api::Pod) -> Option<Attribute<'p>> {
    by.of(&Pod::new(pod, Access::to(&layout::everything().pod))?)
}
