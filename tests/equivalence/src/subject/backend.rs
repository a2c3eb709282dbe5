//! gRPC servers that act as the backends of one case after the other.

use std::{
    net::SocketAddr,
    sync::{Arc, RwLock, RwLockWriteGuard},
};

use bytes::{BufMut, Bytes, BytesMut};
use extender_policy_api::v1beta1::GetInfoRequest;
use h2::{RecvStream, server::SendResponse};
use http::{HeaderMap, Request, Response};
use prost::Message;
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use super::script::{Reply, Script, Verb};
use crate::case::Reach;

/// How many backends a case may have.
const SERVERS: usize = 8;

/// The flags and the length in front of a message.
const PREFIX: usize = 5;

/// The backend that a server acts as.
type Stage = Arc<RwLock<Option<Arc<Script>>>>;

/// The servers, each on a port of its own.
pub(super) struct Servers {
    stages: Vec<(SocketAddr, Stage)>,
    /// Holds a port without a listener.
    vacant: TcpSocket,
}

impl Servers {
    pub(super) async fn start() -> Self {
        let vacant = TcpSocket::new_v4().expect("sockets can be made");
        vacant.bind(SocketAddr::from(([127, 0, 0, 1], 0))).expect("there is a free port");
        let mut stages = Vec::new();
        for _ in 0..SERVERS {
            let listener = TcpListener::bind("127.0.0.1:0").await.expect("there is a free port");
            let address = listener.local_addr().expect("it is bound");
            let stage = Stage::default();
            tokio::spawn(serve(listener, Arc::clone(&stage)));
            stages.push((address, stage));
        }
        Self { stages, vacant }
    }

    /// Acts as these backends from now on; returns their addresses.
    pub(super) fn play(&self, scripts: &[Arc<Script>]) -> Vec<SocketAddr> {
        let vacant = self.vacant.local_addr().expect("it is bound");
        let play = |(script, (address, stage)): (&Arc<Script>, &(SocketAddr, Stage))| {
            *write(stage) = Some(Arc::clone(script));
            match script.backend.reach {
                Reach::Alive => *address,
                Reach::Dead => vacant,
            }
        };
        scripts.iter().zip(&self.stages).map(play).collect()
    }
}

fn write(stage: &Stage) -> RwLockWriteGuard<'_, Option<Arc<Script>>> {
    stage.write().expect("no thread panics while it holds the lock")
}

async fn serve(listener: TcpListener, stage: Stage) {
    while let Ok((stream, _)) = listener.accept().await {
        tokio::spawn(connection(stream, Arc::clone(&stage)));
    }
}

async fn connection(stream: TcpStream, stage: Stage) {
    // The gateway closes what it no longer needs: errors are ignored.
    let _ = stream.set_nodelay(true);
    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
    while let Some(Ok((request, respond))) = connection.accept().await {
        tokio::spawn(call(request, respond, Arc::clone(&stage)));
    }
}

async fn call(request: Request<RecvStream>, mut respond: SendResponse<Bytes>, stage: Stage) {
    let (head, mut body) = request.into_parts();
    if head.uri.path().ends_with("/SyncNodes") {
        let script = stage.read().expect("no thread panics while it holds the lock").clone();
        if let Some(script) = script {
            hold(&script, body, respond).await;
        }
        return;
    }
    let mut framed = BytesMut::new();
    while let Some(Ok(chunk)) = body.data().await {
        let _ = body.flow_control().release_capacity(chunk.len());
        framed.extend_from_slice(&chunk);
    }
    if framed.len() < PREFIX {
        return;
    }
    let message = framed.freeze().slice(PREFIX..);
    let script = stage.read().expect("no thread panics while it holds the lock").clone();
    if let Some(script) = &script {
        script.wait(head.uri.path().rsplit('/').next().unwrap_or_default(), &message).await;
    }
    let reply = script.map_or(Reply::Status(14, "no script"), |script| {
        reply(&script, head.uri.path().rsplit('/').next().unwrap_or_default(), message)
    });
    match reply {
        Reply::Message(message) => send(&mut respond, &message),
        Reply::Status(code, text) => status(&mut respond, (code, text)),
        Reply::Reset => respond.send_reset(h2::Reason::INTERNAL_ERROR),
        Reply::Nothing => drop(std::future::poll_fn(|context| respond.poll_reset(context)).await),
    }
}

/// Takes the messages of a stream of nodes, and acknowledges each.
async fn hold(script: &Script, mut body: RecvStream, mut respond: SendResponse<Bytes>) {
    let head = Response::builder().header("content-type", "application/grpc").body(()).expect("it is valid");
    let Ok(mut answers) = respond.send_response(head, false) else { return };
    let mut framed = BytesMut::new();
    while let Some(Ok(chunk)) = body.data().await {
        let _ = body.flow_control().release_capacity(chunk.len());
        framed.extend_from_slice(&chunk);
        while let Some(message) = next(&mut framed) {
            let Some(answer) = script.take_nodes(message) else { return };
            let _ = answers.send_data(framed_message(&answer), false);
        }
    }
}

/// The next whole message of a stream.
fn next(framed: &mut BytesMut) -> Option<Bytes> {
    let length = framed.get(1..PREFIX)?.try_into().map(u32::from_be_bytes).ok()?;
    let end = PREFIX + usize::try_from(length).ok()?;
    (framed.len() >= end).then(|| framed.split_to(end).freeze().slice(PREFIX..))
}

fn reply(script: &Script, verb: &str, message: Bytes) -> Reply {
    match verb {
        "Filter" => script.answer(Verb::Filter, message),
        "Score" => script.answer(Verb::Score, message),
        "Preempt" => script.answer(Verb::Preempt, message),
        // A connection of the previous case may still send a handshake.
        _ => match GetInfoRequest::decode(message) {
            Ok(request) if script.is_meant(&request.args) => {
                Reply::Message(script.introduction().encode_to_vec())
            }
            _ => Reply::Status(14, "another backend is being played"),
        },
    }
}

fn framed_message(message: &[u8]) -> Bytes {
    let mut framed = BytesMut::with_capacity(PREFIX + message.len());
    framed.put_u8(0);
    framed.put_u32(u32::try_from(message.len()).expect("messages are small"));
    framed.extend_from_slice(message);
    framed.freeze()
}

fn send(respond: &mut SendResponse<Bytes>, message: &[u8]) {
    let head = Response::builder().header("content-type", "application/grpc").body(()).expect("it is valid");
    let mut trailers = HeaderMap::new();
    trailers.insert("grpc-status", 0.into());
    // The caller may be gone.
    if let Ok(mut stream) = respond.send_response(head, false) {
        let _ = stream.send_data(framed_message(message), false);
        let _ = stream.send_trailers(trailers);
    }
}

fn status(respond: &mut SendResponse<Bytes>, (code, text): (u16, &str)) {
    let head = Response::builder()
        .header("content-type", "application/grpc")
        .header("grpc-status", code)
        .header("grpc-message", text);
    let _ = respond.send_response(head.body(()).expect("it is valid"), true);
}
