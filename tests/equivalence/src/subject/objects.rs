//! Pods and nodes as JSON, and kube-scheduler's calls about them.

use std::collections::BTreeMap;

use extender_reference::model::{Candidate, Container, Node, Place, Pod, Victim};
use serde_json::{Value, json};

use crate::case::{self, Case, Form, KNOWN, NODES, RUNNING, Source, UNSEEN, World, node_of};

/// The label that identifies a node or victim for a backend that uses facts or objects.
pub(super) const LABEL: &str = "example.com/number";

/// The label with the number of changes of the node's row.
pub(super) const STATE: &str = "example.com/state";

/// The label of a pod whose only purpose is that answers name their revision.
pub(super) const PROBE: &str = "probe";

/// The name of the volume with a pod's token, without its end.
pub(super) const TOKEN: &str = "kube-api-access-";

/// The name of a node.
pub(super) fn name(node: Node) -> String {
    if node < KNOWN { format!("node-{node}") } else { format!("late-{node}") }
}

/// The node with this name.
pub(super) fn numbered(name: &str) -> Option<Node> {
    let number = name.strip_prefix("node-").or_else(|| name.strip_prefix("late-"))?;
    number.parse().ok().filter(|node| self::name(*node) == name)
}

/// The pod with this number in the case with that number.
type Whom = (u64, usize);

/// The UID of a pod that is placed.
pub fn placed_uid((case, number): (u64, usize)) -> String {
    format!("uid-{case}-{number}")
}

/// A node that the gateway knows, in a state.
pub(super) fn known_node(number: Node, world: &World) -> String {
    node(number, world).to_string()
}

/// The body of a filter or prioritize call about these nodes.
pub(super) fn call(source: Source, (pod, whom): (&Pod, Whom), (nodes, world): (&[Node], &World)) -> String {
    let pod = self::pod(pod, whom);
    let body = if source == Source::Request {
        let items: Vec<Value> = nodes.iter().map(|number| node(*number, world)).collect();
        json!({"Pod": pod, "Nodes": {"metadata": {}, "items": items}, "NodeNames": null})
    } else {
        let names: Vec<String> = nodes.iter().copied().map(name).collect();
        json!({"Pod": pod, "Nodes": null, "NodeNames": names})
    };
    body.to_string()
}

/// The body of a preempt call.
pub(super) fn preempt_call(case: &Case, number: u64) -> String {
    let (field, victim): (_, fn(Victim) -> Value) = match case.form {
        Form::Objects => ("NodeNameToVictims", running_pod),
        Form::Uids => ("NodeNameToMetaVictims", |victim| json!({"UID": uid(victim)})),
    };
    // Written by hand, so that the nodes come in the case's order.
    let entry = |Candidate { node, victims, violations }: &Candidate| {
        let victims: Vec<Value> = victims.iter().copied().map(victim).collect();
        format!("{}:{}", json!(name(*node)), json!({"Pods": victims, "NumPDBViolations": violations}))
    };
    let candidates = case.candidates.iter().map(entry).collect::<Vec<_>>().join(",");
    format!(r#"{{"Pod":{},"{field}":{{{candidates}}}}}"#, pod(&case.pod, (number, 0)))
}

/// The UID of a pod that runs.
pub(super) fn uid(victim: Victim) -> String {
    format!("running-{victim}")
}

/// The running pod with this UID.
pub(super) fn victim(uid: &str) -> Option<Victim> {
    let victim: Victim = uid.strip_prefix("running-")?.parse().ok()?;
    (victim < NODES * RUNNING && self::uid(victim) == uid).then_some(victim)
}

/// The pods that the gateway knows, if any.
pub(super) fn watched_pods() -> impl Iterator<Item = Value> {
    (0..NODES * RUNNING).filter(|victim| victim % RUNNING != UNSEEN).map(running_pod)
}

fn running_pod(victim: Victim) -> Value {
    json!({
        "metadata": {
            "name": format!("running-{victim}"),
            "namespace": "default",
            "uid": uid(victim),
            "labels": {LABEL: victim.to_string()},
        },
        "spec": {
            "containers": [],
            "nodeName": name(node_of(victim)),
            "priority": case::running()[victim].priority,
        },
    })
}

fn node(node: Node, world: &World) -> Value {
    let state = world.state(node).to_string();
    json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name(node), "labels": {LABEL: node.to_string(), STATE: state}},
        "status": {"allocatable": {"cpu": "2", "memory": "1Gi"}},
    })
}

/// A pod as a `ReplicaSet` makes it.
fn pod(pod: &Pod, whom: Whom) -> Value {
    let (case, number) = whom;
    let list = |place: Place| -> Vec<Value> {
        pod.containers.iter().filter(|container| container.place == place).map(container).collect()
    };
    json!({
        "metadata": {
            "name": format!("pod-{case}-{number}"),
            "generateName": format!("pod-{case}-"),
            "namespace": pod.namespace,
            "uid": placed_uid(whom),
            "labels": pod.labels,
            "creationTimestamp": format!("2026-01-01T00:00:{number:02}Z"),
        },
        "spec": {
            "containers": list(Place::Main),
            "initContainers": list(Place::Init),
            "priority": pod.priority,
            "volumes": [{"name": format!("{TOKEN}{number}"), "projected": {"sources": []}}],
        },
    })
}

fn container(container: &Container) -> Value {
    let amounts = |amounts: &BTreeMap<String, u32>| -> BTreeMap<String, String> {
        amounts.iter().map(|(name, amount)| (name.clone(), amount.to_string())).collect()
    };
    json!({
        "name": "main",
        "resources": {"requests": amounts(&container.requests), "limits": amounts(&container.limits)},
    })
}
