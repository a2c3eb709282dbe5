//! Tries a policy on a pod and some nodes without a server, through the same code that answers calls.
//!
//! ```
//! use extender_policy_sdk::testing::{self, TestNode, TestPod};
//! # use extender_policy_sdk::{Info, Node, Pod, Policy, Reads, Verb, Verdict};
//! # struct Amd64Only;
//! # impl Policy for Amd64Only {
//! #     fn info(&self) -> Info {
//! #         let mut reads = Reads::new();
//! #         reads.node_label("kubernetes.io/arch");
//! #         Info::new("no-arm", "1").filters(Verb::per_node().pure().reads(&reads))
//! #     }
//! #     fn filter(&self, _: &Pod, node: &Node) -> Verdict {
//! #         match node.label("kubernetes.io/arch") {
//! #             Some("arm64") => Verdict::reject("arm64 nodes are not in use yet").unresolvable(),
//! #             _ => Verdict::Accept,
//! #         }
//! #     }
//! # }
//! let nodes = [
//!     TestNode::new("old").label("kubernetes.io/arch", "amd64"),
//!     TestNode::new("new").label("kubernetes.io/arch", "arm64"),
//! ];
//! let refused = testing::filter(Amd64Only, &TestPod::new("shop"), &nodes);
//! assert_eq!(refused.unwrap(), [("new".to_owned(), "arm64 nodes are not in use yet".to_owned())]);
//! ```
//!
//! A verb gets what the gateway would send for its declaration, so a test fails if the policy reads anything else.
//! [`recorded`] reads pods and nodes of a cluster or of YAML from a file that the gateway writes.
//! [`everything`] is the same policy with nothing left out: if both give the same answers about random pods and nodes, the
//! declaration is complete.

mod hooks;
mod mistakes;
mod outcomes;
mod recorded;

use extender_policy_api::v1beta1 as api;
pub use extender_policy_api::v1beta1::{MapValues, NodeFacts, PodFacts};
use prost::{Message, bytes::Bytes};

pub use self::hooks::{
    before_filter, before_filter_later, before_filter_nodes, before_filter_nodes_later, before_score,
    before_score_later,
};
pub use self::outcomes::observe;
pub use self::recorded::recorded;
use crate::{
    Backend, Bind, NO_OPINION, Policy,
    answer::{self, Patience, at_once, unpanicking},
    backend::NamedArgs,
    error::CallError,
    info::declaration::Terms,
    reads::{cluster::ClusterNode, layout::SentFields, running::Running},
    request::{FilterRequest, Form, NodeList, NodeRows, PreemptRequest, ScoreRequest},
    table::Tables,
};

/// A node to test a policy with.
#[derive(Clone, Debug)]
#[must_use]
pub struct TestNode {
    row: api::NodeRow,
    pods: Vec<Running>,
}

impl TestNode {
    /// A node without labels.
    pub fn new(name: impl Into<String>) -> Self {
        Self::from_facts(name, NodeFacts::default())
    }

    /// A node with these facts, which have labels and annotations as `entries`.
    pub fn from_facts(name: impl Into<String>, facts: NodeFacts) -> Self {
        let row = api::NodeRow { name: name.into(), facts: Some(facts), ..api::NodeRow::default() };
        Self { row, pods: Vec::new() }
    }

    /// With the requests of the pods on it, for a verb that declares [`NodePart::Usage`](crate::NodePart::Usage); without, the
    /// usage is unknown.
    pub fn usage(mut self, usage: api::NodeUsage) -> Self {
        self.row.usage = Some(usage);
        self
    }

    /// The same of the pods that are nominated to it, for [`NodePart::Nominated`](crate::NodePart::Nominated).
    pub fn nominated(mut self, requested: api::NodeUsage) -> Self {
        self.row.nominated = Some(requested);
        self
    }

    /// With these allocatable resources, `status.allocatable`. Sums of requests contain the extended resources that the
    /// node reports.
    pub fn allocatable(mut self, resources: api::Resources) -> Self {
        self.row.facts.get_or_insert_default().allocatable = Some(resources);
        self
    }

    /// With a label.
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.row
            .facts
            .get_or_insert_default()
            .labels
            .get_or_insert_default()
            .entries
            .insert(key.into(), value.into());
        self
    }

    /// With an annotation. The gateway sends only those that are declared.
    pub fn annotation(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.row
            .facts
            .get_or_insert_default()
            .annotations
            .get_or_insert_default()
            .entries
            .insert(key.into(), value.into());
        self
    }

    /// With this JSON of the object, for a verb that declares [`NodePart::RawJson`](crate::NodePart::RawJson).
    pub fn raw_json(mut self, json: impl Into<Vec<u8>>) -> Self {
        self.row.raw_json = json.into().into();
        self
    }

    /// With a taint, whose effect is `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub fn taint(
        mut self,
        key: impl Into<String>,
        value: impl Into<String>,
        effect: impl Into<String>,
    ) -> Self {
        let taint = api::Taint { key: key.into(), value: value.into(), effect: effect.into() };
        self.row.facts.get_or_insert_default().taints.push(taint);
        self
    }

    /// With this many pods like this one on it, besides those that are there already. A verb that counts pods gets the
    /// counts that the gateway would send for a cluster of the nodes of the call; the [usage](Self::usage) stays as it
    /// is.
    pub fn running(self, pod: &TestPod, pods: u32) -> Self {
        self.with(Running { pod: pod.pod.clone(), pods, terminating: 0 })
    }

    /// The same with pods that are being deleted.
    pub fn terminating(self, pod: &TestPod, pods: u32) -> Self {
        self.with(Running { pod: pod.pod.clone(), pods, terminating: pods })
    }

    fn with(mut self, pods: Running) -> Self {
        self.pods.push(pods);
        self
    }

    fn in_cluster(&self) -> ClusterNode<'_> {
        ClusterNode { facts: self.row.facts.as_ref(), pods: &self.pods }
    }

    /// What the gateway sends of it to a verb.
    fn sent(&self, terms: &Terms) -> api::NodeRow {
        let fields = &terms.reads().node;
        let row = fields.row(&self.row);
        api::NodeRow {
            facts: row.facts.filter(|_| terms.row_parts().has_facts()),
            pod_counts: fields.pod_counts(&self.pods, self.row.facts.as_ref()),
            ..row
        }
    }
}

/// A pod to test a policy with.
#[derive(Clone, Debug)]
#[must_use]
pub struct TestPod {
    pod: api::Pod,
    call_id: String,
}

impl TestPod {
    /// A pod without labels.
    pub fn new(namespace: impl Into<String>) -> Self {
        PodFacts { namespace: namespace.into(), ..PodFacts::default() }.into()
    }

    /// With a label.
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.facts().labels.get_or_insert_default().entries.insert(key.into(), value.into());
        self
    }

    /// With an annotation. The gateway sends only those that are declared.
    pub fn annotation(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.facts().annotations.get_or_insert_default().entries.insert(key.into(), value.into());
        self
    }

    /// With this JSON of the object, for a verb that declares [`PodPart::RawJson`](crate::PodPart::RawJson).
    pub fn raw_json(mut self, json: impl Into<Vec<u8>>) -> Self {
        self.pod.raw_json = json.into().into();
        self
    }

    /// With a toleration.
    pub fn toleration(mut self, toleration: api::Toleration) -> Self {
        self.facts().tolerations.push(toleration);
        self
    }

    /// With a controller of this UID.
    pub fn owner(mut self, uid: impl Into<String>) -> Self {
        let (api_version, kind, name) = ("apps/v1".into(), "ReplicaSet".into(), "owner".into());
        self.facts().owner = Some(api::OwnerReference { api_version, kind, name, uid: uid.into() });
        self
    }

    /// With a priority class of this name.
    pub fn priority_class(mut self, name: impl Into<String>) -> Self {
        self.facts().priority_class_name = name.into();
        self
    }

    /// With these requests.
    pub fn requests(mut self, requests: api::Resources) -> Self {
        self.facts().requests = Some(requests);
        self
    }

    /// With an affinity to nodes.
    pub fn node_affinity(mut self, affinity: api::NodeAffinity) -> Self {
        self.facts().node_affinity = Some(affinity);
        self
    }

    /// With this name and UID, which [`bind`] and [`observe`] tell the policy.
    pub fn identity(mut self, name: impl Into<String>, uid: impl Into<String>) -> Self {
        let identity = self.pod.identity.get_or_insert_default();
        (identity.name, identity.uid) = (name.into(), uid.into());
        self
    }

    /// In calls with this id, which [`observe`] tells the policy, too. Without it the id is `test`.
    pub fn call_id(mut self, id: impl Into<String>) -> Self {
        self.call_id = id.into();
        self
    }

    /// With this metadata.creationTimestamp, in seconds since 1970.
    pub fn created_seconds(mut self, seconds: i64) -> Self {
        self.pod.identity.get_or_insert_with(unnamed).created_seconds = Some(seconds);
        self
    }

    /// Namespace, name and UID.
    fn named(&self) -> [String; 3] {
        let namespace = self.pod.facts.iter().map(|facts| facts.namespace.clone()).collect();
        let api::PodIdentity { name, uid, .. } = self.pod.identity.clone().unwrap_or_else(unnamed);
        [namespace, name, uid]
    }

    /// What the gateway sends of it to a verb, to be placed on one of these nodes.
    fn sent(&self, fields: &SentFields, nodes: &[TestNode]) -> api::Pod {
        let cluster: Vec<_> = nodes.iter().map(TestNode::in_cluster).collect();
        let topology_counts = fields.topology_counts(&self.pod, &cluster);
        api::Pod { topology_counts, ..fields.pod(&self.pod) }
    }

    fn facts(&mut self) -> &mut PodFacts {
        self.pod.facts.get_or_insert_default()
    }
}

/// Of a pod that has none where it is needed.
fn unnamed() -> api::PodIdentity {
    api::PodIdentity { name: "pod".to_owned(), uid: "uid".to_owned(), ..api::PodIdentity::default() }
}

impl From<PodFacts> for TestPod {
    /// A pod with these facts, which have labels and annotations as `entries`.
    fn from(facts: PodFacts) -> Self {
        Self { pod: api::Pod { facts: Some(facts), ..api::Pod::default() }, call_id: "test".to_owned() }
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
    /// No pod would be evicted: a placeholder, unless victims follow.
    pub fn new(node: TestNode) -> Self {
        Self { node, candidate: api::Candidate::default() }
    }

    /// With a victim, after the others.
    pub fn victim(self, uid: impl Into<String>, pod: TestPod) -> Self {
        self.with(uid, Some(pod.pod))
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

    fn uids(&self, kept: &api::KeptCandidate) -> Vec<String> {
        let victims = (0_u32..).zip(&self.candidate.victims);
        let stay = victims.filter(|(at, _)| kept.victims.contains(at)).map(|(_, victim)| &victim.uid);
        stay.chain(&kept.added_uids).cloned().collect()
    }

    /// What the gateway sends of it besides the node.
    fn sent(&self, fields: &SentFields) -> api::Candidate {
        let mut candidate = self.candidate.clone();
        candidate.placeholder = candidate.victims.is_empty();
        let pods = candidate.victims.iter_mut().filter_map(|victim| victim.pod.as_mut());
        pods.for_each(|pod| **pod = fields.pod(pod));
        candidate
    }

    fn with(mut self, uid: impl Into<String>, pod: Option<api::Pod>) -> Self {
        self.candidate.victims.push(api::Victim { uid: uid.into(), pod: pod.map(Box::new) });
        self
    }
}

/// Why a policy gave no answer: the text that the gateway would log.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{text}")]
pub struct NoAnswer {
    text: String,
    is_about_this_pod: bool,
}

impl NoAnswer {
    fn new(text: String) -> Self {
        Self { text, is_about_this_pod: false }
    }

    /// Whether the policy returned [`CannotAnswer`](crate::CannotAnswer).
    pub fn is_about_this_pod(&self) -> bool {
        self.is_about_this_pod
    }
}

impl From<CallError> for NoAnswer {
    fn from(error: CallError) -> Self {
        Self {
            is_about_this_pod: matches!(error, CallError::CannotAnswer(_)),
            ..Self::new(error.to_string())
        }
    }
}

/// The policy's answer to the handshake.
///
/// # Errors
///
/// [`NoAnswer`] when its declaration has mistakes.
pub fn info(backend: impl Into<Backend>) -> Result<api::GetInfoResponse, NoAnswer> {
    Ok(answer::info(&backend.into(), &api::GetInfoRequest::default())?)
}

/// The policy that [`Backend::configured`] builds from these args, as JSON.
///
/// ```
/// # use extender_policy_sdk::testing::{self, TestNode, TestPod};
/// # use extender_policy_sdk::{Args, Backend, Info, Node, Pod, Policy, Reads, Verb, Verdict};
/// #[derive(serde::Deserialize)]
/// #[serde(deny_unknown_fields)]
/// struct DrainZone {
///     zone: String,
/// }
///
/// # impl Policy for DrainZone {
/// #     fn info(&self) -> Info {
/// #         let mut reads = Reads::new();
/// #         reads.node_label("zone");
/// #         Info::new("drain", "1").filters(Verb::per_node().pure().reads(&reads))
/// #     }
/// #     fn filter(&self, _: &Pod, node: &Node) -> Verdict {
/// #         if node.label("zone") == Some(&self.zone) { Verdict::reject("zone is being drained").unresolvable() } else { Verdict::Accept }
/// #     }
/// # }
/// let drain = Backend::configured(Args::parse::<DrainZone>);
/// let nodes = [TestNode::new("a").label("zone", "z1"), TestNode::new("b").label("zone", "z2")];
/// let drained = testing::with_args(drain.clone(), r#"{"zone": "z2"}"#).unwrap();
/// let refused = testing::filter(drained, &TestPod::new("shop"), &nodes).unwrap();
/// assert_eq!(refused, [("b".to_owned(), "zone is being drained".to_owned())]);
/// assert!(testing::with_args(drain, r#"{"zonne": "z2"}"#).unwrap_err().to_string().contains("zonne"));
/// ```
///
/// # Errors
///
/// [`NoAnswer`] with the text that the gateway would log, when the policy does not accept the args.
pub fn with_args(backend: impl Into<Backend>, args: &str) -> Result<Backend, NoAnswer> {
    Ok(backend.into().with_args(args.as_bytes())?)
}

/// The policy with all verbs reading [`Reads::everything`](crate::Reads::everything), and all that can be declared beside it.
/// Neither JSON nor the name and UID of the pod exist for pure verbs.
///
/// ```
/// # use extender_policy_sdk::testing::{self, TestNode, TestPod};
/// # use extender_policy_sdk::{Info, Node, Pod, Policy, Reads, Verb, Verdict};
/// # struct NoRacks;
/// # impl Policy for NoRacks {
/// #     fn info(&self) -> Info {
/// #         let mut reads = Reads::new();
/// #         reads.node_label("rack");
/// #         Info::new("racks", "1").filters(Verb::per_node().pure().reads(&reads))
/// #     }
/// #     fn filter(&self, _: &Pod, node: &Node) -> Verdict {
/// #         node.label("rack").map_or(Verdict::Accept, |_| Verdict::reject("node is in a rack").unresolvable())
/// #     }
/// # }
/// let (pod, nodes) = (TestPod::new("shop"), [TestNode::new("a").label("rack", "r1").label("zone", "z1")]);
/// let refused = testing::filter(NoRacks, &pod, &nodes);
/// assert!(refused.is_ok());
/// assert_eq!(refused, testing::filter(testing::everything(NoRacks), &pod, &nodes));
/// ```
pub fn everything(policy: impl Policy) -> Backend {
    Backend::reading_everything(policy)
}

/// What the policy shows at a path, as declared with [`Info::shows`](crate::Info::shows), for these parameters of the path
/// and this query.
///
/// ```
/// # use extender_policy_sdk::{Info, IntrospectAsk, IntrospectError, Policy, Verb, serde_json, testing};
/// # struct Quotas;
/// # impl Policy for Quotas {
/// #     fn info(&self) -> Info {
/// #         Info::new("quotas", "1").filters(Verb::per_node()).shows("/quotas/:namespace", "a quota")
/// #     }
/// #     fn introspect(&self, ask: &IntrospectAsk<'_>) -> Result<serde_json::Value, IntrospectError> {
/// #         match ask.parameter("namespace") {
/// #             "shop" => Ok(serde_json::json!({"cpu": 4})),
/// #             other => Err(IntrospectError::NotFound(format!("namespace {other} has no quota"))),
/// #         }
/// #     }
/// # }
/// let shown = testing::introspect(Quotas, "/quotas/:namespace", &[("namespace", "shop")], &[]);
/// assert_eq!(shown.unwrap(), serde_json::json!({"cpu": 4}));
/// ```
///
/// # Errors
///
/// [`NoAnswer`] with the text that the gateway would get: also if the path is not declared, or a parameter is missing.
pub fn introspect(
    backend: impl Into<Backend>,
    path: &str,
    parameters: &[(&str, &str)],
    query: &[(&str, &str)],
) -> Result<serde_json::Value, NoAnswer> {
    let owned = |pairs: &[(&str, &str)]| {
        pairs.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect()
    };
    let request = api::IntrospectRequest {
        path: path.to_owned(),
        parameters: owned(parameters),
        query: owned(query),
        ..api::IntrospectRequest::default()
    };
    let shown = answer::introspect(&backend.into(), &request)?;
    serde_json::from_slice(&shown.json).map_err(|error| NoAnswer::new(format!("no valid JSON: {error}")))
}

/// The refused nodes in the order given, each with its reason.
///
/// # Errors
///
/// [`NoAnswer`] as the gateway would get it: the verb is not declared, the policy is not ready, it panicked. Also for what the
/// policy API forbids: a reason that is empty, counts something or has control characters, a score outside of the scale, a
/// pure verb that answers otherwise when it is asked again about the nodes in another order. Also for a verb that declares
/// [`Verb::waits`](crate::Verb::waits), for which there is [`filter_later`].
pub fn filter(
    backend: impl Into<Backend>,
    pod: &TestPod,
    nodes: &[TestNode],
) -> Result<Vec<(String, String)>, NoAnswer> {
    complete("Filter", filtered(&backend.into(), pod, nodes, Patience::None))
}

/// [`filter`], for a verb that may wait.
///
/// # Errors
///
/// As for [`filter`].
pub async fn filter_later(
    backend: impl Into<Backend>,
    pod: &TestPod,
    nodes: &[TestNode],
) -> Result<Vec<(String, String)>, NoAnswer> {
    Ok(unpanicking("Filter", filtered(&backend.into(), pod, nodes, Patience::Endless)).await?)
}

async fn filtered(
    backend: &Backend,
    pod: &TestPod,
    nodes: &[TestNode],
    patience: Patience,
) -> Result<Vec<(String, String)>, CallError> {
    let verb = api::Verb::Filter;
    let reasons = mistakes::per_node(backend, verb, nodes, async |nodes: &[TestNode]| {
        let SentCall { call, pod, nodes: asked } = SentCall::new(backend, verb, pod, nodes)?;
        let request = FilterRequest { call, pod, nodes: asked, want_scores: false };
        let rejections = answer::filter(backend, &Tables::default(), &request, patience).await?.rejections;
        let at = |position| rejections.iter().find(|r| r.positions.contains(&position));
        Ok((0..).zip(nodes).map(|(position, _)| at(position).map(|r| r.reason.clone())).collect())
    });
    let verdicts = nodes.iter().zip(reasons.await?);
    let refused = verdicts.filter_map(|(node, reason)| Some((node.row.name.clone(), reason?)));
    mistakes::reasons(refused.collect())
}

/// The raw scores, one a node, in the order given; [`NO_OPINION`] is one of them.
///
/// # Errors
///
/// As for [`filter`]; there is [`score_later`].
pub fn score(backend: impl Into<Backend>, pod: &TestPod, nodes: &[TestNode]) -> Result<Vec<i32>, NoAnswer> {
    complete("Score", scored(&backend.into(), pod, nodes, Patience::None))
}

/// [`score`], for a verb that may wait.
///
/// # Errors
///
/// As for [`filter`].
pub async fn score_later(
    backend: impl Into<Backend>,
    pod: &TestPod,
    nodes: &[TestNode],
) -> Result<Vec<i32>, NoAnswer> {
    Ok(unpanicking("Score", scored(&backend.into(), pod, nodes, Patience::Endless)).await?)
}

async fn scored(
    backend: &Backend,
    pod: &TestPod,
    nodes: &[TestNode],
    patience: Patience,
) -> Result<Vec<i32>, CallError> {
    let verb = api::Verb::Score;
    let scores = mistakes::per_node(backend, verb, nodes, async |nodes: &[TestNode]| {
        let SentCall { call, pod, nodes: asked } = SentCall::new(backend, verb, pod, nodes)?;
        let request = ScoreRequest { call, pod, nodes: asked };
        let scores = answer::score(backend, &Tables::default(), &request, patience).await?.scores;
        Ok(as_returned(scores.unwrap_or_default()))
    });
    mistakes::scores(backend, nodes, scores.await?)
}

/// As the policy returned them.
fn as_returned(scores: api::Scores) -> Vec<i32> {
    let value =
        |(position, value)| if scores.absent.binary_search(&position).is_ok() { NO_OPINION } else { value };
    (0..).zip(scores.values).map(value).collect()
}

/// The answer of a verb that does not wait.
fn complete<T>(
    method: &'static str,
    answer: impl Future<Output = Result<T, CallError>>,
) -> Result<T, NoAnswer> {
    let waits =
        || NoAnswer::new("it is declared with waits(); use the function whose name ends with _later".into());
    Ok(at_once(method, answer).ok_or_else(waits)??)
}

/// The result of binding the pod to this node. Without [`TestPod::identity`] it is named `pod` and has UID `uid`.
///
/// # Errors
///
/// As for [`filter`], or the policy failed to bind.
pub async fn bind(backend: impl Into<Backend>, pod: &TestPod, node: &str) -> Result<Bind, NoAnswer> {
    let backend = backend.into();
    let [namespace, name, uid] = pod.named();
    let SentCall { call, pod, .. } = SentCall::new(&backend, api::Verb::Bind, pod, &[])?;
    let node = node.to_owned();
    let request = api::BindRequest { call, namespace, name, uid, node, pod };
    let api::BindResponse { outcome, message } = answer::bind(&backend, &request).await?;
    Ok(match api::BindOutcome::try_from(outcome) {
        Ok(api::BindOutcome::Bound) => Bind::Bound,
        Ok(api::BindOutcome::NotBound) => Bind::NotBound(message),
        _ => Bind::Declined(message),
    })
}

/// The candidates that stay, in the order given: each node with the UIDs of the pods that are evicted there.
///
/// # Errors
///
/// As for [`filter`]; there is [`preempt_later`].
pub fn preempt(
    backend: impl Into<Backend>,
    pod: &TestPod,
    candidates: &[TestCandidate],
) -> Result<Vec<(String, Vec<String>)>, NoAnswer> {
    complete("Preempt", preempted(&backend.into(), pod, candidates, Patience::None))
}

/// [`preempt`], for a verb that may wait.
///
/// # Errors
///
/// As for [`filter`].
pub async fn preempt_later(
    backend: impl Into<Backend>,
    pod: &TestPod,
    candidates: &[TestCandidate],
) -> Result<Vec<(String, Vec<String>)>, NoAnswer> {
    Ok(unpanicking("Preempt", preempted(&backend.into(), pod, candidates, Patience::Endless)).await?)
}

async fn preempted(
    backend: &Backend,
    pod: &TestPod,
    candidates: &[TestCandidate],
    patience: Patience,
) -> Result<Vec<(String, Vec<String>)>, CallError> {
    let nodes: Vec<_> = candidates.iter().map(|candidate| candidate.node.clone()).collect();
    let terms = terms(backend, api::Verb::Preempt)?;
    let messages = candidates.iter().map(|candidate| candidate.sent(&terms.reads().pod)).collect();
    let SentCall { call, pod, nodes } = SentCall::new(backend, api::Verb::Preempt, pod, &nodes)?;
    let request = PreemptRequest { call, pod, nodes, candidates: messages };
    let kept = answer::preempt(backend, &Tables::default(), &request, patience).await?.kept;
    let stays = |position| kept.iter().find(|kept| kept.position == position);
    let stay = (0..).zip(candidates).filter_map(|(position, candidate)| Some((candidate, stays(position)?)));
    Ok(stay.map(|(candidate, kept)| (candidate.node.row.name.clone(), candidate.uids(kept))).collect())
}

/// The common fields of all verbs, for a decision.
struct SentCall {
    call: Option<api::Call>,
    pod: Option<api::Pod>,
    nodes: Option<NodeList>,
}

impl SentCall {
    /// As the gateway sends them for the declaration of the verb.
    fn new(backend: &Backend, verb: api::Verb, pod: &TestPod, nodes: &[TestNode]) -> Result<Self, CallError> {
        let terms = terms(backend, verb)?;
        let purpose = api::Purpose::Decide.into();
        let reads = Bytes::copy_from_slice(terms.reads_digest());
        let sent = pod.sent(&terms.reads().pod, nodes);
        let rows = nodes.iter().map(|node| node.sent(&terms).encode_to_vec().into()).collect();
        // More than four billion nodes do not fit into memory either.
        let count = u32::try_from(nodes.len()).unwrap_or(u32::MAX);
        Ok(Self {
            call: Some(api::Call { id: pod.call_id.clone(), purpose, reads, ..api::Call::default() }),
            pod: Some(sent),
            nodes: Some(NodeList { count, form: Some(Form::Rows(NodeRows { rows })) }),
        })
    }
}

fn terms(backend: &Backend, verb: api::Verb) -> Result<Terms, CallError> {
    Ok(backend.policy_for(NamedArgs::whole(&[])?)?.called(verb)?.clone())
}
