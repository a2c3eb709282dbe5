//! A proxy between the gateway and a backend, down to the streams: records how calls name nodes, sends streams and
//! calls to different replicas, and delays the stream of nodes.

use std::{
    net::SocketAddr,
    sync::{
        Arc, Mutex,
        atomic::{AtomicUsize, Ordering},
    },
};

use bytes::{Bytes, BytesMut};
use extender_policy_api::v1beta1::{
    FilterResponse, GetInfoResponse, Rejection, ScoreRequest, nodes::Form, result::Outcome,
};
use h2::{
    RecvStream, SendStream,
    client::SendRequest,
    server::{self, SendResponse},
};
use http::{HeaderName, Request, Response};
use prost::Message;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::watch,
};

use super::backend::framed;

/// How the stream of nodes is handled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Stream {
    /// It reaches the backend.
    Passes,
    /// It is not read for now.
    Waits,
    /// It is read and counted, and nothing is acknowledged.
    IsSwallowed,
    /// It ends with UNIMPLEMENTED.
    IsRefused,
}

/// How a call named its nodes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Said {
    /// The table; 0 if the call carried rows only.
    pub(crate) table: String,
    /// By id, 0 for those with a row.
    pub(crate) ids: Vec<u32>,
    /// The names of those with a row.
    pub(crate) rows: Vec<String>,
}

/// Filter answers of another revision, which refuses every node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Revised {
    /// Its name.
    pub(crate) revision: &'static str,
    /// The reason that it gives.
    pub(crate) refuses: &'static str,
}

/// A running relay.
pub(crate) struct Relay {
    pub(crate) address: SocketAddr,
    shared: Arc<Shared>,
}

struct Shared {
    /// The target of streams of nodes, and that of calls and handshakes. For new connections.
    upstreams: Mutex<(SocketAddr, SocketAddr)>,
    stream: watch::Sender<Stream>,
    /// Whether filter and score calls reach the backend.
    calls_pass: watch::Sender<bool>,
    said: Mutex<Vec<(String, Said)>>,
    /// Replaces the backend's declaration.
    introduction: Mutex<Option<GetInfoResponse>>,
    /// Replaces the backend's answer to filter.
    revised: Mutex<Option<Revised>>,
    opened: AtomicUsize,
    open: AtomicUsize,
    swallowed: AtomicUsize,
}

impl Relay {
    /// A relay in front of this backend.
    pub(crate) async fn to(backend: SocketAddr) -> Self {
        Self::between(backend, backend).await
    }

    /// A relay that sends streams of nodes to one replica of a backend, and calls to another.
    pub(crate) async fn between(streams: SocketAddr, calls: SocketAddr) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let stream = watch::Sender::new(Stream::Passes);
        let shared = Arc::new(Shared {
            upstreams: Mutex::new((streams, calls)),
            stream,
            calls_pass: watch::Sender::new(true),
            said: Mutex::default(),
            introduction: Mutex::default(),
            revised: Mutex::default(),
            opened: AtomicUsize::new(0),
            open: AtomicUsize::new(0),
            swallowed: AtomicUsize::new(0),
        });
        let relay = Self { address, shared: Arc::clone(&shared) };
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(connection(stream, Arc::clone(&shared)));
            }
        });
        relay
    }

    /// Sends everything to this backend, from the next connection on.
    pub(crate) fn turn_to(&self, backend: SocketAddr) {
        *self.shared.upstreams.lock().unwrap() = (backend, backend);
    }

    pub(crate) fn set(&self, stream: Stream) {
        self.shared.stream.send_replace(stream);
    }

    /// From now on calls are read and wait here.
    pub(crate) fn hold_calls(&self) {
        self.shared.calls_pass.send_replace(false);
    }

    /// Calls reach the backend, also those that wait here.
    pub(crate) fn let_calls_pass(&self) {
        self.shared.calls_pass.send_replace(true);
    }

    /// Replaces the backend's declaration, from the next handshake on.
    pub(crate) fn introduce(&self, info: GetInfoResponse) {
        *self.shared.introduction.lock().unwrap() = Some(info);
    }

    /// Answers filter like this from the next call on.
    pub(crate) fn revise(&self, revised: Option<Revised>) {
        *self.shared.revised.lock().unwrap() = revised;
    }

    /// How the calls of a verb named nodes so far.
    pub(crate) fn said(&self, verb: &str) -> Vec<Said> {
        let said = self.shared.said.lock().unwrap();
        said.iter().filter(|(called, _)| called == verb).map(|(_, said)| said.clone()).collect()
    }

    /// How many streams of nodes were opened.
    pub(crate) fn opened(&self) -> usize {
        self.shared.opened.load(Ordering::Relaxed)
    }

    /// How many of them have not ended.
    pub(crate) fn open(&self) -> usize {
        self.shared.open.load(Ordering::Relaxed)
    }

    /// Bytes of streams that were swallowed.
    pub(crate) fn swallowed(&self) -> usize {
        self.shared.swallowed.load(Ordering::Relaxed)
    }
}

/// Ends when either side does.
async fn connection(stream: TcpStream, shared: Arc<Shared>) {
    let (streams, calls) = *shared.upstreams.lock().unwrap();
    let Some((streams, calls)) = connect(streams).await.zip(connect(calls).await) else { return };
    let Ok(mut connection) = server::handshake(stream).await else { return };
    let mut lost = streams.lost.clone();
    let gone = async move { drop(lost.changed().await) };
    tokio::pin!(gone);
    loop {
        let next = tokio::select! { next = connection.accept() => next, () = &mut gone => return };
        let Some(Ok((request, respond))) = next else { return };
        let upstream = if is_stream(&request) { &streams } else { &calls };
        let relayed = relay(request, respond, upstream.requests.clone(), Arc::clone(&shared));
        tokio::spawn(async move { drop(relayed.await) });
    }
}

struct Upstream {
    requests: SendRequest<Bytes>,
    /// Its sender is dropped with the connection.
    lost: watch::Receiver<()>,
}

async fn connect(address: SocketAddr) -> Option<Upstream> {
    let stream = TcpStream::connect(address).await.ok()?;
    stream.set_nodelay(true).unwrap();
    let (requests, connection) = h2::client::handshake(stream).await.ok()?;
    let (alive, lost) = watch::channel(());
    tokio::spawn(async move {
        drop(connection.await);
        drop(alive);
    });
    Some(Upstream { requests, lost })
}

fn verb(request: &Request<RecvStream>) -> String {
    request.uri().path().rsplit('/').next().unwrap().to_owned()
}

fn is_stream(request: &Request<RecvStream>) -> bool {
    verb(request) == "SyncNodes"
}

/// A stream that counts as open until this is dropped.
struct Counted<'s>(&'s Shared);

impl<'s> Counted<'s> {
    fn new(shared: &'s Shared) -> Self {
        shared.opened.fetch_add(1, Ordering::Relaxed);
        shared.open.fetch_add(1, Ordering::Relaxed);
        Self(shared)
    }
}

impl Drop for Counted<'_> {
    fn drop(&mut self) {
        self.0.open.fetch_sub(1, Ordering::Relaxed);
    }
}

fn introduce(mut respond: SendResponse<Bytes>, info: &GetInfoResponse) -> Result<(), h2::Error> {
    let head = Response::builder().header("content-type", "application/grpc");
    let mut sender = respond.send_response(head.body(()).unwrap(), false)?;
    sender.send_data(framed(&info.encode_to_vec()), false)?;
    sender.send_trailers([(HeaderName::from_static("grpc-status"), 0.into())].into_iter().collect())
}

async fn relay(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    upstream: SendRequest<Bytes>,
    shared: Arc<Shared>,
) -> Result<(), h2::Error> {
    let verb = verb(&request);
    let introduction = shared.introduction.lock().unwrap().clone().filter(|_| verb == "GetInfo");
    if let Some(info) = introduction {
        return introduce(respond, &info);
    }
    let _open = is_stream(&request).then(|| Counted::new(&shared));
    if is_stream(&request) && *shared.stream.borrow() == Stream::IsRefused {
        let head = Response::builder().header("content-type", "application/grpc").header("grpc-status", 12);
        respond.send_response(head.body(()).unwrap(), true)?;
        return Ok(());
    }
    let (head, body) = request.into_parts();
    let mut upstream = upstream.ready().await?;
    let (response, sender) = upstream.send_request(Request::from_parts(head, ()), false)?;
    let revised = shared.revised.lock().unwrap().filter(|_| verb == "Filter");
    let requests = requests(body, sender, (&verb, &shared));
    let answers = async {
        let (head, body) = response.await?.into_parts();
        let ends = body.is_end_stream();
        if let Some(revised) = revised {
            let sender = respond.send_response(Response::from_parts(head, ()), false)?;
            return revise(body, sender, revised).await;
        }
        let sender = respond.send_response(Response::from_parts(head, ()), ends)?;
        if ends { Ok(()) } else { pass(body, sender, &mut Eye::Shut).await }
    };
    // The end of the request is not the end of the call.
    tokio::try_join!(requests, answers).map(drop)
}

async fn requests(
    body: RecvStream,
    sender: SendStream<Bytes>,
    (verb, shared): (&str, &Shared),
) -> Result<(), h2::Error> {
    let mode = shared.stream.subscribe();
    if verb == "SyncNodes" {
        let is_swallowed = *mode.borrow() == Stream::IsSwallowed;
        return if is_swallowed {
            swallow(body, shared).await
        } else {
            pass(body, sender, &mut Eye::Gate(mode)).await
        };
    }
    if !matches!(verb, "Filter" | "Score") {
        return pass(body, sender, &mut Eye::Shut).await;
    }
    call(body, sender, (verb, shared)).await
}

/// How chunks in transit are handled.
enum Eye {
    Shut,
    /// They wait until the stream passes.
    Gate(watch::Receiver<Stream>),
}

impl Eye {
    async fn see(&mut self) {
        match self {
            Self::Shut => {}
            Self::Gate(mode) => drop(mode.wait_for(|mode| *mode == Stream::Passes).await),
        }
    }
}

/// Reads a call whole, records how it names nodes, and forwards it once calls pass.
async fn call(
    mut body: RecvStream,
    mut sender: SendStream<Bytes>,
    (verb, shared): (&str, &Shared),
) -> Result<(), h2::Error> {
    let mut message = BytesMut::new();
    while let Some(chunk) = body.data().await {
        let chunk = chunk?;
        body.flow_control().release_capacity(chunk.len())?;
        message.extend_from_slice(&chunk);
    }
    let message = message.freeze();
    shared.said.lock().unwrap().push((verb.to_owned(), said(message.slice(5..))));
    drop(shared.calls_pass.subscribe().wait_for(|pass| *pass).await);
    sender.send_data(message, true)
}

/// Reads the data and releases no flow-control capacity.
async fn swallow(mut body: RecvStream, shared: &Shared) -> Result<(), h2::Error> {
    while let Some(chunk) = body.data().await {
        shared.swallowed.fetch_add(chunk?.len(), Ordering::Relaxed);
    }
    Ok(())
}

async fn pass(mut body: RecvStream, mut sender: SendStream<Bytes>, eye: &mut Eye) -> Result<(), h2::Error> {
    while let Some(chunk) = body.data().await {
        let chunk = chunk?;
        eye.see().await;
        body.flow_control().release_capacity(chunk.len())?;
        sender.send_data(chunk, false)?;
    }
    match body.trailers().await? {
        Some(trailers) => sender.send_trailers(trailers),
        None => sender.send_data(Bytes::new(), true),
    }
}

/// Forwards an answer to filter as that of another revision.
async fn revise(
    mut body: RecvStream,
    mut sender: SendStream<Bytes>,
    revised: Revised,
) -> Result<(), h2::Error> {
    let mut message = BytesMut::new();
    while let Some(chunk) = body.data().await {
        message.extend_from_slice(&chunk?);
    }
    let mut answer = FilterResponse::decode(message.freeze().slice(5..)).unwrap();
    let result = answer.result.as_mut().unwrap();
    revised.revision.clone_into(&mut result.revision);
    let Some(Outcome::Evaluated(evaluated)) = result.outcome else { panic!("no answer") };
    let positions = (0..evaluated).collect();
    let reason = revised.refuses.to_owned();
    answer.rejections = vec![Rejection { reason, positions, ..Rejection::default() }];
    sender.send_data(framed(&answer.encode_to_vec()), false)?;
    sender.send_trailers(body.trailers().await?.unwrap_or_default())
}

fn said(message: Bytes) -> Said {
    let form = ScoreRequest::decode(message).unwrap().nodes.unwrap().form.unwrap();
    let (table, ids, rows) = match form {
        Form::Rows(rows) => (String::new(), Vec::new(), rows.rows),
        Form::Table(reference) => (reference.table, reference.ids, reference.rows),
    };
    Said { table, ids, rows: rows.into_iter().map(|row| row.name).collect() }
}
