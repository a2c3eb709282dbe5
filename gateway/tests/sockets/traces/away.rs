//! An unavailable collector costs only its spans.

use std::time::Duration;

use serde_json::json;
use tokio::{net::TcpListener, time::timeout};

use super::{NAMES, all, exporters, gateway};
use crate::support::{
    ClosedPort,
    backend::{Scripted, configured},
    by_name,
    http::Client,
    until,
};

/// Whether the exporter fails immediately.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Fault {
    Seen,
    Hidden,
}

/// Posts a thousand calls to a gateway whose spans go to this address.
async fn thousand(endpoint: &str, fault: Fault) -> extender_otlp::Delivery {
    let backend = Scripted::refusing(&["b"], "no", 0).await;
    let only = configured("only", &backend, "filter: {timeout: 60s}");
    let exporters = exporters(endpoint);
    let gateway =
        gateway(&exporters, all(), &format!("timeouts: {{decision: 60s}}\n{NAMES}\nbackends:\n{only}")).await;
    let mut client = Client::connect(gateway.address).await;
    for number in 0..1_000 {
        let body = by_name(&["a", "b"]).replace("u-1", &format!("u-{number}"));
        let answer = client.post("/filter", body.as_bytes()).await.json();
        assert_eq!(answer["NodeNames"], json!(["a"]), "{number}");
    }
    let delivery = || gateway.observer.tracer.as_ref().unwrap().delivery();
    let sum = |it: extender_otlp::Delivery| it.waiting + it.delivered + it.failed + it.dropped;
    // All spans, except those in the request in progress.
    until("spans are missing", || sum(delivery()) >= 3_000 - 512).await;
    until("the fault is not seen", || fault == Fault::Hidden || delivery().fault.is_some()).await;
    delivery()
}

#[tokio::test]
async fn nobody_listens() {
    let closed_port = ClosedPort::new();
    let endpoint = format!("http://{}", closed_port.address);
    let delivery = timeout(Duration::from_mins(2), thousand(&endpoint, Fault::Seen)).await.unwrap();
    assert_eq!(delivery.delivered, 0, "{delivery:?}");
    assert!(delivery.failed > 0 && delivery.fault.is_some(), "{delivery:?}");
}

#[tokio::test]
async fn somebody_listens_and_never_answers() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    let delivery = timeout(Duration::from_mins(2), thousand(&endpoint, Fault::Hidden)).await.unwrap();
    assert_eq!(delivery.delivered, 0, "{delivery:?}");
    assert!(delivery.waiting + delivery.dropped > 0, "{delivery:?}");
}
