//! Scores nodes by the pods in their domains: the fewer, the better.

use extender_policy_sdk::{Domains, Node, Pod};

use super::topology::{Topology, staying};

/// A topology over which pods are spread if possible.
#[derive(Debug)]
pub(super) struct SpreadPreference {
    pub(super) topology: Topology,
}

/// The preferences that concern the pod of a call.
pub(super) struct PreferenceQuestion<'a> {
    domains: Vec<Domains<'a>>,
    /// That of a node in no domain: larger than the score of any other.
    worst: u32,
}

impl<'a> PreferenceQuestion<'a> {
    pub(super) fn new(preferences: &[SpreadPreference], pod: &Pod<'a>) -> Self {
        let domains = preferences.iter().filter_map(|preference| preference.topology.domains(pod));
        let domains: Vec<Domains<'a>> = domains.collect();
        // With the pods that are being deleted, which a bound of a count that is left out may include.
        let most = |domains: &Domains<'_>| domains.iter().map(|(_, count)| count.pods()).max().unwrap_or(0);
        let worst = domains.iter().map(most).fold(1, u32::saturating_add);
        Self { domains, worst }
    }

    /// The sum of the pods over all preferences, so the least is the best. A node that lacks one of the labels is worse
    /// than all others: `PodTopologySpread` scores it with 0.
    pub(super) fn score(&self, node: &Node<'_>) -> i32 {
        let pods = |domains: &Domains<'_>| domains.of(node).map(|like| staying(&like));
        let add = |sum: u32, domains| Some(sum.saturating_add(pods(domains)?));
        let sum = self.domains.iter().try_fold(0, add).unwrap_or(self.worst);
        i32::try_from(sum).unwrap_or(i32::MAX)
    }
}
