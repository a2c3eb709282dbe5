//! Connections to policy backends, and gRPC calls on them.
//!
//! [`unary`] is one call on an HTTP/2 connection (`grpc/grpc` doc/PROTOCOL-HTTP2.md), without compression. The message
//! is sent as the pieces that it was assembled from, without copying them into one buffer, and the answer is read as
//! it arrives: a call cannot afford the message type, codec and request queue of a generic client.

pub mod connect;
mod duplex;
mod frame_budget;
mod status;

use std::{io::Write, time::Duration};

use self::status::STATUS;
pub use self::status::ended_ok;
pub use self::{
    duplex::Duplex,
    status::{FailureScope, Processed, RpcError},
};
use bytes::{Buf, Bytes, BytesMut};
use extender_gateway_contract::protobuf::{PREFIX, malformed, put_prefix};
use extender_gateway_core::{BackendFailure, FailureKind};
use extender_otlp::{TRACEPARENT, TraceContext};
use h2::{RecvStream, client::SendRequest};
use http::{HeaderName, HeaderValue, Request, Response, StatusCode, Uri, header, response};
use prost::Message;
use tokio::time::Instant;
use tonic::Code;

/// The timeout of a call, for the backend.
const TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// The part of the timeout after which a backend's `DEADLINE_EXCEEDED` or `CANCELLED` is about this timeout.
const NEARLY: f64 = 0.9;

/// The limits of a call.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The timeout for the complete answer.
    pub timeout: Duration,
    /// The size of the answer, in bytes.
    pub answer: usize,
}

/// Sends a message and returns the answer. The pieces of the message begin with its prefix; empty ones are skipped.
/// The span is propagated in the metadata.
///
/// # Errors
/// Any failure; [`FailureKind::Late`] on a timeout. A timeout, or dropping the future, resets the stream, so that
/// the backend can stop working.
pub async fn unary(
    connection: &SendRequest<Bytes>,
    path: &Uri,
    pieces: impl IntoIterator<Item = Bytes>,
    limits: Limits,
    span: Option<&TraceContext>,
) -> Result<Bytes, RpcError> {
    let Limits { timeout, answer } = limits;
    let call = exchange(connection, timed(path, timeout, span), pieces, answer);
    let began = Instant::now();
    match tokio::time::timeout(timeout, call).await {
        Ok(answer) => answer.map_err(|error| with_one_text(error, began.elapsed(), timeout)),
        Err(_) => Err(late(timeout).into()),
    }
}

/// As [`unary`] with a small message, and without a span.
///
/// # Errors
/// As those of [`unary`].
pub async fn ask(
    connection: &SendRequest<Bytes>,
    path: &Uri,
    message: &impl Message,
    limits: Limits,
) -> Result<Bytes, RpcError> {
    unary(connection, path, [framed(message)?], limits, None).await
}

/// A message with its prefix.
///
/// # Errors
/// It is longer than a prefix can say.
pub fn framed(message: &impl Message) -> Result<Bytes, BackendFailure> {
    let mut framed = Vec::new();
    put_prefix(message.encoded_len(), &mut framed)?;
    message.encode_raw(&mut framed);
    Ok(framed.into())
}

/// No answer came within this time.
pub fn late(timeout: Duration) -> BackendFailure {
    BackendFailure::new(FailureKind::Late, format!("no answer within {} ms", timeout.as_millis()))
}

/// The failure of a call after this time. The backend was told the timeout, and may have noticed its end first: with one
/// text for both, a pod's condition stays the same. Servers of Go then cancel the stream, those of Rust send `CANCELLED`.
fn with_one_text(error: RpcError, after: Duration, timeout: Duration) -> RpcError {
    match error.status {
        Some(Code::DeadlineExceeded | Code::Cancelled) if after >= timeout.mul_f64(NEARLY) => {
            RpcError { failure: late(timeout), ..error }
        }
        _ => error,
    }
}

async fn exchange(
    connection: &SendRequest<Bytes>,
    request: Request<()>,
    pieces: impl IntoIterator<Item = Bytes>,
    largest_answer: usize,
) -> Result<Bytes, RpcError> {
    // Only its check of the connection has an effect: a freshly cloned handle has no stream that waits to be
    // opened.
    let mut connection = connection.clone().ready().await.map_err(RpcError::not_sent)?;
    let sent = connection.send_request(request, false);
    let (response, mut stream) = sent.map_err(RpcError::not_sent)?;
    let mut pieces = pieces.into_iter().filter(|piece| !piece.is_empty()).peekable();
    while let Some(piece) = pieces.next() {
        let last = pieces.peek().is_none();
        // The backend may refuse the call before everything is sent; the response tells why.
        if stream.send_data(piece, last).is_err() {
            break;
        }
    }
    let mut body = message_body(response.await?)?;
    let framed = read(&mut body, largest_answer).await?;
    ended_ok(&body.trailers().await?.unwrap_or_default())?;
    Ok(message(framed)?)
}

fn timed(path: &Uri, timeout: Duration, span: Option<&TraceContext>) -> Request<()> {
    let mut request = request(path);
    request.headers_mut().insert(TIMEOUT, timeout_header(timeout));
    if let Some(span) = span {
        let mut traceparent = span.header();
        // Different for each call: in the header table it would only evict other fields.
        traceparent.set_sensitive(true);
        request.headers_mut().insert(TRACEPARENT, traceparent);
    }
    request
}

fn request(path: &Uri) -> Request<()> {
    let mut request = Request::new(());
    *request.method_mut() = http::Method::POST;
    *request.uri_mut() = path.clone();
    let headers = request.headers_mut();
    headers.insert(header::TE, HeaderValue::from_static("trailers"));
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    let agent = HeaderValue::from_static(concat!("extender-gateway/", env!("CARGO_PKG_VERSION")));
    headers.insert(header::USER_AGENT, agent);
    request
}

/// A `grpc-timeout`: at most eight digits and a unit.
fn timeout_header(timeout: Duration) -> HeaderValue {
    const EIGHT_DIGITS: u128 = 99_999_999;
    let micros = timeout.as_micros();
    let mut text = [0; 9];
    let mut free = text.as_mut_slice();
    // There is room for it.
    let _ = match micros {
        ..=EIGHT_DIGITS => write!(free, "{micros}u"),
        _ => write!(free, "{}m", timeout.as_millis().min(EIGHT_DIGITS)),
    };
    let len = 9 - free.len();
    HeaderValue::from_bytes(&text[..len]).expect("digits and a letter are a header value")
}

/// The body of a response whose headers announce messages.
fn message_body(response: Response<RecvStream>) -> Result<RecvStream, RpcError> {
    let (head, body) = response.into_parts();
    announces_message(&head).map(|()| body)
}

/// Checks the head of a response.
///
/// # Errors
/// It is not gRPC, or ends the call.
pub fn announces_message(head: &response::Parts) -> Result<(), RpcError> {
    if head.status != StatusCode::OK {
        // Mirrors doc/http-grpc-status-mapping.md of gRPC for the only one that is told apart: servers and proxies that choose
        // by path answer so.
        let status = (head.status == StatusCode::NOT_FOUND).then_some(Code::Unimplemented);
        let failure = not_grpc(&format!("HTTP status {}", head.status.as_u16()));
        return Err(RpcError { status, ..failure.into() });
    }
    // An error without a message has its status in the headers.
    if head.headers.contains_key(STATUS) {
        ended_ok(&head.headers)?;
    }
    let grpc = |kind: &HeaderValue| {
        // `application/grpc-web` is another protocol.
        let rest = kind.as_bytes().strip_prefix(b"application/grpc");
        rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';')))
    };
    if !head.headers.get(header::CONTENT_TYPE).is_some_and(grpc) {
        return Err(not_grpc("unexpected content type").into());
    }
    Ok(())
}

async fn read(body: &mut RecvStream, most: usize) -> Result<Bytes, RpcError> {
    let mut first = Bytes::new();
    let mut joined = BytesMut::new();
    while let Some(chunk) = body.data().await {
        let chunk = chunk?;
        // Fails only for a stream that has ended; its window no longer matters.
        let _ = body.flow_control().release_capacity(chunk.len());
        if first.len() + joined.len() + chunk.len() > most + PREFIX {
            let detail = format!("response is larger than {most} bytes");
            return Err(BackendFailure::new(FailureKind::Oversize, detail).into());
        }
        if first.is_empty() && joined.is_empty() {
            first = chunk;
        } else {
            joined.extend_from_slice(&std::mem::take(&mut first));
            joined.extend_from_slice(&chunk);
        }
    }
    Ok(if joined.is_empty() { first } else { joined.freeze() })
}

/// The only message of an answer.
///
/// # Errors
/// There is none, more than one, or one that is compressed or truncated.
pub fn message(mut framed: Bytes) -> Result<Bytes, BackendFailure> {
    if framed.len() < PREFIX {
        return Err(malformed("response contains no message"));
    }
    let (compressed, len) = (framed.get_u8(), framed.get_u32() as usize);
    match (compressed, framed.len()) {
        (0, here) if here == len => Ok(framed),
        (0, here) if here > len => Err(malformed("response contains more than one message")),
        (0, _) => Err(malformed("message is truncated")),
        _ => Err(malformed("message is compressed, which the gateway does not support")),
    }
}

fn reset(detail: &str) -> BackendFailure {
    BackendFailure::new(FailureKind::Reset, detail)
}

/// What answered is no gRPC server.
pub fn not_grpc(what: &str) -> BackendFailure {
    malformed(format!("not a gRPC response: {what}; does url point to another service?"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_has_one_text_whoever_noticed_it() {
        let said = |status, after| {
            let failure = BackendFailure::new(FailureKind::Late, "DEADLINE_EXCEEDED: Deadline Exceeded");
            let error = RpcError { status: Some(status), ..failure.into() };
            with_one_text(error, Duration::from_millis(after), Duration::from_millis(200)).failure.detail
        };
        for after in [180, 199, 250] {
            assert_eq!(said(Code::DeadlineExceeded, after), "no answer within 200 ms");
            assert_eq!(said(Code::Cancelled, after), "no answer within 200 ms");
        }
        let own = "DEADLINE_EXCEEDED: Deadline Exceeded";
        assert_eq!(said(Code::DeadlineExceeded, 179), own, "another deadline, of a database perhaps");
        assert_eq!(said(Code::Unavailable, 200), own);
    }

    /// A backend of an older package, behind a server that chooses by path, is asked for that package then.
    #[test]
    fn of_http_statuses_not_found_alone_means_unimplemented() {
        for (http, status) in [(404, Some(Code::Unimplemented)), (403, None), (502, None), (503, None)] {
            let (head, ()) = Response::builder().status(http).body(()).unwrap().into_parts();
            let error = announces_message(&head).unwrap_err();
            assert_eq!((error.status, error.failure.kind), (status, FailureKind::Malformed), "{http}");
            assert_eq!(error.is_unimplemented(), http == 404);
        }
    }

    #[test]
    fn a_timeout_keeps_to_eight_digits() {
        for (duration, text) in [
            (Duration::from_millis(200), "200000u"),
            (Duration::from_micros(99_999_999), "99999999u"),
            (Duration::from_secs(100), "100000m"),
            (Duration::from_secs(u64::MAX), "99999999m"),
        ] {
            assert_eq!(timeout_header(duration), text);
        }
    }

    #[test]
    fn an_answer_is_one_plain_message() {
        for (framed, expected) in [
            (&[0, 0, 0, 0, 2, 7, 8][..], Ok(&[7, 8][..])),
            (&[0, 0, 0, 0, 0], Ok(&[])),
            (&[], Err("response contains no message")),
            (&[0, 0, 0, 0, 2, 7], Err("message is truncated")),
            (&[0, 0, 0, 0, 1, 7, 8], Err("response contains more than one message")),
            (&[1, 0, 0, 0, 1, 7], Err("message is compressed, which the gateway does not support")),
        ] {
            let read = message(Bytes::copy_from_slice(framed));
            assert_eq!(read.as_deref().map_err(|failure| failure.detail.as_str()), expected);
        }
    }
}
