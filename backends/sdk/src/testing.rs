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
//! [`recorded()`] reads pods and nodes of a cluster or of YAML from a file that the gateway writes.
//! [`everything`] is the same policy with nothing left out: if both give the same answers about random pods and nodes, the
//! declaration is complete.

mod hooks;
mod mistakes;
mod outcomes;
mod recorded;

use extender_policy_api::v1beta1 as api;
pub use extender_policy_api::v1beta1::{MapValues, NodeFacts, PodFacts};
#[doc(inline)]
pub use extender_policy_types::testing::{TestCandidate, TestNode, TestPod};
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
    request::{FilterRequest, Form, NodeList, NodeRows, PreemptRequest, ScoreRequest},
    table::Tables,
};

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
/// policy API forbids: a reason that is empty or has control characters, reasons of two nodes that differ only in a number, a
/// score outside of the scale, a pure verb that answers otherwise when it is asked again about the nodes in another order. Also
/// for a verb that declares [`Verb::waits`](crate::Verb::waits), for which there is [`filter_later`].
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
    let kept = answer::preempt(backend, &Tables::default(), &request, patience).await;
    let kept = kept.map_err(|error| mistakes::named(error, candidates))?.kept;
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
