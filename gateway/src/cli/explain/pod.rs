//! The pod's state in the apiserver.

use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Pod, PodCondition},
    apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry,
};
use serde::Serialize;

/// What is known of the pod apart from the gateway.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(tag = "state")]
pub(super) enum PodState {
    /// The apiserver was not queried, or did not answer.
    #[serde(rename_all = "camelCase")]
    NotAsked {
        /// The cause.
        why: String,
    },
    /// There is no pod with this name.
    #[serde(rename_all = "camelCase")]
    Gone {
        /// Pods in the namespace with similar names.
        near: Vec<String>,
        /// Namespaces that have a pod with this name.
        elsewhere: Vec<String>,
    },
    /// The pod exists.
    There(Box<PodFacts>),
}

/// The pod's data in the apiserver.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct PodFacts {
    /// `metadata.uid`.
    pub(super) uid: String,
    /// `metadata.creationTimestamp`.
    pub(super) created: Timestamp,
    /// `spec.schedulerName`.
    pub(super) scheduler_name: String,
    /// `spec.nodeName`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) node: Option<String>,
    /// Whether it was created with `spec.nodeName`, so that no scheduler decided.
    pub(super) created_with_node: bool,
    /// `status.nominatedNodeName`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) nominated_node: Option<String>,
    /// `status.phase`.
    pub(super) phase: String,
    /// The condition `PodScheduled`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) scheduled: Option<ShownCondition>,
}

/// A condition `PodScheduled`.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct ShownCondition {
    /// `True` or `False`.
    pub(super) status: String,
    /// Such as `Unschedulable`, `SchedulerError` or `SchedulingGated`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) reason: String,
    /// The scheduler's message.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(super) message: String,
    /// When the scheduler last changed the condition; `None` if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) time: Option<Timestamp>,
}

impl PodFacts {
    /// Converts a pod.
    pub(super) fn of(pod: Pod) -> Self {
        let (metadata, spec) = (pod.metadata, pod.spec.unwrap_or_default());
        let status = pod.status.unwrap_or_default();
        let managed = metadata.managed_fields.unwrap_or_default();
        let conditions = status.conditions.into_iter().flatten();
        let scheduled = conditions.into_iter().find(|condition| condition.type_ == "PodScheduled");
        Self {
            uid: metadata.uid.unwrap_or_default(),
            created: metadata.creation_timestamp.map_or(Timestamp::UNIX_EPOCH, |time| time.0),
            scheduler_name: spec.scheduler_name.unwrap_or_default(),
            node: spec.node_name.filter(|node| !node.is_empty()),
            created_with_node: managed.iter().any(sets_node),
            nominated_node: status.nominated_node_name.filter(|node| !node.is_empty()),
            phase: status.phase.unwrap_or_default(),
            scheduled: scheduled.map(|condition| ShownCondition::of(condition, &managed)),
        }
    }
}

impl ShownCondition {
    /// The condition's own time is that of its last change between True and False, which a repeated rejection does
    /// not update. The pod's managed fields have the time at which its text changed.
    fn of(condition: PodCondition, managed: &[ManagedFieldsEntry]) -> Self {
        let written =
            managed.iter().filter(|entry| sets_condition(entry)).filter_map(|entry| entry.time.as_ref());
        let turned = condition.last_transition_time.as_ref();
        let time = written.chain(turned).map(|time| time.0).max();
        Self {
            status: condition.status,
            reason: condition.reason.unwrap_or_default(),
            message: condition.message.unwrap_or_default(),
            time,
        }
    }
}

/// A Binding sets `spec.nodeName` without an entry in the managed fields.
fn sets_node(entry: &ManagedFieldsEntry) -> bool {
    owns(entry, "/f:spec/f:nodeName")
}

fn sets_condition(entry: &ManagedFieldsEntry) -> bool {
    owns(entry, r#"/f:status/f:conditions/k:{"type":"PodScheduled"}"#)
}

fn owns(entry: &ManagedFieldsEntry, field: &str) -> bool {
    entry.fields_v1.as_ref().is_some_and(|fields| fields.0.pointer(field).is_some())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_is_read() {
        let pod = json!({
            "metadata": {
                "name": "web-0", "uid": "u-1", "creationTimestamp": "2026-11-21T23:00:00Z",
                "managedFields": [
                    {"manager": "kubectl", "time": "2026-11-21T23:00:00Z",
                     "fieldsV1": {"f:spec": {"f:schedulerName": {}}}},
                    {"manager": "kube-scheduler", "subresource": "status", "time": "2026-11-21T23:04:10Z",
                     "fieldsV1": {"f:status": {"f:conditions": {"k:{\"type\":\"PodScheduled\"}": {".": {}}}}}},
                    {"manager": "kubelet", "subresource": "status", "time": "2026-11-21T23:59:00Z",
                     "fieldsV1": {"f:status": {"f:conditions": {"k:{\"type\":\"Ready\"}": {".": {}}}}}},
                ],
            },
            "spec": {"containers": [], "schedulerName": "default-scheduler", "nodeName": ""},
            "status": {
                "phase": "Pending", "nominatedNodeName": "node-7",
                "conditions": [
                    {"type": "Ready", "status": "False"},
                    {"type": "PodScheduled", "status": "False", "reason": "Unschedulable", "message": "0/1 nodes",
                     "lastTransitionTime": "2026-11-21T23:00:01Z"},
                ],
            },
        });
        let facts = PodFacts::of(serde_json::from_value(pod).unwrap());
        let expected = PodFacts {
            uid: "u-1".into(),
            created: "2026-11-21T23:00:00Z".parse().unwrap(),
            scheduler_name: "default-scheduler".into(),
            node: None,
            created_with_node: false,
            nominated_node: Some("node-7".into()),
            phase: "Pending".into(),
            scheduled: Some(ShownCondition {
                status: "False".into(),
                reason: "Unschedulable".into(),
                message: "0/1 nodes".into(),
                time: Some("2026-11-21T23:04:10Z".parse().unwrap()),
            }),
        };
        assert_eq!(facts, expected);
    }

    #[test]
    fn a_node_at_creation_is_seen() {
        let pod = json!({
            "metadata": {"managedFields": [{"manager": "kubelet", "fieldsV1": {"f:spec": {"f:nodeName": {}}}}]},
            "spec": {"containers": [], "nodeName": "node-1"},
        });
        let facts = PodFacts::of(serde_json::from_value(pod).unwrap());
        assert!(facts.created_with_node && facts.node.as_deref() == Some("node-1"));
    }
}
