//! Statuses as the gateway reads them. tonic takes a message that is not UTF-8 for another status, and ends the process
//! because of details that are not Base64; neither is a mistake that the suite looks for.

use http::{HeaderMap, HeaderValue, Response};
use http_body::Frame;
use http_body_util::BodyExt as _;
use percent_encoding::{NON_ALPHANUMERIC, percent_decode, utf8_percent_encode};
use tonic::{body::Body, transport::Channel};
use tower::{ServiceExt as _, util::MapResponse};

const MESSAGE: &str = "grpc-message";
const DETAILS: &str = "grpc-status-details-bin";

/// A channel whose statuses can all be read.
pub(super) type Readable = MapResponse<Channel, fn(Response<Body>) -> Response<Body>>;

pub(super) fn readable(channel: Channel) -> Readable {
    channel.map_response(response)
}

fn response(response: Response<Body>) -> Response<Body> {
    let (mut parts, body) = response.into_parts();
    headers(&mut parts.headers);
    let body = body.map_frame(|frame| match frame.into_trailers() {
        Ok(mut trailers) => {
            headers(&mut trailers);
            Frame::trailers(trailers)
        }
        Err(frame) => frame,
    });
    Response::from_parts(parts, Body::new(body))
}

fn headers(headers: &mut HeaderMap) {
    headers.remove(DETAILS);
    let Some(message) = headers.get(MESSAGE) else { return };
    let message = percent_decode(message.as_bytes());
    if message.clone().decode_utf8().is_ok() {
        return;
    }
    let text = utf8_percent_encode(&message.decode_utf8_lossy(), NON_ALPHANUMERIC).to_string();
    // What is percent-encoded is a valid value.
    headers.insert(MESSAGE, HeaderValue::try_from(text).unwrap_or(HeaderValue::from_static("")));
}

#[cfg(test)]
mod tests {
    use tonic::{Code, Status};

    use super::*;

    #[test]
    fn a_message_that_is_not_utf8_keeps_its_code() {
        let mut sent = HeaderMap::new();
        sent.insert("grpc-status", HeaderValue::from_static("3"));
        sent.insert(MESSAGE, HeaderValue::from_bytes(b"args %7b \xff %fe").unwrap());
        sent.insert(DETAILS, HeaderValue::from_static("not base64"));
        headers(&mut sent);
        let status = Status::from_header_map(&sent).unwrap();
        assert_eq!((status.code(), status.message()), (Code::InvalidArgument, "args { \u{fffd} \u{fffd}"));
    }
}
