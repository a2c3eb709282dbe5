//! This gateway keeps the rules of the policy API, and the suite that judges it notices gateways that do not.

use std::path::PathBuf;

use bytes::Bytes;
use conformance_report::{Finding, Outcome, Selection};
use extender_policy_api::v1beta1::{self as api, FilterRequest, GetInfoRequest, nodes::Form};
use futures_util::{StreamExt as _, stream};
use gateway_conformance::{Act, Fault, Launcher, all, run};
use prost::Message;
use serde_json::{Value, json};

async fn judged(fault: Fault, only: &[&str]) -> Vec<Finding> {
    let launcher = Launcher::ExtenderGateway(PathBuf::from(env!("CARGO_BIN_EXE_extender-gateway")));
    let only = only.iter().map(|name| (*name).to_owned()).collect();
    run(&launcher, &Selection { only, ..Selection::default() }, &fault, |_| {}).await
}

fn failed(findings: &[Finding]) -> Vec<&str> {
    let failed = findings.iter().filter(|finding| finding.outcome.fails(true));
    failed.map(|finding| finding.case.name()).collect()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn this_gateway_conforms() {
    let findings = judged(Fault::default(), &[]).await;
    let wrong: Vec<_> = findings.iter().filter(|finding| finding.outcome != Outcome::Passed).collect();
    assert!(wrong.is_empty(), "{wrong:#?}");
    assert_eq!(findings.len(), all().len());
}

/// A gateway that changes each request of filter in this way.
fn sends(change: impl Fn(&mut FilterRequest) + Send + Sync + 'static) -> Fault {
    Fault::in_request(move |method, message| match (method, FilterRequest::decode(message.clone())) {
        ("Filter", Ok(mut request)) => {
            change(&mut request);
            request.encode_to_vec().into()
        }
        _ => message,
    })
}

/// One that changes the call alone.
fn calls(change: impl Fn(&mut api::Call) + Send + Sync + 'static) -> Fault {
    sends(move |request| change(request.call.get_or_insert_default()))
}

fn rows(change: impl Fn(&mut Vec<api::NodeRow>) + Send + Sync + 'static) -> Fault {
    sends(move |request| {
        if let Some(Form::Rows(rows)) = &mut request.nodes.get_or_insert_default().form {
            change(&mut rows.rows);
        }
    })
}

/// One that understands every answer of this method as this one.
fn reads(method: &'static str, answer: &impl Message) -> Fault {
    let answer = answer.encode_to_vec();
    Fault::in_answer(move |called, act| if called == method { Act::Message(answer.clone()) } else { act })
}

/// One that answers kube-scheduler in another way.
fn replies(verb: &'static str, change: impl Fn(&mut Value) + Send + Sync + 'static) -> Fault {
    Fault::in_reply(move |called, mut body| {
        if called == verb {
            change(&mut body);
        }
        body
    })
}

fn handshake(change: impl Fn(&mut api::Known) + Send + Sync + 'static) -> Fault {
    Fault::in_request(move |method, message| {
        let Ok(mut request) = GetInfoRequest::decode(message.clone()) else { return message };
        change(request.known.get_or_insert_default());
        if method == "GetInfo" { request.encode_to_vec().into() } else { message }
    })
}

/// Bugs of gateways, each with a case that fails because of it.
fn bugs() -> Vec<(&'static str, Fault)> {
    let counted = |evaluated| api::Result::answered(evaluated, "");
    let fits = api::FilterResponse { result: Some(counted(3)), ..Default::default() };
    vec![
        ("calls.id", calls(|call| call.id.push_str(&call.backend.clone()))),
        ("calls.fields", calls(|call| call.set_purpose(api::Purpose::Shadow))),
        ("calls.reads", calls(|call| call.reads.clear())),
        ("calls.args", calls(|call| call.args_sha256.clear())),
        ("calls.args-unknown", calls(|call| call.args.clear())),
        ("calls.count", sends(|request| request.nodes.get_or_insert_default().count += 1)),
        ("calls.whole-set", rows(|rows| rows.reverse())),
        ("calls.too-large", rows(|rows| rows[0].raw_json = vec![0; 20_000].into())),
        ("reads.name", rows(|rows| rows[0].facts = Some(api::NodeFacts::default()))),
        ("reads.parts", sends(|request| request.pod.get_or_insert_default().identity = None)),
        ("reads.equal-bytes", Fault::in_request(reversed_facts)),
        ("rounds.wanted", sends(|request| request.want_scores = true)),
        ("handshake.known", handshake(|known| known.verbs.reverse())),
        ("failures.fewer", reads("Filter", &fits)),
        ("failures.unavailable", reads("Filter", &fits)),
        ("failures.no-result", replies("filter", |body| body["Error"] = "".into())),
        ("rejections.reasons", replies("filter", |body| body["FailedAndUnresolvableNodes"] = json!({}))),
        (
            "rejections.unresolvable",
            replies("filter", |body| {
                body["FailedNodes"] = body["FailedAndUnresolvableNodes"].take();
            }),
        ),
        ("http.names", replies("filter", |body| body["Nodes"] = json!({"items": []}))),
        (
            "scores.half-up",
            replies("prioritize", |scores| {
                for score in scores.as_array_mut().into_iter().flatten() {
                    score["Score"] = (score["Score"].as_i64().unwrap_or_default().max(0)).into();
                }
            }),
        ),
        ("preempt.in-turn", Fault::in_request(preempts_at_nothing)),
        (
            "hooks.pod-evaluated",
            reads("BeforeFilter", &api::ChangeResponse { result: Some(counted(1)), ..Default::default() }),
        ),
        ("bind.not-bound-fail", replies("bind", |body| body["Error"] = "".into())),
        (
            "outcomes.not-bound",
            Fault::in_request(|method, message| match method {
                "Report" => Bytes::new(),
                _ => message,
            }),
        ),
    ]
}

/// The fields of the pod's facts in another order: the labels before the namespace.
fn reversed_facts(method: &str, message: Bytes) -> Bytes {
    let Ok(request) = FilterRequest::decode(message.clone()) else { return message };
    let facts = request.pod.clone().unwrap_or_default().facts.unwrap_or_default();
    let labels = api::PodFacts { labels: facts.labels.clone(), ..Default::default() }.encode_to_vec();
    let rest = api::PodFacts { labels: None, ..facts }.encode_to_vec();
    if method != "Filter" || rest.is_empty() {
        return message;
    }
    let facts = [labels, rest].concat();
    let nested = |number: u8, content: &[u8]| {
        let mut field = vec![number << 3 | 2];
        prost::encoding::encode_varint(content.len() as u64, &mut field);
        [field, content.to_vec()].concat()
    };
    let rest = FilterRequest { pod: None, ..request }.encode_to_vec();
    [rest, nested(2, &nested(2, &facts))].concat().into()
}

/// Candidates without their victims.
fn preempts_at_nothing(method: &str, message: Bytes) -> Bytes {
    let Ok(mut request) = api::PreemptRequest::decode(message.clone()) else { return message };
    request.candidates.iter_mut().for_each(|candidate| candidate.victims.clear());
    if method == "Preempt" { request.encode_to_vec().into() } else { message }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_gateway_with_a_bug_fails() {
    let noticed = stream::iter(bugs()).map(async |(name, fault)| {
        let findings = judged(fault, &[name]).await;
        (name, failed(&findings).contains(&name))
    });
    let noticed: Vec<_> = noticed.buffered(4).collect().await;
    let unnoticed: Vec<_> = noticed.into_iter().filter(|(_, is_noticed)| !is_noticed).collect();
    assert!(
        unnoticed.is_empty(),
        "these cases do not notice a gateway that breaks their rule: {unnoticed:?}"
    );
}

#[tokio::test]
async fn a_gateway_that_does_not_start_is_one_failure() {
    for program in ["/bin/true", "/missing"] {
        let launcher = Launcher::Program(PathBuf::from(program), Vec::new());
        let findings = run(&launcher, &Selection::default(), &Fault::default(), |_| {}).await;
        assert_eq!(failed(&findings).len(), 1, "{program}");
        assert!(findings.len() >= 60);
    }
}
