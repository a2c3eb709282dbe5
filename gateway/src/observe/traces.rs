//! Calls as OpenTelemetry traces.
//!
//! What a call needs while it is decided is the id of its span, for the backends' metadata ([`Tracer::begin`]). The spans are
//! made behind the answer, from the call's account, and only where they are kept: as the sampler says, and whatever it says
//! of calls that failed, were slow, or in which a backend was late.

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
    account::{CallRecord, BackendAttempt, Outcome, PodRef, HttpCall},
    object::pod::ObjectPod,
};

/// What may change while the gateway runs.
#[derive(Debug, Clone, PartialEq)]
pub struct TraceSettings {
    /// Which pods' calls are kept.
    pub sampler: Sampler,
    /// Calls that take longer are kept, too.
    pub slow: Duration,
    /// The pods' annotation with a `traceparent`.
    pub annotation: Option<String>,
}

/// Makes spans of calls.
#[derive(Debug)]
pub struct Tracer {
    spans: Spans,
    choice: ArcSwap<TraceSettings>,
    previous: Previous,
}

impl Tracer {
    /// One whose spans go there.
    pub fn new(spans: Spans, choice: TraceSettings) -> Self {
        Self { spans, choice: ArcSwap::from_pointee(choice), previous: Previous::default() }
    }

    /// From now on this is kept.
    pub fn choose(&self, choice: TraceSettings) {
        self.choice.store(choice.into());
    }

    /// What became of the spans so far.
    pub fn delivery(&self) -> Delivery {
        self.spans.delivery()
    }

    /// The span of a decision about this pod, which its caller may have made a part of another: all calls of a pod are
    /// kept, or none.
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

    /// The span that a pod's annotation names, where that is looked at. One that cannot be read is none.
    pub fn annotated(&self, pod: &ObjectPod<'_>) -> Option<TraceContext> {
        let choice = self.choice.load();
        TraceContext::parse(pod.annotation(choice.annotation.as_deref()?)?).ok()
    }

    /// Sends the spans of a request, if they are kept. Returns whether they are.
    pub(super) fn settle(&self, visit: &HttpCall) -> bool {
        let context = visit.record.as_ref().and_then(|account| account.trace);
        let context = context.unwrap_or_else(|| self.begin(&PodRef::default(), visit.parent));
        if !context.sampled && !self.is_notable(visit) {
            return false;
        }
        let door = ids::span();
        self.send(door::span(visit, TraceContext { span_id: door, ..context }));
        if let Some(account) = &visit.record {
            let before = self.previous.replace(&account.pod.uid, context);
            self.send(call::span(visit, account, (context, door), before));
            for (part, verb) in account.backends.iter().zip(visit.verb.into_iter().cycle()) {
                self.ask(verb, account, part, context);
            }
        }
        true
    }

    /// Sends the spans of what was asked beside a call, if that is sampled.
    pub(super) fn settle_beside(&self, verb: Verb, account: &CallRecord) {
        let Some(context) = account.trace.filter(|context| context.sampled) else { return };
        for part in &account.backends {
            self.ask(verb, account, part, context);
        }
    }

    fn ask(&self, verb: Verb, account: &CallRecord, part: &crate::account::BackendOutcome, context: TraceContext) {
        for inquiry in &part.attempts {
            question::spans(verb, account, (part, inquiry), context).for_each(|span| self.send(span));
        }
    }

    fn send(&self, span: Span) {
        // What is sent is kept, whatever was said of it before the outcome was known.
        self.spans.send(Span { context: TraceContext { sampled: true, ..span.context }, ..span });
    }

    /// What asks for no verb is no call: probes and scans are kept as the sampler says.
    fn is_notable(&self, visit: &HttpCall) -> bool {
        let slow = || visit.took > self.choice.load().slow;
        let failed = || visit.record.as_ref().is_some_and(has_failure);
        visit.verb.is_some() && (visit.outcome != "ok" || slow() || failed())
    }
}

/// Whether some backend failed or was late, whatever that meant for the call.
fn has_failure(account: &CallRecord) -> bool {
    let failed = |inquiry: &BackendAttempt| inquiry.failure.is_some();
    account.backends.iter().any(|part| matches!(part.outcome, Outcome::Failed(_)) || part.attempts.iter().any(failed))
}
