//! Backends that break a rule rarely: it depends on sizes, times, names or data that few questions have.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicUsize, Ordering},
    },
    time::{Duration, Instant},
};

use bytes::Bytes;
use extender_policy_api::v1beta1 as api;
use prost::Message as _;
use tonic::Code;

use super::{
    changes::{Sent, before, called, flips, info, is_labeled, is_verb, refuses, sent, streams, with_args},
    faults::{forgetful, rejections, without_reasons},
    outcomes::{refuses_outcomes, takes_as},
    proxy::Fault,
    streams::StreamFault,
    subjects::Subject::{self, Filters, Reading},
};
use crate::question::args_sha256;

/// The case that notices, what the wrong answers depend on, and the backend.
pub(super) type Wrong = (&'static str, &'static str, Subject, Fault);

pub(super) fn all() -> Vec<Wrong> {
    [sizes(), times(), calls(), args(), undeclared(), handshakes(), reasons(), outcomes()]
        .into_iter()
        .flatten()
        .collect()
}

/// Answers differ where this holds.
fn differs(
    case: &'static str,
    by: &'static str,
    when: impl Fn(&Sent) -> bool + Send + Sync + 'static,
) -> Wrong {
    (case, by, Reading, flips(move |_, sent| when(sent)))
}

fn sizes() -> Vec<Wrong> {
    let many = |sent: &Sent| sent.nodes.count > 5_000;
    vec![
        differs("filter.per-node-sizes", "more than 5,000 nodes", many),
        differs("score.per-node-sizes", "certain numbers", |sent| sent.nodes.count % 7 == 3),
        differs("table.huge", "many nodes of a table", move |sent| sent.by_table().is_some() && many(sent)),
    ]
}

fn times() -> Vec<Wrong> {
    let (first, asked, mixed) = (Mutex::new(None), AtomicUsize::new(0), AtomicUsize::new(0));
    let clock = move |_: &Sent| {
        let mut first = first.lock().unwrap_or_else(PoisonError::into_inner);
        first.get_or_insert_with(Instant::now).elapsed() > Duration::from_millis(100)
    };
    let before = |counter: &AtomicUsize, sent: &Sent| {
        counter.fetch_add(usize::try_from(sent.nodes.count).unwrap(), Ordering::SeqCst)
    };
    // As good as random: one large question among some.
    let rarely = move |sent: &Sent| before(&mixed, sent) % 7_000 < 1_000 && sent.nodes.count == 1_000;
    vec![
        differs("filter.pure-again", "a clock", clock),
        differs("filter.pure-again", "a counter", move |sent| before(&asked, sent) > 10_000),
        differs("filter.pure-again", "chance", rarely),
    ]
}

fn calls() -> Vec<Wrong> {
    let any_table = before(|ask, state| {
        let tables = state.tables.lock().unwrap_or_else(PoisonError::into_inner);
        let named = sent(ask).and_then(|sent| sent.by_table().map(|nodes| nodes.table.clone()));
        let open = named.filter(|named| !tables.contains_key(named)).and_then(|_| tables.keys().next());
        let Some(open) = open else { return Ok(ask.message.clone()) };
        let mut request = api::FilterRequest::decode(ask.message.clone()).unwrap();
        if let Some(api::nodes::Form::Table(nodes)) = &mut request.nodes.as_mut().unwrap().form {
            nodes.table.clone_from(open);
        }
        Ok(request.encode_to_vec().into())
    });
    let other = |name: &str| name.len() == 11 && name != "conformance";
    vec![
        differs("filter.pure-call", "the length of a name", |sent| sent.call.backend.len() > 40),
        differs("filter.pure-call", "a name", move |sent| other(&sent.call.backend)),
        ("filter.no-handshake", "the connection", Reading, flips(|ask, _| ask.connection > 0)),
        ("table.unknown", "any table", Reading, any_table),
        ("table.other-reads", "what is not declared", Reading, streams(StreamFault::TakesMore)),
    ]
}

fn args() -> Vec<Wrong> {
    let never =
        refuses(|ask| sent(ask).is_some_and(|sent| !sent.call.args.is_empty()), Code::FailedPrecondition);
    let any = before(|ask, _| Ok(called(ask, |call| call.args_sha256 = args_sha256(&call.args))));
    vec![
        ("filter.args-unknown", "no reason", Reading, without_reasons()),
        ("filter.args-unknown", "args that come too late", Reading, never),
        ("filter.args-known", "args that are forgotten", Filters, forgetful()),
        ("beforeScore.args-digest", "whichever digest", Reading, any),
    ]
}

fn undeclared() -> Vec<Wrong> {
    const CASE: &str = "filter.undeclared-data";
    let facts = |sent: &Sent| sent.pod.facts.clone().unwrap_or_default();
    let usage = |sent: &Sent| sent.rows().iter().any(|row| row.usage.is_some());
    let raw_rows = |sent: &Sent| sent.rows().iter().any(|row| !row.raw_json.is_empty());
    let raw_pod = |sent: &Sent| !sent.pod.raw_json.is_empty();
    let mut all = vec![
        differs(CASE, "rack=r1", move |sent| sent.facts().any(|facts| is_labeled(facts, "rack", "r1"))),
        differs(CASE, "nominated pods", |sent| sent.rows().iter().any(|row| row.nominated.is_some())),
        differs(CASE, "a namespace", move |sent| facts(sent).namespace.starts_with("kube-")),
        differs(CASE, "a claim", move |sent| facts(sent).volumes.iter().any(|of| of.claim == "claim")),
        differs(CASE, "the pod's name", |sent| {
            sent.pod.identity.as_ref().is_some_and(|of| of.name == "web-1")
        }),
    ];
    for subject in [Reading, Filters] {
        let usage = (CASE, "usage", subject, flips(move |_, sent| usage(sent)));
        let raw_rows = (CASE, "JSON of nodes", subject, flips(move |_, sent| raw_rows(sent)));
        all.extend([
            usage,
            raw_rows,
            (CASE, "JSON of the pod", subject, flips(move |_, sent| raw_pod(sent))),
        ]);
    }
    all
}

fn handshakes() -> Vec<Wrong> {
    let limit = |bytes| info(move |info, _| info.max_request_bytes = bytes);
    vec![
        ("handshake.max-request-bytes", "1,000 bytes", Reading, limit(1_000)),
        ("handshake.max-request-bytes", "any number of bytes", Reading, limit(u64::MAX)),
    ]
}

fn outcomes() -> Vec<Wrong> {
    let refuses = |when: fn(&api::ReportRequest) -> bool| {
        refuses_outcomes(Code::AlreadyExists, move |_, request| when(request))
    };
    let twice = |request: &api::ReportRequest| {
        request.outcomes.len() == 2 && request.outcomes[0] == request.outcomes[1]
    };
    let unknown = |request: &api::ReportRequest| request.outcomes.iter().any(|outcome| outcome.kind > 4);
    let many = |request: &api::ReportRequest| request.outcomes.len() > 100;
    vec![
        ("outcomes.again", "the same outcome twice in a request", Reading, refuses(twice)),
        ("outcomes.unknown-pod", "many outcomes", Reading, refuses(many)),
        (
            "outcomes.invalid",
            "any but the first outcome",
            Reading,
            takes_as(|request| request.outcomes.truncate(1)),
        ),
        ("outcomes.later-gateway", "kinds that it does not know", Reading, refuses(unknown)),
        ("outcomes.args-unknown", "no reason", Reading, without_reasons()),
    ]
}

fn reasons() -> Vec<Wrong> {
    ["\r", "\n", "\0", "%"].map(|text| ("filter.one-line", text, Reading, ending_in(text))).into()
}

/// Each reason ends in this text.
pub(super) fn ending_in(text: &'static str) -> Fault {
    rejections(move |response| response.rejections.iter_mut().for_each(|of| of.reason.push_str(text)))
}

/// All calls are answered by the args of the latest handshake.
pub(super) fn mixed_args() -> Fault {
    let latest = Mutex::new(Bytes::new());
    before(move |ask, _| {
        let mut latest = latest.lock().unwrap_or_else(PoisonError::into_inner);
        if ask.method == "GetInfo" {
            *latest = api::GetInfoRequest::decode(ask.message.clone()).unwrap().args;
        }
        let is_verb = is_verb(&ask.method);
        Ok(if is_verb { called(ask, |call| with_args(call, &latest)) } else { ask.message.clone() })
    })
}
