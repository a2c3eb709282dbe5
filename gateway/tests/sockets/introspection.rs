//! `/apis/v1` at the admin address: what the program says about nodes.

use std::{fs, time::Duration};

use crate::support::{
    TEST_TIMEOUT,
    function::{about_objects, sibling},
    http::{Answer, Client},
    program::Program,
    sdk::{Running, declared, facts, node, raw},
};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

/// The program with this source of nodes and one backend.
async fn start(folder: &tempfile::TempDir, source: &str, backend: &Running) -> Program {
    let file = folder.path().join("gateway.yaml");
    let text = format!(
        "apiVersion: extender-gateway.io/v1alpha1\nkind: GatewayConfiguration\n\
         extender: {{address: 127.0.0.1:0}}\nmetrics: {{address: 127.0.0.1:0}}\nadmin: {{address: 127.0.0.1:0}}\n\
         nodes: {source}\nbackends:\n- {{name: labels, url: 'http://{}', filter: {{timeout: 1s}}}}\n",
        backend.address
    );
    fs::write(&file, text).unwrap();
    Program::start(&file).await
}

async fn get(program: &Program, path: &str) -> Answer {
    Client::connect(program.admin).await.send("GET", path, b"").await
}

/// The node, once the backend is told about it.
async fn told(program: &Program, name: &str) -> Value {
    let read = async {
        loop {
            let answer = get(program, &format!("/apis/v1/nodes/{name}")).await.json();
            if !answer["backends"][0]["row"].is_null() {
                return answer;
            }
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(TEST_TIMEOUT, read).await.expect("the backend is told about the node")
}

#[tokio::test]
async fn a_node_is_shown_as_it_is_known_and_as_a_backend_is_told_about_it() {
    let backend = Running::start(declared).await;
    let folder = tempfile::tempdir().unwrap();
    let list = format!(
        "{{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [{}, {}]}}",
        node("a", "draining"),
        node("b", "")
    );
    fs::write(folder.path().join("nodes.json"), list).unwrap();
    let program = start(&folder, "{source: File, file: nodes.json}", &backend).await;
    let mut found = told(&program, "a").await;
    let row = found["backends"][0]["row"].take();
    assert_eq!(found["backends"][0]["backend"], "labels");
    assert_eq!(found["backends"][0]["verbs"], json!(["filter"]));
    assert_eq!(
        (&found["kind"], &found["name"], &found["source"]),
        (&json!("NodeInfo"), &json!("a"), &json!("File"))
    );
    assert_eq!(found["facts"]["labels"]["refused"], "draining");
    assert_eq!(found["usage"], Value::Null, "pods are not watched");
    // The declared keys are refused and zone, and the node has the first one.
    assert_eq!(row["content"]["facts"]["labelValues"], json!(["draining", ""]), "{row}");
    assert_eq!(row["content"]["facts"]["absentLabels"], json!([1]), "{row}");
    assert!(
        row["version"].as_u64() > Some(0) && row["id"].as_u64() > Some(0) && row["bytes"].as_u64() > Some(0)
    );
    let other = told(&program, "b").await;
    assert_ne!(other["backends"][0]["row"]["id"], row["id"]);
}

#[tokio::test]
async fn a_node_that_calls_bring_is_shown_without_its_json() {
    let backend = Running::start(raw).await;
    let folder = tempfile::tempdir().unwrap();
    let program = start(&folder, "{source: Request}", &backend).await;
    let body = about_objects(&sibling(1), &[node("a", "draining")]);
    let answer = Client::connect(program.extender).await.post("/filter", body.as_bytes()).await.json();
    assert_eq!(answer["Error"], "", "{answer}");
    let found = told(&program, "a").await;
    assert_eq!(found["source"], "Calls");
    let row = &found["backends"][0]["row"];
    assert_eq!(row["rawJsonBytes"], node("a", "draining").len());
    assert_eq!(row["content"]["rawJson"], Value::Null);
    assert_eq!(row["content"]["facts"]["labels"]["refused"], "draining");
}

#[tokio::test]
async fn the_services_and_the_errors_have_the_form_of_koordinator() {
    let backend = Running::start(facts).await;
    let folder = tempfile::tempdir().unwrap();
    let program = start(&folder, "{source: Request}", &backend).await;
    let services = get(&program, "/apis/v1/__services__").await;
    let paths = json!({"GET": ["/apis/v1/__services__", "/apis/v1/nodes/:nodeName"]});
    assert_eq!((services.status, services.json()), (200, paths));
    for (method, path, status, message) in [
        (
            "GET",
            "/apis/v1/nodes/nobody",
            404,
            "cannot find node nobody: neither the source of nodes nor a call has named it",
        ),
        ("GET", "/apis/v1/pods", 404, "no such path /apis/v1/pods; GET /apis/v1/__services__ lists them"),
        ("GET", "/apis/v1/nodes/%FF", 400, "the name of the node is not UTF-8"),
        ("POST", "/apis/v1/nodes/a", 405, "method POST not allowed, only GET"),
    ] {
        let answer = Client::connect(program.admin).await.send(method, path, b"").await;
        assert_eq!((answer.status, answer.json()), (status, json!({ "message": message })), "{path}");
    }
}
