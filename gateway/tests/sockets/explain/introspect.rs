//! `introspect` and its exit codes.

use serde_json::json;

use super::{DECISIONS, GATEWAY, PLUGIN, Server, decisions, filter, path, run};
use crate::support::ClosedPort;

const LIST: &str = "/apis/v1/__services__";
const QUOTAS: &str = "/apis/v1/plugins/quota/quotas";

#[tokio::test]
async fn paths_are_listed_and_shown_from_the_first_gateway_that_has_them() {
    let services = json!({"GET": [LIST, "/apis/v1/nodes/:nodeName", QUOTAS]});
    let starting = json!({"message": "the gateway is starting"});
    let one = Server::start([(LIST, (503, starting.clone())), (QUOTAS, (503, starting))]).await;
    let other = Server::start([(LIST, (200, services)), (QUOTAS, (200, json!({"shop": {"used": 3}})))]).await;
    let gateways = ["--gateway", &one.url(), "--gateway", &other.url()];
    let (code, out, err) = run(GATEWAY, &[&["introspect"], &gateways[..]].concat()).await;
    assert_eq!((code, out.as_str(), err.as_str()), (0, "nodes/:nodeName\nplugins/quota/quotas\n", ""));
    let line = [&["introspect", "plugins/quota/quotas"], &gateways[..]].concat();
    let (code, out, _) = run(GATEWAY, &line).await;
    assert_eq!((code, out.as_str()), (0, "{\n  \"shop\": {\n    \"used\": 3\n  }\n}\n"));
    let (code, out, _) = run(GATEWAY, &[&line[..], &["-o", "yaml"]].concat()).await;
    assert_eq!((code, out.as_str()), (0, "shop:\n  used: 3\n"));
}

#[tokio::test]
async fn without_an_answer_each_gateway_has_its_reason() {
    let message = json!({"message": "backend quota: NOT_FOUND: no quota of namespace shop"});
    let gateway = Server::start([("/apis/v1/plugins/quota/quotas/shop", (404, message))]).await;
    let closed_port = ClosedPort::new();
    let away = format!("http://{}", closed_port.address);
    let line = ["introspect", "plugins/quota/quotas/shop", "--gateway", &gateway.url(), "--gateway", &away];
    let (code, out, err) = run(GATEWAY, &line).await;
    assert_eq!((code, out.as_str()), (5, ""));
    assert!(err.contains("backend quota: NOT_FOUND: no quota of namespace shop"), "{err}");
    assert!(!err.contains("is it the admin address"), "{err}");
    assert!(err.contains(&format!("- {away}: cannot connect (")), "{err}");
}

#[tokio::test]
async fn the_plugin_has_it_through_the_apiserver() {
    let pods = json!({"kind": "PodList", "apiVersion": "v1", "metadata": {},
                      "items": [{"metadata": {"name": "gateway-0"}, "status": {"phase": "Running"}}]});
    let proxied = "/api/v1/namespaces/gw/pods/gateway-0:9403/proxy/apis/v1/nodes/a";
    let apiserver =
        Server::start([("/api/v1/namespaces/gw/pods", (200, pods)), (proxied, (200, json!({"name": "a"})))])
            .await;
    let kubeconfig = apiserver.kubeconfig();
    let line =
        ["introspect", "nodes/a", "--gateway-namespace", "gw", "--kubeconfig", path(kubeconfig.path())];
    let (code, out, err) = run(PLUGIN, &line).await;
    assert_eq!((code, out.as_str(), err.as_str()), (0, "{\n  \"name\": \"a\"\n}\n", ""));
}

#[tokio::test]
async fn explain_shows_what_policies_know_of_a_node() {
    let services = json!({"GET": [
        LIST,
        QUOTAS,
        "/apis/v1/plugins/quota/nodes/:node",
        "/apis/v1/plugins/room/nodes/:name",
    ]});
    let gateway = Server::start([
        (LIST, (200, services)),
        (DECISIONS, decisions("gateway-0", &[filter()])),
        ("/apis/v1/plugins/quota/nodes/a", (200, json!({"used": 3}))),
        ("/apis/v1/plugins/room/nodes/a", (404, json!({"message": "backend room: NOT_FOUND: no node a"}))),
    ]);
    let gateway = gateway.await;
    let url = gateway.url();
    let line = ["explain", "web-0", "-n", "shop", "--no-cluster", "--gateway", &url, "--node", "a"];
    let (code, out, err) = run(GATEWAY, &line).await;
    assert_eq!((code, err.as_str()), (0, ""));
    let (tables, pages) = out.split_once("\nplugins/quota/nodes/a:\n").unwrap_or_else(|| panic!("{out}"));
    assert!(tables.contains("Answers for a:\n"), "{out}");
    let (shown, failed) = pages.split_once("\nplugins/room/nodes/a:\n").unwrap_or_else(|| panic!("{out}"));
    assert_eq!(shown, "{\n  \"used\": 3\n}\n");
    assert!(failed.contains("backend room: NOT_FOUND: no node a"), "{out}");
    let (_, out, _) = run(GATEWAY, &[&line[..], &["-o", "json"]].concat()).await;
    let out: serde_json::Value = serde_json::from_str(&out).unwrap();
    assert_eq!(out["policyPages"][0], json!({"path": "quota/nodes/a", "shown": {"used": 3}}));
    let (_, out, _) = run(GATEWAY, &line[..7]).await;
    assert!(!out.contains("plugins/"), "without --node: {out}");
}
