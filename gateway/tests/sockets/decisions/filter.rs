//! Calls to filter.

use std::collections::BTreeSet;

use extender_gateway_api::NodeForm;
use extender_policy_api::v1beta1::FilterRequest;
use prost::Message;
use serde_json::json;

use super::{accepted, node, part, rejected, rejections, verdict};
use crate::support::{
    admin::Seen,
    backend::{Act, Scripted, configured, filtered, info},
    by_name, in_full, pod, reading,
};

const NAMES: &str = "nodes: {source: NamesOnly}\nbackends:\n";

#[tokio::test]
async fn a_call_has_every_verdict_of_every_backend() {
    let zones = Scripted::refusing(&["b"], "in drain", 0).await;
    let racks = Scripted::refusing(&["b", "c"], "100% full\n", 0).await;
    let [one, two] = [("zones", &zones), ("racks", &racks)]
        .map(|(name, backend)| configured(name, backend, "filter: {timeout: 60s}"));
    let seen = Seen::start(&format!("{NAMES}{one}{two}")).await;
    let reply = seen.gateway.post("/filter", by_name(&["a", "b", "c"])).await.json();
    let call = seen.call(1).await;

    let (told, logged) = rejections(&reply, &call);
    assert_eq!(told, json!({"b": "zones: in drain", "c": "racks: 100 percent full"}));
    assert_eq!(logged, told);
    assert_eq!(verdict(&call, "a", "zones"), Some(&accepted()));
    assert_eq!(verdict(&call, "b", "zones"), Some(&rejected("in drain")));
    assert_eq!(verdict(&call, "c", "zones"), Some(&accepted()));
    assert_eq!(verdict(&call, "b", "racks"), Some(&rejected("100% full\n")), "still rejected");
    assert_eq!(node(&call, "a").rejected_by, None);

    let asked = FilterRequest::decode(zones.messages("Filter")[0].clone()).unwrap();
    assert_eq!(call.id, asked.call.unwrap().id);
    assert_eq!((call.verb.as_str(), call.outcome.as_str(), &call.message), ("filter", "ok", &None));
    assert_eq!((call.offered, call.left, call.node_form), (3, Some(1), Some(NodeForm::Names)));
    assert_eq!((call.generation, &call.trace_id), (1, &None));
    let names = [call.pod.namespace.as_str(), &call.pod.name, &call.pod.uid];
    assert_eq!((names, &call.pod.nominated_node), (["shop", "web-0", "u-1"], &None));
    for (name, count) in [("zones", 1), ("racks", 2)] {
        let part = part(&call, name);
        assert_eq!((part.mode.as_str(), part.asked, part.known, part.rejected), ("Enforce", 3, 0, count));
        assert!(part.seconds > 0.0 && part.seconds <= call.seconds, "{part:?} in {}", call.seconds);
        assert_eq!((&part.failure, &part.answer, part.weight), (&None, &None, None));
    }
}

#[tokio::test]
async fn full_objects_and_the_nominated_node_are_said() {
    let backend = Scripted::refusing(&[], "", 0).await;
    let backend = configured("only", &backend, "filter: {timeout: 60s}");
    let seen = Seen::start(&format!("nodes: {{source: Request}}\nbackends:\n{backend}")).await;
    let mut body: serde_json::Value = serde_json::from_str(&in_full(&["a", "b"])).unwrap();
    body["Pod"]["status"] = json!({"nominatedNodeName": "b"});
    seen.gateway.post("/filter", body.to_string()).await;
    let call = seen.call(1).await;
    assert_eq!((call.node_form, call.offered, call.left), (Some(NodeForm::Objects), 2, Some(2)));
    assert_eq!(call.pod.nominated_node.as_deref(), Some("b"));
    let names: Vec<&str> = call.nodes.iter().map(|node| node.name.as_str()).collect();
    assert_eq!(names, ["a", "b"], "in kube-scheduler's order");
}

#[tokio::test]
async fn a_backend_behind_others_is_shown_with_the_nodes_that_it_was_asked_about() {
    let first = Scripted::refusing(&["a"], "no", 0).await;
    let mut whole = info(reading::names());
    whole.verbs.iter_mut().for_each(|verb| verb.scope = 2);
    let second = Scripted::start(whole, |_, message| {
        Act::Message(filtered(&message, &["b"], "too many").encode_to_vec())
    })
    .await;
    let [first, second] = [("first", &first), ("second", &second)]
        .map(|(name, backend)| configured(name, backend, "filter: {timeout: 60s}"));
    let seen = Seen::start(&format!("{NAMES}{first}{second}")).await;
    let reply = seen.gateway.post("/filter", by_name(&["a", "b", "c"])).await.json();
    let call = seen.call(1).await;
    let (told, logged) = rejections(&reply, &call);
    assert_eq!(logged, told);
    assert_eq!((part(&call, "second").asked, verdict(&call, "a", "second")), (2, None));
    assert_eq!(verdict(&call, "b", "second"), Some(&rejected("too many")));
}

#[tokio::test]
async fn nodes_that_are_not_known_are_rejected_in_the_log_too() {
    let facts = Scripted::start(info(reading::facts()), |_, message| {
        Act::Message(filtered(&message, &[], "").encode_to_vec())
    })
    .await;
    let backend = configured("facts", &facts, "filter: {timeout: 60s}");
    let seen = Seen::start(&format!("nodes: {{source: Watch}}\nbackends:\n{backend}")).await;
    seen.gateway.table.apply(br#"{"metadata":{"name":"a"}}"#).unwrap();
    let reply = seen.gateway.post("/filter", by_name(&["a", "x"])).await.json();
    let call = seen.call(1).await;
    let text = "node is not yet known to the gateway";
    assert_eq!(reply["FailedAndUnresolvableNodes"], json!({"x": text}));
    let unknown = node(&call, "x");
    assert_eq!((unknown.rejected_by.as_deref(), unknown.reason.as_deref()), (Some("facts"), Some(text)));
    assert_eq!((verdict(&call, "x", "facts"), part(&call, "facts").asked), (None, 1), "it was not asked");

    seen.gateway.table.remove("a");
    let reply = seen.gateway.post("/filter", by_name(&["a"])).await.json();
    let call = seen.call(2).await;
    let text = "node was deleted";
    assert_eq!(reply["FailedAndUnresolvableNodes"], json!({"a": text}));
    let deleted = node(&call, "a");
    assert_eq!((deleted.rejected_by.as_deref(), deleted.reason.as_deref()), (Some("facts"), Some(text)));

    let error = seen.gateway.post("/filter", by_name(&["x"])).await.error();
    let call = seen.call(3).await;
    assert_eq!((call.outcome.as_str(), call.left), ("unknown_nodes", None));
    assert_eq!(call.message, Some(error));
}

#[tokio::test]
async fn a_call_that_nobody_is_interested_in_has_no_backends() {
    let backend = Scripted::refusing(&["a"], "no", 0).await;
    let backend = configured("only", &backend, "match: {namespaces: [mill]}, filter: {timeout: 60s}");
    let seen = Seen::start(&format!("{NAMES}{backend}")).await;
    seen.gateway.post("/filter", by_name(&["a"])).await;
    let mut exempt = pod();
    exempt["metadata"]["namespace"] = json!("kube-system");
    exempt["metadata"]["uid"] = json!("u-2");
    let body = json!({"Pod": exempt, "Nodes": null, "NodeNames": ["a", "b"]}).to_string();
    seen.gateway.post("/filter", body).await;
    let calls = seen.calls(2).await;
    let namespaces: BTreeSet<&str> = calls.iter().map(|call| call.pod.namespace.as_str()).collect();
    assert_eq!(namespaces, ["kube-system", "shop"].into());
    for call in &calls {
        assert!(call.backends.is_empty() && call.nodes.iter().all(|node| node.backends.is_empty()));
        assert_eq!((call.outcome.as_str(), call.left), ("ok", Some(call.offered)));
    }
}

#[tokio::test]
async fn what_a_shadow_says_stands_beside_the_decision() {
    let real = Scripted::refusing(&["b"], "no", 0).await;
    let shadow = Scripted::refusing(&["a"], "rather not", 0).await;
    let shadow = configured("shadow", &shadow, "mode: Shadow, filter: {timeout: 60s}");
    let real = configured("real", &real, "filter: {timeout: 60s}");
    let seen = Seen::start(&format!("{NAMES}{shadow}{real}")).await;
    let reply = seen.gateway.post("/filter", by_name(&["a", "b", "c"])).await.json();
    assert_eq!(reply["NodeNames"], json!(["a", "c"]));
    let counted = r#"extender_gateway_backend_shadow_answers_total{backend="shadow",verb="filter",outcome="disagrees"} 1"#;
    seen.gateway.until_counted("the shadow", counted).await;
    let calls = seen.calls(1).await;
    let [call] = &calls[..] else { panic!("one call: {calls:?}") };
    let names: Vec<&str> = call.backends.iter().map(|part| part.name.as_str()).collect();
    assert_eq!(names, ["real", "shadow"]);
    let part = part(call, "shadow");
    assert_eq!((part.mode.as_str(), part.answer.as_deref(), part.asked), ("Shadow", Some("disagrees"), 2));
    assert_eq!(verdict(call, "a", "shadow"), Some(&rejected("rather not")));
    assert_eq!(verdict(call, "b", "shadow"), None, "it was not left to be asked about");
    assert_eq!(verdict(call, "c", "shadow"), Some(&accepted()));
    assert_eq!(node(call, "a").rejected_by, None, "it does not count");
}
