//! The scraped metrics: their format, and how many series callers can cause.

use extender_gateway_core::Verb;
use std::{net::SocketAddr, sync::Arc, time::Duration};

use crate::support::{
    Gateway,
    backend::{Scripted, configured},
    by_name,
    http::{Answer, Client},
};
use extender_gateway_observe::{Health, Metrics, health};
use extender_gateway_record::CallOutcome;
use tokio::net::TcpListener;

/// Serves these metrics as the gateway does.
async fn serve(metrics: &Arc<Metrics>) -> SocketAddr {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let routes = health::routes(Arc::clone(metrics), Arc::new(Health::default()));
    tokio::spawn(async move { axum::serve(listener, routes).await.unwrap() });
    address
}

async fn scrape(address: SocketAddr, headers: &str) -> Answer {
    let mut client = Client::connect(address).await;
    client.write(format!("GET /metrics HTTP/1.1\r\nHost: gateway\r\n{headers}\r\n").as_bytes()).await;
    client.answer().await
}

fn series(metrics: &Metrics) -> usize {
    metrics.text().lines().filter(|line| !line.starts_with('#')).count()
}

#[tokio::test]
async fn every_scraper_gets_openmetrics() {
    let metrics = Arc::new(Metrics::new());
    metrics.verb(Some(Verb::Filter)).answered(CallOutcome::Ok, Duration::from_millis(1), Some([7; 16]));
    let address = serve(&metrics).await;
    for headers in [
        "",
        "Accept: text/plain;version=0.0.4\r\n",
        "Accept: application/openmetrics-text; version=1.0.0;q=0.5,text/plain;q=0.4\r\n",
    ] {
        let answer = scrape(address, headers).await;
        let kind = "application/openmetrics-text; version=1.0.0; charset=utf-8";
        assert_eq!(answer.header("content-type"), Some(kind), "{headers}");
        let text = String::from_utf8(answer.body).unwrap();
        assert!(text.contains("\n# TYPE extender_gateway_calls counter\n") && text.ends_with("\n# EOF\n"));
        assert!(text.contains(&format!(" # {{trace_id=\"{}\"}} 0.001 ", "07".repeat(16))), "{text}");
    }
}

#[tokio::test]
async fn made_up_paths_and_methods_bring_no_series() {
    let backend = Scripted::refusing(&["b"], "no", 3).await;
    let backend = configured("only", &backend, "filter: {timeout: 60s}");
    let rest = format!("nodes: {{source: NamesOnly}}\ntimeouts: {{decision: 90s}}\nbackends:\n{backend}");
    let gateway = Gateway::start(&rest).await;
    let mut client = Client::connect(gateway.address).await;
    client.post("/filter", by_name(&["a"]).as_bytes()).await;
    client.post("/made/up", b"").await;
    client.send("PUT", "/filter", b"").await;
    let before = series(&gateway.metrics);
    for number in 0..1_000 {
        client.post(&format!("/verb-{number}"), b"").await;
        client.post(&format!("/prefix-{number}/filter"), by_name(&["a"]).as_bytes()).await;
        client.send(&format!("METHOD{number}"), "/filter", b"").await;
    }
    assert_eq!(series(&gateway.metrics), before);
    let line = "extender_gateway_calls_total{verb=\"filter\",outcome=\"ok\"} 1001\n";
    assert!(gateway.metrics.text().contains(line));
}
