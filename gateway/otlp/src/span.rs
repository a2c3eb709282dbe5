//! The record of a finished span.

use std::{borrow::Cow, time::SystemTime};

use opentelemetry::{
    InstrumentationScope, KeyValue,
    trace::{Event, Link, SpanContext, SpanId, SpanKind, Status, TraceState},
};
use opentelemetry_sdk::trace::{SpanData, SpanEvents, SpanLinks};

use crate::TraceContext;

/// A finished span, built at once after its end:
///
/// ```
/// use std::time::SystemTime;
///
/// use extender_otlp::{Parent, Span, TraceContext};
/// use opentelemetry::{KeyValue, trace::SpanKind};
///
/// let (call, begin) = (TraceContext::root(), SystemTime::now());
/// // Work; the callee gets `asked.header()`.
/// let asked = call.child();
/// let span = Span {
///     kind: SpanKind::Client,
///     parent: Parent::Local(call.span_id),
///     attributes: vec![KeyValue::new("rpc.system.name", "grpc")],
///     ..Span::new("extender.policy.v1beta1.PolicyService/Filter", asked, begin..SystemTime::now())
/// };
/// # let _ = span;
/// ```
#[derive(Clone, Debug, PartialEq)]
pub struct Span {
    /// The name: of low cardinality, without numbers.
    pub name: Cow<'static, str>,
    /// The kind. [`Span::new`] sets `Internal`.
    pub kind: SpanKind,
    /// The span's own ids.
    pub context: TraceContext,
    /// Vendor data of the caller's context.
    pub state: TraceState,
    /// The span that this one is a part of.
    pub parent: Parent,
    /// When the work began.
    pub start: SystemTime,
    /// When it ended.
    pub end: SystemTime,
    /// Attributes.
    pub attributes: Vec<KeyValue>,
    /// Links to related spans.
    pub links: Vec<Link>,
    /// Events.
    pub events: Vec<Event>,
    /// The status; unset means success.
    pub status: Status,
}

/// The span that another is a part of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Parent {
    /// A trace begins here.
    None,
    /// A span of this process.
    Local(SpanId),
    /// A span of the caller's.
    Remote(SpanId),
}

impl Span {
    /// A span of this name, these ids and this time, without anything else.
    #[must_use]
    pub fn new(
        name: impl Into<Cow<'static, str>>,
        context: TraceContext,
        time: std::ops::Range<SystemTime>,
    ) -> Self {
        Self {
            name: name.into(),
            kind: SpanKind::Internal,
            context,
            state: TraceState::NONE,
            parent: Parent::None,
            start: time.start,
            end: time.end,
            attributes: Vec::new(),
            links: Vec::new(),
            events: Vec::new(),
            status: Status::Unset,
        }
    }

    /// As a type of the OpenTelemetry SDK.
    #[must_use]
    pub fn into_data(self, scope: InstrumentationScope) -> SpanData {
        let TraceContext { trace_id, span_id, .. } = self.context;
        let flags = self.context.trace_flags();
        let (parent_span_id, parent_span_is_remote) = match self.parent {
            Parent::None => (SpanId::INVALID, false),
            Parent::Local(parent) => (parent, false),
            Parent::Remote(parent) => (parent, true),
        };
        let (mut events, mut links) = (SpanEvents::default(), SpanLinks::default());
        events.events = self.events;
        links.links = self.links;
        SpanData {
            span_context: SpanContext::new(trace_id, span_id, flags, false, self.state),
            parent_span_id,
            parent_span_is_remote,
            span_kind: self.kind,
            name: self.name,
            start_time: self.start,
            end_time: self.end,
            attributes: self.attributes,
            dropped_attributes_count: 0,
            events,
            links,
            status: self.status,
            instrumentation_scope: scope,
        }
    }
}
