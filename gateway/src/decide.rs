//! Makes the decisions of core: calls backends, passes on their answers, enforces the deadline.
//!
//! One [`Decider`] serves all calls. A call encodes the pod and the nodes once for each view in use
//! (`call_context`), calls the backends in parallel from the task that serves the call (it spawns none, so that a
//! disconnect of the caller cancels all of them), and stops as soon as the decision is certain. Only backends in
//! shadow mode are called in separate tasks, after the decision.

mod ask;
mod bind;
mod call_context;
mod error;
mod failures;
mod filter;
mod pacing;
mod preempt;
mod prefetched;
mod prioritize;
mod shadow;

use std::{
    collections::BTreeSet,
    fmt::Write,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use extender_gateway_core::BackendFailure;
use extender_otlp::TraceContext;
use tokio::time::Instant;

pub use self::{
    bind::{BindError, Binders},
    error::CallError,
    filter::Filtered,
    pacing::RetryPacing,
    preempt::PreemptCall,
};
use self::{failures::FailureRecorder, prefetched::PrefetchedScores};
use crate::{
    backend::{Backend, info::ClusterTables, session::Session},
    cadences::Cadences,
    config::{self, Mode, ReasonSettings, Timeouts},
    object::pod::ObjectPod,
    observe::{Metrics, Observer},
    record::{CallRecord, PodRef, RequestedNodes},
    wire::Request,
};

/// A call as received by `door`.
#[derive(Debug, Clone, Copy)]
pub struct Call<'c> {
    /// The request.
    pub request: &'c Request,
    /// Its pod.
    pub pod: &'c ObjectPod<'c>,
    /// When it was received; the decision's budget starts here.
    pub began: Instant,
}

/// Decides calls with the configured backends.
#[derive(Debug)]
pub struct Decider {
    /// In effective order.
    backends: Vec<Arc<Backend>>,
    known: ClusterTables,
    timeouts: Timeouts,
    reasons: ReasonSettings,
    exempt: BTreeSet<String>,
    attempts: Arc<RetryPacing>,
    binders: Option<Binders>,
    failures: FailureRecorder,
    observer: Arc<Observer>,
    metrics: Arc<Metrics>,
    prefetched: PrefetchedScores,
    cadences: Cadences,
    ids: CallIds,
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
}

impl Decider {
    /// Creates one for backends in effective order.
    pub fn new(backends: Vec<Arc<Backend>>, terms: DeciderSettings) -> Self {
        let DeciderSettings {
            tables: known,
            timeouts,
            reasons,
            exempt,
            pacing: attempts,
            binders,
            observer,
            cadences,
        } = terms;
        let metrics = Arc::clone(&observer.metrics);
        let failures = FailureRecorder::default();
        Self {
            backends,
            known,
            timeouts,
            reasons,
            exempt,
            attempts,
            binders,
            failures,
            observer,
            metrics,
            prefetched: PrefetchedScores::new(cadences.early_scores),
            cadences,
            ids: CallIds::new(),
        }
    }

    /// The record of a call about a pod that was received at `began`, to be filled in while it is decided. If
    /// tracing is enabled, the decision is a span under the caller's span, if any.
    pub fn record(
        &self,
        pod: PodRef,
        nodes: RequestedNodes,
        (began, parent): (Instant, Option<TraceContext>),
    ) -> CallRecord {
        let trace = self.observer.tracer.as_ref().map(|tracer| tracer.begin(&pod, parent));
        let exempt = self.exempt.contains(&pod.namespace);
        CallRecord { trace, exempt, ..CallRecord::new(self.ids.next(), began, pod, nodes) }
    }

    /// The same for a call that contains its pod.
    pub fn record_of(
        &self,
        pod: &ObjectPod<'_>,
        nodes: RequestedNodes,
        caller: (Instant, Option<TraceContext>),
    ) -> CallRecord {
        let annotated = self.observer.tracer.as_ref().and_then(|tracer| tracer.annotated(pod));
        CallRecord { annotated, ..self.record(pod.into(), nodes, caller) }
    }

    /// The backends whose answers to a verb count for this pod, in effective order, with their settings for the
    /// verb. `verb` selects these settings.
    fn asked<'d, S: 'd>(
        &'d self,
        pod: &ObjectPod<'_>,
        verb: fn(&config::BackendSettings) -> Option<&S>,
    ) -> impl Iterator<Item = (&'d Arc<Backend>, &'d S)> {
        self.enforced(pod)
            .filter_map(move |backend| verb(&backend.settings).map(|settings| (backend, settings)))
    }

    /// The interested backends whose answers count, in effective order.
    fn enforced(&self, pod: &ObjectPod<'_>) -> impl Iterator<Item = &Arc<Backend>> {
        self.interested(pod).filter(|backend| backend.settings.mode == Mode::Enforce)
    }

    /// The backends whose conditions match this pod, in effective order, regardless of their mode.
    fn interested(&self, pod: &ObjectPod<'_>) -> impl Iterator<Item = &Arc<Backend>> {
        let exempt = self.exempt.contains(pod.namespace());
        let backends = if exempt { &[] } else { self.backends.as_slice() };
        backends.iter().filter(|backend| backend.settings.matches.interest.covers(pod))
    }

    /// Until when a call that was received at `began` waits for unknown nodes.
    fn unknown_nodes_deadline(&self, began: Instant) -> Instant {
        call_context::unknown_nodes_deadline(
            Instant::now(),
            self.cadences.unknown_nodes,
            began,
            self.timeouts.decision,
        )
    }

    /// Each backend's settings and current session, in effective order, or why it is unavailable.
    pub fn sessions(
        &self,
    ) -> impl Iterator<Item = (&config::BackendSettings, Result<Arc<Session>, BackendFailure>)> {
        self.backends.iter().map(|backend| (&*backend.settings, backend.session()))
    }

    /// Waits until the first attempt to connect to every backend has succeeded or failed.
    pub async fn first_attempts(&self) {
        for backend in &self.backends {
            backend.first_attempt().await;
        }
    }
}

/// Creates the ids of calls: the same for all backends of one call, unique among the calls of all replicas.
#[derive(Debug)]
struct CallIds {
    run: u64,
    next: AtomicU64,
}

impl CallIds {
    fn new() -> Self {
        use std::hash::{BuildHasher, RandomState};
        // The random key of a hasher is the standard library's source of randomness.
        Self { run: RandomState::new().hash_one(0_u8), next: AtomicU64::new(1) }
    }

    fn next(&self) -> String {
        let mut id = String::with_capacity(24);
        // Writing to a `String` does not fail.
        let _ = write!(id, "{:016x}-{:x}", self.run, self.next.fetch_add(1, Ordering::Relaxed));
        id
    }
}
