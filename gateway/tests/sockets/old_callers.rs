//! Callers that are older than kube-scheduler 1.19, or configured with paths of their own.

use std::future::pending;

use crate::support::{Gateway, backend::Scripted, by_name, node, pod};
use serde_json::json;

/// A gateway whose backends refuse `a`, unresolvable, and `b`, preemption may help.
async fn gateway(extender: &str) -> (Gateway, [Scripted; 2]) {
    let strict = Scripted::refusing(&["a"], "drained", 3).await;
    let mild = Scripted::refusing(&["b"], "full", 1).await;
    let rest = format!(
        "nodes: {{source: Request}}\nbackends:\n\
         - {{name: strict, url: 'http://{}', filter: {{}}, score: {{}}}}\n\
         - {{name: mild, url: 'http://{}', filter: {{preemptionMayHelp: Honored}}}}\n",
        strict.address, mild.address
    );
    (Gateway::start_as(extender, &rest, pending()).await, [strict, mild])
}

#[tokio::test]
async fn kube_scheduler_1_3_posts_pod_and_nodes_behind_an_api_version() {
    let (gateway, backends) = gateway("").await;
    let items: Vec<_> = ["a", "b", "c"].map(node).into();
    let body = json!({"pod": pod(), "nodes": {"metadata": {}, "items": items}}).to_string();
    let answer = gateway.post("/scheduler/v1beta1/filter", &body).await.json();
    assert_eq!(
        answer,
        json!({
            "Nodes": {"metadata": {}, "items": [node("c")]},
            "FailedNodes": {"a": "strict: drained", "b": "mild: full"},
            "FailedAndUnresolvableNodes": {},
            "Error": ""
        })
    );
    assert_eq!(backends[0].asked("Filter"), [["a", "b", "c"]]);
    let answer = gateway.post("/scheduler/v1beta1/prioritize", &body).await.json();
    assert_eq!(answer.as_array().unwrap().len(), 3);
    assert_eq!(answer[0], json!({"Host": "a", "Score": 3}));
}

#[tokio::test]
async fn with_keys_in_lower_case_every_dropped_node_has_a_reason() {
    let (gateway, _backends) = gateway("").await;
    let body = json!({"pod": pod(), "nodes": null, "nodenames": ["a", "b", "c"]}).to_string();
    let answer = gateway.post("/filter", &body).await.json();
    assert_eq!(answer["NodeNames"], json!(["c"]));
    assert_eq!(answer["FailedNodes"], json!({"a": "strict: drained", "b": "mild: full"}));
    let answer = gateway.post("/filter", by_name(&["a", "b", "c"])).await.json();
    assert_eq!(answer["FailedNodes"], json!({"b": "mild: full"}));
    assert_eq!(answer["FailedAndUnresolvableNodes"], json!({"a": "strict: drained"}));
}

#[tokio::test]
async fn nodes_without_kind_and_with_null_times_are_read() {
    let (gateway, _backends) = gateway("").await;
    let body = r#"{"pod":{"metadata":{"name":"p","creationTimestamp":null},"spec":{},"status":{}},
        "nodes":{"metadata":{},"items":[{"metadata":{"name":"c","creationTimestamp":null}}]},"nodenames":null}"#;
    let answer = gateway.post("/filter", body).await.json();
    let kept = json!([{"metadata": {"name": "c", "creationTimestamp": null}}]);
    assert_eq!((&answer["Nodes"]["items"], &answer["Error"]), (&kept, &json!("")), "{answer}");
}

#[tokio::test]
async fn verbs_have_the_names_that_were_configured() {
    let (gateway, _backends) = gateway(", verbs: {filter: predicates/always_true}").await;
    let body = by_name(&["a", "c"]);
    for path in ["/scheduler/predicates/always_true", "/predicates/always_true"] {
        assert_eq!(gateway.post(path, &body).await.json()["NodeNames"], json!(["c"]), "{path}");
    }
    for path in ["/scheduler/filter", "/always_true", "/scheduler/priorities/always_true"] {
        assert_eq!(gateway.post(path, &body).await.status, 404, "{path}");
    }
    assert_eq!(gateway.post("/scheduler/prioritize", &body).await.status, 200);
}
