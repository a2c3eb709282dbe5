//! The attempts to get one backend's answer within one call, recorded as they happen.

use std::{
    mem,
    ops::{Deref, DerefMut},
    sync::Arc,
    time::Duration,
};

use extender_gateway_contract::nodes::NodeForm;
use extender_gateway_core::{BackendFailure, FailureKind};
use extender_otlp::TraceContext;
use parking_lot::Mutex;
use tokio::time::Instant;

/// The gRPC status of a request that ended without a response.
const CANCELED: &str = "CANCELLED";

/// One attempt to get a backend's answer: from known answers, and for the rest by calling it.
#[derive(Debug)]
pub struct BackendAttempt {
    /// When it started.
    pub started: Instant,
    /// How long it took.
    pub took: Duration,
    /// How many nodes were sent to the backend.
    pub requested: u32,
    /// How many had a known answer.
    pub cached: u32,
    /// The source of known answers.
    pub source: CacheSource,
    /// What the verb reads of pods, in words, if that is declared and cached answers are used: they are those of pods
    /// that are equal in this.
    pub reads_of_pods: Option<Arc<str>>,
    /// The requests sent to it.
    pub rpcs: Rpcs,
    /// The failure, if any.
    pub failure: Option<FailureKind>,
    /// The call ended without the answer.
    pub canceled: bool,
    /// How often the backend's table lacked nodes that a request named.
    pub misses: u32,
    /// Answers showed that a verb declared pure is not pure.
    pub impure: bool,
}

/// The source of known answers.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum CacheSource {
    /// The answer cache.
    AnswerCache,
    /// Prefetched with the answer to filter.
    Filter,
}

impl BackendAttempt {
    /// Sets the number of nodes with a known answer.
    pub fn set_cached(&mut self, nodes: usize) {
        self.cached = u32::try_from(nodes).unwrap_or(u32::MAX);
    }

    /// Sets the number of nodes that are sent to the backend.
    pub fn set_requested(&mut self, nodes: usize) {
        self.requested = u32::try_from(nodes).unwrap_or(u32::MAX);
    }
}

/// Collects attempts by the index of the backend's part in the record.
#[derive(Debug, Clone, Default)]
pub struct Recorder(Arc<Mutex<Vec<(usize, BackendAttempt)>>>);

impl Recorder {
    /// Starts an attempt, as a child of this span.
    pub fn start_attempt(&self, part: usize, trace: Option<TraceContext>) -> OpenAttempt {
        let attempt = BackendAttempt {
            started: Instant::now(),
            took: Duration::ZERO,
            requested: 0,
            cached: 0,
            source: CacheSource::AnswerCache,
            reads_of_pods: None,
            rpcs: Rpcs { trace, ..Rpcs::default() },
            failure: None,
            canceled: false,
            misses: 0,
            impure: false,
        };
        OpenAttempt { recorder: self.clone(), part, attempt: Some(attempt) }
    }

    pub(super) fn take(&self) -> Vec<(usize, BackendAttempt)> {
        mem::take(&mut *self.0.lock())
    }
}

/// An attempt in progress. It reaches its recorder however it ends: a dropped one counts as canceled.
#[derive(Debug)]
pub struct OpenAttempt {
    recorder: Recorder,
    part: usize,
    /// `Some` until it ends.
    attempt: Option<BackendAttempt>,
}

impl OpenAttempt {
    /// Ends it, with or without an answer.
    pub fn finish<T>(mut self, answer: &Result<T, BackendFailure>) {
        let Some(mut attempt) = self.attempt.take() else { return };
        attempt.failure = answer.as_ref().err().map(|failure| failure.kind);
        self.record(attempt);
    }

    fn record(&self, mut attempt: BackendAttempt) {
        attempt.took = attempt.started.elapsed();
        self.recorder.0.lock().push((self.part, attempt));
    }
}

impl Drop for OpenAttempt {
    fn drop(&mut self) {
        let Some(mut attempt) = self.attempt.take() else { return };
        attempt.canceled = true;
        attempt.rpcs.end(0, None, CANCELED);
        self.record(attempt);
    }
}

impl Deref for OpenAttempt {
    type Target = BackendAttempt;

    fn deref(&self) -> &BackendAttempt {
        self.attempt.as_ref().expect("it is taken when this is finished or dropped")
    }
}

impl DerefMut for OpenAttempt {
    fn deref_mut(&mut self) -> &mut BackendAttempt {
        self.attempt.as_mut().expect("it is taken when this is finished or dropped")
    }
}

/// The requests sent to a backend.
#[derive(Debug, Default)]
pub struct Rpcs {
    /// The parent span, if tracing is enabled.
    trace: Option<TraceContext>,
    /// The one without a response yet.
    open: Option<Rpc>,
    all: Vec<Rpc>,
    /// Whether the latest one was certainly not processed by the backend.
    unprocessed: bool,
    /// Whether the latest one certainly had no effect at the backend.
    no_effect: bool,
    /// Whether those from now on belong to a retry.
    retries: bool,
}

/// One request sent to a backend.
#[derive(Debug)]
pub struct Rpc {
    /// Its span, if tracing is enabled.
    pub span: Option<TraceContext>,
    /// When it was sent.
    pub started: Instant,
    /// The duration until the response.
    pub took: Duration,
    /// How long it waited, before it was sent, for others to the backend.
    pub queued: Duration,
    /// How many nodes it contained.
    pub nodes: u32,
    /// The form of the nodes.
    pub form: NodeForm,
    /// Bytes of the request.
    pub sent: usize,
    /// Bytes of the response.
    pub received: usize,
    /// The failure, if any.
    pub failure: Option<FailureKind>,
    /// The gRPC status.
    pub code: &'static str,
    /// Why it was sent.
    pub role: RpcRole,
}

/// Why a request was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum RpcRole {
    /// For its answer.
    Call,
    /// The same, and its answer decides about an open circuit breaker.
    Probe,
    /// Because an earlier one was not processed.
    Retry,
}

impl Rpcs {
    /// Records that a request of `sent` bytes is sent now, after it waited for this time. Returns its span.
    pub fn start(
        &mut self,
        nodes: u32,
        form: NodeForm,
        sent: usize,
        queued: Duration,
    ) -> Option<TraceContext> {
        let span = self.trace.as_ref().map(TraceContext::child);
        self.no_effect = false;
        self.open = Some(Rpc {
            span,
            started: Instant::now(),
            took: Duration::ZERO,
            queued,
            nodes,
            form,
            sent,
            received: 0,
            failure: None,
            code: CANCELED,
            role: if self.retries { RpcRole::Retry } else { RpcRole::Call },
        });
        span
    }

    /// Records why that request is sent.
    pub fn mark(&mut self, role: RpcRole) {
        if let Some(open) = &mut self.open {
            open.role = role;
        }
    }

    /// Records that the backend has certainly not processed the request, or was not sent one.
    pub fn not_processed(&mut self) {
        self.unprocessed = true;
    }

    /// Records that the request certainly had no effect at the backend.
    pub fn had_no_effect(&mut self) {
        self.no_effect = true;
    }

    /// Whether the latest request certainly had no effect at the backend, or none was sent.
    pub fn excludes_an_effect(&self) -> bool {
        self.unprocessed || self.no_effect || (self.all.is_empty() && self.open.is_none())
    }

    /// Begins a retry, if the latest request was not processed and there has been none.
    pub fn may_retry(&mut self) -> bool {
        let may = self.unprocessed && !self.retries;
        (self.unprocessed, self.retries) = (false, self.retries || may);
        may
    }

    /// Whether requests from now on belong to a retry.
    pub fn is_retry(&self) -> bool {
        self.retries
    }

    /// Records the end of that request: the bytes of its response, the failure, if any, and the gRPC status.
    pub fn end(&mut self, received: usize, failure: Option<FailureKind>, code: &'static str) {
        let Some(open) = self.open.take() else { return };
        self.all.push(Rpc { took: open.started.elapsed(), received, failure, code, ..open });
    }

    /// Those that have ended.
    pub fn all(&self) -> &[Rpc] {
        &self.all
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn canceled_attempts_are_recorded_too() {
        let recorder = Recorder::default();
        let mut answered = recorder.start_attempt(1, None);
        answered.rpcs.start(7, NodeForm::Ids, 100, Duration::ZERO);
        answered.rpcs.end(3, None, "OK");
        let mut dropped = recorder.start_attempt(0, Some(TraceContext::root()));
        let span = dropped.rpcs.start(7, NodeForm::Rows, 50, Duration::ZERO);
        tokio::time::advance(Duration::from_millis(5)).await;
        answered.finish(&Ok::<(), _>(()));
        drop(dropped);
        let put = recorder.take();
        let [(1, one), (0, other)] = put.as_slice() else { panic!("{put:?}") };
        assert_eq!((one.canceled, one.rpcs.all()[0].code), (false, "OK"));
        let asked = &other.rpcs.all()[0];
        assert_eq!((other.canceled, asked.code, asked.sent), (true, "CANCELLED", 50));
        assert_eq!((asked.took, asked.span), (Duration::from_millis(5), span));
        assert!(recorder.take().is_empty());
    }
}
