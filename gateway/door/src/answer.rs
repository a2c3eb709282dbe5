//! Responses: the one table from errors to responses to kube-scheduler.

use std::{
    collections::VecDeque,
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll, ready},
    time::Duration,
};

use bytes::Bytes;
use extender_gateway_core::{Verb, reason};
use extender_gateway_decide::CallError;
use extender_gateway_record::CallOutcome;
use extender_gateway_settings::VerbPaths;
use extender_gateway_wire::reply;
use http::{HeaderMap, HeaderValue, Method, Response, StatusCode, header};
use hyper::body::{Body, Frame, SizeHint};

/// The header with the reason if there is no body: for people with curl, and for proxies' logs.
const REASON: &str = "x-extender-gateway-error";

/// Why a call has no decision.
#[derive(Debug)]
pub(super) struct CallRefusal {
    /// The status if the verb has no error form of its own.
    pub(super) status: StatusCode,
    /// The kind of error for metrics and logs.
    pub(super) outcome: CallOutcome,
    /// The error for people: one line without `%`, of at most 400 bytes.
    pub(super) text: String,
    /// Whether its cause is already logged, at most once a second.
    pub(super) is_logged: bool,
}

impl CallRefusal {
    fn new(status: StatusCode, outcome: CallOutcome, text: impl AsRef<str>) -> Self {
        const LONGEST: usize = 400;
        Self { status, outcome, text: reason::one_line(text.as_ref(), LONGEST), is_logged: false }
    }

    pub(super) fn path(path: &str, verbs: &VerbPaths) -> Self {
        let VerbPaths { filter, prioritize, preempt, bind } = verbs;
        let text = format!(
            "extender-gateway: no verb in path {path}; expected a path that ends with /{filter}, /{prioritize}, /{preempt} or /{bind}"
        );
        Self::new(StatusCode::NOT_FOUND, CallOutcome::Path, text)
    }

    pub(super) fn method(method: &Method) -> Self {
        let text = format!("extender-gateway: method {method} is not allowed; expected POST");
        Self::new(StatusCode::METHOD_NOT_ALLOWED, CallOutcome::Method, text)
    }

    pub(super) fn plugin_method(method: &str) -> Self {
        let text = format!(
            "extender-gateway: extender.door.v1alpha1.DoorService has no method {method}; expected Place, Score, Preempt, Bind, Hold or Tell: \
             use a plugin and a gateway of neighboring versions"
        );
        Self::new(StatusCode::NOT_FOUND, CallOutcome::Path, text)
    }

    pub(super) fn no_plugin() -> Self {
        let text = "extender-gateway: kube-scheduler's plugin is answered over HTTP/2 on connections with a client certificate, and at \
                    extender.socket; set extender.tls.clientCAFile in the gateway's configuration";
        Self::new(StatusCode::FORBIDDEN, CallOutcome::Path, text)
    }

    pub(super) fn browser() -> Self {
        let text = "extender-gateway: requests of web pages are rejected";
        Self::new(StatusCode::FORBIDDEN, CallOutcome::Browser, text)
    }

    /// `declared` is the size that the request says; 0 if it says none.
    pub(super) fn too_large(declared: usize, most: usize) -> Self {
        let size = if declared > most { declared.to_string() } else { format!("more than {most}") };
        let text = format!(
            "extender-gateway: the request has {size} bytes, and at most {most} are accepted; raise extender.maxRequestBytes, or set \
             nodeCacheCapable: true in kube-scheduler's configuration"
        );
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, CallOutcome::TooLarge, text)
    }

    pub(super) fn overload(most: usize) -> Self {
        let text = format!(
            "extender-gateway: overloaded: the requests in progress have {most} bytes together; look for callers that send too many, or \
             raise extender.maxBytesInFlight"
        );
        Self::new(StatusCode::SERVICE_UNAVAILABLE, CallOutcome::Overload, text)
    }

    pub(super) fn too_many(longest: Duration) -> Self {
        let text = format!(
            "extender-gateway: overloaded: the call waits for longer than {longest:?}; look for callers that send too many, or call \
             more replicas"
        );
        Self::new(StatusCode::SERVICE_UNAVAILABLE, CallOutcome::Overload, text)
    }

    pub(super) fn panicked() -> Self {
        let text = "extender-gateway: internal error; see the gateway's log";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, CallOutcome::Panic, text)
    }

    /// The response in the form that kube-scheduler reads for this verb: filter and bind have an error in the body,
    /// the others a status without a body.
    pub(super) fn response(&self, verb: Verb) -> Response<ReplyBody> {
        match verb {
            Verb::Filter | Verb::Bind => success(reply::error(&self.text)),
            Verb::Prioritize | Verb::Preempt => self.status(),
        }
    }

    pub(super) fn status(&self) -> Response<ReplyBody> {
        let mut response = Response::new(ReplyBody::default());
        *response.status_mut() = self.status;
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_LENGTH, HeaderValue::from_static("0"));
        if self.status == StatusCode::METHOD_NOT_ALLOWED {
            headers.insert(header::ALLOW, HeaderValue::from_static("POST"));
        }
        let text = self.text.replace(|c: char| !c.is_ascii(), "?");
        if let Ok(text) = HeaderValue::from_str(&text) {
            headers.insert(REASON, text);
        }
        response
    }
}

impl From<CallError> for CallRefusal {
    fn from(error: CallError) -> Self {
        let (status, is_logged) = match error {
            CallError::Request(_) => (StatusCode::BAD_REQUEST, false),
            CallError::Backend { .. } => (StatusCode::BAD_GATEWAY, true),
            CallError::NotYetKnown(_) => (StatusCode::SERVICE_UNAVAILABLE, false),
            CallError::Repeated(_) => (StatusCode::SERVICE_UNAVAILABLE, true),
            // Sent with status 200, like every error of bind.
            CallError::NoLongerFits(_) | CallError::NoBinder | CallError::Bind(_) => {
                (StatusCode::CONFLICT, false)
            }
        };
        Self { is_logged, ..Self::new(status, error.outcome(), error.to_string()) }
    }
}

/// A 200 with this JSON and its content length: a chunked body whose end is late costs the connection.
pub(super) fn success(body: reply::Body) -> Response<ReplyBody> {
    let pieces = body.into_pieces();
    let left = pieces.iter().map(|piece| piece.len() as u64).sum();
    let mut response = Response::new(ReplyBody { pieces: pieces.into(), left, trailers: None });
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// A complete body, in pieces.
#[derive(Debug, Default)]
pub(super) struct ReplyBody {
    pieces: VecDeque<Bytes>,
    left: u64,
    /// What follows them, in HTTP/2.
    trailers: Option<Box<HeaderMap>>,
}

impl ReplyBody {
    /// This body, and trailers.
    pub(super) fn with_trailers(body: Bytes, trailers: HeaderMap) -> Self {
        Self { left: body.len() as u64, pieces: [body].into(), trailers: Some(trailers.into()) }
    }
}

impl Body for ReplyBody {
    type Data = Bytes;
    type Error = Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        _: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Infallible>>> {
        let piece = self.pieces.pop_front();
        self.left -= piece.as_ref().map_or(0, |piece| piece.len() as u64);
        let frame = piece.map(Frame::data);
        let frame = frame.or_else(|| self.trailers.take().map(|trailers| Frame::trailers(*trailers)));
        Poll::Ready(frame.map(Ok))
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_empty() && self.trailers.is_none()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}

/// A body and a value that is dropped with it: the slot of its request, or the permit for its memory.
#[derive(Debug)]
pub struct HeldBody<B, H> {
    body: B,
    has_ended: bool,
    _held: H,
}

impl<B: Body, H> HeldBody<B, H> {
    /// Holds the value until the body has been dropped.
    pub fn new(body: B, held: H) -> Self {
        Self { has_ended: body.is_end_stream(), body, _held: held }
    }
}

impl<B: Body + Unpin, H: Unpin> Body for HeldBody<B, H> {
    type Data = B::Data;
    type Error = B::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<B::Data>, B::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(context));
        self.has_ended = frame.is_none();
        Poll::Ready(frame)
    }

    /// Never true with the last frame: hyper drops a body that has ended. It asks for the next frame when most of
    /// the previous one has been written, all but [`LARGEST_BUFFER`](super::accept::LARGEST_BUFFER).
    fn is_end_stream(&self) -> bool {
        self.has_ended
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
