//! Backends that misuse HTTP/2: what that costs the log, the call thread and the descriptors.

use std::{fs, net::SocketAddr, time::Duration};

use prost::Message;
use tempfile::NamedTempFile;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpSocket, TcpStream},
    sync::mpsc,
    time::timeout,
};

use crate::support::{
    Gateway, TEST_TIMEOUT,
    backend::{framed, info},
    in_full,
    program::{OWN, Starting},
    reading, steady,
};
use extender_gateway_pace::cadences::Cadences;
use extender_policy_api::v1beta1::GetInfoResponse;

const SETTINGS: u8 = 4;
const PING: u8 = 6;
const UNKNOWN: u8 = 0xee;
const ACK: u8 = 1;

fn frame(kind: u8, flags: u8, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags, 0, 0, 0, 0]);
    frame.extend(payload);
    frame
}

fn backend_at(address: SocketAddr, rest: &str) -> String {
    format!("nodes: {{source: Request}}\nbackends:\n- {{name: b, url: 'http://{address}', {rest}}}\n")
}

/// Sends unsolicited PING acknowledgements, then a PING. Returns whether the PING was answered.
async fn acknowledge(stream: &mut TcpStream) -> bool {
    let mut frames = frame(SETTINGS, 0, &[]);
    for _ in 0..9_000 {
        frames.extend(frame(PING, ACK, &[7; 8]));
    }
    frames.extend(frame(PING, 0, b"the last"));
    if stream.write_all(&frames).await.is_err() {
        return false;
    }
    let answer = frame(PING, ACK, b"the last");
    let mut read = Vec::new();
    while stream.read_buf(&mut read).await.is_ok_and(|bytes| bytes > 0) {
        if read.windows(answer.len()).any(|part| part == answer) {
            return true;
        }
    }
    false
}

#[tokio::test]
async fn acknowledgements_of_no_ping_are_not_logged() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let file = NamedTempFile::new().unwrap();
    let backend = backend_at(listener.local_addr().unwrap(), "filter: {}");
    fs::write(file.path(), format!("{OWN}{backend}")).unwrap();
    let starting = Starting::new(file.path()).await;
    // A slow gateway cancels the handshake and connects again.
    let peer = async { while !acknowledge(&mut listener.accept().await.unwrap().0).await {} };
    timeout(TEST_TIMEOUT, peer).await.expect("the frames are read");
    drop(listener);
    let mut program = starting.serving().await;
    program.signal("TERM").await;
    program.child.wait().await.unwrap();
    let lines = program.said("h2::");
    assert!(lines.len() < 10, "{} lines: {:#?}", lines.len(), &lines[..10]);
}

/// A peer that sends this frame repeatedly, up to this many bytes, on its first connection, and nothing on the
/// next. Returns the number of bytes that were accepted.
async fn flooding(frame: Vec<u8>, most: usize) -> (SocketAddr, mpsc::UnboundedReceiver<usize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (report, reports) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        let (mut stream, _) = listener.accept().await.unwrap();
        let mut sent = 0;
        let chunk = frame.repeat((64 << 10) / frame.len());
        stream.write_all(&self::frame(SETTINGS, 0, &[])).await.unwrap();
        while sent < most && stream.write_all(&chunk).await.is_ok() {
            sent += chunk.len();
        }
        report.send(sent).unwrap();
        let mut silent = Vec::new();
        while let Ok((stream, _)) = listener.accept().await {
            silent.push(stream);
        }
    });
    (address, reports)
}

#[tokio::test]
async fn a_backend_that_floods_frames_is_disconnected() {
    for (kind, payload, said) in [
        (UNKNOWN, 16 << 10, "more bytes of HTTP/2 frames other than DATA than its answers need"),
        (UNKNOWN, 0, "more HTTP/2 frames than its answers need"),
        (PING, 8, "more HTTP/2 frames than its answers need"),
    ] {
        let flags = if kind == PING { ACK } else { 0 };
        let (address, mut sent) = flooding(frame(kind, flags, &vec![0; payload]), 50 << 20).await;
        let gateway = Gateway::start(&backend_at(address, "filter: {}")).await;
        let taken = timeout(TEST_TIMEOUT, sent.recv()).await.unwrap().unwrap();
        assert!(taken < 50 << 20, "{kind}: all of it was taken");
        let error = gateway.post("/filter", in_full(&["a"])).await.error();
        assert!(error.contains(said), "{kind}: {error}");
    }
}

/// A peer that answers handshakes until a call arrives, and then reads nothing more, on each connection. Returns the
/// gateway's ends of those that received a call.
fn deaf() -> (SocketAddr, mpsc::UnboundedReceiver<SocketAddr>) {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    // A small buffer, so that writes soon block.
    socket.set_recv_buffer_size(4096).unwrap();
    let listener = socket.listen(16).unwrap();
    let address = listener.local_addr().unwrap();
    let (called, ends) = mpsc::unbounded_channel();
    tokio::spawn(async move {
        while let Ok((stream, end)) = listener.accept().await {
            let called = called.clone();
            tokio::spawn(greet(stream, move || called.send(end).unwrap()));
        }
    });
    (address, ends)
}

async fn greet(stream: TcpStream, called: impl FnOnce()) {
    let mut server = h2::server::Builder::new();
    server.initial_window_size(64 << 20).initial_connection_window_size(64 << 20);
    // A slow gateway gives up and connects again.
    let Ok(mut connection) = server.handshake(stream).await else { return };
    let mut handshakes = 0;
    while let Some(Ok((request, mut respond))) = connection.accept().await {
        if !request.uri().path().ends_with("GetInfo") {
            // The connection is kept and not read.
            called();
            return std::future::pending().await;
        }
        handshakes += 1;
        assert!(handshakes < 1000, "no call came");
        let head = http::Response::builder().header("content-type", "application/grpc").body(()).unwrap();
        let Ok(mut answer) = respond.send_response(head, false) else { continue };
        let info = GetInfoResponse { max_request_bytes: 64 << 20, ..info(reading::json()) };
        let mut trailers = http::HeaderMap::new();
        trailers.insert("grpc-status", 0.into());
        let _ = answer.send_data(framed(&info.encode_to_vec()), false);
        let _ = answer.send_trailers(trailers);
    }
}

/// Whether the kernel has the gateway's end of a connection as established.
fn is_established(end: SocketAddr) -> bool {
    let port = format!(":{:04X}", end.port());
    let sockets = fs::read_to_string("/proc/net/tcp").unwrap();
    sockets.lines().any(|line| {
        let mut fields = line.split_whitespace().skip(1);
        fields.next().is_some_and(|local| local.ends_with(&port)) && fields.nth(1) == Some("01")
    })
}

#[tokio::test]
#[cfg(target_os = "linux")]
async fn a_connection_that_was_given_up_ends_though_the_peer_reads_nothing() {
    let (address, mut ends) = deaf();
    let short = Duration::from_millis(50);
    let cadences = Cadences { handshake: Duration::from_secs(1), refresh: short, ..steady() };
    let gateway = Gateway::start_paced(&backend_at(address, "filter: {timeout: 100ms}"), cadences).await;
    // A few of them exceed what the kernel buffers for a peer that does not read.
    let mut body: serde_json::Value = serde_json::from_str(&in_full(&["a"])).unwrap();
    body["Nodes"]["items"][0]["metadata"]["annotations"]["large"] = "x".repeat(900_000).into();
    let body = body.to_string();
    let ended = async {
        let first = loop {
            gateway.post("/filter", &body).await;
            if let Ok(end) = ends.try_recv() {
                break end;
            }
        };
        while is_established(first) {
            gateway.post("/filter", &body).await;
            tokio::time::sleep(short).await;
        }
    };
    timeout(TEST_TIMEOUT, ended).await.expect("the connection is cut off");
}
