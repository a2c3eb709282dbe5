//! Which calls are kept.

use std::{collections::BTreeMap, time::Duration};

use extender_gateway_observe::traces::TraceSettings;
use extender_otlp::Ratio;
use serde_json::json;

use super::{NAMES, Traced, all, choice};
use crate::support::{
    backend::{Act, Scripted, configured},
    by_name,
    http::Client,
};

fn none() -> TraceSettings {
    choice(Ratio::NONE)
}

fn of_pod(uid: &str) -> String {
    let pod = json!({"metadata": {"name": "p", "namespace": "shop", "uid": uid}});
    json!({"Pod": pod, "Nodes": null, "NodeNames": ["a"]}).to_string()
}

#[tokio::test]
async fn of_what_is_not_sampled_nothing_is_sent_and_backends_are_told() {
    let backend = Scripted::refusing(&[], "", 3).await;
    let traced = Traced::of(none(), &backend).await;
    traced.gateway.post("/filter", by_name(&["a"])).await;
    traced.gateway.post("/prioritize", by_name(&["a"])).await;
    for verb in ["Filter", "Score"] {
        let [told] = &backend.metadata(verb, "traceparent")[..] else { panic!("asked once") };
        assert!(told.len() == 55 && told.ends_with("-00"), "{told}");
    }
    assert_eq!(traced.last().await.names(), [""; 0]);
}

#[tokio::test]
async fn without_traces_backends_are_told_nothing() {
    let backend = Scripted::refusing(&[], "", 3).await;
    let only = configured("only", &backend, "filter: {timeout: 60s}");
    let gateway =
        super::Gateway::start(&format!("timeouts: {{decision: 60s}}\n{NAMES}\nbackends:\n{only}")).await;
    gateway.post("/filter", by_name(&["a"])).await;
    assert_eq!(backend.metadata("Filter", "traceparent"), [""]);
}

#[tokio::test]
async fn the_gateways_own_spans_of_failed_and_late_calls_are_kept() {
    for (act, settings) in [
        (Act::Status(13, "no"), "timeout: 60s"),
        (Act::Status(13, "no"), "timeout: 60s, failurePolicy: Ignore"),
        (Act::Hang, "timeout: 500ms, failurePolicy: Ignore"),
    ] {
        let backend = Scripted::always(act).await;
        let bad = configured("bad", &backend, &format!("filter: {{{settings}}}"));
        let traced = Traced::start(none(), &format!("{NAMES}\nbackends:\n{bad}")).await;
        traced.gateway.post("/filter", by_name(&["a"])).await;
        let spans = traced.spans(3).await;
        let [told] = &backend.metadata("Filter", "traceparent")[..] else { panic!("asked once") };
        assert_eq!(told, &super::traceparent(spans.asked("bad"), "00"), "the backend keeps nothing");
    }
}

#[tokio::test]
async fn who_asks_for_no_verb_is_sampled_as_any_trace() {
    let backend = Scripted::refusing(&[], "", 3).await;
    for (choice, kept) in [(none(), &[][..]), (all(), &["GET", "POST"])] {
        let traced = Traced::of(choice, &backend).await;
        let mut client = Client::connect(traced.gateway.address).await;
        client.send("GET", "/", b"").await;
        client.send("POST", "/made/up", b"").await;
        assert_eq!(traced.last().await.names(), kept);
    }
}

#[tokio::test]
async fn slow_calls_are_kept() {
    let backend = Scripted::refusing(&[], "", 3).await;
    let traced = Traced::of(TraceSettings { slow: Duration::ZERO, ..none() }, &backend).await;
    traced.gateway.post("/filter", by_name(&["a"])).await;
    assert_eq!(traced.spans(3).await.all("POST /filter").len(), 1);
}

#[tokio::test]
async fn all_calls_of_a_pod_are_kept_or_none() {
    let backend = Scripted::refusing(&[], "", 3).await;
    let half = Ratio::new(0.5).unwrap();
    let traced = Traced::of(choice(half), &backend).await;
    let uids: Vec<String> = (0..40).map(|number| format!("uid-{number}")).collect();
    for uid in &uids {
        for path in ["/filter", "/prioritize", "/filter"] {
            traced.gateway.post(path, of_pod(uid)).await;
        }
    }
    let spans = traced.last().await;
    let mut kept: BTreeMap<&str, usize> = BTreeMap::new();
    for span in spans.0.iter().filter(|span| span.span.name.starts_with("decide")) {
        *kept.entry(&span.attributes["k8s.pod.uid"]).or_default() += 1;
    }
    let expected = uids.iter().filter(|uid| half.keeps(uid.as_bytes()));
    let expected: BTreeMap<&str, usize> = expected.map(|uid| (uid.as_str(), 3)).collect();
    assert_eq!(kept, expected);
    assert!((5..35).contains(&kept.len()), "{kept:?}");
}

#[tokio::test]
async fn what_is_kept_can_change_while_calls_come() {
    let backend = Scripted::refusing(&[], "", 3).await;
    let traced = Traced::of(none(), &backend).await;
    traced.gateway.post("/filter", of_pod("before")).await;
    traced.gateway.observer.tracer.as_ref().unwrap().set(all());
    traced.gateway.post("/filter", of_pod("after")).await;
    let spans = traced.last().await;
    assert_eq!(spans.one("decide filter").attributes["k8s.pod.uid"], "after");
}
