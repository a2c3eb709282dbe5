//! The task that keeps a backend connected.
//!
//! It connects, shakes hands, and asks again every second what the backend is: rules may have been edited, a replica of
//! another build may have taken over. When the connection ends, [`mod@retry`] begins the next session. A panic in a session
//! ends that session alone.

use std::{convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use extender_gateway_core::{BackendFailure, FailureKind};
use extender_policy_api::v1alpha1::{GetInfoRequest, GetInfoResponse};
use futures_util::future::join_all;
use h2::client::SendRequest;
use prost::Message;
use tokio::time::{Instant, sleep, timeout};

use super::{
    Paths, Session, SessionPublisher,
    announce::Announcements,
    retry::{self, retry},
};
use crate::{
    backend::{
        answer_cache::{AnswerCache, CachedVerbs},
        circuit::Circuit,
        connect::{self, closed, connect},
        containment::{contained, panicked},
        grpc::{self, Limits, RpcError},
        info::{API_VERSION, ClusterTables, Info, limits},
        tables::Streams,
    },
    cadences::Cadences,
    config::{self, PureAnswers},
    contract::{answer::decoded, frame::put_prefix, question::RequestHead},
    observe::Metrics,
};

/// The most that a handshake's answer may take, in bytes.
const LARGEST_ANSWER: usize = 1 << 20;
/// After this many handshakes in a row without a usable answer the connection counts as lost.
const MISSED: u32 = 5;

/// What a session task needs to know.
#[derive(Debug, Clone)]
pub struct SessionTask {
    /// The backend.
    pub settings: config::BackendSettings,
    /// What can be told about nodes.
    pub tables: ClusterTables,
    /// The name of this replica of the gateway.
    pub gateway: Arc<str>,
    /// Where panics are counted.
    pub metrics: Arc<Metrics>,
    /// How often and how long.
    pub cadences: Cadences,
}

/// Keeps a backend connected for as long as somebody could use the connection.
pub async fn run(task: SessionTask, publisher: SessionPublisher) {
    let announcements = Announcements::default();
    tokio::select! {
        () = publisher.state.closed() => tracing::info!(backend = %task.settings.name, "no longer used"),
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
    /// Since when the connection is usable.
    greeted: Option<Instant>,
}

impl Connecting<'_> {
    /// One connection, from connecting to its end.
    async fn run(&mut self) -> Result<Infallible, BackendFailure> {
        let (requests, connection) = connect(&self.task.settings, self.task.cadences.connect).await?;
        // A task of its own, which ends with the last call: a connection that takes no new calls still
        // finishes those that are under way.
        let mut running = tokio::spawn(connection);
        let failure = tokio::select! {
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
        // With TLS 1.3 a refused certificate is heard of after the connection stands, at its end. Any other end
        // says less than the handshake: nobody uses the connection now, so it ends in any case.
        let ended = timeout(self.task.cadences.handshake, running)
            .await
            .ok()
            .and_then(Result::ok)
            .and_then(Result::err);
        Err(self.refused(ended.as_ref()).unwrap_or(failure))
    }

    /// What the backend says of TLS at the end of a connection that had no use yet.
    fn refused(&self, end: Option<&h2::Error>) -> Option<BackendFailure> {
        connect::refused(&self.task.settings, end.filter(|_| self.greeted.is_none())?)
    }

    async fn refresh(&mut self, connection: SendRequest<Bytes>) -> Result<Infallible, BackendFailure> {
        let SessionTask { settings, cadences, .. } = self.task;
        let paths = Arc::new(Paths::new(&settings.url));
        let head =
            Arc::new(RequestHead::new(&self.task.gateway, settings.name.as_str(), settings.args.as_ref()));
        let circuit = Arc::new(Circuit::default());
        let mut missed = 0;
        let mut latest = None;
        let mut streams = Streams::new(self.task);
        loop {
            let answer = shake_hands(settings, &connection, &paths, cadences.handshake).await;
            if answer.as_ref().err().is_none_or(|ended| !ended.is_late()) {
                circuit.answered();
            }
            match answer {
                Err(ended) => {
                    let failure = BackendFailure::from(ended);
                    missed += 1;
                    // While the connection lives, a handshake that fails is no reason to cut calls off.
                    if self.greeted.is_none() || failure.kind == FailureKind::Reset || missed == MISSED {
                        return Err(failure);
                    }
                }
                Ok(response) => {
                    missed = 0;
                    let news = latest.as_ref() != Some(&response);
                    if news || self.publisher.is_mixed() {
                        let info = Info::read(response.clone(), settings, &self.task.tables);
                        self.complete(&info).await;
                        let (head, paths) = (Arc::clone(&head), Arc::clone(&paths));
                        let cache = AnswerCache::new(self.remembered(&info), cadences.check_every);
                        if !news && self.publisher.is_refuted() {
                            // It is the same revision, which is as little pure as before.
                            cache.mark_impure();
                        }
                        let tables = streams.keep(&info, &connection, &paths);
                        let (connection, circuit) = (connection.clone(), Arc::clone(&circuit));
                        if news {
                            self.announcements.log(settings, &info);
                        }
                        self.publisher.up(Session { connection, info, cache, circuit, tables, head, paths });
                        latest = Some(response);
                    }
                    self.greeted.get_or_insert_with(Instant::now);
                }
            }
            // Replicas of two builds would call for a handshake with every answer.
            sleep(cadences.shortest_refresh).await;
            // Whichever comes first; an interval would catch up after a pause, which nobody needs.
            let _ = timeout(cadences.refresh, self.publisher.recheck.notified()).await;
        }
    }

    fn remembered(&self, info: &Info) -> CachedVerbs {
        match self.task.settings.pure_answers {
            PureAnswers::Remembered => info.remembered(),
            PureAnswers::AskedEachTime => CachedVerbs::default(),
        }
    }

    /// Waits until the table has the rows that the backend will be told, but not for ever for those with JSON, which
    /// are listed anew when the first backend wants them.
    async fn complete(&self, info: &Info) {
        let Some(table) = &self.task.tables.table else { return };
        for column in info.columns() {
            table.fill(column).await;
        }
        let rows = info.columns().map(|column| table.complete(column));
        let _ = timeout(self.task.cadences.handshake, join_all(rows)).await;
    }
}

/// Asks the backend what it is, under these settings, within this time.
///
/// # Errors
/// There is no answer, or it is none: `the handshake failed: …`.
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
    let failed = |ended: RpcError| ended.context("the handshake failed");
    let most = Limits { within, answer: LARGEST_ANSWER };
    let answer = grpc::unary(connection, &paths.info, [framed.into()], most).await.map_err(failed)?;
    limits::check(&answer).and_then(|()| decoded(answer)).map_err(|failure| failed(failure.into()))
}
