//! A policy backend that follows a script, down to the frames.

use std::{
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use bytes::{BufMut, Bytes, BytesMut};
use extender_policy_api::v1beta1::{
    self as api, FilterRequest, FilterResponse, GetInfoResponse, Reads, Rejection, Scope, ScoreRequest,
    ScoreResponse, Scores, Verb, VerbInfo, nodes::Form,
};
use h2::{RecvStream, server::SendResponse};
use http::{HeaderMap, Request, Response};
use prost::Message;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::{TcpListener, TcpStream},
    sync::watch,
};

use super::reading;

/// How a backend handles a call.
#[derive(Clone, Debug)]
pub(crate) enum Act {
    /// Answers this message.
    Message(Vec<u8>),
    /// Sends these bytes unchanged in place of the framed message, then an OK.
    Framed(Vec<u8>),
    /// Sends the message, and nothing after it.
    Endless(Vec<u8>),
    /// Sends an empty message at once and whenever the other end changes; ends with an OK when that is dropped.
    Announce(watch::Receiver<()>),
    /// Sends the message, a byte at a time, with pauses, without an end.
    Trickle(Vec<u8>),
    /// Sends a part of the message, and resets the stream.
    Torn(Vec<u8>),
    /// Ends with a gRPC status.
    Status(i32, &'static str),
    /// Answers with an HTTP status that is not gRPC's.
    Http(u16),
    /// Answers this message once the semaphore has a permit, which it takes.
    After(Arc<tokio::sync::Semaphore>, Vec<u8>),
    /// Sends exactly these headers, these bytes and these trailers.
    Exactly(Exactly),
    /// Never answers.
    Hang,
    /// Does this once the other end allows it; never if that is dropped.
    Later(watch::Receiver<bool>, Box<Act>),
    /// Resets the stream.
    Reset,
    /// Refuses the stream: it is not processed.
    Refuse,
    /// Closes the connection.
    Drop,
}

/// Headers in the order in which they are sent; a name may occur several times.
pub(crate) type Fields = Vec<(&'static str, Vec<u8>)>;

/// An answer, field by field.
#[derive(Clone, Debug)]
pub(crate) struct Exactly {
    pub(crate) status: u16,
    pub(crate) head: Fields,
    /// With the prefix of its message; `None` for an answer that consists of a head.
    pub(crate) body: Option<Vec<u8>>,
    pub(crate) trailers: Fields,
}

impl Act {
    /// The timeout of a call with this answer: short if the test waits for the timeout.
    pub(crate) fn timeout(&self) -> &'static str {
        match self {
            Self::Hang | Self::Endless(_) => "150ms",
            _ => "60s",
        }
    }
}

type Script = Box<dyn Fn(&str, Bytes) -> Act + Send + Sync>;

/// A running backend.
pub(crate) struct Scripted {
    pub(crate) address: SocketAddr,
    calls: Arc<Mutex<Vec<(String, Bytes)>>>,
    heads: Arc<Mutex<Vec<(String, HeaderMap)>>>,
    ended: Arc<tokio::sync::Semaphore>,
    health: Arc<Mutex<Option<u8>>>,
    package: Arc<Mutex<Option<&'static str>>>,
}

impl Scripted {
    /// Starts one that answers the handshake with `info` and runs `script` with (verb, message). Calls of `GetInfo`
    /// are recorded as those of the verbs are.
    pub(crate) async fn start(
        info: GetInfoResponse,
        script: impl Fn(&str, Bytes) -> Act + Send + Sync + 'static,
    ) -> Self {
        Self::start_as(info, script, None).await
    }

    /// The same behind TLS.
    pub(crate) async fn start_as(
        info: GetInfoResponse,
        script: impl Fn(&str, Bytes) -> Act + Send + Sync + 'static,
        tls: Option<Arc<rustls::ServerConfig>>,
    ) -> Self {
        let greeting = Act::Message(info.encode_to_vec());
        let script = move |verb: &str, message| match verb {
            "GetInfo" => greeting.clone(),
            _ => script(verb, message),
        };
        Self::start_bare(script, tls).await
    }

    /// Starts one whose script answers `GetInfo`, too.
    pub(crate) async fn start_bare(
        script: impl Fn(&str, Bytes) -> Act + Send + Sync + 'static,
        tls: Option<Arc<rustls::ServerConfig>>,
    ) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let calls = Arc::new(Mutex::new(Vec::new()));
        let heads = Arc::new(Mutex::new(Vec::new()));
        let ended = Arc::new(tokio::sync::Semaphore::new(0));
        let script: Script = Box::new(script);
        let shared = Arc::new(Shared {
            script,
            calls: Arc::clone(&calls),
            heads: Arc::clone(&heads),
            ended: Arc::clone(&ended),
            health: Arc::default(),
            package: Arc::default(),
        });
        let (health, package) = (Arc::clone(&shared.health), Arc::clone(&shared.package));
        tokio::spawn(async move {
            while let Ok((stream, _)) = listener.accept().await {
                tokio::spawn(accepted(stream, tls.clone(), Arc::clone(&shared)));
            }
        });
        Self { address, calls, heads, ended, health, package }
    }

    /// Refuses the nodes of these names and scores every node with this number.
    pub(crate) async fn refusing(names: &'static [&'static str], reason: &'static str, score: i32) -> Self {
        Self::start(info(reading::names()), move |verb, message| match verb {
            "Filter" => Act::Message(filtered(&message, names, reason).encode_to_vec()),
            _ => Act::Message(scored(&message, |_| score).encode_to_vec()),
        })
        .await
    }

    /// Does this with every Filter and Score.
    pub(crate) async fn always(act: Act) -> Self {
        Self::start(info(reading::names()), move |_, _| act.clone()).await
    }

    /// Serves `grpc.health.v1.Health` from now on, with this status. Before that, it is not implemented.
    pub(crate) fn report_health(&self, status: u8) {
        *self.health.lock().unwrap() = Some(status);
    }

    /// Implements this package of the policy API alone from now on.
    pub(crate) fn speak(&self, package: &'static str) {
        *self.package.lock().unwrap() = Some(package);
    }

    /// The names of the nodes of each call of a verb so far.
    pub(crate) fn asked(&self, verb: &str) -> Vec<Vec<String>> {
        let calls = self.calls.lock().unwrap();
        calls.iter().filter(|(called, _)| called == verb).map(|(_, message)| names(message)).collect()
    }

    /// The messages of each call of a verb so far.
    pub(crate) fn messages(&self, verb: &str) -> Vec<Bytes> {
        let calls = self.calls.lock().unwrap();
        calls.iter().filter(|(called, _)| called == verb).map(|(_, message)| message.clone()).collect()
    }

    /// The value of this metadata in each call of a verb so far; empty if it is missing.
    pub(crate) fn metadata(&self, verb: &str, key: &str) -> Vec<String> {
        let heads = self.heads.lock().unwrap();
        let text = |head: &HeaderMap| {
            head.get(key).map_or_else(String::new, |value| value.to_str().unwrap().to_owned())
        };
        heads.iter().filter(|(called, _)| called == verb).map(|(_, head)| text(head)).collect()
    }

    /// Waits until the gateway has canceled a call that hangs.
    pub(crate) async fn canceled(&self) {
        self.ended.acquire().await.unwrap().forget();
    }
}

/// A backend as an item of the configuration.
pub(crate) fn configured(name: &str, backend: &Scripted, rest: &str) -> String {
    format!("- {{name: {name}, url: 'http://{}', {rest}}}\n", backend.address)
}

/// A backend that filters and scores node by node, with what both read.
pub(crate) fn info(reads: Reads) -> GetInfoResponse {
    let verb = |verb: Verb, reads: Reads| VerbInfo {
        verb: verb as i32,
        reads: Some(reads),
        scope: Scope::Node as i32,
        ..VerbInfo::default()
    };
    GetInfoResponse {
        name: "scripted".into(),
        api_version: "extender.policy.v1beta1".into(),
        verbs: vec![verb(Verb::Filter, reads.clone()), verb(Verb::Score, reads)],
        ..GetInfoResponse::default()
    }
}

/// The names in a request. Filter and Score have the same fields.
pub(crate) fn names(message: &Bytes) -> Vec<String> {
    rows(message).into_iter().map(|row| row.name).collect()
}

pub(crate) fn rows(message: &Bytes) -> Vec<api::NodeRow> {
    let request = ScoreRequest::decode(message.clone()).unwrap();
    let Some(Form::Rows(rows)) = request.nodes.unwrap().form else { panic!("no rows") };
    rows.rows
}

pub(crate) fn result(count: usize) -> api::Result {
    api::Result::answered(u32::try_from(count).unwrap(), "")
}

pub(crate) fn filtered(message: &Bytes, refused: &[&str], reason: &str) -> FilterResponse {
    FilterRequest::decode(message.clone()).unwrap();
    let names = names(message);
    let at = |name: &String| refused.contains(&name.as_str());
    let positions: Vec<u32> = (0..).zip(&names).filter(|(_, name)| at(name)).map(|(at, _)| at).collect();
    let rejection = Rejection { reason: reason.into(), positions, ..Rejection::default() };
    let rejections = Some(rejection).filter(|rejection| !rejection.positions.is_empty());
    FilterResponse {
        result: Some(result(names.len())),
        rejections: rejections.into_iter().collect(),
        scores: None,
    }
}

pub(crate) fn scored(message: &Bytes, score: impl Fn(&str) -> i32) -> ScoreResponse {
    let names = names(message);
    let values = names.iter().map(|name| score(name)).collect();
    ScoreResponse { result: Some(result(names.len())), scores: Some(Scores { values, absent: Vec::new() }) }
}

struct Shared {
    script: Script,
    calls: Arc<Mutex<Vec<(String, Bytes)>>>,
    heads: Arc<Mutex<Vec<(String, HeaderMap)>>>,
    ended: Arc<tokio::sync::Semaphore>,
    health: Arc<Mutex<Option<u8>>>,
    package: Arc<Mutex<Option<&'static str>>>,
}

impl Shared {
    /// Whether a method of this path is implemented.
    fn implements(&self, path: &str) -> bool {
        let package = self.package.lock().unwrap().unwrap_or("extender.policy.v1beta1");
        ["grpc.health.v1.Health/", &format!("{package}.")].iter().any(|known| path[1..].starts_with(known))
    }

    fn act(&self, verb: &str, message: Bytes) -> Act {
        if verb != "Check" {
            return (self.script)(verb, message);
        }
        let status = *self.health.lock().unwrap();
        status.map_or(Act::Status(12, ""), |status| Act::Message(vec![8, status]))
    }
}

async fn accepted(stream: TcpStream, tls: Option<Arc<rustls::ServerConfig>>, shared: Arc<Shared>) {
    match tls {
        None => connection(stream, shared).await,
        Some(tls) => {
            // Some tests are about callers that are rejected.
            if let Ok(stream) = tokio_rustls::TlsAcceptor::from(tls).accept(stream).await {
                connection(stream, shared).await;
            }
        }
    }
}

async fn connection(stream: impl AsyncRead + AsyncWrite + Unpin, shared: Arc<Shared>) {
    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
    let (close, mut closed) = tokio::sync::mpsc::channel::<()>(1);
    loop {
        tokio::select! {
            request = connection.accept() => match request {
                Some(Ok((request, respond))) => {
                    tokio::spawn(call(request, respond, Arc::clone(&shared), close.clone()));
                }
                _ => return,
            },
            _ = closed.recv() => return,
        }
    }
}

async fn call(
    request: Request<RecvStream>,
    mut respond: SendResponse<Bytes>,
    shared: Arc<Shared>,
    close: tokio::sync::mpsc::Sender<()>,
) {
    let (head, mut body) = request.into_parts();
    let verb = head.uri.path().rsplit('/').next().unwrap().to_owned();
    let mut message = BytesMut::new();
    while let Some(chunk) = body.data().await {
        let Ok(chunk) = chunk else { return };
        let _ = body.flow_control().release_capacity(chunk.len());
        message.extend_from_slice(&chunk);
        if verb == "SyncNodes" {
            // The stream does not end: the script is the answer to its first message.
            break;
        }
    }
    if !shared.implements(head.uri.path()) {
        return end(&mut respond, 12, "");
    }
    let message = message.freeze().slice(5..);
    // Hooks have one method: scripts know them by their names in it.
    let verb = if verb == "Change" { hook(&message).to_owned() } else { verb };
    shared.heads.lock().unwrap().push((verb.clone(), head.headers));
    shared.calls.lock().unwrap().push((verb.clone(), message.clone()));
    match when_due(shared.act(&verb, message)).await {
        Act::Later(..) => unreachable!("it was waited for"),
        Act::Message(message) => send(&mut respond, framed(&message), true),
        Act::Framed(bytes) => send(&mut respond, bytes.into(), true),
        Act::Endless(message) => {
            send(&mut respond, framed(&message), false);
            std::future::pending::<()>().await;
        }
        Act::Announce(changes) => announce(&mut respond, changes).await,
        Act::Trickle(message) => trickle(&mut respond, &message).await,
        Act::Torn(message) => {
            let Some(mut stream) = begin(&mut respond) else { return };
            let _ = stream.send_data(framed(&message).slice(..message.len() + 3), false);
            stream.send_reset(h2::Reason::INTERNAL_ERROR);
        }
        Act::Status(code, text) => end(&mut respond, code, text),
        Act::Http(status) => {
            respond.send_response(Response::builder().status(status).body(()).unwrap(), true).unwrap();
        }
        Act::After(permits, message) => {
            permits.acquire().await.unwrap().forget();
            send(&mut respond, framed(&message), true);
        }
        Act::Exactly(answer) => answer.send(&mut respond),
        Act::Hang => {
            let _ = std::future::poll_fn(|context| respond.poll_reset(context)).await;
            shared.ended.add_permits(1);
        }
        Act::Reset => {
            respond.send_reset(h2::Reason::INTERNAL_ERROR);
        }
        Act::Refuse => respond.send_reset(h2::Reason::REFUSED_STREAM),
        Act::Drop => {
            close.send(()).await.unwrap();
            // Dropped before the connection, the stream would be reset.
            std::future::pending::<()>().await;
        }
    }
}

fn hook(message: &Bytes) -> &'static str {
    match api::ChangeRequest::decode(message.clone()).unwrap().hook() {
        Verb::BeforeFilter => "BeforeFilter",
        Verb::BeforeFilterNodes => "BeforeFilterNodes",
        Verb::BeforeScore => "BeforeScore",
        other => panic!("{other:?} is no hook"),
    }
}

fn end(respond: &mut SendResponse<Bytes>, code: i32, text: &str) {
    let head = Response::builder().header("content-type", "application/grpc");
    let head = head.header("grpc-status", code).header("grpc-message", text);
    respond.send_response(head.body(()).unwrap(), true).unwrap();
}

async fn announce(respond: &mut SendResponse<Bytes>, mut changes: watch::Receiver<()>) {
    let Some(mut stream) = begin(respond) else { return };
    while stream.send_data(framed(&[]), false).is_ok() && changes.changed().await.is_ok() {}
    let _ = stream.send_trailers(HeaderMap::from_iter([("grpc-status".parse().unwrap(), 0.into())]));
}

/// Sends a byte at a time, and the message again and again.
async fn trickle(respond: &mut SendResponse<Bytes>, message: &[u8]) {
    let Some(mut stream) = begin(respond) else { return };
    for byte in framed(message).iter().cycle() {
        if stream.send_data(Bytes::copy_from_slice(&[*byte]), false).is_err() {
            return;
        }
        tokio::time::sleep(std::time::Duration::from_millis(10)).await;
    }
}

impl Exactly {
    fn send(self, respond: &mut SendResponse<Bytes>) {
        let mut head = Response::builder().status(self.status).body(()).unwrap();
        *head.headers_mut() = fields(self.head);
        let Some(body) = self.body else {
            let _ = respond.send_response(head, true);
            return;
        };
        let Ok(mut stream) = respond.send_response(head, false) else { return };
        let _ = stream.send_data(body.into(), false);
        let _ = stream.send_trailers(fields(self.trailers));
    }
}

fn fields(fields: Fields) -> HeaderMap {
    let mut map = HeaderMap::new();
    for (name, value) in fields {
        map.append(name, http::HeaderValue::from_bytes(&value).unwrap());
    }
    map
}

/// The action, once it is due.
async fn when_due(act: Act) -> Act {
    let Act::Later(mut go, next) = act else { return act };
    if go.wait_for(|go| *go).await.is_err() {
        std::future::pending::<()>().await;
    }
    *next
}

pub(crate) fn framed(message: &[u8]) -> Bytes {
    let mut framed = BytesMut::new();
    framed.put_u8(0);
    framed.put_u32(u32::try_from(message.len()).unwrap());
    framed.extend_from_slice(message);
    framed.freeze()
}

/// `None` if the gateway has canceled the call.
fn begin(respond: &mut SendResponse<Bytes>) -> Option<h2::SendStream<Bytes>> {
    let head = Response::builder().header("content-type", "application/grpc").body(()).unwrap();
    respond.send_response(head, false).ok()
}

fn send(respond: &mut SendResponse<Bytes>, data: Bytes, end: bool) {
    let Some(mut stream) = begin(respond) else { return };
    let _ = stream.send_data(data, false);
    if end {
        let mut trailers = HeaderMap::new();
        trailers.insert("grpc-status", 0.into());
        let _ = stream.send_trailers(trailers);
    } else {
        // Dropped, the stream would be reset.
        std::mem::forget(stream);
    }
}
