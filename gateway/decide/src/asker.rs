//! The one way in which a call asks a backend, for all verbs and hooks: at one of its addresses, and if the backend has
//! not processed that, once more at another one. All tries have one deadline.

use std::{sync::Arc, time::Duration};

use extender_gateway_backend::{Attempt, Backend, endpoints::Caller, session::Session};
use extender_gateway_core::{BackendFailure, PolicyVerb};
use extender_gateway_pace::fair_queue::Flow;
use extender_gateway_record::OpenAttempt;
use extender_policy_api::v1alpha1::Purpose;
use tokio::time::Instant;

use super::purpose::excluded;

/// Asks one backend for one verb in one call.
pub(super) struct Asker<'a> {
    pub(super) backend: &'a Backend,
    pub(super) verb: PolicyVerb,
    /// The UID of the pod.
    pub(super) pod: &'a str,
    pub(super) flow: Flow,
    pub(super) purpose: Purpose,
    /// The time that the backend has to answer, for all tries together.
    pub(super) timeout: Duration,
    /// When the call is due.
    pub(super) deadline: Instant,
}

/// The tries of a call to a backend, each of one or several requests.
pub(super) struct Tries<'a> {
    asker: Asker<'a>,
    /// Told to the backend, and in the text of a failure, which must stay the same: the configured one at first.
    timeout: Duration,
    until: Instant,
    pub(super) attempt: &'a mut OpenAttempt,
}

impl<'a> Asker<'a> {
    /// The connection for the first try.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn session(&self) -> Result<Arc<Session>, BackendFailure> {
        self.backend.session(self.caller())
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
        if let Some(excluded) = excluded(self.purpose, &session.info, self.verb) {
            return Err(excluded);
        }
        let now = Instant::now();
        let timeout = self.timeout.min(self.deadline.duration_since(now));
        Ok(Tries { asker: self, timeout, until: now + timeout, attempt })
    }

    fn caller(&self) -> Caller<'a> {
        Caller { verb: self.verb, pod: self.pod }
    }
}

impl Tries<'_> {
    /// The next request.
    pub(super) fn request(&mut self) -> Attempt<'_> {
        Attempt { timeout: self.timeout, flow: self.asker.flow, rpcs: &mut self.attempt.rpcs }
    }

    /// Prepares another request.
    pub(super) fn use_remaining_time(&mut self) {
        self.timeout = self.until.duration_since(Instant::now());
    }

    /// Another connection, which `fits`, for a call that failed at this one: if it was not processed, has no side effects and
    /// is no retry. A call in shadow mode takes no retry from those whose answers count.
    pub(super) fn elsewhere(
        &mut self,
        failed: &Arc<Session>,
        fits: impl Fn(&Session) -> bool,
    ) -> Option<Arc<Session>> {
        let Asker { backend, verb, purpose, .. } = self.asker;
        let is_final = purpose == Purpose::Shadow || failed.info.has_side_effects(verb);
        if is_final || !self.attempt.rpcs.may_retry() {
            return None;
        }
        let other = backend.elsewhere(self.asker.caller(), failed).filter(|other| fits(other));
        let other = other.filter(|_| backend.take_retry(verb))?;
        self.use_remaining_time();
        Some(other)
    }
}
