//! Pods, nodes and bodies as kube-scheduler sends them, and declarations of backends.

use std::sync::atomic::{AtomicUsize, Ordering};

use extender_policy_api::v1beta1::{self as api, Effects, MapReads, NodePart, PodPart, Scope, Verb};
use prost::Message;
use serde_json::{Value, json};

use crate::case::Declared;

/// The package that backends implement.
pub(crate) const PACKAGE: &str = "extender.policy.v1beta1";

/// A name that no other pod has.
pub(crate) fn fresh() -> String {
    static NUMBER: AtomicUsize = AtomicUsize::new(0);
    format!("web-{}", NUMBER.fetch_add(1, Ordering::Relaxed))
}

/// A pod of one template, with its name as UID.
pub(crate) fn pod(name: &str) -> Value {
    json!({
        "metadata": {
            "name": name, "namespace": "shop", "uid": name, "creationTimestamp": "2026-11-21T07:59:01Z",
            "labels": {"app": "web", "tier": "front"},
            "annotations": {"example.com/team": "blue", "example.com/zone": "a", "other.example/x": "y"},
        },
        "spec": {
            "containers": [{"name": "main", "image": "web:1", "resources": {"requests": {"cpu": "100m"}}}],
            "volumes": [{"name": format!("kube-api-access-{name}"), "projected": {"sources": []}}],
            "priority": 10, "schedulerName": "default-scheduler",
            "tolerations": [{"key": "spot", "operator": "Exists"}],
        },
        "status": {"phase": "Pending"},
    })
}

/// A node in rack `r-NAME`.
pub(crate) fn node(name: &str) -> Value {
    json!({
        "metadata": {
            "name": name, "uid": format!("uid-{name}"),
            "labels": {"rack": format!("r-{name}"), "example.com/b": "2", "example.com/a": "1", "zone": "z"},
            "annotations": {"note": "kept"},
        },
        "spec": {"taints": [{"key": "spot", "effect": "NoSchedule"}]},
        "status": {"allocatable": {"cpu": "2", "memory": "4Gi", "pods": "110"}, "capacity": {"cpu": "2"}},
    })
}

/// The same in another rack.
pub(crate) fn racked(name: &str, rack: &str) -> Value {
    let mut node = node(name);
    node["metadata"]["labels"]["rack"] = rack.into();
    node
}

pub(crate) fn list(nodes: &[Value]) -> Value {
    let of_kind = |node: &Value| {
        let mut node = node.clone();
        node["apiVersion"] = "v1".into();
        node["kind"] = "Node".into();
        node
    };
    json!({"apiVersion": "v1", "kind": "NodeList", "items": nodes.iter().map(of_kind).collect::<Vec<_>>()})
}

/// The body of filter and prioritize with names, as with `nodeCacheCapable: true`.
pub(crate) fn by_name(pod: &Value, names: &[&str]) -> Value {
    json!({"Pod": pod, "Nodes": null, "NodeNames": names})
}

/// The same with objects.
pub(crate) fn in_full(pod: &Value, nodes: &[Value]) -> Value {
    json!({"Pod": pod, "Nodes": {"metadata": {}, "items": nodes}, "NodeNames": null})
}

/// About another pod and these nodes as objects.
pub(crate) fn about(names: &[&str]) -> Value {
    in_full(&pod(&fresh()), &names.iter().map(|name| node(name)).collect::<Vec<_>>())
}

/// What most backends read: of nodes the name and the rack, of the pod two labels, one of which it lacks.
pub(crate) fn reads() -> api::Reads {
    let keys = |keys: &[&str]| Some(MapReads { keys: strings(keys), prefixes: Vec::new() });
    api::Reads {
        pod: Some(api::PodReads { labels: keys(&["app", "missing"]), ..Default::default() }),
        node: Some(api::NodeReads {
            parts: vec![NodePart::Name.into()],
            labels: keys(&["rack"]),
            ..Default::default()
        }),
    }
}

/// The same with the identity of the pod.
pub(crate) fn reads_identity() -> api::Reads {
    let mut reads = reads();
    reads.pod.get_or_insert_default().parts = vec![PodPart::Identity.into()];
    reads
}

pub(crate) fn strings(texts: &[&str]) -> Vec<String> {
    texts.iter().map(|text| (*text).to_owned()).collect()
}

/// A verb that is about one node at a time, and is called each time.
pub(crate) fn verb(verb: Verb) -> api::VerbInfo {
    let mut reads = reads();
    if matches!(verb, Verb::Bind | Verb::BeforeFilter) {
        reads.node = None;
    }
    api::VerbInfo {
        verb: verb.into(),
        scope: Scope::Node.into(),
        effects: Effects::ReadsOutside.into(),
        reads: Some(reads),
        ..Default::default()
    }
}

/// The handshake of a backend with these verbs.
pub(crate) fn info(verbs: Vec<api::VerbInfo>) -> api::GetInfoResponse {
    api::GetInfoResponse {
        name: "scripted".into(),
        version: "1".into(),
        revision: "r1".into(),
        api_version: PACKAGE.into(),
        verbs,
        ..Default::default()
    }
}

/// A backend with these fields in the launcher's document.
pub(crate) fn backend(name: &'static str, settings: Value, info: &api::GetInfoResponse) -> Declared {
    Declared { name, settings, info: info.encode_to_vec(), package: PACKAGE }
}
