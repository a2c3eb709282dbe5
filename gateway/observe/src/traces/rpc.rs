//! The spans of requests to backends, by the semantic conventions for RPC clients.

use extender_gateway_core::{FailureKind, PolicyVerb};
use extender_gateway_record::{BackendAttempt, BackendOutcome, CallRecord, Outcome, RpcRole};
use extender_gateway_settings::Choice;
use extender_otlp::{Parent, Span, TraceContext};
use opentelemetry::{
    KeyValue,
    trace::{SpanKind, Status},
};
use opentelemetry_semantic_conventions::attribute::{
    ERROR_TYPE, RPC_METHOD, RPC_RESPONSE_STATUS_CODE, RPC_SYSTEM_NAME, SERVER_ADDRESS, SERVER_PORT,
};

use super::{decision, names};

/// The spans of the requests to a backend in one attempt. A request that could not be sent has a span with the error.
pub(super) fn spans(
    record: &CallRecord,
    part: &BackendOutcome,
    attempt: &BackendAttempt,
    decision: TraceContext,
) -> impl Iterator<Item = Span> {
    let (verb, rpcs) = (part.verb, attempt.rpcs.all());
    let sent = (1..).zip(rpcs).map(move |(at, rpc)| {
        // Only the last request's failure is known.
        let failure = if at == rpcs.len() { attempt.failure } else { rpc.failure };
        let start = record.at(rpc.started);
        let context = rpc.span.unwrap_or_else(|| decision.child());
        let mut span = Span::new(name(verb), context, start..start + rpc.took);
        span.attributes = attributes(verb, part, attempt);
        span.attributes.push(KeyValue::new(RPC_RESPONSE_STATUS_CODE, rpc.code));
        span.attributes.push(KeyValue::new(names::NODES_AS, rpc.form.as_str()));
        if !rpc.queued.is_zero() {
            span.attributes.push(KeyValue::new(names::QUEUE_DURATION, rpc.queued.as_secs_f64()));
        }
        span.attributes.extend(role(rpc.role).map(|role| KeyValue::new(names::ROLE, role)));
        failed(span, part, failure)
    });
    let not_sent = attempt.failure.filter(|_| rpcs.is_empty()).map(|failure| {
        let start = record.at(attempt.started);
        let mut span = Span::new(name(verb), decision.child(), start..start + attempt.took);
        span.attributes = attributes(verb, part, attempt);
        failed(span, part, Some(failure))
    });
    sent.chain(not_sent).map(move |span| Span {
        kind: SpanKind::Client,
        parent: Parent::Local(decision.span_id),
        ..span
    })
}

/// `None` for an ordinary request.
fn role(role: RpcRole) -> Option<&'static str> {
    match role {
        RpcRole::Call => None,
        RpcRole::Probe => Some("probe"),
        RpcRole::Retry => Some("retry"),
    }
}

/// The full name of the method in the newest package, so that traces of backends that speak an older one read alike.
fn name(verb: PolicyVerb) -> &'static str {
    match verb {
        PolicyVerb::Filter => "extender.policy.v1beta1.PolicyService/Filter",
        PolicyVerb::Score => "extender.policy.v1beta1.PolicyService/Score",
        PolicyVerb::Preempt => "extender.policy.v1beta1.PolicyService/Preempt",
        PolicyVerb::Bind => "extender.policy.v1beta1.PolicyService/Bind",
        PolicyVerb::BeforeFilter | PolicyVerb::BeforeFilterNodes | PolicyVerb::BeforeScore => {
            "extender.policy.v1beta1.HookService/Change"
        }
    }
}

fn attributes(verb: PolicyVerb, part: &BackendOutcome, attempt: &BackendAttempt) -> Vec<KeyValue> {
    let settings = &part.backend;
    let mut attributes = vec![
        KeyValue::new(RPC_SYSTEM_NAME, "grpc"),
        KeyValue::new(RPC_METHOD, name(verb)),
        KeyValue::new(SERVER_ADDRESS, settings.url.host().to_owned()),
        KeyValue::new(SERVER_PORT, i64::from(settings.url.port())),
        KeyValue::new(names::BACKEND, settings.name.to_string()),
        KeyValue::new(names::MODE, part.mode().word()),
        KeyValue::new(names::ASKED, i64::from(attempt.requested)),
        KeyValue::new(names::KNOWN, i64::from(attempt.cached)),
    ];
    let affected = decision::affected(&part.outcome);
    if part.verb.is_hook() {
        attributes.push(KeyValue::new(names::HOOK, part.verb.name()));
        attributes.push(KeyValue::new(names::CHANGED, affected));
    } else {
        attributes.push(KeyValue::new(names::REJECTED, affected));
    }
    attributes
        .extend(decision::pod_change(&part.outcome).map(|words| KeyValue::new(names::POD_CHANGE, words)));
    attributes.extend(attempt.reads_of_pods.clone().map(|reads| KeyValue::new(names::READS_OF_PODS, reads)));
    if let Some(agreement) = part.agreement {
        attributes.push(KeyValue::new(names::OPINION, agreement.as_str()));
    }
    attributes
}

fn failed(mut span: Span, part: &BackendOutcome, failure: Option<FailureKind>) -> Span {
    let Some(kind) = failure else { return span };
    let detail = match &part.outcome {
        Outcome::Failed(failure) => failure.detail.clone(),
        _ => String::new(),
    };
    span.status = Status::error(detail);
    span.attributes.push(KeyValue::new(ERROR_TYPE, kind.as_str()));
    span.attributes.push(KeyValue::new(names::POLICY, part.policy.as_str()));
    span
}
