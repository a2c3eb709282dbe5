//! The span of a decision.

use extender_gateway_core::Verb;
use std::time::SystemTime;

use extender_otlp::{Parent, Span, TraceContext};
use opentelemetry::{
    KeyValue,
    trace::{Event, Link, SpanId},
};
use opentelemetry_semantic_conventions::attribute::{
    ERROR_TYPE, K8S_NAMESPACE_NAME, K8S_NODE_NAME, K8S_POD_NAME, K8S_POD_UID,
};

use super::{door, names};
use crate::{
    account::{CallRecord, RequestedNodes, BackendOutcome, Outcome, HttpCall},
    config::Choice,
    wire::Offer,
};

/// The span of a decision, `door`'s child, and the pod's call before.
pub(super) fn span(
    visit: &HttpCall,
    account: &CallRecord,
    (context, door): (TraceContext, SpanId),
    before: Option<TraceContext>,
) -> Span {
    let (start, end) = time(visit);
    let previous = before.map(|span| link(span, "previous call"));
    let annotated = account.annotated.map(|span| link(span, "pod annotation"));
    Span {
        parent: Parent::Local(door),
        attributes: attributes(visit, account),
        links: previous.into_iter().chain(annotated).collect(),
        events: account.backends.iter().filter_map(|part| unasked(account, part)).collect(),
        status: door::status(visit),
        ..Span::new(format!("decide {}", Verb::name_or_none(visit.verb)), context, start..end)
    }
}

/// When a request came and was answered.
pub(super) fn time(visit: &HttpCall) -> (SystemTime, SystemTime) {
    let came = visit.record.as_ref().map(|account| account.time);
    let start = came.or_else(|| SystemTime::now().checked_sub(visit.started.elapsed()));
    let start = start.unwrap_or(SystemTime::UNIX_EPOCH);
    (start, start + visit.took)
}

/// A count as attributes have it.
pub(super) fn number(count: usize) -> i64 {
    i64::try_from(count).unwrap_or(i64::MAX)
}

fn link(span: TraceContext, what: &'static str) -> Link {
    Link::new(span.remote(), vec![KeyValue::new(names::LINK, what)], 0)
}

fn attributes(visit: &HttpCall, account: &CallRecord) -> Vec<KeyValue> {
    let CallRecord { pod, backends: parts, .. } = account;
    let known: u32 = parts.iter().filter_map(|part| part.attempts.last()).map(|inquiry| inquiry.cached).sum();
    let mut attributes = vec![
        KeyValue::new(K8S_POD_UID, pod.uid.clone()),
        KeyValue::new(K8S_POD_NAME, pod.name.clone()),
        KeyValue::new(K8S_NAMESPACE_NAME, pod.namespace.clone()),
        KeyValue::new(names::CALL_ID, account.id.clone()),
        KeyValue::new(names::VERB, Verb::name_or_none(visit.verb)),
        KeyValue::new(names::OUTCOME, visit.outcome),
        KeyValue::new(names::OFFERED, i64::from(account.nodes.count())),
        KeyValue::new(names::KNOWN, i64::from(known)),
        KeyValue::new(names::GENERATION, i64::try_from(visit.generation).unwrap_or(i64::MAX)),
    ];
    if let Some(left) = account.left {
        attributes.push(KeyValue::new(names::LEFT, i64::from(left)));
        attributes
            .push(KeyValue::new(names::REJECTED, i64::from(account.nodes.count().saturating_sub(left))));
    }
    match &account.nodes {
        RequestedNodes::Offered(request) => attributes.push(KeyValue::new(
            names::NODE_FORM,
            if matches!(request.offer, Offer::Names) { "names" } else { "objects" },
        )),
        RequestedNodes::Candidates(_) | RequestedNodes::CountOnly(_) => {}
        RequestedNodes::Target(node) => attributes.push(KeyValue::new(K8S_NODE_NAME, node.clone())),
    }
    if visit.outcome != "ok" {
        attributes.push(KeyValue::new(ERROR_TYPE, visit.outcome));
    }
    attributes
}

/// What is said of a backend that had a part without being asked: all of its answers were known.
fn unasked(account: &CallRecord, part: &BackendOutcome) -> Option<Event> {
    let inquiry = part.attempts.last().filter(|inquiry| inquiry.rpcs.all().is_empty())?;
    if inquiry.failure.is_some() {
        return None;
    }
    let attributes = vec![
        KeyValue::new(names::BACKEND, part.backend.settings.name.to_string()),
        KeyValue::new(names::MODE, part.backend.settings.mode.word()),
        KeyValue::new(names::KNOWN, i64::from(inquiry.cached)),
        KeyValue::new(names::REJECTED, i64::from(rejected(&part.outcome))),
    ];
    Some(Event::new("backend", account.at(inquiry.started), attributes, 0))
}

/// How many nodes a backend rejected.
pub(super) fn rejected(said: &Outcome) -> u32 {
    let Outcome::Filtered(heard) = said else { return 0 };
    let rejected: usize = heard.refusals.iter().map(|refusal| refusal.positions.len()).sum();
    u32::try_from(rejected).unwrap_or(u32::MAX)
}
