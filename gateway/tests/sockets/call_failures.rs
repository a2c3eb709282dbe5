//! Calls that fail between the gateway and a backend, or between the caller and the gateway: the response, and the
//! next calls.

use std::sync::{
    Arc,
    atomic::{AtomicBool, AtomicUsize, Ordering},
};

use crate::support::{
    Gateway,
    backend::{Act, Scripted, configured as backend, filtered, info},
    by_name, eager, ended,
    http::Client,
    reading, until,
};
use bytes::Bytes;
use extender_gateway_observe::waiting::WaitingSummary;
use prost::Message;
use serde_json::json;
use tokio::sync::watch;

#[tokio::test]
async fn a_backend_that_is_not_ready_any_more_is_asked_no_more() {
    let ready = Arc::new(AtomicBool::new(true));
    let (go, held) = watch::channel(false);
    let script = {
        let (ready, refusals) = (Arc::clone(&ready), AtomicUsize::new(0));
        move |verb: &str, message: Bytes| match verb {
            "GetInfo" if ready.load(Ordering::Relaxed) => {
                Act::Message(info(reading::names()).encode_to_vec())
            }
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
    let moody = Scripted::start(info(reading::names()), move |_, message| {
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
    let moody = Scripted::start(info(reading::names()), |_, _| Act::Drop).await;
    let configured = backend("moody", &moody, "filter: {}");
    let gateway = Gateway::start(&format!("nodes: {{source: Request}}\nbackends:\n{configured}")).await;
    assert!(!gateway.post("/filter", by_name(&["a"])).await.error().is_empty());
    let waiting = &gateway.observer.waiting;
    // kube-scheduler tries it again by itself, too, so it does not count as untried.
    let is_due = |moody: &WaitingSummary| moody.pods == 1 && moody.changed.is_some() && moody.untried == 0;
    until("the pod is due", || waiting.by_backend().get("moody").is_some_and(is_due)).await;
    gateway.until_counted("outages", "extender_gateway_backend_outages_total{backend=\"moody\"} 1\n").await;
}
