//! The metrics of the calls to one backend for one verb.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use extender_gateway_core::{FailureKind, Verb};
use prometheus_client::metrics::{counter::Counter, histogram::Histogram};

use super::{
    few::Few,
    page::{Durations, Trace},
    reasons::ReasonCounts,
    recent::{RecentCalls, RecentSummary},
};
use crate::record::Agreement;

/// The applied failure policy.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Applied {
    /// The call ended with an error.
    Fail,
    /// The backend was ignored in the decision.
    Ignore,
    /// The next binder was called.
    Next,
    /// None: the backend is in shadow mode.
    None,
}

impl Applied {
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Fail => "fail",
            Self::Ignore => "ignore",
            Self::Next => "next",
            Self::None => "none",
        }
    }
}

/// No share was recorded yet.
const NO_SHARE: u64 = u64::MAX;
/// The first and the last bucket separate "none" and "all" from almost none and almost all.
const SHARES: [f64; 11] = [0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0];

/// The metrics shared by all verbs of a backend.
#[derive(Debug)]
pub(super) struct SharedSeries {
    pub(super) reasons: ReasonCounts,
    pub(super) rejected: Histogram,
    pub(super) clamped: Counter,
    pub(super) missed: Counter,
}

/// The calls to one backend for one verb. Once [`retain_backends`](super::Metrics::retain_backends) has removed the
/// backend, values recorded here are no longer shown.
#[derive(Debug)]
pub struct BackendMetrics {
    verb: Verb,
    pub(super) shared: Arc<SharedSeries>,
    pub(super) calls: Counter,
    pub(super) duration: Durations,
    pub(super) failures: Few<(FailureKind, Applied)>,
    pub(super) asked: Counter,
    pub(super) remembered: Counter,
    pub(super) early: Counter,
    pub(super) sent: Counter,
    pub(super) received: Counter,
    pub(super) disagreed: Counter,
    pub(super) shadow: Few<Agreement>,
    recent: RecentCalls,
    /// The moving average of the share of rejected nodes, as the bits of a float.
    share: AtomicU64,
}

impl SharedSeries {
    pub(super) fn new() -> Self {
        Self {
            reasons: ReasonCounts::default(),
            rejected: Histogram::new(SHARES),
            clamped: Counter::default(),
            missed: Counter::default(),
        }
    }
}

impl BackendMetrics {
    pub(super) fn new(verb: Verb, shared: Arc<SharedSeries>) -> Self {
        Self {
            verb,
            shared,
            calls: Counter::default(),
            duration: Durations::default(),
            failures: Few::default(),
            asked: Counter::default(),
            remembered: Counter::default(),
            early: Counter::default(),
            sent: Counter::default(),
            received: Counter::default(),
            disagreed: Counter::default(),
            shadow: Few::default(),
            recent: RecentCalls::default(),
            share: AtomicU64::new(NO_SHARE),
        }
    }

    /// The verb.
    pub fn verb(&self) -> Verb {
        self.verb
    }

    /// Counts a call that was sent with this many nodes.
    pub fn asked(&self, nodes: usize) {
        self.calls.inc();
        self.asked.inc_by(nodes as u64);
    }

    /// Counts a call that succeeded.
    pub fn answered(&self, took: Duration, trace: Option<Trace>) {
        self.duration.observe(took, trace);
        self.recent.answered(took);
    }

    /// Counts a call that failed after this time.
    pub fn failed(&self, failure: (FailureKind, Applied), took: Duration, trace: Option<Trace>) {
        self.failures.add(failure, 1);
        self.duration.observe(took, trace);
        self.recent.failed(took);
    }

    /// Counts a call that failed without being sent: there is no connection, or the backend does not serve the
    /// verb.
    pub fn unasked(&self, failure: (FailureKind, Applied)) {
        self.failures.add(failure, 1);
        self.recent.unasked();
    }

    /// Counts nodes that were not sent, because their answers were cached.
    pub fn remembered(&self, nodes: usize) {
        self.remembered.inc_by(nodes as u64);
    }

    /// Counts nodes that were not sent, because their scores were prefetched with the filter answer.
    pub fn came_early(&self, nodes: usize) {
        self.early.inc_by(nodes as u64);
    }

    /// Counts nodes that were rejected for this reason. The number of reasons is not limited here.
    pub fn rejected(&self, reason: &str, nodes: usize) {
        self.shared.reasons.rejected(reason, nodes as u64);
    }

    /// Records how many of a call's nodes were rejected, sent or cached; ignored for a call without nodes.
    pub fn rejected_share(&self, rejected: usize, of: usize) {
        if of == 0 {
            return;
        }
        #[expect(clippy::cast_precision_loss, reason = "there are not that many nodes")]
        let share = rejected as f64 / of as f64;
        self.shared.rejected.observe(share);
        // An exponential moving average with weight 1/8. Of two concurrent writes one may be lost, which is
        // harmless.
        let before = self.latest_rejected_share();
        let mean = before.map_or(share, |before| before + (share - before) / 8.0);
        self.share.store(mean.to_bits(), Ordering::Relaxed);
    }

    /// Counts scores that were clamped to the declared range.
    pub fn clamped(&self, scores: usize) {
        self.shared.clamped.inc_by(scores as u64);
    }

    /// Counts an answer in shadow mode that agrees or disagrees with the decision.
    pub fn shadowed(&self, opinion: Agreement) {
        self.shadow.add(opinion, 1);
    }

    /// Counts a different answer for a verb that is declared pure.
    pub fn disagreed(&self) {
        self.disagreed.inc();
    }

    /// Counts calls that named nodes which the backend's table lacks.
    pub fn missed(&self, times: u32) {
        self.shared.missed.inc_by(times.into());
    }

    /// Counts the bytes of a call's messages.
    pub fn bytes(&self, sent: usize, received: usize) {
        self.sent.inc_by(sent as u64);
        self.received.inc_by(received as u64);
    }

    /// Calls since the start.
    pub fn calls(&self) -> u64 {
        self.calls.get()
    }

    /// Failures since the start, including calls that were not sent.
    pub fn failures(&self) -> u64 {
        self.failures.sum(|_| true)
    }

    /// Summary of the latest 256 calls; `None` before the first.
    pub fn lately(&self) -> Option<RecentSummary> {
        self.recent.lately()
    }

    /// The share of rejected nodes in the latest calls, from 0 to 1, later ones weighted more; `None` before the first.
    pub fn latest_rejected_share(&self) -> Option<f64> {
        let share = self.share.load(Ordering::Relaxed);
        (share != NO_SHARE).then(|| f64::from_bits(share))
    }
}
