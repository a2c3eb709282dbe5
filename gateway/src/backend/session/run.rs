//! The task that keeps a backend connected. It connects, performs the handshake, and repeats it every second: the
//! backend's rules may have changed, or a replica of another build may have taken over. When the connection ends,
//! [`mod@retry`] starts the next session. A panic in a session ends only that session.

use std::{convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use extender_gateway_core::{BackendFailure, FailureKind};
use extender_policy_api::v1alpha1::{GetInfoRequest, GetInfoResponse};
use futures_util::future::join_all;
use h2::client::SendRequest;
use prost::Message;
use tokio::{
    sync::oneshot,
    time::{Instant, sleep, timeout},
};

use super::{
    LongestTimeout, Paths, Session, SessionPublisher,
    announce::Announcements,
    retry::{self, retry},
    view_changes::ViewChanges,
};
use crate::{
    backend::{
        answer_cache::{AnswerCache, CachedVerbs},
        circuit::Circuit,
        connect::{self, closed, connect},
        containment::{contained, panicked},
        grpc::{self, Limits, RpcError},
        info::{API_VERSION, ClusterTables, Info, limits},
        tables::{StreamContext, Streams},
    },
    cadences::Cadences,
    config::{self, PureAnswers},
    contract::{answer::decoded, frame::put_prefix, question::RequestHead},
    observe::{Metrics, RateLimitedLog},
};

/// The largest answer to a handshake, in bytes.
const LARGEST_ANSWER: usize = 1 << 20;
/// The connection counts as lost after this many consecutive handshakes without a usable answer.
const MISSED: u32 = 5;

/// The data of a session task.
#[derive(Debug, Clone)]
pub struct SessionTask {
    /// The backend.
    pub settings: config::BackendSettings,
    /// The sources of facts about nodes.
    pub tables: ClusterTables,
    /// The name of this replica of the gateway.
    pub gateway: Arc<str>,
    /// Where panics are counted.
    pub metrics: Arc<Metrics>,
    /// The intervals and timeouts.
    pub cadences: Cadences,
}

/// Keeps a backend connected while its handle exists.
pub async fn run(task: SessionTask, publisher: SessionPublisher) {
    let announcements = Announcements::default();
    tokio::select! {
        () = publisher.state.closed() => tracing::info!(backend = %task.settings.name, "connection closed: its settings are no longer in use"),
        never = retry(&task.settings, &publisher, || attempt(&task, &publisher, &announcements)) => match never {},
    }
}

async fn attempt(
    task: &SessionTask,
    publisher: &SessionPublisher,
    announcements: &Announcements,
) -> retry::SessionEnd {
    let mut session = Connecting { task, publisher, announcements, greeted: None };
    let Err(failure) = contained(&task.metrics, session.run()).await;
    retry::SessionEnd { failure, ready_since: session.greeted }
}

struct Connecting<'s> {
    task: &'s SessionTask,
    publisher: &'s SessionPublisher,
    announcements: &'s Announcements,
    /// Since when the connection has been usable.
    greeted: Option<Instant>,
}

impl Connecting<'_> {
    /// Runs one connection, from connecting to its end.
    async fn run(&mut self) -> Result<Infallible, BackendFailure> {
        let (requests, connection) = connect(&self.task.settings, self.task.cadences.connect).await?;
        let grace = Arc::clone(&self.publisher.longest_timeout);
        let (_session, over) = oneshot::channel();
        // A separate task: a connection that takes no new calls still finishes those in flight.
        let mut running = tokio::spawn(running(connection, over, grace));
        let failure = tokio::select! {
            // The end of the connection is a better cause than the handshake that it broke.
            biased;
            ended = &mut running => {
                let error = match ended {
                    Ok(ended) => ended.err(),
                    Err(ended) if ended.is_panic() => {
                        return Err(panicked(&self.task.metrics, ended.into_panic().as_ref()));
                    }
                    Err(_) => None,
                };
                return Err(self.refused(error.as_ref()).unwrap_or_else(|| closed(error.as_ref())));
            }
            Err(failure) = self.refresh(requests) => failure,
        };
        if self.greeted.is_some() || failure.kind != FailureKind::Reset {
            return Err(failure);
        }
        // With TLS 1.3, a rejected certificate is reported only after the connection is established, when it ends.
        // The handshake explains any other end better: the connection is unused, so it ends in any case.
        let ended = timeout(self.task.cadences.handshake, running)
            .await
            .ok()
            .and_then(Result::ok)
            .and_then(Result::err);
        Err(self.refused(ended.as_ref()).unwrap_or(failure))
    }

    /// The backend's TLS error at the end of an unused connection.
    fn refused(&self, end: Option<&h2::Error>) -> Option<BackendFailure> {
        connect::refused(&self.task.settings, end.filter(|_| self.greeted.is_none())?)
    }

    async fn refresh(&mut self, connection: SendRequest<Bytes>) -> Result<Infallible, BackendFailure> {
        let SessionTask { settings, cadences, .. } = self.task;
        let mut known = Known::new(self.task, connection);
        let mut missed = 0;
        loop {
            let answer = shake_hands(settings, &known.connection, &known.paths, cadences.handshake).await;
            if answer.as_ref().err().is_none_or(|ended| !ended.is_late()) {
                known.circuit.answered();
            }
            match answer {
                Err(ended) => {
                    let failure = BackendFailure::from(ended);
                    missed += 1;
                    // While the connection lives, a failed handshake is no reason to interrupt calls.
                    if self.greeted.is_none() || failure.kind == FailureKind::Reset || missed == MISSED {
                        return Err(failure);
                    }
                }
                Ok(response) => {
                    missed = 0;
                    self.take(response, &mut known).await;
                    self.greeted.get_or_insert_with(Instant::now);
                }
            }
            // Replicas of two builds would request a handshake with every answer.
            sleep(cadences.shortest_refresh).await;
            // Whichever comes first; an interval would also catch up after a pause, which is not needed.
            let _ = timeout(cadences.refresh, self.publisher.recheck.notified()).await;
        }
    }

    /// Publishes the result of a handshake if it has changed.
    async fn take(&self, response: GetInfoResponse, known: &mut Known) {
        let settings = &self.task.settings;
        let news = known.latest.as_ref() != Some(&response);
        if !news && !self.publisher.is_mixed() {
            return;
        }
        if let Some(latest) = &known.latest
            && !known.view_changes.allow(latest, &response)
        {
            if let Some(similar) = known.log_limit.turn() {
                let backend = &settings.name;
                tracing::warn!(
                    %backend,
                    similar,
                    "backend changes too often what it requests; its latest handshake is not used yet"
                );
            }
            if latest.revision != response.revision {
                // Answers of the previous revision must not be used either.
                self.publisher.mix_revisions();
            }
            return;
        }
        let info = Info::read(response.clone(), settings, &self.task.tables);
        self.complete(&info).await;
        let cache = AnswerCache::new(self.remembered(&info), self.task.cadences.check_every);
        if !news && self.publisher.is_refuted() {
            // The revision is the same, so it is still not pure.
            cache.mark_impure();
        }
        if news {
            self.announcements.log(settings, &info);
        }
        self.publisher.up(known.session(info, cache));
        known.latest = Some(response);
    }

    fn remembered(&self, info: &Info) -> CachedVerbs {
        match self.task.settings.pure_answers {
            PureAnswers::Remembered => info.remembered(),
            PureAnswers::AskedEachTime => CachedVerbs::default(),
        }
    }

    /// Waits until the table has the rows for the backend. Limited for views with JSON, which are listed again when
    /// the first backend requests them.
    async fn complete(&self, info: &Info) {
        let Some(table) = &self.task.tables.table else { return };
        for column in info.columns() {
            table.fill(column).await;
        }
        let rows = info.columns().map(|column| table.complete(column));
        let _ = timeout(self.task.cadences.handshake, join_all(rows)).await;
    }
}

/// A connection, and what is known of its backend.
struct Known {
    connection: SendRequest<Bytes>,
    paths: Arc<Paths>,
    head: Arc<RequestHead>,
    circuit: Arc<Circuit>,
    streams: Streams,
    /// The latest accepted handshake.
    latest: Option<GetInfoResponse>,
    view_changes: ViewChanges,
    log_limit: RateLimitedLog,
}

impl Known {
    fn new(task: &SessionTask, connection: SendRequest<Bytes>) -> Self {
        let SessionTask { settings, gateway, .. } = task;
        let head = RequestHead::new(gateway, settings.name.as_str(), settings.args.as_ref());
        let paths = Paths::new(&settings.url);
        let streams = Streams::new(StreamContext {
            backend: settings.name.to_string(),
            tables: task.tables.clone(),
            metrics: Arc::clone(&task.metrics),
            connection: connection.clone(),
            path: paths.sync.clone(),
        });
        Self {
            connection,
            paths: Arc::new(paths),
            head: Arc::new(head),
            circuit: Arc::default(),
            streams,
            latest: None,
            view_changes: ViewChanges::default(),
            log_limit: RateLimitedLog::default(),
        }
    }

    /// The session that calls use after a handshake.
    fn session(&mut self, info: Info, cache: AnswerCache) -> Session {
        let tables = self.streams.keep(&info);
        let (head, paths) = (Arc::clone(&self.head), Arc::clone(&self.paths));
        let (connection, circuit) = (self.connection.clone(), Arc::clone(&self.circuit));
        Session { connection, info, cache, circuit, tables, head, paths }
    }
}

/// Runs a connection until it ends or, after its session, all calls on it must have ended: a peer that reads
/// nothing would otherwise keep it open indefinitely.
async fn running(
    connection: impl Future<Output = Result<(), h2::Error>>,
    session: oneshot::Receiver<Infallible>,
    grace: Arc<LongestTimeout>,
) -> Result<(), h2::Error> {
    let over = async {
        // An error means that the session has ended and dropped the sender.
        let _ = session.await;
        sleep(grace.get()).await;
    };
    tokio::select! {
        biased;
        ended = connection => ended,
        () = over => Ok(()),
    }
}

/// Performs the handshake with these settings and this timeout.
///
/// # Errors
/// There is no valid answer: `handshake failed: …`.
pub(in crate::backend) async fn shake_hands(
    settings: &config::BackendSettings,
    connection: &SendRequest<Bytes>,
    paths: &Paths,
    within: Duration,
) -> Result<GetInfoResponse, RpcError> {
    let request = GetInfoRequest {
        gateway_version: env!("CARGO_PKG_VERSION").to_owned(),
        api_versions: vec![API_VERSION.to_owned()],
        backend: settings.name.to_string(),
        args: settings.args.clone().unwrap_or_default(),
    };
    let mut framed = Vec::new();
    put_prefix(request.encoded_len(), &mut framed)?;
    request.encode_raw(&mut framed);
    let failed = |ended: RpcError| ended.context("handshake failed");
    let most = Limits { within, answer: LARGEST_ANSWER };
    let answer = grpc::unary(connection, &paths.info, [framed.into()], most).await.map_err(failed)?;
    limits::check(&answer).and_then(|()| decoded(answer)).map_err(|failure| failed(failure.into()))
}
