//! What is recorded of the calls to one backend for one verb.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use extender_gateway_core::FailureKind;

use super::{
    families::Families,
    few::Few,
    histogram::{Histogram, Trace},
    number::Counter,
    reasons::Reasons,
    recent::{Lately, Recent},
};
use crate::account::Opinion;

/// What the failure policy did about a failure.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// The call ended with an error.
    Fail,
    /// The backend was left out of the decision.
    Ignore,
    /// The next one was asked to bind.
    Next,
    /// Nothing: the backend is in shadow, nothing depended on it.
    None,
}

impl Applied {
    fn as_str(self) -> &'static str {
        match self {
            Self::Fail => "fail",
            Self::Ignore => "ignore",
            Self::Next => "next",
            Self::None => "none",
        }
    }
}

/// Kinds of failures times policies.
const FAILURES: usize = 7 * 4;
/// Before the first share.
const NO_SHARE: u64 = u64::MAX;

/// What all verbs of a backend share.
#[derive(Debug)]
pub(super) struct Shared {
    /// Whether the backend has left the configuration: calls of before must not bring its series back.
    gone: AtomicBool,
    reasons: Reasons,
    rejected: Arc<Histogram>,
    clamped: Arc<Counter>,
    missed: Arc<Counter>,
}

/// The calls to one backend for one verb. Recording is some atomic additions: nothing is looked up, allocated or
/// locked, but for a failure or a reason that had not come before, and for an exemplar.
///
/// It belongs to the configuration that it was made for. Once [`retain_backends`](super::Metrics::retain_backends) has
/// forgotten the backend, nothing that is recorded here is shown any more.
#[derive(Debug)]
pub struct BackendMetrics {
    backend: String,
    verb: &'static str,
    families: Arc<Families>,
    shared: Arc<Shared>,
    calls: Arc<Counter>,
    duration: Arc<Histogram>,
    failures: Few<(FailureKind, Applied), FAILURES>,
    asked: Arc<Counter>,
    remembered: Arc<Counter>,
    early: Arc<Counter>,
    sent: Arc<Counter>,
    received: Arc<Counter>,
    disagreed: Arc<Counter>,
    shadow: Few<&'static str, 3>,
    recent: Recent,
    /// The mean share of the nodes of the latest calls that was rejected, as the bits of a float.
    share: AtomicU64,
}

impl Shared {
    pub(super) fn new(backend: &str, families: &Families) -> Self {
        Self {
            gone: AtomicBool::new(false),
            reasons: Reasons::new(backend, &families.backend_rejected_nodes),
            rejected: families.backend_rejected_ratio.of(&[backend]),
            clamped: families.backend_clamped_scores.of(&[backend]),
            missed: families.backend_table_misses.of(&[backend]),
        }
    }

    /// The backend has left the configuration.
    pub(super) fn leave(&self) {
        self.gone.store(true, Ordering::Relaxed);
    }

    fn is_gone(&self) -> bool {
        self.gone.load(Ordering::Relaxed)
    }
}

impl BackendMetrics {
    pub(super) fn new(
        (backend, verb): (&str, &'static str),
        shared: &Arc<Shared>,
        families: &Arc<Families>,
    ) -> Self {
        let labels = [backend, verb];
        let known = |source| families.backend_known_nodes.of(&[backend, verb, source]);
        Self {
            backend: backend.to_owned(),
            verb,
            shared: Arc::clone(shared),
            calls: families.backend_calls.of(&labels),
            duration: families.backend_call_duration.of(&labels),
            failures: Few::default(),
            asked: families.backend_asked_nodes.of(&labels),
            remembered: known("remembered"),
            early: known("early"),
            sent: families.backend_sent_bytes.of(&labels),
            received: families.backend_received_bytes.of(&labels),
            disagreed: families.backend_memory_disagreements.of(&labels),
            shadow: Few::default(),
            recent: Recent::default(),
            share: AtomicU64::new(NO_SHARE),
            families: Arc::clone(families),
        }
    }

    /// The verb that this is about.
    pub fn verb(&self) -> &'static str {
        self.verb
    }

    /// The backend is asked about so many nodes.
    pub fn asked(&self, nodes: usize) {
        self.calls.add(1);
        self.asked.add(nodes as u64);
    }

    /// It has answered.
    pub fn answered(&self, took: Duration, trace: Option<Trace>) {
        self.duration.observe(took.as_secs_f64(), trace);
        self.recent.answered(took);
    }

    /// It has failed after so long.
    pub fn failed(&self, failure: (FailureKind, Applied), took: Duration, trace: Option<Trace>) {
        self.count_failure(failure);
        self.duration.observe(took.as_secs_f64(), trace);
        self.recent.failed(took);
    }

    /// It has failed without having been asked: there is no connection, or it does not serve what is wanted.
    pub fn unasked(&self, failure: (FailureKind, Applied)) {
        self.count_failure(failure);
        self.recent.unasked();
    }

    /// It was not asked about so many nodes, because its answers were remembered from other pods.
    pub fn remembered(&self, nodes: usize) {
        self.remembered.add(nodes as u64);
    }

    /// It was not asked about so many nodes, because their scores had come with the filter answer.
    pub fn came_early(&self, nodes: usize) {
        self.early.add(nodes as u64);
    }

    /// It has rejected so many nodes for this reason, of which any number may be given.
    pub fn rejected(&self, reason: &str, nodes: usize) {
        if !self.shared.is_gone() {
            self.shared.reasons.rejected(reason, nodes as u64);
        }
    }

    /// It has rejected so many of the nodes of a call, asked or remembered; nothing when there were none.
    pub fn rejected_share(&self, rejected: usize, of: usize) {
        if of == 0 {
            return;
        }
        #[expect(clippy::cast_precision_loss, reason = "there are not that many nodes")]
        let share = rejected as f64 / of as f64;
        self.shared.rejected.observe(share, None);
        // A mean that forgets: an eighth of what is new. Two writers at once lose one of both, which is no matter.
        let before = self.latest_rejected_share();
        let mean = before.map_or(share, |before| before + (share - before) / 8.0);
        self.share.store(mean.to_bits(), Ordering::Relaxed);
    }

    /// So many of its scores were clamped to the range that it declares.
    pub fn clamped(&self, scores: usize) {
        self.shared.clamped.add(scores as u64);
    }

    /// In shadow, it thinks this of a decision.
    pub fn shadowed(&self, opinion: Opinion) {
        if self.shared.is_gone() {
            return;
        }
        let (word, family) = (opinion.as_str(), &self.families.backend_shadow_answers);
        let new = || (word, family.of(&[&self.backend, self.verb, word]));
        self.shadow.of(word, new).inspect(|counter| counter.add(1));
    }

    /// The verb is declared pure and is not.
    pub fn disagreed(&self) {
        self.disagreed.add(1);
    }

    /// It did not hold the nodes that a call named.
    pub fn missed(&self) {
        self.shared.missed.add(1);
    }

    /// The messages of a call to it had so many bytes.
    pub fn bytes(&self, sent: usize, received: usize) {
        self.sent.add(sent as u64);
        self.received.add(received as u64);
    }

    /// Calls since the start.
    pub fn calls(&self) -> u64 {
        self.calls.read()
    }

    /// Failures since the start, of calls and for want of one.
    pub fn failures(&self) -> u64 {
        self.failures.each().map(|(_, failures)| failures).sum()
    }

    /// What the latest 256 calls were like; `None` before the first.
    pub fn lately(&self) -> Option<Lately> {
        self.recent.lately()
    }

    /// Which share of the nodes of the latest calls it rejected, from 0 to 1, the later ones counting more; `None` before
    /// the first.
    pub fn latest_rejected_share(&self) -> Option<f64> {
        let share = self.share.load(Ordering::Relaxed);
        (share != NO_SHARE).then(|| f64::from_bits(share))
    }

    fn count_failure(&self, failure: (FailureKind, Applied)) {
        if self.shared.is_gone() {
            return;
        }
        let (kind, applied) = (failure.0.as_str(), failure.1.as_str());
        let family = &self.families.backend_failures;
        let new = || (failure, family.of(&[&self.backend, self.verb, kind, applied]));
        self.failures.of(&failure, new).inspect(|counter| counter.add(1));
    }
}
