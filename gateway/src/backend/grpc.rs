//! One unary gRPC call over tonic's client (experiment). The message goes through a codec that passes bytes: tonic writes
//! the prefix and copies the pieces behind it, and the answer is the message's bytes.

mod codec;
mod duplex;
mod status;

use std::{fmt::Write, time::Duration};

use self::{
    codec::Passing,
    status::{content_type, from_status, ok},
};
pub use self::{duplex::Duplex, status::RpcError};
use bytes::Bytes;
use extender_gateway_core::{BackendFailure, FailureKind};
use extender_otlp::{TRACEPARENT, TraceContext};
use http::{HeaderMap, HeaderName, HeaderValue, Uri, uri::PathAndQuery};
use tonic::{Extensions, client::Grpc, metadata::MetadataMap, transport::Channel};

use crate::contract::protobuf::malformed;

/// The timeout of a call, for the backend.
const TIMEOUT: HeaderName = HeaderName::from_static("grpc-timeout");

/// The limits of a call.
#[derive(Debug, Clone, Copy)]
pub struct Limits {
    /// The timeout for the complete answer.
    pub timeout: Duration,
    /// The size of the answer, in bytes.
    pub answer: usize,
}

/// Sends a message and returns the answer. The pieces of the message begin with its prefix.
/// The span is propagated in the metadata.
///
/// # Errors
/// Any failure; [`FailureKind::Late`] on a timeout. A timeout, or dropping the future, resets the stream, so that
/// the backend can stop working.
pub async fn unary<P: AsRef<[Bytes]> + Send + Sync + 'static>(
    (connection, path): (&Channel, &Uri),
    pieces: P,
    limits: Limits,
    span: Option<&TraceContext>,
) -> Result<Bytes, RpcError> {
    let Limits { timeout, answer } = limits;
    let call = exchange(connection, path, timed(pieces, timeout, span), answer);
    // tonic's own timeout, from the metadata, ends with the headers of the response.
    tokio::time::timeout(timeout, call).await.unwrap_or_else(|_| Err(None)).map_err(|error| {
        let late =
            || BackendFailure::new(FailureKind::Late, format!("no answer within {} ms", timeout.as_millis()));
        error.unwrap_or_else(|| late().into())
    })
}

/// An error is `None` if the call timed out.
async fn exchange<P: AsRef<[Bytes]> + Send + Sync + 'static>(
    connection: &Channel,
    path: &Uri,
    request: tonic::Request<P>,
    largest_answer: usize,
) -> Result<Bytes, Option<RpcError>> {
    let mut client = client(connection, largest_answer);
    client.ready().await.map_err(|_| Some(lost().into()))?;
    let codec = Passing::once(request.get_ref());
    let answer = client.unary(request, path_of(path), codec).await;
    let answer = answer.map_err(|status| from_status(&status, largest_answer))?;
    let headers: &HeaderMap = answer.metadata().as_ref();
    // tonic accepts a status if the first field of several is OK, and any type of content.
    ok(headers)?;
    content_type(headers).map_err(RpcError::from)?;
    Ok(answer.into_inner())
}

fn client(connection: &Channel, largest_answer: usize) -> Grpc<Channel> {
    Grpc::new(connection.clone()).max_decoding_message_size(largest_answer)
}

fn path_of(uri: &Uri) -> PathAndQuery {
    uri.path_and_query().expect("the URIs of methods have a path").clone()
}

fn timed<P>(pieces: P, timeout: Duration, span: Option<&TraceContext>) -> tonic::Request<P> {
    // With those that tonic adds.
    let mut headers = HeaderMap::with_capacity(5);
    headers.insert(TIMEOUT, timeout_header(timeout));
    if let Some(span) = span {
        let mut traceparent = span.header();
        // Different for each call: in the header table it would only evict other fields.
        traceparent.set_sensitive(true);
        headers.insert(TRACEPARENT, traceparent);
    }
    tonic::Request::from_parts(MetadataMap::from_headers(headers), Extensions::default(), pieces)
}

/// A `grpc-timeout`: at most eight digits and a unit.
fn timeout_header(timeout: Duration) -> HeaderValue {
    const EIGHT_DIGITS: u128 = 99_999_999;
    let micros = timeout.as_micros();
    let mut text = String::with_capacity(9);
    // Writing to a `String` does not fail.
    let _ = match micros {
        ..=EIGHT_DIGITS => write!(text, "{micros}u"),
        _ => write!(text, "{}m", timeout.as_millis().min(EIGHT_DIGITS)),
    };
    HeaderValue::from_str(&text).expect("digits and a letter are a header value")
}

fn reset(detail: &str) -> BackendFailure {
    BackendFailure::new(FailureKind::Reset, detail)
}

fn lost() -> BackendFailure {
    reset("the connection was lost")
}

fn not_grpc(what: &str) -> BackendFailure {
    malformed(format!("not a gRPC response: {what}; does url point to another service?"))
}

#[cfg(test)]
mod tests {
    use super::*;

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
}
