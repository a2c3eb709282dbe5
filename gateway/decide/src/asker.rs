//! The one way in which a call asks a backend, for all verbs and hooks: at one of its addresses, and if the backend has
//! not processed that, once more at another one. All tries have one deadline. Bind and shadow calls try once.

use std::{sync::Arc, time::Duration};

use extender_gateway_backend::{Attempt, Backend, endpoints::Caller, session::Session};
use extender_gateway_core::BackendFailure;
use extender_gateway_pace::fair_queue::Flow;
use extender_gateway_record::OpenAttempt;
use extender_policy_api::v1beta1::Purpose;
use tokio::time::Instant;

use super::purpose::excluded;

/// Asks one backend for one verb in one call.
pub(super) struct Asker<'a> {
    pub(super) backend: &'a Backend,
    pub(super) caller: Caller<'a>,
    pub(super) flow: Flow,
    pub(super) purpose: Purpose,
    /// The time that the backend has to answer, for all tries together.
    pub(super) timeout: Duration,
    /// When the call is due; `None` for a shadow call, which nothing waits for.
    pub(super) deadline: Option<Instant>,
}

/// The tries of a call to a backend, each of one or several requests.
pub(super) struct Tries<'a> {
    asker: Asker<'a>,
    /// That of the first request. It is in the text of a failure, which must stay the same, so it is the configured one
    /// unless the call is due before.
    first: Option<Duration>,
    until: Instant,
    pub(super) attempt: &'a mut OpenAttempt,
}

impl<'a> Asker<'a> {
    /// The connection for the first try.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn session(&self) -> Result<Arc<Session>, BackendFailure> {
        self.backend.session(self.caller)
    }

    /// Begins the time of all tries, the first of which is at this connection.
    ///
    /// # Errors
    /// The verb is not called for this purpose.
    pub(super) fn begin(
        self,
        session: &Session,
        attempt: &'a mut OpenAttempt,
    ) -> Result<Tries<'a>, BackendFailure> {
        if let Some(excluded) = excluded(self.purpose, &session.info, self.caller.verb) {
            return Err(excluded);
        }
        let now = Instant::now();
        let remaining = self.deadline.map_or(Duration::MAX, |deadline| deadline.duration_since(now));
        let timeout = self.timeout.min(remaining);
        Ok(Tries { asker: self, first: Some(timeout), until: now + timeout, attempt })
    }
}

impl Tries<'_> {
    /// The next request. It has the time that the earlier ones, and what came between them, have left.
    pub(super) fn request(&mut self) -> Attempt<'_> {
        let remaining = || self.until.duration_since(Instant::now());
        let timeout = self.first.take().unwrap_or_else(remaining);
        Attempt { timeout, flow: self.asker.flow, rpcs: &mut self.attempt.rpcs, asked: None }
    }

    /// Another connection, which `fits`, for a call that failed at this one: if it was not processed, has no side effects and
    /// is no retry.
    pub(super) fn elsewhere(
        &mut self,
        failed: &Arc<Session>,
        fits: impl Fn(&Session) -> bool,
    ) -> Option<Arc<Session>> {
        let Asker { backend, caller, .. } = self.asker;
        if failed.info.has_side_effects(caller.verb) || !self.attempt.rpcs.may_retry() {
            return None;
        }
        backend.elsewhere(caller, failed, fits)
    }
}
