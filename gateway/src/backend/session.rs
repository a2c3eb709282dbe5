//! The connection to a backend: its state as published by the task that maintains it and as seen by calls. Calls
//! never wait: they get the current session, or why there is none.

mod limits;
mod run;

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use extender_gateway_core::BackendFailure;
use h2::client::SendRequest;
use http::Uri;
use jiff::Timestamp;
use parking_lot::Mutex;
use tokio::sync::{Notify, watch};

pub(super) use self::run::{SessionTask, run};
use super::{
    answer_cache::AnswerCache,
    breaker::Breakers,
    in_flight::InFlight,
    info::{API_VERSION, Info, NODE_TABLE_SERVICE},
    remote_table::RemoteTables,
};
use crate::{
    config,
    contract::question::RequestHead,
    observe::{Metrics, WaitingPods, waiting::PolicyChange},
};

/// A connection and the result of its latest handshake.
#[derive(Debug)]
pub struct Session {
    /// Shared with the sessions of the connection's other handshakes.
    pub(super) connection: Arc<Connection>,
    /// From the latest handshake.
    pub info: Info,
    /// The answer cache of this handshake.
    pub cache: AnswerCache,
    /// The nodes that it holds.
    pub tables: RemoteTables,
    /// Since when there is a session, without an outage.
    pub since: Timestamp,
    /// Whether a later handshake requests something else and is not used yet.
    outdated: AtomicBool,
}

impl Session {
    /// Whether a later handshake requests something else and is not used yet, because the backend changes too often
    /// what it requests.
    pub fn is_outdated(&self) -> bool {
        self.outdated.load(Ordering::Relaxed)
    }
}

/// A connection to a backend.
#[derive(Debug)]
pub(super) struct Connection {
    /// Sends requests.
    pub(super) requests: SendRequest<Bytes>,
    pub(super) paths: Paths,
    /// The first field of each request.
    pub(super) head: RequestHead,
    /// Those of the address, which outlive the connection.
    pub(super) breakers: Arc<Breakers>,
    /// Whether a call has failed because the connection ended.
    has_ended: AtomicBool,
}

impl Connection {
    /// Records that a call failed because the connection ended. Returns whether it is the first one: the calls of one
    /// connection that end with it are one failure of the backend, as when one of its replicas is replaced.
    pub(super) fn is_first_to_end(&self) -> bool {
        !self.has_ended.swap(true, Ordering::Relaxed)
    }
}

/// The URIs of the methods.
#[derive(Debug)]
pub(super) struct Paths {
    pub(super) info: Uri,
    pub(super) filter: Uri,
    pub(super) score: Uri,
    pub(super) preempt: Uri,
    pub(super) bind: Uri,
    pub(super) sync: Uri,
}

impl Paths {
    pub(super) fn new(url: &config::BackendUrl) -> Self {
        let path = |service: &str, method: &str| {
            Uri::builder()
                .scheme(url.scheme().as_str())
                .authority(url.authority())
                .path_and_query(format!("/{service}/{method}"))
                .build()
                .expect("the authority was checked with the configuration")
        };
        let verb = |verb: &str| path(&format!("{API_VERSION}.PolicyService"), verb);
        Self {
            info: verb("GetInfo"),
            filter: verb("Filter"),
            score: verb("Score"),
            preempt: verb("Preempt"),
            bind: verb("Bind"),
            sync: path(NODE_TABLE_SERVICE, "SyncNodes"),
        }
    }
}

/// The latest session, or why there is none; `None` before the first attempt to connect.
type SessionState = Option<Result<Arc<Session>, BackendFailure>>;

/// A connection as calls see it.
#[derive(Debug)]
pub(super) struct SessionHandle {
    pub(super) state: watch::Receiver<SessionState>,
    /// The calls in progress.
    pub(super) in_flight: InFlight,
    /// Refuse calls that would only fail.
    pub(super) breakers: Arc<Breakers>,
    /// Wakes the task for a handshake now: an answer had another revision than the latest handshake, or a call was
    /// reset, and perhaps the connection with it.
    pub(super) recheck: Arc<Notify>,
    /// How long calls may run on a connection that takes no new ones: the longest timeout of the configurations that
    /// share it.
    pub(super) longest_timeout: Arc<Mutex<Duration>>,
    /// Whether filter has pods counted, according to the latest handshake; true before the first one.
    pub(super) may_count_pods: Arc<AtomicBool>,
}

/// Where outages and changes of a backend are reported.
#[derive(Debug)]
pub(super) struct SessionReports {
    pub(super) backend: config::BackendName,
    pub(super) metrics: Arc<Metrics>,
    pub(super) waiting: Arc<WaitingPods>,
}

impl SessionReports {
    /// Reports the change from one state to the next one.
    fn report(&self, before: &SessionState, now: &Result<Session, BackendFailure>) {
        let backend = self.backend.as_str();
        match (before, now) {
            (None | Some(Ok(_)), Err(_)) => {
                if let Some(metrics) = self.metrics.known_backend(backend) {
                    metrics.outages.inc();
                }
            }
            (Some(Err(_)), Ok(_)) => self.waiting.changed(backend, PolicyChange::Recovered),
            (Some(Ok(before)), Ok(now)) => {
                let policy = |info: &Info| (info.version.clone(), info.revision.clone());
                if policy(&before.info) != policy(&now.info) {
                    self.waiting.changed(backend, PolicyChange::Revision);
                }
            }
            (None, Ok(_)) | (Some(Err(_)), Err(_)) => {}
        }
    }
}

/// A connection as its task sees it.
#[derive(Debug)]
pub(super) struct SessionPublisher {
    reports: SessionReports,
    state: watch::Sender<SessionState>,
    breakers: Arc<Breakers>,
    recheck: Arc<Notify>,
    longest_timeout: Arc<Mutex<Duration>>,
    may_count_pods: Arc<AtomicBool>,
}

impl SessionPublisher {
    fn publish(&self, state: Result<Session, BackendFailure>) {
        if let Ok(session) = &state {
            let counts = session.info.filter.as_ref().map_or(true, |plan| plan.common.counts_pods());
            self.may_count_pods.store(counts, Ordering::Relaxed);
        }
        self.reports.report(&self.state.borrow(), &state);
        self.state.send_replace(Some(state.map(Arc::new)));
    }

    /// The published session.
    fn session(&self) -> Option<Arc<Session>> {
        self.state.borrow().as_ref()?.as_ref().ok().cloned()
    }
}

/// Both ends of a new connection.
pub(super) fn channel(reports: SessionReports, breakers: Breakers) -> (SessionPublisher, SessionHandle) {
    let (publish, state) = watch::channel(None);
    let may_count_pods = Arc::new(AtomicBool::new(true));
    let breakers = Arc::new(breakers);
    let handle = SessionHandle {
        state,
        in_flight: InFlight::default(),
        breakers: Arc::clone(&breakers),
        recheck: Arc::default(),
        longest_timeout: Arc::default(),
        may_count_pods: Arc::clone(&may_count_pods),
    };
    let (recheck, longest_timeout) = (Arc::clone(&handle.recheck), Arc::clone(&handle.longest_timeout));
    (SessionPublisher { reports, state: publish, breakers, recheck, longest_timeout, may_count_pods }, handle)
}

/// Whether two configurations of a backend can share a connection: the handshake's request and the interpretation
/// of its answer are the same.
pub(super) fn same(one: &config::BackendSettings, other: &config::BackendSettings) -> bool {
    let scale = |backend: &config::BackendSettings| {
        backend.score.as_ref().map(|score| (score.normalize, score.reversed))
    };
    let asked = |backend: &config::BackendSettings| {
        (backend.filter.is_some(), backend.preempt.is_some(), backend.bind.is_some())
    };
    let described = |backend: &config::BackendSettings| (backend.name.clone(), backend.pure_answers);
    described(one) == described(other)
        && (&one.url, &one.tls, &one.args) == (&other.url, &other.tls, &other.args)
        && scale(one) == scale(other)
        && asked(one) == asked(other)
}
