//! The decision log through the admin address: it shows what the calls decided.

mod ends;
mod filter;
mod known;
mod others;
mod property;
mod queries;
mod room;
mod scores;
use extender_gateway_api::{BackendPart, Decision, NodePart, NodeVerdict};
use serde_json::{Value, json};

/// The part of the backend of this name.
#[track_caller]
fn part<'d>(call: &'d Decision, backend: &str) -> &'d BackendPart {
    call.backends.iter().find(|part| part.name == backend).unwrap_or_else(|| panic!("{backend}: {call:?}"))
}

/// The entry of the node of this name.
#[track_caller]
fn node<'d>(call: &'d Decision, name: &str) -> &'d NodePart {
    call.nodes.iter().find(|node| node.name == name).unwrap_or_else(|| panic!("{name}: {call:?}"))
}

/// A backend's answer about a node.
#[track_caller]
fn verdict<'d>(call: &'d Decision, name: &str, backend: &str) -> Option<&'d NodeVerdict> {
    node(call, name).backends.get(backend)
}

fn accepted() -> NodeVerdict {
    NodeVerdict { accepted: true, ..NodeVerdict::default() }
}

fn rejected(reason: &str) -> NodeVerdict {
    NodeVerdict { rejected: Some(reason.to_owned()), ..NodeVerdict::default() }
}

/// A request in names mode about the pod of this UID.
fn of_pod(uid: &str, names: &[&str]) -> String {
    let pod = json!({"metadata": {"name": format!("pod-{uid}"), "namespace": "shop", "uid": uid}});
    json!({"Pod": pod, "Nodes": null, "NodeNames": names}).to_string()
}

/// The rejections in kube-scheduler's response, and those of the log in the same form.
fn rejections(reply: &Value, call: &Decision) -> (Value, Value) {
    let logged = call.nodes.iter().filter_map(|node| {
        let (by, why) = (node.rejected_by.as_ref()?, node.reason.as_ref()?);
        Some((node.name.clone(), Value::String(format!("{by}: {why}"))))
    });
    (reply["FailedAndUnresolvableNodes"].clone(), Value::Object(logged.collect()))
}

/// The scores in kube-scheduler's response, and those of the log.
fn totals(reply: &Value, call: &Decision) -> (Value, Value) {
    let logged = call.nodes.iter().filter_map(|node| Some(json!({"Host": node.name, "Score": node.total?})));
    (reply.clone(), Value::Array(logged.collect()))
}
