//! `explain`, `status`, `introspect` and `version` as programs, between scripted gateways and a scripted apiserver.

mod introspect;
mod server;
mod status;
mod version;

use std::{
    path::Path,
    process::{Output, Stdio},
};

use crate::support::{
    ClosedPort,
    admin::Seen,
    apiserver::kubeconfig,
    backend::{Act, Scripted, configured, filtered, info},
    by_name, reading,
};
use extender_gateway_api::{DecisionList, LogState};
use prost::Message;
use serde_json::{Value, json};
use server::Server;
use tempfile::NamedTempFile;
use tokio::process::Command;

const DECISIONS: &str = "/debug/decisions";
const STATUS: &str = "/debug/status";
const POD: &str = "/api/v1/namespaces/shop/pods/web-0";
const PODS: &str = "/api/v1/namespaces/shop/pods";
const NODES: &str = "/api/v1/nodes";
const GATEWAY: &str = env!("CARGO_BIN_EXE_extender-gateway");
const PLUGIN: &str = env!("CARGO_BIN_EXE_kubectl-extender");

/// The result of a program: exit code, standard output, standard error.
type Ended = (i32, String, String);

/// Runs a program that reaches a cluster only by its arguments.
async fn run(program: &str, arguments: &[&str]) -> Ended {
    let mut command = Command::new(program);
    command.args(arguments).env_clear().env("HOME", "/nonexistent").kill_on_drop(true);
    ended(command.output().await.unwrap())
}

fn ended(output: Output) -> Ended {
    let text = |bytes| String::from_utf8(bytes).unwrap();
    (output.status.code().unwrap(), text(output.stdout), text(output.stderr))
}

fn path(file: &Path) -> &str {
    file.to_str().unwrap()
}

/// The answer of a gateway that decided these calls.
fn decisions(gateway: &str, items: &[Value]) -> (u16, Value) {
    let list = DecisionList {
        api_version: "extender-gateway.io/v1alpha1".to_owned(),
        kind: "DecisionList".to_owned(),
        gateway: gateway.to_owned(),
        log: LogState {
            max_bytes: 1 << 26,
            since: "2026-11-21T22:00:00Z".parse().unwrap(),
            ..LogState::default()
        },
        truncated: false,
        items: items.iter().map(|item| serde_json::from_value(item.clone()).unwrap()).collect(),
    };
    (200, serde_json::to_value(list).unwrap())
}

/// A call about `shop/web-0`.
fn call(verb: &str, time: &str, nodes: &Value) -> Value {
    json!({
        "id": verb, "time": time, "seconds": 0.001, "verb": verb, "generation": 1, "outcome": "ok",
        "pod": {"namespace": "shop", "name": "web-0", "uid": "u-1"},
        "offered": nodes.as_array().unwrap().len(), "left": 1,
        "backends": [{"name": "zones", "mode": "Enforce", "asked": 2, "known": 0, "seconds": 0.001}],
        "nodes": nodes,
    })
}

fn filter() -> Value {
    let rejected = json!({"name": "b", "rejectedBy": "zones", "reason": "zone is drained",
                          "backends": {"zones": {"rejected": "zone is drained"}}});
    let accepted = json!({"name": "a", "backends": {"zones": {"accepted": true}}});
    call("filter", "2026-11-21T23:00:10Z", &json!([accepted, rejected]))
}

fn bind() -> Value {
    call("bind", "2026-11-21T23:00:11Z", &json!([{"name": "a"}]))
}

fn pod(node: Option<&str>) -> (u16, Value) {
    let metadata = json!({"name": "web-0", "namespace": "shop", "uid": "u-1", "creationTimestamp": "2026-11-21T23:00:00Z"});
    let spec = json!({"nodeName": node, "schedulerName": "default-scheduler", "containers": []});
    (
        200,
        json!({"kind": "Pod", "apiVersion": "v1", "metadata": metadata, "spec": spec, "status": {"phase": "Running"}}),
    )
}

/// The answer of an apiserver that is asked for one object, and has more.
fn nodes(more: u64) -> (u16, Value) {
    (200, list(&json!([{"metadata": {"name": "a"}}]), more))
}

fn list(items: &Value, more: u64) -> Value {
    json!({"kind": "PartialObjectMetadataList", "apiVersion": "meta.k8s.io/v1", "items": items,
           "metadata": {"remainingItemCount": more}})
}

#[tokio::test]
async fn all_replicas_are_asked_and_the_apiserver() {
    let first = Server::start([(DECISIONS, decisions("gateway-0", &[filter()]))]).await;
    let second = Server::start([(DECISIONS, decisions("gateway-1", &[bind()]))]).await;
    let apiserver = Server::start([(POD, pod(Some("a"))), (NODES, nodes(4999))]).await;
    let (kubeconfig, closed_port) = (apiserver.kubeconfig(), ClosedPort::new());
    let away = closed_port.address;
    let urls = format!("{},{},http://{away}", first.url(), second.url());
    let line = ["explain", "pod/web-0", "--gateway", &urls, "--kubeconfig", path(kubeconfig.path())];
    let (code, out, err) = run(GATEWAY, &line).await;
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    for part in [
        "Pod shop/web-0 is on a.\n",
        " by gateway-1; the log has 1 attempt.\n",
        "Latest attempt: 2 of 5,000 nodes were offered, 1 left, 1 rejected; bound to a.\n",
        "- One feasible node: not scored. ",
        &format!(
            "- http://{away} did not answer: cannot connect (Connection refused (os error 111)); check that the gateway runs "
        ),
        "\nb         zones  zone is drained\n",
    ] {
        assert!(out.contains(part), "{part:?} is not in\n{out}");
    }
    assert!(
        first.asked().contains(&format!("{DECISIONS}?namespace=shop&pod=web-0&limit=1000")),
        "{:?}",
        first.asked()
    );
}

#[tokio::test]
async fn the_plugin_reaches_gateways_through_the_apiserver() {
    let gateways = json!([
        {"metadata": {"name": "gateway-0"}, "status": {"phase": "Running"}},
        {"metadata": {"name": "gateway-1"}, "status": {"phase": "Pending"}},
    ]);
    let apiserver = Server::start([
        (POD, pod(Some("a"))),
        (
            "/api/v1/namespaces/gw/pods",
            (200, json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": gateways})),
        ),
        (
            "/api/v1/namespaces/gw/pods/gateway-0:1234/proxy/debug/decisions",
            decisions("gateway-0", &[filter(), bind()]),
        ),
    ])
    .await;
    let kubeconfig = apiserver.kubeconfig();
    let line = [
        "explain",
        "web-0",
        "-n",
        "shop",
        "--gateway-namespace",
        "gw",
        "--admin-port",
        "1234",
        "-o",
        "json",
        "--kubeconfig",
    ];
    let (code, out, err) = run(PLUGIN, &[&line as &[_], &[path(kubeconfig.path())]].concat()).await;
    assert_eq!((code, err.as_str()), (0, ""), "{out}");
    let explanation: Value = serde_json::from_str(&out).unwrap();
    assert_eq!(explanation["attempts"][0]["calls"][1]["verb"], "bind");
    assert_eq!((&explanation["pod"]["node"], &explanation["uid"]), (&json!("a"), &json!("u-1")));
    let listed = "/api/v1/namespaces/gw/pods?&labelSelector=app.kubernetes.io%2Fname%3Dextender-gateway";
    assert!(apiserver.asked().contains(&listed.to_owned()), "{:?}", apiserver.asked());
}

#[tokio::test]
async fn gateways_that_cannot_be_found_through_the_apiserver_are_away() {
    let none = json!({"kind": "PodList", "apiVersion": "v1", "metadata": {}, "items": []});
    let refused = json!({"kind": "Status", "apiVersion": "v1", "status": "Failure", "code": 403, "message": "pods is forbidden"});
    for (answer, text) in [
        ((200, none), "no gateway pod found; check --gateway-selector"),
        ((403, refused), "cannot reach the apiserver: it rejected the request: pods is forbidden"),
    ] {
        let apiserver = Server::start([("/api/v1/namespaces/gw/pods", answer)]).await;
        let kubeconfig = apiserver.kubeconfig();
        let line = ["explain", "web-0", "--gateway-namespace", "gw", "--kubeconfig", path(kubeconfig.path())];
        let (code, out, err) = run(PLUGIN, &line).await;
        let expected = format!(
            "extender-gateway: no gateway answered\n- the pods app.kubernetes.io/name=extender-gateway in namespace gw: {text}\n"
        );
        assert_eq!((code, out.as_str(), err), (5, "", expected));
    }
}

#[tokio::test]
async fn without_a_way_to_the_apiserver_the_gateways_are_enough() {
    let gateway = Server::start([(DECISIONS, decisions("gateway-0", &[filter(), bind()]))]).await;
    let (code, out, _) = run(GATEWAY, &["explain", "web-0", "-n", "shop", "--gateway", &gateway.url()]).await;
    assert_eq!(code, 0);
    assert!(out.starts_with("Pod shop/web-0 was bound to a according to the bind call.\n"), "{out}");
    assert!(
        out.contains(
            "- No data from the apiserver: no kubeconfig and no service account of a pod; set KUBECONFIG or"
        ),
        "{out}"
    );
    let line = ["explain", "web-0", "-n", "shop", "--gateway", &gateway.url(), "--no-cluster"];
    let (_, out, _) = run(GATEWAY, &line).await;
    assert!(out.contains("- No data from the apiserver: --no-cluster is set.\n"), "{out}");
    let closed_port = ClosedPort::new();
    let away = kubeconfig(closed_port.address);
    let line = ["explain", "web-0", "--gateway", &gateway.url(), "--kubeconfig", path(away.path())];
    let (code, out, _) = run(GATEWAY, &line).await;
    let line = format!(
        "- No data from the apiserver: cannot connect to http://{}: connection refused.\n",
        closed_port.address
    );
    assert!(code == 0 && out.contains(&line), "{out}");
}

#[tokio::test]
async fn the_oldest_waiting_pod_of_a_deployment_is_explained() {
    let gateway = Server::start([(DECISIONS, decisions("gateway-0", &[filter()]))]).await;
    let waiting = |name: &str, minute: u8, set: &str| {
        json!({"metadata": {
            "name": name, "namespace": "shop", "labels": {"pod-template-hash": "7d9"},
            "creationTimestamp": format!("2026-11-21T22:{minute:02}:00Z"),
            "ownerReferences": [{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": set, "uid": "u", "controller": true}],
        }})
    };
    let pods = json!([
        waiting("web-9", 30, "web-7d9"),
        waiting("db-0", 1, "db-7d9"),
        waiting("web-0", 2, "web-7d9")
    ]);
    let apiserver = Server::start([(PODS, (200, list(&pods, 0))), (POD, pod(None)), (NODES, nodes(1))]).await;
    let kubeconfig = apiserver.kubeconfig();
    let explain = |subject: &'static str| {
        let (url, kubeconfig) = (gateway.url(), path(kubeconfig.path()).to_owned());
        async move { run(GATEWAY, &["explain", subject, "--gateway", &url, "--kubeconfig", &kubeconfig]).await }
    };
    let (code, out, err) = explain("deployment/web").await;
    let begin = "2 pods of deployment/web wait for a node. This is about the oldest, web-0; the others are web-9.\nPod shop/web-0 ";
    assert!(code == 0 && err.is_empty() && out.starts_with(begin), "{code} {out} {err}");
    let asked = apiserver.asked();
    assert!(asked.iter().any(|query| query.contains("fieldSelector=spec.nodeName%3D")), "{asked:?}");
    let (code, out, err) = explain("sts/web").await;
    let none = "extender-gateway: no pod of statefulset/web in namespace shop waits for a node; name one of its pods to see where it went and why\n";
    assert_eq!((code, out.as_str(), err.as_str()), (6, "", none));
    let line = ["explain", "deploy/web", "--gateway", &gateway.url(), "--no-cluster"];
    let (code, _, err) = run(GATEWAY, &line).await;
    let why = "extender-gateway: cannot find the pods of deployment/web in namespace default: --no-cluster is set; name a pod instead\n";
    assert_eq!((code, err.as_str()), (6, why));
}

#[tokio::test]
async fn a_pod_that_does_not_exist_is_looked_for() {
    let gateway = Server::start([(DECISIONS, decisions("gateway-0", &[]))]).await;
    let here = list(&json!([{"metadata": {"name": "web-1", "namespace": "shop"}}]), 0);
    let everywhere = |items: Value| (200, list(&items, 0));
    for (others, end) in [
        (json!([]), "similar names there: web-1"),
        (
            json!([{"metadata": {"name": "web-0", "namespace": "test"}}]),
            "namespace test has one: set -n test",
        ),
    ] {
        let apiserver =
            Server::start([(PODS, (200, here.clone())), ("/api/v1/pods", everywhere(others))]).await;
        let kubeconfig = apiserver.kubeconfig();
        let line = ["explain", "web-0", "--gateway", &gateway.url(), "--kubeconfig", path(kubeconfig.path())];
        let (code, out, err) = run(GATEWAY, &line).await;
        let expected = format!(
            "extender-gateway: pod web-0 not found in namespace shop, and no gateway has decisions for it; {end}\n"
        );
        assert!(code == 6 && out.is_empty() && err.starts_with(&expected), "{code} {err}");
    }
}

#[tokio::test]
async fn a_node_is_looked_for() {
    let gateway = Server::start([(DECISIONS, decisions("gateway-0", &[filter()]))]).await;
    let node = |name| (200, json!({"kind": "PartialObjectMetadata", "metadata": {"name": name}}));
    let apiserver =
        Server::start([(POD, pod(Some("a"))), (NODES, nodes(1)), ("/api/v1/nodes/node-9", node("node-9"))])
            .await;
    let kubeconfig = apiserver.kubeconfig();
    let explained = async |node| {
        let line = [
            "explain",
            "web-0",
            "--gateway",
            &gateway.url(),
            "--node",
            node,
            "--kubeconfig",
            path(kubeconfig.path()),
        ];
        run(GATEWAY, &line).await.1
    };
    let there = explained("node-9").await;
    assert!(there.contains("- node-9 was not offered in this attempt (2 of 2 nodes were): "), "{there}");
    let missing = explained("node-8").await;
    assert!(missing.contains("- There is no node node-8 in the cluster.\n"), "{missing}");
    let rejected = explained("b").await;
    assert!(rejected.contains("  filter  zones    rejected: zone is drained\n"), "{rejected}");
}

#[tokio::test]
async fn when_a_pod_can_be_tried_again_is_said_to_people_and_programs() {
    let drained = Scripted::start(info(reading::names()), |_, message| {
        let mut answer = filtered(&message, &["b"], "zone is drained");
        answer.rejections[0].retry_after_seconds = Some(90);
        Act::Message(answer.encode_to_vec())
    });
    let backend = configured("zones", &drained.await, "filter: {timeout: 60s}");
    let seen = Seen::start(&format!("nodes: {{source: NamesOnly}}\nbackends:\n{backend}")).await;
    seen.gateway.post("/filter", by_name(&["a", "b"])).await;
    seen.settled(1).await;
    let url = format!("http://{}", seen.admin.0);
    let line = ["explain", "pod/web-0", "--namespace", "shop", "--gateway", &url, "--output", "json"];
    let (_, out, err) = run(GATEWAY, &line).await;
    let shown: Value = serde_json::from_str(&out).unwrap_or_else(|_| panic!("{out}{err}"));
    let verdict = &shown["attempts"][0]["calls"][0]["nodes"][1]["backends"]["zones"];
    assert_eq!(*verdict, json!({"rejected": "zone is drained", "retryAfterSeconds": 90}), "{shown}");
}

#[tokio::test]
async fn the_environment_names_gateways() {
    let gateway = Server::start([(DECISIONS, decisions("gateway-0", &[filter()]))]).await;
    let mut command = Command::new(GATEWAY);
    command
        .args(["explain", "web-0", "-n", "shop", "-o", "yaml"])
        .env_clear()
        .env("EXTENDER_GATEWAYS", gateway.url());
    let (code, out, _) = ended(command.kill_on_drop(true).output().await.unwrap());
    assert_eq!(code, 0);
    assert!(out.starts_with("apiVersion: extender-gateway.io/v1alpha1\nkind: Explanation\n"), "{out}");
}

#[tokio::test]
async fn a_reader_that_has_enough_is_no_failure() {
    let gateway = Server::start([(DECISIONS, decisions("gateway-0", &[filter()]))]).await;
    let mut command = Command::new(GATEWAY);
    command.args(["explain", "web-0", "-n", "shop", "--no-cluster", "--gateway", &gateway.url()]);
    let mut program =
        command.stdout(Stdio::piped()).stderr(Stdio::piped()).kill_on_drop(true).spawn().unwrap();
    drop(program.stdout.take());
    assert_eq!(ended(program.wait_with_output().await.unwrap()), (0, String::new(), String::new()));
}

#[tokio::test]
async fn a_usual_kubeconfig_that_is_broken_is_said() {
    let gateway = Server::start([(DECISIONS, decisions("gateway-0", &[filter()]))]).await;
    let broken = NamedTempFile::new().unwrap();
    std::fs::write(broken.path(), "clusters: 5").unwrap();
    let mut command = Command::new(GATEWAY);
    command.args(["explain", "web-0", "-n", "shop", "--gateway", &gateway.url()]);
    command.env_clear().env("KUBECONFIG", broken.path()).kill_on_drop(true);
    let (code, out, _) = ended(command.output().await.unwrap());
    assert!(code == 0 && out.contains("- No data from the apiserver: invalid kubeconfig: "), "{out}");
}

#[tokio::test]
async fn the_number_of_nodes_is_the_gateways_where_the_apiserver_says_none() {
    let gateway = Server::start([
        (DECISIONS, decisions("gateway-0", &[filter()])),
        (STATUS, status::status("gateway-0", &json!([]))),
    ])
    .await;
    let line = ["explain", "web-0", "-n", "shop", "--gateway", &gateway.url(), "--no-cluster", "--node", "c"];
    let (_, out, _) = run(GATEWAY, &line).await;
    assert!(out.contains("- c was not offered in this attempt (2 of 5 nodes were): "), "{out}");
}

#[tokio::test]
async fn a_cluster_that_is_named_has_to_be_usable() {
    let line = ["explain", "web-0", "--kubeconfig", "/nonexistent/config"];
    let (code, _, err) = run(GATEWAY, &line).await;
    let begin = "extender-gateway: --kubeconfig /nonexistent/config: invalid kubeconfig: ";
    assert!(code == 2 && err.starts_with(begin), "{code} {err}");
    let apiserver = Server::start([]).await;
    let kubeconfig = apiserver.kubeconfig();
    let line = ["explain", "web-0", "--kubeconfig", path(kubeconfig.path()), "--context", "production"];
    let (code, _, err) = run(GATEWAY, &line).await;
    assert!(code == 2 && err.contains("production"), "{code} {err}");
}
