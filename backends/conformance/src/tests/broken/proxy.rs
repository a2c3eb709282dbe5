//! A gRPC server in front of a right backend, which passes calls on and breaks one rule.

use std::{
    collections::{HashMap, HashSet},
    convert::Infallible,
    net::SocketAddr,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicBool, AtomicU64, AtomicUsize, Ordering},
    },
    time::Duration,
};

use bytes::{Buf as _, Bytes, BytesMut};
use extender_policy_api::v1beta1 as api;
use futures_util::future::BoxFuture;
use http::{HeaderMap, Request, Response, header::CONTENT_TYPE};
use http_body_util::{BodyExt as _, StreamBody};
use hyper::body::{Frame, Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use prost::Message as _;
use tokio::net::{TcpListener, TcpStream};
use tonic::{Code, Status, body::Body, transport::Endpoint};

use super::streams;
use crate::{
    client::{Client, Extras},
    trail::Trail,
};

/// What a rule's breaker knows about a call.
pub(super) struct Ask {
    /// Such as `Filter` or, of a hook, `BeforeFilter`; the whole path for other services.
    pub(super) method: String,
    pub(super) message: Bytes,
    pub(super) headers: HeaderMap,
    /// Of the connections, from 0.
    pub(super) connection: usize,
    /// Of all calls of this method, from 0.
    pub(super) number: usize,
    /// Calls that are being answered, this one included.
    pub(super) at_once: usize,
}

/// What the proxy remembers.
#[derive(Default)]
pub(super) struct State {
    pub(super) spoiled: AtomicBool,
    pub(super) connections: AtomicUsize,
    pub(super) open_connections: AtomicUsize,
    pub(super) at_once: AtomicUsize,
    pub(super) refused: AtomicUsize,
    pub(super) streams: AtomicUsize,
    pub(super) open_streams: AtomicUsize,
    /// A message of a stream is being applied.
    pub(super) busy: AtomicBool,
    pub(super) called: tokio::sync::Notify,
    /// The version of the latest table, and its changes.
    pub(super) applied: AtomicU64,
    pub(super) changed: tokio::sync::Notify,
    /// The proxy ends.
    ended: tokio::sync::Notify,
    methods: Mutex<HashMap<String, usize>>,
    /// The connections that asked for the handshake, and those of tables.
    pub(super) greeted: Mutex<HashSet<usize>>,
    pub(super) tables: Mutex<HashMap<String, usize>>,
}

impl State {
    /// From now on nothing is answered, as after a crash.
    pub(super) fn spoil(&self) {
        self.spoiled.store(true, Ordering::SeqCst);
    }

    /// The connection of this table is this one.
    pub(super) fn table_of(&self, table: String, connection: usize) {
        self.tables.lock().unwrap_or_else(PoisonError::into_inner).insert(table, connection);
    }

    fn count(&self, method: &str) -> usize {
        let mut methods = self.methods.lock().unwrap_or_else(PoisonError::into_inner);
        let number = methods.entry(method.to_owned()).or_default();
        *number += 1;
        *number - 1
    }
}

type Answered = Result<Bytes, Status>;
type Before = Box<dyn Fn(&Ask, &State) -> Answered + Send + Sync>;
pub(super) type Pause = Box<dyn for<'a> Fn(&'a Ask, &'a State) -> BoxFuture<'a, ()> + Send + Sync>;
type Fatal = Box<dyn Fn(&Ask) -> bool + Send + Sync>;
type After = Box<dyn Fn(&Ask, &State, Answered) -> Answered + Send + Sync>;

/// Which rule is broken, and how.
#[derive(Default)]
pub(super) struct Fault {
    /// Changes a request, or answers it.
    pub(super) before: Option<Before>,
    /// Changes an answer.
    pub(super) after: Option<After>,
    /// Delays a request.
    pub(super) pause: Option<Pause>,
    /// Ends the proxy as a crash does.
    pub(super) fatal: Option<Fatal>,
    /// A call is over before it is answered.
    pub(super) spoiled_by_cancel: bool,
    /// A body is not one message of gRPC.
    pub(super) spoiled_by_frames: bool,
    /// More connections than these are closed at once: in all, and at the same time.
    pub(super) connections: Option<usize>,
    pub(super) open_connections: Option<usize>,
    pub(super) accepts: Accepts,
    pub(super) stream: streams::StreamFault,
    pub(super) envelope: Envelope,
}

/// What of strangers is accepted.
#[derive(Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum Accepts {
    #[default]
    Nothing,
    /// Compressed messages are answered.
    Compressed,
    /// Silent connections are kept.
    Silence,
}

/// How a message is sent.
#[derive(Clone, Copy, Default)]
pub(super) enum Envelope {
    /// As gRPC says.
    #[default]
    Right,
    /// Without a message.
    Empty,
    /// The message twice.
    Twice,
    /// As another protocol.
    Web,
}

impl Fault {
    pub(super) fn none() -> Self {
        Self::default()
    }

    /// Whether the case would wait for the backend to forget something.
    pub(super) fn forgets_late(&self) -> bool {
        matches!(self.stream, streams::StreamFault::NeverEnds | streams::StreamFault::KeepsRemoved)
    }
}

/// A running proxy.
pub(super) struct Proxy {
    address: SocketAddr,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Proxy {
    fn drop(&mut self) {
        self.task.abort();
    }
}

pub(super) struct Shared {
    pub(super) fault: Fault,
    pub(super) state: State,
    pub(super) backend: Client,
}

impl Proxy {
    pub(super) async fn start(backend: SocketAddr, fault: Fault) -> Self {
        let endpoint: Endpoint = format!("http://{backend}").parse().unwrap();
        let backend = Client::connect(&endpoint, Duration::from_mins(1), Trail::default()).await.unwrap();
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let shared = Arc::new(Shared { fault, state: State::default(), backend });
        Self { address, task: tokio::spawn(accept(listener, shared)) }
    }

    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }
}

async fn accept(listener: TcpListener, shared: Arc<Shared>) {
    // The connections end with the proxy.
    let mut serving = tokio::task::JoinSet::new();
    loop {
        let stream = tokio::select! {
            accepted = listener.accept() => accepted.unwrap().0,
            () = shared.state.ended.notified() => break,
        };
        let connection = shared.state.connections.fetch_add(1, Ordering::SeqCst);
        let open = shared.state.open_connections.fetch_add(1, Ordering::SeqCst);
        let Fault { connections, open_connections, .. } = &shared.fault;
        if connections.is_some_and(|most| connection >= most)
            || open_connections.is_some_and(|most| open >= most)
        {
            shared.state.open_connections.fetch_sub(1, Ordering::SeqCst);
            continue;
        }
        serving.spawn(serve(stream, connection, Arc::clone(&shared)));
    }
    // Before the connections.
    drop(listener);
}

/// How long a connection may be silent: half of the time that the case for it waits. A client may begin late on a slow machine.
const BEGINNING: Duration = Duration::from_secs(10);

async fn serve(stream: TcpStream, connection: usize, shared: Arc<Shared>) {
    // Bytes, or the end: a connection can be told to be readable that is not.
    let begins = tokio::time::timeout(BEGINNING, stream.peek(&mut [0])).await.is_ok();
    if begins || shared.fault.accepts == Accepts::Silence {
        serve_begun(stream, connection, &shared).await;
    }
    shared.state.open_connections.fetch_sub(1, Ordering::SeqCst);
}

async fn serve_begun(stream: TcpStream, connection: usize, shared: &Arc<Shared>) {
    let of_service = Arc::clone(shared);
    let service = hyper::service::service_fn(move |request| {
        let shared = Arc::clone(&of_service);
        async move { Ok::<_, Infallible>(route(shared, connection, request).await) }
    });
    let served = hyper::server::conn::http2::Builder::new(TokioExecutor::new())
        .max_pending_accept_reset_streams(1_000)
        .max_header_list_size(64 << 10)
        .serve_connection(TokioIo::new(stream), service);
    drop(served.await);
}

async fn route(shared: Arc<Shared>, connection: usize, request: Request<Incoming>) -> Response<Body> {
    let path = request.uri().path().to_owned();
    if ["/SyncNodes", "/ServerReflectionInfo", "/Watch"].iter().any(|method| path.ends_with(method)) {
        return streams::pass_on(shared, connection, request).await;
    }
    let canceled = Canceled { shared: Arc::clone(&shared), armed: shared.fault.spoiled_by_cancel };
    if canceled.armed && !path.ends_with("/GetInfo") && !shared.state.spoiled.load(Ordering::SeqCst) {
        // However fast the machine is, the call is canceled before it is answered.
        std::future::pending::<()>().await;
    }
    let response = unary(&shared, connection, request, &path).await;
    canceled.disarm();
    response
}

/// Notices that a call is dropped before it is answered.
struct Canceled {
    shared: Arc<Shared>,
    armed: bool,
}

impl Canceled {
    fn disarm(mut self) {
        self.armed = false;
    }
}

impl Drop for Canceled {
    fn drop(&mut self) {
        if self.armed {
            self.shared.state.spoil();
        }
    }
}

async fn unary(shared: &Shared, connection: usize, request: Request<Incoming>, path: &str) -> Response<Body> {
    let (parts, body) = request.into_parts();
    if parts.headers.get("grpc-encoding").is_some_and(|encoding| encoding != "identity") {
        return if shared.fault.accepts == Accepts::Compressed {
            message_in(Envelope::Right, &Bytes::new())
        } else {
            refusal(&Status::unimplemented("compressed messages are not read"))
        };
    }
    let state = &shared.state;
    let Ok(body) = body.collect().await else {
        return refusal(&Status::internal("the body is cut off"));
    };
    let body = body.to_bytes();
    let grpc = parts.headers.get(CONTENT_TYPE).is_some_and(|kind| kind == "application/grpc");
    let Some(message) = one_message(&body).filter(|_| grpc) else {
        if shared.fault.spoiled_by_frames {
            state.spoil();
        }
        return refusal(&Status::internal("this is not one message"));
    };
    let is_of_verbs =
        |service: &str| service.ends_with(".PolicyService") || service.ends_with(".HookService");
    let method = path.rsplit_once('/').filter(|(service, _)| is_of_verbs(service));
    let method = method.map_or(path, |(_, method)| method);
    let method = if method == "Change" { hook(&message) } else { method }.to_owned();
    let (number, at_once) = (state.count(&method), state.at_once.fetch_add(1, Ordering::SeqCst) + 1);
    let ask = Ask { method, message, headers: parts.headers, connection, number, at_once };
    let answered = answer(shared, path, ask).await;
    state.at_once.fetch_sub(1, Ordering::SeqCst);
    match (answered, shared.fault.envelope) {
        (Ok(message), envelope) => message_in(envelope, &message),
        (Err(status), _) => refusal(&status),
    }
}

/// The hook of a request, as faults know it.
fn hook(message: &Bytes) -> &'static str {
    match api::ChangeRequest::decode(message.clone()).map(|request| request.hook()) {
        Ok(api::Verb::BeforeFilter) => "BeforeFilter",
        Ok(api::Verb::BeforeFilterNodes) => "BeforeFilterNodes",
        Ok(api::Verb::BeforeScore) => "BeforeScore",
        _ => "Change",
    }
}

async fn answer(shared: &Shared, path: &str, ask: Ask) -> Answered {
    let Shared { fault, state, backend } = shared;
    if state.spoiled.load(Ordering::SeqCst) {
        return Err(Status::unavailable("spoiled"));
    }
    // Gives others the chance to come in between.
    tokio::task::yield_now().await;
    if fault.fatal.as_ref().is_some_and(|fatal| fatal(&ask)) {
        state.ended.notify_one();
        std::future::pending::<()>().await;
    }
    if let Some(pause) = &fault.pause {
        pause(&ask, state).await;
    }
    let message = match &fault.before {
        Some(before) => before(&ask, state),
        None => Ok(ask.message.clone()),
    };
    let answered = match message {
        Ok(message) => {
            let metadata = ask.headers.iter().filter(|(name, _)| name.as_str().starts_with("trace"));
            let metadata = metadata.map(|(name, value)| (name.clone(), value.clone())).collect();
            let extras = Extras { metadata, timeout: None, nodes: 20_000 };
            backend.unary_at(path.parse().unwrap(), message, extras).await.unwrap()
        }
        Err(status) => Err(status),
    };
    match &fault.after {
        Some(after) => after(&ask, state, answered),
        None => answered,
    }
}

/// The message, if the body is one message that is not compressed.
fn one_message(body: &Bytes) -> Option<Bytes> {
    let mut rest = body.clone();
    if rest.len() < 5 || rest.get_u8() != 0 {
        return None;
    }
    let length = usize::try_from(rest.get_u32()).ok()?;
    (rest.len() == length).then_some(rest)
}

fn message_in(envelope: Envelope, message: &Bytes) -> Response<Body> {
    let (kind, times) = match envelope {
        Envelope::Right => ("application/grpc", 1),
        Envelope::Empty => ("application/grpc", 0),
        Envelope::Twice => ("application/grpc", 2),
        Envelope::Web => ("application/grpc-web", 1),
    };
    let one = crate::client::framed(0, u32::try_from(message.len()).unwrap(), message);
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", "0".parse().unwrap());
    let frames = [Frame::data(one.repeat(times).into()), Frame::trailers(trailers)];
    let frames = frames.into_iter().map(Ok::<_, Status>);
    let body = Body::new(StreamBody::new(futures_util::stream::iter(frames)));
    Response::builder().header(CONTENT_TYPE, kind).body(body).unwrap()
}

fn refusal(status: &Status) -> Response<Body> {
    let mut response =
        Response::builder().header(CONTENT_TYPE, "application/grpc").body(Body::empty()).unwrap();
    status.add_header(response.headers_mut()).unwrap();
    response
}

/// The text of a status that a fault needs.
pub(super) fn status(code: Code) -> Status {
    Status::new(code, "broken on purpose")
}

/// Some bytes more, in a field that nobody knows.
pub(super) fn padded(message: &Bytes, bytes: usize) -> Bytes {
    let mut padded = BytesMut::from(&**message);
    prost::encoding::bytes::encode(15_000, &Bytes::from(vec![0; bytes]), &mut padded);
    padded.freeze()
}
