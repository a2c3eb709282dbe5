//! Counts the pods on a node as the gateway does, for tests of policies.

use std::{
    cmp::Reverse,
    collections::{BTreeMap, BTreeSet},
};

use extender_policy_api::limits::{COUNTED_VALUE_BYTES, NODE_COUNTS};
use extender_policy_api::v1beta1 as api;

use super::{
    layout::SentFields,
    pods::{Attribute, SentCount, Sums},
    sent,
};

/// Equal pods on a node.
#[derive(Clone, Debug)]
pub struct Running {
    pub pod: api::Pod,
    pub pods: u32,
    /// How many of them are being deleted.
    pub terminating: u32,
}

impl Running {
    /// Adds the pods' requests, of extended resources those with these names.
    pub(super) fn add_requests(&self, sum: &mut Option<api::Resources>, extended: impl Fn(&str) -> bool) {
        let Some(requests) = self.pod.facts.as_ref().and_then(|facts| facts.requests.as_ref()) else {
            return;
        };
        let sum = sum.get_or_insert_default();
        let add =
            |sum: &mut i64, amount: i64| *sum = sum.saturating_add(amount.saturating_mul(self.pods.into()));
        add(&mut sum.milli_cpu, requests.milli_cpu);
        add(&mut sum.memory, requests.memory);
        add(&mut sum.ephemeral_storage, requests.ephemeral_storage);
        for (name, amount) in requests.others.iter().filter(|(name, _)| extended(name)) {
            add(sum.others.entry(name.clone()).or_default(), *amount);
        }
    }
}

impl SentFields {
    /// The counts in a row, one entry for each attribute that is declared.
    pub fn pod_counts(&self, running: &[Running], facts: Option<&api::NodeFacts>) -> Vec<api::PodCounts> {
        let reported = reported(facts);
        self.pods.iter().map(|count| counts(count, running, &reported)).collect()
    }
}

/// The names of the extended resources that a node reports.
fn reported(facts: Option<&api::NodeFacts>) -> BTreeSet<&str> {
    let amounts = facts.into_iter().flat_map(|facts| facts.allocatable.iter().chain(&facts.capacity));
    amounts.flat_map(|amounts| amounts.others.keys().map(String::as_str)).collect()
}

fn counts(count: &SentCount, running: &[Running], reported: &BTreeSet<&str>) -> api::PodCounts {
    let mut counts: BTreeMap<Attribute<'_>, api::PodCount> = BTreeMap::new();
    for equal in running.iter().filter(|equal| equal.pods > 0) {
        let Some(attribute) = sent::attribute(&count.by, &equal.pod) else { continue };
        add(counts.entry(attribute).or_insert_with(|| none(attribute)), equal, count.sums, reported);
    }
    limited(counts.into_values().collect())
}

fn none(Attribute { namespace, value }: Attribute<'_>) -> api::PodCount {
    api::PodCount { namespace: namespace.to_owned(), value: value.to_owned(), ..api::PodCount::default() }
}

fn add(count: &mut api::PodCount, equal: &Running, sums: Sums, reported: &BTreeSet<&str>) {
    count.pods = count.pods.saturating_add(equal.pods);
    count.terminating = count.terminating.saturating_add(equal.terminating);
    if sums == Sums::Requests {
        equal.add_requests(&mut count.requested, |name| reported.contains(name));
    }
}

/// Without long values, and of too many those with the most pods, in the order of before.
fn limited(counts: Vec<api::PodCount>) -> api::PodCounts {
    let (mut counts, mut omitted): (Vec<_>, Vec<_>) =
        counts.into_iter().partition(|count| count.value.len() <= COUNTED_VALUE_BYTES);
    if counts.len() > NODE_COUNTS {
        counts.sort_by_key(|count| Reverse(count.pods));
        omitted.extend(counts.drain(NODE_COUNTS..));
        counts.sort_by(|a, b| (&a.namespace, &a.value).cmp(&(&b.namespace, &b.value)));
    }
    let omitted_pods = omitted.iter().fold(0, |pods: u32, count| pods.saturating_add(count.pods));
    api::PodCounts { counts, omitted_pods }
}
