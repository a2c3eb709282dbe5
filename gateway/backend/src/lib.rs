//! A policy backend: connection, handshake, encoding and decoding.
//!
//! [`Backend`] is the handle that calls use. Behind it one task ([`session`]) connects, performs the handshake,
//! notices when the backend changes or disconnects, and reconnects. Requests are assembled from encoded parts
//! ([`extender_gateway_contract`]) that backends share; answers are checked against the contract before the decision uses
//! them. Every possible failure is a [`BackendFailure`].

pub mod answer_cache;
mod availability;
pub mod breaker;
mod changes;
pub mod connections;
mod containment;
pub mod controllers;
pub mod endpoints;
pub mod handshake;
mod health;
mod in_flight;
pub mod info;
pub mod introspection;
pub mod outcomes;
mod outliers;
pub mod remedy;
pub mod remote_table;
pub mod resolver;
mod retry_budget;
pub mod session;
pub mod sync;

use std::{
    sync::{Arc, atomic::Ordering},
    time::Duration,
};

use bytes::Bytes;
use extender_gateway_contract::{
    answer::{self, Answered, FilterAnswer, Reply, largest_answer},
    bind::{self, BindQuestion, Bound},
    hook::{self, Changes},
    nodes::NodeForm,
    preempt::{self, PreemptQuestion},
    question::{Args, CallFields, Question, ScoresWanted, Wants},
};
use extender_gateway_core::{BackendFailure, FailureKind, PolicyVerb, preempt::Kept};
pub use extender_gateway_grpc::RpcError;
use extender_gateway_grpc::{self as grpc, FailureScope, Limits, Processed, connect};
use extender_gateway_observe::Metrics;
use extender_gateway_pace::fair_queue::Flow;
use extender_gateway_pace::rate_limited_log::RateLimitedLog;
use extender_gateway_record::{RpcRole, Rpcs};
use extender_gateway_settings as config;
use extender_policy_api::{
    limits,
    v1beta1::{Purpose, Verb},
};
use jiff::Timestamp;
use tokio::{
    sync::{OwnedSemaphorePermit, Semaphore},
    time::Instant,
};
use tonic::Code;

use self::{
    breaker::{Change, Evidence, Permit},
    containment::{contained, contained_now},
    endpoints::{AddressState, Caller, Endpoints},
    outcomes::{AskedPod, Outcomes},
    session::{Connection, Session},
};

/// One attempt to call a backend.
#[derive(Debug)]
pub struct Attempt<'r> {
    /// The time that the backend has to answer.
    pub timeout: Duration,
    /// Whose calls it is queued with.
    pub flow: Flow,
    /// Where the RPC is recorded.
    pub rpcs: &'r mut Rpcs,
    /// The pod that it decides about, if the backend is told how the attempt to place the pod ends.
    pub asked: Option<AskedPod<'r>>,
}

/// What a request is about.
#[derive(Clone, Copy)]
struct Request {
    verb: PolicyVerb,
    /// The number of nodes in it, and how they are named.
    nodes: u32,
    form: NodeForm,
    /// The largest answer that is read, in bytes.
    largest_answer: usize,
}

/// One configured backend, connected or not.
#[derive(Debug)]
pub struct Backend {
    /// Its settings.
    pub settings: Arc<config::BackendSettings>,
    /// Where panics are counted.
    metrics: Arc<Metrics>,
    endpoints: Arc<Endpoints>,
    /// One permit for each concurrent shadow call.
    shadow_calls: Arc<Semaphore>,
    /// One permit for each request for what it shows.
    introspections: Arc<Semaphore>,
    /// How attempts to place pods ended, as it is told.
    pub outcomes: Arc<Outcomes>,
    oversize_log: RateLimitedLog,
}

/// The most concurrent shadow calls to a backend: each holds its permit until it is answered or times out.
const MOST_SHADOW_CALLS: usize = 16;
/// A call with less time than this would only time out.
const SHORTEST_TIMEOUT: Duration = Duration::from_millis(1);

impl Backend {
    fn new(
        settings: &config::BackendSettings,
        metrics: &Arc<Metrics>,
        endpoints: Arc<Endpoints>,
        outcomes: Arc<Outcomes>,
    ) -> Self {
        Self {
            settings: Arc::new(settings.clone()),
            metrics: Arc::clone(metrics),
            endpoints,
            shadow_calls: Arc::new(Semaphore::new(MOST_SHADOW_CALLS)),
            introspections: Arc::new(Semaphore::new(introspection::MOST_REQUESTS)),
            outcomes,
            oversize_log: RateLimitedLog::default(),
        }
    }

    /// The connection for a call, with the handshake at that address.
    ///
    /// # Errors
    /// Why there is no connection.
    pub fn session(&self, caller: Caller<'_>) -> Result<Arc<Session>, BackendFailure> {
        self.endpoints.choose(caller)
    }

    /// Another connection, which `fits`, for a call that was certainly not processed at this one. Takes a retry from the
    /// budget, which is then counted. Not for verbs with side effects.
    pub fn elsewhere(
        &self,
        caller: Caller<'_>,
        failed: &Arc<Session>,
        fits: impl Fn(&Session) -> bool,
    ) -> Option<Arc<Session>> {
        let other = self.endpoints.elsewhere(caller, failed).filter(|other| fits(other));
        let other = other.filter(|_| self.endpoints.retries.withdraw())?;
        if let Some(metrics) = self.metrics.known_backend(self.settings.name.as_str()) {
            metrics.verbs[caller.verb].retries.inc();
        }
        Some(other)
    }

    /// The connection to one of its addresses, for what the handshake says.
    ///
    /// # Errors
    /// Why there is no connection.
    pub fn any_session(&self) -> Result<Arc<Session>, BackendFailure> {
        self.endpoints.any()
    }

    /// The connections over which a verb can be answered now.
    pub fn usable_sessions(&self, verb: PolicyVerb) -> Vec<Arc<Session>> {
        self.endpoints.usable(verb)
    }

    /// The connection to the replica that says that it runs the backend's controllers; without one any of them.
    ///
    /// # Errors
    /// Why there is no connection.
    pub fn leading_session(&self) -> Result<Arc<Session>, BackendFailure> {
        self.endpoints.leading().map_or_else(|| self.any_session(), Ok)
    }

    /// Since when it is connected without an outage; `None` if it is not.
    pub fn connected_since(&self) -> Option<Timestamp> {
        self.endpoints.shared.availability.since()
    }

    /// For how long its host has not been resolved although known addresses stay in use, and why.
    pub fn stale_addresses(&self) -> Option<(Duration, BackendFailure)> {
        self.endpoints.stale()
    }

    /// The number of calls that wait because as many as there may be are in progress.
    pub fn waiting_calls(&self) -> usize {
        PolicyVerb::ALL.iter().map(|verb| self.endpoints.slots[*verb].waiting()).sum()
    }

    /// The state of each of its addresses.
    pub fn addresses(&self) -> Vec<AddressState> {
        self.endpoints.all().iter().map(AddressState::of).collect()
    }

    /// Whether filter depends on the pods that are bound: on usage or counts. While there is no connection, what the latest
    /// handshake said; before the first one it may.
    pub fn may_depend_on_pods(&self) -> bool {
        self.endpoints.shared.may_depend_on_pods.load(Ordering::Relaxed)
    }

    /// Logs that the backend rejects this many nodes, one of them with this name, because they are too large for a
    /// request.
    pub fn log_oversize(&self, nodes: usize, name: &str) {
        if let Some(similar) = self.oversize_log.permit() {
            let backend = &self.settings.name;
            tracing::warn!(
                %backend,
                nodes,
                name,
                similar,
                "nodes are too large for a request to the backend, so they are rejected; let it accept larger requests, or request less of a node"
            );
        }
    }

    /// A permit for a shadow call, released when it is dropped.
    ///
    /// # Errors
    /// All permits are taken.
    pub fn shadow_call(&self) -> Result<OwnedSemaphorePermit, BackendFailure> {
        Arc::clone(&self.shadow_calls).try_acquire_owned().map_err(|_| {
            let detail = format!(
                "it was not asked: {MOST_SHADOW_CALLS} questions in shadow are unanswered; a shorter timeout or a faster \
                 backend would help"
            );
            BackendFailure::new(FailureKind::Overloaded, detail)
        })
    }

    /// Waits until the first attempt to connect has succeeded or failed.
    pub async fn first_attempt(&self) {
        self.endpoints.shared.availability.first_attempt().await;
    }

    /// Calls Filter: which of these nodes the pod may not run on. The attempt records the RPC.
    pub async fn filter(
        &self,
        session: &Session,
        question: Question<'_>,
        attempt: Attempt<'_>,
    ) -> Result<Reply<FilterAnswer>, BackendFailure> {
        let (count, api) = (question.nodes.count, session.connection.api);
        let wanted = match question.wants {
            Wants::Scores => ScoresWanted::Wanted,
            Wants::Nothing | Wants::Hook(_) => ScoresWanted::Unwanted,
        };
        let read = |message| answer::filter(message, count, wanted, api);
        self.ask_nodes(session, PolicyVerb::Filter, question, attempt, read).await
    }

    /// Calls Score: one raw score for each of these nodes. The attempt records the RPC.
    pub async fn score(
        &self,
        session: &Session,
        question: Question<'_>,
        attempt: Attempt<'_>,
    ) -> Result<Reply<Vec<i32>>, BackendFailure> {
        let read = |message| answer::score(message, question.nodes.count);
        self.ask_nodes(session, PolicyVerb::Score, question, attempt, read).await
    }

    /// Calls a hook about nodes: what changes of the pod and of these nodes. The attempt records the RPC.
    pub async fn hook(
        &self,
        verb: PolicyVerb,
        session: &Session,
        question: Question<'_>,
        attempt: Attempt<'_>,
    ) -> Result<Reply<Changes>, BackendFailure> {
        let allowed = session.info.hook(verb)?.changes;
        let read = |message| hook::changes(message, question.nodes.count, allowed);
        self.ask_nodes(session, verb, question, attempt, read).await
    }

    /// Calls `BeforeFilter`: what changes of this pod, from [`pod_field`](extender_gateway_contract::pod::pod_field). The attempt
    /// records the RPC.
    pub async fn pod_hook(
        &self,
        session: &Session,
        call: CallFields<'_>,
        pod: &Bytes,
        attempt: Attempt<'_>,
    ) -> Result<Changes, BackendFailure> {
        let verb = PolicyVerb::BeforeFilter;
        let allowed = session.info.pod_hook(verb)?.changes;
        let request =
            Request { verb, nodes: 0, form: NodeForm::None, largest_answer: limits::POD_RESPONSE_BYTES };
        let (head, most) = (&session.connection.head, session.info.most_request_bytes);
        let pieces = |args| head.about_pod(call, args, Verb::BeforeFilter, pod.clone(), most);
        let read = |message| hook::pod_change(message, allowed);
        Ok(Self::compare_revision(session, self.call(session, request, pieces, attempt, read).await?))
    }

    /// Calls Preempt: which of these candidates and victims remain. Positions are not checked yet. The attempt
    /// records the RPC.
    pub async fn preempt(
        &self,
        session: &Session,
        question: PreemptQuestion<'_>,
        attempt: Attempt<'_>,
    ) -> Result<Vec<Kept>, BackendFailure> {
        let count = question.nodes.count;
        let request = Request {
            verb: PolicyVerb::Preempt,
            nodes: count,
            form: NodeForm::Rows,
            largest_answer: largest_answer(count),
        };
        let offered = question.candidates.iter().map(|candidate| candidate.victims.len()).sum();
        let (head, most) = (&session.connection.head, session.info.most_request_bytes);
        let pieces = |args| question.pieces(head, args, most);
        let read = |message| preempt::answer(message, count, offered);
        Ok(Self::compare_revision(session, self.call(session, request, pieces, attempt, read).await?))
    }

    /// Calls Bind. The attempt records the RPC.
    pub async fn bind(
        &self,
        session: &Session,
        question: BindQuestion<'_>,
        attempt: Attempt<'_>,
    ) -> Result<Bound, BackendFailure> {
        let plan = session.info.bind()?;
        let call =
            CallFields { id: question.call, purpose: Purpose::Decide, reads: plan.reads_id, snapshot: 0 };
        let fields = bind::fields(question, &plan.pod);
        let most = session.info.most_request_bytes;
        let request = Request {
            verb: PolicyVerb::Bind,
            nodes: 1,
            form: NodeForm::Name,
            largest_answer: limits::BIND_RESPONSE_BYTES,
        };
        let pieces = |args| session.connection.head.around(call, args, fields.clone(), most);
        self.call(session, request, pieces, attempt, bind::answer).await
    }

    /// Records that an answer contradicts a cached one: nothing is cached until the backend's next revision. Returns true
    /// the first time.
    pub fn mark_impure(&self, session: &Session, verb: PolicyVerb) -> bool {
        let is_first = session.cache.mark_impure();
        if is_first {
            tracing::error!(
                backend = self.settings.name.as_str(),
                verb = verb.name(),
                "backend gave a different answer to the same request, so the verb is not pure; its answers are no longer cached until its \
                 next revision"
            );
        }
        is_first
    }

    /// The value of an answer. If its revision differs from the handshake's, the handshake is repeated soon.
    fn compare_revision<T>(session: &Session, answered: Answered<T>) -> T {
        if answered.revision != session.info.revision {
            // Replicas of several builds, or a backend that has changed: the next handshake determines which.
            session.cache.mark_outdated();
            if !answered.revision.is_empty() {
                session.endpoint().recheck.notify_one();
            }
        }
        answered.value
    }

    async fn ask_nodes<T>(
        &self,
        session: &Session,
        verb: PolicyVerb,
        question: Question<'_>,
        attempt: Attempt<'_>,
        read: impl FnOnce(Bytes) -> Result<Reply<Answered<T>>, BackendFailure>,
    ) -> Result<Reply<T>, BackendFailure> {
        let count = question.nodes.count;
        let request =
            Request { verb, nodes: count, form: question.nodes.form, largest_answer: largest_answer(count) };
        let (head, most) = (&session.connection.head, session.info.most_request_bytes);
        let pieces = |args| head.pieces(question, args, most);
        Ok(match self.call(session, request, pieces, attempt, read).await? {
            Reply::Answered(answered) => Reply::Answered(Self::compare_revision(session, answered)),
            Reply::Missed => Reply::Missed,
        })
    }

    /// Sends a request and reads the answer. A backend that does not hold the args is sent them, once.
    async fn call<T, const N: usize>(
        &self,
        session: &Session,
        request: Request,
        pieces: impl Fn(Args) -> Result<[Bytes; N], BackendFailure>,
        attempt: Attempt<'_>,
        read: impl FnOnce(Bytes) -> Result<T, BackendFailure>,
    ) -> Result<T, BackendFailure> {
        let Attempt { timeout, flow, rpcs, asked } = attempt;
        let began = Instant::now();
        let once = Attempt { timeout, flow, rpcs: &mut *rpcs, asked };
        let mut answer = self.send(session, request, Args::Named, pieces(Args::Named)?, once).await;
        if answer.as_ref().is_err_and(RpcError::lacks_args) && session.connection.head.can_send_args() {
            let again = Attempt { timeout: timeout.saturating_sub(began.elapsed()), flow, rpcs, asked };
            answer = self.send(session, request, Args::Sent, pieces(Args::Sent)?, again).await;
            if let Err(error) = &mut answer
                && error.is_late()
            {
                // The whole time, whose text does not change from call to call.
                error.failure = grpc::late(timeout);
            }
        }
        let answer = answer?;
        contained_now(&self.metrics, || read(answer))
    }

    /// Sends a request.
    async fn send<const N: usize>(
        &self,
        session: &Session,
        request: Request,
        args: Args,
        pieces: [Bytes; N],
        attempt: Attempt<'_>,
    ) -> Result<Bytes, RpcError> {
        let Request { verb, nodes, form, largest_answer } = request;
        let Attempt { timeout, flow, rpcs, asked } = attempt;
        let connection = &*session.connection;
        let endpoint = &*connection.endpoint;
        // Before the wait, which would be in vain, and after it, because the breaker may have opened.
        endpoint.breakers.check(verb).inspect_err(|_| rpcs.not_processed())?;
        let (mut slot, queued) =
            self.endpoints.slots[verb].enter(flow, timeout / 2).await.map_err(in_flight::overloaded)?;
        let timeout = timeout.saturating_sub(queued);
        if timeout < SHORTEST_TIMEOUT {
            let detail = "not called: the call's time budget was used up";
            return Err(BackendFailure::new(FailureKind::Late, detail).into());
        }
        let permit = endpoint.breakers.permit(verb).inspect_err(|_| rpcs.not_processed())?;
        let _in_flight = endpoint.in_flight.enter();
        let _tracked = self.outcomes.track(session, asked);
        slot.begin();
        // A retry allows no others, so that retries are a fifth of the calls and not a quarter; nor does the same call with args.
        if !rpcs.is_retry() && args == Args::Named {
            self.endpoints.retries.deposit();
        }
        let sent = pieces.iter().map(Bytes::len).sum();
        let span = rpcs.start(nodes, form, sent, queued);
        if permit.is_probe() {
            rpcs.mark(RpcRole::Probe);
        }
        let limits = Limits { timeout, answer: largest_answer };
        let began = Instant::now();
        let call =
            grpc::unary(&connection.requests, &connection.paths.verbs[verb], pieces, limits, span.as_ref());
        let answer = contained(&self.metrics, call).await;
        if answer.as_ref().err().is_none_or(RpcError::is_an_answer) {
            slot.note_answer();
        }
        self.judge(connection, permit, began.elapsed(), &answer);
        let code = answer.as_ref().err().map_or("OK", RpcError::code);
        let status = answer.as_ref().err().and_then(|error| error.status);
        if answer.as_ref().is_err_and(|error| error.processed == Processed::Never) {
            rpcs.not_processed();
        }
        if answer.as_ref().is_err_and(RpcError::excludes_an_effect) {
            rpcs.had_no_effect();
        }
        let failure = answer.as_ref().err().map(|error| error.failure.kind);
        let lacks_args = answer.as_ref().is_err_and(RpcError::lacks_args);
        if failure == Some(FailureKind::Reset) || status == Some(Code::FailedPrecondition) && !lacks_args {
            // The connection may be ending, or the verb has another declaration now; a handshake now detects that
            // sooner than the next regular one.
            endpoint.recheck.notify_one();
        }
        rpcs.end(answer.as_ref().map_or(0, Bytes::len), failure, code);
        answer
    }

    /// Reports the end of a call after this time to its address.
    fn judge(
        &self,
        connection: &Connection,
        permit: Permit<'_>,
        took: Duration,
        answer: &Result<Bytes, RpcError>,
    ) {
        let verb = permit.verb();
        let ended = |error: &RpcError| error.scope == FailureScope::Connection;
        if answer.as_ref().is_err_and(ended) && !connection.note_failed_call() {
            return;
        }
        let allowed = self.settings.timeouts()[verb].unwrap_or(took);
        let evidence = Evidence::of(answer, took, allowed);
        connection.endpoint.outliers.record(verb, &evidence);
        let Some(change) = permit.record(evidence) else { return };
        let backend = &self.settings.name;
        if change == Change::Opened
            && let Some(metrics) = self.metrics.known_backend(backend.as_str())
        {
            metrics.verbs[verb].circuit_openings.inc();
        }
        let verb = verb.name();
        match change {
            Change::Opened => {
                // It is probed after a handshake, and those are frequent from now on.
                connection.endpoint.recheck.notify_one();
                let failure = answer.as_ref().err().map(RpcError::to_string).unwrap_or_default();
                tracing::warn!(
                    %backend,
                    verb,
                    "circuit breaker opened: calls fail at once, as those before did, until one that is sent as a probe loses no time; the latest failure: {failure}"
                );
            }
            Change::Closed(since) => {
                let seconds = Timestamp::now().duration_since(since).as_secs();
                tracing::info!(%backend, verb, seconds, "circuit breaker closed: a call lost no time");
            }
        }
    }
}
