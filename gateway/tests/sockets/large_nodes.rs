//! Nodes that are too large for a request to a backend: the others are still decided, and the reply, the
//! decision log and the log name them.

use bytes::Bytes;
use extender_policy_api::v1beta1::GetInfoResponse;
use extender_policy_sdk::testing;
use prost::Message;
use serde_json::{Value, json};
use tokio::time::timeout;

use crate::support::{
    Gateway, TEST_TIMEOUT,
    admin::Seen,
    backend::{Act, Scripted, configured, filtered, info, scored},
    by_name, in_full,
    preempting::{self, answer, asked, call, kept, left},
    reading,
    relay::Relay,
    sdk::{self, Labelled, Running},
    written::Written,
};

/// A declaration that accepts requests up to 64 KiB.
fn limited(info: GetInfoResponse) -> GetInfoResponse {
    GetInfoResponse { max_request_bytes: 64 << 10, ..info }
}

/// The name of the large node among the others.
const LARGE: &str = "n7";

/// The names of fifty nodes.
fn names() -> Vec<String> {
    (0..50).map(|at| format!("n{at}")).collect()
}

/// A request with the objects of these nodes, in which [`LARGE`] has an annotation of 100 kB.
fn request(names: &[&str]) -> String {
    let mut body: Value = serde_json::from_str(&in_full(names)).unwrap();
    for node in body["Nodes"]["items"].as_array_mut().unwrap() {
        if node["metadata"]["name"] == LARGE {
            node["metadata"]["annotations"]["large"] = "x".repeat(100_000).into();
        }
    }
    body.to_string()
}

/// [`request`] about all nodes.
fn request_about_all() -> String {
    let names = names();
    request(&names.iter().map(String::as_str).collect::<Vec<_>>())
}

/// A backend that reads JSON of nodes, refuses `n3` and scores each node with 4.
async fn backend() -> Scripted {
    let script = |verb: &str, message: Bytes| match verb {
        "Filter" => Act::Message(filtered(&message, &["n3"], "no").encode_to_vec()),
        _ => Act::Message(scored(&message, |_| 4).encode_to_vec()),
    };
    Scripted::start(limited(info(reading::json())), script).await
}

const SETTINGS: &str = "filter: {timeout: 60s}, score: {timeout: 60s}";

/// A configuration in which only calls bring nodes.
fn configuration(backends: &str) -> String {
    format!("nodes: {{source: Request}}\ntimeouts: {{decision: 60s}}\nbackends:\n{backends}")
}

#[tokio::test]
async fn a_node_that_is_too_large_for_a_backend_keeps_no_other_from_it() {
    let raw = backend().await;
    let gateway = Gateway::start(&configuration(&configured("raw", &raw, SETTINGS))).await;
    let answer = gateway.post("/filter", request_about_all()).await.json();
    let failed = &answer["FailedAndUnresolvableNodes"];
    assert_eq!(*failed, json!({"n3": "raw: no", "n7": "node is too large for backend raw"}), "{answer:.300}");
    assert_eq!(answer["Nodes"]["items"].as_array().map(Vec::len), Some(48));
    let scores = gateway.post("/prioritize", request_about_all()).await.json();
    let scores = scores.as_array().unwrap();
    assert_eq!(scores.len(), 49);
    assert!(scores.iter().all(|score| score["Host"] != LARGE && score["Score"] == 4), "{scores:?}");
    assert_eq!(raw.asked("Filter")[0].len(), 49);
    // If no other node is left, the failure policy decides and not the size.
    let error = gateway.post("/filter", request(&[LARGE])).await.error();
    assert!(error.starts_with("extender-gateway: backend raw failed filter: "), "{error}");
}

#[tokio::test]
async fn a_large_node_of_the_table_is_left_out_too() {
    let raw = backend().await;
    let rest = format!(
        "nodes: {{source: Watch}}\ntimeouts: {{decision: 60s}}\nbackends:\n{}",
        configured("raw", &raw, SETTINGS)
    );
    let gateway = Gateway::start(&rest).await;
    let body: Value = serde_json::from_str(&request_about_all()).unwrap();
    for node in body["Nodes"]["items"].as_array().unwrap() {
        gateway.table.apply(node.to_string().as_bytes()).unwrap();
    }
    let names = names();
    let answer =
        gateway.post("/filter", by_name(&names.iter().map(String::as_str).collect::<Vec<_>>())).await;
    let failed = &answer.json()["FailedAndUnresolvableNodes"];
    assert_eq!(*failed, json!({"n3": "raw: no", "n7": "node is too large for backend raw"}));
    assert_eq!(raw.asked("Filter")[0].len(), 49);
}

#[tokio::test]
async fn rows_that_the_backend_holds_do_not_count() {
    let policy = Running::start(sdk::raw).await;
    let relay = Relay::to(policy.address).await;
    relay.introduce(limited(testing::info(Labelled::new(sdk::raw)).unwrap()));
    let seen = sdk::Seen::start("nodes: {source: Watch}", relay).await;
    let names = ["small", "a", "b", "c", "d", "e"];
    for name in names {
        let large = "x".repeat(if name == "small" { 1 } else { 20_000 });
        let object = json!({"metadata": {"name": name, "annotations": {"large": large}}});
        seen.gateway.table.apply(object.to_string().as_bytes()).unwrap();
    }
    // Until the backend holds them, the large ones are left out.
    let held = async {
        while seen.relay.said("Filter").pop().is_none_or(|said| said.ids.len() < names.len()) {
            seen.filter(&names).await;
        }
    };
    timeout(TEST_TIMEOUT, held).await.expect("the backend is asked about all nodes that it holds");
    assert_eq!(seen.filter(&names).await, json!({}));
}

#[tokio::test]
async fn a_shadow_is_asked_about_the_other_nodes() {
    let shadow = backend().await;
    let raw = configured("raw", &shadow, &format!("mode: Shadow, {SETTINGS}"));
    let gateway = Gateway::start(&configuration(&raw)).await;
    let answer = gateway.post("/filter", request_about_all()).await.json();
    assert_eq!(answer["Nodes"]["items"].as_array().map(Vec::len), Some(50), "a shadow rejects nothing");
    let compared =
        r#"extender_gateway_backend_shadow_answers_total{backend="raw",verb="filter",outcome="disagrees"} 1"#;
    gateway.until_counted("the shadow", compared).await;
    assert_eq!(shadow.asked("Filter")[0].len(), 49);
}

#[tokio::test]
async fn a_candidate_whose_node_is_too_large_is_not_offered_to_a_backend() {
    let declared = limited(preempting::info(reading::json()));
    let keeping = Scripted::start(declared, |_, message| answer(&message, vec![kept(0, &[0])])).await;
    let rest = format!(
        "nodes: {{source: Watch}}\npods: {{source: Watch}}\ntimeouts: {{decision: 60s}}\nbackends:\n{}",
        configured("raw", &keeping, "preempt: {timeout: 60s}")
    );
    let seen = Seen::with(Gateway::start(&rest).await).await;
    let small = json!({"metadata": {"name": "n1"}});
    let large = json!({"metadata": {"name": "n2", "annotations": {"large": "x".repeat(100_000)}}});
    for node in [small, large] {
        seen.gateway.table.apply(node.to_string().as_bytes()).unwrap();
    }
    assert_eq!(seen.gateway.post("/preempt", call()).await.json(), left(&[("n1", &["u1"], 1)]));
    let offered = asked(&keeping);
    assert_eq!(offered[0].len(), 1, "{offered:?}");
    assert_eq!(offered[0][0].0, "n1");
    let decision = serde_json::to_string(&seen.call(1).await).unwrap();
    assert!(decision.contains("node is too large for the backend"), "{decision}");
}

#[tokio::test]
async fn the_log_names_the_backend_and_a_node() {
    let (written, _guard) = Written::here();
    let raw = backend().await;
    let gateway = Gateway::start(&configuration(&configured("raw", &raw, SETTINGS))).await;
    gateway.post("/filter", request_about_all()).await;
    let text = "nodes are too large for a request to the backend, so they are rejected";
    let lines = written.with(&[text]);
    assert_eq!(lines.len(), 1, "{lines:#?}");
    for part in ["WARN", "backend=raw", "nodes=1", "name=\"n7\""] {
        assert!(lines[0].contains(part), "{part}: {}", lines[0]);
    }
}
