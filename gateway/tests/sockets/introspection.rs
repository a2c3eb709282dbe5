//! `/apis/v1` at the admin address: what the program says about nodes, and what backends show.

use std::{fs, net::SocketAddr, time::Duration};

use extender_policy_api::v1beta1::{
    Controllers, FilterRequest, GetInfoResponse, IntrospectRequest, IntrospectResponse, IntrospectionPath,
};
use prost::Message;

use crate::support::{
    TEST_TIMEOUT,
    backend::{Act, Scripted, filtered, info, scored},
    function::{about, about_objects, sibling},
    http::{Answer, Client},
    program::{OWN, Program},
    reading,
    sdk::{Running, declared, facts, node, raw},
};
use serde_json::{Value, json};
use tokio::time::{sleep, timeout};

/// The program with this source of nodes and one backend.
async fn start(folder: &tempfile::TempDir, source: &str, backend: &Running) -> Program {
    start_with(folder, source, &[("labels", backend.address, "filter: {timeout: 1s}")]).await
}

/// The program with this source of nodes and these backends.
async fn start_with(
    folder: &tempfile::TempDir,
    source: &str,
    backends: &[(&str, SocketAddr, &str)],
) -> Program {
    let file = folder.path().join("gateway.yaml");
    let text = format!("{OWN}timeouts: {{decision: 120s}}\nnodes: {source}\nbackends:\n");
    let backends = backends
        .iter()
        .map(|(name, address, rest)| format!("- {{name: {name}, url: 'http://{address}', {rest}}}\n"));
    fs::write(&file, text + &backends.collect::<Vec<_>>().concat()).unwrap();
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
    assert_eq!(found["facts"]["labels"]["entries"]["refused"], "draining");
    assert_eq!(found["usage"], Value::Null, "pods are not watched");
    // The declared keys are refused and zone, and the node has the first one.
    assert_eq!(row["content"]["facts"]["labels"]["values"], json!(["draining", ""]), "{row}");
    assert_eq!(row["content"]["facts"]["labels"]["absent"], json!([1]), "{row}");
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
    assert_eq!(row["content"]["facts"]["labels"]["entries"]["refused"], "draining");
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

const SERVICE: &str = "extender.policy.v1beta1.IntrospectionService";

/// A backend that shows these paths.
fn showing(paths: &[&str]) -> GetInfoResponse {
    let path = |path: &&str| IntrospectionPath { path: (*path).to_owned(), description: "quotas".to_owned() };
    GetInfoResponse {
        services: vec![SERVICE.to_owned()],
        introspection: paths.iter().map(path).collect(),
        ..info(reading::names())
    }
}

fn shown(json: impl Into<Vec<u8>>) -> Act {
    Act::Message(IntrospectResponse { json: json.into().into() }.encode_to_vec())
}

/// Answers with the request, and with failures that its parameter names.
fn echoed(message: &[u8]) -> Act {
    let IntrospectRequest { backend, args, path, parameters, query } =
        IntrospectRequest::decode(message).unwrap();
    match parameters.get("case").map(String::as_str) {
        Some("invalid") => Act::Status(3, "no such case"),
        Some("late") => Act::Status(4, ""),
        Some("absent") => Act::Status(5, "no case absent"),
        Some("large") => shown(format!("\"{}\"", "x".repeat((4 << 20) + 100))),
        Some("text") => shown("what?"),
        Some("none") => Act::Status(12, ""),
        Some("bug") => Act::Status(13, "bug"),
        Some("later") => Act::Status(14, "not listed yet"),
        _ => shown(
            json!({
                "backend": backend,
                "args": String::from_utf8(args.into()).unwrap(),
                "path": path,
                "parameters": parameters,
                "query": query,
            })
            .to_string(),
        ),
    }
}

/// The program with a backend `quota` that shows these paths.
async fn start_showing(folder: &tempfile::TempDir, paths: &[&str]) -> (Scripted, Program) {
    let backend = Scripted::start(showing(paths), |_, message| echoed(&message)).await;
    let settings = "args: {zone: a}, filter: {timeout: 1s}";
    let program = start_with(folder, "{source: Request}", &[("quota", backend.address, settings)]).await;
    let connected = async {
        while get(&program, "/apis/v1/__services__").await.json()["GET"].as_array().unwrap().len() == 2 {
            sleep(Duration::from_millis(10)).await;
        }
    };
    timeout(TEST_TIMEOUT, connected).await.expect("its paths are listed");
    (backend, program)
}

#[tokio::test]
async fn a_backend_shows_its_state() {
    let folder = tempfile::tempdir().unwrap();
    let paths = ["/quotas/:namespace/:case", "/quotas", "/a//b", "/quotas/:namespace/all"];
    let (_backend, program) = start_showing(&folder, &paths).await;
    let listed = json!({"GET": [
        "/apis/v1/__services__",
        "/apis/v1/nodes/:nodeName",
        "/apis/v1/plugins/quota/quotas",
        "/apis/v1/plugins/quota/quotas/:namespace/:case",
        "/apis/v1/plugins/quota/quotas/:namespace/all",
    ]});
    assert_eq!(get(&program, "/apis/v1/__services__").await.json(), listed);
    let found =
        get(&program, "/apis/v1/plugins/quota/quotas/a%2Fb%20c/other?limit=1&q=%C3%A4+b&limit=2").await;
    assert_eq!((found.status, found.header("content-type")), (200, Some("application/json")));
    let asked = json!({
        "backend": "quota",
        "args": r#"{"zone":"a"}"#,
        "path": "/quotas/:namespace/:case",
        "parameters": {"namespace": "a/b c", "case": "other"},
        "query": {"limit": "2", "q": "ä b"},
    });
    assert_eq!(found.json(), asked);
    let all = get(&program, "/apis/v1/plugins/quota/quotas/shop/all").await.json();
    assert_eq!((&all["path"], &all["parameters"]), (&json!(paths[3]), &json!({"namespace": "shop"})));
    program
        .wrote("a path that the backend shows cannot be used: \"/a//b\" has an empty or invalid segment", 1)
        .await;
}

#[tokio::test]
async fn failures_to_show_something_have_the_status_that_the_policy_api_says() {
    let folder = tempfile::tempdir().unwrap();
    let (_backend, program) = start_showing(&folder, &["/:case"]).await;
    let many: Vec<String> = (0..33).map(|at| format!("k{at}=")).collect();
    let long = format!("long?a={}", "x".repeat(9000));
    for (path, status, message) in [
        ("quota/invalid", 400, "backend quota: INVALID_ARGUMENT: no such case"),
        ("quota/absent", 404, "backend quota: NOT_FOUND: no case absent"),
        ("quota/none", 501, "backend quota: UNIMPLEMENTED"),
        ("quota/bug", 502, "backend quota: INTERNAL: bug"),
        ("quota/text", 502, "backend quota: the answer is not JSON: expected value at line 1 column 1"),
        ("quota/large", 502, "backend quota: response is larger than 4194368 bytes"),
        ("quota/later", 503, "backend quota: UNAVAILABLE: not listed yet"),
        ("quota/late", 504, "backend quota: DEADLINE_EXCEEDED"),
        ("quota/%FF", 400, "the path is not UTF-8"),
        (
            &format!("quota/many?{}", many.join("&")),
            400,
            "the query has more than 32 parameters or 8192 bytes",
        ),
        (&format!("quota/{long}"), 400, "the query has more than 32 parameters or 8192 bytes"),
        ("quota/a/b", 404, "no such path /apis/v1/plugins/quota/a/b; GET /apis/v1/__services__ lists them"),
        ("quota/", 404, "no such path /apis/v1/plugins/quota/; GET /apis/v1/__services__ lists them"),
        ("other/a", 404, "no backend \"other\" is called; extender-gateway status lists them"),
    ] {
        let answer = get(&program, &format!("/apis/v1/plugins/{path}")).await;
        assert_eq!((answer.status, answer.json()), (status, json!({ "message": message })), "{path}");
    }
}

/// The snapshots of the calls of a verb.
fn snapshots(backend: &Scripted, verb: &str) -> Vec<String> {
    let snapshot =
        |message: &bytes::Bytes| FilterRequest::decode(message.clone()).unwrap().call.unwrap().snapshot;
    backend.messages(verb).iter().map(snapshot).collect()
}

#[tokio::test]
async fn all_backends_of_a_call_are_told_about_one_state_of_the_nodes() {
    let answer = |verb: &str, message: bytes::Bytes| match verb {
        "Filter" => Act::Message(filtered(&message, &[], "").encode_to_vec()),
        _ => Act::Message(scored(&message, |_| 1).encode_to_vec()),
    };
    let facts = Scripted::start(info(reading::facts()), answer).await;
    let raw = Scripted::start(info(reading::json()), answer).await;
    let names = Scripted::start(info(reading::names()), answer).await;
    let folder = tempfile::tempdir().unwrap();
    let write = |label: &str| {
        let (a, b) = (node("a", label), node("b", ""));
        let list = format!("{{\"apiVersion\": \"v1\", \"kind\": \"List\", \"items\": [{a}, {b}]}}");
        fs::write(folder.path().join("nodes.json"), list).unwrap();
    };
    write("one");
    let verbs = "filter: {timeout: 60s}, score: {timeout: 60s}";
    let backends =
        [("facts", facts.address, verbs), ("raw", raw.address, verbs), ("names", names.address, verbs)];
    let program = start_with(&folder, "{source: File, file: nodes.json}", &backends).await;
    let label = async |expected: &str| {
        while told(&program, "a").await["facts"]["labels"]["entries"]["refused"] != expected {
            sleep(Duration::from_millis(10)).await;
        }
    };
    let call = async |verb: &str| {
        let body = about(&sibling(1), &["a", "b"]);
        Client::connect(program.extender).await.post(verb, body.as_bytes()).await;
    };
    timeout(TEST_TIMEOUT, label("one")).await.unwrap();
    call("/filter").await;
    call("/prioritize").await;
    write("two");
    timeout(TEST_TIMEOUT, label("two")).await.unwrap();
    call("/filter").await;
    let (filtered, scored) = (snapshots(&facts, "Filter"), snapshots(&facts, "Score"));
    assert_eq!((filtered.len(), &scored[..]), (2, &filtered[..1]));
    assert!(!filtered[0].is_empty() && filtered[1] != filtered[0], "{filtered:?}");
    assert_eq!((snapshots(&raw, "Filter"), snapshots(&raw, "Score")), (filtered, scored));
    assert_eq!(snapshots(&names, "Filter"), ["", ""]);
}

#[tokio::test]
async fn status_says_who_runs_the_controllers_of_a_backend() {
    let controllers = Controllers {
        names: vec!["quota-status".to_owned(), "expiry".to_owned()],
        lease: "shop/quota".to_owned(),
        identity: "quota-0".to_owned(),
        leader: "quota-1".to_owned(),
    };
    let reported = GetInfoResponse { controllers: Some(controllers.clone()), ..info(reading::names()) };
    let invalid = GetInfoResponse {
        controllers: Some(Controllers { names: vec!["x".repeat(64)], ..controllers }),
        ..info(reading::names())
    };
    let good = Scripted::start(reported, |_, _| Act::Hang).await;
    let bad = Scripted::start(invalid, |_, _| Act::Hang).await;
    let folder = tempfile::tempdir().unwrap();
    let filter = "filter: {timeout: 1s}";
    let backends = [("good", good.address, filter), ("bad", bad.address, filter)];
    let program = start_with(&folder, "{source: Request}", &backends).await;
    let connected = async {
        loop {
            let status = get(&program, "/debug/status").await.json();
            if status["backends"].as_array().unwrap().iter().all(|backend| backend["connected"] == true) {
                return status;
            }
            sleep(Duration::from_millis(10)).await;
        }
    };
    let status = timeout(TEST_TIMEOUT, connected).await.expect("both are connected");
    let expected =
        json!({"names": ["quota-status", "expiry"], "lease": "shop/quota", "leaders": ["quota-1"]});
    assert_eq!(
        (&status["backends"][0]["controllers"], &status["backends"][1]["controllers"]),
        (&expected, &Value::Null)
    );
}
