//! Receives the records of calls and creates metrics, traces, the decision log and log lines from them.

use std::{
    panic::{AssertUnwindSafe, catch_unwind},
    sync::Arc,
    time::Duration,
};

use extender_gateway_core::Verb;
use extender_gateway_record::{CallOutcome, CallRecord, HttpCall, PodRef};
use futures_util::FutureExt;
use http::Version;
use tokio::{runtime::Handle, task::yield_now, time::timeout};
use tokio_util::task::TaskTracker;
use tracing::Instrument;

use super::{
    DecisionLog, Metrics, Tracer, WaitingPods,
    debug::DebugTables,
    metrics::{Trace, Turn},
};

/// The destinations of call records.
#[derive(Debug)]
pub struct Observer {
    /// The metrics.
    pub metrics: Arc<Metrics>,
    /// The decision log.
    pub decisions: DecisionLog,
    /// The pods that wait because of a backend.
    pub waiting: Arc<WaitingPods>,
    /// Creates spans; `None` if tracing is disabled.
    pub tracer: Option<Tracer>,
    /// The tables of scores and rejections in the log.
    pub debug: DebugTables,
    /// Background work of calls.
    tasks: TaskTracker,
}

impl Observer {
    /// An observer without records and traces. The decision log may take `log_bytes` bytes.
    pub fn new(metrics: Arc<Metrics>, log_bytes: usize) -> Self {
        let evicted = metrics.process().decision_log_evictions.clone();
        Self {
            metrics,
            decisions: DecisionLog::new(log_bytes, evicted),
            waiting: Arc::default(),
            tracer: None,
            debug: DebugTables::default(),
            tasks: TaskTracker::new(),
        }
    }

    /// Records a finished call, after its response: the caller does not wait for this.
    pub fn record_later(self: Arc<Self>, http_call: HttpCall) {
        match Handle::try_current() {
            Ok(runtime) => {
                let counted = self.tasks.token();
                drop(runtime.spawn(async move {
                    if http_call.http.1 == Version::HTTP_2 {
                        // The response is written by the connection's task, which is woken after this one.
                        yield_now().await;
                    }
                    self.record_caught(http_call);
                    drop(counted);
                }));
            }
            // The runtime has shut down.
            Err(_) => self.record_caught(http_call),
        }
    }

    /// Runs this in the background; [`finished`](Self::finished) waits for it. A panic is counted like that of a call.
    pub fn spawn(&self, work: impl Future<Output = ()> + Send + 'static) {
        let metrics = Arc::clone(&self.metrics);
        // Nothing uses its state after a panic.
        let work = AssertUnwindSafe(work).catch_unwind();
        let counted = async move {
            if work.await.is_err() {
                metrics.panicked();
            }
        };
        tokio::spawn(self.tasks.track_future(counted.in_current_span()));
    }

    /// Waits, at most for this time, until everything is recorded. For use after the last call.
    pub async fn finished(&self, within: Duration) {
        self.tasks.close();
        if timeout(within, self.tasks.wait()).await.is_err() {
            tracing::warn!("shadow call has no answer after {within:?}; it is not traced");
        }
    }

    /// A panic is counted like that of a call.
    fn record_caught(&self, mut http_call: HttpCall) {
        http_call.record.iter_mut().for_each(CallRecord::complete);
        // A panic leaves at most this call's records incomplete.
        if catch_unwind(AssertUnwindSafe(|| self.record(&http_call))).is_err() {
            self.metrics.panicked();
        }
    }

    fn record(&self, http_call: &HttpCall) {
        let kept = self.tracer.as_ref().is_some_and(|tracer| tracer.record(http_call));
        let trace = http_call.record.as_ref().and_then(|record| record.trace).filter(|_| kept);
        let trace = trace.map(|trace| trace.trace_id.to_bytes());
        self.metrics.verb(http_call.verb).record(http_call, trace);
        let (Some(record), Some(verb)) = (&http_call.record, http_call.verb) else { return };
        self.count_backends(http_call.outcome, record, trace);
        self.waiting.record(verb, http_call.outcome, record);
        self.debug.log(verb, record);
        self.decisions.put(verb, record, Some(http_call));
    }

    /// Records that a pod got, without a call, the answer of the filter call with this id about another pod, which left it nodes.
    pub fn record_kept(&self, call: &str, asked: &str, pod: &PodRef) {
        self.waiting.placed(&pod.uid);
        self.decisions.put_kept(call, asked, pod);
    }

    /// Records the answer of a backend in shadow mode.
    pub fn record_shadow(&self, verb: Verb, record: &CallRecord) {
        if let Some(tracer) = &self.tracer {
            tracer.record_shadow(record);
        }
        self.count_backends(CallOutcome::Ok, record, None);
        self.decisions.put(verb, record, None);
    }

    fn count_backends(&self, outcome: CallOutcome, record: &CallRecord, trace: Option<Trace>) {
        for part in &record.backends {
            // A backend that was removed in the meantime is not counted.
            if let Some(metrics) = self.metrics.known_backend(part.backend.name.as_str()) {
                let turn = metrics.record(outcome, part, &record.pod, trace);
                if turn != Turn::None {
                    self.waiting.turned(part.backend.name.as_str(), turn, record.started);
                }
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicBool, Ordering};

    use tokio::time::sleep;

    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn background_work_is_waited_for_and_not_for_ever() {
        for (takes, ends) in [(SECOND / 2, true), (SECOND * 2, false)] {
            let (observer, done) =
                (Observer::new(Arc::new(Metrics::new()), 0), Arc::new(AtomicBool::new(false)));
            let flag = Arc::clone(&done);
            observer.spawn(async move {
                sleep(takes).await;
                flag.store(true, Ordering::Relaxed);
            });
            observer.finished(SECOND).await;
            assert_eq!(done.load(Ordering::Relaxed), ends);
        }
    }
}
