//! The spans of calls that failed, or in which a backend failed.

use super::{NAMES, Traced, all, assert_within, status};
use crate::support::{
    backend::{Act, Scripted, configured},
    by_name,
    http::Client,
    until,
};

async fn start(act: Act, filter: &str) -> (Scripted, Traced) {
    let backend = Scripted::always(act).await;
    let bad = configured("bad", &backend, &format!("filter: {{{filter}}}"));
    (backend, Traced::start(all(), &format!("{NAMES}\nbackends:\n{bad}")).await)
}

#[tokio::test]
async fn a_failure_that_ends_the_call_is_on_every_span() {
    let (_backend, traced) = start(Act::Status(13, "broken"), "timeout: 60s").await;
    let error = traced.gateway.post("/filter", by_name(&["a"])).await.error();
    let spans = traced.spans(3).await;
    let (door, decision, asked) = (spans.one("POST /filter"), spans.one("decide filter"), spans.asked("bad"));
    assert_within(decision, door);
    assert_within(asked, decision);
    for span in [door, decision] {
        assert_eq!((status(span), &*span.attributes["error.type"]), ((2, error.as_str()), "backend"));
        assert_eq!(span.attributes["extender.outcome"], "backend");
    }
    assert_eq!(door.attributes["http.response.status_code"], "200", "filter says errors in the body");
    let (code, text) = status(asked);
    assert!(code == 2 && text.contains("broken"), "{text}");
    let said = ["error.type", "extender.failure.policy", "rpc.response.status_code"];
    assert_eq!(said.map(|key| &*asked.attributes[key]), ["status", "fail", "INTERNAL"]);
    assert_eq!(decision.attributes.get("extender.nodes.left"), None);
}

#[tokio::test]
async fn a_failure_that_is_ignored_is_on_its_question_alone() {
    for (act, timeout, kind, code) in [
        (Act::Hang, "500ms", "late", "DEADLINE_EXCEEDED"),
        (Act::Reset, "60s", "reset", "UNAVAILABLE"),
        (Act::Message(vec![0xff]), "60s", "malformed", "OK"),
        (Act::Status(14, "no"), "60s", "status", "UNAVAILABLE"),
    ] {
        let (_backend, traced) = start(act, &format!("timeout: {timeout}, failurePolicy: Ignore")).await;
        traced.gateway.post("/filter", by_name(&["a"])).await;
        let spans = traced.spans(3).await;
        for span in [spans.one("POST /filter"), spans.one("decide filter")] {
            assert_eq!((status(span), span.attributes.get("error.type")), ((0, ""), None), "{kind}");
        }
        let asked = spans.asked("bad");
        assert_eq!(status(asked).0, 2, "{kind}");
        let said = ["error.type", "extender.failure.policy", "rpc.response.status_code"];
        assert_eq!(said.map(|key| &*asked.attributes[key]), [kind, "ignore", code]);
    }
}

#[tokio::test]
async fn a_backend_that_cannot_be_asked_has_a_span_that_says_so() {
    let rest = "backends:\n- {name: bad, url: 'http://127.0.0.1:1', filter: {failurePolicy: Ignore}}\n";
    let traced = Traced::start(all(), &format!("{NAMES}\n{rest}")).await;
    traced.gateway.post("/filter", by_name(&["a"])).await;
    let spans = traced.spans(3).await;
    let asked = spans.asked("bad");
    assert_within(asked, spans.one("decide filter"));
    assert_eq!((status(asked).0, &*asked.attributes["error.type"]), (2, "unreachable"));
    assert_eq!(asked.attributes.get("rpc.response.status_code"), None, "the backend was not called");
    assert_eq!(asked.attributes["server.port"], "1");
}

#[tokio::test]
async fn a_request_that_cannot_be_read_is_a_server_span_with_an_error() {
    let (_backend, traced) = start(Act::Reset, "failurePolicy: Ignore").await;
    let mut client = Client::connect(traced.gateway.address).await;
    for (method, path, name, outcome, code) in [
        ("POST", "/prioritize", "POST /prioritize", "request", Some("400")),
        ("POST", "/filter", "POST /filter", "request", Some("200")),
        ("GET", "/filter", "GET /filter", "method", Some("405")),
        ("MADEUP", "/filter", "HTTP /filter", "method", Some("405")),
        ("POST", "/made/up", "POST", "path", Some("404")),
    ] {
        let before = traced.collector.count();
        client.send(method, path, b"{").await;
        let spans = traced.spans(before + 1).await;
        let door = &spans.0[before];
        assert_eq!((door.span.name.as_str(), status(door).0, door.span.parent_span_id.len()), (name, 2, 0));
        assert_eq!(door.attributes["error.type"], outcome, "{name}");
        assert_eq!(door.attributes.get("http.response.status_code").map(String::as_str), code);
        let known = if method == "MADEUP" { "_OTHER" } else { method };
        assert_eq!(door.attributes["http.request.method"], known);
        assert!(!status(door).1.is_empty());
        assert_eq!(door.attributes.contains_key("http.route"), path != "/made/up");
    }
}

#[tokio::test]
async fn a_caller_that_hangs_up_leaves_spans() {
    let (backend, traced) = start(Act::Hang, "timeout: 60s").await;
    let mut client = Client::connect(traced.gateway.address).await;
    let body = by_name(&["a"]);
    let head = format!("POST /filter HTTP/1.1\r\nHost: gateway\r\nContent-Length: {}\r\n\r\n", body.len());
    client.write(format!("{head}{body}").as_bytes()).await;
    until("it is not asked", || !backend.messages("Filter").is_empty()).await;
    drop(client);
    let spans = traced.spans(3).await;
    for name in ["POST /filter", "decide filter"] {
        let span = spans.one(name);
        assert_eq!((status(span).0, &*span.attributes["error.type"]), (2, "gone"));
    }
    let canceled = &spans.one("extender.policy.v1beta1.PolicyService/Filter").attributes;
    assert_eq!(canceled["rpc.response.status_code"], "CANCELLED");
    assert_eq!(spans.one("POST /filter").attributes.get("http.response.status_code"), None);
}
