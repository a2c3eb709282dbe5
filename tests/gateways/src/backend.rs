//! A backend that follows scripts, down to the frames, and keeps what it was sent.

use std::{
    collections::{BTreeMap, HashMap},
    net::SocketAddr,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    task::{Context, Poll},
    time::{Duration, Instant},
};

use bytes::{BufMut as _, Bytes, BytesMut};
use extender_policy_api::v1beta1::{self as api, SyncNodesRequest, SyncNodesResponse, nodes::Form};
use h2::{Reason, RecvStream, server::SendResponse};
use http::{HeaderMap, HeaderName, HeaderValue, Request, Response};
use prost::Message;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Barrier, Notify, Semaphore},
    time::timeout,
};

use crate::{
    answers,
    case::{Check, Declared},
    fault::Fault,
    wire,
};

/// How long a gateway may take for what it does at once: much longer than any does.
pub(crate) const PATIENCE: Duration = Duration::from_secs(10);

/// How a backend handles a request.
#[derive(Clone, Debug)]
pub enum Act {
    /// Answers this message.
    Message(Vec<u8>),
    /// Ends with this code, message, and reason in `extender-reason`.
    Status(u32, &'static str, &'static str),
    /// Sends these bytes with this HTTP status and these trailers, such as "grpc-status: 0".
    Exactly(u16, Vec<u8>, &'static [&'static str]),
    /// Answers this message, leaves the stream open, and sends an empty one for each announcement.
    Open(Vec<u8>),
    /// Never answers.
    Hang,
    /// Resets the stream.
    Reset(Reason),
    /// Does this when the semaphore has a permit, which it takes.
    After(Arc<Semaphore>, Box<Act>),
    /// Does this when as many requests wait as the barrier is for.
    Together(Arc<Barrier>, Box<Act>),
}

impl Act {
    /// Answers this.
    pub(crate) fn answer(message: &impl Message) -> Self {
        Self::Message(message.encode_to_vec())
    }
}

/// What a backend was sent.
#[derive(Clone, Debug)]
pub(crate) struct Received {
    /// Such as `Filter`; of a hook its name, such as `BeforeFilter`.
    pub(crate) method: String,
    pub(crate) path: String,
    pub(crate) headers: HeaderMap,
    pub(crate) message: Bytes,
    pub(crate) at: Instant,
    /// The number of the stream, of all connections.
    pub(crate) stream: u64,
    pub(crate) connection: u64,
    /// The nodes by their positions, of tables, too.
    pub(crate) rows: Vec<api::NodeRow>,
    /// How the gateway ended the stream early.
    pub(crate) reset: Option<Reason>,
}

impl Received {
    /// The message; one that cannot be decoded is an empty one.
    pub(crate) fn decode<M: Message + Default>(&self) -> M {
        M::decode(self.message.clone()).unwrap_or_default()
    }

    pub(crate) fn call(&self) -> api::Call {
        api::Call::decode(wire::field(&self.message, &[1])).unwrap_or_default()
    }

    /// Of a request about nodes.
    pub(crate) fn nodes(&self) -> api::Nodes {
        nodes(&self.message)
    }

    pub(crate) fn pod(&self) -> api::Pod {
        api::Pod::decode(wire::field(&self.message, &[2])).unwrap_or_default()
    }

    pub(crate) fn facts(&self) -> api::PodFacts {
        self.pod().facts.unwrap_or_default()
    }

    pub(crate) fn names(&self) -> Vec<&str> {
        self.rows.iter().map(|row| row.name.as_str()).collect()
    }

    pub(crate) fn header(&self, name: &str) -> &str {
        self.headers.get(name).and_then(|value| value.to_str().ok()).unwrap_or_default()
    }
}

type Script = Arc<dyn Fn(&Received) -> Act + Send + Sync>;

/// A node table as its stream has filled it.
#[derive(Clone, Debug, Default)]
pub(crate) struct Table {
    pub(crate) rows: BTreeMap<u32, api::NodeRow>,
}

#[derive(Default)]
struct State {
    info: Vec<u8>,
    scripts: HashMap<&'static str, Script>,
    received: Vec<Received>,
    tables: HashMap<String, Table>,
    streams: u64,
}

struct Shared {
    declared: Declared,
    address: SocketAddr,
    state: Mutex<State>,
    changed: Notify,
    announced: Notify,
    fault: Fault,
}

/// A running backend; clones are the same one.
#[derive(Clone)]
pub(crate) struct Backend(Arc<Shared>);

impl Backend {
    pub(crate) async fn start(declared: Declared, fault: Fault) -> std::io::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let backend = Self(Arc::new(Shared {
            declared,
            address,
            state: Mutex::default(),
            changed: Notify::new(),
            announced: Notify::new(),
            fault,
        }));
        backend.reset();
        let serving = backend.clone();
        tokio::spawn(async move {
            let mut number = 0;
            while let Ok((stream, _)) = listener.accept().await {
                number += 1;
                tokio::spawn(connection(stream, number, serving.clone()));
            }
        });
        Ok(backend)
    }

    pub(crate) fn name(&self) -> &'static str {
        self.0.declared.name
    }

    /// The launcher's document about it.
    pub(crate) fn document(&self) -> serde_json::Value {
        let mut fields = self.0.declared.settings.clone();
        fields["name"] = self.name().into();
        fields["url"] = format!("http://{}", self.0.address).into();
        fields
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.0.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// As before any case, but for its tables and what it has received.
    pub(crate) fn reset(&self) {
        let mut state = self.state();
        state.info.clone_from(&self.0.declared.info);
        state.scripts.clear();
    }

    /// Answers this method in this way from now on.
    pub(crate) fn on(&self, method: &'static str, script: impl Fn(&Received) -> Act + Send + Sync + 'static) {
        self.state().scripts.insert(method, Arc::new(script));
    }

    /// Answers this method in this way, each time.
    pub(crate) fn always(&self, method: &'static str, act: Act) {
        self.on(method, move |_| act.clone());
    }

    /// Its declaration now.
    pub(crate) fn info(&self) -> api::GetInfoResponse {
        api::GetInfoResponse::decode(&*self.state().info).unwrap_or_default()
    }

    /// Declares this from now on.
    pub(crate) fn declare(&self, info: &api::GetInfoResponse) {
        self.state().info = info.encode_to_vec();
    }

    /// Sends another message on its streams that are open.
    pub(crate) fn announce(&self) {
        self.0.announced.notify_waiters();
    }

    /// What it has received so far of this method.
    pub(crate) fn received(&self, method: &str) -> Vec<Received> {
        self.state().received.iter().filter(|received| received.method == method).cloned().collect()
    }

    /// How much it has received so far; see [`Self::since`].
    pub(crate) fn mark(&self) -> u64 {
        self.state().streams
    }

    /// What it has received of this method since then for the latest call. A request of the call before may come late, if that
    /// was decided without it.
    pub(crate) fn since(&self, mark: u64, method: &str) -> Vec<Received> {
        let mut received = self.received(method);
        let latest = received.last().map(|last| last.call().id).unwrap_or_default();
        received.retain(|received| received.stream > mark && received.call().id == latest);
        received
    }

    /// Waits until what it has received of a method is so.
    pub(crate) async fn until<T>(
        &self,
        what: &str,
        method: &str,
        find: impl Fn(&[Received]) -> Option<T>,
    ) -> Check<T> {
        let found = async {
            loop {
                let changed = self.0.changed.notified();
                if let Some(found) = find(&self.received(method)) {
                    return found;
                }
                changed.await;
            }
        };
        let late = || format!("backend {}: {what}: not within {} s", self.name(), PATIENCE.as_secs()).into();
        timeout(PATIENCE, found).await.map_err(|_| late())
    }

    fn change<T>(&self, change: impl FnOnce(&mut State) -> T) -> T {
        let changed = change(&mut self.state());
        self.0.changed.notify_waiters();
        changed
    }

    /// Keeps a message, and says what to do.
    fn receive(&self, head: &http::request::Parts, ids: (u64, u64), message: Bytes) -> Act {
        let path = head.uri.path().to_owned();
        let method = method(&path, &message);
        let message = self.0.fault.request(&method, message);
        let (connection, stream) = ids;
        let received = self.change(|state| {
            let received = Received {
                rows: rows(state, &message),
                headers: head.headers.clone(),
                at: Instant::now(),
                reset: None,
                method,
                path,
                message,
                stream,
                connection,
            };
            if received.method == "SyncNodes" {
                apply(state, &received);
            }
            state.received.push(received.clone());
            received
        });
        let act = self.act(&received);
        self.0.fault.answer(&received.method, act)
    }

    fn act(&self, received: &Received) -> Act {
        let package =
            received.path.trim_start_matches('/').rsplit_once('.').map_or("", |(package, _)| package);
        if package != self.0.declared.package {
            return Act::Status(12, "not implemented", "");
        }
        let (script, info) = {
            let state = self.state();
            (state.scripts.get(received.method.as_str()).cloned(), state.info.clone())
        };
        match script {
            Some(script) => script(received),
            None if received.method == "GetInfo" => Act::Message(info),
            None => answers::default(received, &self.info().revision),
        }
    }

    fn was_reset(&self, stream: u64, reason: Option<Reason>) {
        self.change(|state| {
            let mut of_stream = state.received.iter_mut().filter(|received| received.stream == stream);
            if let Some(last) = of_stream.next_back() {
                last.reset = Some(reason.unwrap_or(Reason::NO_ERROR));
            }
        });
    }
}

fn method(path: &str, message: &Bytes) -> String {
    let method = path.rsplit('/').next().unwrap_or_default();
    if method != "Change" {
        return method.to_owned();
    }
    let hook = api::ChangeRequest::decode(message.clone()).unwrap_or_default().hook();
    match hook {
        api::Verb::BeforeFilter => "BeforeFilter",
        api::Verb::BeforeFilterNodes => "BeforeFilterNodes",
        api::Verb::BeforeScore => "BeforeScore",
        _ => "Change",
    }
    .to_owned()
}

/// All requests about nodes have them in the same field.
fn nodes(message: &Bytes) -> api::Nodes {
    api::Nodes::decode(wire::field(message, &[3])).unwrap_or_default()
}

/// The nodes of a request by their positions.
fn rows(state: &State, message: &Bytes) -> Vec<api::NodeRow> {
    match nodes(message).form {
        None => Vec::new(),
        Some(Form::Rows(rows)) => rows.rows,
        Some(Form::Table(table)) => {
            let held = state.tables.get(&table.table).cloned().unwrap_or_default();
            let mut inline = table.rows.into_iter();
            let row = |id: &u32| match id {
                0 => inline.next(),
                id => held.rows.get(id).cloned(),
            };
            table.ids.iter().map(row).map(Option::unwrap_or_default).collect()
        }
    }
}

fn apply(state: &mut State, received: &Received) {
    let SyncNodesRequest { table, upserts, removed, .. } = received.decode();
    let held = state.tables.entry(table).or_default();
    held.rows.extend(upserts.into_iter().map(|entry| (entry.id, entry.row.unwrap_or_default())));
    held.rows.retain(|id, _| !removed.contains(id));
}

async fn connection(stream: TcpStream, number: u64, backend: Backend) {
    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
    while let Some(Ok((request, respond))) = connection.accept().await {
        let stream = backend.change(|state| {
            state.streams += 1;
            state.streams
        });
        tokio::spawn(serve(request, respond, (number, stream), backend.clone()));
    }
}

async fn serve(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    ids: (u64, u64),
    backend: Backend,
) {
    let (head, mut body) = request.into_parts();
    let mut bytes = BytesMut::new();
    if head.uri.path().ends_with("/SyncNodes") {
        return table(head, body, respond, ids, backend).await;
    }
    while let Some(Ok(chunk)) = body.data().await {
        let _ = body.flow_control().release_capacity(chunk.len());
        bytes.extend_from_slice(&chunk);
    }
    let message = if bytes.len() < 5 { Bytes::new() } else { bytes.freeze().slice(5..) };
    let due = due(backend.receive(&head, ids, message), |context| respond.poll_reset(context)).await;
    let Ok(act) = due else {
        let reason = std::future::poll_fn(|context| respond.poll_reset(context)).await;
        return backend.was_reset(ids.1, reason.ok());
    };
    let is_open = matches!(act, Act::Open(_));
    let sent = send(act, &mut respond, None);
    let Some(mut stream) = sent.filter(|_| is_open) else { return };
    loop {
        tokio::select! {
            _ = std::future::poll_fn(|context| stream.poll_reset(context)) => return,
            () = backend.0.announced.notified() => drop(stream.send_data(framed(&[]), false)),
        }
    }
}

/// The act when its time has come; an error if there is none, or the gateway ends the stream before.
async fn due(
    act: Act,
    reset: impl FnMut(&mut Context<'_>) -> Poll<Result<Reason, h2::Error>>,
) -> Result<Act, ()> {
    let waiting = async {
        match act {
            Act::After(permits, act) => {
                permits.acquire().await.map_err(drop)?.forget();
                Ok(*act)
            }
            Act::Together(barrier, act) => {
                barrier.wait().await;
                Ok(*act)
            }
            Act::Hang => std::future::pending().await,
            act => Ok(act),
        }
    };
    tokio::select! {
        biased;
        act = waiting => act,
        _ = std::future::poll_fn(reset) => Err(()),
    }
}

/// The stream of a table, message by message.
async fn table(
    head: http::request::Parts,
    mut body: RecvStream,
    mut respond: SendResponse<Bytes>,
    ids: (u64, u64),
    backend: Backend,
) {
    let (mut bytes, mut answers) = (BytesMut::new(), None);
    while let Some(Ok(chunk)) = body.data().await {
        let _ = body.flow_control().release_capacity(chunk.len());
        bytes.extend_from_slice(&chunk);
        while let Some(message) = next_message(&mut bytes) {
            let act = backend.receive(&head, ids, message);
            let due = match &mut answers {
                None => due(act, |context| respond.poll_reset(context)).await,
                Some(answers) => due(act, |context| h2::SendStream::poll_reset(answers, context)).await,
            };
            let Ok(act) = due else { return };
            match (act, &mut answers) {
                (Act::Message(message), None) => {
                    let head = Response::builder().header("content-type", "application/grpc").body(());
                    answers = head.ok().and_then(|head| respond.send_response(head, false).ok());
                    let Some(answers) = &mut answers else { return };
                    let _ = answers.send_data(framed(&message), false);
                }
                (Act::Message(message), Some(answers)) => drop(answers.send_data(framed(&message), false)),
                (act, answers) => return drop(send(act, &mut respond, answers.take())),
            }
        }
    }
}

fn next_message(bytes: &mut BytesMut) -> Option<Bytes> {
    let length = bytes.get(1..5)?.iter().fold(0, |length, byte| length << 8 | usize::from(*byte));
    (bytes.len() >= 5 + length).then(|| bytes.split_to(5 + length).freeze().slice(5..))
}

/// Acknowledges a message of a table.
pub(crate) fn applied(received: &Received) -> Act {
    Act::answer(&SyncNodesResponse { applied: received.decode::<SyncNodesRequest>().version })
}

pub(crate) fn framed(message: &[u8]) -> Bytes {
    let mut framed = BytesMut::new();
    framed.put_u8(0);
    framed.put_u32(u32::try_from(message.len()).unwrap_or(u32::MAX));
    framed.extend_from_slice(message);
    framed.freeze()
}

/// Returns the stream, which is open as long as it is kept. A gateway that has ended it meanwhile gets nothing.
fn send(
    act: Act,
    respond: &mut SendResponse<Bytes>,
    begun: Option<h2::SendStream<Bytes>>,
) -> Option<h2::SendStream<Bytes>> {
    let is_open = matches!(act, Act::Open(_));
    let (status, body, trailers) = match act {
        Act::Message(message) => (200, framed(&message).to_vec(), fields(&["grpc-status: 0"])),
        Act::Open(message) => (200, framed(&message).to_vec(), fields(&[])),
        Act::Exactly(status, body, trailers) => (status, body, fields(trailers)),
        Act::Status(code, message, reason) => {
            let mut trailers = fields(&[]);
            trailers.insert("grpc-status", code.into());
            trailers.insert("grpc-message", HeaderValue::from_static(message));
            if !reason.is_empty() {
                trailers.insert("extender-reason", HeaderValue::from_static(reason));
            }
            (200, Vec::new(), trailers)
        }
        Act::Reset(reason) => {
            respond.send_reset(reason);
            return None;
        }
        Act::Hang | Act::After(..) | Act::Together(..) => return None,
    };
    let head = Response::builder().status(status).header("content-type", "application/grpc").body(());
    let begun = begun.or_else(|| respond.send_response(head.unwrap_or_default(), false).ok());
    let mut stream = begun?;
    let ends = trailers.is_empty() && !is_open;
    if !body.is_empty() || ends {
        let _ = stream.send_data(body.into(), ends);
    }
    if !trailers.is_empty() {
        let _ = stream.send_trailers(trailers);
    }
    Some(stream)
}

fn fields(lines: &[&'static str]) -> HeaderMap {
    let fields = lines.iter().filter_map(|line| line.split_once(": "));
    let mut map = HeaderMap::new();
    for (name, value) in fields {
        map.append(HeaderName::from_static(name), HeaderValue::from_static(value));
    }
    map
}
