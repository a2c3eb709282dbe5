//! Refuses and scores nodes by their labels, and protects pods from eviction, from a file of rules.
//! [`mod@file`] reads the rules and reports all mistakes at once, [`rule`] evaluates them, [`reads`] declares what they
//! read, [`reload`] follows the file while running, [`summary`] says in words what the rules do.

pub mod file;
mod reads;
pub mod reload;
pub mod rule;
pub mod summary;

use extender_policy_sdk::{
    Candidate, Eviction, Info, Nodes, Normalization, Pod, Policy, Scale, Verb, Verdict,
};

use self::rule::{Preference, Protection, Refusal};

/// The content of a rule file, validated.
#[derive(Clone, Debug, PartialEq)]
pub struct Rules {
    /// In the file's order: the first that refuses a node gives the reason.
    pub refusals: Vec<Refusal>,
    /// Their scores add up.
    pub preferences: Vec<Preference>,
    /// Pods that any of them protects are not evicted.
    pub protections: Vec<Protection>,
    /// How the sums are normalized to 0 to 10.
    pub normalization: Normalization,
    /// Changes when the file does: FNV-1a of its bytes.
    pub content_hash: u64,
}

/// The policy: rules under the name that the operator gave them.
#[derive(Clone, Debug)]
pub struct LabelRules {
    name: String,
    rules: Rules,
    /// Why a later content of the file is not used; empty if none was rejected.
    rejected: String,
}

impl LabelRules {
    /// A policy with the name `name` (1 to 63 bytes).
    pub fn new(name: impl Into<String>, rules: Rules) -> Self {
        Self { name: name.into(), rules, rejected: String::new() }
    }

    /// The same, which says why a later content of the file is not used.
    #[must_use]
    pub fn rejecting(self, why: impl Into<String>) -> Self {
        Self { rejected: why.into(), ..self }
    }
}

impl Policy for LabelRules {
    /// All verbs, whatever the current rules are: removing the last refusing rule must not break a gateway that is
    /// configured to call filter.
    fn info(&self) -> Info {
        let Rules { refusals: _, preferences, protections: _, normalization, content_hash } = &self.rules;
        let version = env!("CARGO_PKG_VERSION");
        // Scores that are all 0 have no range to normalize over.
        let normalization = if preferences.is_empty() { Normalization::None } else { *normalization };
        let scale = Scale::between(rule::bounds(preferences)).normalize(normalization);
        let placement = Verb::per_node().pure().reads(&reads::of_placement(&self.rules));
        let eviction = Verb::per_node().reads(&reads::of_eviction(&self.rules));
        Info::new(&self.name, version)
            .revision(format!("{version}+{content_hash:016x}"))
            .rejected_configuration(&self.rejected)
            .filters(placement.clone())
            .scores(placement, scale)
            .preempts(eviction)
    }

    /// Finds the rules for the pod once, not for each node.
    fn filter_all(&self, pod: &Pod<'_>, nodes: &Nodes<'_>) -> Vec<Verdict> {
        let refusals: Vec<_> = self.rules.refusals.iter().filter(|rule| rule.pods.includes(pod)).collect();
        let verdict = |node| {
            let first = refusals.iter().find(|rule| rule.refuses(&node));
            first.map_or(Verdict::Accept, |rule| rule.verdict())
        };
        nodes.iter().map(verdict).collect()
    }

    fn score_all(&self, pod: &Pod<'_>, nodes: &Nodes<'_>) -> Vec<i32> {
        let preferences: Vec<_> =
            self.rules.preferences.iter().filter(|rule| rule.pods.includes(pod)).collect();
        let score = |node| {
            let met = preferences.iter().filter(|rule| rule.prefers(&node));
            rule::sum(met.map(|rule| rule.score))
        };
        nodes.iter().map(score).collect()
    }

    /// A node keeps all its victims or is spared: nothing would check whether the pod fits without some of them.
    fn preempt_all(&self, pod: &Pod<'_>, candidates: &[Candidate<'_>]) -> Vec<Eviction> {
        let protections: Vec<_> =
            self.rules.protections.iter().filter(|rule| rule.pods.includes(pod)).collect();
        let eviction = |candidate: &Candidate<'_>| {
            let is_protected = |victim| protections.iter().any(|rule| rule.protects(victim));
            if candidate.victims().any(is_protected) { Eviction::Spare } else { Eviction::All }
        };
        candidates.iter().map(eviction).collect()
    }
}

#[cfg(test)]
mod tests;
