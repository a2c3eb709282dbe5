//! Refuses nodes that a pod's node selector and required node affinity exclude, and scores the others by its
//! preferred terms, as kube-scheduler's plugin `NodeAffinity` does.
//!
//! [`args`] reads an affinity that the operator adds to every pod's, [`term`] evaluates one term, [`required`] and
//! [`preferred`] evaluate a pod's affinity.

mod args;
mod preferred;
mod required;
mod term;

use extender_policy_sdk::{
    Args, ArgsError, Info, Node, NodeAffinity as Affinity, NodePart, Nodes, Normalization, Pod, PodPart,
    Policy, Reads, Scale, Verb, Verdict,
};

use self::{preferred::Preferred, required::RequiredTerms};

/// The plugin's reasons.
const CONFLICT: &str = "pod affinity terms conflict";
const ENFORCED: &str = "node(s) didn't match scheduler-enforced node affinity";
const POD: &str = "node(s) didn't match Pod's node affinity/selector";

/// The policy, for one set of args.
#[derive(Debug)]
pub struct NodeAffinity {
    name: String,
    /// Holds for every pod in addition to its own. Has no mistakes.
    added: Affinity,
}

impl NodeAffinity {
    /// A policy with the name `name`, 1 to 63 bytes.
    ///
    /// # Errors
    /// The args are not those of this policy.
    pub fn new(name: &str, args: &Args) -> Result<Self, ArgsError> {
        Ok(Self { name: name.to_owned(), added: args::read(args)? })
    }
}

impl Policy for NodeAffinity {
    /// Sums of weights have no upper bound: they are scaled to the best of the call. A pod can name any label of a
    /// node. Both verbs declare the same, so that scores come with the verdicts.
    fn info(&self) -> Info {
        let mut reads = Reads::new();
        reads.node(NodePart::Name).pod(PodPart::NodeSelector).pod(PodPart::NodeAffinity);
        reads.node_labels("");
        let verb = Verb::per_node().pure().reads(&reads);
        Info::new(&self.name, env!("CARGO_PKG_VERSION"))
            .filters(verb.clone())
            .scores(verb, Scale::unbounded().normalize(Normalization::Max))
    }

    /// Reads the pod's terms once, not for each node.
    fn filter_all(&self, pod: &Pod<'_>, nodes: &Nodes<'_>) -> Vec<Verdict> {
        let own = pod.node_affinity().and_then(|affinity| affinity.required.as_ref());
        if own.is_some_and(required::conflicts) {
            return vec![Verdict::reject(CONFLICT).unresolvable(); nodes.len()];
        }
        let added = self.added.required.as_ref().map(RequiredTerms::of);
        let own = own.map(RequiredTerms::of);
        let verdict = |node: Node<'_>| {
            if added.as_ref().is_some_and(|added| !added.admits(node)) {
                Verdict::reject(ENFORCED).unresolvable()
            } else if !selects(pod, node) || own.as_ref().is_some_and(|own| !own.admits(node)) {
                Verdict::reject(POD).unresolvable()
            } else {
                Verdict::Accept
            }
        };
        nodes.iter().map(verdict).collect()
    }

    fn score_all(&self, pod: &Pod<'_>, nodes: &Nodes<'_>) -> Vec<i32> {
        let own = pod.node_affinity().map_or(&[][..], |affinity| &affinity.preferred);
        let (Ok(own), Ok(added)) = (Preferred::of(own), Preferred::of(&self.added.preferred)) else {
            // The plugin would fail the pod's attempt. Scores cannot do that: all nodes get the same score.
            return vec![0; nodes.len()];
        };
        nodes.iter().map(|node| own.score(node).saturating_add(added.score(node))).collect()
    }
}

/// Whether the node has all labels of the pod's spec.nodeSelector.
fn selects(pod: &Pod<'_>, node: Node<'_>) -> bool {
    pod.node_selectors().all(|(key, value)| node.label(key) == Some(value))
}

#[cfg(test)]
mod tests;
