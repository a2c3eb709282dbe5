//! `GET /debug/decisions`: past calls, with the answer of each backend for each node.

use extender_gateway_core::Verb;
use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// A list from the decision log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LogList<T> {
    /// [`super::API_VERSION`].
    pub api_version: String,
    /// `DecisionList` or `PodList`.
    pub kind: String,
    /// The replica that responds.
    pub gateway: String,
    /// The state of the decision log.
    pub log: LogState,
    /// More match than were requested.
    #[serde(default)]
    pub truncated: bool,
    /// What was requested.
    pub items: Vec<T>,
}

/// Calls, the newest first.
pub type DecisionList = LogList<Decision>;

/// The state of the decision log.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LogState {
    /// Its maximum size in bytes; 0 if it is disabled.
    pub max_bytes: u64,
    /// Its size in bytes.
    pub bytes: u64,
    /// The number of calls.
    pub calls: u64,
    /// The number of pods.
    pub pods: u64,
    /// Calls evicted so far.
    pub evicted: u64,
    /// When it began.
    pub since: Timestamp,
    /// Since when it is complete, except for pods with very many calls; absent if no call was evicted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complete_since: Option<Timestamp>,
    /// When its oldest call was received.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest: Option<Timestamp>,
}

/// One call of kube-scheduler.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// The call's id, which backends also receive.
    pub id: String,
    /// When it was received.
    pub time: Timestamp,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// `filter`, `prioritize`, `preempt` or `bind`.
    pub verb: String,
    /// Its trace, if tracing is enabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
    /// The generation of the configuration that decided it, starting at 1.
    pub generation: u64,
    /// The pod.
    pub pod: PodRef,
    /// The form in which kube-scheduler sent the nodes; `None` for preempt and bind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_form: Option<NodeForm>,
    /// The number of nodes that kube-scheduler offered.
    pub offered: u32,
    /// The number of nodes left after filter and preempt; `None` if the call ended with an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<u32>,
    /// `ok`, or the kind of the call's error: the label `outcome` of `extender_gateway_calls_total`.
    pub outcome: String,
    /// The error sent to kube-scheduler, if the call ended with one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The pod's namespace is exempt, so no backend was called.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exempt: bool,
    /// kube-scheduler's plugin gave the pod the answer of the call with this id, which was about another pod.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub kept: bool,
    /// Hooks in the order in which they ran, then the backends in effective order, those in shadow mode last.
    pub backends: Vec<BackendPart>,
    /// The answers for each node, in kube-scheduler's order.
    pub nodes: Vec<NodePart>,
}

impl Decision {
    /// Whether it is a call of this verb.
    pub fn is(&self, verb: Verb) -> bool {
        self.verb == verb.name()
    }
}

/// A pod.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodRef {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `status.nominatedNodeName` at the time of the call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub nominated_node: Option<String>,
}

/// How kube-scheduler sends nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum NodeForm {
    /// By name (`nodeCacheCapable: true`).
    Names,
    /// As full objects (`nodeCacheCapable: false`).
    Objects,
}

/// One backend's part in a call.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendPart {
    /// Its configured name.
    pub name: String,
    /// The hook that this part is about: `beforeFilter`, `beforeFilterNodes` or `beforeScore`; absent for the verb of the
    /// call. A backend with both has two parts.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub hook: Option<String>,
    /// `Enforce`, or `Shadow`: called in the background.
    pub mode: String,
    /// Why it is in shadow mode for this pod although its configured mode is another: an override with its end and reason,
    /// or the share of pods of its canary.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub mode_reason: Option<String>,
    /// The weight of its normalized scores; only for prioritize.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// How its raw scores are mapped to 0 to 10: `None`, `Range`, `Max` or `MinMax`, followed by ` reversed` if the
    /// lowest is the best; only for prioritize.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub normalization: Option<String>,
    /// The number of nodes that were sent to it.
    pub asked: u32,
    /// The number of nodes whose answer was cached, or prefetched with the answer to filter.
    pub known: u32,
    /// What it reads of pods, such as `namespace, label tier`, or `nothing`; only where it declares this and cached
    /// answers were used: they are those of pods that are equal in it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads_of_pods: Option<String>,
    /// The number of nodes that it rejected, whether that counted or not.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rejected: u32,
    /// The number of its scores that were outside the declared range.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub clamped: u32,
    /// Only for hooks: the number of nodes that it changed.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub changed: u32,
    /// Only for hooks: what it changed of the pod, such as `requests +500m cpu: reason`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pod_change: Option<String>,
    /// How long the call waited for it, in seconds; 0 if it was not called.
    pub seconds: f64,
    /// Its answer if it is not about nodes: a binder's `bound` or `declined: …`, `agrees` or `disagrees` in shadow
    /// mode.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// Its failure, if any.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<BackendFailed>,
}

/// Why a backend gave no usable answer, and the effect.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendFailed {
    /// The label `kind` of `extender_gateway_backend_failures_total`.
    pub kind: String,
    /// The failure.
    pub message: String,
    /// `fail`: the call ended with an error if nodes were left for this backend. `ignore`: it was ignored. `next`:
    /// the next binder was called.
    pub policy: String,
}

/// The answers for one node.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodePart {
    /// Its name.
    pub name: String,
    /// The backend whose rejection counted: the first in order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejected_by: Option<String>,
    /// The reason sent to kube-scheduler, without the backend's name. If a backend's reason changes, the gateway
    /// may repeat the earlier text.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The weighted sum; `None` if no backend scored it, and for other verbs.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<i64>,
    /// What hooks changed of it, in their order.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub changes: Vec<NodeChange>,
    /// The answer of each backend, by its name. A missing backend was not called for this node, or failed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub backends: BTreeMap<String, NodeVerdict>,
}

/// What a hook changed of a node, for this pod alone.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeChange {
    /// The backend.
    pub backend: String,
    /// The change in words, such as `+4 cpu: reserved for team a`.
    pub change: String,
}

/// The answer of one backend for one node: one of filter's two fields, the three of prioritize, or preempt's.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeVerdict {
    /// Filter: `true`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub accepted: bool,
    /// Filter and preempt: the reason of the rejection.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejected: Option<String>,
    /// Filter: the name of the policy's rule that rejected the node, if it names one.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// Filter: in how many seconds from the answer the verdict can be another one at the earliest, if the policy says so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub retry_after_seconds: Option<u32>,
    /// Prioritize: the backend's score, clamped to the declared range.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<i32>,
    /// Prioritize: normalized to 0 to 10, or unchanged without normalization.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub normalized: Option<f64>,
    /// Prioritize: multiplied by the weight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weighted: Option<f64>,
    /// Preempt: the number of pods that would be evicted there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub victims: Option<u32>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde requires a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}
