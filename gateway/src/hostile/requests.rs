//! Bodies of calls.

use extender_gateway_core::filter::{By, Group, Rejected};
use proptest::prelude::*;
use serde_json::{Value, json};

use super::json;
use crate::wire::{
    Names, Offer, PreemptRequest, Request, bind,
    preempt::preempted,
    reply::{Body, Reason, filtered, prioritized},
};

const ABOUT_NODES: [&str; 3] = [
    r#"{"Pod":{"metadata":{"name":"p","uid":"u"}},"Nodes":null,"NodeNames":["a","b\"","a","\u00e9","c"]}"#,
    r#"{"Pod":{},"Nodes":{"metadata":{},"items":[{"metadata":{"name":"a"}},{"metadata":{"name":"b","labels":{"x":"y"}}}]},"NodeNames":null}"#,
    r#"{"pod":{"spec":{}}, "nodes":{"items":[{"kind":"Node","metadata":{"labels":null,"name":"\u0061"}},{"metadata":{"name":"a"}}]}}"#,
];
const PREEMPT: [&str; 3] = [
    r#"{"Pod":{},"NodeNameToVictims":null,"NodeNameToMetaVictims":{"a":{"Pods":[{"UID":"1"},{"UID":"2"}],"NumPDBViolations":1},"b":{"Pods":[{"UID":"3"}]}}}"#,
    r#"{"Pod":{},"NodeNameToVictims":{"a":{"Pods":[{"metadata":{"uid":"1","name":"x"}},{"metadata":{"uid":"\u0032"}}],"NumPDBViolations":0}}}"#,
    r#"{"pod":{},"nodeNameToMetaVictims":{"\"":{"pods":[{"uid":"1"}]},"b":null,"c":{"pods":[]}}}"#,
];
const BIND: [&str; 2] = [
    r#"{"PodName":"p-0","PodNamespace":"ns","PodUID":"u","Node":"a.b"}"#,
    r#"{"podName":"p","x":[{}],"podNamespace":"n\u0073","podUID":"u","node":"a"}"#,
];

fn value(body: Body) -> Value {
    let bytes = body.into_pieces().concat();
    serde_json::from_slice(&bytes).unwrap_or_else(|error| panic!("{error}: {}", bytes.escape_ascii()))
}

/// The value of the only key with this name in any letter case.
fn only<'v>(object: &'v Value, name: &str) -> Option<&'v Value> {
    let mut found = object.as_object()?.iter().filter(|(key, _)| key.eq_ignore_ascii_case(name));
    let (_, value) = found.next()?;
    found.next().is_none().then_some(value)
}

fn holds_null(value: &Value) -> bool {
    match value {
        Value::Array(values) => values.iter().any(holds_null),
        Value::Object(values) => values.values().any(holds_null),
        other => other.is_null(),
    }
}

/// Rejects every third node.
fn rejected(names: &Names) -> Rejected {
    let group = Group { by: By::Seat(0), reason: String::new(), preemption_may_help: false };
    Rejected {
        groups: vec![group],
        nodes: (0..names.count()).map(|node| (node % 3 == 0).then_some(0)).collect(),
    }
}

/// The nodes in the request: names or objects.
fn sent(body: &Value, offer: &Offer) -> Option<Vec<Value>> {
    let list = match offer {
        Offer::Names => only(body, "NodeNames")?,
        Offer::Objects(_) => only(only(body, "Nodes")?, "items")?,
    };
    list.as_array().cloned()
}

proptest! {
    #[test]
    fn a_call_about_nodes_is_refused_or_answered_with_what_was_sent(bytes in json(&ABOUT_NODES)) {
        let Ok(request) = Request::read(bytes.clone()) else { return Ok(()) };
        let names = &request.names;
        let rejected = rejected(names);
        let reasons = [Reason { text: "no".to_owned(), preemption_may_help: false }];
        let reply = filtered(&request, &rejected, &reasons);
        let totals: Vec<Option<i64>> = (0..i64::from(names.count())).map(Some).collect();
        let list = prioritized(&request, &totals);
        // Skipped values are not checked, and an object is returned unchanged.
        let Ok(body) = serde_json::from_slice::<Value>(&bytes) else { return Ok(()) };
        let (reply, list) = (value(reply), value(list));
        let entries: Vec<u32> = (0..names.entries()).map(|entry| names.node_at(entry)).collect();
        let hosts: Vec<Value> =
            entries.iter().map(|node| json!({"Host": names.name(*node), "Score": node})).collect();
        prop_assert_eq!(list, json!(hosts));
        let accepted = match request.offer {
            Offer::Names => &reply["NodeNames"],
            Offer::Objects(_) => &reply["Nodes"]["items"],
        };
        if let Some(sent) = sent(&body, &request.offer) {
            let left = entries.iter().zip(&sent).filter(|(node, _)| rejected.nodes[**node as usize].is_none());
            prop_assert_eq!(accepted, &json!(left.map(|(_, element)| element).collect::<Vec<_>>()));
            prop_assert_eq!(entries.len(), sent.len());
        }
        let fallen = rejected.nodes.iter().flatten().count();
        let said: usize = ["FailedNodes", "FailedAndUnresolvableNodes"]
            .iter().map(|map| reply[map].as_object().map_or(0, serde_json::Map::len)).sum();
        prop_assert_eq!(said, fallen);
    }

    #[test]
    fn a_preempt_call_is_refused_or_its_echo_means_the_same(bytes in json(&PREEMPT)) {
        let Ok(request) = PreemptRequest::read(bytes) else { return Ok(()) };
        let candidates = request.candidates();
        for candidate in &candidates {
            prop_assert!(!candidate.victims.is_empty());
            prop_assert!(candidate.victims.iter().all(|uid| !uid.is_empty()));
            prop_assert!(request.objects(candidate.node).len() <= candidate.victims.len());
        }
        let mut echo = value(preempted(&request, &candidates));
        prop_assert!(!holds_null(&echo), "{}", echo);
        echo["Pod"] = json!({});
        let again = PreemptRequest::read(echo.to_string().into()).unwrap();
        let named = |request: &PreemptRequest| -> std::collections::BTreeMap<String, (Vec<String>, i64)> {
            let candidates = request.candidates().into_iter();
            candidates.map(|one| (request.name(one.node).to_owned(), (one.victims, one.pdb_violations))).collect()
        };
        prop_assert_eq!(named(&again), named(&request));
    }

    #[test]
    fn a_bind_call_is_refused_or_names_a_pod_and_a_node(bytes in json(&BIND)) {
        let Ok(assignment) = bind::read(&bytes) else { return Ok(()) };
        for name in [&assignment.namespace, &assignment.name, &assignment.node] {
            let uri: http::Uri = format!("https://host/{name}/x").parse().unwrap();
            prop_assert_eq!(uri.path(), format!("/{name}/x"));
            prop_assert!(!name.is_empty() && !name.contains(['/', '?', '#', '%']));
        }
        let (name, namespace) = (&assignment.name, &assignment.namespace);
        let body = json!({"PodName": name, "PodNamespace": namespace, "PodUID": assignment.uid, "Node": assignment.node});
        prop_assert_eq!(bind::read(body.to_string().as_bytes()), Ok(assignment));
    }
}
