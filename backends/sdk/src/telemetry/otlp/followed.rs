//! A traced call, from the first byte of the request to the end of the answer.

use std::{future::poll_fn, time::SystemTime};

use extender_otlp::{Parent, Span, Spans, TraceContext, grpc};
use opentelemetry::{
    Key, KeyValue,
    trace::{Event, SpanKind, Status as SpanStatus, TraceState},
};
use opentelemetry_semantic_conventions::attribute::{
    ERROR_TYPE, RPC_METHOD, RPC_RESPONSE_STATUS_CODE, RPC_SYSTEM_NAME,
};
use tonic::{Code, Status, codegen::http::HeaderMap};

use crate::{
    service::Answered,
    trace::{Notes, Value, noting},
};

/// A traced call. Its span is sent when the call is over; also when the caller cancels, and this is dropped.
pub(crate) struct Followed {
    spans: Spans,
    verb: &'static str,
    caller: TraceContext,
    state: TraceState,
    context: TraceContext,
    begin: SystemTime,
    notes: Option<Box<Notes>>,
    outcome: Status,
}

impl Followed {
    pub(super) fn begin(spans: Spans, verb: &'static str, caller: TraceContext, state: TraceState) -> Self {
        let context = TraceContext { sampled: true, ..caller.child() };
        let notes = Notes { traceparent: context.to_string(), ..Notes::default() };
        let outcome = Status::cancelled("the caller gave up, or no time was left");
        let (begin, notes) = (SystemTime::now(), Some(Box::new(notes)));
        Self { spans, verb, caller, state, context, begin, notes, outcome }
    }

    /// The same answer, during which the policy may add to the span.
    pub(crate) fn through(mut self, mut answered: Answered) -> Answered {
        Box::pin(async move {
            let polled = poll_fn(|context| noting(&mut self.notes, || answered.as_mut().poll(context)));
            let Ok(response) = polled.await;
            self.ended(response.headers());
            Ok(response)
        })
    }

    /// Only failures have a status among the headers; otherwise it follows the message.
    fn ended(&mut self, headers: &HeaderMap) {
        self.outcome = Status::from_header_map(headers).unwrap_or_else(|| Status::ok(""));
    }

    fn attributes(&self, noted: Vec<(impl Into<Key>, Value)>) -> Vec<KeyValue> {
        let code = grpc::name(self.outcome.code());
        let mut attributes = vec![
            KeyValue::new(RPC_SYSTEM_NAME, "grpc"),
            KeyValue::new(RPC_METHOD, self.verb),
            KeyValue::new(RPC_RESPONSE_STATUS_CODE, code),
        ];
        attributes.extend(self.is_error().then(|| KeyValue::new(ERROR_TYPE, code)));
        attributes.extend(noted.into_iter().map(|(key, value)| KeyValue::new(key, value)));
        attributes
    }

    /// A gateway that cancels because it no longer needs the answer is not an error.
    fn is_error(&self) -> bool {
        !matches!(self.outcome.code(), Code::Ok | Code::Cancelled)
    }

    fn status(&self) -> SpanStatus {
        if !self.is_error() {
            return SpanStatus::Unset;
        }
        let Self { outcome, .. } = self;
        SpanStatus::error(format!("{}: {}", grpc::name(outcome.code()), outcome.message()))
    }
}

impl Drop for Followed {
    fn drop(&mut self) {
        let notes = self.notes.take().unwrap_or_default();
        let events = notes.events.into_iter().map(|(name, time)| Event::new(name, time, Vec::new(), 0));
        self.spans.send(Span {
            kind: SpanKind::Server,
            parent: Parent::Remote(self.caller.span_id),
            state: std::mem::take(&mut self.state),
            attributes: self.attributes(notes.attributes),
            events: events.collect(),
            status: self.status(),
            ..Span::new(self.verb, self.context, self.begin..SystemTime::now())
        });
    }
}

impl From<Value> for opentelemetry::Value {
    fn from(value: Value) -> Self {
        match value {
            Value::Text(text) => text.into(),
            Value::Whole(number) => number.into(),
            Value::Fraction(number) => number.into(),
            Value::Flag(flag) => flag.into(),
        }
    }
}
