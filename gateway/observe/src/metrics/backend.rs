//! The metrics of the calls to one backend.

use std::time::Duration;

use extender_gateway_api::LastFailure;
use extender_gateway_core::{FailureKind, PerPolicyVerb, PolicyVerb};
use extender_gateway_record::{
    Agreement, BackendAttempt, BackendOutcome, CacheSource, CallOutcome, OnFailure, Outcome, PodRef, Rpc,
};
use extender_gateway_settings::BackendSettings;
use jiff::Timestamp;
use parking_lot::Mutex;
use prometheus_client::metrics::{counter::Counter, histogram::Histogram};

use super::{
    rejecting::{RejectedNodes, Rejecting, Turn},
    series::{Durations, LabeledCounts, ReasonCounts, RecentSummary, Trace},
};

/// The first and the last bucket separate "none" and "all" from almost none and almost all.
const SHARES: [f64; 11] = [0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0];

/// The calls to one backend. Once [`retain_backends`](super::Metrics::retain_backends) has removed the backend,
/// values recorded here are no longer shown.
#[derive(Debug)]
pub struct BackendMetrics {
    /// The calls of each verb.
    pub verbs: PerPolicyVerb<BackendVerbMetrics>,
    pub(super) rejected: ReasonCounts,
    pub(super) rejected_ratio: Histogram,
    /// Filter decisions that rejected every node.
    pub rejecting: Rejecting,
    pub(super) clamped: Counter,
    pub(super) table_misses: Counter,
    /// Outcomes that it has acknowledged.
    pub reported_outcomes: Counter,
    /// Outcomes that it was not told.
    pub dropped_outcomes: Counter,
    /// How often its connection was lost, or could not be made at first.
    pub outages: Counter,
    /// The verbs that have series.
    shown: Mutex<PerPolicyVerb<bool>>,
}

/// The calls to one backend for one verb.
#[derive(Debug, Default)]
pub struct BackendVerbMetrics {
    pub(super) calls: Counter,
    pub(super) duration: Durations,
    /// By cause and applied failure policy. `None`: the failure had no effect on the call.
    pub(super) failures: LabeledCounts<(FailureKind, Option<OnFailure>)>,
    /// Decisions for which all answers were known, so that nothing was sent.
    known: Counter,
    pub(super) asked: Counter,
    /// Nodes that were not sent, because their answers were cached.
    pub remembered: Counter,
    pub(super) prefetched: Counter,
    /// Nodes that hooks changed.
    pub(super) changed: Counter,
    pub(super) sent: Counter,
    pub(super) received: Counter,
    pub(super) disagreements: Counter,
    /// Calls that were tried again at another address.
    pub retries: Counter,
    /// How often a circuit breaker opened.
    pub circuit_openings: Counter,
    pub(super) shadow: LabeledCounts<Agreement>,
    /// The exponential moving average of the share of rejected nodes.
    rejected_share: Mutex<Option<f64>>,
    last_failure: Mutex<Option<LastFailure>>,
}

impl Default for BackendMetrics {
    fn default() -> Self {
        Self {
            verbs: PerPolicyVerb::default(),
            rejected: ReasonCounts::default(),
            rejected_ratio: Histogram::new(SHARES),
            rejecting: Rejecting::default(),
            clamped: Counter::default(),
            table_misses: Counter::default(),
            reported_outcomes: Counter::default(),
            dropped_outcomes: Counter::default(),
            outages: Counter::default(),
            shown: Mutex::default(),
        }
    }
}

impl BackendMetrics {
    /// Shows the series of the verbs in these settings. Those of an earlier configuration stay, since counters must
    /// not disappear between two scrapes.
    pub fn configure(&self, settings: &BackendSettings) {
        let mut shown = self.shown.lock();
        for verb in settings.verbs() {
            shown[verb] = true;
        }
    }

    /// The verbs that have series, with their metrics.
    pub(super) fn shown(&self) -> impl Iterator<Item = (PolicyVerb, &BackendVerbMetrics)> {
        let shown = self.shown.lock().clone();
        self.verbs.iter().filter(move |(verb, metrics)| {
            // A call of the previous configuration may end after the change.
            shown[*verb] || metrics.calls() > 0 || metrics.failures() > 0
        })
    }

    /// Records the backend's part in a call about this pod with this outcome. Returns what it means for the pods that wait.
    pub fn record(
        &self,
        outcome: CallOutcome,
        part: &BackendOutcome,
        pod: &PodRef,
        trace: Option<Trace>,
    ) -> Turn {
        let verb = part.verb;
        let mut turn = Turn::None;
        let metrics = &self.verbs[verb];
        let policy = applied_policy(outcome, part);
        for attempt in &part.attempts {
            metrics.record(attempt, policy, trace);
            self.table_misses.inc_by(attempt.misses.into());
        }
        match &part.outcome {
            Outcome::Filtered(filtered) => {
                let rejected: usize = filtered.refusals.iter().map(|refusal| refusal.positions.len()).sum();
                // What a backend in shadow mode says rejects no node.
                if part.agreement.is_none() {
                    for refusal in &filtered.refusals {
                        self.count_rejected(&refusal.reason, refusal.positions.len());
                    }
                }
                let last = part.attempts.last();
                let nodes = last.map_or(0, |last| last.requested.saturating_add(last.cached));
                self.record_share(verb, rejected, nodes as usize);
                if verb == PolicyVerb::Filter && nodes > 0 {
                    let largest = || filtered.refusals.iter().max_by_key(|refusal| refusal.positions.len());
                    let all_for = (rejected >= nodes as usize).then(|| largest().map_or("", |it| &it.reason));
                    let decision = RejectedNodes { pod, all_for };
                    turn = self.rejecting.record(part.backend.name.as_str(), decision);
                }
            }
            Outcome::Scored(_, clamped) => {
                self.clamped.inc_by(*clamped as u64);
            }
            Outcome::Failed(failure) => {
                *metrics.last_failure.lock() = Some(LastFailure {
                    time: Timestamp::now(),
                    kind: failure.kind.as_str().to_owned(),
                    message: failure.to_string(),
                });
            }
            Outcome::Changed(changes) => drop(metrics.changed.inc_by(changes.changed_nodes() as u64)),
            Outcome::Pending | Outcome::Candidates(_) | Outcome::Bound(_) => {}
        }
        if let Some(agreement) = part.agreement {
            metrics.shadowed(agreement);
        }
        turn
    }

    /// Counts nodes that were rejected for this reason.
    pub fn count_rejected(&self, reason: &str, nodes: usize) {
        self.rejected.add(reason, nodes as u64);
    }

    /// Records how many of a call's nodes were rejected, sent or cached; ignored for a call without nodes.
    pub fn record_share(&self, verb: PolicyVerb, rejected: usize, nodes: usize) {
        if nodes == 0 {
            return;
        }
        #[expect(clippy::cast_precision_loss, reason = "there are not that many nodes")]
        let share = rejected as f64 / nodes as f64;
        self.rejected_ratio.observe(share);
        let mut mean = self.verbs[verb].rejected_share.lock();
        *mean = Some(mean.map_or(share, |before| before + (share - before) / 8.0));
    }
}

impl BackendVerbMetrics {
    fn record(&self, attempt: &BackendAttempt, policy: Option<OnFailure>, trace: Option<Trace>) {
        let known = match attempt.source {
            CacheSource::AnswerCache => &self.remembered,
            CacheSource::Filter => &self.prefetched,
        };
        known.inc_by(attempt.cached.into());
        self.disagreements.inc_by(attempt.impure.into());
        let rpcs = attempt.rpcs.all();
        let failure = attempt.failure.map(|kind| (kind, policy));
        if rpcs.is_empty() {
            match failure {
                Some(failure) => self.not_sent(failure),
                // Known answers decide, too: a backend that answers nothing else has not failed since.
                None if !attempt.canceled && attempt.cached > 0 => {
                    self.known.inc();
                    self.duration.recent.record(None, None);
                }
                None => {}
            }
            return;
        }
        self.asked(attempt.requested as usize);
        let sum = |bytes: fn(&Rpc) -> usize| rpcs.iter().map(bytes).sum();
        self.count_bytes(sum(|rpc| rpc.sent), sum(|rpc| rpc.received));
        match failure {
            // Its full duration is unknown.
            None if attempt.canceled => {}
            None => self.answered(attempt.took, trace),
            Some(failure) => self.failed(failure, attempt.took, trace),
        }
    }

    /// Counts a call that was sent with this many nodes.
    pub fn asked(&self, nodes: usize) {
        self.calls.inc();
        self.asked.inc_by(nodes as u64);
    }

    /// Counts a call that succeeded.
    pub fn answered(&self, took: Duration, trace: Option<Trace>) {
        self.duration.observe(took, None, trace);
    }

    /// Counts a call that failed after this time.
    pub fn failed(&self, failure: (FailureKind, Option<OnFailure>), took: Duration, trace: Option<Trace>) {
        self.failures.add(failure, 1);
        self.duration.observe(took, Some(failure.0.as_str()), trace);
    }

    /// Counts a call that failed without being sent: there is no connection, or the backend does not serve the
    /// verb.
    pub fn not_sent(&self, failure: (FailureKind, Option<OnFailure>)) {
        self.failures.add(failure, 1);
        self.duration.recent.record(None, Some(failure.0.as_str()));
    }

    /// Counts the bytes of a call's messages.
    pub fn count_bytes(&self, sent: usize, received: usize) {
        self.sent.inc_by(sent as u64);
        self.received.inc_by(received as u64);
    }

    /// Counts an answer in shadow mode that agrees or disagrees with the decision.
    pub fn shadowed(&self, agreement: Agreement) {
        self.shadow.add(agreement, 1);
    }

    /// Calls since the start.
    pub fn calls(&self) -> u64 {
        self.calls.get()
    }

    /// Decisions since the start: calls, and those for which all answers were known.
    pub fn decisions(&self) -> u64 {
        self.calls() + self.known.get()
    }

    /// Failures since the start, including calls that were not sent.
    pub fn failures(&self) -> u64 {
        self.failures.sum(|_| true)
    }

    /// Summary of the latest 256 calls; `None` before the first.
    pub fn recent(&self) -> Option<RecentSummary> {
        self.duration.recent.summary()
    }

    /// The share of rejected nodes in the latest calls, from 0 to 1, later ones weighted more; `None` before the first.
    pub fn recent_rejected_share(&self) -> Option<f64> {
        *self.rejected_share.lock()
    }

    /// The latest failure.
    pub fn last_failure(&self) -> Option<LastFailure> {
        self.last_failure.lock().clone()
    }
}

/// The failure policy that decided the call: none if the backend answered the second call, was not needed, or is in
/// shadow mode.
fn applied_policy(outcome: CallOutcome, part: &BackendOutcome) -> Option<OnFailure> {
    let failed = part.agreement.is_none() && matches!(part.outcome, Outcome::Failed(_));
    let had_effect = part.policy != OnFailure::Fail || outcome != CallOutcome::Ok;
    (failed && had_effect).then_some(part.policy)
}

#[cfg(test)]
mod tests {
    use extender_gateway_core::BackendFailure;

    use super::*;
    use crate::samples::{self, part};

    /// A part that has this outcome without a call.
    fn known(outcome: Outcome, cached: usize) -> BackendOutcome {
        let failure = match &outcome {
            Outcome::Failed(failure) => Err(failure.clone()),
            _ => Ok(()),
        };
        let mut record = samples::record("web", &["a"], vec![part("zones", outcome)]);
        let mut attempt = record.recorder.start_attempt(0, None);
        attempt.set_cached(cached);
        attempt.finish(&failure);
        record.complete();
        record.backends.remove(0)
    }

    #[tokio::test]
    async fn a_cached_answer_is_a_success() {
        let metrics = BackendMetrics::default();
        let record = |part: &BackendOutcome| metrics.record(CallOutcome::Ok, part, &PodRef::default(), None);
        let recent = || metrics.verbs[PolicyVerb::Filter].recent().unwrap();
        record(&known(samples::failed(FailureKind::Late), 0));
        assert!(recent().last_failed);
        record(&known(samples::refused(&[]), 1));
        let metrics_of = &metrics.verbs[PolicyVerb::Filter];
        assert_eq!((metrics_of.decisions(), metrics_of.calls()), (1, 0));
        let summary = recent();
        assert_eq!((summary.last_failed, summary.calls, summary.failed()), (false, 2, 1));
        assert_eq!((summary.minute.sent, summary.median_seconds), (0, None), "it has no duration");
    }

    #[tokio::test]
    async fn nodes_are_not_rejected_in_shadow() {
        let metrics = BackendMetrics::default();
        let shadow = BackendOutcome {
            agreement: Some(Agreement::Disagrees),
            ..part("zones", samples::refused(&[("full", &[0])]))
        };
        metrics.record(CallOutcome::Ok, &shadow, &PodRef::default(), None);
        assert!(metrics.rejected.all().is_empty());
        metrics.record(
            CallOutcome::Ok,
            &part("zones", samples::refused(&[("full", &[0])])),
            &PodRef::default(),
            None,
        );
        assert_eq!(metrics.rejected.all().len(), 1);
    }

    #[tokio::test]
    async fn a_failure_that_ended_no_call_has_no_policy() {
        let failed = || Outcome::Failed(BackendFailure::new(FailureKind::Late, "late"));
        let of = |said, policy, outcome| {
            applied_policy(outcome, &BackendOutcome { policy, ..part("zones", said) })
        };
        assert_eq!(of(failed(), OnFailure::Fail, CallOutcome::Backend), Some(OnFailure::Fail));
        assert_eq!(of(failed(), OnFailure::Fail, CallOutcome::Ok), None, "no node was left for it");
        assert_eq!(
            of(Outcome::Pending, OnFailure::Ignore, CallOutcome::Ok),
            None,
            "it answered the second time"
        );
        assert_eq!(of(failed(), OnFailure::Ignore, CallOutcome::Ok), Some(OnFailure::Ignore));
        assert_eq!(of(failed(), OnFailure::Next, CallOutcome::Ok), Some(OnFailure::Next));
    }
}
