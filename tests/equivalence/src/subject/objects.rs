//! Pods and nodes as JSON, and kube-scheduler's calls about them.

use std::collections::BTreeMap;

use extender_reference::model::{BoundPod, Candidate, Container, Life, Node, Place, Pod, Victim};
use serde_json::{Value, json};

use crate::case::{self, Case, DISK, Form, KNOWN, NODES, RUNNING, Source, UNSEEN, World, has_disks, node_of};

/// The label that identifies a node or victim for a backend that uses facts or objects.
pub(super) const LABEL: &str = "example.com/number";

/// The label with the number of changes of the node's row.
pub(super) const STATE: &str = "example.com/state";

/// The label with the node's zone.
pub(super) const ZONE: &str = "example.com/zone";

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

/// The pods of preemption that the gateway knows, if any.
pub(super) fn watched_pods() -> impl Iterator<Item = Value> {
    (0..NODES * RUNNING).filter(|victim| victim % RUNNING != UNSEEN).map(running_pod)
}

/// The UID of the counted pod at this place.
pub(super) fn bound_uid(place: usize) -> String {
    format!("bound-{place}")
}

/// The counted pods of the case, in their current state.
pub(super) fn bound_pods(world: &World) -> impl Iterator<Item = Value> {
    world.pods.iter().enumerate().filter_map(|(place, bound)| bound_pod(place, bound))
}

/// The counted pod at this place; `None` if it does not exist.
pub(super) fn bound_pod(place: usize, BoundPod { node, life, pod }: &BoundPod) -> Option<Value> {
    let phase = match life {
        Life::Absent => return None,
        Life::Pending => "Pending",
        Life::Running | Life::Terminating => "Running",
        Life::Succeeded => "Succeeded",
        Life::Failed => "Failed",
    };
    let mut object = object(pod);
    object["metadata"]["name"] = json!(format!("bound-{place}"));
    object["metadata"]["uid"] = json!(bound_uid(place));
    object["status"] = json!({"phase": phase});
    if *life != Life::Pending {
        object["spec"]["nodeName"] = json!(name(*node));
    }
    if *life == Life::Terminating {
        object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    Some(object)
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
    let state = world.state(node);
    let mut object = json!({
        "apiVersion": "v1",
        "kind": "Node",
        "metadata": {"name": name(node), "labels": {LABEL: node.to_string(), STATE: state.to_string()}},
        "status": {"allocatable": {"cpu": "2", "memory": "1Gi"}},
    });
    if let Some(zone) = case::zone(node, state) {
        object["metadata"]["labels"][ZONE] = json!(zone);
    }
    if has_disks(node) {
        object["status"]["allocatable"][DISK] = json!("8");
    }
    object
}

/// A pod as a `ReplicaSet` makes it.
fn pod(pod: &Pod, whom: Whom) -> Value {
    let (case, number) = whom;
    let mut object = object(pod);
    let metadata = &mut object["metadata"];
    metadata["name"] = json!(format!("pod-{case}-{number}"));
    metadata["generateName"] = json!(format!("pod-{case}-"));
    metadata["uid"] = json!(placed_uid(whom));
    metadata["creationTimestamp"] = json!(format!("2026-01-01T00:00:{number:02}Z"));
    object["spec"]["volumes"] = json!([{"name": format!("{TOKEN}{number}"), "projected": {"sources": []}}]);
    object
}

/// A pod without what distinguishes it from its siblings.
fn object(pod: &Pod) -> Value {
    let list = |place: Place| -> Vec<Value> {
        pod.containers.iter().filter(|container| container.place == place).map(container).collect()
    };
    let mut object = json!({
        "metadata": {"namespace": pod.namespace, "labels": pod.labels},
        "spec": {
            "containers": list(Place::Main),
            "initContainers": list(Place::Init),
            "priority": pod.priority,
        },
    });
    if let Some(owner) = &pod.owner {
        // Only the second one is the controller.
        object["metadata"]["ownerReferences"] = json!([{"uid": "other"}, {"uid": owner, "controller": true}]);
    }
    if let Some(class) = &pod.priority_class {
        object["spec"]["priorityClassName"] = json!(class);
    }
    object
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
