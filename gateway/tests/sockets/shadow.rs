//! Backends in shadow: called in the background, counted, never merged.

use crate::support::{
    Gateway,
    backend::{Act, Scripted, configured as backend, info as filtering, rows},
    by_name, ended,
    function::labelled,
    preempting::{adding, call, info, keeping, kept, left, request, sparing},
    reading, until,
};
use extender_gateway_core::Verb as CallVerb;
use extender_policy_api::v1beta1::{self as api, FilterRequest, GetInfoResponse, Purpose, Verb};
use prost::Message;
use serde_json::json;

/// Waits until a shadow's answer has been counted.
async fn counted(gateway: &Gateway, shadow: &str, verb: &str, outcome: &str) {
    let labels = format!("backend=\"{shadow}\",verb=\"{verb}\",outcome=\"{outcome}\"");
    let line = format!("extender_gateway_backend_shadow_answers_total{{{labels}}} 1");
    gateway.until_counted("the shadow", &line).await;
}

#[tokio::test]
async fn a_backend_in_shadow_is_asked_and_never_merged() {
    let shadow = Scripted::refusing(&["a"], "no", 3).await;
    let real = Scripted::refusing(&["b"], "no", 4).await;
    let settings = "filter: {timeout: 60s}, score: {timeout: 60s}";
    let configured = backend("shadow", &shadow, &format!("mode: Shadow, {settings}"));
    let real = backend("real", &real, settings);
    let gateway = Gateway::start(&format!(
        "nodes: {{source: Request}}\ntimeouts: {{decision: 60s}}\nbackends:\n{configured}{real}"
    ))
    .await;
    let kept = gateway.post("/filter", by_name(&["a", "b"])).await.json()["NodeNames"].clone();
    assert_eq!(kept, json!(["a"]));
    let scores = gateway.post("/prioritize", by_name(&["a"])).await.json();
    assert_eq!(scores, json!([{"Host": "a", "Score": 4}]));
    counted(&gateway, "shadow", "filter", "disagrees").await;
    counted(&gateway, "shadow", "score", "agrees").await;
    let asked = FilterRequest::decode(shadow.messages("Filter")[0].clone()).unwrap();
    assert_eq!(asked.call.unwrap().purpose(), Purpose::Shadow);
}

#[tokio::test]
async fn a_shadow_that_is_down_has_failed() {
    let real = Scripted::refusing(&["b"], "no", 4).await;
    let settings = "filter: {timeout: 60s}, score: {timeout: 60s}";
    let real = backend("real", &real, settings);
    let down = format!(
        "- {{name: down, url: 'http://127.0.0.1:1', mode: Shadow, {settings}, preempt: {{timeout: 60s}}}}\n"
    );
    let sources = "nodes: {source: Watch}\npods: {source: Watch}\ntimeouts: {decision: 60s}";
    let gateway = Gateway::start(&format!("{sources}\nbackends:\n{real}{down}")).await;
    gateway.post("/filter", by_name(&["a", "b"])).await;
    gateway.post("/prioritize", by_name(&["a"])).await;
    gateway.post("/preempt", call()).await;
    for verb in ["filter", "score", "preempt"] {
        counted(&gateway, "down", verb, "failed").await;
        let labels = format!("backend=\"down\",verb=\"{verb}\",kind=\"unreachable\",policy=\"none\"");
        let line = format!("extender_gateway_backend_failures_total{{{labels}}} 1\n");
        assert!(gateway.metrics.text().contains(&line), "{}", gateway.metrics.text());
    }
}

/// Nobody waits for a shadow, so all of its time is left when it is asked.
#[tokio::test]
async fn a_shadow_has_exactly_its_timeout() {
    let victims = Scripted::start(info(reading::names()), |_, _| Act::Hang).await;
    let nodes = Scripted::always(Act::Hang).await;
    let short = backend("short", &nodes, "mode: Shadow, filter: {timeout: 1ms}, score: {timeout: 499ms}");
    let other = backend("other", &victims, "mode: Shadow, preempt: {timeout: 1ms}");
    let gateway = Gateway::start(&format!("nodes: {{source: Request}}\nbackends:\n{short}{other}")).await;
    for (path, method, backend, body, told) in [
        ("/prioritize", "Score", &nodes, by_name(&["a"]), "499000u"),
        ("/filter", "Filter", &nodes, by_name(&["a"]), "1000u"),
        ("/preempt", "Preempt", &victims, call(), "1000u"),
    ] {
        let asked = async {
            // The end of a millisecond can come before the request.
            while backend.metadata(method, "grpc-timeout").is_empty() {
                gateway.post(path, &body).await;
            }
        };
        ended("it is not asked", asked).await;
        assert_eq!(backend.metadata(method, "grpc-timeout")[0], told);
    }
}

/// The result of [`call`] with the backend `real`, which spares u2.
fn decided() -> serde_json::Value {
    left(&[("n1", &["u1"], 1), ("n2", &["u3"], 0)])
}

/// A gateway with these shadows that preempt, and the one whose answers count.
async fn beside(shadows: &[(&str, &Scripted, &str)]) -> Gateway {
    let real = sparing(&[], &["u2"]).await;
    let shadows = shadows.iter().map(|(name, shadow, preempt)| {
        backend(name, shadow, &format!("mode: Shadow, preempt: {{timeout: 60s{preempt}}}"))
    });
    let backends: String = shadows.chain([backend("real", &real, "preempt: {timeout: 60s}")]).collect();
    let sources = "nodes: {source: Watch}\npods: {source: Watch}\ntimeouts: {decision: 60s}";
    Gateway::start(&format!("{sources}\nbackends:\n{backends}")).await
}

#[tokio::test]
async fn a_shadow_that_would_change_the_victims_disagrees_and_changes_nothing() {
    let agreeing = sparing(&[], &[]).await;
    let dropping = sparing(&["n2"], &[]).await;
    let adding = keeping(reading::names(), vec![adding(0, &[0], &["u9"]), kept(1, &[0])]).await;
    let failing = keeping(reading::names(), vec![kept(7, &[0])]).await;
    let sparing_all = sparing(&[], &["u1"]).await;
    let gateway = beside(&[
        ("agreeing", &agreeing, ""),
        ("dropping", &dropping, ""),
        ("allowed", &adding, ", addedVictims: Allowed"),
        ("refused", &adding, ""),
        ("failing", &failing, ", failurePolicy: Ignore"),
        ("strict", &sparing_all, ""),
        ("lenient", &sparing_all, ", failurePolicy: Ignore"),
    ])
    .await;
    assert_eq!(gateway.post("/preempt", call()).await.json(), decided());
    for (shadow, outcome) in [
        ("agreeing", "agrees"),
        ("dropping", "disagrees"),
        ("allowed", "disagrees"),
        ("refused", "failed"),
        ("failing", "failed"),
        ("strict", "failed"),
        ("lenient", "disagrees"),
    ] {
        counted(&gateway, shadow, "preempt", outcome).await;
    }
    let asked = request(&agreeing.messages("Preempt")[0]);
    assert_eq!(asked.call.unwrap().purpose(), Purpose::Shadow);
    let victims: Vec<usize> = asked.candidates.iter().map(|candidate| candidate.victims.len()).collect();
    assert_eq!(victims, [1, 1], "what is left");
}

#[tokio::test]
async fn nothing_waits_for_a_shadow() {
    let hanging = Scripted::start(info(reading::names()), |_, _| Act::Hang).await;
    let facts = keeping(reading::facts(), vec![kept(0, &[0])]).await;
    let gateway = beside(&[("hanging", &hanging, ""), ("facts", &facts, "")]).await;
    assert_eq!(gateway.post("/preempt", call()).await.json(), decided());
    assert!(!gateway.metrics.text().contains("shadow_answers_total{backend=\"hanging\""), "it still thinks");
    until("it is not asked", || !hanging.messages("Preempt").is_empty()).await;
    assert!(facts.messages("Preempt").is_empty(), "no node is known");
}

#[tokio::test]
async fn a_shadow_whose_verb_changes_something_is_not_asked() {
    let mut changing: GetInfoResponse = info(reading::names());
    for verb in changing.verbs.iter_mut().filter(|verb| verb.verb() == Verb::Preempt) {
        verb.set_effects(api::Effects::ChangesOutside);
    }
    let changing = Scripted::start(changing, |_, _| Act::Hang).await;
    let other = sparing(&[], &[]).await;
    let gateway = beside(&[("changing", &changing, ""), ("other", &other, "")]).await;
    assert_eq!(gateway.post("/preempt", call()).await.json(), decided());
    counted(&gateway, "other", "preempt", "agrees").await;
    assert!(changing.messages("Preempt").is_empty());
    assert!(!gateway.metrics.text().contains("shadow_answers_total{backend=\"changing\""));
}

#[tokio::test]
async fn a_shadow_that_does_not_answer_is_asked_sixteen_times_at_once() {
    let hanging = Scripted::always(Act::Hang).await;
    let configured = backend("hanging", &hanging, "mode: Shadow, filter: {timeout: 60s}");
    let gateway = Gateway::start(&format!(
        "nodes: {{source: Request}}\ntimeouts: {{decision: 60s}}\nbackends:\n{configured}"
    ))
    .await;
    for _ in 0..40 {
        gateway.post("/filter", by_name(&["a"])).await;
    }
    let labels = r#"backend="hanging",verb="filter",outcome="failed""#;
    let line = format!("extender_gateway_backend_shadow_answers_total{{{labels}}} 24\n");
    gateway.until_counted("the shadow", &line).await;
    until("16 are asked", || hanging.asked("Filter").len() >= 16).await;
    assert_eq!(hanging.asked("Filter").len(), 16);
    let failures = r#"backend="hanging",verb="filter",kind="overloaded",policy="none"} 24"#;
    assert!(gateway.metrics.text().contains(failures), "{}", gateway.metrics.text());
}

/// Nothing else runs between the end of a call and the change of its node.
#[tokio::test]
async fn what_a_shadow_is_sent_is_encoded_after_the_response() {
    let mut reads = filtering(reading::facts());
    reads.verbs.extend(info(reading::facts()).verbs);
    let shadow = Scripted::start(reads, |_, _| Act::Hang).await;
    let verbs = "filter: {timeout: 60s}, score: {timeout: 60s}, preempt: {timeout: 60s}";
    let configured = backend("shadow", &shadow, &format!("mode: Shadow, {verbs}"));
    let sources = "nodes: {source: Watch}\npods: {source: None}\ntimeouts: {decision: 60s}";
    let gateway = Gateway::start(&format!("{sources}\nbackends:\n{configured}")).await;
    for (verb, method, body) in [
        (CallVerb::Filter, "Filter", by_name(&["n1"])),
        (CallVerb::Prioritize, "Score", by_name(&["n1"])),
        (CallVerb::Preempt, "Preempt", call()),
    ] {
        let becomes = |state: &str| {
            let node = labelled("n1", &json!({"state": state}));
            assert!(gateway.table.apply(node.as_bytes()).unwrap());
        };
        becomes("before");
        gateway.door.call_locally(verb, body.into()).await;
        becomes("after");
        until("it is asked", || !shadow.messages(method).is_empty()).await;
        // Preempt has the nodes in the same field.
        let row = rows(&shadow.messages(method)[0]).remove(0);
        assert_eq!(row.facts.unwrap().labels.unwrap().entries["state"], "after", "{method}");
    }
}
