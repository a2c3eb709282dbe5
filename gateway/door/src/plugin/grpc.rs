//! gRPC over the HTTP server of all calls (`grpc/grpc` doc/PROTOCOL-HTTP2.md): one message in, one out.

use std::fmt::Write as _;

use bytes::{Buf as _, Bytes};
use extender_gateway_contract::protobuf::PREFIX;
use extender_gateway_record::CallOutcome;
use http::{HeaderMap, HeaderValue, Response, StatusCode, header::CONTENT_TYPE};
use prost::Message;

use super::invalid;
use crate::answer::{CallRefusal, ReplyBody};

const STATUS: &str = "grpc-status";
const MESSAGE: &str = "grpc-message";
/// By it a plugin knows that a gateway has answered, and not something in between.
const OUTCOME: &str = "extender-outcome";

/// The codes of `google.rpc.Code` that are used here.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Code {
    Ok = 0,
    InvalidArgument = 3,
    PermissionDenied = 7,
    ResourceExhausted = 8,
    Unimplemented = 12,
    Internal = 13,
    Unavailable = 14,
}

impl Code {
    /// That of a refusal with this HTTP status.
    fn of(status: StatusCode, outcome: CallOutcome) -> Self {
        match status {
            StatusCode::BAD_REQUEST => Self::InvalidArgument,
            StatusCode::FORBIDDEN => Self::PermissionDenied,
            StatusCode::NOT_FOUND | StatusCode::METHOD_NOT_ALLOWED => Self::Unimplemented,
            StatusCode::PAYLOAD_TOO_LARGE => Self::ResourceExhausted,
            StatusCode::INTERNAL_SERVER_ERROR => Self::Internal,
            _ if outcome == CallOutcome::Overload => Self::ResourceExhausted,
            _ => Self::Unavailable,
        }
    }

    fn value(self) -> HeaderValue {
        HeaderValue::from(self as u16)
    }
}

/// The one message of a request's body.
pub(super) fn message(mut body: Bytes) -> Result<Bytes, CallRefusal> {
    if body.len() < PREFIX {
        return Err(invalid("the request has no gRPC message"));
    }
    let (compressed, length) = (body.get_u8(), body.get_u32());
    if compressed != 0 {
        return Err(invalid("the message is compressed; send it as it is"));
    }
    if length as usize != body.len() {
        return Err(invalid(&format!("the message is to have {length} bytes, and {} came", body.len())));
    }
    Ok(body)
}

pub(super) fn decoded<M: Message + Default>(message: Bytes) -> Result<M, CallRefusal> {
    M::decode(message).map_err(|error| invalid(&format!("cannot decode the request ({error})")))
}

/// A message with its prefix.
pub(super) fn encoded(message: &impl Message) -> Vec<u8> {
    let length = message.encoded_len();
    let mut out = Vec::with_capacity(PREFIX + length);
    out.push(0);
    out.extend_from_slice(&u32::try_from(length).unwrap_or(u32::MAX).to_be_bytes());
    // A `Vec` has room for all of it.
    let _ = message.encode(&mut out);
    out
}

/// The response with this message and its prefix.
pub(super) fn response(message: Vec<u8>) -> Response<ReplyBody> {
    let mut trailers = HeaderMap::with_capacity(1);
    trailers.insert(STATUS, Code::Ok.value());
    with_type(ReplyBody::with_trailers(message.into(), trailers))
}

/// The response without a message.
pub(super) fn refusal(refusal: &CallRefusal) -> Response<ReplyBody> {
    let mut response = with_type(ReplyBody::default());
    let headers = response.headers_mut();
    headers.insert(STATUS, Code::of(refusal.status, refusal.outcome).value());
    headers.insert(OUTCOME, HeaderValue::from_static(refusal.outcome.as_str()));
    if let Ok(text) = HeaderValue::from_str(&percent_encoded(&refusal.text)) {
        headers.insert(MESSAGE, text);
    }
    response
}

fn with_type(body: ReplyBody) -> Response<ReplyBody> {
    let mut response = Response::new(body);
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/grpc"));
    response
}

/// A text as `grpc-message` has it.
fn percent_encoded(text: &str) -> String {
    let mut out = String::with_capacity(text.len());
    for byte in text.bytes() {
        if matches!(byte, b' '..=b'~') && byte != b'%' {
            out.push(byte.into());
        } else {
            // Writing to a `String` does not fail.
            let _ = write!(out, "%{byte:02X}");
        }
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_body_that_is_not_one_message_is_refused() {
        type Expected = Result<&'static [u8], &'static str>;
        let cases: [(&[u8], Expected); 6] = [
            (b"", Err("no gRPC message")),
            (b"\0\0\0\0", Err("no gRPC message")),
            (b"\x01\0\0\0\0", Err("compressed")),
            (b"\0\0\0\0\x02a", Err("2 bytes, and 1 came")),
            (b"\0\0\0\0\x01ab", Err("1 bytes, and 2 came")),
            (b"\0\0\0\0\x01a", Ok(b"a")),
        ];
        for (body, expected) in cases {
            let read = message(Bytes::from_static(body));
            match (read, expected) {
                (Ok(message), Ok(expected)) => assert_eq!(message, expected),
                (Err(refusal), Err(part)) => assert!(refusal.text.contains(part), "{}", refusal.text),
                (read, expected) => panic!("{body:?}: {read:?} {expected:?}"),
            }
        }
    }

    #[test]
    fn a_refusal_has_the_code_of_its_cause() {
        use CallOutcome::{Overload, Repeated};
        for (status, outcome, code) in [
            (400, CallOutcome::Request, Code::InvalidArgument),
            (403, CallOutcome::Browser, Code::PermissionDenied),
            (404, CallOutcome::Path, Code::Unimplemented),
            (413, CallOutcome::TooLarge, Code::ResourceExhausted),
            (500, CallOutcome::Panic, Code::Internal),
            (502, CallOutcome::Backend, Code::Unavailable),
            (503, Repeated, Code::Unavailable),
            (503, Overload, Code::ResourceExhausted),
        ] {
            assert_eq!(
                Code::of(StatusCode::from_u16(status).unwrap(), outcome),
                code,
                "{status} {outcome:?}"
            );
        }
    }

    #[test]
    fn a_text_is_encoded_as_grpc_wants_it() {
        assert_eq!(percent_encoded("rack é, 5 %"), "rack %C3%A9, 5 %25");
    }
}
