//! What callers can write into the log, and how much of it.

use std::{net::SocketAddr, time::Duration};

use crate::http2::call;
use crate::support::{
    Gateway,
    backend::{Act, Scripted, configured, info},
    by_name,
    certificates::Authority,
    reading,
    secured::{HTTP_1, HTTP_2, Secured, connect_h2, open},
    steady,
    written::Written,
};
use extender_gateway_pace::cadences::Cadences;
use h2::Reason;
use tokio::{net::TcpListener, sync::watch, time::Instant};
use tracing::Level;

/// A peer that closes every connection, alternating between two ways. Counts them.
async fn fickle() -> (SocketAddr, watch::Receiver<u32>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let address = listener.local_addr().unwrap();
    let (count, counted) = watch::channel(0);
    tokio::spawn(async move {
        loop {
            let (stream, _) = listener.accept().await.unwrap();
            count.send_modify(|count| *count += 1);
            if *count.borrow() % 2 == 0 {
                let mut connection = h2::server::handshake(stream).await.unwrap();
                let (_, mut respond) = connection.accept().await.unwrap().unwrap();
                respond.send_reset(Reason::REFUSED_STREAM);
                while connection.accept().await.is_some() {}
            }
        }
    });
    (address, counted)
}

#[tokio::test]
async fn an_outage_is_one_line_though_each_attempt_fails_in_another_way() {
    let (written, _guard) = Written::here();
    let (address, mut attempts) = fickle().await;
    let rest = format!(
        "nodes: {{source: Request}}\nbackends:\n- {{name: b, url: 'http://{address}', filter: {{}}}}\n"
    );
    let _gateway = Gateway::start(&rest).await;
    attempts.wait_for(|attempts| *attempts >= 5).await.unwrap();
    let lines = written.with(&["backend is"]);
    assert!(lines.len() == 1 && lines[0].contains("backend is down: "), "{lines:#?}");
}

#[tokio::test]
async fn each_cause_of_a_refused_handshake_is_said_with_its_remedy() {
    let (written, _guard) = Written::here();
    let secured = Secured::start(", clientCAFile: CALLERS, allowedNames: [scheduler]").await;
    let began = Instant::now();
    let strangers = Authority::new("strangers");
    let (stranger, other) = (strangers.issue("scheduler", &[]), secured.callers.issue("other", &["x.test"]));
    for _ in 0..10 {
        for identity in [None, Some(&stranger), Some(&other)] {
            secured.filter(&secured.client(identity, HTTP_1)).await.unwrap_err();
        }
        open(secured.gateway.address, &strangers.client(None, HTTP_1)).await.unwrap_err();
        assert_eq!(secured.gateway.post("/filter", "{}").await.status, 400);
    }
    // The response to each of them is sent after it was counted.
    let counted = "extender_gateway_tls_handshake_failures_total{cause=\"without_tls\"} 10\n";
    assert!(secured.gateway.observer.metrics.text().contains(counted));
    let most = 1 + began.elapsed().as_secs();
    for text in [
        "the caller sent no client certificate (peer sent no certificates); set certFile and keyFile in the tlsConfig",
        "the caller's certificate is not signed by a CA in extender.tls.clientCAFile (invalid peer certificate: ",
        "contains none of extender.tls.allowedNames (it has the names [other, x.test]); use another certificate, or add its name",
        "the caller does not know the CA of the gateway's certificate (UnknownCA); caFile in the tlsConfig",
        "the caller speaks HTTP without TLS; set enableHTTPS and an https urlPrefix",
    ] {
        let lines = written.with(&["TLS handshake failed: ", text]);
        assert!((1..=most).contains(&(lines.len() as u64)), "{text}: {lines:#?}");
    }
}

#[tokio::test]
async fn refused_calls_bring_a_line_a_second_for_each_kind() {
    let (written, _written_here) = Written::here();
    let facts = Scripted::start(info(reading::facts()), |_, _| panic!("no node is known")).await;
    let rest = format!("nodes: {{source: Watch}}\nbackends:\n{}", configured("facts", &facts, "filter: {}"));
    let cadences = Cadences { unknown_nodes: Duration::ZERO, ..steady() };
    let gateway = Gateway::start_paced(&rest, cadences).await;
    let began = Instant::now();
    for _ in 0..30 {
        assert!(gateway.post("/filter", "{").await.error().contains("bad request"));
        assert!(gateway.post("/filter", by_name(&["a"])).await.error().contains("not yet known"));
        assert_eq!(gateway.post("/prioritize", "{").await.status, 400);
    }
    let most = 1 + began.elapsed().as_secs();
    for kind in [
        ["verb=\"filter\"", "outcome=\"request\"", "call rejected: extender-gateway: bad request"],
        ["verb=\"filter\"", "outcome=\"unknown_nodes\"", "call rejected: extender-gateway: no node is left"],
        ["verb=\"prioritize\"", "outcome=\"request\"", "call rejected: extender-gateway: bad request"],
    ] {
        let lines = written.with(&kind);
        assert!((1..=most).contains(&(lines.len() as u64)), "{kind:?}: {lines:#?}");
        assert!(lines[0].contains("similar=0"), "{lines:#?}");
    }
}

#[tokio::test]
async fn at_level_debug_each_line_names_the_connection_and_the_call() {
    for (level, protocols, expected) in
        [(Level::INFO, HTTP_2, 0), (Level::DEBUG, HTTP_1, 1), (Level::DEBUG, HTTP_2, 1)]
    {
        let (written, _guard) = Written::at(level);
        let fails = Scripted::always(Act::Status(13, "no")).await;
        let secured = Secured::start_before("", fails).await;
        let client = secured.client(None, protocols);
        if protocols == HTTP_1 {
            secured.filter(&client).await.unwrap();
        } else {
            let requests = connect_h2(secured.gateway.address, &client).await;
            call(&requests, "/filter", by_name(&["a"])).await;
        }
        let spans = r#":call{verb="filter" pod="web-0" namespace="shop"}: "#;
        let lines = written.with(&["connection{peer=127.0.0.1:", spans, "backend call failed: "]);
        assert_eq!(lines.len(), expected, "{lines:#?}");
        assert_eq!(written.with(&["backend call failed: "]).len(), 1);
    }
}
