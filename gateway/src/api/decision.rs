//! `GET /debug/decisions`: calls that were decided, with what each backend said about each node.

use extender_gateway_core::Verb;
use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

/// Calls of the decision log, the newest first.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct DecisionList {
    /// [`super::API_VERSION`].
    pub api_version: String,
    /// `DecisionList`.
    pub kind: String,
    /// The replica that answers.
    pub gateway: String,
    /// The log that they are from.
    pub log: LogState,
    /// There are more that match than were asked for.
    #[serde(default)]
    pub truncated: bool,
    /// The calls, the newest first.
    pub items: Vec<Decision>,
}

/// What the decision log holds.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LogState {
    /// What it may hold, in bytes; 0 when it is switched off.
    pub max_bytes: u64,
    /// What it holds, in bytes.
    pub bytes: u64,
    /// How many calls.
    pub calls: u64,
    /// About how many pods.
    pub pods: u64,
    /// How many calls had to go so far, to make room for others.
    pub evicted: u64,
    /// When the gateway began to write it.
    pub since: Timestamp,
    /// Since when all calls are there but those of pods with very many; absent where none had to go so far.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub complete_since: Option<Timestamp>,
    /// When the oldest call came that is still there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub oldest: Option<Timestamp>,
}

/// One call of kube-scheduler.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Decision {
    /// The call's id, which the backends were told, too.
    pub id: String,
    /// When it came.
    pub time: Timestamp,
    /// How long it took, in seconds.
    pub seconds: f64,
    /// `filter`, `prioritize`, `preempt` or `bind`.
    pub verb: String,
    /// Its trace, where traces are made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub trace_id: Option<String>,
    /// Under which configuration it was decided, counted from 1 at the start.
    pub generation: u64,
    /// The pod.
    pub pod: PodRef,
    /// In which form kube-scheduler sent the nodes; `None` for preempt and bind.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_form: Option<NodeForm>,
    /// How many nodes kube-scheduler offered.
    pub offered: u32,
    /// How many nodes are left after filter and preempt; `None` where the call ended with an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<u32>,
    /// `ok`, or in one word why the call ended with an error: the label `outcome` of `extender_gateway_calls_total`.
    pub outcome: String,
    /// What kube-scheduler was told, where the call ended with an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub message: Option<String>,
    /// The pod's namespace is exempt, so that nobody was asked.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub exempt: bool,
    /// Who was asked, in the order in which answers count, and those in shadow behind them.
    pub backends: Vec<BackendPart>,
    /// What was said about each node, in kube-scheduler's order.
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
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendPart {
    /// Its configured name.
    pub name: String,
    /// `Enforce`, or `Shadow`: asked beside the decision.
    pub mode: String,
    /// What its normalised scores are multiplied with; of prioritize alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weight: Option<u32>,
    /// How its raw scores become 0 to 10: `None`, `Range`, `Max` or `MinMax`, with ` reversed` behind it where the least is the
    /// best; of prioritize alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub normalization: Option<String>,
    /// About how many nodes it was asked in this call.
    pub asked: u32,
    /// For how many nodes its answer was known: remembered from other pods, or come with the answer to filter.
    pub known: u32,
    /// How many nodes it rejected, whether that counted or not.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub rejected: u32,
    /// How many of its scores were outside the range that it declares.
    #[serde(default, skip_serializing_if = "is_zero")]
    pub clamped: u32,
    /// How long it was waited for, in seconds; 0 where it was not asked.
    pub seconds: f64,
    /// What it said where that is no verdict about nodes: a binder's `bound` or `declined: …`, a shadow's `agrees` or
    /// `disagrees`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub answer: Option<String>,
    /// Why there is no answer.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<BackendFailed>,
}

/// Why a backend gave no usable answer, and what that meant.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendFailed {
    /// The label `kind` of `extender_gateway_backend_failures_total`.
    pub kind: String,
    /// What happened.
    pub message: String,
    /// `fail`: the call ended with an error if nodes were left for this backend. `ignore`: it was left out. `next`: the
    /// next one was asked to bind.
    pub policy: String,
}

/// What was said about one node.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodePart {
    /// Its name.
    pub name: String,
    /// The backend whose rejection counted: the first in order.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejected_by: Option<String>,
    /// Why, as kube-scheduler was told, without the backend's name before it. Where a backend changes its words, the
    /// gateway may have told the earlier ones once more.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
    /// The weighted sum; `None` where nobody scored it, and in calls that do not score.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub total: Option<i64>,
    /// What each backend said, by its name. One that is missing was not asked about this node, or failed.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub backends: BTreeMap<String, NodeVerdict>,
}

/// What one backend said about one node: one of filter's two, the three of prioritize together, or preempt's.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct NodeVerdict {
    /// Filter: `true`.
    #[serde(default, skip_serializing_if = "std::ops::Not::not")]
    pub accepted: bool,
    /// Filter and preempt: why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejected: Option<String>,
    /// Prioritize: the score as the backend gave it, brought into the range that it declares.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub raw: Option<i32>,
    /// Prioritize: as a number from 0 to 10, or as it is without normalisation.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub normalized: Option<f64>,
    /// Prioritize: times the weight.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub weighted: Option<f64>,
    /// Preempt: how many pods would be evicted there.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub victims: Option<u32>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "what serde calls takes a reference")]
fn is_zero(number: &u32) -> bool {
    *number == 0
}
