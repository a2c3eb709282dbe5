//! The links of a decision: to the pod's previous call, and to the trace in its annotation.

use extender_collector::ReceivedSpan;
use extender_gateway_observe::traces::TraceSettings;
use serde_json::json;

use super::{ANNOTATION, NAMES, Traced, all, place, traceparent};
use crate::support::{
    backend::{Scripted, configured},
    by_name, pod,
};

const NAMED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";

/// A request about a pod with this annotation.
fn annotated(value: &str) -> String {
    let mut pod = pod();
    pod["metadata"]["annotations"] = json!({ANNOTATION: value});
    json!({"Pod": pod, "Nodes": null, "NodeNames": ["a"]}).to_string()
}

/// The kind and the target of each link.
fn links(span: &ReceivedSpan) -> Vec<(String, String)> {
    let to = |at: usize| place(&span.span.links[at].trace_id, &span.span.links[at].span_id);
    let all = span.links().into_iter().enumerate();
    all.map(|(at, attributes)| (attributes["extender.link"].clone(), to(at))).collect()
}

#[tokio::test]
async fn a_decision_is_linked_to_the_pods_call_before() {
    let backend = Scripted::refusing(&[], "", 3).await;
    let traced = Traced::of(all(), &backend).await;
    traced.gateway.post("/filter", by_name(&["a"])).await;
    traced.gateway.post("/prioritize", by_name(&["a"])).await;
    let mut other = pod();
    other["metadata"]["uid"] = json!("u-2");
    let other = json!({"Pod": other, "Nodes": null, "NodeNames": ["a"]}).to_string();
    traced.gateway.post("/filter", other).await;
    let spans = traced.spans(9).await;
    let [first, others] = spans.all("decide filter")[..] else { panic!("{:?}", spans.names()) };
    let second = spans.one("decide prioritize");
    assert_eq!((links(first).len(), links(others).len()), (0, 0));
    let to_first = traceparent(first, "01")[3..52].to_owned();
    assert_eq!(links(second), [("previous call".to_owned(), to_first)]);
    assert_ne!(first.span.trace_id, second.span.trace_id, "each call is a trace of its own");
}

#[tokio::test]
async fn a_decision_is_linked_to_what_the_pods_annotation_names() {
    let backend = Scripted::refusing(&[], "", 3).await;
    let traced = Traced::of(all(), &backend).await;
    traced.gateway.post("/filter", annotated(NAMED)).await;
    let spans = traced.spans(3).await;
    let decision = spans.one("decide filter");
    assert_eq!(links(decision), [("pod annotation".to_owned(), NAMED[3..52].to_owned())]);
    assert_eq!(decision.span.links[0].flags & 0x200, 0x200, "it is of another process");
}

#[tokio::test]
async fn an_annotation_that_names_no_span_is_no_link() {
    let backend = Scripted::refusing(&[], "", 3).await;
    let traced = Traced::of(all(), &backend).await;
    let upper = NAMED.to_uppercase();
    let wrong = ["", "yes", &NAMED[..54], &upper, "00-00000000000000000000000000000000-b7ad6b7169203331-01"];
    for (number, value) in wrong.into_iter().enumerate() {
        let body = annotated(value).replace("u-1", &format!("u-{number}"));
        let answer = traced.gateway.post("/filter", body).await.json();
        assert_eq!(answer["NodeNames"], json!(["a"]), "{value}");
    }
    let spans = traced.spans(3 * wrong.len()).await;
    assert!(spans.all("decide filter").into_iter().all(|span| links(span).is_empty()));
}

#[tokio::test]
async fn annotations_are_looked_at_only_where_that_is_configured() {
    let backend = Scripted::refusing(&[], "", 3).await;
    let only = configured("only", &backend, "filter: {timeout: 60s}");
    let choice = TraceSettings { annotation: None, ..all() };
    let traced = Traced::start(choice, &format!("{NAMES}\nbackends:\n{only}")).await;
    traced.gateway.post("/filter", annotated(NAMED)).await;
    assert!(links(traced.spans(3).await.one("decide filter")).is_empty());
}
