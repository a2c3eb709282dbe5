//! Calls as OpenTelemetry traces. During a call only the id of its span exists, for the backends' metadata
//! ([`Tracer::begin`]). The spans are created after the response, from the call record, and only if they are kept:
//! if the sampler selects the call, or if it failed, was slow, or a backend was late.

mod call;
mod door;
mod names;
mod previous;
mod question;

use extender_gateway_core::Verb;
use std::time::Duration;

use arc_swap::ArcSwap;
use extender_otlp::{Delivery, Sampler, Span, Spans, TraceContext, ids};

use self::previous::Previous;
use crate::{
    object::pod::ObjectPod,
    record::{BackendAttempt, CallRecord, HttpCall, Outcome, PodRef},
};

/// Settings that may change while the gateway runs.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceSettings {
    /// The sampler of pods.
    pub sampler: Sampler,
    /// Calls that take longer are kept, too.
    pub slow: Duration,
    /// The pod annotation with a `traceparent`.
    pub annotation: Option<String>,
}

/// Creates the spans of calls.
#[derive(Debug)]
pub struct Tracer {
    spans: Spans,
    choice: ArcSwap<TraceSettings>,
    previous: Previous,
}

impl Tracer {
    /// A tracer that sends its spans to `spans`.
    pub fn new(spans: Spans, choice: TraceSettings) -> Self {
        Self { spans, choice: ArcSwap::from_pointee(choice), previous: Previous::default() }
    }

    /// Replaces the settings.
    pub fn choose(&self, choice: TraceSettings) {
        self.choice.store(choice.into());
    }

    /// The delivery status of the spans so far.
    pub fn delivery(&self) -> Delivery {
        self.spans.delivery()
    }

    /// The span of a decision about this pod, possibly a child of the caller's: all calls of a pod are kept, or none.
    pub fn begin(&self, pod: &PodRef, parent: Option<TraceContext>) -> TraceContext {
        let by = self.choice.load().sampler;
        if let Some(parent) = parent {
            return TraceContext { sampled: by.continues(&parent), ..parent.child() };
        }
        let root = TraceContext::root();
        let sampled = match pod.uid.as_bytes() {
            [] => by.begins(&root.trace_id.to_bytes()),
            uid => by.begins(uid),
        };
        TraceContext { sampled, ..root }
    }

    /// The span in the pod's annotation, if configured. An invalid one counts as none.
    pub fn annotated(&self, pod: &ObjectPod<'_>) -> Option<TraceContext> {
        let choice = self.choice.load();
        TraceContext::parse(pod.annotation(choice.annotation.as_deref()?)?).ok()
    }

    /// Sends the spans of a request, if they are kept. Returns whether they are.
    pub(super) fn settle(&self, http_call: &HttpCall) -> bool {
        let context = http_call.record.as_ref().and_then(|record| record.trace);
        let context = context.unwrap_or_else(|| self.begin(&PodRef::default(), http_call.parent));
        if !context.sampled && !self.is_notable(http_call) {
            return false;
        }
        let door = ids::span();
        self.send(door::span(http_call, TraceContext { span_id: door, ..context }));
        if let Some(record) = &http_call.record {
            let before = self.previous.replace(&record.pod.uid, context);
            self.send(call::span(http_call, record, (context, door), before));
            for (part, verb) in record.backends.iter().zip(http_call.verb.into_iter().cycle()) {
                self.ask(verb, record, part, context);
            }
        }
        true
    }

    /// Sends the spans of shadow calls, if the call is sampled.
    pub(super) fn settle_beside(&self, verb: Verb, record: &CallRecord) {
        let Some(context) = record.trace.filter(|context| context.sampled) else { return };
        for part in &record.backends {
            self.ask(verb, record, part, context);
        }
    }

    fn ask(
        &self,
        verb: Verb,
        record: &CallRecord,
        part: &crate::record::BackendOutcome,
        context: TraceContext,
    ) {
        for attempt in &part.attempts {
            question::spans(verb, record, (part, attempt), context).for_each(|span| self.send(span));
        }
    }

    fn send(&self, span: Span) {
        // Spans that are sent are marked as sampled, whatever the sampler decided before the outcome was known.
        self.spans.send(Span { context: TraceContext { sampled: true, ..span.context }, ..span });
    }

    /// Requests without a verb, such as probes and scans, are kept only if the sampler selects them.
    fn is_notable(&self, http_call: &HttpCall) -> bool {
        let slow = || http_call.took > self.choice.load().slow;
        let failed = || http_call.record.as_ref().is_some_and(has_failure);
        http_call.verb.is_some() && (http_call.outcome != "ok" || slow() || failed())
    }
}

/// Whether some backend failed or was late, regardless of the effect on the call.
fn has_failure(record: &CallRecord) -> bool {
    let failed = |attempt: &BackendAttempt| attempt.failure.is_some();
    record
        .backends
        .iter()
        .any(|part| matches!(part.outcome, Outcome::Failed(_)) || part.attempts.iter().any(failed))
}
