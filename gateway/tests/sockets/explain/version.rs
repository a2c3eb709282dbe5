//! `version` and its exit codes.

use serde_json::{Value, json};

use super::{GATEWAY, PLUGIN, STATUS, Server, path, run, status::status};
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
async fn the_plugin_finds_gateways_through_the_apiserver() {
    let pods = json!({"kind": "PodList", "apiVersion": "v1", "metadata": {},
                      "items": [{"metadata": {"name": "gateway-0"}, "status": {"phase": "Running"}}]});
    let apiserver = Server::start([
        ("/api/v1/namespaces/gw/pods", (200, pods)),
        ("/api/v1/namespaces/gw/pods/gateway-0:9403/proxy/debug/status", status("gateway-0", &json!([]))),
    ])
    .await;
    let kubeconfig = apiserver.kubeconfig();
    let line =
        ["version", "--gateway-namespace", "gw", "-o", "json", "--kubeconfig", path(kubeconfig.path())];
    let (code, out, err) = run(PLUGIN, &line).await;
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let report: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(report["gateways"], json!([{"gateway": "gateway-0", "version": "0.1.0"}]));
}

#[tokio::test]
async fn the_client_alone_needs_no_gateway() {
    let (code, out, err) = run(GATEWAY, &["version", "--client", "-o", "yaml"]).await;
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    assert!(out.contains("gateways: []") && out.contains("rustVersion: "), "{out}");
}
