//! One unary gRPC call on an HTTP/2 connection.
//!
//! The message is sent as the pieces that it was assembled from, without copying them into one buffer, and the
//! answer is read as it arrives: a call cannot afford the message type, codec and request queue of a generic
//! client. Mirrors the gRPC protocol over HTTP/2 (`grpc/grpc` doc/PROTOCOL-HTTP2.md) for calls with one message in
//! each direction and no compression.

mod duplex;
mod status;

use std::{fmt::Write, time::Duration};

use self::status::ok;
pub use self::{duplex::Duplex, status::RpcError};
use bytes::{Buf, Bytes, BytesMut};
use extender_gateway_core::{BackendFailure, FailureKind};
use extender_otlp::{TRACEPARENT, TraceContext};
use h2::{RecvStream, client::SendRequest};
use http::{HeaderName, HeaderValue, Request, Response, StatusCode, Uri, header};

use crate::contract::frame::PREFIX;

/// How long the backend may take, for the backend to know.
const TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// Sends a message and returns the answer. The pieces of the message begin with its prefix; empty ones are skipped.
///
/// # Errors
/// Any failure; [`FailureKind::Late`] on a timeout. A timeout, or dropping the future, resets the stream, so that
/// the backend can stop working.
pub async fn unary(
    connection: &SendRequest<Bytes>,
    path: &Uri,
    pieces: impl IntoIterator<Item = Bytes>,
    limits: Limits,
) -> Result<Bytes, RpcError> {
    traced((connection, path), pieces, limits, None).await
}

/// Like [`unary`], with a trace span that is propagated in the metadata.
pub async fn traced(
    (connection, path): (&SendRequest<Bytes>, &Uri),
    pieces: impl IntoIterator<Item = Bytes>,
    limits: Limits,
    span: Option<&TraceContext>,
) -> Result<Bytes, RpcError> {
    let Limits { within, .. } = limits;
    if let Some(late) = too_late(limits) {
        return Err(late.into());
    }
    let call = exchange(connection, timed(path, limits.within, span), pieces, limits);
    let late =
        || BackendFailure::new(FailureKind::Late, format!("no answer within {} ms", within.as_millis()));
    tokio::time::timeout(within, call).await.unwrap_or_else(|_| Err(late().into()))
}

/// The failure if the time is too short to send anything; `None` if it is not.
pub fn too_late(limits: Limits) -> Option<BackendFailure> {
    let detail = "not called: the call's time budget was used up";
    (limits.within < WORTH_ASKING).then(|| BackendFailure::new(FailureKind::Late, detail))
}

/// The limits of a call.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The timeout for the complete answer.
    pub within: Duration,
    /// The size of the answer, in bytes.
    pub answer: usize,
}

/// A call with less time than this would only time out.
const WORTH_ASKING: Duration = Duration::from_millis(1);

async fn exchange(
    connection: &SendRequest<Bytes>,
    request: Request<()>,
    pieces: impl IntoIterator<Item = Bytes>,
    limits: Limits,
) -> Result<Bytes, RpcError> {
    // Only its check of the connection has an effect: a freshly cloned handle has no stream that waits to be
    // opened.
    let mut connection = connection.clone().ready().await.map_err(|error| broken(&error))?;
    let (response, mut stream) = connection.send_request(request, false).map_err(|error| broken(&error))?;
    let mut pieces = pieces.into_iter().filter(|piece| !piece.is_empty()).peekable();
    while let Some(piece) = pieces.next() {
        let last = pieces.peek().is_none();
        // The backend may refuse the call before everything is sent; the response tells why.
        if stream.send_data(piece, last).is_err() {
            break;
        }
    }
    let response = response.await.map_err(|error| broken(&error))?;
    answer(response, limits.answer).await
}

fn timed(path: &Uri, within: Duration, span: Option<&TraceContext>) -> Request<()> {
    let mut request = request(path);
    request.headers_mut().insert(TIMEOUT, timeout(within));
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
    headers.insert(
        header::USER_AGENT,
        HeaderValue::from_static(concat!("extender-gateway/", env!("CARGO_PKG_VERSION"))),
    );
    request
}

/// A `grpc-timeout`: at most eight digits and a unit.
fn timeout(within: Duration) -> HeaderValue {
    const EIGHT_DIGITS: u128 = 99_999_999;
    let micros = within.as_micros();
    let mut text = String::with_capacity(9);
    // Writing to a `String` does not fail.
    let _ = match micros {
        ..=EIGHT_DIGITS => write!(text, "{micros}u"),
        _ => write!(text, "{}m", within.as_millis().min(EIGHT_DIGITS)),
    };
    HeaderValue::from_str(&text).expect("digits and a letter are a header value")
}

async fn answer(response: Response<RecvStream>, most: usize) -> Result<Bytes, RpcError> {
    let mut body = begun(response)?;
    let framed = read(&mut body, most).await?;
    let trailers = body.trailers().await.map_err(|error| broken(&error))?;
    ok(&trailers.ok_or_else(|| reset("response ended without a gRPC status"))?)?;
    Ok(message(framed)?)
}

/// The body of a response whose headers announce messages.
fn begun(response: Response<RecvStream>) -> Result<RecvStream, RpcError> {
    let (head, body) = response.into_parts();
    if head.status != StatusCode::OK {
        return Err(not_grpc(&format!("HTTP status {}", head.status.as_u16())).into());
    }
    // An error without a message has its status in the headers.
    if status::is_in(&head.headers) {
        ok(&head.headers)?;
    }
    let grpc = |kind: &HeaderValue| {
        // `application/grpc-web` is another protocol.
        let rest = kind.as_bytes().strip_prefix(b"application/grpc");
        rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';')))
    };
    if !head.headers.get(header::CONTENT_TYPE).is_some_and(grpc) {
        return Err(not_grpc("unexpected content type").into());
    }
    Ok(body)
}

async fn read(body: &mut RecvStream, most: usize) -> Result<Bytes, BackendFailure> {
    let mut first = Bytes::new();
    let mut joined = BytesMut::new();
    while let Some(chunk) = body.data().await {
        let chunk = chunk.map_err(|error| broken(&error))?;
        // Fails only for a stream that has ended; its window no longer matters.
        let _ = body.flow_control().release_capacity(chunk.len());
        if first.len() + joined.len() + chunk.len() > most + PREFIX {
            return Err(BackendFailure::new(
                FailureKind::Oversize,
                format!("response is larger than {most} bytes"),
            ));
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
fn message(mut framed: Bytes) -> Result<Bytes, BackendFailure> {
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

fn broken(error: &h2::Error) -> BackendFailure {
    match error.reason() {
        Some(reason) if error.is_reset() => reset(&format!("the stream was reset: {reason}")),
        Some(reason) if error.is_go_away() => reset(&format!("the connection was closed: {reason}")),
        _ => reset("the connection was lost"),
    }
}

fn reset(detail: &str) -> BackendFailure {
    BackendFailure::new(FailureKind::Reset, detail)
}

fn malformed(detail: &str) -> BackendFailure {
    BackendFailure::new(FailureKind::Malformed, detail)
}

fn not_grpc(what: &str) -> BackendFailure {
    BackendFailure::new(
        FailureKind::Malformed,
        format!("not a gRPC response: {what}; does url point to another service?"),
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_timeout_keeps_to_eight_digits() {
        for (within, text) in [
            (Duration::from_millis(200), "200000u"),
            (Duration::from_micros(99_999_999), "99999999u"),
            (Duration::from_secs(100), "100000m"),
            (Duration::from_secs(u64::MAX), "99999999m"),
        ] {
            assert_eq!(timeout(within), text);
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
