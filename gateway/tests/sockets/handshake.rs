//! A backend whose first handshake fails: the responses to calls give the cause.

use std::fmt::Write as _;
use std::{fmt::Debug, net::SocketAddr, time::Duration};

use crate::support::{
    Gateway,
    backend::{Scripted, configured},
    by_name,
};
use h2::Reason;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    time::timeout,
};
use tracing::{Event, Subscriber, field::Field};
use tracing_subscriber::{
    Layer,
    layer::{Context, SubscriberExt},
};

/// Serves connections on which every stream is reset with this reason.
async fn resetting(reason: Reason) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((stream, _)) = listener.accept().await {
            tokio::spawn(reset_all(stream, reason));
        }
    });
    address
}

/// The connection itself stays open until the caller closes it.
async fn reset_all(stream: TcpStream, reason: Reason) {
    let Ok(mut connection) = h2::server::handshake(stream).await else { return };
    while let Some(Ok((_, mut respond))) = connection.accept().await {
        respond.send_reset(reason);
    }
}

#[tokio::test]
async fn a_stream_that_is_reset_is_the_cause_though_the_connection_stays() {
    let address = resetting(Reason::REFUSED_STREAM).await;
    let gateway = Gateway::start(&format!(
        "nodes: {{source: Request}}\nbackends:\n- {{name: b, url: 'http://{address}', filter: {{}}}}\n"
    ))
    .await;
    let error = gateway.post("/filter", by_name(&["a"])).await.error();
    let expected = "extender-gateway: backend b failed filter: handshake failed: the stream was reset: ";
    assert!(error.starts_with(expected), "{error}");
}

/// A log that panics whenever backend `bad` is ready: simulates a bug in a session.
struct Panicking;

impl<S: Subscriber> Layer<S> for Panicking {
    fn on_event(&self, event: &Event<'_>, _: Context<'_, S>) {
        let mut text = String::new();
        event.record(&mut |field: &Field, value: &dyn Debug| write!(text, "{field}={value:?} ").unwrap());
        assert!(!(text.contains("message=backend is ready") && text.contains("backend=bad ")), "on purpose");
    }
}

#[tokio::test]
async fn a_panic_in_a_session_is_an_outage_of_that_backend() {
    let _guard = tracing::subscriber::set_default(tracing_subscriber::registry().with(Panicking));
    let bad = Scripted::refusing(&["a"], "no", 0).await;
    let good = Scripted::refusing(&["b"], "no", 0).await;
    let gateway = Gateway::start(&format!(
        "nodes: {{source: Request}}\ntimeouts: {{decision: 30s}}\nbackends:\n{}{}",
        configured("bad", &bad, "filter: {timeout: 20s, failurePolicy: Ignore}"),
        configured("good", &good, "filter: {timeout: 20s}")
    ))
    .await;
    assert!(!gateway.metrics.text().contains("extender_gateway_panics_total 0\n"), "every backend was tried");
    let reply = async || gateway.post("/filter", by_name(&["a", "b", "c"])).await.json()["NodeNames"].take();
    let first = reply().await;
    assert!(first == json!(["a", "c"]) || first == json!(["c"]), "the good one counts: {first}");
    // Not every session logs that the backend is ready, so one gets past the bug eventually.
    let back = async {
        while reply().await != json!(["c"]) {
            tokio::task::yield_now().await;
        }
    };
    timeout(Duration::from_mins(1), back).await.expect("the task that connects goes on");
}

/// A server that answers as one of HTTP/1.1 answers the preface of HTTP/2.
async fn http_1() -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut preface = [0; 24];
            let answer =
                b"HTTP/1.1 505 HTTP Version Not Supported\r\nContent-Length: 0\r\nConnection: close\r\n\r\n";
            if stream.read_exact(&mut preface).await.is_ok() {
                assert_eq!(preface, *b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n");
                let _ = stream.write_all(answer).await;
            }
        }
    });
    address
}

#[tokio::test]
async fn a_server_that_speaks_http_1_alone_is_called_so() {
    let address = http_1().await;
    let gateway = Gateway::start(&format!(
        "nodes: {{source: Request}}\nbackends:\n- {{name: b, url: 'http://{address}', filter: {{}}}}\n"
    ))
    .await;
    let error = gateway.post("/filter", by_name(&["a"])).await.error();
    assert!(error.contains("the backend answers in HTTP/1, not in HTTP/2"), "{error}");
}
