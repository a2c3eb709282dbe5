//! The span of an HTTP request, by the semantic conventions for HTTP servers.

use extender_gateway_record::{CallOutcome, HttpCall};
use extender_otlp::{Parent, Span, TraceContext};
use http::{Method, Version};
use opentelemetry::{KeyValue, trace::SpanKind};
use opentelemetry_semantic_conventions::attribute::{
    CLIENT_ADDRESS, CLIENT_PORT, ERROR_TYPE, HTTP_REQUEST_BODY_SIZE, HTTP_REQUEST_METHOD,
    HTTP_RESPONSE_BODY_SIZE, HTTP_RESPONSE_STATUS_CODE, HTTP_ROUTE, NETWORK_PROTOCOL_VERSION, URL_PATH,
    URL_SCHEME,
};

use super::{decision, names};

/// The span of a request.
pub(super) fn span(http_call: &HttpCall, context: TraceContext) -> Span {
    let parent = http_call.parent.map_or(Parent::None, |parent| Parent::Remote(parent.span_id));
    let method = method(&http_call.http.0);
    // The conventions exclude unknown methods from span names.
    let method = if method == "_OTHER" { "HTTP" } else { method };
    let name = http_call.verb.map_or_else(|| method.to_owned(), |verb| format!("{method} /{}", verb.name()));
    Span {
        kind: SpanKind::Server,
        parent,
        attributes: attributes(http_call),
        status: decision::status(http_call),
        ..Span::new(name, context, decision::time(http_call))
    }
}

fn attributes(http_call: &HttpCall) -> Vec<KeyValue> {
    let (method, version, uri) = &http_call.http;
    let mut attributes = vec![
        KeyValue::new(HTTP_REQUEST_METHOD, self::method(method).to_owned()),
        KeyValue::new(URL_PATH, uri.path().to_owned()),
        KeyValue::new(URL_SCHEME, if http_call.secure { "https" } else { "http" }),
        KeyValue::new(NETWORK_PROTOCOL_VERSION, protocol(*version)),
        KeyValue::new(CLIENT_ADDRESS, http_call.caller.ip().to_string()),
        KeyValue::new(CLIENT_PORT, i64::from(http_call.caller.port())),
        KeyValue::new(HTTP_REQUEST_BODY_SIZE, decision::number(http_call.request_bytes)),
        KeyValue::new(HTTP_RESPONSE_BODY_SIZE, decision::number(http_call.response_bytes)),
        KeyValue::new(names::OUTCOME, http_call.outcome.as_str()),
    ];
    if !http_call.queued.is_zero() {
        attributes.push(KeyValue::new(names::QUEUE_DURATION, http_call.queued.as_secs_f64()));
    }
    if let Some(verb) = http_call.verb {
        attributes.push(KeyValue::new(HTTP_ROUTE, format!("/{}", verb.name())));
    }
    if let Some(status) = http_call.status {
        attributes.push(KeyValue::new(HTTP_RESPONSE_STATUS_CODE, i64::from(status.as_u16())));
    }
    if http_call.outcome != CallOutcome::Ok {
        attributes.push(KeyValue::new(ERROR_TYPE, http_call.outcome.as_str()));
    }
    attributes
}

/// Unknown methods of callers must not create new span names.
fn method(method: &Method) -> &str {
    let known = ["POST", "GET", "PUT", "HEAD", "DELETE", "OPTIONS", "PATCH", "TRACE", "CONNECT"];
    if known.contains(&method.as_str()) { method.as_str() } else { "_OTHER" }
}

fn protocol(version: Version) -> &'static str {
    match version {
        Version::HTTP_2 => "2",
        Version::HTTP_10 => "1.0",
        _ => "1.1",
    }
}
