//! Tries a policy on a pod and some nodes without a server, through the same code that answers calls.
//!
//! ```
//! use extender_policy_sdk::testing::{self, TestNode, TestPod};
//! # use extender_policy_sdk::{Info, Node, Pod, Policy, Verb, Verdict};
//! # struct NoArm;
//! # impl Policy for NoArm {
//! #     fn info(&self) -> Info { Info::new("no-arm", "1").filters(Verb::per_node().pure()) }
//! #     fn filter(&self, _: &Pod, node: &Node) -> Verdict {
//! #         match node.label("kubernetes.io/arch") {
//! #             Some("arm64") => Verdict::reject("arm64 nodes are not in use yet"),
//! #             _ => Verdict::Accept,
//! #         }
//! #     }
//! # }
//! let nodes = [
//!     TestNode::new("old").label("kubernetes.io/arch", "amd64"),
//!     TestNode::new("new").label("kubernetes.io/arch", "arm64"),
//! ];
//! let refused = testing::filter(NoArm, &TestPod::new("shop"), &nodes);
//! assert_eq!(refused.unwrap(), [("new".to_owned(), "arm64 nodes are not in use yet".to_owned())]);
//! ```

use extender_policy_api::v1alpha1 as api;
pub use extender_policy_api::v1alpha1::{NodeFacts, PodFacts};
use prost::Message;

use crate::{
    Backend, Bind, answer,
    error::CallError,
    request::{FilterRequest, Form, NodeRows, Nodes, PreemptRequest, ScoreRequest},
    table::Tables,
};

/// A node to test a policy with.
#[derive(Clone, Debug)]
#[must_use]
pub struct TestNode {
    row: api::NodeRow,
}

impl TestNode {
    /// A node without labels.
    pub fn new(name: impl Into<String>) -> Self {
        Self::from_facts(name, NodeFacts::default())
    }

    /// A node with these facts.
    pub fn from_facts(name: impl Into<String>, facts: NodeFacts) -> Self {
        Self { row: api::NodeRow { name: name.into(), facts: Some(facts), ..api::NodeRow::default() } }
    }

    /// With the requests of the pods on it; without, the usage is unknown.
    pub fn usage(mut self, usage: api::NodeUsage) -> Self {
        self.row.usage = Some(usage);
        self
    }

    /// With a label.
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.row.facts.get_or_insert_default().labels.insert(key.into(), value.into());
        self
    }
}

/// A pod to test a policy with.
#[derive(Clone, Debug)]
#[must_use]
pub struct TestPod {
    facts: PodFacts,
}

impl TestPod {
    /// A pod without labels.
    pub fn new(namespace: impl Into<String>) -> Self {
        PodFacts { namespace: namespace.into(), ..PodFacts::default() }.into()
    }

    /// With a label.
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.facts.labels.insert(key.into(), value.into());
        self
    }

    /// With an affinity to nodes.
    pub fn node_affinity(mut self, affinity: api::NodeAffinity) -> Self {
        self.facts.node_affinity = Some(affinity);
        self
    }
}

impl From<PodFacts> for TestPod {
    /// A pod with these facts.
    fn from(facts: PodFacts) -> Self {
        Self { facts }
    }
}

/// A node on which pods would be evicted.
#[derive(Clone, Debug)]
#[must_use]
pub struct TestCandidate {
    node: TestNode,
    candidate: api::Candidate,
}

impl TestCandidate {
    /// No pod would be evicted yet; a policy never gets such a call.
    pub fn new(node: TestNode) -> Self {
        Self { node, candidate: api::Candidate::default() }
    }

    /// With a victim, after the others.
    pub fn victim(self, uid: impl Into<String>, pod: TestPod) -> Self {
        self.with(uid, Some(api::Pod { facts: Some(pod.facts), ..api::Pod::default() }))
    }

    /// With a victim of which only the UID is known.
    pub fn unknown_victim(self, uid: impl Into<String>) -> Self {
        self.with(uid, None)
    }

    /// With this many evictions that violate a `PodDisruptionBudget`.
    pub fn pdb_violations(mut self, count: u32) -> Self {
        self.candidate.pdb_violations = count;
        self
    }

    fn uids(&self, positions: &[u32]) -> Vec<String> {
        let victims = (0_u32..).zip(&self.candidate.victims);
        victims.filter(|(at, _)| positions.contains(at)).map(|(_, victim)| victim.uid.clone()).collect()
    }

    fn with(mut self, uid: impl Into<String>, pod: Option<api::Pod>) -> Self {
        self.candidate.victims.push(api::Victim { uid: uid.into(), pod: pod.map(Box::new) });
        self
    }
}

/// Why a policy gave no answer: the text that the gateway would log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct NoAnswer(String);

impl From<CallError> for NoAnswer {
    fn from(error: CallError) -> Self {
        Self(error.to_string())
    }
}

/// The policy's answer to the handshake.
///
/// # Errors
///
/// [`NoAnswer`] when its declaration has mistakes.
pub fn info(backend: impl Into<Backend>) -> Result<api::GetInfoResponse, NoAnswer> {
    Ok(answer::info(&backend.into(), &Tables::default(), &api::GetInfoRequest::default())?)
}

/// The refused nodes in the order given, each with its reason.
///
/// # Errors
///
/// [`NoAnswer`] as the gateway would get it: the verb is not declared, the policy is not ready, it panicked.
pub fn filter(
    backend: impl Into<Backend>,
    pod: &TestPod,
    nodes: &[TestNode],
) -> Result<Vec<(String, String)>, NoAnswer> {
    let (call, pod, nodes_asked) = asked(pod, nodes);
    let request = FilterRequest { call, pod, nodes: nodes_asked, want_scores: false };
    let rejections = answer::filter(&backend.into(), &Tables::default(), &request)?.rejections;
    let reason = |position| rejections.iter().find(|r| r.positions.contains(&position)).map(|r| &r.reason);
    let refused = (0..).zip(nodes).filter_map(|(position, node)| Some((node, reason(position)?)));
    Ok(refused.map(|(node, reason)| (node.row.name.clone(), reason.clone())).collect())
}

/// The raw scores, one a node, in the order given.
///
/// # Errors
///
/// As for [`filter`].
pub fn score(backend: impl Into<Backend>, pod: &TestPod, nodes: &[TestNode]) -> Result<Vec<i32>, NoAnswer> {
    let (call, pod, nodes) = asked(pod, nodes);
    let scores =
        answer::score(&backend.into(), &Tables::default(), &ScoreRequest { call, pod, nodes })?.scores;
    Ok(scores.map(|scores| scores.values).unwrap_or_default())
}

/// The result of binding the pod, which is named `pod` and has UID `uid`, to this node.
///
/// # Errors
///
/// As for [`filter`], or the policy failed to bind.
pub async fn bind(backend: impl Into<Backend>, pod: &TestPod, node: &str) -> Result<Bind, NoAnswer> {
    let (call, pod, _) = asked(pod, &[]);
    let namespace = pod.iter().flat_map(|pod| &pod.facts).map(|facts| facts.namespace.clone()).collect();
    let (name, uid, node) = ("pod".to_owned(), "uid".to_owned(), node.to_owned());
    let request = api::BindRequest { call, namespace, name, uid, node, pod };
    let api::BindResponse { outcome, message } = answer::bind(&backend.into(), &request).await?;
    let bound = outcome == i32::from(api::BindOutcome::Bound);
    Ok(if bound { Bind::Bound } else { Bind::Declined(message) })
}

/// The candidates that stay, in the order given: each node with the UIDs of the pods that are evicted there.
///
/// # Errors
///
/// As for [`filter`].
pub fn preempt(
    backend: impl Into<Backend>,
    pod: &TestPod,
    candidates: &[TestCandidate],
) -> Result<Vec<(String, Vec<String>)>, NoAnswer> {
    let nodes: Vec<_> = candidates.iter().map(|candidate| candidate.node.clone()).collect();
    let (call, pod, nodes) = asked(pod, &nodes);
    let messages = candidates.iter().map(|candidate| candidate.candidate.clone()).collect();
    let request = PreemptRequest { call, pod, nodes, candidates: messages };
    let kept = answer::preempt(&backend.into(), &Tables::default(), &request)?.kept;
    let stays = |position| kept.iter().find(|kept| kept.position == position).map(|kept| &kept.victims);
    let stay = (0..).zip(candidates).filter_map(|(position, candidate)| Some((candidate, stays(position)?)));
    Ok(stay.map(|(candidate, victims)| (candidate.node.row.name.clone(), candidate.uids(victims))).collect())
}

type Parts = (Option<api::Call>, Option<api::Pod>, Option<Nodes>);

/// The common fields of all verbs, for a decision.
fn asked(pod: &TestPod, nodes: &[TestNode]) -> Parts {
    let call = api::Call { purpose: api::Purpose::Decide.into(), ..api::Call::default() };
    let pod = api::Pod { facts: Some(pod.facts.clone()), ..api::Pod::default() };
    let rows = nodes.iter().map(|node| node.row.encode_to_vec().into()).collect();
    // More than four billion nodes do not fit into memory either.
    let count = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
    let nodes = Nodes { count, form: Some(Form::Rows(NodeRows { rows })) };
    (Some(call), Some(pod), Some(nodes))
}
