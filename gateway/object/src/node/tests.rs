//! A node's facts: their content, and that a heartbeat does not change them.

use std::collections::BTreeMap;

use extender_policy_api::v1beta1::{
    MapValues, NodeAddress, NodeFacts, NodeImage, Resources, SystemInfo, Taint,
};
use serde_json::{Value, json};

use super::{images, parse};

fn map(pairs: &[(&str, &str)]) -> BTreeMap<String, String> {
    pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

fn entries(pairs: &[(&str, &str)]) -> MapValues {
    MapValues { entries: map(pairs), ..MapValues::default() }
}

fn node(version: &str, heartbeat: &str) -> Value {
    json!({
        "metadata": {
            "name": "n1", "uid": "u", "resourceVersion": version,
            "labels": {"zone": "a", "escaped": "\u{3c}ok>"},
            "annotations": {"acme.io/rack": "r1", "node.alpha.kubernetes.io/ttl": "0"},
            "managedFields": [{"manager": "m", "fieldsV1": {"f:metadata": {"f:labels": {".": {}}}}}],
        },
        "spec": {
            "providerID": "p", "unschedulable": true,
            "taints": [{"key": "b", "effect": "NoSchedule", "timeAdded": "2026-01-01T00:00:00Z"},
                       {"key": "a", "value": "v", "effect": "NoExecute"}],
        },
        "status": {
            "capacity": {"cpu": "2", "memory": "8Gi", "ephemeral-storage": "100Gi", "pods": "110", "example.com/gpu": "2"},
            "allocatable": {"cpu": "1930m", "memory": "7Gi", "pods": "110", "hugepages-2Mi": "0"},
            "conditions": [{"type": "Ready", "status": "True", "lastHeartbeatTime": heartbeat, "message": heartbeat}],
            "images": [{"names": ["a/b@sha256:0"], "sizeBytes": 1}],
            "nodeInfo": {"kernelVersion": "6.1", "architecture": "arm64", "bootID": "b"},
            "addresses": [{"type": "InternalIP", "address": "10.0.0.1"}, {"type": "Hostname", "address": "n1"}],
        },
    })
}

fn facts(json: &Value) -> NodeFacts {
    parse(json.to_string().as_bytes()).unwrap().facts()
}

#[test]
fn tells_what_policies_want_to_know() {
    let told = facts(&node("1", "t"));
    let others = |name: &str, amount| BTreeMap::from([(name.to_owned(), amount)]);
    let taint = |key: &str, value: &str, effect: &str| Taint {
        key: key.into(),
        value: value.into(),
        effect: effect.into(),
    };
    let expected = NodeFacts {
        labels: Some(entries(&[("escaped", "<ok>"), ("zone", "a")])),
        annotations: Some(entries(&[("acme.io/rack", "r1"), ("node.alpha.kubernetes.io/ttl", "0")])),
        taints: vec![taint("b", "", "NoSchedule"), taint("a", "v", "NoExecute")],
        unschedulable: Some(true),
        conditions: map(&[("Ready", "True")]),
        capacity: Some(Resources {
            milli_cpu: 2000,
            memory: 8 << 30,
            ephemeral_storage: 100 << 30,
            pods: 110,
            others: others("example.com/gpu", 2),
        }),
        allocatable: Some(Resources {
            milli_cpu: 1930,
            memory: 7 << 30,
            ephemeral_storage: 0,
            pods: 110,
            others: others("hugepages-2Mi", 0),
        }),
        images: Vec::new(),
        system_info: Some(SystemInfo {
            kernel_version: "6.1".into(),
            architecture: "arm64".into(),
            ..SystemInfo::default()
        }),
        addresses: [("InternalIP", "10.0.0.1"), ("Hostname", "n1")]
            .map(|(r#type, address)| NodeAddress { r#type: r#type.into(), address: address.into() })
            .into(),
        provider_id: "p".into(),
    };
    assert_eq!(told, expected);
    let image = NodeImage { names: vec!["a/b@sha256:0".into()], bytes: 1 };
    assert_eq!(images(node("1", "t").to_string().as_bytes()), [image]);
    assert_eq!(images(br#"{"metadata":{"name":"n"},"status":null}"#), []);
}

#[test]
fn a_heartbeat_changes_no_fact() {
    assert_eq!(facts(&node("1", "08:53")), facts(&node("2", "08:54")));
}

#[test]
fn nulls_and_absences_are_defaults() {
    let odd = json!({"kind": "Node", "metadata": {"name": "n", "labels": null}, "spec": null,
        "status": {"capacity": null, "allocatable": {}, "conditions": null}});
    let told = facts(&odd);
    let nothing = NodeFacts { unschedulable: Some(false), ..NodeFacts::default() };
    assert_eq!(told, nothing, "nothing reported is not the same as nothing offered");
    assert_eq!(facts(&json!({"metadata": {"name": "n"}, "spec": {"taints": null}})), told);
}
