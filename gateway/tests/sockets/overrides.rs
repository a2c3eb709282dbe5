//! Modes that an operator sets for a while at the admin address, canaries, and limits of rejections.

use std::fs;

use extender_gateway_api::{OverrideList, Status};
use extender_gateway_settings::{CanarySettings, Percent};
use serde_json::{Value, json};

use crate::support::{
    Gateway,
    admin::{Admin, Seen},
    apiserver::Apiserver,
    backend::{Act, Scripted, configured},
    binding::{self, TO_A},
    by_name,
    http::{Answer, Client},
    preempting,
    program::{OWN, Program},
};

/// Sends a request about overrides.
async fn send(admin: Admin, body: &Value) -> Answer {
    let mut client = Client::connect(admin.0).await;
    client.post_with(("Content-Type", "application/json"), "/debug/overrides", &body.to_string()).await
}

/// The overrides after this action on a backend, for an hour.
async fn set(admin: Admin, backend: &str, action: &str) -> OverrideList {
    let body = json!({"backend": backend, "action": action, "for": "1h", "reason": "bad\nrule"});
    let answer = send(admin, &body).await;
    assert_eq!(answer.status, 200, "{answer:?}");
    serde_json::from_slice(&answer.body).unwrap()
}

/// A gateway in front of `racks`, which rejects `a` and prefers nothing.
async fn start(settings: &str) -> (Scripted, Seen) {
    let racks = Scripted::refusing(&["a"], "no", 3).await;
    let settings = format!("{settings}filter: {{timeout: 60s}}, score: {{timeout: 60s}}");
    let backends = configured("racks", &racks, &settings);
    let seen = Seen::start(&format!("nodes: {{source: NamesOnly}}\nbackends:\n{backends}")).await;
    (racks, seen)
}

/// Why a backend was in shadow mode in the latest filter call in which one disagreed.
async fn shadow_reason(admin: Admin) -> String {
    let found = admin.decisions("?verdict=disagreed&verb=filter&nodes=none").await;
    let mut parts = found.items.iter().flat_map(|call| &call.backends);
    parts.find_map(|part| part.mode_reason.clone()).expect("a reason")
}

/// The nodes that are left of `a` and `b`, and the scores of `b`.
async fn decided(gateway: &Gateway) -> (Value, Value) {
    let left = gateway.post("/filter", by_name(&["a", "b"])).await.json()["NodeNames"].clone();
    (left, gateway.post("/prioritize", by_name(&["b"])).await.json())
}

fn enforced() -> (Value, Value) {
    (json!(["b"]), json!([{"Host": "b", "Score": 3}]))
}

fn not_enforced() -> (Value, Value) {
    (json!(["a", "b"]), json!([]))
}

#[tokio::test]
async fn a_backend_is_taken_out_and_comes_back() {
    let (racks, seen) = start("").await;
    let gateway = &seen.gateway;
    assert_eq!(decided(gateway).await, enforced());
    let asked = racks.messages("Filter").len();

    let list = set(seen.admin, "racks", "disable").await;
    assert_eq!((list.items.len(), list.items[0].reason.as_str()), (1, "bad rule"));
    assert_eq!(decided(gateway).await, not_enforced());
    assert_eq!(racks.messages("Filter").len(), asked, "it is not called");

    set(seen.admin, "racks", "shadow").await;
    assert_eq!(decided(gateway).await, not_enforced());
    let shadow = "extender_gateway_backend_shadow_answers_total{backend=\"racks\",verb=\"filter\",outcome=\"disagrees\"} 1";
    gateway.until_counted("it is called in the background", shadow).await;
    let why = shadow_reason(seen.admin).await;
    assert!(why.starts_with("override until 2") && why.ends_with(" UTC: bad rule"), "{why}");

    let body = json!({"backend": "racks", "action": "reset"});
    assert_eq!(send(seen.admin, &body).await.json()["items"], json!([]));
    assert_eq!(decided(gateway).await, enforced());
}

#[tokio::test]
async fn pods_that_it_has_blocked_are_counted_and_the_author_is_known() {
    let (_racks, seen) = start("").await;
    let pod = json!({"metadata": {"name": "web", "namespace": "shop", "uid": "u-1"}});
    let body = json!({"Pod": pod, "NodeNames": ["a"]}).to_string();
    assert_eq!(seen.gateway.post("/filter", body).await.json()["NodeNames"], json!([]));
    while seen.gateway.observer.waiting.is_empty() {
        tokio::task::yield_now().await;
    }
    let list = set(seen.admin, "racks", "shadow").await;
    let untried = list.untried.expect("the pod waits, and nobody tries it");
    assert_eq!((untried.pods, untried.is_requeued), (1, false));
    assert_eq!(list.items[0].by, "an unknown address", "this test serves without connections");
    let status = seen.admin.send("GET", "/debug/status", "").await;
    let status: Status = serde_json::from_slice(&status.body).unwrap();
    let problem = status.problems.iter().find(|problem| problem.about == "waiting pods").expect("a problem");
    assert!(problem.what.starts_with("1 pod waits for an event of the cluster, although backend racks "));
    assert_eq!((status.waiting[0].workload.as_str(), status.waiting[0].untried), ("pod shop/web", 1));
}

#[tokio::test]
async fn a_backend_in_shadow_can_be_enforced() {
    let (_racks, seen) = start("mode: Shadow, ").await;
    assert_eq!(decided(&seen.gateway).await, not_enforced());
    set(seen.admin, "racks", "enforce").await;
    assert_eq!(decided(&seen.gateway).await, enforced());
}

#[tokio::test]
async fn shadow_mode_has_a_reason_only_if_another_one_is_configured() {
    let (_racks, seen) = start("mode: Shadow, ").await;
    set(seen.admin, "racks", "shadow").await;
    assert_eq!(decided(&seen.gateway).await, not_enforced());
    let shadow = "extender_gateway_backend_shadow_answers_total{backend=\"racks\",verb=\"filter\",outcome=\"disagrees\"} 1";
    seen.gateway.until_counted("it is called in the background", shadow).await;
    let found = seen.admin.decisions("?verdict=disagreed&verb=filter&nodes=none").await;
    let [part] = &found.items[0].backends[..] else { panic!("{found:?}") };
    assert_eq!((part.mode.as_str(), &part.mode_reason), ("Shadow", &None));
}

#[tokio::test]
async fn all_backends_can_be_bypassed() {
    let (racks, seen) = start("").await;
    let body = json!({"all": true, "action": "disable", "for": "10m", "reason": "incident"});
    assert_eq!(send(seen.admin, &body).await.status, 200);
    assert_eq!(decided(&seen.gateway).await, not_enforced());
    assert!(racks.messages("Filter").is_empty());
    assert_eq!(send(seen.admin, &json!({"all": true, "action": "reset"})).await.status, 200);
    assert_eq!(decided(&seen.gateway).await, enforced());
}

#[tokio::test]
async fn what_cannot_be_done_is_refused_with_a_sentence() {
    let racks = Scripted::refusing(&["a"], "no", 3).await;
    let backends =
        configured("racks", &racks, "filter: {}") + &configured("off", &racks, "mode: Disabled, filter: {}");
    let seen = Seen::start(&format!("nodes: {{source: NamesOnly}}\nbackends:\n{backends}")).await;
    let with = |changes: Value| {
        let mut body = json!({"backend": "racks", "action": "shadow", "for": "30m", "reason": "x"});
        body.as_object_mut().unwrap().extend(changes.as_object().unwrap().clone());
        body
    };
    for (body, status, error) in [
        (
            with(json!({"backend": "rack"})),
            422,
            "there is no backend \"rack\"; the configuration has racks, off",
        ),
        (with(json!({"all": true})), 422, "expected either the name of a backend or all"),
        (
            with(json!({"backend": "off", "action": "enforce"})),
            422,
            "backend off has mode: Disabled in the configuration",
        ),
        (with(json!({"for": "25h"})), 422, "\"25h\" is out of range; expected a duration from 1ms to 24h"),
        (with(json!({"for": null})), 422, "the time is missing"),
        (with(json!({"action": "reset"})), 422, "reset takes no time: it ends the override now"),
        (with(json!({"reason": " \n"})), 422, "the reason is missing"),
        (
            with(json!({"backend": null, "all": true, "action": "enforce"})),
            422,
            "enforce needs the name of a backend",
        ),
        (with(json!({"action": "pause"})), 422, "Failed to deserialize"),
        (with(json!({"until": "now"})), 422, "Failed to deserialize"),
    ] {
        let answer = send(seen.admin, &body).await;
        let said = answer.json()["error"].as_str().unwrap().to_owned();
        assert!(answer.status == status && said.starts_with(error), "{body}: {} {said}", answer.status);
    }
    let items = seen.admin.send("GET", "/debug/overrides", "").await.json()["items"].clone();
    assert_eq!(items, json!([]));
}

#[tokio::test]
async fn an_override_counts_for_preempt() {
    let racks = preempting::sparing(&["n2"], &[]).await;
    let settings = "preempt: {timeout: 60s}";
    let backends = configured("racks", &racks, settings);
    let seen = Seen::start(&format!("nodes: {{source: Request}}\nbackends:\n{backends}")).await;
    let all = preempting::left(&[("n1", &["u1", "u2"], 1), ("n2", &["u3"], 0)]);
    assert_ne!(seen.gateway.post("/preempt", preempting::call()).await.json(), all);
    set(seen.admin, "racks", "disable").await;
    assert_eq!(seen.gateway.post("/preempt", preempting::call()).await.json(), all);
}

#[tokio::test]
async fn an_override_counts_for_bind() {
    let apiserver = Apiserver::start().await;
    apiserver.set("web-0", "u-1", None);
    let only = binding::binder(Act::Status(13, "broken")).await;
    let gateway = binding::with(&apiserver, &only, "{timeout: 60s}").await;
    let admin = Admin::of(&gateway).await;
    assert!(gateway.post("/bind", TO_A).await.error().contains("broken"));
    set(admin, "only", "disable").await;
    binding::bound(&gateway.post("/bind", TO_A).await);
    assert_eq!(apiserver.node(), Some("a"), "the built-in binder binds");
}

#[tokio::test]
async fn status_and_metrics_show_an_override_with_its_end() {
    let (_racks, seen) = start("").await;
    let list = set(seen.admin, "racks", "shadow").await;
    let status = seen.admin.send("GET", "/debug/status", "").await;
    let status: Status = serde_json::from_slice(&status.body).unwrap();
    assert_eq!(status.overrides, list.items);
    assert_eq!(status.backends[0].overridden, Some(list.items[0].clone()));
    let problem = status.problems.iter().find(|it| it.runbook.ends_with("#mode-overridden")).unwrap();
    assert_eq!(problem.about, "backend racks");
    assert!(problem.what.starts_with("mode Shadow in place of the configured one until "), "{problem:?}");
    assert!(problem.what.ends_with(" (60 min, set by an unknown address): bad rule"), "{problem:?}");
}

/// A filter call about a pod of this controller.
fn of_controller(owner: &str, pod: &str) -> String {
    let owner = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "web", "uid": owner, "controller": true}]);
    let pod = json!({"metadata": {"name": pod, "namespace": "shop", "uid": pod, "ownerReferences": owner}});
    json!({"Pod": pod, "Nodes": null, "NodeNames": ["a", "b"]}).to_string()
}

#[tokio::test]
async fn a_canary_counts_for_a_share_of_the_controllers() {
    let (_racks, seen) = start("canary: {percent: 30}, ").await;
    let canary = CanarySettings { percent: Percent::new(30).unwrap() };
    let (mut counted, mut shadowed) = (0, 0);
    for owner in (0..20).map(|owner| format!("owner-{owner}")) {
        for pod in ["one", "two"] {
            let left =
                seen.gateway.post("/filter", of_controller(&owner, &format!("{owner}-{pod}"))).await.json();
            let counts = canary.counts_for("racks", &owner);
            let expected = if counts { json!(["b"]) } else { json!(["a", "b"]) };
            assert_eq!(left["NodeNames"], expected, "{owner} {pod}");
            *if counts { &mut counted } else { &mut shadowed } += 1;
        }
    }
    assert!(counted > 0 && shadowed > counted, "{counted} {shadowed}");
    let labels = "backend=\"racks\",verb=\"filter\",outcome=\"disagrees\"";
    let line = format!("extender_gateway_backend_shadow_answers_total{{{labels}}} {shadowed}\n");
    seen.gateway.until_counted("the others are asked in the background", &line).await;
    assert_eq!(shadow_reason(seen.admin).await, "canary: its answers count for 30 % of the pods");
    set(seen.admin, "racks", "enforce").await;
    for owner in (0..20).map(|owner| format!("owner-{owner}")) {
        let left = seen.gateway.post("/filter", of_controller(&owner, &owner)).await.json();
        assert_eq!(left["NodeNames"], json!(["b"]), "enforced for all");
    }
}

#[tokio::test]
async fn a_reload_keeps_an_override() {
    let racks = Scripted::refusing(&["a"], "no", 3).await;
    let configuration = |level: &str| {
        format!(
            "{OWN}nodes: {{source: NamesOnly}}\n\
             timeouts: {{decision: {level}}}\nbackends:\n{}",
            configured("racks", &racks, "filter: {timeout: 50s}")
        )
    };
    let folder = tempfile::tempdir().unwrap();
    let file = folder.path().join("gateway.yaml");
    fs::write(&file, configuration("60s")).unwrap();
    let program = Program::start(&file).await;
    set(Admin(program.admin), "racks", "disable").await;
    let series =
        "extender_gateway_backend_override_end_timestamp_seconds{backend=\"racks\",mode=\"Disabled\"} ";
    program.counted(series).await;
    program.wrote("mode overridden; it returns to the configured mode by itself", 1).await;
    fs::write(&file, configuration("55s")).unwrap();
    program.signal("HUP").await;
    program.wrote("configuration reloaded", 1).await;
    let mut client = Client::connect(program.extender).await;
    let answer = client.post("/filter", by_name(&["a", "b"]).as_bytes()).await.json();
    assert_eq!(answer["NodeNames"], json!(["a", "b"]));
}
