//! Calls that fail between the gateway and a backend, or between the caller and the gateway: the response, and the
//! next calls.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use crate::support::{
    ClosedPort, Gateway,
    backend::{Act, Scripted, configured as backend, filtered, framed, info, result, scored},
    by_name, eager, ended,
    http::Client,
    until,
};
use bytes::Bytes;
use extender_gateway::observe::waiting::WaitingSummary;
use extender_policy_api::v1alpha1::NodeView;
use prost::Message;
use serde_json::json;
use tokio::sync::watch;

/// Every way in which a backend can fail a call, and the gateway's text for it.
fn faults() -> Vec<(Act, &'static str)> {
    let empty = scored(&support_message(), |_| 0).encode_to_vec();
    let wrong =
        extender_policy_api::v1alpha1::ScoreResponse { result: Some(result(7)), ..Default::default() };
    vec![
        (Act::Hang, "no answer within 150 ms"),
        (Act::Endless(empty), "no answer within 150 ms"),
        (Act::Reset, "the stream was reset: "),
        (Act::Drop, "the connection was lost"),
        (Act::Status(14, "not now"), "UNAVAILABLE: not now"),
        (Act::Status(12, ""), "UNIMPLEMENTED"),
        (Act::Http(404), "not a gRPC response: HTTP status 404; does url point to another service?"),
        (Act::Message(Vec::new()), "response has no result"),
        (Act::Message(wrong.encode_to_vec()), "evaluated 7 nodes, expected 2"),
        (Act::Message(b"\xff\xff\xff".to_vec()), "cannot decode the response"),
        (Act::Framed(b"\x00\x00\x00".to_vec()), "response contains no message"),
        (Act::Framed(framed(&[0; 16]).repeat(2)), "response contains more than one message"),
        (Act::Framed(vec![0; 1 << 20]), "response is larger than 67584 bytes"),
    ]
}

fn support_message() -> Bytes {
    use extender_policy_api::v1alpha1::{NodeRows, Nodes, ScoreRequest, nodes::Form};
    let nodes = Some(Nodes { count: 0, form: Some(Form::Rows(NodeRows::default())) });
    ScoreRequest { nodes, ..Default::default() }.encode_to_vec().into()
}

#[tokio::test]
async fn every_failure_is_decided_by_the_failure_policy() {
    for (act, text) in faults() {
        let (bad, timeout) = (Scripted::always(act.clone()).await, act.timeout());
        let good = Scripted::refusing(&["a"], "no", 4).await;
        for (policy, fails) in [("Fail", true), ("Ignore", false)] {
            let bad = backend(
                "bad",
                &bad,
                &format!(
                    "filter: {{timeout: {timeout}, failurePolicy: {policy}}}, score: {{timeout: {timeout}}}"
                ),
            );
            let good = backend("good", &good, "filter: {}, score: {}");
            let gateway =
                Gateway::start(&format!("nodes: {{source: Request}}\nbackends:\n{bad}{good}")).await;
            let answer = gateway.post("/filter", by_name(&["a", "b"])).await;
            if fails {
                let error = answer.error();
                assert!(
                    error.starts_with(&format!("extender-gateway: backend bad failed filter: {text}")),
                    "{act:.60?}: {error}"
                );
                assert!(!error.contains('%') && answer.json().get("NodeNames").is_none(), "{answer:?}");
            } else {
                assert_eq!(
                    (answer.error().as_str(), &answer.json()["NodeNames"]),
                    ("", &json!(["b"])),
                    "{act:?}"
                );
            }
            let answer = gateway.post("/prioritize", by_name(&["a", "b"])).await;
            assert_eq!(
                answer.json(),
                json!([{"Host": "a", "Score": 4}, {"Host": "b", "Score": 4}]),
                "{act:?}"
            );
            assert!(gateway.metrics.text().contains(r#"backend_failures_total{backend="bad",verb="filter""#));
        }
    }
}

#[tokio::test]
async fn a_backend_that_is_not_there_is_a_failure_too() {
    let closed_port = ClosedPort::new();
    let gone = closed_port.address;
    let gateway = Gateway::start(&format!(
        "nodes: {{source: Request}}\nbackends:\n- {{name: gone, url: 'http://{gone}', filter: {{}}, score: {{}}}}"
    ))
    .await;
    let error = gateway.post("/filter", by_name(&["a"])).await.error();
    assert_eq!(
        error,
        format!("extender-gateway: backend gone failed filter: cannot connect to {gone}: connection refused")
    );
    assert_eq!(gateway.post("/prioritize", by_name(&["a"])).await.json(), json!([]));
}

#[tokio::test]
async fn a_backend_that_is_not_ready_any_more_is_asked_no_more() {
    let ready = Arc::new(AtomicBool::new(true));
    let (go, held) = watch::channel(false);
    let script = {
        let (ready, refusals) = (Arc::clone(&ready), AtomicUsize::new(0));
        move |verb: &str, message: Bytes| match verb {
            "GetInfo" if ready.load(Ordering::Relaxed) => Act::Message(info(NodeView::Name).encode_to_vec()),
            // A connection has several handshakes to lose: the third one waits.
            "GetInfo" if refusals.fetch_add(1, Ordering::Relaxed) < 2 => Act::Status(14, "not serving"),
            "GetInfo" => Act::Later(held.clone(), Box::new(Act::Status(14, "not serving"))),
            _ => Act::Message(filtered(&message, &["a"], "no").encode_to_vec()),
        }
    };
    let flaky = Scripted::start_bare(script, None).await;
    let configured = backend("flaky", &flaky, "filter: {}");
    let rest = format!("nodes: {{source: Request}}\nbackends:\n{configured}");
    let gateway = Gateway::start_paced(&rest, eager()).await;
    let mut client = Client::connect(gateway.address).await;
    let mut filter = async || client.post("/filter", by_name(&["a", "b"]).as_bytes()).await;
    let handshakes = || flaky.messages("GetInfo").len();
    ready.store(false, Ordering::Relaxed);
    let before = handshakes();
    until("no more handshakes", || handshakes() >= before + 3).await;
    assert_eq!(filter().await.json()["NodeNames"], json!(["b"]), "a missed handshake costs no call");
    go.send(true).unwrap();
    let down = "extender-gateway: backend flaky failed filter: handshake failed: UNAVAILABLE: not serving";
    ended("it is not down", async { while filter().await.error() != down {} }).await;
    assert!(handshakes() >= before + 5);
    ready.store(true, Ordering::Relaxed);
    ended("it stays down", async { while filter().await.json()["NodeNames"] != json!(["b"]) {} }).await;
}

#[tokio::test]
async fn a_caller_who_hangs_up_takes_the_questions_with_it() {
    let slow = Scripted::always(Act::Hang).await;
    let configured = backend("slow", &slow, "filter: {timeout: 60s}");
    let gateway = Gateway::start(&format!(
        "timeouts: {{decision: 60s}}\nnodes: {{source: Request}}\nbackends:\n{configured}"
    ))
    .await;
    let mut client = Client::connect(gateway.address).await;
    let body = by_name(&["a"]);
    let head =
        format!("POST /filter HTTP/1.1\r\nHost: gateway\r\nContent-Length: {}\r\n\r\n{body}", body.len());
    client.write(head.as_bytes()).await;
    until("it is not asked", || !slow.asked("Filter").is_empty()).await;
    drop(client);
    slow.canceled().await;
}

#[tokio::test]
async fn a_lost_connection_is_made_again_and_costs_no_later_call() {
    let drops = AtomicBool::new(true);
    let moody = Scripted::start(info(NodeView::Name), move |_, message| {
        if drops.swap(false, Ordering::Relaxed) {
            return Act::Drop;
        }
        Act::Message(filtered(&message, &["b"], "no").encode_to_vec())
    })
    .await;
    let configured = backend("moody", &moody, "filter: {}");
    let gateway = Gateway::start(&format!("nodes: {{source: Request}}\nbackends:\n{configured}")).await;
    let first = gateway.post("/filter", by_name(&["a", "b"])).await.error();
    assert!(
        first.starts_with("extender-gateway: backend moody failed filter: the connection was"),
        "{first}"
    );
    let answered = async {
        loop {
            let answer = gateway.post("/filter", by_name(&["a", "b"])).await;
            if answer.error().is_empty() {
                return answer;
            }
        }
    };
    assert_eq!(ended("the connection stays lost", answered).await.json()["NodeNames"], json!(["a"]));
}

#[tokio::test]
async fn a_pod_that_failed_is_due_when_its_backend_is_connected_again() {
    let moody = Scripted::start(info(NodeView::Name), |_, _| Act::Drop).await;
    let configured = backend("moody", &moody, "filter: {}");
    let gateway = Gateway::start(&format!("nodes: {{source: Request}}\nbackends:\n{configured}")).await;
    assert!(!gateway.post("/filter", by_name(&["a"])).await.error().is_empty());
    let waiting = &gateway.observer.waiting;
    // kube-scheduler tries it again by itself, too, so it does not count as untried.
    let is_due = |moody: &WaitingSummary| moody.pods == 1 && moody.changed.is_some() && moody.untried == 0;
    until("the pod is due", || waiting.by_backend().get("moody").is_some_and(is_due)).await;
    gateway.until_counted("outages", "extender_gateway_backend_outages_total{backend=\"moody\"} 1\n").await;
}
