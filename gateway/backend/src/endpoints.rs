//! The addresses of a backend, and which of them a call goes to.
//!
//! Of several addresses, each call has two: one chosen by the pod's UID, and one at random. It goes to the one with
//! fewer calls in progress, and to the first if both are equally loaded. So load is spread as with two random choices,
//! while without concurrent calls a pod's calls go to one address, whose session has the scores that came with its
//! filter answer. An address without a session, with an open circuit breaker, at which calls fail at once, or whose
//! health service reports that it does not serve, is left out while another is usable.

mod supervisor;

use std::{
    hash::BuildHasher,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use arc_swap::ArcSwap;
use extender_gateway_core::{BackendFailure, PerPolicyVerb, PolicyVerb, reason::one_line};
use extender_policy_api::limits::{
    CONTROLLER_NAME_BYTES, CONTROLLER_NAMES, IDENTITY_BYTES, LEASE_BYTES, REJECTED_CONFIGURATION_BYTES,
};
use extender_policy_api::v1beta1::Controllers;
use foldhash::fast::FixedState;
use parking_lot::Mutex;
use tokio::{
    sync::{Notify, watch},
    time::Instant,
};

pub(super) use self::supervisor::Supervisor;
use extender_gateway_pace::fair_queue::slots::Slots;

use super::{
    availability::Availability,
    breaker::{BreakerRule, Breakers, OpenBreaker},
    connect::unreachable,
    controllers::ReportedControllers,
    in_flight::{InFlight, MOST_CALLS},
    outliers::Outliers,
    retry_budget::RetryBudget,
    session::{Session, SessionHandle},
};

/// What belongs to an address and outlives its connections.
#[derive(Debug)]
pub(super) struct Endpoint {
    pub(super) address: SocketAddr,
    /// Refuse calls that would only fail.
    pub(super) breakers: Breakers,
    /// Whether others are preferred, because calls fail at once here.
    pub(super) outliers: Outliers,
    /// The calls in progress.
    pub(super) in_flight: InFlight,
    /// Wakes the task for a handshake now: an answer had another revision than the latest handshake, or a call was
    /// reset, and perhaps the connection with it.
    pub(super) recheck: Notify,
    /// Whether its health service reports `NOT_SERVING`.
    not_serving: AtomicBool,
    /// What it said of controllers in its latest handshake.
    controllers: Mutex<Option<ReportedControllers>>,
    /// Whether that exceeded a limit, which has been logged.
    exceeds_controllers: AtomicBool,
    /// Why it does not use a configuration of its own, according to its latest handshake; empty: it uses all of it.
    rejected_configuration: Mutex<String>,
}

impl Endpoint {
    /// An address that replicas of the gateway with this name call.
    pub(super) fn new(gateway: &str, backend: &str, address: SocketAddr, rule: BreakerRule) -> Self {
        Self {
            address,
            breakers: Breakers::new((gateway, backend, address), rule),
            outliers: Outliers::new(rule),
            in_flight: InFlight::default(),
            recheck: Notify::default(),
            not_serving: AtomicBool::new(false),
            controllers: Mutex::default(),
            exceeds_controllers: AtomicBool::new(false),
            rejected_configuration: Mutex::default(),
        }
    }

    fn rank(&self, verb: PolicyVerb) -> Rank {
        match (self.breakers.is_open(verb), self.outliers.are_left_out(verb)) {
            (true, _) => Rank::Refuses,
            (false, true) => Rank::LeftOut,
            (false, false) => Rank::Preferred,
        }
    }

    /// Records what the latest handshake said of controllers.
    pub(super) fn set_controllers(&self, reported: Option<Controllers>, backend: &str) {
        let is_reported = reported.is_some();
        let read = reported.and_then(ReportedControllers::read);
        let exceeds = is_reported && read.is_none();
        if exceeds && !self.exceeds_controllers.load(Ordering::Relaxed) {
            tracing::warn!(
                backend,
                address = %self.address,
                "what the backend says about its controllers exceeds a limit of info.proto and is ignored: there may be 1 to {CONTROLLER_NAMES} names \
                 of 1 to {CONTROLLER_NAME_BYTES} bytes, a lease of 1 to {LEASE_BYTES}, an identity of 1 to {IDENTITY_BYTES} and a leader of at most \
                 {IDENTITY_BYTES}"
            );
        }
        self.exceeds_controllers.store(exceeds, Ordering::Relaxed);
        *self.controllers.lock() = read;
    }

    /// Records what the latest handshake said of a configuration that it does not use. Logs a change.
    pub(super) fn set_rejected_configuration(&self, why: &str, backend: &str) {
        let why = if why.is_empty() { String::new() } else { one_line(why, REJECTED_CONFIGURATION_BYTES) };
        let mut known = self.rejected_configuration.lock();
        let address = self.address;
        match (known.is_empty(), why.is_empty()) {
            (_, false) if *known != why => {
                tracing::warn!(backend, %address, "backend does not use its own configuration: {why}");
            }
            (false, true) => tracing::info!(backend, %address, "backend uses its own configuration again"),
            _ => {}
        }
        *known = why;
    }

    /// Whether it says that it runs the controllers.
    fn leads(&self) -> bool {
        self.controllers.lock().as_ref().is_some_and(ReportedControllers::leads)
    }

    /// Whether it serves, according to its health service if it has one.
    pub(super) fn serves(&self) -> bool {
        !self.not_serving.load(Ordering::Relaxed)
    }

    /// Records what the health service reports.
    pub(super) fn set_serving(&self, serves: bool) {
        if self.not_serving.swap(!serves, Ordering::Relaxed) == serves {
            let address = self.address;
            let now = if serves { "serving again" } else { "NOT_SERVING; other addresses are used" };
            tracing::info!(%address, "health of the address: {now}");
        }
    }
}

/// Calls go to addresses of the highest rank.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Rank {
    /// It would refuse the call, or lose it.
    Refuses,
    /// Calls fail at once there.
    LeftOut,
    Preferred,
}

/// What the addresses of a backend share, with its tasks.
#[derive(Debug)]
pub(super) struct Shared {
    pub(super) availability: Availability,
    /// How long calls may run on a connection that takes no new ones: the longest timeout of the configurations that
    /// share it.
    pub(super) longest_timeout: Mutex<Duration>,
    /// Version and revision of the latest handshake at any address.
    policy: Mutex<Option<(String, String)>>,
    /// Whether filter depends on the pods that are bound, according to the latest handshake; true before the first one.
    pub(super) may_depend_on_pods: AtomicBool,
    /// Whether there are several addresses.
    several: AtomicBool,
    /// Wakes the supervisor: a connection has ended, so that the addresses may be others.
    pub(super) lost: Notify,
}

impl Shared {
    pub(super) fn new(availability: Availability) -> Self {
        Self {
            availability,
            longest_timeout: Mutex::default(),
            policy: Mutex::default(),
            may_depend_on_pods: AtomicBool::new(true),
            several: AtomicBool::new(false),
            lost: Notify::default(),
        }
    }

    /// Records the version and the revision of a handshake. Returns whether they differ from those of the latest one, at
    /// any address: a replica of another build has replaced one.
    pub(super) fn set_policy(&self, version: &str, revision: &str) -> bool {
        let now = (version.to_owned(), revision.to_owned());
        let before = self.policy.lock().replace(now.clone());
        before.is_some_and(|before| before != now)
    }

    /// Whether there are several addresses.
    pub(super) fn has_several(&self) -> bool {
        self.several.load(Ordering::Relaxed)
    }
}

/// The addresses of a backend. When it is dropped, its tasks end.
#[derive(Debug)]
pub(super) struct Endpoints {
    /// In order of their addresses; empty before the first resolution.
    list: ArcSwap<Vec<SessionHandle>>,
    /// Why no address is known.
    unresolved: Mutex<Option<BackendFailure>>,
    /// Since when the host cannot be resolved, and why, while known addresses stay in use.
    stale: Mutex<Option<(Instant, BackendFailure)>>,
    pub(super) shared: Arc<Shared>,
    /// The slots for concurrent calls for each verb to all addresses.
    pub(super) slots: PerPolicyVerb<Arc<Slots>>,
    pub(super) retries: RetryBudget,
    /// Counts random choices.
    choices: AtomicU64,
    _in_use: watch::Receiver<()>,
}

/// A call, as far as it matters for the choice of an address.
#[derive(Debug, Clone, Copy)]
pub struct Caller<'c> {
    /// The verb.
    pub verb: PolicyVerb,
    /// The UID of the pod.
    pub pod: &'c str,
}

impl Endpoints {
    /// No addresses yet.
    pub(super) fn new(shared: Arc<Shared>, in_use: watch::Receiver<()>) -> Self {
        Self {
            list: ArcSwap::default(),
            unresolved: Mutex::default(),
            stale: Mutex::default(),
            shared,
            slots: PerPolicyVerb::from_fn(|verb| match verb {
                // kube-scheduler binds as many pods at the same time as it has placed, and each of these calls waits for
                // work outside. One that waited here would lose time that it needs there.
                PolicyVerb::Bind => Slots::fixed(u32::MAX),
                PolicyVerb::Filter
                | PolicyVerb::Score
                | PolicyVerb::Preempt
                | PolicyVerb::BeforeFilter
                | PolicyVerb::BeforeFilterNodes
                | PolicyVerb::BeforeScore => Slots::new(MOST_CALLS),
            }),
            retries: RetryBudget::default(),
            choices: AtomicU64::new(0),
            _in_use: in_use,
        }
    }

    /// The session for a call.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn choose(&self, caller: Caller<'_>) -> Result<Arc<Session>, BackendFailure> {
        let list = self.list.load();
        match &list[..] {
            [only] => only.session(),
            several => {
                let connected: Vec<_> = several.iter().filter_map(SessionHandle::current).collect();
                self.balance(&connected, caller).ok_or_else(|| self.failure(several))
            }
        }
    }

    /// Another usable session for a call that was not processed at this one: at another address, or a later one at the
    /// only address.
    pub(super) fn elsewhere(&self, caller: Caller<'_>, failed: &Arc<Session>) -> Option<Arc<Session>> {
        let list = self.list.load();
        let is_other = |session: &Arc<Session>| {
            session.is_usable(caller.verb)
                && !Arc::ptr_eq(&session.connection, &failed.connection)
                && (list.len() == 1 || session.endpoint().address != failed.endpoint().address)
        };
        let usable: Vec<_> = list.iter().filter_map(SessionHandle::current).filter(is_other).collect();
        self.balance(&usable, caller)
    }

    /// Any session, for what the handshake says.
    pub(super) fn any(&self) -> Result<Arc<Session>, BackendFailure> {
        let list = self.list.load();
        let session = list.iter().find_map(SessionHandle::current);
        session.ok_or_else(|| self.failure(&list))
    }

    /// The sessions that may be asked.
    pub(super) fn usable(&self, verb: PolicyVerb) -> Vec<Arc<Session>> {
        let list = self.list.load();
        list.iter().filter_map(SessionHandle::current).filter(|session| session.is_usable(verb)).collect()
    }

    /// The session of the address that says that it runs the controllers.
    pub(super) fn leading(&self) -> Option<Arc<Session>> {
        let leads = |handle: &&SessionHandle| handle.endpoint.leads();
        self.list.load().iter().filter(leads).find_map(SessionHandle::current)
    }

    /// All of them.
    pub(super) fn all(&self) -> Arc<Vec<SessionHandle>> {
        self.list.load_full()
    }

    /// For how long the host of known addresses has not been resolved, and why.
    pub(super) fn stale(&self) -> Option<(Duration, BackendFailure)> {
        let (since, failure) = self.stale.lock().clone()?;
        Some((since.elapsed(), failure))
    }

    /// Why there is no session.
    fn failure(&self, list: &[SessionHandle]) -> BackendFailure {
        let failure = list.iter().find_map(SessionHandle::failure);
        let failure = failure.or_else(|| self.unresolved.lock().clone());
        failure.unwrap_or_else(|| unreachable("not connected yet"))
    }

    /// The choice among sessions at several addresses; `None` if there are none.
    fn balance(&self, connected: &[Arc<Session>], caller: Caller<'_>) -> Option<Arc<Session>> {
        let verb = caller.verb;
        if let Some(due) = connected.iter().find(|session| session.may_probe(verb)) {
            return Some(Arc::clone(due));
        }
        let rank = |session: &Arc<Session>| {
            if session.can_answer() { session.endpoint().rank(verb) } else { Rank::Refuses }
        };
        let mut ranked: Vec<_> = connected.iter().map(|session| (rank(session), session)).collect();
        let best = ranked.iter().map(|(rank, _)| *rank).max()?;
        ranked.retain(|(rank, _)| *rank == best);
        let among: Vec<_> = ranked.into_iter().map(|(_, session)| session).collect();
        let by = |salt: u64, session: &Arc<Session>| {
            FixedState::default().hash_one((salt, caller.pod, session.endpoint().address))
        };
        let first = among.iter().max_by_key(|session| by(0, session))?;
        let salt = 1 + self.choices.fetch_add(1, Ordering::Relaxed);
        let others = among.iter().filter(|session| !Arc::ptr_eq(session, first));
        let second = others.max_by_key(|session| by(salt, session)).unwrap_or(first);
        let load = |session: &Arc<Session>| session.endpoint().in_flight.now();
        let chosen = if load(second) < load(first) { second } else { first };
        Some(Arc::clone(chosen))
    }
}

/// The state of an address, for people.
#[derive(Debug)]
pub struct AddressState {
    /// The address.
    pub address: SocketAddr,
    /// Its session, or why there is none.
    pub session: Result<Arc<Session>, BackendFailure>,
    /// Whether it serves, according to its health service if it has one.
    pub serves: bool,
    /// The calls in progress.
    pub calls: usize,
    /// The circuit breakers that are open.
    pub open_breakers: Vec<(PolicyVerb, OpenBreaker)>,
    /// What it said of controllers in its latest handshake.
    pub controllers: Option<ReportedControllers>,
    /// Why it does not use a configuration of its own; empty: it uses all of it.
    pub rejected_configuration: String,
}

impl AddressState {
    pub(super) fn of(handle: &SessionHandle) -> Self {
        let endpoint = &handle.endpoint;
        Self {
            address: endpoint.address,
            session: handle.session(),
            serves: endpoint.serves(),
            calls: endpoint.in_flight.now(),
            open_breakers: endpoint.breakers.open().collect(),
            controllers: endpoint.controllers.lock().clone(),
            rejected_configuration: endpoint.rejected_configuration.lock().clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::{super::breaker::Evidence, *};

    #[tokio::test(start_paused = true)]
    async fn an_address_that_fails_at_once_is_better_than_one_that_refuses() {
        let rule = BreakerRule { failures: 2, first_pause: Duration::from_secs(1) };
        let verb = PolicyVerb::Filter;
        let after = |ends: &[Evidence]| {
            let endpoint = Endpoint::new("gateway", "racks", ([127, 0, 0, 1], 1).into(), rule);
            for evidence in ends {
                endpoint.outliers.record(verb, evidence);
                // A call that a breaker refuses does not end.
                let _ = endpoint.breakers.permit(verb).map(|permit| permit.record(evidence.clone()));
            }
            assert_eq!(endpoint.rank(PolicyVerb::Score), Rank::Preferred, "each verb has its own");
            endpoint.rank(verb)
        };
        let late = || Evidence::LosesTime(unreachable("late"));
        let at_once = || Evidence::FailsAtOnce;
        for (ends, rank) in [
            (vec![], Rank::Preferred),
            (vec![at_once()], Rank::Preferred),
            (vec![at_once(), at_once()], Rank::LeftOut),
            (vec![at_once(), at_once(), Evidence::Works], Rank::Preferred),
            (vec![late(), late()], Rank::Refuses),
            (vec![at_once(), at_once(), late(), late()], Rank::Refuses),
        ] {
            assert_eq!(after(&ends), rank, "{ends:?}");
        }
        assert!(Rank::Refuses < Rank::LeftOut && Rank::LeftOut < Rank::Preferred);
    }
}
