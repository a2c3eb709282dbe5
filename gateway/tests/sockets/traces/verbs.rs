//! The spans of the other verbs, and of shadow calls.

use extender_collector::Collector;
use extender_policy_api::v1beta1::BindOutcome;

use super::{CLIENT, NAMES, Spans, Traced, all, assert_within, exporters, gateway, status, traceparent};
use crate::support::{
    apiserver::Apiserver,
    backend::{Scripted, configured},
    binding::{TO_A, binding_to, bound, says},
    by_name,
    preempting::{REQUEST, call, sparing},
};

#[tokio::test]
async fn prioritize_has_spans_and_no_count_of_what_is_left() {
    let backend = Scripted::refusing(&[], "", 3).await;
    let traced = Traced::of(all(), &backend).await;
    traced.gateway.post("/prioritize", by_name(&["a", "b"])).await;
    let spans = traced.spans(3).await;
    let decision = spans.one("decide prioritize");
    assert_within(decision, spans.one("POST /prioritize"));
    assert_eq!(decision.attributes["extender.nodes.offered"], "2");
    assert_eq!(decision.attributes.get("extender.nodes.left"), None);
    let asked = spans.one("extender.policy.v1beta1.PolicyService/Score");
    assert_within(asked, decision);
    assert_eq!(backend.metadata("Score", "traceparent"), [traceparent(asked, "01")]);
}

#[tokio::test]
async fn preempt_asks_one_after_the_other() {
    let first = sparing(&["n2"], &[]).await;
    let second = sparing(&[], &[]).await;
    let backends = configured("first", &first, "preempt: {timeout: 20s}")
        + &configured("second", &second, "preempt: {timeout: 20s}");
    let traced = Traced::start(all(), &format!("{REQUEST}\nbackends:\n{backends}")).await;
    traced.gateway.post("/preempt", call()).await;
    let spans = traced.spans(4).await;
    let decision = spans.one("decide preempt");
    let counts =
        ["offered", "left", "rejected"].map(|what| &*decision.attributes[&format!("extender.nodes.{what}")]);
    assert_eq!(counts, ["2", "1", "1"]);
    let asked = ["first", "second"].map(|name| spans.asked(name));
    for span in asked {
        assert_within(span, decision);
        assert_eq!(span.span.name, "extender.policy.v1beta1.PolicyService/Preempt");
    }
    assert!(asked[0].span.end_time_unix_nano <= asked[1].span.start_time_unix_nano);
    assert_eq!(asked.map(|span| &*span.attributes["extender.nodes.asked"]), ["2", "1"]);
}

#[tokio::test]
async fn bind_says_which_node() {
    let apiserver = Apiserver::start().await;
    let binding = binding_to(&apiserver, "a", says(BindOutcome::Bound)).await;
    let collector = Collector::grpc().unwrap();
    let exporters = exporters(&collector.endpoint());
    let rest = apiserver.configuration("only") + "backends:\n" + &configured("only", &binding, "bind: {}");
    let gateway = gateway(&exporters, all(), &rest).await;
    bound(&gateway.post("/bind", TO_A).await);
    let spans = Spans(collector.spans(3).await);
    let decision = spans.one("decide bind");
    assert_eq!(&*decision.attributes["k8s.node.name"], "a");
    assert_eq!(&*decision.attributes["k8s.pod.uid"], "u-1");
    let asked = spans.one("extender.policy.v1beta1.PolicyService/Bind");
    assert_within(asked, decision);
    assert_eq!((asked.span.kind, status(asked)), (CLIENT, (0, "")));
}

#[tokio::test]
async fn a_shadow_is_a_part_of_the_call_that_it_is_asked_beside() {
    let real = Scripted::refusing(&[], "", 0).await;
    let shadow = Scripted::refusing(&["a"], "no", 0).await;
    let backends = configured("real", &real, "filter: {timeout: 60s}")
        + &configured("shadow", &shadow, "mode: Shadow, filter: {timeout: 60s}");
    let traced = Traced::start(all(), &format!("{NAMES}\nbackends:\n{backends}")).await;
    traced.gateway.post("/filter", by_name(&["a", "b"])).await;
    let spans = traced.spans(4).await;
    let (asked, decision) = (spans.asked("shadow"), spans.one("decide filter"));
    assert_eq!(asked.span.trace_id, decision.span.trace_id);
    assert_eq!(asked.span.parent_span_id, decision.span.span_id);
    let said =
        ["extender.mode", "extender.opinion", "extender.nodes.rejected"].map(|key| &*asked.attributes[key]);
    assert_eq!(said, ["Shadow", "disagrees", "1"]);
    assert_eq!(shadow.metadata("Filter", "traceparent"), [traceparent(asked, "01")]);
    assert_eq!(decision.attributes["extender.nodes.rejected"], "0");
}
