//! The connection to a backend: its state as published by the task that maintains it and as seen by calls. Calls
//! never wait: they get the current connection, or why there is none.

mod announce;
mod retry;
mod run;
mod view_changes;

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use extender_gateway_core::BackendFailure;
use h2::client::SendRequest;
use http::Uri;
use tokio::sync::{Notify, watch};

pub(super) use self::run::shake_hands;
pub use self::run::{SessionTask, run};
use super::{
    answer_cache::AnswerCache,
    circuit::Circuit,
    connect::unreachable,
    info::{API_VERSION, Info},
    sync,
    tables::RemoteTables,
};
use crate::{config, contract::question::RequestHead};

/// A connection and the backend's handshake.
#[derive(Debug)]
pub struct Session {
    /// Sends requests; a clone is a handle to the same connection.
    pub connection: SendRequest<Bytes>,
    /// From the latest handshake.
    pub info: Info,
    /// The answer cache of this handshake.
    pub cache: AnswerCache,
    /// The circuit breaker.
    pub circuit: Arc<Circuit>,
    /// The nodes that it holds.
    pub tables: RemoteTables,
    /// The first field of each request.
    pub head: Arc<RequestHead>,
    /// The URIs of the methods.
    pub paths: Arc<Paths>,
}

/// The URIs of the methods.
#[derive(Debug)]
pub struct Paths {
    /// `GetInfo`.
    pub info: Uri,
    /// `Filter`.
    pub filter: Uri,
    /// `Score`.
    pub score: Uri,
    /// `Preempt`.
    pub preempt: Uri,
    /// `Bind`.
    pub bind: Uri,
    /// `SyncNodes`.
    pub sync: Uri,
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
            sync: path(sync::SERVICE, "SyncNodes"),
        }
    }
}

/// The state of the connection.
#[derive(Debug)]
pub(super) struct ConnectionState(Result<Arc<Session>, (BackendFailure, ConnectAttempts)>);

#[derive(Debug, PartialEq, Eq)]
enum ConnectAttempts {
    None,
    Some,
}

impl ConnectionState {
    /// Before the first attempt.
    pub(super) fn untried() -> Self {
        Self(Err((unreachable("not connected yet".to_owned()), ConnectAttempts::None)))
    }

    pub(super) fn is_untried(&self) -> bool {
        matches!(self.0, Err((_, ConnectAttempts::None)))
    }

    pub(super) fn session(&self) -> Result<Arc<Session>, BackendFailure> {
        match &self.0 {
            Ok(session) => Ok(Arc::clone(session)),
            Err((failure, _)) => Err(failure.clone()),
        }
    }
}

/// A connection as calls see it.
#[derive(Debug)]
pub struct SessionHandle {
    pub(super) state: watch::Receiver<ConnectionState>,
    /// Wakes the task for a handshake now: an answer had another revision than the latest handshake, or a call was
    /// reset, and perhaps the connection with it.
    pub(super) recheck: Arc<Notify>,
    /// How long calls may run on a connection that takes no new ones.
    pub(super) longest_timeout: Arc<LongestTimeout>,
}

/// The longest timeout of the configurations that share a connection, in milliseconds.
#[derive(Debug, Default)]
pub(super) struct LongestTimeout(AtomicU64);

impl LongestTimeout {
    pub(super) fn raise(&self, timeout: Duration) {
        self.0.fetch_max(u64::try_from(timeout.as_millis()).unwrap_or(u64::MAX), Ordering::Relaxed);
    }

    fn get(&self) -> Duration {
        Duration::from_millis(self.0.load(Ordering::Relaxed))
    }
}

/// A connection as its task sees it.
#[derive(Debug)]
pub struct SessionPublisher {
    state: watch::Sender<ConnectionState>,
    recheck: Arc<Notify>,
    longest_timeout: Arc<LongestTimeout>,
}

impl SessionPublisher {
    fn down(&self, failure: BackendFailure) {
        self.state.send_replace(ConnectionState(Err((failure, ConnectAttempts::Some))));
    }

    /// Whether answers had another revision than the handshake, so that a new handshake must confirm it.
    fn is_mixed(&self) -> bool {
        self.state.borrow().session().is_ok_and(|session| session.cache.has_mixed_revisions())
    }

    /// Records that answers have another revision than the current handshake.
    fn mix_revisions(&self) {
        if let Ok(session) = self.state.borrow().session() {
            session.cache.mark_mixed_revisions();
        }
    }

    /// Whether the backend has proved not to be as pure as it declares.
    fn is_refuted(&self) -> bool {
        self.state.borrow().session().is_ok_and(|session| session.cache.is_impure())
    }

    fn up(&self, session: Session) {
        self.state.send_replace(ConnectionState(Ok(Arc::new(session))));
    }
}

/// Both ends of a new connection.
pub(super) fn channel() -> (SessionPublisher, SessionHandle) {
    let (publish, seen) = watch::channel(ConnectionState::untried());
    let (recheck, longest_timeout) = (Arc::new(Notify::new()), Arc::<LongestTimeout>::default());
    (
        SessionPublisher {
            state: publish,
            recheck: Arc::clone(&recheck),
            longest_timeout: Arc::clone(&longest_timeout),
        },
        SessionHandle { state: seen, recheck, longest_timeout },
    )
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
