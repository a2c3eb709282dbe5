//! The connection to a backend: its state as published by the task that maintains it and as seen by calls. Calls
//! never wait: they get the current session, or why there is none.

mod limits;
mod run;

use std::sync::{
    Arc,
    atomic::{AtomicBool, Ordering},
};

use arc_swap::ArcSwapOption;
use bytes::Bytes;
use extender_gateway_core::{BackendFailure, PerPolicyVerb, PolicyVerb};
use h2::client::SendRequest;
use http::Uri;
use tokio::sync::watch;

pub(super) use self::{
    limits::{Outage, Place},
    run::{SessionTask, run},
};
use extender_gateway_contract::question::RequestHead;
use extender_gateway_settings as config;

use super::{
    answer_cache::AnswerCache,
    changes,
    connect::unreachable,
    endpoints::{Endpoint, Shared},
    info::{ApiVersion, HOOK_SERVICE, Info, NODE_TABLE_SERVICE, POLICY_SERVICE, VerbPlan},
    introspection, outcomes,
    remote_table::RemoteTables,
};

/// A connection and the result of its latest handshake.
#[derive(Debug)]
pub struct Session {
    /// Shared with the sessions of the connection's other handshakes.
    pub(super) connection: Arc<Connection>,
    /// From the latest handshake.
    pub info: Info,
    /// The answer cache of this handshake, shared by the addresses with the same one.
    pub cache: Arc<AnswerCache>,
    /// The nodes that it holds.
    pub tables: RemoteTables,
    /// Whether a later handshake requests something else and is not used yet.
    outdated: AtomicBool,
}

impl Session {
    /// Whether a later handshake requests something else and is not used yet, because the backend changes too often
    /// what it requests.
    pub fn is_outdated(&self) -> bool {
        self.outdated.load(Ordering::Relaxed)
    }

    /// What belongs to its address.
    pub(super) fn endpoint(&self) -> &Endpoint {
        &self.connection.endpoint
    }

    /// Whether a call for a verb may go to this address if there are others.
    pub(super) fn is_usable(&self, verb: PolicyVerb) -> bool {
        self.can_answer() && !self.endpoint().breakers.is_open(verb)
    }

    /// Whether it is told how attempts to place pods ended.
    pub fn takes_outcomes(&self) -> bool {
        self.info.takes_outcomes && !self.connection.refuses_outcomes.load(Ordering::Relaxed)
    }

    /// It does not implement the service, although it announces it.
    pub(super) fn refuse_outcomes(&self) {
        self.connection.refuses_outcomes.store(true, Ordering::Relaxed);
    }

    /// Whether the next call for a verb may be the probe of its breaker.
    pub(super) fn may_probe(&self, verb: PolicyVerb) -> bool {
        self.can_answer() && self.endpoint().breakers.is_probe_due(verb)
    }

    /// Whether it has a connection, and serves.
    pub(super) fn can_answer(&self) -> bool {
        !self.connection.has_ended.load(Ordering::Relaxed) && self.endpoint().serves()
    }
}

/// A connection to a backend.
#[derive(Debug)]
pub(super) struct Connection {
    /// Sends requests.
    pub(super) requests: SendRequest<Bytes>,
    /// The package of the policy API that its first handshake has found.
    pub(super) api: ApiVersion,
    pub(super) paths: Paths,
    /// The first field of each request.
    pub(super) head: RequestHead,
    pub(super) endpoint: Arc<Endpoint>,
    /// Whether the connection has ended.
    has_ended: AtomicBool,
    /// Whether a call has failed because of that.
    has_failed_a_call: AtomicBool,
    /// Whether it does not implement `OutcomeService`.
    refuses_outcomes: AtomicBool,
}

impl Connection {
    /// Records that a call failed because the connection ended. Returns whether it is the first one: the calls of one
    /// connection that end with it are one failure of the backend, as when one of its replicas is replaced.
    pub(super) fn note_failed_call(&self) -> bool {
        self.set_ended();
        !self.has_failed_a_call.swap(true, Ordering::Relaxed)
    }

    /// Records that the connection has ended.
    pub(super) fn set_ended(&self) {
        self.has_ended.store(true, Ordering::Relaxed);
    }
}

/// The URIs of the methods.
#[derive(Debug)]
pub(super) struct Paths {
    pub(super) verbs: PerPolicyVerb<Uri>,
    pub(super) sync: Uri,
    pub(super) health: Uri,
    pub(super) introspect: Uri,
    pub(super) report: Uri,
    pub(super) watch: Uri,
}

/// The URI of a method of a backend.
fn path(url: &config::BackendUrl, service: &str, method: &str) -> Uri {
    Uri::builder()
        .scheme(url.scheme().as_str())
        .authority(url.authority())
        .path_and_query(format!("/{service}/{method}"))
        .build()
        .expect("the authority was checked with the configuration")
}

/// The URI of `GetInfo`.
pub(super) fn info_path(url: &config::BackendUrl, api: ApiVersion) -> Uri {
    path(url, &api.service(POLICY_SERVICE), "GetInfo")
}

impl Paths {
    pub(super) fn new(url: &config::BackendUrl, api: ApiVersion) -> Self {
        let path = |service: &str, method: &str| path(url, &api.service(service), method);
        Self {
            verbs: PerPolicyVerb::from_fn(|verb| {
                let service = match verb {
                    PolicyVerb::Filter | PolicyVerb::Score | PolicyVerb::Preempt | PolicyVerb::Bind => {
                        POLICY_SERVICE
                    }
                    PolicyVerb::BeforeFilter | PolicyVerb::BeforeFilterNodes | PolicyVerb::BeforeScore => {
                        HOOK_SERVICE
                    }
                };
                path(service, api.method(verb))
            }),
            sync: path(NODE_TABLE_SERVICE, "SyncNodes"),
            health: path("grpc.health.v1.Health", "Check"),
            introspect: path(introspection::SERVICE_NAME, "Introspect"),
            report: path(outcomes::SERVICE_NAME, "Report"),
            watch: path(changes::SERVICE_NAME, "Watch"),
        }
    }
}

/// An address as calls see it. The task of the address ends when all clones are dropped.
#[derive(Debug, Clone)]
pub(super) struct SessionHandle {
    pub(super) endpoint: Arc<Endpoint>,
    latest: Arc<ArcSwapOption<Session>>,
    /// Why there is no session; `None` before the first attempt to connect.
    failure: watch::Receiver<Option<BackendFailure>>,
}

impl SessionHandle {
    /// The session, if there is one.
    pub(super) fn current(&self) -> Option<Arc<Session>> {
        self.latest.load_full()
    }

    /// Whether there is a session whose connection has not ended.
    pub(super) fn is_live(&self) -> bool {
        self.current().is_some_and(|session| !session.connection.has_ended.load(Ordering::Relaxed))
    }

    /// The session.
    ///
    /// # Errors
    /// Why there is none.
    pub(super) fn session(&self) -> Result<Arc<Session>, BackendFailure> {
        self.current().ok_or_else(|| self.failure().unwrap_or_else(|| unreachable("not connected yet")))
    }

    /// Why there is no session; `None` if there is one, or before the first attempt to connect.
    pub(super) fn failure(&self) -> Option<BackendFailure> {
        self.failure.borrow().clone()
    }
}

/// An address as its task sees it.
#[derive(Debug)]
pub(super) struct SessionPublisher {
    endpoint: Arc<Endpoint>,
    shared: Arc<Shared>,
    latest: Arc<ArcSwapOption<Session>>,
    failure: watch::Sender<Option<BackendFailure>>,
}

impl SessionPublisher {
    fn publish(&self, state: Result<Session, BackendFailure>) {
        let has_session = state.is_ok();
        let failure = match state {
            Ok(session) => {
                self.accept(session);
                None
            }
            Err(failure) => {
                self.latest.store(None);
                Some(failure)
            }
        };
        self.failure.send_replace(failure);
        self.shared.availability.set_session(self.endpoint.address, has_session);
    }

    fn accept(&self, session: Session) {
        let counts = session.info.about_nodes(PolicyVerb::Filter).map_or(true, VerbPlan::depends_on_pods);
        self.shared.may_depend_on_pods.store(counts, Ordering::Relaxed);
        let is_revised = self.shared.set_policy(&session.info.version, &session.info.revision);
        self.latest.store(Some(Arc::new(session)));
        if is_revised {
            self.shared.availability.report_revision();
        }
    }

    /// The published session.
    fn session(&self) -> Option<Arc<Session>> {
        self.latest.load_full()
    }
}

/// Both ends of a new address.
pub(super) fn channel(endpoint: Arc<Endpoint>, shared: Arc<Shared>) -> (SessionPublisher, SessionHandle) {
    let (publish, failure) = watch::channel(None);
    let latest = Arc::new(ArcSwapOption::empty());
    let handle = SessionHandle { endpoint: Arc::clone(&endpoint), latest: Arc::clone(&latest), failure };
    (SessionPublisher { endpoint, shared, latest, failure: publish }, handle)
}

/// What a handshake, and so a connection, depends on: the settings that its request has and that its answer is read with.
/// Backends with equal keys can share a connection.
#[derive(Debug, PartialEq)]
pub(super) struct HandshakeKey<'b> {
    name: &'b config::BackendName,
    url: &'b config::BackendUrl,
    tls: &'b Option<config::BackendTls>,
    args: &'b Option<Bytes>,
    pure_answers: config::PureAnswers,
    normalize: Option<config::Normalize>,
    reversed: Option<bool>,
    verbs: Vec<PolicyVerb>,
}

impl<'b> From<&'b config::BackendSettings> for HandshakeKey<'b> {
    fn from(settings: &'b config::BackendSettings) -> Self {
        // Exhaustive, so that a new field must be considered here.
        let config::BackendSettings {
            name,
            url,
            tls,
            mode: _,
            canary: _,
            max_reject_share: _,
            pure_answers,
            args,
            matches: _,
            filter: _,
            score,
            preempt: _,
            bind: _,
            before_filter: _,
            before_filter_nodes: _,
            before_score: _,
        } = settings;
        let scale = score.as_ref().map(|score| {
            let config::ScoreSettings { timeout: _, weight: _, normalize, reversed, failure_policy: _ } =
                score;
            (*normalize, *reversed)
        });
        let (normalize, reversed) = scale.unwrap_or_default();
        let (pure_answers, verbs) = (*pure_answers, settings.verbs().collect());
        Self { name, url, tls, args, pure_answers, normalize, reversed, verbs }
    }
}
