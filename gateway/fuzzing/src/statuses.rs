//! Headers and trailers of gRPC responses: one field in each line, `NAME: VALUE`. The first byte selects whether they are
//! a head or trailers, and the HTTP status of a head.

use extender_gateway_core::{BackendFailure, FailureKind};
use extender_gateway_grpc::{RpcError, announces_message, ended_ok};
use http::{HeaderMap, HeaderName, HeaderValue, Response, StatusCode, header::CONTENT_TYPE};

use super::answers::one_line;

/// The longest text of a failure, in bytes.
const LONGEST_FAILURE: usize = 300;

/// Trailers mean OK only if they have one status of zeros; a head announces a message only if it says gRPC.
pub fn status(bytes: &[u8]) {
    let Some((control, lines)) = bytes.split_first() else { return };
    let headers = headers(lines);
    let statuses: Vec<&[u8]> = headers.get_all("grpc-status").iter().map(HeaderValue::as_bytes).collect();
    let is_ok = statuses.len() == 1
        && (1..=10).contains(&statuses[0].len())
        && statuses[0].iter().all(|byte| *byte == b'0');
    match ended_ok(&headers) {
        Ok(()) => assert!(is_ok, "{headers:?}"),
        Err(error) => failed(&error, is_ok, statuses.is_empty()),
    }
    let has_no_error = is_ok || statuses.is_empty();
    head(*control, headers, has_no_error);
}

fn failed(error: &RpcError, is_ok: bool, is_missing: bool) {
    assert!(!is_ok, "{error}");
    let failure: &BackendFailure = &error.failure;
    one_line(&failure.detail, LONGEST_FAILURE);
    assert!(!failure.detail.is_empty());
    assert_eq!(failure.kind == FailureKind::Reset, is_missing, "{failure}");
    assert!(error.status != Some(tonic::Code::Ok));
}

/// A head with these fields, and no status or one that is OK.
fn head(control: u8, headers: HeaderMap, has_no_error: bool) {
    let status = StatusCode::from_u16(200 + u16::from(control & 0x0f) * 27).unwrap_or(StatusCode::OK);
    let says_grpc =
        headers.get(CONTENT_TYPE).is_some_and(|kind| kind.as_bytes().starts_with(b"application/grpc"));
    let (mut head, ()) = Response::new(()).into_parts();
    (head.status, head.headers) = (status, headers);
    match announces_message(&head) {
        Ok(()) => assert!(status == StatusCode::OK && says_grpc && has_no_error, "{head:?}"),
        Err(error) => one_line(&error.failure.detail, LONGEST_FAILURE),
    }
}

/// The fields that HTTP/2 would let through.
fn headers(lines: &[u8]) -> HeaderMap {
    let mut headers = HeaderMap::new();
    for line in lines.split(|byte| *byte == b'\n').take(64) {
        let Some(at) = line.windows(2).position(|pair| pair == b": ") else { continue };
        let name = HeaderName::from_bytes(&line[..at]);
        if let (Ok(name), Ok(value)) = (name, HeaderValue::from_bytes(&line[at + 2..])) {
            headers.append(name, value);
        }
    }
    headers
}
