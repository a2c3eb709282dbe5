//! Calls as OpenTelemetry traces. During a call only the id of its span exists, for the backends' metadata
//! ([`Tracer::begin`]). The spans are created after the response, from the call record, and only if they are kept:
//! if the sampler selects the call, or if it failed, was slow, or a backend was late.

mod decision;
mod request;
mod rpc;

use std::{hash::BuildHasher, mem, time::Duration};

use arc_swap::ArcSwap;
use extender_gateway_object::pod::ObjectPod;
use extender_gateway_record::{CallOutcome, CallRecord, HttpCall, Outcome, PodRef};
use extender_otlp::{Delivery, Sampler, Span, Spans, TraceContext, ids};
use foldhash::{HashMap, fast::RandomState};
use parking_lot::Mutex;

/// The attributes outside the semantic conventions, described in `docs/traces.md`.
mod names {
    pub(super) const CALL_ID: &str = "extender.call.id";
    pub(super) const VERB: &str = "extender.verb";
    pub(super) const QUEUE_DURATION: &str = "extender.queue.duration";
    pub(super) const OUTCOME: &str = "extender.outcome";
    pub(super) const NODE_FORM: &str = "extender.node_form";
    pub(super) const OFFERED: &str = "extender.nodes.offered";
    pub(super) const LEFT: &str = "extender.nodes.left";
    pub(super) const REJECTED: &str = "extender.nodes.rejected";
    /// The number of nodes with a cached or prefetched answer.
    pub(super) const KNOWN: &str = "extender.nodes.known";
    /// The number of nodes that a hook changed.
    pub(super) const CHANGED: &str = "extender.nodes.changed";
    /// What a hook changed of the pod, in words.
    pub(super) const POD_CHANGE: &str = "extender.pod.change";
    /// The hook, of a request of one.
    pub(super) const HOOK: &str = "extender.hook";
    /// What the backend reads of pods, if cached answers were used: they are those of pods that are equal in this.
    pub(super) const READS_OF_PODS: &str = "extender.backend.reads_of_pods";
    /// The number of nodes that were sent to the backend.
    pub(super) const ASKED: &str = "extender.nodes.asked";
    /// How a request to a backend names the nodes.
    pub(super) const NODES_AS: &str = "extender.nodes.form";
    /// Why a request was sent, if it is not an ordinary one.
    pub(super) const ROLE: &str = "extender.rpc.role";
    pub(super) const GENERATION: &str = "extender.configuration.generation";
    pub(super) const BACKEND: &str = "extender.backend.name";
    /// What a backend was called for, if it was not called because all its answers were known.
    pub(super) const BACKEND_VERB: &str = "extender.backend.verb";
    pub(super) const MODE: &str = "extender.mode";
    pub(super) const POLICY: &str = "extender.failure.policy";
    /// Whether a backend in shadow mode agrees with the decision.
    pub(super) const OPINION: &str = "extender.opinion";
    pub(super) const LINK: &str = "extender.link";
}

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
    settings: ArcSwap<TraceSettings>,
    latest: LatestSpans,
}

impl Tracer {
    /// A tracer that sends its spans to `spans`.
    pub fn new(spans: Spans, settings: TraceSettings) -> Self {
        Self { spans, settings: ArcSwap::from_pointee(settings), latest: LatestSpans::default() }
    }

    /// Replaces the settings.
    pub fn set(&self, settings: TraceSettings) {
        self.settings.store(settings.into());
    }

    /// The delivery status of the spans so far.
    pub fn delivery(&self) -> Delivery {
        self.spans.delivery()
    }

    /// The span of a decision about this pod, possibly a child of the caller's: all calls of a pod are kept, or none.
    pub fn begin(&self, pod: &PodRef, parent: Option<TraceContext>) -> TraceContext {
        let by = self.settings.load().sampler;
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
        let settings = self.settings.load();
        TraceContext::parse(pod.annotation(settings.annotation.as_deref()?)?).ok()
    }

    /// Sends the spans of a request, if they are kept. Returns whether they are.
    pub(super) fn record(&self, http_call: &HttpCall) -> bool {
        let context = http_call.record.as_ref().and_then(|record| record.trace);
        let context = context.unwrap_or_else(|| self.begin(&PodRef::default(), http_call.parent));
        if !context.sampled && !self.is_notable(http_call) {
            return false;
        }
        let request = ids::span();
        self.send(request::span(http_call, TraceContext { span_id: request, ..context }));
        if let Some(record) = &http_call.record {
            let previous = self.latest.replace(&record.pod.uid, context);
            self.send(decision::span(http_call, record, context, request, previous));
            self.send_rpcs(record, context);
        }
        true
    }

    /// Sends the spans of shadow calls, if the call is sampled.
    pub(super) fn record_shadow(&self, record: &CallRecord) {
        if let Some(context) = record.trace.filter(|context| context.sampled) {
            self.send_rpcs(record, context);
        }
    }

    fn send_rpcs(&self, record: &CallRecord, decision: TraceContext) {
        for part in &record.backends {
            for attempt in &part.attempts {
                rpc::spans(record, part, attempt, decision).for_each(|span| self.send(span));
            }
        }
    }

    fn send(&self, span: Span) {
        // Spans that are sent are marked as sampled, whatever the sampler decided before the outcome was known.
        self.spans.send(Span { context: TraceContext { sampled: true, ..span.context }, ..span });
    }

    /// Requests without a verb, such as probes and scans, are kept only if the sampler selects them.
    fn is_notable(&self, http_call: &HttpCall) -> bool {
        let slow = || http_call.took > self.settings.load().slow;
        let failed = || http_call.record.as_ref().is_some_and(has_failure);
        http_call.verb.is_some() && (http_call.outcome != CallOutcome::Ok || slow() || failed())
    }
}

/// Whether some backend failed or was late, regardless of the effect on the call.
fn has_failure(record: &CallRecord) -> bool {
    record.backends.iter().any(|part| {
        let failed = part.attempts.iter().any(|attempt| attempt.failure.is_some());
        failed || matches!(part.outcome, Outcome::Failed(_))
    })
}

/// The most pods per generation of [`LatestSpans`].
const MAX_PODS: usize = 8192;

/// The latest kept span of each pod, to which the next one is linked, by the hash of the pod's UID, which may have
/// any length. The current and the previous generation: a pod is dropped after [`MAX_PODS`] others were used.
#[derive(Debug, Default)]
struct LatestSpans {
    spans: Mutex<[HashMap<u64, TraceContext>; 2]>,
    hasher: RandomState,
}

impl LatestSpans {
    /// Replaces the span of the pod and returns the previous one.
    fn replace(&self, uid: &str, span: TraceContext) -> Option<TraceContext> {
        if uid.is_empty() {
            return None;
        }
        let uid = self.hasher.hash_one(uid);
        let mut spans = self.spans.lock();
        let [current, previous] = &mut *spans;
        if let Some(known) = current.get_mut(&uid) {
            return Some(mem::replace(known, span));
        }
        if current.len() >= MAX_PODS {
            *previous = mem::take(current);
        }
        current.insert(uid, span);
        previous.remove(&uid)
    }
}

#[cfg(test)]
mod tests;
