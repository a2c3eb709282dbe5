//! A connection to the backend. Messages are passed as bytes, so that a case can send what no gateway would.

mod readable;

use std::{error::Error as _, time::Duration};

use bytes::{Buf as _, BufMut as _, Bytes, BytesMut};
use conformance_report::printable;
use extender_policy_api::limits;
use extender_policy_api::v1beta1::{
    self as api, hook_service_server::SERVICE_NAME as HOOK_SERVICE, policy_service_server::SERVICE_NAME,
};
use http::{HeaderName, HeaderValue, header::CONTENT_TYPE, uri::PathAndQuery};
use http_body_util::BodyExt as _;
use prost::{DecodeError, Message};
use tokio_stream::wrappers::ReceiverStream;
use tonic::{
    Code, Request, Response, Status, Streaming,
    body::Body,
    client::Grpc,
    codec::{BufferSettings, Codec, DecodeBuf, Decoder, EncodeBuf, Encoder},
    metadata::MetadataMap,
    transport::{Channel, Endpoint},
};
use tower::ServiceExt as _;

use self::readable::{Readable, readable};
use crate::{
    case::Stop,
    declared::{Declared, Verb},
    trail::{Sent, Trail},
};

/// The longest response that is read at all. One that is too long for the gateway is a mistake that has a sentence, so it
/// is read first.
const LONGEST: usize = 1 << 30;

/// The most bytes of headers and trailers: more than a message of a status that repeats the largest args.
const HEADERS: u32 = 16 << 20;

/// The longest response of other services: what is shown, and a little around it.
const MAX_OTHER_BYTES: usize = limits::JSON_BYTES + 64;

/// The length of the prefix of a gRPC message: whether it is compressed, and its length.
const PREFIX_BYTES: usize = 5;

/// One connection, used by several calls at once.
#[derive(Clone, Debug)]
pub(crate) struct Client {
    channel: Channel,
    patience: Duration,
    trail: Trail,
}

/// What a call has besides its message.
#[derive(Clone, Debug, Default)]
pub(crate) struct Extras {
    pub(crate) metadata: Vec<(HeaderName, HeaderValue)>,
    /// `grpc-timeout`; the default is none.
    pub(crate) timeout: Option<Duration>,
    /// The nodes of the request, which decide how long the response may be.
    pub(crate) nodes: u32,
}

impl Client {
    /// Connects. The patience is how long a call may take before the case fails.
    pub(crate) async fn connect(
        endpoint: &Endpoint,
        patience: Duration,
        trail: Trail,
    ) -> Result<Self, tonic::transport::Error> {
        let endpoint = endpoint.clone().http2_max_header_list_size(HEADERS);
        Ok(Self { channel: endpoint.connect().await?, patience, trail })
    }

    fn grpc(&self) -> Grpc<Readable> {
        Grpc::new(readable(self.channel.clone()))
            .max_decoding_message_size(LONGEST)
            .max_encoding_message_size(usize::MAX)
    }

    /// The path of a method.
    fn path(service: &str, method: &str) -> Result<PathAndQuery, Stop> {
        format!("/{service}/{method}").parse().map_err(|error| Stop::broken(format!("{method}: {error}")))
    }

    /// A call of `PolicyService` with this message. The outer error ends the case: there was no answer at all.
    pub(crate) async fn unary(
        &self,
        method: &str,
        message: Bytes,
        extras: Extras,
    ) -> Result<Result<Bytes, Status>, Stop> {
        self.unary_at(Self::path(SERVICE_NAME, method)?, message, extras).await
    }

    /// The same with the whole path.
    pub(crate) async fn unary_at(
        &self,
        path: PathAndQuery,
        message: Bytes,
        extras: Extras,
    ) -> Result<Result<Bytes, Status>, Stop> {
        let asked = path.path().to_owned();
        self.unary_named(path, asked.rsplit('/').next().unwrap_or_default(), message, extras).await
    }

    /// The same with the name for people.
    async fn unary_named(
        &self,
        path: PathAndQuery,
        name: &str,
        message: Bytes,
        extras: Extras,
    ) -> Result<Result<Bytes, Status>, Stop> {
        let asked = path.path().to_owned();
        let (sent, nodes) = (Sent { method: name.to_owned(), message: message.clone() }, extras.nodes);
        self.sent(&sent);
        match tokio::time::timeout(self.patience, self.send(path, message, extras)).await {
            Ok(Ok(response)) => {
                let response = response.map_err(|what| Stop::Failed(format!("{asked}: {what}")))?;
                short_enough(&asked, &sent.method, nodes, response.len())?;
                Ok(Ok(response))
            }
            Ok(Err(status)) => {
                if status.source().is_some() {
                    self.trail.change(|steps| {
                        steps.lost.get_or_insert(sent);
                    });
                }
                Ok(Err(status))
            }
            Err(_) => Err(Stop::Failed(format!("{asked}: no response within {:?}", self.patience))),
        }
    }

    /// Remembers a request, in case that the backend does not survive it.
    pub(crate) fn sent(&self, sent: &Sent) {
        self.trail.change(|steps| steps.last = Some(sent.clone()));
    }

    /// Sent as a call with one message and answered as one with many, because tonic's unary calls ignore what follows
    /// the first message.
    async fn send(
        &self,
        path: PathAndQuery,
        message: Bytes,
        extras: Extras,
    ) -> Result<Result<Bytes, String>, Status> {
        let mut grpc = self.grpc();
        grpc.ready().await.map_err(|error| Status::unavailable(format!("cannot connect: {error}")))?;
        let mut request = Request::new(message);
        *request.metadata_mut() = MetadataMap::from_headers(extras.metadata.into_iter().collect());
        if let Some(timeout) = extras.timeout {
            request.set_timeout(timeout);
        }
        only_message(grpc.server_streaming(request, path, Whole).await?).await
    }

    /// The handshake.
    pub(crate) async fn info(&self, request: &api::GetInfoRequest) -> Result<Result<Declared, Status>, Stop> {
        let message = request.encode_to_vec().into();
        let answered = self.unary("GetInfo", message, Extras::default()).await?;
        match answered {
            Ok(bytes) => Declared::read(&bytes).map(Ok).map_err(|error| no_message("GetInfo", &error)),
            Err(status) => Ok(Err(status)),
        }
    }

    /// A verb with this message.
    pub(crate) async fn verb(
        &self,
        verb: Verb,
        message: Bytes,
        extras: Extras,
    ) -> Result<Result<Bytes, Status>, Stop> {
        self.unary_named(Self::path(verb.service(), verb.method())?, verb.title(), message, extras).await
    }

    /// A stream that fills a table of nodes.
    pub(crate) async fn sync_nodes(
        &self,
        messages: ReceiverStream<Bytes>,
    ) -> Result<Streaming<Bytes>, Status> {
        let path = PathAndQuery::from_static("/extender.policy.v1beta1.NodeTableService/SyncNodes");
        self.stream(path, messages).await
    }

    /// Any stream in both directions.
    pub(crate) async fn stream(
        &self,
        path: PathAndQuery,
        messages: ReceiverStream<Bytes>,
    ) -> Result<Streaming<Bytes>, Status> {
        let mut grpc = self.grpc();
        grpc.ready().await.map_err(|error| Status::unavailable(format!("cannot connect: {error}")))?;
        Ok(grpc.streaming(Request::new(messages), path, Whole).await?.into_inner())
    }

    /// The connection itself, for other services.
    pub(crate) fn channel(&self) -> Channel {
        self.channel.clone()
    }

    /// How long an answer may take.
    pub(crate) fn patience(&self) -> Duration {
        self.patience
    }

    /// A request whose body is not a gRPC message, or not one alone. The answer is only awaited to its end.
    pub(crate) async fn raw(
        &self,
        service: &str,
        method: &str,
        content_type: &'static str,
        body: Bytes,
    ) -> Result<(), Stop> {
        let request = http::Request::post(Self::path(service, method)?).header(CONTENT_TYPE, content_type);
        self.exchange(method, request, body).await.map(drop)
    }

    /// The code with which a call ends whose message is compressed.
    pub(crate) async fn compressed(
        &self,
        service: &str,
        method: &str,
        message: &[u8],
    ) -> Result<Option<Code>, Stop> {
        let request = http::Request::post(Self::path(service, method)?)
            .header(CONTENT_TYPE, "application/grpc")
            .header("grpc-encoding", "gzip");
        let zipped = gzip(message);
        let length = crate::question::number(zipped.len());
        self.exchange(method, request, framed(1, length, &zipped)).await
    }

    async fn exchange(
        &self,
        method: &str,
        request: http::request::Builder,
        body: Bytes,
    ) -> Result<Option<Code>, Stop> {
        self.sent(&Sent { method: method.to_owned(), message: body.clone() });
        let request = request
            .header(http::header::TE, "trailers")
            .body(Body::new(http_body_util::Full::new(body).map_err(|never| match never {})))
            .map_err(|error| Stop::broken(error.to_string()))?;
        let answered = async {
            let response = self.channel.clone().oneshot(request).await.ok()?;
            let (parts, mut body) = response.into_parts();
            let mut status = status_in(&parts.headers);
            // Frame by frame: a hostile body does not end.
            while let Some(Ok(frame)) = body.frame().await {
                status = frame.trailers_ref().map_or(status, status_in);
            }
            status
        };
        tokio::time::timeout(self.patience, answered)
            .await
            .map_err(|_| Stop::Failed(format!("{method}: no response within {:?}", self.patience)))
    }
}

/// The code in headers or trailers.
fn status_in(headers: &http::HeaderMap) -> Option<Code> {
    headers.get("grpc-status").map(|status| Code::from_bytes(status.as_bytes()))
}

/// Bytes in the format of gzip, in one block that is stored as it is (RFC 1951 and 1952).
fn gzip(message: &[u8]) -> Bytes {
    let length = u16::try_from(message.len()).unwrap_or(u16::MAX);
    let message = &message[..usize::from(length)];
    let mut zipped = BytesMut::from(&[0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 255, 1][..]);
    zipped.put_u16_le(length);
    zipped.put_u16_le(!length);
    zipped.put_slice(message);
    zipped.put_u32_le(checksum(message));
    zipped.put_u32_le(u32::from(length));
    zipped.freeze()
}

/// CRC-32.
fn checksum(bytes: &[u8]) -> u32 {
    let step = |sum: u32, _| if sum & 1 == 0 { sum >> 1 } else { (sum >> 1) ^ 0xedb8_8320 };
    !bytes.iter().fold(!0, |sum, byte| (0..8).fold(sum ^ u32::from(*byte), step))
}

/// The message of a response, or why it is none of a unary call.
async fn only_message(response: Response<Streaming<Bytes>>) -> Result<Result<Bytes, String>, Status> {
    let (headers, mut messages, _) = response.into_parts();
    let kind = headers.into_headers().remove(CONTENT_TYPE);
    if !kind.as_ref().is_some_and(is_grpc) {
        return Ok(Err(format!("content-type is {kind:?}; expected application/grpc")));
    }
    let first = messages.message().await?;
    Ok(match (first, messages.message().await?) {
        (Some(message), None) => Ok(message),
        (None, _) => Err("a response without a message".to_owned()),
        (Some(_), Some(_)) => Err("a response with more than one message".to_owned()),
    })
}

/// `application/grpc`, which a format or parameters may follow; `application/grpc-web` is another protocol.
fn is_grpc(kind: &HeaderValue) -> bool {
    let rest = kind.as_bytes().strip_prefix(b"application/grpc");
    rest.is_some_and(|rest| matches!(rest.first(), None | Some(b'+' | b';')))
}

/// A message with its prefix, and with a length in the prefix that may be wrong.
pub(crate) fn framed(compressed: u8, length: u32, message: &[u8]) -> Bytes {
    let mut frame = BytesMut::with_capacity(PREFIX_BYTES + message.len());
    frame.put_u8(compressed);
    frame.put_u32(length);
    frame.put_slice(message);
    frame.freeze()
}

/// The response of a method. One that is not its message ends the case.
pub(crate) fn decoded<M: Message + Default>(
    method: &str,
    answered: Result<Bytes, Status>,
) -> Result<Result<M, Status>, Stop> {
    match answered {
        Ok(bytes) => M::decode(bytes).map(Ok).map_err(|error| no_message(method, &error)),
        Err(status) => Ok(Err(status)),
    }
}

fn no_message(method: &str, error: &DecodeError) -> Stop {
    Stop::Failed(format!("the response of {method} is not its message: {error}"))
}

/// The name of the `ErrorReason` that a status has, if it has one.
pub(crate) fn reason(status: &Status) -> Option<&str> {
    status.metadata().get("extender-reason").and_then(|reason| reason.to_str().ok())
}

/// `INVALID_ARGUMENT: count is wrong`, as people read it.
pub(crate) fn shown(status: &Status) -> String {
    let (code, message) = (code_name(status.code()), printable(status.message()));
    if message.is_empty() { code } else { format!("{code}: {message}") }
}

/// A response is not longer than the gateway reads.
fn short_enough(path: &str, method: &str, nodes: u32, bytes: usize) -> Result<(), Stop> {
    let most = longest(path, nodes);
    if bytes <= most {
        return Ok(());
    }
    let text = format!("the response of {method} has {bytes} bytes; at most {most} are read by the gateway");
    let of_policy = [SERVICE_NAME, HOOK_SERVICE].iter().any(|service| path[1..].starts_with(service));
    Err(if of_policy { Stop::Failed(text).of(method, "13.4") } else { Stop::Failed(text) })
}

/// The longest response in bytes of the method at this path.
fn longest(path: &str, nodes: u32) -> usize {
    let about_nodes = limits::NODES_RESPONSE_BYTES
        + usize::try_from(nodes).unwrap_or(usize::MAX >> 10) * limits::NODE_RESPONSE_BYTES;
    match path.strip_prefix('/').and_then(|path| path.split_once('/')) {
        Some((SERVICE_NAME, "GetInfo")) => limits::INFO_RESPONSE_BYTES,
        Some((SERVICE_NAME, "Bind")) => limits::BIND_RESPONSE_BYTES,
        Some((HOOK_SERVICE, _)) if nodes == 0 => limits::POD_RESPONSE_BYTES,
        Some((SERVICE_NAME | HOOK_SERVICE, _)) => about_nodes,
        _ => MAX_OTHER_BYTES,
    }
}

/// The name of a code in the specification of gRPC, such as `INVALID_ARGUMENT`.
pub(crate) fn code_name(code: Code) -> String {
    let words = format!("{code:?}");
    let letter = |(at, letter): (usize, char)| {
        let gap = (at > 0 && letter.is_uppercase()).then_some('_');
        gap.into_iter().chain(letter.to_uppercase())
    };
    words.char_indices().flat_map(letter).collect()
}

/// Messages as they are.
#[derive(Clone, Copy, Debug, Default)]
struct Whole;

impl Codec for Whole {
    type Encode = Bytes;
    type Decode = Bytes;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Whole {
    type Item = Bytes;
    type Error = Status;

    fn encode(&mut self, message: Bytes, to: &mut EncodeBuf<'_>) -> Result<(), Status> {
        to.put(message);
        Ok(())
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::default()
    }
}

impl Decoder for Whole {
    type Item = Bytes;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Bytes>, Status> {
        let length = from.remaining();
        Ok(Some(from.copy_to_bytes(length)))
    }

    fn buffer_settings(&self) -> BufferSettings {
        BufferSettings::default()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_response_is_as_long_as_the_gateway_reads() {
        assert_eq!(longest("/extender.policy.v1beta1.PolicyService/Filter", 10), (64 + 10) << 10);
        assert_eq!(longest("/extender.policy.v1beta1.PolicyService/Bind", 0), 16 << 10);
        assert_eq!(longest("/extender.policy.v1beta1.HookService/Change", 10), (64 + 10) << 10);
        assert_eq!(longest("/extender.policy.v1beta1.HookService/Change", 0), 128 << 10);
        assert_eq!(longest("/extender.policy.v1beta1.IntrospectionService/Introspect", 0), (4 << 20) + 64);
    }
}
