use serde_json::{Value, json};

use super::*;
use crate::{node, pod};

fn entries(count: usize) -> Value {
    (0..count).map(|at| (format!("example.com/{at}"), json!("1"))).collect::<serde_json::Map<_, _>>().into()
}

fn list(count: usize) -> Value {
    vec![json!({}); count].into()
}

/// A pod with this value at a path.
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
        let expected =
            format!("Pod.{path}: more than 20000 entries, which is the most that the gateway accepts");
        assert_eq!(error.to_string().split(" at line").next(), Some(&*expected));
        assert!(pod::parse(&json).is_ok(), "the watch still reads it");
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
        let expected =
            format!("Node.{path}: more than 20000 entries, which is the most that the gateway accepts");
        assert_eq!(error.to_string().split(" at line").next(), Some(&*expected));
        assert!(node::parse(json.as_bytes()).is_ok(), "the watch still reads it");
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

/// An object with 16 MiB of one entry at a path.
fn full_of((path, entry): (&str, &str)) -> String {
    let (open, close) = if entry.starts_with("\"k\"") { ('{', '}') } else { ('[', ']') };
    let keys: Vec<&str> = path.split('.').collect();
    let before = format!("{{\"{}\":", keys.join("\":{\""));
    let count = (MOST_BYTES - 200) / (entry.len() + 1);
    format!("{before}{open}{}{entry}{close}{}", format!("{entry},").repeat(count - 1), "}".repeat(keys.len()))
}

const ENTRY: &str = "{}";
const PAIR: &str = r#""k":"1""#;

/// Parses an object of a call.
type Read = fn(&str) -> Option<ObjectError>;

fn of_a_pod(json: &str) -> Option<ObjectError> {
    pod::offered(json.as_bytes()).err()
}

fn of_a_node(json: &str) -> Option<ObjectError> {
    node::offered(json.as_bytes()).err()
}

#[test]
fn a_list_above_its_limit_takes_no_more_than_its_text() {
    let refused: [(Read, &str, &str); 18] = [
        (of_a_pod, "metadata.labels", PAIR),
        (of_a_pod, "metadata.annotations", PAIR),
        (of_a_pod, "metadata.ownerReferences", ENTRY),
        (of_a_pod, "spec.containers", ENTRY),
        (of_a_pod, "spec.initContainers", ENTRY),
        (of_a_pod, "spec.resources.requests", PAIR),
        (of_a_pod, "spec.overhead", PAIR),
        (of_a_pod, "spec.tolerations", ENTRY),
        (of_a_pod, "spec.nodeSelector", PAIR),
        (of_a_pod, "spec.volumes", ENTRY),
        (of_a_pod, "status.conditions", ENTRY),
        (of_a_pod, "status.containerStatuses", ENTRY),
        (of_a_pod, "status.initContainerStatuses", ENTRY),
        (of_a_pod, "status.allocatedResources", PAIR),
        (of_a_node, "spec.taints", ENTRY),
        (of_a_node, "status.conditions", ENTRY),
        (of_a_node, "status.capacity", PAIR),
        (of_a_node, "status.allocatable", PAIR),
    ];
    for (offered, path, entry) in refused {
        let text = full_of((path, entry));
        assert!(text.len() <= MOST_BYTES);
        let mut error = None;
        let used = allocation_counter::measure(|| error = offered(&text));
        assert!(used.bytes_total < 2 * text.len() as u64, "{path}: {used:?}");
        let error = error.unwrap().to_string();
        assert!(error.contains(&format!("{path}: more than 20000 entries")), "{error}");
    }
}

#[test]
fn lists_in_lists_are_counted_together() {
    let values = format!("[{}\"\"]", "\"\",".repeat(MOST_ENTRIES / 2));
    let term = format!(r#"{{"matchExpressions":[{{"values":{values}}}]}}"#);
    let preferred = format!(r#"{{"preference":{term}}}"#);
    let container =
        format!(r#"{{"resources":{{"requests":{{{}"r":1}}}}}}"#, "\"r\":1,".repeat(MOST_ENTRIES / 2));
    let most = MOST_BYTES - 200;
    for (path, entry) in [
        ("spec.affinity.nodeAffinity.preferredDuringSchedulingIgnoredDuringExecution", preferred),
        ("spec.containers", container),
    ] {
        let keys: Vec<&str> = path.split('.').collect();
        let before = format!("{{\"{}\":", keys.join("\":{\""));
        let count = most / (entry.len() + 1);
        let list = vec![entry; count].join(",");
        let text = format!("{before}[{list}]{}", "}".repeat(keys.len()));
        let used = allocation_counter::measure(|| assert!(pod::offered(text.as_bytes()).is_err()));
        assert!(used.bytes_max < 4 * text.len() as u64, "{path}: {used:?}");
    }
}
