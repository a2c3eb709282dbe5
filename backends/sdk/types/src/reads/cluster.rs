//! Counts the pods in the cluster that are like a pod, by topology, as the gateway does, for tests of policies.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, btree_map::Entry},
};

use extender_policy_api::{limits::DOMAINS, v1beta1 as api};

use super::{layout::SentFields, pods::Sums, running::Running, sent::attribute, topology::SentTopology};

/// A node of the cluster.
#[derive(Clone, Copy, Debug)]
pub struct ClusterNode<'a> {
    pub facts: Option<&'a api::NodeFacts>,
    pub pods: &'a [Running],
}

impl SentFields {
    /// The counts that come with a pod, one entry for each that is declared.
    pub fn topology_counts(&self, pod: &api::Pod, cluster: &[ClusterNode<'_>]) -> Vec<api::TopologyCounts> {
        self.topologies.iter().map(|sent| counts(sent, pod, cluster)).collect()
    }
}

impl<'a> ClusterNode<'a> {
    /// The value of its topology label; without a topology key all nodes have an empty one.
    fn domain(self, key: &str) -> Option<&'a str> {
        if key.is_empty() { Some("") } else { Some(self.facts?.labels.as_ref()?.entries.get(key)?) }
    }
}

fn counts(sent: &SentTopology, pod: &api::Pod, cluster: &[ClusterNode<'_>]) -> api::TopologyCounts {
    let by = &sent.topology.by;
    let Some(wanted) = attribute(by, pod) else { return api::TopologyCounts::default() };
    let mut domains = BTreeMap::new();
    for node in cluster {
        let Some(value) = node.domain(&sent.topology.key) else { continue };
        let like = |equal: &&Running| equal.pods > 0 && attribute(by, &equal.pod) == Some(wanted);
        node.pods.iter().filter(like).for_each(|equal| add(domains.entry(value), equal, sent.sums, pod));
    }
    limited(domains.into_values().collect())
}

/// `pod` is the pod to be placed.
fn add(domain: Entry<'_, &str, api::DomainCount>, equal: &Running, sums: Sums, pod: &api::Pod) {
    let value = (*domain.key()).to_owned();
    let count = domain.or_insert(api::DomainCount { value, ..api::DomainCount::default() });
    count.pods = count.pods.saturating_add(equal.pods);
    count.terminating = count.terminating.saturating_add(equal.terminating);
    if sums == Sums::Requests {
        let requests = pod.facts.as_ref().and_then(|facts| facts.requests.as_ref());
        let is_requested = |name: &str| requests.is_some_and(|requests| requests.others.contains_key(name));
        equal.add_requests(&mut count.requested, is_requested);
    }
}

/// Of too many those with the most pods, in the order of before.
fn limited(mut domains: Vec<api::DomainCount>) -> api::TopologyCounts {
    let mut omitted = Vec::new();
    if domains.len() > DOMAINS {
        domains.sort_by_key(|domain| Reverse(domain.pods));
        omitted = domains.split_off(DOMAINS);
        domains.sort_by(|a, b| a.value.cmp(&b.value));
    }
    let omitted_pods = omitted.iter().fold(0, |pods: u32, domain| pods.saturating_add(domain.pods));
    api::TopologyCounts { domains, omitted_pods }
}
