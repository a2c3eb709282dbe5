//! Drives the decision of core: asks backends, feeds answers, keeps the deadline.
//!
//! One [`Decider`] serves all calls. A call encodes the pod and the nodes once for each view that some
//! backend wants (`call_context`), asks the backends at once from the task that serves the call (none is spawned for it,
//! so that a caller who hangs up takes all questions with it), and stops as soon as the decision is certain. Only
//! backends in shadow are asked by tasks of their own, once it is.

mod ask;
mod attempts;
mod bind;
mod call_context;
mod error;
mod failures;
mod filter;
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
    attempts::Attempts,
    bind::{BindError, Binders},
    error::CallError,
    filter::Filtered,
    preempt::PreemptCall,
};
use self::{failures::Failures, prefetched::PrefetchedScores};
use crate::{
    account::{Account, Nodes, Subject},
    backend::{Backend, info::Known, link::Link},
    cadences::Cadences,
    config::{self, Mode, Reasons, Timeouts},
    object::pod::ObjectPod,
    observe::{Metrics, Observer},
    wire::Request,
};

/// A call as the door hands it over.
#[derive(Debug, Clone, Copy)]
pub struct Call<'c> {
    /// The request.
    pub request: &'c Request,
    /// Its pod.
    pub pod: &'c ObjectPod<'c>,
    /// When it came; the decision's budget counts from here.
    pub began: Instant,
}

/// Decides calls with the configured backends.
#[derive(Debug)]
pub struct Decider {
    /// In effective order.
    backends: Vec<Arc<Backend>>,
    known: Known,
    timeouts: Timeouts,
    reasons: Reasons,
    exempt: BTreeSet<String>,
    attempts: Arc<Attempts>,
    binders: Option<Binders>,
    failures: Failures,
    observer: Arc<Observer>,
    metrics: Arc<Metrics>,
    prefetched: PrefetchedScores,
    cadences: Cadences,
    ids: Ids,
}

/// What a [`Decider`] needs besides its backends.
#[derive(Debug)]
pub struct Terms {
    /// What can be told about nodes.
    pub known: Known,
    /// The time that calls may take.
    pub timeouts: Timeouts,
    /// What kube-scheduler sees of reasons.
    pub reasons: Reasons,
    /// The namespaces about whose pods nobody is asked.
    pub exempt: BTreeSet<String>,
    /// What pods that fit nowhere were told.
    pub attempts: Arc<Attempts>,
    /// Who binds; `None` when the gateway does not.
    pub binders: Option<Binders>,
    /// Who is told what became of calls.
    pub observer: Arc<Observer>,
    /// How often and how long.
    pub cadences: Cadences,
}

impl Decider {
    /// For backends in effective order.
    pub fn new(backends: Vec<Arc<Backend>>, terms: Terms) -> Self {
        let Terms { known, timeouts, reasons, exempt, attempts, binders, observer, cadences } = terms;
        let metrics = Arc::clone(&observer.metrics);
        let failures = Failures::default();
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
            ids: Ids::new(),
        }
    }

    /// The account of a call about a pod that came at `began`, to be kept while it is decided. Where traces are made,
    /// the decision is a span of the caller's, if that named one.
    pub fn account(
        &self,
        pod: Subject,
        nodes: Nodes,
        (began, parent): (Instant, Option<TraceContext>),
    ) -> Account {
        let trace = self.observer.tracer.as_ref().map(|tracer| tracer.begin(&pod, parent));
        let exempt = self.exempt.contains(&pod.namespace);
        Account { trace, exempt, ..Account::new(self.ids.next(), began, pod, nodes) }
    }

    /// The same of a call that brings its pod.
    pub fn account_of(
        &self,
        pod: &ObjectPod<'_>,
        nodes: Nodes,
        caller: (Instant, Option<TraceContext>),
    ) -> Account {
        let annotated = self.observer.tracer.as_ref().and_then(|tracer| tracer.annotated(pod));
        Account { annotated, ..self.account(pod.into(), nodes, caller) }
    }

    /// The backends whose answers to a verb count for this pod, in effective order, with how they are asked.
    /// `verb` takes the settings of the verb.
    fn asked<'d, S: 'd>(
        &'d self,
        pod: &ObjectPod<'_>,
        verb: fn(&config::Backend) -> Option<&S>,
    ) -> impl Iterator<Item = (&'d Arc<Backend>, &'d S)> {
        self.enforced(pod)
            .filter_map(move |backend| verb(&backend.settings).map(|settings| (backend, settings)))
    }

    /// The interested backends whose answers count, in effective order.
    fn enforced(&self, pod: &ObjectPod<'_>) -> impl Iterator<Item = &Arc<Backend>> {
        self.interested(pod).filter(|backend| backend.settings.mode == Mode::Enforce)
    }

    /// The backends that this pod is a matter of, in effective order, whatever their mode.
    fn interested(&self, pod: &ObjectPod<'_>) -> impl Iterator<Item = &Arc<Backend>> {
        let exempt = self.exempt.contains(pod.namespace());
        let backends = if exempt { &[] } else { self.backends.as_slice() };
        backends.iter().filter(|backend| backend.settings.matches.interest.covers(pod))
    }

    /// Until when a call that came at `began` waits for unknown nodes.
    fn patience(&self, began: Instant) -> Instant {
        call_context::patience(Instant::now(), self.cadences.unknown_nodes, began, self.timeouts.decision)
    }

    /// Each backend as it is configured and as it is now, in effective order, or why it cannot be asked.
    pub fn links(&self) -> impl Iterator<Item = (&config::Backend, Result<Arc<Link>, BackendFailure>)> {
        self.backends.iter().map(|backend| (&backend.settings, backend.link()))
    }

    /// Waits until a first attempt to connect to every backend has ended, well or not.
    pub async fn tried_all(&self) {
        for backend in &self.backends {
            backend.tried().await;
        }
    }
}

/// Makes the ids of calls: the same for all backends of one call, different from those of other calls and
/// of other replicas.
#[derive(Debug)]
struct Ids {
    run: u64,
    next: AtomicU64,
}

impl Ids {
    fn new() -> Self {
        use std::hash::{BuildHasher, RandomState};
        // A hasher's random key is what the standard library has of randomness.
        Self { run: RandomState::new().hash_one(0_u8), next: AtomicU64::new(1) }
    }

    fn next(&self) -> String {
        let mut id = String::with_capacity(24);
        // Writing to a String does not fail.
        let _ = write!(id, "{:016x}-{:x}", self.run, self.next.fetch_add(1, Ordering::Relaxed));
        id
    }
}
