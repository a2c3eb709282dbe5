//! The pods and nodes of the cluster, as far as the controller looks at them.

use std::{
    collections::{BTreeMap, BTreeSet, HashMap, HashSet},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
};

use extender_policy_sdk::OwnerReference;
use jiff::Timestamp;
use serde::{Deserialize, de::IgnoredAny};
use tokio::sync::watch;

use super::waiting::{MOST_UNSCHEDULED, Unscheduled};
use crate::{
    affinity::Affinity,
    bind,
    cluster::PodRef,
    object::Reservation,
    owners::OwnedAsking,
    placeholder::{GATE, LABEL},
    recorded::Recorded,
    watch::{Watched, WatchedObject},
};

/// How far a pod is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It has no node. With the reason and the message of its condition `PodScheduled`.
    Waiting {
        reason: String,
        message: String,
    },
    /// It is on this node, and has not ended.
    On(String),
    Ended,
}

/// A pod.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct SeenPod {
    pub(super) pod: PodRef,
    pub(super) state: State,
    /// Whether the gate of placeholders is closed.
    pub(super) gated: bool,
    /// Whether it is being deleted: finalizers may keep it for as long as they like.
    pub(super) leaving: bool,
    /// Of a placeholder: the UID of the Reservation that controls it.
    pub(super) reservation: Option<String>,
    /// Of a placeholder: what is recorded of it when it is new.
    pub(super) recorded: Option<Recorded>,
    /// Of another pod for which kube-scheduler has found no node.
    pub(super) unscheduled: Option<Arc<Unscheduled>>,
}

/// A pod as the watch tells it: its version and what is kept; `None` if it cannot be read.
#[derive(Debug)]
pub(super) struct ToldPod(Option<(u64, SeenPod)>);

impl From<WatchedObject> for ToldPod {
    fn from(object: WatchedObject) -> Self {
        Self(parsed(&object.json))
    }
}

/// All pods. Those that cannot be read do not exist for the controller.
#[derive(Debug, Default)]
pub(super) struct Pods {
    seen: Mutex<SeenPods>,
    changes: watch::Sender<u64>,
}

#[derive(Debug, Default)]
struct SeenPods {
    /// With their versions.
    by_uid: HashMap<String, (u64, SeenPod)>,
    /// UIDs of placeholder pods, by the UID of their Reservation.
    placeholders: BTreeMap<String, BTreeSet<String>>,
    /// By time and UID.
    unscheduled: BTreeMap<(Timestamp, String), Arc<Unscheduled>>,
    listed: bool,
}

/// All nodes.
#[derive(Debug, Default)]
pub(super) struct Nodes {
    by_name: Mutex<Option<BTreeMap<String, SeenNode>>>,
    changes: watch::Sender<u64>,
}

/// A node.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct SeenNode {
    is_cordoned: bool,
    /// Whether its annotation says that room is reserved on it.
    is_reserved: bool,
}

/// A node as the watch tells it.
#[derive(Debug)]
pub(super) struct ToldNode {
    name: String,
    node: SeenNode,
}

impl From<WatchedObject> for ToldNode {
    fn from(WatchedObject { name, json, .. }: WatchedObject) -> Self {
        Self { name, node: seen_node(&json) }
    }
}

fn lock<T>(of: &Mutex<T>) -> MutexGuard<'_, T> {
    // A panic leaves at worst one object out.
    of.lock().unwrap_or_else(PoisonError::into_inner)
}

fn count(changes: &watch::Sender<u64>) {
    changes.send_modify(|count| *count = count.wrapping_add(1));
}

impl Pods {
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    pub(super) fn is_listed(&self) -> bool {
        lock(&self.seen).listed
    }

    /// The pods that concern a Reservation: its placeholders, and the pods with a claim.
    pub(super) fn read(&self, reservation: &Reservation) -> Vec<SeenPod> {
        let seen = lock(&self.seen);
        let placeholders = seen.placeholders.get(&reservation.uid).into_iter().flatten();
        let owners = reservation.room.claims().iter().map(|claim| &claim.uid);
        let uids: BTreeSet<_> = placeholders.chain(owners).collect();
        uids.into_iter().filter_map(|uid| Some(seen.by_uid.get(uid)?.1.clone())).collect()
    }

    /// Those that wait for the longest time, without placeholders.
    pub(super) fn unscheduled(&self) -> Vec<Arc<Unscheduled>> {
        lock(&self.seen).unscheduled.values().take(MOST_UNSCHEDULED).cloned().collect()
    }

    /// A pod that this replica has written.
    pub(super) fn learn(&self, json: &[u8]) -> Option<SeenPod> {
        let (version, pod) = parsed(json)?;
        lock(&self.seen).put(version, pod.clone());
        Some(pod)
    }

    /// Placeholder pods behind their gate whose Reservation is none of these.
    pub(super) fn gated_orphans(&self, reservations: &HashSet<&str>) -> Vec<PodRef> {
        let seen = lock(&self.seen);
        let orphans = seen.placeholders.iter().filter(|(uid, _)| !reservations.contains(uid.as_str()));
        let orphans = orphans.flat_map(|(_, pods)| pods).filter_map(|uid| Some(&seen.by_uid.get(uid)?.1));
        orphans.filter(|pod| pod.gated && !pod.leaving).map(|pod| pod.pod.clone()).collect()
    }
}

impl SeenPod {
    /// Its key among those that wait.
    fn waits_as(&self) -> Option<(Timestamp, String)> {
        self.unscheduled.as_ref().map(|unscheduled| (unscheduled.since, self.pod.uid.clone()))
    }
}

impl SeenPods {
    /// Returns whether something has changed that is looked at.
    fn put(&mut self, version: u64, pod: SeenPod) -> bool {
        let uid = pod.pod.uid.clone();
        let stored = self.by_uid.get(&uid);
        if stored.is_some_and(|(stored, _)| *stored > version) {
            return false;
        }
        let is_new = stored.is_none_or(|(_, stored)| *stored != pod);
        if let Some(key) = stored.and_then(|(_, stored)| stored.waits_as()) {
            self.unscheduled.remove(&key);
        }
        if let (Some(key), Some(unscheduled)) = (pod.waits_as(), &pod.unscheduled) {
            self.unscheduled.insert(key, Arc::clone(unscheduled));
        }
        if let Some(reservation) = &pod.reservation {
            self.placeholders.entry(reservation.clone()).or_default().insert(uid.clone());
        }
        self.by_uid.insert(uid, (version, pod));
        is_new
    }

    fn remove(&mut self, uid: &str) {
        let Some((_, pod)) = self.by_uid.remove(uid) else { return };
        if let Some(key) = pod.waits_as() {
            self.unscheduled.remove(&key);
        }
        let Some(reservation) = pod.reservation else { return };
        if let Some(uids) = self.placeholders.get_mut(&reservation) {
            uids.remove(uid);
            if uids.is_empty() {
                self.placeholders.remove(&reservation);
            }
        }
    }
}

impl Watched for Pods {
    type Kept = ToldPod;

    fn listed(&self, pods: Vec<ToldPod>, version: u64) {
        let mut seen = lock(&self.seen);
        let old = std::mem::take(&mut *seen);
        for (version, pod) in pods.into_iter().filter_map(|told| told.0) {
            seen.put(version, pod);
        }
        // Created after the list.
        for (stored, pod) in old.by_uid.into_values().filter(|(stored, _)| *stored > version) {
            seen.put(stored, pod);
        }
        seen.listed = true;
        drop(seen);
        count(&self.changes);
    }

    fn told(&self, object: WatchedObject) {
        // Most events are about the status of containers.
        if parsed(&object.json).is_some_and(|(version, pod)| lock(&self.seen).put(version, pod)) {
            count(&self.changes);
        }
    }

    fn deleted(&self, object: WatchedObject) {
        if let Some((_, pod)) = parsed(&object.json) {
            lock(&self.seen).remove(&pod.pod.uid);
            count(&self.changes);
        }
    }
}

impl Nodes {
    pub(super) fn changes(&self) -> watch::Receiver<u64> {
        self.changes.subscribe()
    }

    pub(super) fn is_listed(&self) -> bool {
        lock(&self.by_name).is_some()
    }

    pub(super) fn contain(&self, name: &str) -> bool {
        lock(&self.by_name).as_ref().is_some_and(|nodes| nodes.contains_key(name))
    }

    pub(super) fn is_cordoned(&self, name: &str) -> bool {
        let nodes = lock(&self.by_name);
        nodes.as_ref().and_then(|nodes| nodes.get(name)).is_some_and(|node| node.is_cordoned)
    }

    /// The nodes with which a term begins: those whose annotation says that room is reserved, or any if there is none, because a
    /// Reservation may have come and gone before its node had the annotation. kube-scheduler tries all pods again that an
    /// extender has rejected, whichever node changes.
    pub(super) fn first(&self) -> BTreeSet<String> {
        let nodes = lock(&self.by_name);
        let reserved = nodes.iter().flatten().filter(|(_, node)| node.is_reserved);
        let reserved: BTreeSet<_> = reserved.map(|(name, _)| name.clone()).collect();
        let any = nodes.iter().flatten().map(|(name, _)| name.clone()).next();
        if reserved.is_empty() { any.into_iter().collect() } else { reserved }
    }
}

impl Watched for Nodes {
    type Kept = ToldNode;

    fn listed(&self, nodes: Vec<ToldNode>, _: u64) {
        let nodes = nodes.into_iter().map(|ToldNode { name, node }| (name, node));
        *lock(&self.by_name) = Some(nodes.collect());
        count(&self.changes);
    }

    fn told(&self, object: WatchedObject) {
        let node = seen_node(&object.json);
        // A node changes every few minutes; what is looked at seldom does.
        if lock(&self.by_name).get_or_insert_default().insert(object.name, node) != Some(node) {
            count(&self.changes);
        }
    }

    fn deleted(&self, object: WatchedObject) {
        lock(&self.by_name).get_or_insert_default().remove(&object.name);
        count(&self.changes);
    }
}

/// One that cannot be read exists nevertheless.
fn seen_node(json: &[u8]) -> SeenNode {
    let NodeObject { metadata, spec } = serde_json::from_slice(json).unwrap_or_default();
    SeenNode { is_cordoned: spec.unschedulable, is_reserved: metadata.annotations.room_reserved.is_some() }
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NodeObject {
    metadata: NodeMetadata,
    spec: NodeSpec,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NodeMetadata {
    annotations: NodeAnnotations,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NodeAnnotations {
    /// [`RESERVED`](crate::cluster::RESERVED).
    #[serde(rename = "scheduling.extender-gateway.io/room-reserved")]
    room_reserved: Option<IgnoredAny>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct NodeSpec {
    unschedulable: bool,
}

#[derive(Deserialize)]
struct PodObject {
    metadata: PodMetadata,
    #[serde(default)]
    spec: PodSpec,
    #[serde(default)]
    status: PodStatus,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct PodMetadata {
    namespace: String,
    name: String,
    uid: String,
    resource_version: String,
    deletion_timestamp: Option<IgnoredAny>,
    #[serde(default)]
    labels: BTreeMap<String, String>,
    #[serde(default)]
    annotations: PodAnnotations,
    #[serde(default)]
    owner_references: Vec<Owner>,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PodAnnotations {
    /// [`ANNOTATION`](crate::affinity::ANNOTATION).
    #[serde(rename = "scheduling.extender-gateway.io/reservation-affinity")]
    affinity: Option<String>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct Owner {
    api_version: String,
    kind: String,
    name: String,
    uid: String,
    #[serde(default)]
    controller: bool,
}

impl Owner {
    fn reference(self) -> OwnerReference {
        let Self { api_version, kind, name, uid, .. } = self;
        OwnerReference { api_version, kind, name, uid }
    }
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodSpec {
    node_name: Option<String>,
    scheduling_gates: Vec<Gate>,
}

#[derive(Deserialize)]
struct Gate {
    name: String,
}

#[derive(Default, Deserialize)]
#[serde(default)]
struct PodStatus {
    phase: Option<String>,
    conditions: Vec<PodCondition>,
}

#[derive(Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodCondition {
    #[serde(rename = "type")]
    kind: String,
    status: String,
    reason: String,
    message: String,
    last_transition_time: Option<Timestamp>,
}

fn parsed(json: &[u8]) -> Option<(u64, SeenPod)> {
    let PodObject { metadata, spec, status } = serde_json::from_slice(json).ok()?;
    let PodMetadata { namespace, name, uid, labels, annotations, owner_references, .. } = metadata;
    let pod = PodRef { namespace, name, uid };
    let leaving = metadata.deletion_timestamp.is_some();
    let gated = spec.scheduling_gates.iter().any(|gate| gate.name == GATE);
    let controller = owner_references.into_iter().find(|owner| owner.controller).map(Owner::reference);
    let placeholder_of = bind::reservation_of(controller.as_ref()).map(|of| of.uid.clone());
    let is_placeholder = placeholder_of.is_some();
    let reservation = placeholder_of.filter(|of| labels.get(LABEL) == Some(of));
    let recorded = reservation.is_some().then(|| Recorded::of(json).unwrap_or_default());
    let why = status.conditions.into_iter().find(|it| it.kind == "PodScheduled" && it.status == "False");
    let PodCondition { reason, message, last_transition_time, .. } = why.unwrap_or_default();
    let state = match (status.phase.as_deref(), spec.node_name.filter(|node| !node.is_empty())) {
        (Some("Succeeded" | "Failed"), _) => State::Ended,
        (_, Some(node)) => State::On(node),
        (_, None) => State::Waiting { reason, message },
    };
    let may_own = matches!(&state, State::Waiting { reason, .. } if reason == "Unschedulable") && !leaving;
    let since = last_transition_time.filter(|_| may_own && !is_placeholder);
    let unscheduled = since.and_then(|since| {
        let requests = Recorded::of(json).ok()?.requests;
        let affinity = annotations.affinity.map(|text| Arc::new(Affinity::new(&text)));
        let PodRef { namespace, name, uid } = pod.clone();
        let asking = OwnedAsking { uid, namespace, controller, labels, affinity, requests };
        Some(Arc::new(Unscheduled { name, since, asking }))
    });
    let version = metadata.resource_version.parse().unwrap_or_default();
    Some((version, SeenPod { pod, state, gated, leaving, reservation, recorded, unscheduled }))
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;
    use crate::cluster::RESERVED;

    fn pod(change: impl FnOnce(&mut Value)) -> Option<(u64, SeenPod)> {
        let mut pod = json!({
            "metadata": {
                "namespace": "shop", "name": "web-x", "uid": "p-1", "resourceVersion": "4",
                "labels": {LABEL: "r-1"},
                "ownerReferences": [{
                    "apiVersion": "scheduling.extender-gateway.io/v1alpha1", "kind": "Reservation", "name": "web",
                    "uid": "r-1", "controller": true,
                }],
            },
            "spec": {"schedulingGates": [{"name": GATE}]},
            "status": {"conditions": [{"type": "PodScheduled", "status": "False", "reason": "R", "message": "m"}]},
        });
        change(&mut pod);
        parsed(pod.to_string().as_bytes())
    }

    #[test]
    fn a_pod_is_read() {
        let (version, seen) = pod(|_| {}).unwrap();
        let waiting = State::Waiting { reason: "R".to_owned(), message: "m".to_owned() };
        assert_eq!(
            (version, seen.state, seen.gated, seen.reservation),
            (4, waiting, true, Some("r-1".to_owned()))
        );
        for (pointer, value, expected) in [
            ("/spec", json!({"nodeName": "a"}), State::On("a".to_owned())),
            ("/status", json!({"phase": "Failed"}), State::Ended),
            ("/status", json!({}), State::Waiting { reason: String::new(), message: String::new() }),
        ] {
            let (_, seen) = pod(|pod| *pod.pointer_mut(pointer).unwrap() = value).unwrap();
            assert_eq!(seen.state, expected);
        }
    }

    #[test]
    fn a_label_alone_makes_no_placeholder() {
        for (pointer, value) in [
            ("/metadata/labels", json!({LABEL: "r-2"})),
            ("/metadata/ownerReferences/0/kind", json!("ReplicaSet")),
            ("/metadata/ownerReferences/0/controller", json!(false)),
            ("/metadata/ownerReferences/0/apiVersion", json!("apps/v1")),
        ] {
            let (_, seen) = pod(|pod| *pod.pointer_mut(pointer).unwrap() = value).unwrap();
            assert_eq!(seen.reservation, None, "{pointer}");
        }
        assert_eq!(pod(|pod| pod["metadata"] = json!([])), None);
    }

    fn object(json: &Value) -> WatchedObject {
        WatchedObject { name: "web-x".to_owned(), version: 9, json: json.to_string().into_bytes() }
    }

    #[test]
    fn placeholders_are_found_until_they_are_deleted() {
        let of = |uid: &str, version: &str, gated: bool| {
            let gates = if gated { json!([{"name": GATE}]) } else { json!([]) };
            json!({
                "metadata": {
                    "namespace": "shop", "name": uid, "uid": uid, "resourceVersion": version,
                    "labels": {LABEL: "r-1"},
                    "ownerReferences": [{
                        "apiVersion": "scheduling.extender-gateway.io/v1alpha1", "kind": "Reservation",
                        "name": "web", "uid": "r-1", "controller": true,
                    }],
                },
                "spec": {"schedulingGates": gates},
            })
        };
        let pods = Pods::default();
        assert!(!pods.is_listed());
        assert_eq!(pods.learn(of("p-1", "5", true).to_string().as_bytes()).unwrap().pod.uid, "p-1");
        pods.listed(vec![object(&of("p-2", "3", false)).into()], 4);
        let orphans = |known: &[&str]| pods.gated_orphans(&known.iter().copied().collect());
        assert_eq!(orphans(&[]).len(), 1, "p-2 is not gated; p-1 is newer than the list");
        assert_eq!(orphans(&["r-1"]), []);
        pods.told(object(&of("p-1", "6", false)));
        pods.told(object(&of("p-1", "5", true)));
        assert_eq!(orphans(&[]), [], "an older version does not count");
        pods.deleted(object(&of("p-1", "7", false)));
        pods.deleted(object(&of("p-2", "7", false)));
        assert!(lock(&pods.seen).by_uid.is_empty() && lock(&pods.seen).placeholders.is_empty());
    }

    #[test]
    fn nodes_come_and_go() {
        let nodes = Nodes::default();
        let node = |name: &str| WatchedObject { name: name.to_owned(), ..object(&json!({})) };
        assert!(!nodes.is_listed() && nodes.first().is_empty());
        nodes.listed(vec![node("a").into()], 1);
        nodes.told(node("b"));
        assert_eq!(nodes.first(), ["a".to_owned()].into(), "one, without any annotation");
        nodes.deleted(node("a"));
        assert!(nodes.is_listed() && nodes.contain("b") && !nodes.contain("a") && !nodes.is_cordoned("b"));
        let changed =
            json!({"metadata": {"annotations": {RESERVED: "true"}}, "spec": {"unschedulable": true}});
        nodes.told(WatchedObject { name: "b".to_owned(), ..object(&changed) });
        assert_eq!((nodes.is_cordoned("b"), nodes.first()), (true, ["b".to_owned()].into()));
    }
}
