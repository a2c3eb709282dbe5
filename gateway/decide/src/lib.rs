//! Makes the decisions of core: calls backends, passes on their answers, enforces the deadline.
//!
//! One [`Decider`] serves all calls. A call encodes the pod and the nodes once for each view in use
//! (`call_context`), calls the backends in parallel from the task that serves the call (it spawns none, so that a
//! disconnect of the caller cancels all of them), and stops as soon as the decision is certain. Only backends in
//! shadow mode are called in separate tasks, after the decision.

mod ask;
mod asker;
mod bind;
mod call_changes;
mod call_context;
mod filter;
mod gang;
pub mod holding;
mod hooks;
mod modes;
pub mod overrides;
mod own_pod;
mod pacing;
mod preempt;
mod prioritize;
mod purpose;
mod reserve;
mod shadow;

use std::{
    collections::BTreeSet,
    fmt::Write,
    hash::{BuildHasher, RandomState},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use extender_gateway_core::{BackendFailure, FailureKind, PolicyVerb};
use extender_otlp::TraceContext;
use futures_util::future::{OptionFuture, join, join_all};
use tokio::time::{Instant, timeout_at};

use self::prioritize::PrefetchedScores;
pub use self::{
    bind::{BindEnd, Binders},
    filter::Filtered,
    pacing::RetryPacing,
    preempt::PreemptCall,
    purpose::DecisionPurpose,
    reserve::AssumedPod,
};
use extender_gateway_backend::{Backend, info::ClusterTables, session::Session};
use extender_gateway_cluster::{binder::BindingState, head::ObjectHead, unreadable::Unreadable};
use extender_gateway_object::{
    ObjectError,
    pod::{self, ObjectPod},
};
use extender_gateway_observe::{Metrics, Observer};
use extender_gateway_pace::cadences::Cadences;
use extender_gateway_pace::fair_queue::Flow;
use extender_gateway_pace::rate_limited_log::RateLimitedLog;
use extender_gateway_record::{CallOutcome, CallRecord, Outcome, PodRef, RequestedNodes};
use extender_gateway_settings::{self as config, Mode, ReasonSettings, Timeouts};
use extender_gateway_wire::{Request, WireError};

use crate::overrides::Overrides;

/// A call as received by `door`.
#[derive(Debug, Clone, Copy)]
pub struct Call<'c> {
    /// The request.
    pub request: &'c Arc<Request>,
    /// Its pod.
    pub pod: &'c ObjectPod<'c>,
    /// When it was received; the decision's budget starts here.
    pub began: Instant,
    /// Whose calls it is queued with.
    pub flow: Flow,
    /// What its caller needs besides.
    pub needs: CallerNeeds,
}

/// What a caller needs besides an answer about nodes. That of an extender needs nothing.
#[derive(Debug, Clone, Copy, Default)]
pub struct CallerNeeds {
    /// It asks about further nodes if these are not enough: if all of them are rejected, the pod is not.
    pub is_part: bool,
    /// It tries the pod again when nodes change, from the state on that the gateway knows, and wants to know on what of nodes rejections
    /// depend.
    pub follows_nodes: bool,
}

/// Decides calls with the configured backends.
#[derive(Debug)]
pub struct Decider {
    /// In effective order.
    backends: Vec<Arc<Backend>>,
    /// Those with hooks, in the order in which the hooks run.
    hooks: Vec<Arc<Backend>>,
    settings: Arc<DeciderSettings>,
    /// Changes with the settings of any backend.
    policy_settings: u64,
    prefetched: PrefetchedScores,
    /// By backend and verb: a backend that is down fails hundreds of calls per second.
    failure_log: RateLimitedLog<(String, PolicyVerb)>,
    /// Random, so that call ids are unique among all replicas.
    run: u64,
    next_call: AtomicU64,
}

/// What a [`Decider`] needs besides its backends.
#[derive(Debug)]
pub struct DeciderSettings {
    /// The sources of facts about nodes.
    pub tables: ClusterTables,
    /// The time limits of calls.
    pub timeouts: Timeouts,
    /// How reasons are reported to kube-scheduler.
    pub reasons: ReasonSettings,
    /// The namespaces whose pods are not sent to backends.
    pub exempt: BTreeSet<String>,
    /// Pacing of pods that fit nowhere.
    pub pacing: Arc<RetryPacing>,
    /// The binder; `None` if the gateway does not bind.
    pub binders: Option<Binders>,
    /// Receives the records of calls.
    pub observer: Arc<Observer>,
    /// Intervals and timeouts.
    pub cadences: Cadences,
    /// What the decisions are for.
    pub purpose: DecisionPurpose,
    /// The modes that replace those of the configuration.
    pub overrides: Arc<Overrides>,
}

impl DeciderSettings {
    fn pod<'j>(&self, json: &'j [u8]) -> Result<ObjectPod<'j>, ObjectError> {
        let (pod, unreadable) = (pod::offered(json), &self.tables.offered.unreadable);
        match &pod {
            Ok(pod) => unreadable.remove("Pod", pod.namespace(), pod.name()),
            Err(error) => {
                unreadable.add_of_call(ObjectHead::of(json).object("Pod"), &error.to_string());
                self.observer.metrics.process().unreadable_objects.inc();
            }
        }
        pod
    }

    /// Until when a call that was received at `began` waits for unknown nodes.
    fn unknown_nodes_deadline(&self, began: Instant) -> Instant {
        let Self { cadences, timeouts, .. } = self;
        unknown_nodes_deadline(Instant::now(), cadences.unknown_nodes, began, timeouts.decision)
    }
}

impl Decider {
    /// Creates one for backends in effective order. `hooks` are those with hooks, in the order of the file.
    pub fn new(backends: Vec<Arc<Backend>>, hooks: Vec<Arc<Backend>>, settings: DeciderSettings) -> Self {
        let policies = backends.iter().map(|backend| Arc::clone(&backend.settings)).collect();
        Self {
            backends,
            hooks,
            policy_settings: settings.pacing.generation_of(policies),
            prefetched: PrefetchedScores::new(settings.cadences.early_scores),
            settings: Arc::new(settings),
            failure_log: RateLimitedLog::default(),
            // The random key of a hasher is the standard library's source of randomness.
            run: RandomState::new().hash_one(0_u8),
            next_call: AtomicU64::new(1),
        }
    }

    /// Slices the body of a filter or prioritize call.
    ///
    /// # Errors
    /// As [`Request::read_with`].
    pub fn read(&self, body: Bytes) -> Result<Request, WireError> {
        Request::read_with(body, &self.settings.tables.offered.known_json())
    }

    /// Parses the pod of a call, and records one that cannot be read.
    ///
    /// # Errors
    /// The pod cannot be read.
    pub fn pod<'j>(&self, json: &'j [u8]) -> Result<ObjectPod<'j>, ObjectError> {
        self.settings.pod(json)
    }

    /// The objects of calls that cannot be read.
    pub fn unreadable(&self) -> &Unreadable {
        &self.settings.tables.offered.unreadable
    }

    /// The id of the next call, the same for all its backends.
    fn next_id(&self) -> String {
        let mut id = String::with_capacity(24);
        // Writing to a `String` does not fail.
        let _ = write!(id, "{:016x}-{:x}", self.run, self.next_call.fetch_add(1, Ordering::Relaxed));
        id
    }

    /// The record of a call about a pod that was received at `began`, to be filled in while it is decided. If
    /// tracing is enabled, the decision is a span under the caller's span, if any.
    pub fn record(
        &self,
        pod: PodRef,
        nodes: RequestedNodes,
        began: Instant,
        parent: Option<TraceContext>,
    ) -> CallRecord {
        let trace = self.settings.observer.tracer.as_ref().map(|tracer| tracer.begin(&pod, parent));
        let exempt = self.settings.exempt.contains(&pod.namespace);
        CallRecord { trace, exempt, ..CallRecord::new(self.next_id(), began, pod, nodes) }
    }

    /// The same for a call that contains its pod.
    pub fn record_of(
        &self,
        pod: &ObjectPod<'_>,
        nodes: RequestedNodes,
        began: Instant,
        parent: Option<TraceContext>,
    ) -> CallRecord {
        let annotated = self.settings.observer.tracer.as_ref().and_then(|tracer| tracer.annotated(pod));
        CallRecord { annotated, ..self.record(pod.into(), nodes, began, parent) }
    }

    /// The backends whose answers to a verb count for this pod, in effective order, with their settings for the
    /// verb. `verb` selects these settings.
    fn asked<'d, S: 'd>(
        &'d self,
        pod: &ObjectPod<'_>,
        verb: fn(&config::BackendSettings) -> Option<&S>,
    ) -> impl Iterator<Item = (&'d Arc<Backend>, &'d S)> {
        self.interested(pod, Mode::Enforce)
            .filter_map(move |backend| verb(&backend.settings).map(|settings| (backend, settings)))
    }

    fn metrics(&self) -> &Metrics {
        &self.settings.observer.metrics
    }

    /// Records a backend's failure in its part of a call, from which it is counted, and logs it at most once per
    /// second.
    fn record_failure(
        &self,
        verb: PolicyVerb,
        failure: &BackendFailure,
        record: &mut CallRecord,
        part: usize,
    ) {
        let part = &mut record.backends[part];
        part.outcome = Outcome::Failed(failure.clone());
        let backend = part.backend.name.as_str();
        if failure.kind == FailureKind::Unreachable {
            // Its session has logged that the backend is down: an outage is one line, not one each second.
            tracing::debug!(
                backend,
                verb = verb.name(),
                pod = record.pod.name,
                "backend call failed: {failure}"
            );
            return;
        }
        let Some(similar) = self.failure_log.permit_of((backend.to_owned(), verb)) else { return };
        tracing::warn!(
            backend,
            verb = verb.name(),
            kind = failure.kind.as_str(),
            policy = part.policy.as_str(),
            pod = record.pod.name,
            namespace = record.pod.namespace,
            trace_id = record.trace.map(|trace| display(trace.trace_id)),
            similar,
            "backend call failed: {failure}"
        );
    }

    /// Waits, as for unknown nodes, until the watches have come to these resource versions of nodes and pods; 0 for no matter
    /// which. Whether nodes are known to be as new as that.
    pub async fn caught_up(&self, nodes: u64, pods: u64, began: Instant) -> bool {
        let ClusterTables { table, pods: counted, .. } = &self.settings.tables;
        let has_reached =
            || nodes > 0 && table.as_ref().is_some_and(|table| table.source_health.has_reached(nodes));
        let nodes = table.as_ref().filter(|_| nodes > 0).map(|table| table.source_health.reached(nodes));
        let pods = counted.as_ref().filter(|_| pods > 0).map(|table| table.source_health.reached(pods));
        let caught_up = join(OptionFuture::from(nodes), OptionFuture::from(pods));
        let _ = timeout_at(self.settings.unknown_nodes_deadline(began), caught_up).await;
        if let Some(pods) = counted {
            pods.pass_on(self.settings.tables.node_tables());
        }
        has_reached()
    }

    /// Records that a pod was accepted on a node, by an answer about another pod.
    pub fn accepted(&self, uid: &str) {
        self.settings.pacing.accepted(uid);
    }

    /// The modes that replace those of the configuration.
    pub fn overrides(&self) -> &Arc<Overrides> {
        &self.settings.overrides
    }

    /// The sources of facts about nodes.
    pub fn tables(&self) -> &ClusterTables {
        &self.settings.tables
    }

    /// Each backend's settings and current session, in effective order, or why it is unavailable.
    pub fn sessions(
        &self,
    ) -> impl Iterator<Item = (&config::BackendSettings, Result<Arc<Session>, BackendFailure>)> {
        self.backends.iter().map(|backend| (&*backend.settings, backend.any_session()))
    }

    /// The backends that are called, in effective order.
    pub fn backends(&self) -> impl Iterator<Item = &Backend> {
        self.backends.iter().map(|backend| &**backend)
    }

    /// Waits, for a limited time, until the backends have acknowledged what they are told about attempts to place pods.
    pub async fn outcomes_acknowledged(&self, longest: Duration) {
        join_all(self.backends.iter().map(|backend| backend.outcomes.acknowledged(longest))).await;
    }

    /// Waits until the first attempt to connect to every backend has succeeded or failed.
    pub async fn first_attempts(&self) {
        for backend in &self.backends {
            backend.first_attempt().await;
        }
    }
}

/// At most `longest` from now; half of the call's time is left for the backends.
fn unknown_nodes_deadline(now: Instant, longest: Duration, began: Instant, budget: Duration) -> Instant {
    (now + longest).min(began + budget / 2)
}

/// Why a call has no decision. Displayed as the response to the caller, on one line.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum CallError {
    /// The body cannot be parsed.
    #[error("extender-gateway: bad request: {0}")]
    Request(String),
    /// A backend failed whose failure policy is Fail.
    #[error("extender-gateway: backend {name} failed {}: {failure}", .verb.name())]
    Backend {
        /// Its configured name.
        name: String,
        /// The verb.
        verb: PolicyVerb,
        /// The failure.
        failure: BackendFailure,
    },
    /// No node is left, and this number was rejected because the gateway does not know them yet.
    #[error("extender-gateway: no node is left, and {} not yet known to the gateway", nodes_are(*.0))]
    NotYetKnown(u32),
    /// The pod was rejected on all nodes too often in a short time; one of the reasons.
    #[error("extender-gateway: no node is left, and the pod was retried too often in a short time; {0}")]
    Repeated(String),
    /// The pod is not bound, because it no longer fits the node since other pods were bound. The reason.
    #[error("extender-gateway: cannot bind: {0}; kube-scheduler tries again")]
    NoLongerFits(String),
    /// The gateway is not configured to bind.
    #[error(
        "extender-gateway: bind is not configured: set `binder` to BuiltIn or a backend's name, or remove bindVerb from \
         kube-scheduler's configuration"
    )]
    NoBinder,
    /// The pod is not bound to the node, or its state is unknown.
    #[error("extender-gateway: cannot bind: {0}")]
    Bind(BindingState),
}

impl CallError {
    /// How a call with this error ends.
    pub fn outcome(&self) -> CallOutcome {
        match self {
            Self::Request(_) => CallOutcome::Request,
            Self::Backend { .. } => CallOutcome::Backend,
            Self::NotYetKnown(_) => CallOutcome::UnknownNodes,
            Self::Repeated(_) => CallOutcome::Repeated,
            Self::NoLongerFits(_) => CallOutcome::NoLongerFits,
            Self::NoBinder => CallOutcome::NoBinder,
            Self::Bind(BindingState::Unknown(_)) => CallOutcome::Apiserver,
            Self::Bind(_) => CallOutcome::Pod,
        }
    }

    /// The error about a pod that cannot be bound, to be told about another pod.
    fn reason(&self) -> String {
        match self {
            Self::NoLongerFits(why) => why.clone(),
            Self::Bind(state) => state.to_string(),
            other => other.to_string(),
        }
    }

    /// This backend failed, and its failure policy is Fail.
    fn backend(backend: &config::BackendSettings, verb: PolicyVerb, failure: BackendFailure) -> Self {
        Self::Backend { name: backend.name.to_string(), verb, failure }
    }
}

impl From<WireError> for CallError {
    fn from(error: WireError) -> Self {
        Self::Request(error.to_string())
    }
}

/// For pods alone: an error about a node names the node.
impl From<ObjectError> for CallError {
    fn from(error: ObjectError) -> Self {
        Self::Request(format!("Pod: {error}"))
    }
}

impl From<BindingState> for CallError {
    fn from(state: BindingState) -> Self {
        Self::Bind(state)
    }
}

fn nodes_are(count: u32) -> String {
    if count == 1 { "1 node is".to_owned() } else { format!("{count} nodes are") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_unknown_nodes_leaves_the_backends_half_of_the_budget() {
        let began = Instant::now();
        let read = began + Duration::from_millis(10);
        for (budget, waits) in [(1000, 110), (220, 110), (100, 50), (10, 5)] {
            let until = unknown_nodes_deadline(
                read,
                Duration::from_millis(100),
                began,
                Duration::from_millis(budget),
            );
            assert_eq!(until, began + Duration::from_millis(waits), "{budget} ms");
        }
    }
}
