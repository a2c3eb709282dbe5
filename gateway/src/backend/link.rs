//! The connection to a backend, and the one task that keeps it.
//!
//! The task connects, shakes hands, and asks again every second what the backend is: rules may have been
//! edited, a replica of another build may have taken over. When the connection ends it connects again, with
//! growing pauses. Calls never wait for any of this: they see the connection that is there, or why there is
//! none.

use std::{convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use extender_gateway_core::{BackendFailure, FailureKind};
use extender_policy_api::v1alpha1::{GetInfoRequest, GetInfoResponse};
use futures_util::future::join_all;
use h2::client::SendRequest;
use http::Uri;
use prost::Message;
use tokio::{
    sync::{Notify, watch},
    time::{Instant, sleep, timeout},
};

use super::{
    connect::{self, closed, connect, unreachable},
    grpc::{self, Ended, Limits},
    info::{API_VERSION, Info, Known},
    memory::{Memory, Remembered},
    outage::Outage,
    question::Head,
    sync,
    tables::{Streams, Tables},
};
use crate::config::{self, PureAnswers};

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

/// A connection, and what the backend behind it is.
#[derive(Debug)]
pub struct Link {
    /// Sends requests; a clone is a handle to the same connection.
    pub connection: SendRequest<Bytes>,
    /// From the latest handshake.
    pub info: Info,
    /// What it answered under this handshake.
    pub memory: Memory,
    /// The nodes that it holds.
    pub tables: Tables,
    /// Begins each request.
    pub head: Arc<Head>,
    /// Where the verbs are.
    pub paths: Arc<Paths>,
}

/// The URIs of the verbs.
#[derive(Debug)]
pub struct Paths {
    /// Of `GetInfo`.
    pub info: Uri,
    /// Of Filter.
    pub filter: Uri,
    /// Of Score.
    pub score: Uri,
    /// Of Preempt.
    pub preempt: Uri,
    /// Of Bind.
    pub bind: Uri,
    /// Of `SyncNodes`.
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

/// Whether there is a connection.
#[derive(Debug)]
pub(super) struct State(Result<Arc<Link>, (BackendFailure, Attempts)>);

#[derive(Debug, PartialEq, Eq)]
enum Attempts {
    None,
    Some,
}

impl State {
    /// Before the first attempt.
    pub(super) fn untried() -> Self {
        Self(Err((unreachable("not connected yet".to_owned()), Attempts::None)))
    }

    pub(super) fn is_untried(&self) -> bool {
        matches!(self.0, Err((_, Attempts::None)))
    }

    pub(super) fn link(&self) -> Result<Arc<Link>, BackendFailure> {
        match &self.0 {
            Ok(link) => Ok(Arc::clone(link)),
            Err((failure, _)) => Err(failure.clone()),
        }
    }
}

/// A connection as calls see it.
#[derive(Debug)]
pub struct Seen {
    pub(super) state: watch::Receiver<State>,
    /// Tells the task to shake hands now: an answer came from another revision than the latest handshake, or a
    /// call was reset, and the connection with it perhaps.
    pub(super) look_again: Arc<Notify>,
}

/// A connection as its task sees it.
#[derive(Debug)]
pub struct Publisher {
    state: watch::Sender<State>,
    look_again: Arc<Notify>,
}

/// Both ends of a connection that has not been tried.
pub(super) fn channel() -> (Publisher, Seen) {
    let (publish, seen) = watch::channel(State::untried());
    let look_again = Arc::new(Notify::new());
    (Publisher { state: publish, look_again: Arc::clone(&look_again) }, Seen { state: seen, look_again })
}

/// Whether two configurations of a backend can share a connection: what the handshake says, and how it is
/// read, are the same.
pub(super) fn same(one: &config::Backend, other: &config::Backend) -> bool {
    let scale =
        |backend: &config::Backend| backend.score.as_ref().map(|score| (score.normalize, score.reversed));
    let asked = |backend: &config::Backend| {
        (backend.filter.is_some(), backend.preempt.is_some(), backend.bind.is_some())
    };
    let described = |backend: &config::Backend| (backend.name.clone(), backend.pure_answers);
    described(one) == described(other)
        && (&one.url, &one.tls, &one.args) == (&other.url, &other.tls, &other.args)
        && scale(one) == scale(other)
        && asked(one) == asked(other)
}

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

impl Publisher {
    fn down(&self, failure: BackendFailure) {
        self.state.send_replace(State(Err((failure, Attempts::Some))));
    }

    /// Whether answers were of another revision than the handshake told, so that a handshake has to confirm it.
    fn is_mixed(&self) -> bool {
        self.state.borrow().link().is_ok_and(|link| link.memory.is_mixed())
    }

    fn up(&self, link: Link) {
        self.state.send_replace(State(Ok(Arc::new(link))));
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
                        let info = Info::read(response.clone(), settings.score.as_ref(), &self.task.known);
                        self.complete(&info).await;
                        let (head, paths) = (Arc::clone(&head), Arc::clone(&paths));
                        let memory = Memory::new(self.remembered(&info));
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

    /// Waits, not for ever, until the table has the rows that the backend will be told: those with JSON are
    /// listed anew when the first backend wants them.
    async fn complete(&self, info: &Info) {
        let Some(table) = &self.task.known.table else { return };
        let rows = info.columns().map(|column| table.complete(column));
        let _ = timeout(PATIENCE, join_all(rows)).await;
    }
}

/// Asks the backend what it is, under these settings.
///
/// # Errors
/// There is no answer, or it is none: `the handshake failed: …`.
pub(super) async fn shake_hands(
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
