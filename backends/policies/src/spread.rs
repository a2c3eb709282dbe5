//! Limits how many similar pods may run in one rack, zone or other topology, or in the whole cluster, and
//! prefers nodes where fewer of them run: what kube-scheduler's plugin `PodTopologySpread` does with the constraints of
//! a pod, set by the operator for all pods.
//!
//! [`args`] reads the constraints, [`topology`] is what all of them have in common, [`limit`] refuses, [`preference`]
//! scores.

mod args;
mod limit;
mod preference;
mod topology;

use extender_policy_sdk::{
    Args, ArgsError, Info, Nodes, Normalization, Pod, Policy, Reads, Scale, Verb, Verdict,
};

use self::{limit::Limit, preference::SpreadPreference};

/// The policy, for one set of args.
#[derive(Debug)]
pub struct Spread {
    name: String,
    reads: Reads,
    limits: Vec<Limit>,
    preferences: Vec<SpreadPreference>,
}

impl Spread {
    /// A policy with the name `name`, 1 to 63 bytes.
    ///
    /// # Errors
    /// The args are not those of this policy.
    pub fn new(name: &str, args: &Args) -> Result<Self, ArgsError> {
        let args::Constraints { reads, limits, preferences } = args::read(args)?;
        Ok(Self { name: name.to_owned(), reads, limits, preferences })
    }
}

impl Policy for Spread {
    /// Only the verbs that the constraints need, so that a configuration that expects another one is reported. Both
    /// declare the same, so that scores come with the verdicts.
    ///
    /// Pure although each binding changes the counts: they are a part of the pod by which the gateway caches. While
    /// pods of an owner are bound one after the other, each is a class of its own, for which nothing is cached. When a
    /// limit is reached, the counts stay, and all pods of the owner that wait share the cached answers.
    fn info(&self) -> Info {
        let verb = Verb::per_node().pure().reads(&self.reads);
        let mut info = Info::new(&self.name, env!("CARGO_PKG_VERSION"));
        if !self.limits.is_empty() {
            info = info.filters(verb.clone());
        }
        if !self.preferences.is_empty() {
            info = info.scores(verb, Scale::unbounded().normalize(Normalization::MinMax).reversed());
        }
        info
    }

    /// Compares each domain with the limits once, not for each node. The first limit that a node exceeds is the reason.
    fn filter_all(&self, pod: &Pod<'_>, nodes: &Nodes<'_>) -> Vec<Verdict> {
        let mut questions: Vec<_> = self.limits.iter().filter_map(|limit| limit.question(pod)).collect();
        let verdict = |node| {
            let refusal = questions.iter_mut().find_map(|question| question.refusal(&node));
            refusal.map_or(Verdict::Accept, Verdict::Reject)
        };
        nodes.iter().map(verdict).collect()
    }

    fn score_all(&self, pod: &Pod<'_>, nodes: &Nodes<'_>) -> Vec<i32> {
        let question = preference::PreferenceQuestion::new(&self.preferences, pod);
        nodes.iter().map(|node| question.score(&node)).collect()
    }
}

#[cfg(test)]
mod tests;
