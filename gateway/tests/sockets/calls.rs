//! Calls as kube-scheduler makes them, against scripted backends on real sockets: the responses, and the requests
//! to the backends.

use crate::support::{
    Gateway, TEST_TIMEOUT,
    backend::{Act, Scripted, configured as backend, filtered, info, rows},
    by_name,
    http::Client,
    in_full, node, reading, steady,
};
use extender_gateway_pace::cadences::Cadences;
use prost::Message;
use serde_json::json;
use tokio::time::timeout;

/// Makes a request for these names.
type Form = fn(&[&str]) -> String;

/// Both forms of a request, and the field of the reply with the remaining nodes.
const MODES: [(Form, &str); 2] = [(by_name, "NodeNames"), (in_full, "Nodes")];

#[tokio::test]
async fn verdicts_are_merged_in_order_in_both_modes() {
    let first = Scripted::refusing(&["a"], "rack is\nbeing 100% drained", 0).await;
    let second = Scripted::refusing(&["a", "b"], "over quota", 0).await;
    let gateway = Gateway::start(&format!(
        "nodes: {{source: Request}}\nbackends:\n{}{}",
        backend("first", &first, "filter: {}"),
        backend("second", &second, "filter: {preemptionMayHelp: Honored}"),
    ))
    .await;
    for (request, key) in MODES {
        let answer = gateway.post("/filter", request(&["a", "b", "c"])).await;
        assert_eq!((answer.status, answer.header("content-type")), (200, Some("application/json")));
        let mut expected = json!({
            "FailedNodes": {"b": "second: over quota"},
            "FailedAndUnresolvableNodes": {"a": "first: rack is being 100 percent drained"},
            "Error": "",
        });
        expected[key] =
            if key == "Nodes" { json!({"metadata": {}, "items": [node("c")]}) } else { json!(["c"]) };
        assert_eq!(answer.json(), expected);
    }
}

#[tokio::test]
async fn a_node_that_arrives_in_time_is_asked_about() {
    let facts = Scripted::start(info(reading::facts()), |_, message| {
        Act::Message(filtered(&message, &[], "").encode_to_vec())
    })
    .await;
    let configured = backend("facts", &facts, "filter: {}");
    let rest = format!("nodes: {{source: Watch}}\nbackends:\n{configured}");
    let cadences = Cadences { unknown_nodes: TEST_TIMEOUT, ..steady() };
    let gateway = Gateway::start_paced(&rest, cadences).await;
    let call = gateway.post("/filter", by_name(&["late"]));
    let arrive = async {
        tokio::task::yield_now().await;
        gateway.table.apply(node("late").to_string().as_bytes()).unwrap();
    };
    let (answer, ()) = tokio::join!(call, arrive);
    assert_eq!(answer.json()["NodeNames"], json!(["late"]));
}

#[tokio::test]
async fn a_deleted_node_is_rejected_without_a_wait_and_hides_no_reason() {
    let facts = Scripted::start(info(reading::facts()), |_, message| {
        Act::Message(filtered(&message, &["b"], "no").encode_to_vec())
    })
    .await;
    let configured = backend("facts", &facts, "filter: {}");
    let rest = format!("timeouts: {{decision: 10m}}\nnodes: {{source: Watch}}\nbackends:\n{configured}");
    // A call that waits does not return in this test.
    let cadences = Cadences { unknown_nodes: TEST_TIMEOUT * 10, ..steady() };
    let gateway = Gateway::start_paced(&rest, cadences).await;
    let put = |name| gateway.table.apply(node(name).to_string().as_bytes()).unwrap();
    put("a");
    put("b");
    gateway.table.remove("a");
    for _ in 0..2 {
        let call = timeout(TEST_TIMEOUT, gateway.post("/filter", by_name(&["a", "b"])));
        let answer = call.await.expect("a deleted node is not waited for").json();
        assert_eq!(answer["Error"], "");
        let reasons = json!({"a": "node was deleted", "b": "facts: no"});
        assert_eq!(answer["FailedAndUnresolvableNodes"], reasons);
    }
    assert!(gateway.metrics.text().contains("extender_gateway_unknown_nodes_total 0\n"));
    put("a");
    let answer = gateway.post("/filter", by_name(&["a", "b"])).await.json();
    assert_eq!(answer["NodeNames"], json!(["a"]));
    assert_eq!(facts.asked("Filter"), [vec!["b"], vec!["b"], vec!["a", "b"]]);
}

#[tokio::test]
async fn full_objects_are_told_from_the_request_whatever_the_table_says() {
    let facts = Scripted::start(info(reading::json()), |_, message| {
        Act::Message(filtered(&message, &[], "").encode_to_vec())
    })
    .await;
    let configured = backend("facts", &facts, "filter: {}");
    let gateway = Gateway::start(&format!("nodes: {{source: Watch}}\nbackends:\n{configured}")).await;
    let answer = gateway.post("/filter", in_full(&["a"])).await.json();
    assert_eq!(answer["Nodes"]["items"], json!([node("a")]));
    let told = rows(&facts.messages("Filter")[0]);
    assert_eq!(told[0].raw_json, node("a").to_string());
    assert_eq!(told[0].facts.as_ref().unwrap().labels.as_ref().unwrap().entries["name"], "a");
}

static LARGE: [u8; (1 << 20) + 1] = [b' '; (1 << 20) + 1];

/// Method, path, body; status, and the beginning of the text.
const BAD_CALLS: [(&str, &str, &[u8], u16, &str); 11] = [
    ("POST", "/filter", b"{", 200, "bad request: malformed JSON: expected a key in quotes"),
    ("POST", "/filter", br#"{"NodeNames":["a"]}"#, 200, "bad request: the request has no Pod"),
    ("POST", "/filter", br#"{"Pod":{}}"#, 200, "bad request: the request has neither Nodes"),
    ("POST", "/filter", br#"{"Pod":{"metadata":7},"NodeNames":[]}"#, 200, "bad request: Pod: "),
    (
        "POST",
        "/filter",
        &LARGE,
        200,
        "the request has 1048577 bytes, and at most 1048576 are accepted; raise extender.maxRequestBytes",
    ),
    ("POST", "/prioritize", b"{", 400, "bad request: malformed JSON"),
    ("POST", "/prioritize", &LARGE, 413, "the request has 1048577 bytes, and"),
    ("POST", "/preempt", b"{}", 400, "bad request: the request has no Pod"),
    ("POST", "/bind", b"{}", 200, "bad request: the request has no PodName"),
    ("POST", "/nothing", b"{}", 404, "no verb in path /nothing"),
    ("GET", "/filter", b"", 405, "method GET is not allowed"),
];

#[tokio::test]
async fn bad_calls_get_an_answer_in_the_form_of_their_verb() {
    let accepting = Scripted::refusing(&[], "", 0).await;
    let configured = backend("only", &accepting, "filter: {}, score: {}");
    let gateway = Gateway::start(&format!("nodes: {{source: Request}}\nbackends:\n{configured}")).await;
    let mut client = Client::connect(gateway.address).await;
    for (method, path, body, status, text) in BAD_CALLS {
        let answer = client.send(method, path, body).await;
        assert_eq!(answer.status, status, "{path}");
        let said = if status == 200 {
            answer.error()
        } else {
            assert!(answer.body.is_empty(), "{answer:?}");
            answer.header("x-extender-gateway-error").unwrap().to_owned()
        };
        assert!(said.starts_with(&format!("extender-gateway: {text}")), "{path}: {said}");
    }
    let answer = client.post("/filter", by_name(&["a"]).as_bytes()).await;
    assert_eq!(answer.json()["NodeNames"], json!(["a"]), "the connection lives on");
}

#[tokio::test]
async fn a_page_of_the_web_decides_nothing() {
    let accepting = Scripted::refusing(&[], "", 0).await;
    let configured = backend("only", &accepting, "filter: {}, score: {}");
    let gateway = Gateway::start(&format!("nodes: {{source: Request}}\nbackends:\n{configured}")).await;
    let mut client = Client::connect(gateway.address).await;
    for header in [("Origin", "null"), ("origin", "http://gateway"), ("Sec-Fetch-Site", "same-origin")] {
        for path in ["/filter", "/bind", "/nothing"] {
            let answer = client.post_with(header, path, &by_name(&["a"])).await;
            let text = answer.header("x-extender-gateway-error").unwrap_or_default();
            assert_eq!((answer.status, text), (403, "extender-gateway: requests of web pages are rejected"));
        }
    }
    assert_eq!(accepting.asked("Filter").len(), 0);
    let answer = client.post("/filter", by_name(&["a"]).as_bytes()).await;
    assert_eq!(answer.json()["NodeNames"], json!(["a"]), "the connection lives on");
}

#[tokio::test]
async fn a_node_that_cannot_be_read_is_named_to_those_who_sent_it() {
    let facts = Scripted::start(info(reading::facts()), |_, message| {
        Act::Message(filtered(&message, &[], "").encode_to_vec())
    })
    .await;
    let configured = backend("facts", &facts, "filter: {}");
    let gateway = Gateway::start(&format!("nodes: {{source: Request}}\nbackends:\n{configured}")).await;
    let body =
        r#"{"Pod":{},"Nodes":{"items":[{"metadata":{"name":"a"},"status":{"capacity":{"cpu":"x"}}}]}}"#;
    let answer = gateway.post("/filter", body).await.json();
    assert_eq!(answer["FailedAndUnresolvableNodes"], json!({"a": "node cannot be read by the gateway"}));
    let error = gateway.post("/filter", by_name(&["a"])).await.error();
    assert!(
        error.starts_with("extender-gateway: backend facts failed filter: needs facts about nodes"),
        "{error}"
    );
}
