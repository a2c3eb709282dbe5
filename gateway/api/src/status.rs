//! `GET /debug/status`: the health of the gateway and its backends, and remedies for problems.

use std::collections::BTreeMap;

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{LogState, NodeForm, OverrideStatus};

/// The state of a gateway.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// [`super::API_VERSION`].
    pub api_version: String,
    /// `Status`.
    pub kind: String,
    /// The replica that responds.
    pub gateway: String,
    /// The program's version.
    pub version: String,
    /// When it was started.
    pub started: Timestamp,
    /// The time at which this was assembled, by the clock of this replica.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub time: Option<Timestamp>,
    /// Whether it is ready, as in `/readyz`.
    pub ready: bool,
    /// The configuration in use.
    pub configuration: ConfigurationStatus,
    /// The four verbs.
    pub verbs: Vec<VerbStatus>,
    /// The configured backends, in effective order; disabled ones last.
    pub backends: Vec<BackendStatus>,
    /// The node table.
    pub nodes: TableStatus,
    /// The pod table; `None` if pods are not watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<TableStatus>,
    /// Whether kube-scheduler is made to try pods again when their backend recovers or changes: `None` or
    /// `PodCondition`.
    #[serde(default)]
    pub requeue: String,
    /// The number of pods that were updated for this since the start.
    #[serde(default)]
    pub requeued_pods: u64,
    /// The pods that wait although what held them has changed; `None` if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub untried: Option<UntriedPods>,
    /// The waiting pods by workload and reason: the largest 100 groups, the largest first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub waiting: Vec<WaitingPodsStatus>,
    /// What backends in shadow mode would have changed, by backend.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub shadows: Vec<ShadowStatus>,
    /// The decision log.
    pub log: LogState,
    /// Lines of the log that could not be written; `None` if all were.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub lost_log_lines: Option<LostLogLines>,
    /// Delivery of spans as a text; `None` if tracing is disabled.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traces: Option<String>,
    /// The certificate files in use.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub certificates: Vec<CertificateStatus>,
    /// The modes that replace those of the configuration for a while.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub overrides: Vec<OverrideStatus>,
    /// The problems, the most severe first.
    pub problems: Vec<Problem>,
}

/// Lines of the log that could not be written.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LostLogLines {
    /// Their number since the start.
    pub lines: u64,
    /// When the last one was lost.
    pub last: Timestamp,
}

/// The configuration in use.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigurationStatus {
    /// The file.
    pub file: String,
    /// Starting at 1.
    pub generation: u64,
    /// Equal for replicas with equal settings; has no other meaning.
    #[serde(default)]
    pub digest: String,
    /// Each setting by its path, to say what differs between replicas; of `args` only a hash.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub settings: BTreeMap<String, String>,
    /// When it was loaded.
    pub loaded: Timestamp,
    /// The latest rejected change, unless a later one was accepted.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<RejectedChange>,
}

/// A file with certificates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CertificateStatus {
    /// Its field in the configuration, such as `extender.tls.certFile`.
    pub field: String,
    /// The file.
    pub file: String,
    /// The name of the certificate that counts: the one of a chain that ends first, or the authority that ends last.
    pub name: String,
    /// Its end.
    pub not_after: Timestamp,
}

/// A rejected change of the configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RejectedChange {
    /// When it was rejected.
    pub time: Timestamp,
    /// Why.
    pub message: String,
    /// What it depends on.
    #[serde(default)]
    pub because: RejectedBecause,
}

/// Why a change of the configuration was rejected.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum RejectedBecause {
    /// The file is invalid or cannot be read.
    #[default]
    File,
    /// It changes settings that only a restart can change.
    Fixed,
    /// A backend cannot be used with it. The gateway tries it again by itself.
    Backend,
}

/// A failure of a backend in a verb.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastFailure {
    /// When it happened.
    pub time: Timestamp,
    /// The label `kind` of `extender_gateway_backend_failures_total`.
    #[serde(default)]
    pub kind: String,
    /// Why.
    pub message: String,
}

/// The calls of a verb.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VerbStatus {
    /// `filter`, `prioritize`, `preempt` or `bind`.
    pub verb: String,
    /// Calls since the start.
    pub calls: u64,
    /// The number of those that ended with an error.
    pub failed: u64,
    /// The median duration of the latest calls, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median_seconds: Option<f64>,
    /// The 99th percentile of the duration of the latest calls, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_seconds: Option<f64>,
    /// The latest call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<LastCall>,
    /// The calls that were refused because of overload. Absent: none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<RefusedCalls>,
}

/// Calls that were refused because there were more than the gateway can take.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct RefusedCalls {
    /// Their number since the start.
    pub count: u64,
    /// When the latest one was refused.
    pub last: Timestamp,
}

/// The latest call of a verb.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastCall {
    /// When it was received.
    pub time: Timestamp,
    /// The form of the nodes.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_form: Option<NodeForm>,
    /// The number of nodes.
    pub nodes: u32,
    /// As [`super::Decision::outcome`].
    pub outcome: String,
}

/// The state of a backend.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendStatus {
    /// Its configured name.
    pub name: String,
    /// Its URL.
    pub url: String,
    /// The mode of the configuration: `Enforce`, `Shadow` or `Disabled`.
    pub mode: String,
    /// What replaces it for a while.
    #[serde(default, rename = "override", skip_serializing_if = "Option::is_none")]
    pub overridden: Option<OverrideStatus>,
    /// The percentage of pods for which its answers count; `None`: all.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub canary_percent: Option<u8>,
    /// How far it is over its limit of rejections; `None`: it is not, or has none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub excessive_rejections: Option<ExcessiveRejectionsStatus>,
    /// The pods for which it is called, in words.
    #[serde(default)]
    pub matches: String,
    /// Whether there is a connection with a successful handshake.
    pub connected: bool,
    /// Why it is not connected.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// Since when it is connected without an outage.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub connected_since: Option<Timestamp>,
    /// Why its host cannot be resolved while the last known addresses are used, and for how many seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unresolved: Option<UnresolvedStatus>,
    /// Its addresses, if its host resolves to several.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub addresses: Vec<AddressStatus>,
    /// How often the connection was lost, or could not be made at first.
    #[serde(default)]
    pub outages: u64,
    /// Why it does not use a configuration of its own, such as a changed rule file: what it used before still answers.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejected_configuration: Option<String>,
    /// What it reported in the handshake.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handshake: Option<Handshake>,
    /// The controllers that one of its replicas runs; `None` if it reports none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub controllers: Option<ControllersStatus>,
    /// The pods that wait because of it; `None` if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub waiting: Option<WaitingStatus>,
    /// Its configured verbs.
    pub verbs: Vec<BackendVerb>,
}

/// A host that cannot be resolved.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UnresolvedStatus {
    /// For how long, in seconds.
    pub seconds: u64,
    /// Why.
    pub failure: String,
}

/// A backend that rejects more nodes than its `maxRejectShare`.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ExcessiveRejectionsStatus {
    /// The share of nodes that it rejected in the window, from 0 to 1.
    pub share: f64,
    /// The limit.
    pub most: f64,
    /// Since when it is more.
    pub since: Timestamp,
}

/// The controllers of a backend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ControllersStatus {
    /// Their names.
    pub names: Vec<String>,
    /// The Lease whose holder runs them, as `NAMESPACE/NAME`.
    pub lease: String,
    /// The replicas that say that they run them; several, if one has not noticed yet that it has lost the Lease. If none of
    /// the connected replicas does, the holders that these know.
    pub leaders: Vec<String>,
}

/// The pods that wait because a backend rejected or failed them.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitingStatus {
    /// Their number, at most 20,000.
    pub pods: u32,
    /// The number of workloads that they are parts of: their controllers, and those without one.
    #[serde(default)]
    pub workloads: u32,
    /// How long the oldest one has waited, in seconds.
    pub oldest_seconds: u64,
    /// The number of those that kube-scheduler last tried before the backend recovered or changed, and does not try again
    /// by itself.
    pub untried: u32,
    /// How long ago that was, in seconds; `None` if it did not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub changed_seconds: Option<u64>,
}

/// Pods that wait for an event of the cluster although what held them has recovered or changed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct UntriedPods {
    /// Their number.
    pub pods: u32,
    /// How long ago the latest change was, in seconds.
    pub changed_seconds: u64,
    /// Whether the gateway makes kube-scheduler try them again.
    pub is_requeued: bool,
}

/// Waiting pods of one workload that wait for the same reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct WaitingPodsStatus {
    /// Their controller, such as `ReplicaSet apps/web-7d9`, or the pod.
    pub workload: String,
    /// Why they wait, with the name of the backend.
    pub reason: String,
    /// Their number.
    pub pods: u32,
    /// How long the oldest one has waited, in seconds.
    pub oldest_seconds: u64,
    /// The namespace of the oldest one.
    pub namespace: String,
    /// Its name.
    pub pod: String,
    /// As [`WaitingStatus::untried`].
    #[serde(default)]
    pub untried: u32,
}

/// What a backend in shadow mode would have changed for the pods of the decision log, by its latest filter answer about each.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShadowStatus {
    /// The backend's name.
    pub backend: String,
    /// The pods that it has answered about.
    pub pods: u32,
    /// Those that are on a node that it would have rejected. Zero if pods are not watched.
    pub elsewhere: u32,
    /// Those of which it would have rejected every node.
    pub nowhere: u32,
    /// Both by workload, rule and reason: the largest 100 groups, the largest first.
    pub groups: Vec<ShadowGroup>,
}

/// Pods of one workload for which a backend in shadow mode would have changed the decision for one reason.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ShadowGroup {
    /// The change.
    pub effect: ShadowEffect,
    /// Their controller, such as `ReplicaSet apps/web-7d9`, or the pod.
    pub workload: String,
    /// The rule, if the backend names it.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rule: Option<String>,
    /// The reason.
    pub reason: String,
    /// Their number.
    pub pods: u32,
    /// The namespace of one of them.
    pub namespace: String,
    /// Its name.
    pub pod: String,
}

/// Where a pod would have been placed instead.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub enum ShadowEffect {
    /// On no node.
    Nowhere,
    /// On another node.
    Elsewhere,
}

/// One of several addresses of a backend.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct AddressStatus {
    /// `IP:PORT`.
    pub address: String,
    /// Whether there is a connection with a successful handshake.
    pub connected: bool,
    /// Why it is not called, although others may be.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// The calls in progress.
    pub calls: u32,
    /// The version that it reports; empty when unknown.
    pub version: String,
    /// The revision that it reports; empty when unknown.
    pub revision: String,
}

/// What a backend reports in the handshake.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Handshake {
    /// Its reported name.
    pub name: String,
    /// Its version; empty when unknown.
    pub version: String,
    /// Its revision; empty when unknown.
    pub revision: String,
    /// Whether it keeps the node table, so that calls name nodes by id.
    pub holds_nodes: bool,
    /// Whether its filter decides by the pods that are bound, by usage or counts of pods.
    #[serde(default)]
    pub filters_by_bound_pods: bool,
    /// Whether its latest handshake requests something else and is not used yet, because it changes too often.
    #[serde(default)]
    pub changes_too_often: bool,
}

/// The calls to a backend for one verb.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendVerb {
    /// `filter`, `score`, `preempt`, `bind`, or a hook such as `beforeFilter`.
    pub verb: String,
    /// Its failure policy: `Fail`, `Ignore` or `Next`.
    #[serde(default)]
    pub failure_policy: String,
    /// Why it cannot serve this verb, according to its handshake.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsuitable: Option<String>,
    /// Why its scores probably count for more than they should, according to its handshake.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unscaled_scores: Option<String>,
    /// Its open circuit breakers: calls are refused without being sent.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub circuits: Vec<CircuitStatus>,
    /// What it is sent of pods and nodes, according to its handshake.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reads: Option<ReadsStatus>,
    /// Decisions since the start: calls, and those for which all answers were cached or prefetched.
    #[serde(default)]
    pub decisions: u64,
    /// Calls since the start.
    pub calls: u64,
    /// Failed calls since the start.
    pub failures: u64,
    /// The number of failures among the latest calls, at most 256.
    pub failed_lately: u32,
    /// The number of latest calls.
    pub lately: u32,
    /// Those of the failures by kind, the most frequent first.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub failure_kinds: Vec<FailureCount>,
    /// Whether the latest call failed.
    #[serde(default)]
    pub last_failed: bool,
    /// Those of the latest calls that ended in the last minute.
    #[serde(default)]
    pub minute: MinuteStatus,
    /// The median duration of the latest calls, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median_seconds: Option<f64>,
    /// The 99th percentile of the duration of the latest calls, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_seconds: Option<f64>,
    /// The share of rejected nodes in the latest filter calls, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejected_share: Option<f64>,
    /// Set while it rejects every node for every pod.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejects_all: Option<RejectsAll>,
    /// While it rejects every node: the labels that it reads and no node has.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub missing_labels: Vec<String>,
    /// The latest failure.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<LastFailure>,
}

/// A circuit breaker that is not closed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct CircuitStatus {
    /// The address that is not called.
    pub address: String,
    /// Its state.
    pub state: CircuitState,
    /// When it opened.
    pub since: Timestamp,
    /// The latest failure.
    pub cause: String,
}

/// The state of a circuit breaker that is not closed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum CircuitState {
    /// Calls are refused.
    Open,
    /// One call is in progress, and decides whether it closes. The others are refused.
    Probing,
}

/// The number of failures of a kind.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct FailureCount {
    /// The label `kind` of `extender_gateway_backend_failures_total`.
    pub kind: String,
    /// The number of calls.
    pub calls: u32,
}

/// The calls that ended in the last minute, at most 256.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct MinuteStatus {
    /// The number of calls.
    pub calls: u32,
    /// The number of failed calls.
    pub failed: u32,
    /// The number of those that were sent: the others were answered from the cache, or failed before.
    #[serde(default)]
    pub sent: u32,
    /// The 99th percentile of their duration, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_seconds: Option<f64>,
}

/// The latest filter decisions of a backend, each of which rejected every node; with those from cached answers.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct RejectsAll {
    /// The first one.
    pub since: Timestamp,
    /// The number of decisions.
    pub decisions: u64,
    /// The number of pods that they are about, at most 1,000.
    pub pods: u64,
    /// The latest one.
    #[serde(default)]
    pub last: Timestamp,
    /// The workload if all these pods are parts of one, such as `ReplicaSet apps/web`: it may be at a limit of its own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub workload: Option<String>,
    /// The most frequent reason of the latest one.
    #[serde(default)]
    pub reason: String,
}

/// What a verb of a backend is sent, in words.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ReadsStatus {
    /// Of pods: `everything`, `nothing`, or what is declared, such as `requests, label team`.
    pub pods: String,
    /// Of nodes, the same; `name` if it is sent no facts.
    pub nodes: String,
}

/// The state of the node or pod table.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TableStatus {
    /// `Watch`, `File`, `Request` or `NamesOnly`.
    pub source: String,
    /// The number of objects.
    pub count: u64,
    /// Whether the first list is complete.
    pub synced: bool,
    /// Seconds since the last event of the source; `None` if unknown.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silent_seconds: Option<f64>,
}

/// A problem.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// Its severity.
    pub severity: Severity,
    /// Its subject, such as `backend zones`.
    pub about: String,
    /// What is wrong.
    pub what: String,
    /// What it means for pods, if that is not clear from its subject.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub impact: Option<String>,
    /// The remedy.
    pub remedy: String,
    /// Its entry of the runbook, as a path in the project's documentation.
    #[serde(default)]
    pub runbook: String,
}

impl Problem {
    /// With what it means for pods.
    #[must_use]
    pub fn with_impact(self, impact: impl Into<String>) -> Self {
        Self { impact: Some(impact.into()), ..self }
    }
}

/// The severity of a problem.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Severity {
    /// Pods may not be scheduled, or no policy decides about them.
    Error,
    /// Something does not work as it is configured.
    Warning,
    /// It is over; nothing has to be done.
    Recent,
}

/// Clocks that differ by more than this, in seconds, are a problem.
const MAX_CLOCK_DIFFERENCE: u64 = 5;

/// What a wrong clock means.
pub const CLOCK_IMPACT: &str =
    "certificates, tokens and overrides are judged by a wrong time, and logs and status show one";

/// What is wrong with a clock if this other one is ahead by so many seconds; `None` if they agree well enough.
pub fn clock_difference(ahead: i64, other: &str) -> Option<String> {
    let direction = if ahead > 0 { "behind" } else { "ahead of" };
    let seconds = ahead.unsigned_abs();
    (seconds > MAX_CLOCK_DIFFERENCE).then(|| format!("it is {seconds} s {direction} {other}"))
}
