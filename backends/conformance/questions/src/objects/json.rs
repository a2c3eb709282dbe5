//! The JSON of the same objects, for backends that want it.

use extender_policy_api::v1beta1 as api;
use serde_json::{Map, Value, json};

use super::{Node, Pod};

impl Node {
    /// A `v1.Node` that says the same as the facts.
    pub fn json(&self) -> Vec<u8> {
        let taint =
            |taint: &api::Taint| json!({"key": taint.key, "value": taint.value, "effect": taint.effect});
        let condition = |(kind, status): (&String, &String)| json!({"type": kind, "status": status});
        let facts = &self.facts;
        let object = json!({
            "apiVersion": "v1",
            "kind": "Node",
            "metadata": {"name": self.name, "labels": self.labels, "annotations": self.annotations},
            "spec": {
                "unschedulable": facts.unschedulable,
                "taints": facts.taints.iter().map(taint).collect::<Vec<_>>(),
            },
            "status": {
                "capacity": quantities(facts.capacity.as_ref()),
                "allocatable": quantities(facts.allocatable.as_ref()),
                "conditions": facts.conditions.iter().map(condition).collect::<Vec<_>>(),
            },
        });
        object.to_string().into_bytes()
    }
}

impl Pod {
    /// A `v1.Pod` that says the same as identity and facts.
    pub fn json(&self) -> Vec<u8> {
        let facts = &self.facts;
        let mut metadata = json!({
            "name": self.identity.name,
            "uid": self.identity.uid,
            "namespace": facts.namespace,
            "labels": self.labels,
            "annotations": self.annotations,
        });
        if let Some(owner) = &facts.owner {
            let api::OwnerReference { api_version, kind, name, uid } = owner;
            let owner = json!({
                "apiVersion": api_version, "kind": kind, "name": name, "uid": uid, "controller": true,
            });
            metadata["ownerReferences"] = json!([owner]);
        }
        let requests = facts.requests.as_ref().map(|requests| api::Resources { pods: 0, ..requests.clone() });
        let container = json!({"name": "main", "image": "main", "resources": {"requests": quantities(requests.as_ref())}});
        let object = json!({
            "apiVersion": "v1",
            "kind": "Pod",
            "metadata": metadata,
            "spec": {
                "containers": [container],
                "nodeSelector": facts.node_selector,
                "priority": facts.priority,
                "priorityClassName": facts.priority_class_name,
                "schedulerName": facts.scheduler_name,
                "tolerations": facts.tolerations.iter().map(toleration).collect::<Vec<_>>(),
            },
        });
        object.to_string().into_bytes()
    }
}

fn toleration(toleration: &api::Toleration) -> Value {
    let api::Toleration { key, operator, value, effect, toleration_seconds } = toleration;
    let mut object = json!({"key": key, "operator": operator, "value": value, "effect": effect});
    if let Some(seconds) = toleration_seconds {
        object["tolerationSeconds"] = json!(seconds);
    }
    object
}

fn quantities(resources: Option<&api::Resources>) -> Value {
    let Some(api::Resources { milli_cpu, memory, ephemeral_storage, pods, others }) = resources else {
        return json!({});
    };
    let mut amounts = Map::from_iter([
        ("cpu".to_owned(), json!(format!("{milli_cpu}m"))),
        ("memory".to_owned(), json!(memory.to_string())),
        ("ephemeral-storage".to_owned(), json!(ephemeral_storage.to_string())),
    ]);
    if *pods > 0 {
        amounts.insert("pods".to_owned(), json!(pods.to_string()));
    }
    amounts.extend(others.iter().map(|(name, amount)| (name.clone(), json!(amount.to_string()))));
    Value::Object(amounts)
}
