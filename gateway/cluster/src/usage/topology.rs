//! The pods that are like the pod of a call, added up by a label of their nodes.

use std::{cmp::Reverse, collections::BTreeMap};

use extender_gateway_object::{counted::TopologyCountView, pod::ObjectPod};
use extender_policy_api::limits::DOMAINS;
use extender_policy_api::v1beta1::{DomainCount, Resources, TopologyCounts};

use super::{
    Sums, Usage,
    counts::{Count, number},
};

/// The pods of one domain.
#[derive(Debug, Default)]
struct Domain {
    sums: Sums,
    terminating: i64,
}

impl Usage {
    /// The pods that are like this one in a view; `None` if pods are not counted by this. `domain` returns the value of
    /// the topology key of a node; pods on nodes without it are not counted. Of extended resources, the sums are those
    /// that the pod itself requests.
    pub(crate) fn topology_counts<'n>(
        &self,
        pod: &ObjectPod<'_>,
        view: &TopologyCountView,
        domain: impl Fn(&str) -> Option<&'n str>,
    ) -> Option<TopologyCounts> {
        if !self.counts_by(&view.by) {
            return None;
        }
        let requested: Vec<_> =
            if view.requests { pod.share().requested.others.into_keys().collect() } else { Vec::new() };
        let mut domains: BTreeMap<&str, Domain> = BTreeMap::new();
        for (node, count) in self.counts.like(pod, &view.by) {
            if let Some(value) = domain(node) {
                domains.entry(value).or_default().add(count, &requested);
            }
        }
        // The pod is not like itself. It is counted if an earlier attempt to bind it had no certain end.
        if let Some(own) = self.pods.get(pod.uid())
            && self.counts.is_like(own.attributes.as_deref(), pod, &view.by)
            && let Some(value) = domain(&own.node)
            && let Some(domain) = domains.get_mut(value)
        {
            domain.sums.change(&own.requests, -1);
            domain.terminating -= i64::from(pod.is_terminating());
            if domain.sums.fixed.pods == 0 {
                domains.remove(value);
            }
        }
        Some(message(domains, view))
    }
}

impl Domain {
    fn add(&mut self, Count { sums, terminating }: &Count, requested: &[String]) {
        self.terminating += terminating;
        self.sums.add(sums, requested);
    }

    fn message(&self, value: &str, view: &TopologyCountView) -> DomainCount {
        let requested = view.requests.then(|| self.sums.usage(self.sums.names()).requested).flatten();
        DomainCount {
            value: value.to_owned(),
            pods: number(self.sums.fixed.pods),
            terminating: number(self.terminating),
            requested: requested.map(|requested| Resources { pods: 0, ..requested }),
        }
    }
}

impl Sums {
    /// Adds the sums of other pods; of other resources only the named ones.
    fn add(&mut self, other: &Self, names: &[String]) {
        self.fixed.pods += other.fixed.pods;
        for (sum, amount) in self.fixed.amounts.iter_mut().zip(other.fixed.amounts) {
            *sum += amount;
        }
        for (name, other) in names.iter().filter_map(|name| other.others.get_key_value(name.as_str())) {
            let sum = self.others.entry(name.clone()).or_default();
            sum.pods += other.pods;
            sum.amount += other.amount;
        }
    }
}

/// The domains in the contract's form, within its limit.
fn message(domains: BTreeMap<&str, Domain>, view: &TopologyCountView) -> TopologyCounts {
    let mut listed: Vec<_> = domains.into_iter().collect();
    let mut omitted = 0;
    if listed.len() > DOMAINS {
        // Stable, so that of equal domains the first ones are listed.
        listed.sort_by_key(|(_, domain)| Reverse(domain.sums.fixed.pods));
        omitted = listed.drain(DOMAINS..).map(|(_, domain)| domain.sums.fixed.pods).sum();
        listed.sort_by_key(|(value, _)| *value);
    }
    let domains = listed.into_iter().map(|(value, domain)| domain.message(value, view)).collect();
    TopologyCounts { domains, omitted_pods: number(omitted) }
}
