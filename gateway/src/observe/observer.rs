//! Receives the records of calls and creates metrics, traces, the decision log and log lines from them.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use extender_gateway_core::Verb;
use http::Version;
use tokio::{runtime::Handle, task::yield_now, time::timeout};
use tokio_util::task::TaskTracker;

use super::{
    DecisionLog, Metrics, Tracer,
    debug::Debug,
    decisions::CallEnd,
    latest::{LatestCalls, LatestFailures},
    metrics::{Applied, BackendMetrics},
};
use crate::record::{
    BackendAttempt, BackendOutcome, CacheSource, CallRecord, HttpCall, OnFailure, Outcome, Rpc,
};

/// The destinations of call records.
#[derive(Debug)]
pub struct Observer {
    /// The metrics.
    pub metrics: Arc<Metrics>,
    /// The decision log.
    pub decisions: DecisionLog,
    /// Creates spans; `None` if tracing is disabled.
    pub tracer: Option<Tracer>,
    /// The tables of scores and rejections in the log.
    pub debug: Debug,
    /// The latest call of each verb.
    pub latest: LatestCalls,
    /// The latest failure of each backend.
    pub failures: LatestFailures,
    /// Background work of calls.
    tasks: TaskTracker,
}

impl Observer {
    /// An observer without records. The decision log may take `log_bytes` bytes.
    pub fn new(metrics: Arc<Metrics>, log_bytes: usize) -> Self {
        Self {
            metrics,
            decisions: DecisionLog::new(log_bytes),
            tracer: None,
            debug: Debug::default(),
            latest: LatestCalls::default(),
            failures: LatestFailures::default(),
            tasks: TaskTracker::new(),
        }
    }

    /// Adds traces.
    #[must_use]
    pub fn with_tracer(self, tracer: Option<Tracer>) -> Self {
        Self { tracer, ..self }
    }

    /// Records a finished call, after its response: the caller does not wait for this.
    pub fn settle_soon(self: Arc<Self>, http_call: HttpCall) {
        match Handle::try_current() {
            Ok(runtime) => {
                let counted = self.tasks.token();
                drop(runtime.spawn(async move {
                    if http_call.http.1 == Version::HTTP_2 {
                        // The response is written by the connection's task, which is woken after this one.
                        yield_now().await;
                    }
                    self.settle_whole(http_call);
                    drop(counted);
                }));
            }
            // The runtime has shut down.
            Err(_) => self.settle_whole(http_call),
        }
    }

    /// Runs this in the background; its results are recorded as well.
    pub fn beside(&self, work: impl Future<Output = ()> + Send + 'static) {
        tokio::spawn(self.tasks.track_future(work));
    }

    /// Waits, at most for this time, until everything is recorded. For use after the last call.
    pub async fn settled(&self, within: Duration) {
        self.tasks.close();
        if timeout(within, self.tasks.wait()).await.is_err() {
            tracing::warn!("shadow call has no answer after {within:?}; it is not traced");
        }
    }

    /// A panic is counted like that of a call.
    fn settle_whole(&self, mut http_call: HttpCall) {
        http_call.record.iter_mut().for_each(CallRecord::collect_attempts);
        // A panic leaves at most this call's records incomplete.
        if catch_unwind(AssertUnwindSafe(|| self.settle(&http_call))).is_err() {
            self.metrics.panicked();
        }
    }

    fn settle(&self, http_call: &HttpCall) {
        let kept = self.tracer.as_ref().is_some_and(|tracer| tracer.settle(http_call));
        let trace = http_call.record.as_ref().and_then(|record| record.trace);
        let example = trace.filter(|_| kept).map(|trace| trace.trace_id.to_bytes());
        let verb = self.metrics.verb(http_call.verb);
        verb.answered(http_call.outcome, http_call.took, example);
        verb.bytes(http_call.request_bytes, http_call.response_bytes);
        self.latest.put(http_call);
        let Some(record) = &http_call.record else { return };
        let offered = record.nodes.count();
        verb.nodes(offered as usize, record.left.map_or_else(|| scored(record), |left| left as usize));
        let Some(verb) = http_call.verb else { return };
        record.backends.iter().for_each(|part| self.count((verb, http_call.outcome), part, example));
        self.debug.say(verb, record);
        let message = Some(&*http_call.message).filter(|message| !message.is_empty());
        let ending = CallEnd {
            verb,
            took: http_call.took,
            trace: trace.map(|trace| trace.trace_id),
            generation: http_call.generation,
            outcome: http_call.outcome,
            message,
            beside: false,
        };
        self.keep(record, ending);
    }

    /// Records the answer of a backend in shadow mode.
    pub fn settle_beside(&self, verb: Verb, record: &CallRecord) {
        if let Some(tracer) = &self.tracer {
            tracer.settle_beside(verb, record);
        }
        record.backends.iter().for_each(|part| self.count((verb, "ok"), part, None));
        let took: Duration =
            record.backends.iter().flat_map(|part| &part.attempts).map(|attempt| attempt.took).sum();
        let ending =
            CallEnd { verb, took, trace: None, generation: 0, outcome: "ok", message: None, beside: true };
        self.keep(record, ending);
    }

    fn count(&self, ending: (Verb, &'static str), part: &BackendOutcome, example: Option<[u8; 16]>) {
        let name = part.backend.name.as_str();
        let (verb, outcome) = ending;
        // A backend that was removed in the meantime is not counted.
        let Some(meters) = self.metrics.known_backend(name, verb) else { return };
        count(&meters, (outcome, part), example);
        if let Outcome::Failed(failure) = &part.outcome {
            self.failures.put((name, meters.verb()), failure);
        }
    }

    fn keep(&self, record: &CallRecord, ending: CallEnd<'_>) {
        let evicted = self.decisions.keep(record, ending);
        if evicted > 0 {
            self.metrics.evicted(evicted);
        }
    }
}

/// The number of nodes with a score.
fn scored(record: &CallRecord) -> usize {
    record
        .backends
        .iter()
        .filter_map(BackendOutcome::ballot)
        .map(|ballot| ballot.scores.len())
        .max()
        .unwrap_or(0)
}

/// Counts a backend's part in a call with this outcome.
fn count(meters: &BackendMetrics, (outcome, part): (&str, &BackendOutcome), example: Option<[u8; 16]>) {
    let applied = applied(outcome, part);
    for attempt in &part.attempts {
        count_inquiry(meters, (applied, attempt), example);
    }
    match &part.outcome {
        Outcome::Filtered(filtered) => {
            let mut rejected = 0;
            for refusal in &filtered.refusals {
                meters.rejected(&refusal.reason, refusal.positions.len());
                rejected += refusal.positions.len();
            }
            let of =
                part.attempts.last().map_or(0, |attempt| attempt.requested.saturating_add(attempt.cached));
            meters.rejected_share(rejected, of as usize);
        }
        Outcome::Scored(_, outside @ 1..) => meters.clamped(*outside),
        _ => {}
    }
    if let Some(opinion) = part.agreement {
        meters.shadowed(opinion);
    }
}

fn count_inquiry(
    meters: &BackendMetrics,
    (applied, attempt): (Applied, &BackendAttempt),
    example: Option<[u8; 16]>,
) {
    match attempt.source {
        CacheSource::AnswerCache => meters.remembered(attempt.cached as usize),
        CacheSource::Filter => meters.came_early(attempt.cached as usize),
    }
    meters.missed(attempt.misses);
    if attempt.impure {
        meters.disagreed();
    }
    let exchanges = attempt.rpcs.all();
    let failure = attempt.failure.map(|kind| (kind, applied));
    if exchanges.is_empty() {
        if let Some(failure) = failure {
            meters.unasked(failure);
        }
        return;
    }
    meters.asked(attempt.requested as usize);
    let sum = |bytes: fn(&Rpc) -> usize| exchanges.iter().map(bytes).sum();
    meters.bytes(sum(|exchange| exchange.sent), sum(|exchange| exchange.received));
    match failure {
        // Its full duration is unknown.
        None if attempt.canceled => {}
        None => meters.answered(attempt.took, example),
        Some(failure) => meters.failed(failure, attempt.took, example),
    }
}

/// The effect of a failure on the call: none if the backend answered the second call, or was not needed.
fn applied(outcome: &str, part: &BackendOutcome) -> Applied {
    if part.agreement.is_some() || !matches!(part.outcome, Outcome::Failed(_)) {
        return Applied::None;
    }
    match part.policy {
        OnFailure::Fail if outcome == "ok" => Applied::None,
        OnFailure::Fail => Applied::Fail,
        OnFailure::Ignore => Applied::Ignore,
        OnFailure::Next => Applied::Next,
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use extender_gateway_core::{BackendFailure, FailureKind};
    use tokio::time::sleep;

    use super::*;
    use crate::observe::samples::part;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn what_happens_beside_calls_is_waited_for_and_not_for_ever() {
        for (takes, ends) in [(SECOND / 2, true), (SECOND * 2, false)] {
            let (observer, done) =
                (Observer::new(Arc::new(Metrics::new()), 0), Arc::new(AtomicBool::new(false)));
            let flag = Arc::clone(&done);
            observer.beside(async move {
                sleep(takes).await;
                flag.store(true, Ordering::Relaxed);
            });
            observer.settled(SECOND).await;
            assert_eq!(done.load(Ordering::Relaxed), ends);
        }
    }

    #[tokio::test]
    async fn a_failure_that_ended_no_call_is_none_of_the_policys() {
        let failed = || Outcome::Failed(BackendFailure::new(FailureKind::Late, "late"));
        let of = |said, policy, outcome| applied(outcome, &BackendOutcome { policy, ..part("zones", said) });
        assert_eq!(of(failed(), OnFailure::Fail, "backend"), Applied::Fail);
        assert_eq!(of(failed(), OnFailure::Fail, "ok"), Applied::None, "no node was left for it");
        assert_eq!(
            of(Outcome::Pending, OnFailure::Ignore, "ok"),
            Applied::None,
            "it answered the second time"
        );
        assert_eq!(of(failed(), OnFailure::Ignore, "ok"), Applied::Ignore);
        assert_eq!(of(failed(), OnFailure::Next, "ok"), Applied::Next);
    }
}
