use serde_json::{Value, json};

use super::*;
use crate::object::{node, pod};

fn entries(count: usize) -> Value {
    (0..count).map(|at| (format!("example.com/{at}"), json!("1"))).collect::<serde_json::Map<_, _>>().into()
}

fn list(count: usize) -> Value {
    vec![json!({}); count].into()
}

/// A pod with something at a path.
fn pod_with(path: &str, value: Value) -> Vec<u8> {
    let mut pod = json!({"metadata": {"name": "web-0", "namespace": "shop"}, "spec": {}});
    put(&mut pod, path, value);
    pod.to_string().into_bytes()
}

fn put(object: &mut Value, path: &str, value: Value) {
    let place = path.split('.').fold(object, |place, key| &mut place[key]);
    *place = value;
}

#[test]
fn each_list_of_a_pod_has_a_limit_and_is_named() {
    let more = MOST_ENTRIES + 1;
    for (path, value) in [
        ("metadata.labels", entries(more)),
        ("metadata.annotations", entries(more)),
        ("metadata.ownerReferences", list(more)),
        ("spec.containers", list(more)),
        ("spec.initContainers", list(more)),
        ("spec.tolerations", list(more)),
        ("spec.nodeSelector", entries(more)),
        ("spec.volumes", list(more)),
    ] {
        let json = pod_with(path, value);
        let error = pod::offered(&json).unwrap_err();
        let expected = format!("Pod.{path}: web-0 has 20001 entries, and the gateway accepts at most 20000");
        assert_eq!(error.to_string(), expected);
        assert!(pod::parse(&json).is_ok(), "the watch reads it all the same");
    }
}

#[test]
fn amounts_of_all_containers_and_requirements_of_all_terms_are_counted_together() {
    let half = json!({"resources": {"requests": entries(MOST_ENTRIES / 2), "limits": {"cpu": 1}}});
    let json = pod_with("spec.containers", json!([half, half]));
    let error = pod::offered(&json).unwrap_err().to_string();
    assert!(error.starts_with("Pod.spec.containers[*].resources: web-0 has 20002 entries"), "{error}");

    let term = json!({"matchExpressions": [{"key": "zone", "operator": "In", "values": vec!["a"; MOST_ENTRIES / 2]}]});
    let required = json!({"nodeSelectorTerms": [term, term]});
    let affinity = json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}});
    let error = pod::offered(&pod_with("spec.affinity", affinity)).unwrap_err().to_string();
    assert!(error.starts_with("Pod.spec.affinity.nodeAffinity: web-0 has 20004 entries"), "{error}");
}

#[test]
fn a_pod_at_its_limits_is_read() {
    for (path, value) in [("metadata.labels", entries(MOST_ENTRIES)), ("spec.containers", list(MOST_ENTRIES))]
    {
        assert!(pod::offered(&pod_with(path, value)).is_ok(), "{path}");
    }
    assert!(pod::offered(&pod_with("metadata.name", "x".repeat(LONGEST_NAME).into())).is_ok());
}

#[test]
fn long_names_are_refused() {
    for path in ["metadata.name", "metadata.namespace", "metadata.uid"] {
        let error = pod::offered(&pod_with(path, "x".repeat(LONGEST_NAME + 1).into())).unwrap_err();
        let expected = format!("Pod.{path}: 1025 bytes, and the gateway accepts at most 1024");
        assert_eq!(error.to_string(), expected);
    }
    let json = json!({"metadata": {"name": "x".repeat(LONGEST_NAME + 1)}}).to_string();
    assert!(node::offered(json.as_bytes()).is_err());
}

#[test]
fn nodes_have_the_same_limits() {
    for path in
        ["metadata.labels", "metadata.annotations", "spec.taints", "status.conditions", "status.capacity"]
    {
        let more = MOST_ENTRIES + 1;
        let value =
            if path == "spec.taints" || path == "status.conditions" { list(more) } else { entries(more) };
        let mut node = json!({"metadata": {"name": "n1"}});
        put(&mut node, path, value);
        let json = node.to_string();
        let error = node::offered(json.as_bytes()).unwrap_err();
        let expected = format!("Node.{path}: n1 has 20001 entries, and the gateway accepts at most 20000");
        assert_eq!(error.to_string(), expected);
        assert!(node::parse(json.as_bytes()).is_ok(), "the watch reads it all the same");
    }
}

#[test]
fn json_longer_than_any_object_is_refused_unread() {
    let json = pod_with("spec.x", " ".repeat(MOST_BYTES).into());
    let error = pod::offered(&json).unwrap_err().to_string();
    let expected =
        format!("Pod: web-0 has {} bytes of JSON, and the gateway accepts at most 16777216", json.len());
    assert_eq!(error, expected);
}
