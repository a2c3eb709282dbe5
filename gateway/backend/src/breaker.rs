//! The circuit breaker of one verb at one address of a backend.
//!
//! After 5 calls in a row that lost time it opens: further calls fail at once, so that a backend that is late costs its
//! timeout a few times and not for every pod. After a pause one call goes through as a probe. It closes the breaker if it
//! loses no time; otherwise it begins a longer pause.
//!
//! A breaker saves time and changes no decision. A call that fails at once costs nothing, whatever its status: it may be
//! about one pod, and says nothing about the next one. What a breaker refuses ends as the calls that it saves would have:
//! with the failure of the latest late one, and with the same text, so that a pod's condition stays the same.
//!
//! Each verb has its own, because a slow score must not stop the filter of the same backend. The breakers belong to
//! the address and not to the connection: a backend that disconnects does not start again with a clean record.

use std::{
    hash::{BuildHasher, Hash},
    sync::atomic::{AtomicU32, AtomicU64, Ordering},
    time::Duration,
};

use extender_gateway_core::{BackendFailure, FailureKind, PerPolicyVerb, PolicyVerb};
use extender_gateway_pace::{backoff::Backoff, cadences::Cadences};
use foldhash::fast::FixedState;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::time::Instant;
use tonic::Code;

use super::grpc::RpcError;

/// The longest pause, in first pauses: each probe costs a pod the timeout.
const LONGEST: u32 = 30;
/// A pause is up to one part in this many shorter, so that replicas of the gateway do not probe at the same time.
const JITTER: u32 = 4;

/// What the end of a call says about the backend that was called.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Evidence {
    /// It answers. This includes failures that are about the request, or about this pod.
    Works,
    /// It gave no answer, and the call waited for one.
    LosesTime(BackendFailure),
    /// It gave no answer, and the call did not wait.
    FailsAtOnce,
    /// Nothing: the gateway itself failed, or an earlier backend had used the time up.
    Nothing,
}

impl Evidence {
    /// What the end of a call says after this time, if the backend is allowed that much.
    ///
    /// - Without an answer (the timeout, a reset, a lost connection; UNAVAILABLE, `DEADLINE_EXCEEDED` and CANCELLED, with
    ///   which a backend or a proxy in front of it reports that something behind it gave none): it loses time after at
    ///   least half of what it is allowed, and costs nothing before that. With a timeout of less than that, an earlier
    ///   backend had used the time up.
    /// - Any other status, and malformed answers: it works, however long that took. They are about the request or this
    ///   pod: a pod that triggers a bug in a policy must not stop the others.
    pub(super) fn of<T>(answer: &Result<T, RpcError>, took: Duration, allowed: Duration) -> Self {
        let Err(RpcError { status, failure, .. }) = answer else { return Self::Works };
        let has_none = match status {
            Some(code) => matches!(code, Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled),
            None => matches!(failure.kind, FailureKind::Late | FailureKind::Reset | FailureKind::Unreachable),
        };
        match failure.kind {
            FailureKind::Internal => Self::Nothing,
            _ if !has_none => Self::Works,
            _ if took >= allowed / 2 => Self::LosesTime(failure.clone()),
            FailureKind::Late if status.is_none() => Self::Nothing,
            _ => Self::FailsAtOnce,
        }
    }
}

/// When breakers open, and when they are probed.
#[derive(Debug, Clone, Copy)]
pub(super) struct BreakerRule {
    /// The consecutive calls that lost time after which a breaker opens. Every late call resets a stream, and many servers close a
    /// connection because of 20 to 100 resets that they have not processed yet, together with its calls and node tables;
    /// the four verbs of an extender with 5 failures each stay below that. Hooks add to it only if their failures are ignored:
    /// otherwise the verbs behind them are not called.
    pub(super) failures: u32,
    /// The pause before the first probe; each pause is twice the one before.
    pub(super) first_pause: Duration,
}

impl From<&Cadences> for BreakerRule {
    fn from(cadences: &Cadences) -> Self {
        Self { failures: cadences.breaker_failures, first_pause: cadences.probe }
    }
}

/// The breakers of one address.
#[derive(Debug)]
pub(super) struct Breakers {
    rule: BreakerRule,
    verbs: PerPolicyVerb<Breaker>,
    /// Handshakes that were answered, and connections. A backend that does not even answer a handshake is not probed.
    signs_of_life: AtomicU64,
}

impl Breakers {
    /// Closed breakers. `of` distinguishes the replica of the gateway and the address, so that pauses differ.
    pub(super) fn new(of: impl Hash, rule: BreakerRule) -> Self {
        let jitter = |verb: PolicyVerb| FixedState::default().hash_one((&of, verb.name()));
        let pauses = |verb| Pauses { first: rule.first_pause, jitter: jitter(verb) };
        let verbs = PerPolicyVerb::from_fn(|verb| Breaker {
            failures: AtomicU32::new(0),
            open: Mutex::default(),
            rule,
            pauses: pauses(verb),
        });
        Self { rule, verbs, signs_of_life: AtomicU64::new(0) }
    }

    /// Whether a call that is sent now would be permitted.
    ///
    /// # Errors
    /// The breaker is open.
    pub(super) fn check(&self, verb: PolicyVerb) -> Result<(), BackendFailure> {
        if !self.is_open(verb) {
            return Ok(());
        }
        match &*self.verbs[verb].open.lock() {
            Some(open) if !self.is_due(open) => Err(open.refusal.clone()),
            _ => Ok(()),
        }
    }

    /// Permits a call to be sent. The end of the call must be reported to the permit.
    ///
    /// # Errors
    /// The breaker is open.
    pub(super) fn permit(&self, verb: PolicyVerb) -> Result<Permit<'_>, BackendFailure> {
        let breaker = &self.verbs[verb];
        if !self.is_open(verb) {
            return Ok(Permit { breakers: self, verb, is_probe: false });
        }
        let mut open = breaker.open.lock();
        let Some(open) = &mut *open else { return Ok(Permit { breakers: self, verb, is_probe: false }) };
        if !self.is_due(open) {
            return Err(open.refusal.clone());
        }
        open.is_probing = true;
        Ok(Permit { breakers: self, verb, is_probe: true })
    }

    /// Whether calls for a verb are refused, unless one is due as a probe.
    pub(super) fn is_open(&self, verb: PolicyVerb) -> bool {
        self.verbs[verb].failures.load(Ordering::Relaxed) >= self.rule.failures
    }

    /// Whether it is open and the next call is a probe.
    pub(super) fn is_probe_due(&self, verb: PolicyVerb) -> bool {
        self.is_open(verb) && self.verbs[verb].open.lock().as_ref().is_some_and(|open| self.is_due(open))
    }

    fn is_due(&self, open: &Open) -> bool {
        !open.is_probing && Instant::now() >= open.due && self.signs() != open.signs_of_life
    }

    /// Records that the backend answered something other than a call.
    pub(super) fn note_answer(&self) {
        self.signs_of_life.fetch_add(1, Ordering::Relaxed);
    }

    /// Makes the next call of each verb a probe, because the backend may have recovered: there is a new connection, it
    /// answers after a time without an answer, or its handshake has changed.
    pub(super) fn probe_now(&self) {
        self.note_answer();
        for verb in PolicyVerb::ALL {
            if let Some(open) = &mut *self.verbs[verb].open.lock() {
                open.due = Instant::now();
            }
        }
    }

    /// The breakers that are open.
    pub(super) fn open(&self) -> impl Iterator<Item = (PolicyVerb, OpenBreaker)> {
        self.verbs.iter().filter_map(|(verb, breaker)| {
            let open = breaker.open.lock();
            let Open { since, cause, is_probing, .. } = open.as_ref()?;
            Some((verb, OpenBreaker { since: *since, cause: cause.detail.clone(), is_probing: *is_probing }))
        })
    }

    fn signs(&self) -> u64 {
        self.signs_of_life.load(Ordering::Relaxed)
    }
}

/// An open breaker, as `status` shows it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct OpenBreaker {
    /// When it opened.
    pub since: Timestamp,
    /// The latest failure.
    pub cause: String,
    /// Whether a probe is in progress.
    pub is_probing: bool,
}

#[derive(Debug)]
struct Breaker {
    /// Calls that lost time since the latest answer.
    failures: AtomicU32,
    open: Mutex<Option<Open>>,
    rule: BreakerRule,
    pauses: Pauses,
}

/// The pauses of a breaker.
#[derive(Debug, Clone, Copy)]
struct Pauses {
    first: Duration,
    /// Distinguishes them from those of other breakers.
    jitter: u64,
}

#[derive(Debug)]
struct Open {
    since: Timestamp,
    cause: BackendFailure,
    /// The failure of a call that is refused: the cause, as of a call that was not sent.
    refusal: BackendFailure,
    /// The probes that failed.
    probes: u32,
    /// When the next probe may be sent.
    due: Instant,
    /// The signs of life before the latest failure.
    signs_of_life: u64,
    is_probing: bool,
}

/// A change of a breaker, for the log and metrics.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Change {
    Opened,
    /// It had been open since then.
    Closed(Timestamp),
}

/// A call that the breaker allows. Dropped without an end, a probe counts as not sent.
#[derive(Debug)]
#[must_use]
pub(super) struct Permit<'b> {
    breakers: &'b Breakers,
    verb: PolicyVerb,
    is_probe: bool,
}

impl Permit<'_> {
    /// The verb of the call.
    pub(super) fn verb(&self) -> PolicyVerb {
        self.verb
    }

    /// Whether the call decides about the breaker.
    pub(super) fn is_probe(&self) -> bool {
        self.is_probe
    }

    /// Records the end of the call.
    pub(super) fn record(self, evidence: Evidence) -> Option<Change> {
        let breaker = &self.breakers.verbs[self.verb];
        match evidence {
            // A call that was sent before it opened says nothing about those that wait.
            Evidence::FailsAtOnce if self.is_probe => breaker.close(),
            Evidence::FailsAtOnce | Evidence::Nothing => None,
            Evidence::Works => breaker.close(),
            Evidence::LosesTime(cause) => self.lost_time(cause),
        }
    }

    /// Records that the call lost time.
    fn lost_time(&self, cause: BackendFailure) -> Option<Change> {
        let Breaker { failures, open, rule, pauses } = &self.breakers.verbs[self.verb];
        let mut open = open.lock();
        let (since, probes, change) = match &*open {
            // Calls that were sent before it opened change nothing.
            Some(_) if !self.is_probe => return None,
            Some(open) => (open.since, open.probes + 1, None),
            None if failures.fetch_add(1, Ordering::Relaxed) + 1 < rule.failures => return None,
            None => (Timestamp::now(), 0, Some(Change::Opened)),
        };
        *open = Some(Open {
            since,
            refusal: BackendFailure::new(FailureKind::CircuitOpen, &cause.detail),
            cause,
            probes,
            due: Instant::now() + pauses.after(probes),
            signs_of_life: self.breakers.signs(),
            is_probing: self.is_probe,
        });
        change
    }
}

impl Drop for Permit<'_> {
    fn drop(&mut self) {
        if !self.is_probe {
            return;
        }
        if let Some(open) = &mut *self.breakers.verbs[self.verb].open.lock() {
            open.is_probing = false;
        }
    }
}

impl Breaker {
    fn close(&self) -> Option<Change> {
        if self.failures.load(Ordering::Relaxed) == 0 {
            return None;
        }
        let mut open = self.open.lock();
        self.failures.store(0, Ordering::Relaxed);
        open.take().map(|open| Change::Closed(open.since))
    }
}

impl Pauses {
    /// The pause after this many failed probes.
    fn after(self, probes: u32) -> Duration {
        let full = Backoff::new(self.first, self.first * LONGEST).after(probes);
        let thousandths = FixedState::default().hash_one((self.jitter, probes)) % 1000;
        let thousandths = u32::try_from(thousandths).expect("it is less than 1000");
        full.saturating_sub(full / JITTER * thousandths / 1000)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const FIRST: Duration = Duration::from_secs(1);
    const RULE: BreakerRule = BreakerRule { failures: 5, first_pause: FIRST };
    const ALLOWED: Duration = Duration::from_millis(200);

    fn late() -> BackendFailure {
        BackendFailure::new(FailureKind::Late, "no answer within 200 ms")
    }

    fn status(code: Code) -> Result<(), RpcError> {
        let failure = BackendFailure::new(FailureKind::Status, "said so");
        Err(RpcError { status: Some(code), ..failure.into() })
    }

    /// One call that ends like this; whether it was sent.
    fn call(breakers: &Breakers, evidence: Evidence) -> bool {
        breakers.permit(PolicyVerb::Filter).map(|permit| permit.record(evidence)).is_ok()
    }

    fn opened() -> Breakers {
        let breakers = Breakers::new("a", RULE);
        for _ in 0..RULE.failures {
            assert!(call(&breakers, Evidence::LosesTime(late())));
        }
        breakers
    }

    #[test]
    fn only_lost_time_counts() {
        let reset = BackendFailure::new(FailureKind::Reset, "the stream was reset");
        let internal = BackendFailure::new(FailureKind::Internal, "a bug");
        let of = |answer: &Result<(), RpcError>, took| match Evidence::of(answer, took, ALLOWED) {
            Evidence::Works => 'w',
            Evidence::LosesTime(_) => 'l',
            Evidence::FailsAtOnce => 'a',
            Evidence::Nothing => 'n',
        };
        let canceled = RpcError { status: Some(Code::Cancelled), ..reset.clone().into() };
        let mut ends = vec![
            (Ok(()), "www"),
            // Here with less time than it is allowed: others used the rest up.
            (Err(late().into()), "nll"),
            (Err(reset.into()), "all"),
            (Err(canceled), "all"),
            (Err(internal.into()), "nnn"),
            (Err(super::super::grpc::not_grpc("HTTP status 404").into()), "www"),
        ];
        for code in (1..=16).map(Code::from_i32) {
            let has_none = matches!(code, Code::Unavailable | Code::DeadlineExceeded | Code::Cancelled);
            ends.push((status(code), if has_none { "all" } else { "www" }));
        }
        for (answer, expected) in ends {
            let after = |took| of(&answer, took);
            let all: String =
                [Duration::from_millis(1), ALLOWED / 2, ALLOWED].map(after).into_iter().collect();
            assert_eq!(all, expected, "{answer:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn it_opens_after_failures_in_a_row_for_that_verb_alone() {
        let breakers = Breakers::new("a", RULE);
        for _ in 0..3 {
            for _ in 1..RULE.failures {
                assert!(call(&breakers, Evidence::LosesTime(late())));
            }
            assert!(call(&breakers, Evidence::Works), "an answer in between");
        }
        let breakers = opened();
        let refusal = breakers.permit(PolicyVerb::Filter).unwrap_err();
        assert_eq!(refusal.kind, FailureKind::CircuitOpen);
        assert_eq!(refusal.detail, late().detail, "as the call that it saves");
        assert!(breakers.permit(PolicyVerb::Score).is_ok());
        let open: Vec<_> = breakers.open().collect();
        let [(PolicyVerb::Filter, OpenBreaker { cause, is_probing: false, .. })] = &open[..] else {
            panic!("{open:?}")
        };
        assert_eq!(cause, "no answer within 200 ms");
    }

    #[tokio::test(start_paused = true)]
    async fn one_probe_after_the_pause_decides() {
        let breakers = opened();
        advance(FIRST).await;
        breakers.note_answer();
        let probe = breakers.permit(PolicyVerb::Filter).unwrap();
        assert!(probe.is_probe());
        assert!(breakers.permit(PolicyVerb::Filter).is_err(), "one at a time");
        assert!(breakers.open().all(|(_, open)| open.is_probing));
        drop(probe);
        let probe =
            breakers.permit(PolicyVerb::Filter).expect("the probe was not answered, and not late either");
        assert_eq!(probe.record(Evidence::LosesTime(late())), None);
        breakers.note_answer();
        advance(FIRST).await;
        assert!(breakers.permit(PolicyVerb::Filter).is_err(), "the second pause is longer");
        advance(FIRST).await;
        let probe = breakers.permit(PolicyVerb::Filter).unwrap();
        assert!(matches!(probe.record(Evidence::Works), Some(Change::Closed(_))));
        assert!(!breakers.permit(PolicyVerb::Filter).unwrap().is_probe());
        assert_eq!(breakers.open().count(), 0);
        assert!(
            call(&breakers, Evidence::LosesTime(late())) && !breakers.is_open(PolicyVerb::Filter),
            "from the start"
        );
    }

    #[tokio::test(start_paused = true)]
    async fn a_backend_that_answers_nothing_is_not_probed() {
        let breakers = opened();
        advance(Duration::from_mins(1)).await;
        assert!(breakers.permit(PolicyVerb::Filter).is_err());
        breakers.note_answer();
        assert!(breakers.permit(PolicyVerb::Filter).unwrap().is_probe());
    }

    #[tokio::test(start_paused = true)]
    async fn a_handshake_alone_closes_nothing_and_recovery_shortens_the_pause() {
        let breakers = opened();
        breakers.note_answer();
        assert!(breakers.permit(PolicyVerb::Filter).is_err());
        breakers.probe_now();
        assert!(breakers.permit(PolicyVerb::Filter).unwrap().is_probe());
        assert!(breakers.is_open(PolicyVerb::Filter));
    }

    #[tokio::test(start_paused = true)]
    async fn what_fails_at_once_opens_nothing_and_closes_as_a_probe() {
        let breakers = Breakers::new("a", RULE);
        for _ in 0..100 {
            assert!(call(&breakers, Evidence::FailsAtOnce));
        }
        let breakers = opened();
        let earlier = Permit { breakers: &breakers, verb: PolicyVerb::Filter, is_probe: false };
        assert_eq!(earlier.record(Evidence::FailsAtOnce), None, "it was sent before");
        breakers.probe_now();
        let probe = breakers.permit(PolicyVerb::Filter).unwrap();
        assert!(matches!(probe.record(Evidence::FailsAtOnce), Some(Change::Closed(_))));
    }

    #[test]
    fn pauses_double_and_differ() {
        let pauses = Pauses { first: FIRST, jitter: 7 };
        for (probes, longest) in [(0, 1000), (1, 2000), (2, 4000), (3, 8000), (5, 30_000), (u32::MAX, 30_000)]
        {
            let pause = pauses.after(probes).as_millis();
            assert!(pause <= longest && pause >= longest * 3 / 4, "{probes}: {pause}");
        }
        let of = |gateway| Breakers::new((gateway, "racks"), RULE).verbs[PolicyVerb::Filter].pauses.jitter;
        assert_ne!(of("gateway-0"), of("gateway-1"));
        assert_eq!(of("gateway-0"), of("gateway-0"));
    }
}
