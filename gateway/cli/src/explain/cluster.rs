//! Queries the apiserver for the pod and related objects.

use std::time::Duration;

use extender_gateway_api::explain::pod::{
    ClusterView, ExplainedPod, PodFacts, PodState, ShownCondition, similar,
};
use futures_util::future::OptionFuture;
use jiff::Timestamp;
use k8s_openapi::{
    api::core::v1::{Node, Pod, PodCondition},
    apimachinery::pkg::apis::meta::v1::ManagedFieldsEntry,
};
use kube::{Api, Client, api::ListParams};
use tokio::{join, time::timeout};

use crate::apiserver::{ClusterAccess, error_text};

/// The timeout of all queries.
const TIMEOUT: Duration = Duration::from_secs(5);
/// The timeout of optional queries.
const OPTIONAL_TIMEOUT: Duration = Duration::from_secs(2);
/// How many names of a namespace are compared.
const MAX_COMPARED: u32 = 5000;

/// Queries the pod and the nodes.
pub(super) async fn query(access: &ClusterAccess, target: &ExplainedPod) -> ClusterView {
    let cluster = match access {
        Ok(cluster) => cluster,
        Err(why) => return ClusterView::not_queried(why),
    };
    let nodes: Api<Node> = Api::all(cluster.client.clone());
    let exists: OptionFuture<_> = target.node.as_ref().map(|node| nodes.get_metadata_opt(node)).into();
    let count = timeout(OPTIONAL_TIMEOUT, count(&nodes));
    match timeout(TIMEOUT, async { join!(pod(&cluster.client, target), count, exists) }).await {
        Ok((pod, count, node)) => ClusterView {
            pod,
            cluster_nodes: count.ok().flatten(),
            node_exists: node.and_then(Result::ok).map(|node| node.is_some()),
        },
        Err(_) => ClusterView::not_queried("no response within 5 s"),
    }
}

async fn pod(client: &Client, target: &ExplainedPod) -> PodState {
    let pods: Api<Pod> = Api::namespaced(client.clone(), &target.namespace);
    match pods.get_opt(&target.name).await {
        Ok(Some(pod)) => PodState::There(Box::new(facts(pod))),
        Ok(None) => {
            let hints =
                async { join!(similar_pods(&pods, &target.name), namespaces_with(client, &target.name)) };
            let (near, elsewhere) = timeout(OPTIONAL_TIMEOUT, hints).await.unwrap_or_default();
            PodState::Gone { near, elsewhere }
        }
        Err(error) => PodState::NotAsked { why: error_text(error) },
    }
}

/// Names similar to this one, the most similar first; none if pods cannot be listed.
async fn similar_pods(pods: &Api<Pod>, name: &str) -> Vec<String> {
    let listed = pods.list_metadata(&ListParams::default().limit(MAX_COMPARED)).await;
    similar(name, listed.into_iter().flatten().filter_map(|pod| pod.metadata.name).collect())
}

/// The namespaces that have a pod with this name; none if pods cannot be listed.
async fn namespaces_with(client: &Client, name: &str) -> Vec<String> {
    let pods: Api<Pod> = Api::all(client.clone());
    let params = ListParams::default().fields(&format!("metadata.name={name}")).limit(MAX_COMPARED);
    let listed = pods.list_metadata(&params).await;
    listed.into_iter().flatten().filter_map(|pod| pod.metadata.namespace).collect()
}

/// The number of nodes, from a list with one item and its count of remaining items.
async fn count(nodes: &Api<Node>) -> Option<u64> {
    let listed = nodes.list_metadata(&ListParams::default().limit(1)).await.ok()?;
    let rest = listed.metadata.remaining_item_count.unwrap_or_default();
    Some(listed.items.len() as u64 + u64::try_from(rest).ok()?)
}

fn facts(pod: Pod) -> PodFacts {
    let (metadata, spec) = (pod.metadata, pod.spec.unwrap_or_default());
    let status = pod.status.unwrap_or_default();
    let managed = metadata.managed_fields.unwrap_or_default();
    let conditions = status.conditions.into_iter().flatten();
    let scheduled = conditions.into_iter().find(|condition| condition.type_ == "PodScheduled");
    PodFacts {
        uid: metadata.uid.unwrap_or_default(),
        created: metadata.creation_timestamp.map_or(Timestamp::UNIX_EPOCH, |time| time.0),
        scheduler_name: spec.scheduler_name.unwrap_or_default(),
        node: spec.node_name.filter(|node| !node.is_empty()),
        // A Binding sets the field without an entry in the managed fields.
        created_with_node: managed.iter().any(|entry| owns(entry, "/f:spec/f:nodeName")),
        nominated_node: status.nominated_node_name.filter(|node| !node.is_empty()),
        phase: status.phase.unwrap_or_default(),
        scheduled: scheduled.map(|condition| shown_condition(condition, &managed)),
    }
}

/// The condition's own time is that of its last change between True and False, which a repeated rejection does
/// not update. The pod's managed fields have the time at which its text changed.
fn shown_condition(condition: PodCondition, managed: &[ManagedFieldsEntry]) -> ShownCondition {
    let field = r#"/f:status/f:conditions/k:{"type":"PodScheduled"}"#;
    let written = managed.iter().filter(|entry| owns(entry, field)).filter_map(|entry| entry.time.as_ref());
    ShownCondition {
        status: condition.status,
        reason: condition.reason.unwrap_or_default(),
        message: condition.message.unwrap_or_default(),
        time: written.chain(&condition.last_transition_time).map(|time| time.0).max(),
    }
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
        let facts = facts(serde_json::from_value(pod).unwrap());
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
        let facts = facts(serde_json::from_value(pod).unwrap());
        assert!(facts.created_with_node && facts.node.as_deref() == Some("node-1"));
    }
}
