//! The task that sends outcomes: one request at a time, the oldest first, until each is acknowledged.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use extender_gateway_contract::{
    protobuf::decoded,
    question::{Args, CallFields},
};
use extender_gateway_core::FailureKind;
use extender_gateway_pace::backoff::Backoff;
use extender_policy_api::v1beta1::{Purpose, ReportResponse};
use tokio::{
    sync::Notify,
    time::{Instant, sleep},
};
use tonic::Code;

use super::{Outcomes, SERVICE_NAME, pending::Batch};
use crate::{
    containment::contained,
    grpc::{self, Limits, RpcError},
    info::ReadsId,
    session::{Session, SessionHandle},
};

/// How long others are waited for after the first outcome, so that a request has several.
const COLLECTING: Duration = Duration::from_millis(50);
/// The timeout of a request, and of the same one with args.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The largest answer: it is empty today.
const LARGEST_ANSWER: usize = 4 << 10;
/// The pauses after outcomes that were not acknowledged.
const PAUSES: Backoff = Backoff::new(Duration::from_millis(50), Duration::from_secs(2));

/// Sends the outcomes of a backend while they are in use.
#[derive(Debug)]
pub(crate) struct Reporter {
    outcomes: Weak<Outcomes>,
    touched: Arc<Notify>,
}

/// How sending ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Sent {
    /// There are others, or there is another way to send them.
    More,
    /// Nothing is pending.
    All,
    /// The same ones are sent again after a pause.
    Again,
}

impl Reporter {
    pub(super) fn new(outcomes: Weak<Outcomes>, touched: Arc<Notify>) -> Self {
        Self { outcomes, touched }
    }

    /// Runs until the backend is not in use any more.
    pub(crate) async fn run(self) {
        let Self { outcomes, touched } = self;
        let send = |failures| {
            let outcomes = outcomes.upgrade();
            async move { Some(outcomes?.send(failures).await) }
        };
        deliver(&touched, send).await;
    }
}

/// Sends until that returns nothing. It is told the number of failures in a row, and called again when there may be more to send.
async fn deliver<S: Future<Output = Option<Sent>>>(touched: &Notify, mut send: impl FnMut(usize) -> S) {
    let (mut pauses, mut failures) = (PAUSES, 0);
    while let Some(sent) = send(failures).await {
        if sent == Sent::Again {
            failures += 1;
            sleep(pauses.next_pause()).await;
            continue;
        }
        failures = 0;
        pauses.reset();
        if sent == Sent::All {
            touched.notified().await;
            sleep(COLLECTING).await;
        }
    }
}

impl Outcomes {
    /// Sends the first outcomes, after this many failures.
    async fn send(&self, failures: usize) -> Sent {
        if self.tracked.lock().pending.is_empty() {
            return Sent::All;
        }
        let Some(endpoints) = self.source.lock().endpoints.upgrade() else { return Sent::Again };
        let connected: Vec<_> = endpoints.all().iter().filter_map(SessionHandle::current).collect();
        let mut taking: Vec<_> = connected.iter().filter(|session| session.takes_outcomes()).collect();
        if taking.iter().any(|session| session.can_answer()) {
            taking.retain(|session| session.can_answer());
        }
        if taking.is_empty() {
            // While there is no connection they wait.
            if connected.is_empty() {
                return Sent::Again;
            }
            self.forget();
            return Sent::All;
        }
        let session = taking[failures % taking.len()];
        // Half of a request, so that args fit in, too.
        let batch = self.tracked.lock().pending.batch(session.info.most_request_bytes / 2);
        let Some(batch) = batch else { return Sent::All };
        let answer = contained(&self.metrics, report(session, &self.next_id(), &batch)).await;
        self.conclude(session, &batch, answer)
    }

    fn conclude(&self, session: &Session, batch: &Batch, answer: Result<(), RpcError>) -> Sent {
        let backend = &self.backend;
        match answer {
            Ok(()) => {
                self.remove(batch);
                if let Some(metrics) = self.known_metrics() {
                    metrics.reported_outcomes.inc_by(batch.count as u64);
                }
                Sent::More
            }
            Err(error) if error.is_unimplemented() => {
                session.refuse_outcomes();
                tracing::warn!(
                    %backend,
                    "backend announces {SERVICE_NAME} but does not implement it; it is told no outcomes until it connects again: {error}"
                );
                Sent::More
            }
            Err(error) if error.status == Some(Code::InvalidArgument) => {
                self.remove(batch);
                self.count_dropped(batch.count);
                if let Some(similar) = self.log_limit.permit() {
                    let outcomes = batch.count;
                    tracing::warn!(%backend, outcomes, similar, "backend refuses outcomes, which are dropped: {error}");
                }
                Sent::More
            }
            Err(error) => {
                // Its session has logged that the backend is down.
                let is_away = matches!(error.failure.kind, FailureKind::Unreachable | FailureKind::Reset);
                if !is_away && let Some(similar) = self.log_limit.permit() {
                    let outcomes = batch.count;
                    tracing::warn!(%backend, outcomes, similar, "backend has not acknowledged outcomes, which are sent again: {error}");
                }
                Sent::Again
            }
        }
    }

    fn remove(&self, batch: &Batch) {
        let mut tracked = self.tracked.lock();
        tracked.pending.remove_until(batch.end);
        if tracked.pending.is_empty() {
            self.delivered.notify_waiters();
        }
    }
}

/// Sends outcomes, once more with args if the backend does not hold these.
async fn report(session: &Session, id: &str, batch: &Batch) -> Result<(), RpcError> {
    let connection = &*session.connection;
    let until = Instant::now() + TIMEOUT;
    let ask = async |args| {
        let call = CallFields { id, purpose: Purpose::Decide, reads: ReadsId::None, snapshot: 0 };
        let most = session.info.most_request_bytes;
        let pieces = connection.head.around(call, args, batch.field.clone(), most)?;
        let limits = Limits { timeout: until.duration_since(Instant::now()), answer: LARGEST_ANSWER };
        let answer =
            grpc::unary(&connection.requests, &connection.paths.report, pieces, limits, None).await?;
        let ReportResponse {} = decoded(answer)?;
        Ok::<(), RpcError>(())
    };
    match ask(Args::Named).await {
        Err(error) if error.lacks_args() && connection.head.can_send_args() => ask(Args::Sent).await,
        answer => answer,
    }
}

#[cfg(test)]
mod tests;
