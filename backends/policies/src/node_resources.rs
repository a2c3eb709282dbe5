//! Refuses nodes that have too little left for a pod, and scores the others by what is requested on them, as
//! kube-scheduler's plugins `NodeResourcesFit` and `NodeResourcesBalancedAllocation` do.
//!
//! [`args`] reads the operator's settings, [`fit`] refuses, [`allocation`] scores, [`shape`] is a scoring function that
//! the operator defines.

mod allocation;
mod args;
mod fit;
mod shape;

use std::collections::BTreeMap;

use extender_policy_sdk::{
    Args, ArgsError, Info, NodePart, Nodes, Normalization, Pod, PodPart, Policy, Reads, Resources, Scale,
    Verb, Verdict,
};

use self::{allocation::Strategy, fit::Ignored};

/// The allocatable of a node that reports none, and the requests where none are set.
static NOTHING: Resources =
    Resources { milli_cpu: 0, memory: 0, ephemeral_storage: 0, pods: 0, others: BTreeMap::new() };

/// The policy, for one set of args.
#[derive(Debug)]
pub struct NodeResources {
    name: String,
    ignored: Ignored,
    strategy: Strategy,
}

impl NodeResources {
    /// A policy with the name `name`, 1 to 63 bytes.
    ///
    /// # Errors
    /// The args are not those of this policy.
    pub fn new(name: &str, args: &Args) -> Result<Self, ArgsError> {
        let (ignored, strategy) = args::read(args)?;
        Ok(Self { name: name.to_owned(), ignored, strategy })
    }
}

impl Policy for NodeResources {
    /// Both verbs declare the same, so that scores come with the verdicts.
    fn info(&self) -> Info {
        let mut reads = Reads::new();
        reads.pod(PodPart::Requests).pod(PodPart::NonzeroRequests);
        reads.node(NodePart::Allocatable).node(NodePart::Usage);
        let verb = Verb::per_node().pure().reads(&reads);
        let scale = Scale::between(0..=allocation::MAX_SCORE).normalize(Normalization::Range);
        Info::new(&self.name, env!("CARGO_PKG_VERSION")).filters(verb.clone()).scores(verb, scale)
    }

    /// Computes the pod's needs once, not for each node.
    fn filter_all(&self, pod: &Pod<'_>, nodes: &Nodes<'_>) -> Vec<Verdict> {
        let needs = self.ignored.needs_of(pod.requests());
        nodes.iter().map(|node| needs.verdict(node)).collect()
    }

    fn score_all(&self, pod: &Pod<'_>, nodes: &Nodes<'_>) -> Vec<i32> {
        let question = self.strategy.question(pod.requests(), pod.nonzero_requests());
        nodes.iter().map(|node| question.score(node)).collect()
    }
}

#[cfg(test)]
mod tests;
