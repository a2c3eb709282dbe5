//! The spans of successful calls.

use extender_collector::ReceivedSpan;
use extender_policy_api::v1beta1::FilterRequest;
use prost::Message;
use serde_json::json;

use super::{
    CLIENT, INTERNAL, NAMES, SERVER, Traced, all, assert_within, attributes, status, steady, traceparent,
};
use crate::reads::labels_of_nodes;
use crate::support::{
    backend::{Scripted, configured},
    by_name,
    function::{Function, about, labelled, pure, sibling},
    in_full,
};

const FILTER: &str = "extender.policy.v1beta1.PolicyService/Filter";

#[tokio::test]
async fn a_call_is_a_server_span_a_decision_and_a_span_for_each_question() {
    let zones = Scripted::refusing(&["b"], "no", 0).await;
    let racks = Scripted::refusing(&[], "", 0).await;
    let backends = configured("zones", &zones, "filter: {timeout: 60s}")
        + &configured("racks", &racks, "filter: {timeout: 60s, failurePolicy: Ignore}");
    let traced = Traced::start(all(), &format!("{NAMES}\nbackends:\n{backends}")).await;
    let answer = traced.gateway.post("/filter", by_name(&["a", "b", "c"])).await;
    let spans = traced.spans(4).await;

    let door = spans.one("POST /filter");
    assert_eq!((door.span.kind, door.span.parent_span_id.len(), status(door)), (SERVER, 0, (0, "")));
    let expected = [
        ("http.request.method", "POST"),
        ("http.route", "/filter"),
        ("url.path", "/filter"),
        ("url.scheme", "http"),
        ("http.response.status_code", "200"),
        ("network.protocol.version", "1.1"),
        ("client.address", "127.0.0.1"),
        ("extender.outcome", "ok"),
    ];
    assert_eq!(steady(door), attributes(&expected));
    assert_eq!(door.attributes["http.response.body.size"], answer.body.len().to_string());
    assert_eq!(door.attributes["http.request.body.size"], by_name(&["a", "b", "c"]).len().to_string());
    assert_eq!(door.resource["service.name"], "extender-gateway");

    let decision = spans.one("decide filter");
    assert_within(decision, door);
    assert_eq!((decision.span.kind, status(decision)), (INTERNAL, (0, "")));
    let expected = [
        ("k8s.pod.uid", "u-1"),
        ("k8s.pod.name", "web-0"),
        ("k8s.namespace.name", "shop"),
        ("extender.verb", "filter"),
        ("extender.outcome", "ok"),
        ("extender.node_form", "names"),
        ("extender.nodes.offered", "3"),
        ("extender.nodes.left", "2"),
        ("extender.nodes.rejected", "1"),
        ("extender.nodes.known", "0"),
        ("extender.configuration.generation", "1"),
    ];
    assert_eq!(steady(decision), attributes(&expected));
    let told = FilterRequest::decode(zones.messages("Filter")[0].clone()).unwrap();
    assert_eq!(decision.attributes["extender.call.id"], told.call.unwrap().id);
    assert!(decision.span.links.is_empty() && decision.span.events.is_empty());

    for (name, backend, rejected) in [("zones", &zones, "1"), ("racks", &racks, "0")] {
        let asked = spans.asked(name);
        assert_within(asked, decision);
        assert_asked(asked, (name, backend), rejected);
    }
}

/// The span of a request about three nodes, of which the backend rejects this many.
#[track_caller]
fn assert_asked(asked: &ReceivedSpan, (name, backend): (&str, &Scripted), rejected: &str) {
    assert_eq!((asked.span.name.as_str(), asked.span.kind, status(asked)), (FILTER, CLIENT, (0, "")));
    let expected = [
        ("rpc.system.name", "grpc"),
        ("rpc.method", FILTER),
        ("rpc.response.status_code", "OK"),
        ("server.address", "127.0.0.1"),
        ("extender.backend.name", name),
        ("extender.mode", "Enforce"),
        ("extender.nodes.asked", "3"),
        ("extender.nodes.known", "0"),
        ("extender.nodes.form", "rows"),
        ("extender.nodes.rejected", rejected),
    ];
    assert_eq!(steady(asked), attributes(&expected));
    assert_eq!(asked.attributes["server.port"], backend.address.port().to_string());
    assert_eq!(backend.metadata("Filter", "traceparent"), [traceparent(asked, "01")]);
}

#[tokio::test]
async fn the_log_has_the_trace_of_a_call() {
    let backend = Scripted::refusing(&[], "", 0).await;
    let traced = Traced::of(all(), &backend).await;
    traced.gateway.post("/filter", by_name(&["a"])).await;
    let spans = traced.spans(3).await;
    let (found, _) = traced.gateway.observer.decisions.find(&extender_gateway_observe::Query::default());
    let id = traceparent(spans.one("decide filter"), "01")[3..35].to_owned();
    assert_eq!(found[0].trace_id, Some(id));
}

#[tokio::test]
async fn full_objects_are_said() {
    let backend = Scripted::refusing(&["a"], "no", 0).await;
    let only = configured("only", &backend, "filter: {timeout: 60s}");
    let traced = Traced::start(all(), &format!("nodes: {{source: Request}}\nbackends:\n{only}")).await;
    traced.gateway.post("/prefix/filter", in_full(&["a"])).await;
    let spans = traced.spans(3).await;
    let decision = &spans.one("decide filter").attributes;
    assert_eq!((&*decision["extender.node_form"], &*decision["extender.nodes.left"]), ("objects", "0"));
    let door = spans.one("POST /filter");
    assert_eq!(
        (&*door.attributes["url.path"], &*door.attributes["http.route"]),
        ("/prefix/filter", "/filter")
    );
}

#[tokio::test]
async fn a_backend_whose_answers_are_known_is_an_event() {
    let function = Function::start(pure(labels_of_nodes())).await;
    let only = configured("only", &function.backend, "filter: {timeout: 60s}");
    let traced = Traced::start(all(), &format!("nodes: {{source: Watch}}\nbackends:\n{only}")).await;
    for (name, labels) in [("a", json!({"refused": "no"})), ("b", json!({}))] {
        traced.gateway.table.apply(labelled(name, &labels).as_bytes()).unwrap();
    }
    traced.gateway.post("/filter", about(&sibling(1), &["a", "b"])).await;
    assert!(traced.spans(3).await.one("decide filter").span.events.is_empty());
    traced.gateway.post("/filter", about(&sibling(2), &["a", "b"])).await;
    let spans = traced.spans(5).await;
    let decision = spans.all("decide filter")[1];
    let expected = [
        ("extender.backend.name", "only"),
        ("extender.backend.verb", "filter"),
        ("extender.mode", "Enforce"),
        ("extender.nodes.known", "2"),
        ("extender.nodes.rejected", "1"),
        ("extender.backend.reads_of_pods", "nothing"),
    ];
    assert_eq!(decision.events(), [("backend".to_owned(), attributes(&expected))]);
    assert_eq!(decision.attributes["extender.nodes.known"], "2");
}

#[tokio::test]
async fn no_span_has_the_name_of_a_node() {
    let backend = Scripted::refusing(&["node-seven"], "node-seven is full", 3).await;
    let traced = Traced::of(all(), &backend).await;
    traced.gateway.post("/filter", by_name(&["node-seven", "node-eight"])).await;
    traced.gateway.post("/prioritize", by_name(&["node-eight"])).await;
    let spans = traced.spans(6).await;
    for span in &spans.0 {
        let text = format!("{:?} {:?}", span.attributes, span.events());
        assert!(!text.contains("node-"), "{text}");
    }
}
