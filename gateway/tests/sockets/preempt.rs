//! Preempt calls as kube-scheduler makes them, against scripted backends on real sockets: the responses, and the
//! requests to the backends. Values that kube-scheduler cannot handle (a null, a node or pod that was not sent, one
//! of them twice) must not get out, whatever a backend answers.

use crate::support::{
    backend::Scripted,
    node, pod,
    preempting::{REQUEST, adding, asked, call, gateway, keeping, kept, left, map, request, sparing},
    reading,
};
use serde_json::{Value, json};

const NAMES: &str = include_str!("../../../tests/captures/preempt-names.json");
const NODES: &str = include_str!("../../../tests/captures/preempt-nodes.json");

#[tokio::test]
async fn captured_calls_of_both_forms_are_answered_with_uids() {
    let backend = sparing(&["ip-10-16-0-1.eu-west-1.compute.internal"], &[]).await;
    let gateway = gateway(REQUEST, &[("guard", &backend, "")]).await;
    for (body, key) in [(NAMES, "NodeNameToMetaVictims"), (NODES, "NodeNameToVictims")] {
        let sent: Value = serde_json::from_str(body).unwrap();
        let mut expected = sent[key].as_object().unwrap().clone();
        expected.remove("ip-10-16-0-1.eu-west-1.compute.internal").unwrap();
        for victims in expected.values_mut() {
            for pod in victims["Pods"].as_array_mut().unwrap() {
                let uid = if pod["UID"].is_string() { &pod["UID"] } else { &pod["metadata"]["uid"] };
                *pod = json!({"UID": uid});
            }
        }
        assert_eq!(
            gateway.post("/any/prefix/preempt", body).await.json(),
            json!({"NodeNameToMetaVictims": expected})
        );
    }
    let calls = backend.messages("Preempt");
    let [by_uid, in_full] =
        [&calls[0], &calls[1]].map(|message| request(message).candidates[0].victims[0].clone());
    assert_eq!(by_uid.pod, None);
    let in_full = in_full.pod.unwrap();
    assert_eq!(in_full.identity.unwrap().uid, in_full_uid());
    assert_eq!(in_full.facts.unwrap().labels.unwrap().entries["app"], "checkout");
}

fn in_full_uid() -> String {
    let sent: Value = serde_json::from_str(NODES).unwrap();
    let first = sent["NodeNameToVictims"].as_object().unwrap().values().next().unwrap();
    first["Pods"][0]["metadata"]["uid"].as_str().unwrap().to_owned()
}

#[tokio::test]
async fn a_request_that_cannot_be_read_is_a_status_without_a_body() {
    let backend = sparing(&[], &[]).await;
    let gateway = gateway(REQUEST, &[("guard", &backend, "")]).await;
    for body in ["", "null", "{}", r#"{"Pod":{},"NodeNameToMetaVictims":{"n1":{"Pods":[{}]}}}"#] {
        let answer = gateway.post("/preempt", body).await;
        assert_eq!((answer.status, answer.body.len()), (400, 0), "{body}");
    }
    let no_pod = call().replace("\"priority\":10", "\"priority\":\"high\"");
    assert_eq!(gateway.post("/preempt", no_pod).await.status, 400);
    assert!(asked(&backend).is_empty());
}

#[tokio::test]
async fn a_deleted_candidate_is_left_out_and_is_no_error() {
    let backend = keeping(reading::facts(), vec![kept(0, &[0])]).await;
    let source = "nodes: {source: Watch}\npods: {source: None}";
    let gateway = gateway(source, &[("guard", &backend, "")]).await;
    for name in ["n1", "n2"] {
        gateway.table.apply(node(name).to_string().as_bytes()).unwrap();
    }
    gateway.table.remove("n1");
    assert_eq!(gateway.post("/preempt", call()).await.json(), left(&[("n2", &["u3"], 0)]));
    gateway.table.remove("n2");
    assert_eq!(gateway.post("/preempt", call()).await.json(), left(&[]));
    assert_eq!(asked(&backend).len(), 1);
}

#[tokio::test]
async fn a_backend_that_wants_facts_where_there_are_none_cannot_be_asked() {
    let backend = keeping(reading::facts(), vec![]).await;
    let gateway = gateway(REQUEST, &[("guard", &backend, "")]).await;
    let answer = gateway.post("/preempt", call()).await;
    let error = answer.header("x-extender-gateway-error").unwrap();
    assert!(answer.status == 502 && error.contains("preempt calls do not contain"), "{error}");
}

const WATCHED: &str = "nodes: {source: Watch}\npods: {source: Watch}";

/// A pod as the apiserver writes it.
fn watched(uid: &str, node: &str, priority: i32) -> String {
    json!({
        "metadata": {"name": uid, "namespace": "shop", "uid": uid, "labels": {"app": uid}, "managedFields": [{}]},
        "spec": {"nodeName": node, "priority": priority},
        "status": {"phase": "Running"},
    })
    .to_string()
}

#[tokio::test]
async fn in_names_mode_victims_have_the_facts_of_the_watch() {
    let backend = keeping(reading::names(), vec![kept(0, &[1])]).await;
    let gateway = gateway(WATCHED, &[("guard", &backend, "")]).await;
    let pods = gateway.pods.as_ref().unwrap();
    pods.apply(watched("u1", "n1", 3).as_bytes()).unwrap();
    assert_eq!(gateway.post("/preempt", call()).await.json(), left(&[("n1", &["u2"], 1)]));
    let victims = request(&backend.messages("Preempt")[0]).candidates[0].victims.clone();
    let facts = victims[0].pod.clone().unwrap().facts.unwrap();
    assert_eq!((facts.labels.unwrap().entries["app"].as_str(), facts.priority), ("u1", Some(3)));
    assert_eq!(victims[1].pod, None);
}

#[tokio::test]
async fn added_victims_are_on_the_node_and_matter_less() {
    let allowed = "addedVictims: Allowed";
    for (added, outcome) in [
        ("u7", Ok(left(&[("n1", &["u1", "u7"], 1)]))),
        ("u8", Err("cannot add victim u8: it is not on node n1")),
        ("u9", Err("cannot add victim u9: its priority 10 is not lower than the pod's, 10")),
        ("u0", Err("cannot add victim u0: no such pod is known")),
        ("u2", Err("added victim u2 is already a victim")),
        ("u6", Err("cannot add victim u6: it is not on node n1")),
    ] {
        let backend = keeping(reading::names(), vec![adding(0, &[0], &[added])]).await;
        let next = sparing(&[], &[]).await;
        let gateway = gateway(WATCHED, &[("guard", &backend, allowed), ("next", &next, "")]).await;
        for (uid, node, priority) in
            [("u7", "n1", 9), ("u8", "n2", 0), ("u9", "n1", 10), ("u2", "n1", 0), ("u6", "", 0)]
        {
            gateway.pods.as_ref().unwrap().apply(watched(uid, node, priority).as_bytes()).unwrap();
        }
        let answer = gateway.post("/preempt", call()).await;
        match outcome {
            Ok(reply) => assert_eq!(answer.json(), reply),
            Err(detail) => {
                let error = answer.header("x-extender-gateway-error").unwrap();
                assert!(answer.status == 502 && error.ends_with(detail), "{error}");
            }
        }
    }
}

#[tokio::test]
async fn a_victim_that_cannot_be_read_goes_out_without_facts() {
    let backend = keeping(reading::names(), vec![kept(0, &[0, 1])]).await;
    let gateway = gateway(REQUEST, &[("guard", &backend, "")]).await;
    let victim =
        |uid: &str, priority: Value| json!({"metadata": {"uid": uid}, "spec": {"priority": priority}});
    let victims = json!({
        "n1": {"Pods": [victim("u1", json!("high")), victim("u2", json!(7))]},
    });
    let body = json!({"Pod": pod(), "NodeNameToVictims": victims}).to_string();
    assert_eq!(gateway.post("/preempt", body).await.json(), left(&[("n1", &["u1", "u2"], 0)]));
    let told = request(&backend.messages("Preempt")[0]).candidates;
    let priority = |at: usize| told[0].victims[at].pod.clone()?.facts?.priority;
    assert_eq!((told.len(), priority(0), priority(1)), (1, None, Some(7)));
}

/// As newer kube-schedulers offer it: the pod fits on the node for all but an extender, which may name victims.
#[tokio::test]
async fn a_placeholder_is_handed_from_backend_to_backend_until_one_names_victims() {
    let passing = sparing(&[], &[]).await;
    let naming = keeping(reading::names(), vec![adding(0, &[], &["u7"]), kept(1, &[])]).await;
    let next = sparing(&["n2"], &[]).await;
    let backends = [
        ("passing", &passing, ""),
        ("naming", &naming, "addedVictims: Allowed"),
        ("next", &next, "failurePolicy: Ignore"),
    ];
    let gateway = gateway(WATCHED, &backends).await;
    gateway.pods.as_ref().unwrap().apply(watched("u7", "n1", 0).as_bytes()).unwrap();
    let mut call: Value = serde_json::from_str(&call()).unwrap();
    call["NodeNameToMetaVictims"] = map(&[("n1", &[], 0), ("n2", &[], 0)]);
    assert_eq!(gateway.post("/preempt", call.to_string()).await.json(), left(&[("n1", &["u7"], 0)]));
    let bare = vec![vec![("n1".to_owned(), vec![]), ("n2".to_owned(), vec![])]];
    assert_eq!((asked(&passing), asked(&naming)), (bare.clone(), bare));
    assert_eq!(asked(&next)[0][0], ("n1".to_owned(), vec!["u7".to_owned()]));
    let told = |backend: &Scripted| {
        let candidates = request(&backend.messages("Preempt")[0]).candidates.into_iter();
        candidates.map(|candidate| candidate.placeholder).collect::<Vec<_>>()
    };
    assert_eq!((told(&passing), told(&next)), (vec![true, true], vec![false, true]));
}
