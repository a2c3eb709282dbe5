//! A replica in the election: it tries to obtain the lease, keeps it, and gives it up. The rules are in
//! [`election`](crate::election), and the lease is anywhere that has optimistic concurrency.

use std::time::Duration;

use extender_apiserver::RequestError;
use extender_policy_sdk::ControllersReport;
use k8s_openapi::{api::coordination::v1::Lease, jiff::Timestamp};
use tokio::time::{Instant, sleep, sleep_until, timeout, timeout_at};

use crate::{
    Timing,
    election::{Election, transitions},
    log::log,
};

/// Where the lease is.
pub(crate) trait Store {
    /// The lease; `None` if it does not exist.
    async fn read(&self) -> Result<Option<Lease>, RequestError>;

    /// Writes the lease if it still has the `resourceVersion`, or creates it if there is none; returns it as written.
    async fn write(&self, lease: Lease) -> Result<Lease, RequestError>;
}

/// A replica in the election.
pub(crate) struct Candidate<S> {
    store: S,
    election: Election,
    timing: Timing,
    report: ControllersReport,
    log: AttemptLog,
}

/// A lease that this replica holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Held {
    /// How often the lease was obtained before this time.
    pub(crate) transitions: u64,
    /// When the latest successful write began: others saw it later, and so it expires for them later than here.
    renewed: Instant,
}

/// Why a lease is no longer held.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum Lost {
    /// It has another holder, none, or no longer exists.
    Taken(Option<String>),
    /// It could not be renewed in time; the latest error.
    Late(Option<String>),
}

impl<S: Store> Candidate<S> {
    pub(crate) fn new(store: S, timing: Timing, report: ControllersReport) -> Self {
        let election = Election::new(report.identity(), timing);
        Self { store, election, timing, report, log: AttemptLog::default() }
    }

    /// Tries until the lease is obtained. If this is dropped, it may be obtained nevertheless.
    pub(crate) async fn acquire(&mut self) -> Held {
        loop {
            let attempt = limited(self.timing.attempt(), self.attempt(Election::claim)).await;
            let lease = self.report.lease();
            self.log.note(lease, &attempt);
            if let Ok(Some(held)) = attempt {
                self.report.led_by(Some(self.report.identity()));
                return held;
            }
            self.report.led_by(self.election.holder(Instant::now()));
            sleep(self.timing.jittered_retry()).await;
        }
    }

    /// Renews the lease until it is lost.
    pub(crate) async fn keep(&mut self, held: &mut Held) -> Lost {
        let (mut latest, mut next) = (None, Instant::now() + self.timing.retry_period());
        loop {
            let deadline = held.renewed + self.timing.renew_deadline();
            sleep_until(deadline.min(next)).await;
            if Instant::now() >= deadline {
                return Lost::Late(latest);
            }
            // From the beginning of this attempt: after one without an answer the next one begins at once.
            next = Instant::now() + self.timing.retry_period();
            let limit = self.timing.attempt();
            let attempt = timeout_at(deadline, limited(limit, self.attempt(Election::renewal))).await;
            let Ok(attempt) = attempt else { return Lost::Late(latest) };
            self.log.note(self.report.lease(), &attempt);
            match attempt {
                Ok(Some(renewed)) => {
                    *held = renewed;
                    latest = None;
                }
                Ok(None) => return Lost::Taken(self.holder()),
                Err(error) => latest = Some(error.to_string()),
            }
        }
    }

    /// When another replica may obtain the lease at the earliest, if this one does not renew it.
    pub(crate) fn expiry(&self, held: &Held) -> Instant {
        held.renewed + self.timing.lease_duration()
    }

    /// Gives the lease up, if this replica holds it, so that another one obtains it at once.
    pub(crate) async fn release(&mut self) {
        self.report.led_by(self.holder().as_deref().filter(|holder| *holder != self.report.identity()));
        let released = limited(self.timing.attempt(), async {
            let Some(lease) = self.store.read().await? else { return Ok(()) };
            match self.election.release(&lease, Timestamp::now()) {
                Some(released) => self.store.write(released).await.map(drop),
                None => Ok(()),
            }
        });
        if let Err(error) = released.await {
            let (lease, duration) = (self.report.lease(), self.timing.lease_duration());
            let text = format!("lease {lease} was not released and expires in at most {duration:?}: {error}");
            log(move || tracing::warn!("{text}"));
        }
    }

    /// The holder of the lease as far as this replica knows.
    pub(crate) fn holder(&self) -> Option<String> {
        self.election.holder(Instant::now()).map(str::to_owned)
    }

    /// Reads the lease, and writes it if the rule says so.
    async fn attempt(&mut self, rule: Rule) -> Result<Option<Held>, RequestError> {
        let found = self.store.read().await?;
        let renewed = Instant::now();
        let Some(lease) = rule(&mut self.election, found.as_ref(), renewed, Timestamp::now()) else {
            return Ok(None);
        };
        let written = self.store.write(lease).await?;
        self.election.see(&written, Instant::now());
        // Not negative, unless the lease was edited by hand.
        let transitions = written.spec.as_ref().map_or(0, transitions);
        Ok(Some(Held { transitions: u64::try_from(transitions).unwrap_or(0), renewed }))
    }
}

/// A rule of the election: what to write, given the lease.
type Rule = fn(&mut Election, Option<&Lease>, Instant, Timestamp) -> Option<Lease>;

/// The answer, or an error after this time.
async fn limited<T>(
    limit: Duration,
    answer: impl Future<Output = Result<T, RequestError>>,
) -> Result<T, RequestError> {
    let late = |_| Err(RequestError::Failed(format!("no answer of the apiserver within {limit:?}")));
    timeout(limit, answer).await.unwrap_or_else(late)
}

/// The errors of attempts in the log: one line for each text in a row, since attempts repeat every few seconds.
#[derive(Debug, Default)]
struct AttemptLog {
    latest: Option<String>,
}

impl AttemptLog {
    fn note<T>(&mut self, lease: &str, attempt: &Result<T, RequestError>) {
        match attempt {
            Ok(_) if self.latest.take().is_some() => {
                let text = format!("the apiserver answers about lease {lease} again");
                log(move || tracing::info!("{text}"));
            }
            Ok(_) => {}
            Err(error) => self.note_error(lease, error),
        }
    }

    fn note_error(&mut self, lease: &str, error: &RequestError) {
        // Another replica was faster.
        if error.code() == Some(409) {
            let text = format!("lease {lease} was written by another replica meanwhile: {error}");
            log(move || tracing::debug!("{text}"));
            return;
        }
        let text = error.to_string();
        if self.latest.as_ref() == Some(&text) {
            return;
        }
        let remedy = match error.code() {
            Some(401 | 403) => "; allow get, create and update of leases in coordination.k8s.io",
            _ => "; trying again",
        };
        let line = format!("cannot obtain or renew lease {lease}: {text}{remedy}");
        log(move || tracing::warn!("{line}"));
        self.latest = Some(text);
    }
}

#[cfg(test)]
mod tests;
