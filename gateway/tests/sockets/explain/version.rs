//! `version` and its exit codes.

use serde_json::json;

use super::{GATEWAY, STATUS, Server, run, status::status};
use crate::support::ClosedPort;

#[tokio::test]
async fn every_gateway_that_answers_says_its_version() {
    let gateway = Server::start([(STATUS, status("gateway-0", &json!([])))]).await;
    let closed_port = ClosedPort::new();
    let away = format!("http://{}", closed_port.address);
    let (code, out, err) = run(GATEWAY, &["version", "--gateway", &gateway.url(), "--gateway", &away]).await;
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let lines: Vec<_> = out.lines().collect();
    assert!(lines[0].starts_with(concat!("Client: ", env!("CARGO_PKG_VERSION"), " (")), "{out}");
    assert_eq!(lines[1], "Gateway gateway-0: 0.1.0");
    assert!(lines[2].starts_with(&format!("{away} does not answer: cannot connect (")), "{out}");

    let (code, out, err) = run(GATEWAY, &["version", "--gateway", &away]).await;
    assert!(code == 5 && out.starts_with("Client: ") && out.lines().count() == 1, "{code} {out}");
    assert!(err.starts_with(&format!("extender-gateway: no gateway answered\n- {away}: ")), "{err}");
}

#[tokio::test]
async fn the_client_alone_needs_no_gateway() {
    let (code, out, err) = run(GATEWAY, &["version", "--client", "-o", "yaml"]).await;
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(out.contains("gateways: []") && out.contains("rustVersion: "), "{out}");
}
