//! Requests and frames that no honest caller sends: what they are answered, and that others are served meanwhile.

use std::sync::Arc;

use rustls::ClientConfig;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};
use tokio_rustls::client::TlsStream;

use crate::support::{
    Gateway,
    backend::{Scripted, configured},
    by_name, ended,
    secured::{HTTP_2, Secured, open},
};

async fn gateway() -> (Gateway, Scripted) {
    let backend = Scripted::refusing(&["a"], "no", 0).await;
    let only = configured("only", &backend, "filter: {timeout: 60s}");
    (Gateway::start(&format!("nodes: {{source: Request}}\nbackends:\n{only}")).await, backend)
}

async fn is_served(gateway: &Gateway) {
    let answer = gateway.post("/filter", by_name(&["a", "b"])).await;
    assert_eq!(answer.json()["NodeNames"], json!(["b"]), "{answer:?}");
}

/// A last request, after which the gateway closes. Its response is that to a path without a verb.
const LAST: &[u8] = b"GET /last HTTP/1.1\r\nHost: gateway\r\nConnection: close\r\n\r\n";

/// The statuses of all responses to these bytes.
async fn statuses(gateway: &Gateway, bytes: &[u8]) -> Vec<String> {
    let mut stream = TcpStream::connect(gateway.address).await.unwrap();
    // It may close while this is being written.
    let _ = stream.write_all(bytes).await;
    if !bytes.ends_with(LAST) {
        let _ = stream.shutdown().await;
    }
    let mut text = Vec::new();
    let read = async { while stream.read_buf(&mut text).await.is_ok_and(|read| read > 0) {} };
    ended("the connection is not closed", read).await;
    let text = String::from_utf8_lossy(&text).into_owned();
    let lines = text.split("HTTP/1.").skip(1).map(|response| response.chars().skip(2).take(3).collect());
    lines.collect()
}

/// A request with these lines of the head, and this body.
fn request(lines: &str, body: &str) -> Vec<u8> {
    format!("{lines}\r\n\r\n{body}").into_bytes()
}

#[tokio::test]
async fn forms_of_requests_that_could_be_read_in_two_ways_are_refused() {
    let (gateway, backend) = gateway().await;
    let body = by_name(&["a", "b"]);
    let length = body.len();
    let post = "POST /filter HTTP/1.1\r\nHost: gateway";
    let chunked = format!("{length:x}\r\n{body}\r\n0\r\n\r\n");
    for (form, bytes, expected) in [
        ("as it should be", request(&format!("{post}\r\nContent-Length: {length}"), &body), &["200"][..]),
        ("chunks", request(&format!("{post}\r\nTransfer-Encoding: chunked"), &chunked), &["200"]),
        (
            "two requests at once",
            request(&format!("{post}\r\nContent-Length: {length}"), &body).repeat(2),
            &["200", "200"],
        ),
        (
            "an absolute URL",
            request(
                &format!("POST http://other/filter HTTP/1.1\r\nHost: gateway\r\nContent-Length: {length}"),
                &body,
            ),
            &["200"],
        ),
        ("no host", request(&format!("POST /filter HTTP/1.1\r\nContent-Length: {length}"), &body), &["200"]),
        (
            "two lengths",
            request(&format!("{post}\r\nContent-Length: {length}\r\nContent-Length: 1"), &body),
            &["400"],
        ),
        ("a list of lengths", request(&format!("{post}\r\nContent-Length: 1, {length}"), &body), &["400"]),
        ("a signed length", request(&format!("{post}\r\nContent-Length: +{length}"), &body), &["400"]),
        ("a negative length", request(&format!("{post}\r\nContent-Length: -1"), &body), &["400"]),
        ("a length of another base", request(&format!("{post}\r\nContent-Length: 0x10"), &body), &["400"]),
        ("a space in a name", request(&format!("{post}\r\nContent-Length : {length}"), &body), &["400"]),
        (
            "a folded line",
            request(&format!("{post}\r\nX: a\r\n b\r\nContent-Length: {length}"), &body),
            &["400"],
        ),
        ("a NUL", request(&format!("{post}\r\nX: a\0b\r\nContent-Length: {length}"), &body), &["400"]),
        ("another coding", request(&format!("{post}\r\nTransfer-Encoding: identity"), &body), &["400"]),
        (
            "a coding after chunks",
            request(&format!("{post}\r\nTransfer-Encoding: chunked, gzip"), &chunked),
            &["400"],
        ),
        ("a version to come", request("POST /filter HTTP/3.0\r\nHost: gateway", ""), &["400"]),
        ("HTTP/2 without TLS", b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec(), &[]),
        (
            "a head that is too large",
            request(&format!("{post}\r\nX: {}", "x".repeat(20 << 10)), ""),
            &["431"],
        ),
        ("too many lines", request(&format!("{post}{}", "\r\nX: x".repeat(200)), ""), &["431"]),
        ("no request", b"\x16\x03\x01\x00\x05hello".to_vec(), &["400"]),
    ] {
        let answered = statuses(&gateway, &[&*bytes, LAST].concat()).await;
        let last: &[&str] = if expected.first() == Some(&"200") { &["404"] } else { &[] };
        assert_eq!(answered, [expected, last].concat(), "{form}");
    }
    assert_eq!(backend.asked("Filter").len(), 6, "a request that was refused was decided");
    is_served(&gateway).await;
}

#[tokio::test]
async fn what_follows_a_request_with_a_length_and_chunks_is_no_other_request() {
    let (gateway, _backend) = gateway().await;
    let both = "POST /filter HTTP/1.1\r\nHost: gateway\r\nContent-Length: 5\r\nTransfer-Encoding: chunked";
    let smuggled =
        request(both, "0\r\n\r\nPOST /prioritize HTTP/1.1\r\nHost: x\r\nContent-Length: 0\r\n\r\n");
    let answered = statuses(&gateway, &[&*smuggled, LAST].concat()).await;
    assert!(answered.len() <= 1, "{answered:?}");
    is_served(&gateway).await;
}

#[tokio::test]
async fn requests_that_break_off_cost_nothing_but_their_connection() {
    let (gateway, _backend) = gateway().await;
    let whole = request("POST /filter HTTP/1.1\r\nHost: gateway\r\nContent-Length: 500", &"x".repeat(500));
    for cut in (1..whole.len()).step_by(37) {
        let answered = statuses(&gateway, &whole[..cut]).await;
        assert!(answered.len() <= 1, "{cut}: {answered:?}");
    }
    for chunk in ["ffffffffffffffff1\r\n", "-1\r\n", "5;\r\n", "zz\r\n", "5\r\nab\r\n"] {
        let head = "POST /filter HTTP/1.1\r\nHost: gateway\r\nTransfer-Encoding: chunked";
        let answered = statuses(&gateway, &request(head, chunk)).await;
        assert!(answered.len() <= 1, "{chunk}: {answered:?}");
    }
    is_served(&gateway).await;
}

const HEADERS: u8 = 1;
const RST_STREAM: u8 = 3;
const SETTINGS: u8 = 4;
const PING: u8 = 6;
const WINDOW_UPDATE: u8 = 8;
const CONTINUATION: u8 = 9;
const END_HEADERS: u8 = 4;

pub(crate) fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let length = u32::try_from(payload.len()).unwrap().to_be_bytes();
    let mut frame = length[1..].to_vec();
    frame.extend([kind, flags]);
    frame.extend(stream.to_be_bytes());
    frame.extend(payload);
    frame
}

/// A POST to /filter, as a block of HPACK.
fn block() -> Vec<u8> {
    // :method POST and :scheme https of the static table; :path and :authority as literals.
    let mut block = vec![0x83, 0x87, 0x04, 7];
    block.extend(b"/filter");
    block.extend([0x01, 7]);
    block.extend(b"gateway");
    block
}

/// A connection of HTTP/2 that has begun.
async fn begun(secured: &Secured, client: &Arc<ClientConfig>) -> TlsStream<TcpStream> {
    let mut stream = open(secured.gateway.address, client).await.unwrap();
    let mut begin = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    begin.extend(frame(SETTINGS, 0, 0, &[]));
    stream.write_all(&begin).await.unwrap();
    stream
}

/// Sends frames, and reads until the gateway closes. Returns whether it did, and did not only stop reading.
async fn is_closed_for(
    stream: TlsStream<TcpStream>,
    frames: impl Iterator<Item = Vec<u8>> + Send + 'static,
) -> bool {
    let (mut reader, mut writer) = tokio::io::split(stream);
    let writing = tokio::spawn(async move {
        for frame in frames {
            if writer.write_all(&frame).await.is_err() {
                return;
            }
        }
        // As a caller that has finished.
        let _ = writer.shutdown().await;
    });
    let mut buffer = vec![0; 16 << 10];
    let mut last = Vec::new();
    let closed = async {
        while let Ok(read) = reader.read(&mut buffer).await {
            if read == 0 {
                break;
            }
            last.extend_from_slice(&buffer[..read]);
        }
    };
    ended("the connection is not closed", closed).await;
    writing.abort();
    // The type of the last frames, GOAWAY, with another error than NO_ERROR.
    last.windows(9).any(|head| head[3] == 7 && head[..3] != [0; 3])
}

#[tokio::test]
async fn floods_of_http_2_end_their_connection_and_delay_nobody() {
    let secured = Secured::start("").await;
    let (client, http_1) = (secured.client(None, HTTP_2), secured.client(None, &["http/1.1"]));
    let ids = || (0..100_000_u32).map(|number| number * 2 + 1);
    let reset = |id: u32| {
        let mut frames = frame(HEADERS, END_HEADERS, id, &block());
        frames.extend(frame(RST_STREAM, 0, id, &8_u32.to_be_bytes()));
        frames
    };
    let never_ends = |number: u32| {
        if number == 0 {
            frame(HEADERS, 0, 1, &block())
        } else {
            frame(CONTINUATION, 0, 1, &[0x00, 1, b'x', 1, b'y'].repeat(1_000))
        }
    };
    let rapid_reset = is_closed_for(begun(&secured, &client).await, ids().map(reset)).await;
    assert!(rapid_reset, "streams are opened and reset without end");
    let continuation = is_closed_for(begun(&secured, &client).await, (0..100_000).map(never_ends)).await;
    assert!(continuation, "a head that does not end");
    // Cheap frames are answered, and the connection is closed by the caller.
    for cheap in [
        frame(SETTINGS, 0, 0, &[]),
        frame(PING, 0, 0, &[7; 8]),
        frame(WINDOW_UPDATE, 0, 0, &1_u32.to_be_bytes()),
    ] {
        let frames = (0..10_000).map(move |_| cheap.clone());
        is_closed_for(begun(&secured, &client).await, frames).await;
    }
    // Frames that belong nowhere.
    for wrong in [
        frame(HEADERS, END_HEADERS, 2, &block()),
        frame(CONTINUATION, END_HEADERS, 1, &block()),
        frame(WINDOW_UPDATE, 0, 0, &0_u32.to_be_bytes()),
        frame(PING, 0, 1, &[7; 8]),
        frame(SETTINGS, 0, 0, &[1]),
        frame(HEADERS, END_HEADERS, 1, &[0xff; 64]),
    ] {
        let text = format!("{wrong:?}");
        assert!(is_closed_for(begun(&secured, &client).await, [wrong].into_iter()).await, "{text}");
    }
    let answer = secured.filter(&http_1).await.unwrap();
    assert_eq!(answer["NodeNames"], json!(["b"]));
}
