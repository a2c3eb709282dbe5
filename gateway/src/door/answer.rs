//! Responses: the one table from errors to responses to kube-scheduler.

use std::{
    collections::VecDeque,
    convert::Infallible,
    pin::Pin,
    task::{Context, Poll},
};

use bytes::Bytes;
use extender_gateway_core::reason;
use http::{HeaderValue, Method, Response, StatusCode, header};
use hyper::body::{Body, Frame, SizeHint};

use extender_gateway_core::Verb;

use crate::{config::VerbPaths, decide::CallError, wire::reply};

/// The header with the reason if there is no body: for people with curl, and for proxies' logs.
const REASON: &str = "x-extender-gateway-error";

/// Why a call has no decision.
#[derive(Debug)]
pub(super) struct CallRefusal {
    /// The status if the verb has no error form of its own.
    status: StatusCode,
    /// The kind of error for metrics and logs: one word.
    outcome: &'static str,
    /// The error for people: one line without `%`, of at most 400 bytes.
    text: String,
    log: LoggedAt,
}

/// Where an error is logged: once.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum LoggedAt {
    /// Not logged yet.
    Here,
    /// Its cause is logged, at most once a second.
    AtItsCause,
}

/// A refusal in the verb's form.
#[derive(Debug)]
pub(super) struct RefusedCall {
    pub(super) response: Response<ReplyBody>,
    pub(super) outcome: &'static str,
    pub(super) text: String,
    pub(super) log: LoggedAt,
}

impl CallRefusal {
    fn new(status: StatusCode, outcome: &'static str, text: impl AsRef<str>) -> Self {
        const LONGEST: usize = 400;
        Self { status, outcome, text: reason::one_line(text.as_ref(), LONGEST), log: LoggedAt::Here }
    }

    /// The path has no verb.
    pub(super) fn path(path: &str, verbs: &VerbPaths) -> Self {
        let VerbPaths { filter, prioritize, preempt, bind } = verbs;
        let text = format!(
            "extender-gateway: no verb in path {path}; expected a path that ends with /{filter}, /{prioritize}, /{preempt} or /{bind}"
        );
        Self::new(StatusCode::NOT_FOUND, "path", text)
    }

    /// The method is not POST.
    pub(super) fn method(method: &Method) -> Self {
        let text = format!("extender-gateway: method {method} is not allowed; expected POST");
        Self::new(StatusCode::METHOD_NOT_ALLOWED, "method", text)
    }

    /// The body is too large.
    pub(super) fn too_large(most: usize) -> Self {
        let text = format!(
            "extender-gateway: the request is larger than {most} bytes; raise extender.maxRequestBytes, or set nodeCacheCapable: true in \
             kube-scheduler's configuration"
        );
        Self::new(StatusCode::PAYLOAD_TOO_LARGE, "too_large", text)
    }

    /// The body cannot be parsed.
    pub(super) fn request(what: String) -> Self {
        CallError::Request(what).into()
    }

    /// A bug of the gateway.
    pub(super) fn panicked() -> Self {
        let text = "extender-gateway: internal error; see the gateway's log";
        Self::new(StatusCode::INTERNAL_SERVER_ERROR, "panic", text)
    }

    /// Converts it to the form that kube-scheduler reads for this verb: filter and bind have an error in the body,
    /// the others a status without a body.
    pub(super) fn of(self, verb: Verb) -> RefusedCall {
        let body = match verb {
            Verb::Filter | Verb::Bind => reply::error(&self.text),
            Verb::Prioritize | Verb::Preempt => return self.status(),
        };
        RefusedCall {
            response: reply(body.into_pieces()),
            outcome: self.outcome,
            text: self.text,
            log: self.log,
        }
    }

    /// Converts it to a status without a body.
    pub(super) fn status(self) -> RefusedCall {
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
        RefusedCall { response, outcome: self.outcome, text: self.text, log: self.log }
    }
}

impl From<CallError> for CallRefusal {
    fn from(error: CallError) -> Self {
        let status = match error {
            CallError::Request(_) => StatusCode::BAD_REQUEST,
            CallError::Backend { .. } => StatusCode::BAD_GATEWAY,
            CallError::NotYetKnown { .. } | CallError::Repeated { .. } => StatusCode::SERVICE_UNAVAILABLE,
            // Sent with status 200, like every error of bind.
            CallError::Bind(_) => StatusCode::CONFLICT,
        };
        let log = match error {
            CallError::Backend { .. } | CallError::Repeated { .. } => LoggedAt::AtItsCause,
            CallError::Request(_) | CallError::NotYetKnown { .. } | CallError::Bind(_) => LoggedAt::Here,
        };
        Self { log, ..Self::new(status, error.kind(), error.to_string()) }
    }
}

/// A 200 with these pieces of JSON and a content length: a chunked body whose end is late costs the connection.
pub(super) fn reply(pieces: Vec<Bytes>) -> Response<ReplyBody> {
    let reply =
        ReplyBody { left: pieces.iter().map(|piece| piece.len() as u64).sum(), pieces: pieces.into() };
    let mut response = Response::new(reply);
    response.headers_mut().insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
    response
}

/// A complete body, in pieces.
#[derive(Debug, Default)]
pub(super) struct ReplyBody {
    pieces: VecDeque<Bytes>,
    left: u64,
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
        Poll::Ready(piece.map(|piece| Ok(Frame::data(piece))))
    }

    fn is_end_stream(&self) -> bool {
        self.pieces.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.left)
    }
}
