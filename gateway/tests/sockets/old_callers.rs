//! Callers that are older than kube-scheduler 1.19, or configured with paths of their own.

use std::future::pending;

use crate::support::{Gateway, backend::Scripted, by_name, pod};
use serde_json::{Value, json};

/// What the client of kube-scheduler 1.3 sent, the first one with extenders. It sent the same for both verbs.
const CAPTURED: &str = include_str!("../../../tests/captures/filter-1.3.json");

/// The nodes in it.
const CAPTURED_NODES: [&str; 3] = [
    "ip-10-16-0-2.eu-west-1.compute.internal",
    "ip-10-16-0-1.eu-west-1.compute.internal",
    "ip-10-16-0-0.eu-west-1.compute.internal",
];

/// A gateway whose backends refuse these nodes: one unresolvable, for the other preemption may help.
async fn refusing(
    extender: &str,
    unresolvable: &'static [&'static str],
    full: &'static [&'static str],
) -> (Gateway, [Scripted; 2]) {
    let strict = Scripted::refusing(unresolvable, "drained", 3).await;
    let mild = Scripted::refusing(full, "full", 1).await;
    let rest = format!(
        "nodes: {{source: Request}}\nbackends:\n\
         - {{name: strict, url: 'http://{}', filter: {{}}, score: {{}}}}\n\
         - {{name: mild, url: 'http://{}', filter: {{preemptionMayHelp: Honored}}}}\n",
        strict.address, mild.address
    );
    (Gateway::start_as(extender, &rest, pending()).await, [strict, mild])
}

/// The same for the nodes `a` and `b`.
async fn gateway(extender: &str) -> (Gateway, [Scripted; 2]) {
    refusing(extender, &["a"], &["b"]).await
}

#[tokio::test]
async fn kube_scheduler_1_3_posts_pod_and_nodes_behind_an_api_version() {
    let call: Value = serde_json::from_str(CAPTURED).unwrap();
    let last = &call["nodes"]["items"][2];
    let [first, second, _] = CAPTURED_NODES;
    let (gateway, backends) = refusing("", &[CAPTURED_NODES[0]], &[CAPTURED_NODES[1]]).await;
    let answer = gateway.post("/scheduler/v1/filter", CAPTURED).await.json();
    assert_eq!(
        answer,
        json!({
            "Nodes": {"metadata": {}, "items": [last]},
            "FailedNodes": {first: "strict: drained", second: "mild: full"},
            "FailedAndUnresolvableNodes": {},
            "Error": ""
        })
    );
    assert_eq!(backends[0].asked("Filter"), [CAPTURED_NODES]);
    let answer = gateway.post("/scheduler/v1/prioritize", CAPTURED).await.json();
    assert_eq!(answer.as_array().unwrap().len(), 3);
    assert_eq!(answer[0], json!({"Host": first, "Score": 3}));
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
