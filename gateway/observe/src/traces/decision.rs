//! The span of a decision.

use std::{ops::Range, time::SystemTime};

use extender_gateway_api::NodeForm;
use extender_gateway_contract::change::pod_in_words;
use extender_gateway_core::Verb;
use extender_gateway_record::{BackendOutcome, CallOutcome, CallRecord, HttpCall, Outcome, RequestedNodes};
use extender_gateway_settings::Choice;
use extender_otlp::{Parent, Span, TraceContext};
use opentelemetry::{
    KeyValue,
    trace::{Event, Link, SpanId, Status},
};
use opentelemetry_semantic_conventions::attribute::{
    ERROR_TYPE, K8S_NAMESPACE_NAME, K8S_NODE_NAME, K8S_POD_NAME, K8S_POD_UID,
};

use super::names;

use crate::node_form;

/// The span of a decision, a child of the request's span, linked to the pod's previous call.
pub(super) fn span(
    http_call: &HttpCall,
    record: &CallRecord,
    context: TraceContext,
    request: SpanId,
    previous: Option<TraceContext>,
) -> Span {
    let previous = previous.map(|span| link(span, "previous call"));
    let annotated = record.annotated.map(|span| link(span, "pod annotation"));
    Span {
        parent: Parent::Local(request),
        attributes: attributes(http_call, record),
        links: previous.into_iter().chain(annotated).collect(),
        events: record.backends.iter().filter_map(|part| known_event(record, part)).collect(),
        status: status(http_call),
        ..Span::new(format!("decide {}", Verb::name_or_none(http_call.verb)), context, time(http_call))
    }
}

/// The start and end of a request.
pub(super) fn time(http_call: &HttpCall) -> Range<SystemTime> {
    let received = http_call.record.as_ref().map(|record| record.time);
    let start = received.or_else(|| SystemTime::now().checked_sub(http_call.started.elapsed()));
    let start = start.unwrap_or(SystemTime::UNIX_EPOCH);
    start..start + http_call.took
}

/// A call that ended with an error has this status, even if its HTTP status is 200.
pub(super) fn status(http_call: &HttpCall) -> Status {
    if http_call.outcome == CallOutcome::Ok {
        Status::Unset
    } else {
        Status::error(http_call.message.clone())
    }
}

/// A count as an attribute value.
pub(super) fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn link(span: TraceContext, what: &'static str) -> Link {
    Link::new(span.remote(), vec![KeyValue::new(names::LINK, what)], 0)
}

fn attributes(http_call: &HttpCall, record: &CallRecord) -> Vec<KeyValue> {
    let CallRecord { pod, backends: parts, .. } = record;
    let known: u32 = parts.iter().filter_map(|part| part.attempts.last()).map(|attempt| attempt.cached).sum();
    let mut attributes = vec![
        KeyValue::new(K8S_POD_UID, pod.uid.clone()),
        KeyValue::new(K8S_POD_NAME, pod.name.clone()),
        KeyValue::new(K8S_NAMESPACE_NAME, pod.namespace.clone()),
        KeyValue::new(names::CALL_ID, record.id.clone()),
        KeyValue::new(names::VERB, Verb::name_or_none(http_call.verb)),
        KeyValue::new(names::OUTCOME, http_call.outcome.as_str()),
        KeyValue::new(names::OFFERED, i64::from(record.nodes.count())),
        KeyValue::new(names::KNOWN, i64::from(known)),
        KeyValue::new(names::GENERATION, i64::try_from(http_call.generation).unwrap_or(i64::MAX)),
    ];
    if let Some(left) = record.left {
        attributes.push(KeyValue::new(names::LEFT, i64::from(left)));
        attributes.push(KeyValue::new(names::REJECTED, i64::from(record.nodes.count().saturating_sub(left))));
    }
    if let Some(form) = node_form(&record.nodes) {
        let form = if form == NodeForm::Names { "names" } else { "objects" };
        attributes.push(KeyValue::new(names::NODE_FORM, form));
    }
    if let RequestedNodes::Target(node) = &record.nodes {
        attributes.push(KeyValue::new(K8S_NODE_NAME, node.clone()));
    }
    if http_call.outcome != CallOutcome::Ok {
        attributes.push(KeyValue::new(ERROR_TYPE, http_call.outcome.as_str()));
    }
    attributes
}

/// The event of a backend that was not called because all of its answers were cached or prefetched.
fn known_event(record: &CallRecord, part: &BackendOutcome) -> Option<Event> {
    let attempt = part.attempts.last().filter(|attempt| attempt.rpcs.all().is_empty())?;
    if attempt.failure.is_some() {
        return None;
    }
    let mut attributes = vec![
        KeyValue::new(names::BACKEND, part.backend.name.to_string()),
        KeyValue::new(names::BACKEND_VERB, part.verb.name()),
        KeyValue::new(names::MODE, part.mode().word()),
        KeyValue::new(names::KNOWN, i64::from(attempt.cached)),
    ];
    let affected = affected(&part.outcome);
    attributes.push(if part.verb.is_hook() {
        KeyValue::new(names::CHANGED, affected)
    } else {
        KeyValue::new(names::REJECTED, affected)
    });
    attributes.extend(pod_change(&part.outcome).map(|words| KeyValue::new(names::POD_CHANGE, words)));
    attributes.extend(attempt.reads_of_pods.clone().map(|reads| KeyValue::new(names::READS_OF_PODS, reads)));
    Some(Event::new("backend", record.at(attempt.started), attributes, 0))
}

/// How many nodes a backend rejected, or a hook changed.
pub(super) fn affected(outcome: &Outcome) -> i64 {
    number(match outcome {
        Outcome::Changed(changes) => changes.changed_nodes(),
        Outcome::Filtered(filtered) => filtered.refusals.iter().map(|refusal| refusal.positions.len()).sum(),
        _ => 0,
    })
}

/// What a hook changed of the pod.
pub(super) fn pod_change(outcome: &Outcome) -> Option<String> {
    let Outcome::Changed(changes) = outcome else { return None };
    changes.pod.as_ref().map(|change| pod_in_words(change))
}
