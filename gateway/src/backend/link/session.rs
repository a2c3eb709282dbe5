//! The task that keeps a backend connected.
//!
//! It connects, shakes hands, and asks again every second what the backend is: rules may have been edited, a replica of
//! another build may have taken over. When the connection ends it connects again, with growing pauses.

use std::{convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use extender_gateway_core::{BackendFailure, FailureKind};
use extender_policy_api::v1alpha1::{GetInfoRequest, GetInfoResponse};
use futures_util::future::join_all;
use h2::client::SendRequest;
use prost::Message;
use tokio::time::{Instant, sleep, timeout};

use super::{Link, Paths, Publisher};
use crate::{
    backend::{
        connect::{self, closed, connect},
        grpc::{self, Ended, Limits},
        info::{API_VERSION, Info, Known},
        memory::{Memory, Remembered},
        outage::Outage,
        question::Head,
        tables::Streams,
    },
    config::{self, PureAnswers},
};

/// How long each handshake, and the rows that a backend is told, may take.
const PATIENCE: Duration = Duration::from_secs(2);
/// What a handshake may take.
const HANDSHAKE: Limits = Limits { within: PATIENCE, answer: 1 << 20 };
/// How often a backend is asked what it is.
const REFRESH: Duration = Duration::from_secs(1);
/// How often at most, when answers come from another revision.
const SHORTEST_REFRESH: Duration = Duration::from_millis(50);
/// After this many handshakes in a row without a usable answer the connection counts as lost.
const MISSED: u32 = 5;
/// The pause before the second attempt to connect; it doubles up to the longest.
const FIRST_PAUSE: Duration = Duration::from_millis(50);
const LONGEST_PAUSE: Duration = Duration::from_secs(2);

/// What a link task needs to know.
#[derive(Debug, Clone)]
pub struct Task {
    /// The backend.
    pub settings: config::Backend,
    /// What can be told about nodes.
    pub known: Known,
    /// The name of this replica of the gateway.
    pub gateway: Arc<str>,
}

/// Keeps a backend connected for as long as somebody could use the connection.
pub async fn keep(task: Task, publisher: Publisher) {
    tokio::select! {
        () = publisher.state.closed() => tracing::info!(backend = %task.settings.name, "no longer used"),
        never = reconnect(&task, &publisher) => match never {},
    }
}

async fn reconnect(task: &Task, publisher: &Publisher) -> Infallible {
    let mut pause = FIRST_PAUSE;
    let mut outage = Outage::default();
    loop {
        let began = Instant::now();
        let mut session = Session { task, publisher, greeted: false };
        let failure = match session.run().await {
            Ok(never) => match never {},
            Err(failure) => failure,
        };
        if session.greeted {
            pause = FIRST_PAUSE;
            outage = Outage::default();
        }
        if session.greeted && began.elapsed() >= REFRESH {
            // A replica that is being replaced says good-bye; the next one may be there already.
            tracing::info!(backend = %task.settings.name, "connecting again: {failure}");
            continue;
        }
        outage.say(&task.settings, &failure);
        publisher.down(failure);
        sleep(pause).await;
        pause = (pause * 2).min(LONGEST_PAUSE);
    }
}

fn announce(task: &Task, info: &Info) {
    let (backend, name) = (&task.settings.name, &info.name);
    tracing::info!(%backend, name, version = info.version, revision = info.revision, "backend is ready");
    let config::Backend { filter, score, preempt, bind, .. } = &task.settings;
    for (verb, wanted, failure) in [
        ("filter", filter.is_some(), info.filter.as_ref().err()),
        ("score", score.is_some(), info.score.as_ref().err()),
        ("preempt", preempt.is_some(), info.preempt.as_ref().err()),
        ("bind", bind.is_some(), info.bind.as_ref().err()),
    ] {
        if let Some(failure) = failure.filter(|_| wanted) {
            tracing::error!(%backend, verb, "backend cannot be asked for this verb: it {failure}");
        }
    }
}

struct Session<'s> {
    task: &'s Task,
    publisher: &'s Publisher,
    greeted: bool,
}

impl Session<'_> {
    /// One connection, from connecting to its end.
    async fn run(&mut self) -> Result<Infallible, BackendFailure> {
        let (requests, connection) = connect(&self.task.settings).await?;
        // A task of its own, which ends with the last call: a connection that takes no new calls still
        // finishes those that are under way.
        let mut running = tokio::spawn(connection);
        let failure = tokio::select! {
            ended = &mut running => {
                let error = ended.ok().and_then(Result::err);
                return Err(self.refused(error.as_ref()).unwrap_or_else(|| closed(error.as_ref())));
            }
            Err(failure) = self.refresh(requests) => failure,
        };
        if self.greeted || failure.kind != FailureKind::Reset {
            return Err(failure);
        }
        // With TLS 1.3 a refused certificate is heard of after the connection stands, at its end. Any other end
        // says less than the handshake: nobody uses the connection now, so it ends in any case.
        let ended = timeout(PATIENCE, running).await.ok().and_then(Result::ok).and_then(Result::err);
        Err(self.refused(ended.as_ref()).unwrap_or(failure))
    }

    /// What the backend says of TLS at the end of a connection that had no use yet.
    fn refused(&self, end: Option<&h2::Error>) -> Option<BackendFailure> {
        connect::refused(&self.task.settings, end.filter(|_| !self.greeted)?)
    }

    async fn refresh(&mut self, connection: SendRequest<Bytes>) -> Result<Infallible, BackendFailure> {
        let settings = &self.task.settings;
        let paths = Arc::new(Paths::new(&settings.url));
        let head = Arc::new(Head::new(&self.task.gateway, settings.name.as_str(), settings.args.as_ref()));
        let mut missed = 0;
        let mut latest = None;
        let mut streams = Streams::new(&self.task.known, settings);
        loop {
            match shake_hands(settings, &connection, &paths).await {
                Err(ended) => {
                    let failure = BackendFailure::from(ended);
                    missed += 1;
                    // While the connection lives, a handshake that fails is no reason to cut calls off.
                    if !self.greeted || failure.kind == FailureKind::Reset || missed == MISSED {
                        return Err(failure);
                    }
                }
                Ok(response) => {
                    missed = 0;
                    let news = latest.as_ref() != Some(&response);
                    if news || self.publisher.is_mixed() {
                        let info = Info::read(response.clone(), settings, &self.task.known);
                        self.complete(&info).await;
                        let (head, paths) = (Arc::clone(&head), Arc::clone(&paths));
                        let memory = Memory::new(self.remembered(&info));
                        if !news && self.publisher.is_refuted() {
                            // It is the same revision, which is as little pure as before.
                            memory.refute();
                        }
                        let tables = streams.keep(&info, &connection, &paths);
                        let connection = connection.clone();
                        if news {
                            announce(self.task, &info);
                        }
                        self.publisher.up(Link { connection, info, memory, tables, head, paths });
                        latest = Some(response);
                    }
                    self.greeted = true;
                }
            }
            // Replicas of two builds would call for a handshake with every answer.
            sleep(SHORTEST_REFRESH).await;
            // Whichever comes first; an interval would catch up after a pause, which nobody needs.
            tokio::select! {
                _ = timeout(REFRESH, self.publisher.look_again.notified()) => {}
                never = streams.panicked() => match never {},
            }
        }
    }

    fn remembered(&self, info: &Info) -> Remembered {
        match self.task.settings.pure_answers {
            PureAnswers::Remembered => info.remembered(),
            PureAnswers::AskedEachTime => Remembered::default(),
        }
    }

    /// Waits until the table has the rows that the backend will be told, but not for ever for those with JSON, which
    /// are listed anew when the first backend wants them.
    async fn complete(&self, info: &Info) {
        let Some(table) = &self.task.known.table else { return };
        for column in info.columns() {
            table.fill(column).await;
        }
        let rows = info.columns().map(|column| table.complete(column));
        let _ = timeout(PATIENCE, join_all(rows)).await;
    }
}

/// Asks the backend what it is, under these settings.
///
/// # Errors
/// There is no answer, or it is none: `the handshake failed: …`.
pub(in crate::backend) async fn shake_hands(
    settings: &config::Backend,
    connection: &SendRequest<Bytes>,
    paths: &Paths,
) -> Result<GetInfoResponse, Ended> {
    let request = GetInfoRequest {
        gateway_version: env!("CARGO_PKG_VERSION").to_owned(),
        api_versions: vec![API_VERSION.to_owned()],
        backend: settings.name.to_string(),
        args: settings.args.clone().unwrap_or_default(),
    };
    let mut framed = Vec::new();
    grpc::put_prefix(request.encoded_len(), &mut framed)?;
    request.encode_raw(&mut framed);
    let failed = |ended: Ended| ended.about("the handshake failed");
    let answer = grpc::unary(connection, &paths.info, [framed.into()], HANDSHAKE).await.map_err(failed)?;
    GetInfoResponse::decode(answer).map_err(|error| {
        let detail = format!("the answer cannot be decoded ({error})");
        failed(BackendFailure::new(FailureKind::Malformed, detail).into())
    })
}
