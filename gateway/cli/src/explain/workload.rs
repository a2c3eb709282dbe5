//! The pods of a workload that wait for a node. They are found by their owners, so that only pods must be readable.

use std::time::Duration;

use extender_gateway_api::explain::pod::WaitingPods;
use k8s_openapi::{
    api::core::v1::Pod,
    apimachinery::pkg::apis::meta::v1::{ObjectMeta, Time},
};
use kube::{Api, api::ListParams};
use tokio::time::timeout;

use crate::{
    apiserver::{ClusterAccess, error_text},
    names::{Workload, WorkloadKind},
    output::Failure,
};

/// The timeout of the list.
const TIMEOUT: Duration = Duration::from_secs(5);
/// How many pods without a node are looked at in a namespace.
const MAX_PODS: u32 = 5000;
/// The label by which the `ReplicaSet` of a Deployment is named.
const TEMPLATE_HASH: &str = "pod-template-hash";

/// The pods of a workload that wait for a node.
///
/// # Errors
/// No pod of it waits, or the apiserver does not say.
pub(super) async fn waiting(
    access: &ClusterAccess,
    namespace: &str,
    workload: &Workload,
) -> Result<WaitingPods, Failure> {
    let unknown = |why: &str| {
        Failure::Unknown(format!(
            "cannot find the pods of {workload} in namespace {namespace}: {why}; name a pod instead"
        ))
    };
    let cluster = access.as_ref().map_err(|why| unknown(why))?;
    let pods: Api<Pod> = Api::namespaced(cluster.client.clone(), namespace);
    let params = ListParams::default().fields("spec.nodeName=").limit(MAX_PODS);
    let listed = timeout(TIMEOUT, pods.list_metadata(&params)).await;
    let listed = listed.map_err(|_| unknown("no response from the apiserver within 5 s"))?;
    let listed = listed.map_err(|error| unknown(&error_text(error)))?;
    let mut names: Vec<(Option<Time>, String)> = listed
        .items
        .into_iter()
        .filter(|pod| owns(workload, &pod.metadata))
        .filter_map(|pod| Some((pod.metadata.creation_timestamp, pod.metadata.name?)))
        .collect();
    names.sort();
    let names: Vec<String> = names.into_iter().map(|(_, name)| name).collect();
    if names.is_empty() {
        return Err(Failure::Unknown(format!(
            "no pod of {workload} in namespace {namespace} waits for a node; name one of its pods to see where it went and why"
        )));
    }
    Ok(WaitingPods { workload: workload.to_string(), names })
}

/// Whether the workload, or the `ReplicaSet` of the Deployment, controls this pod.
fn owns(workload: &Workload, pod: &ObjectMeta) -> bool {
    let Workload { kind, name } = workload;
    let controllers = pod.owner_references.iter().flatten().filter(|owner| owner.controller == Some(true));
    controllers.into_iter().any(|owner| match kind {
        WorkloadKind::Deployment => {
            let hash = pod.labels.as_ref().and_then(|labels| labels.get(TEMPLATE_HASH));
            owner.kind == "ReplicaSet" && hash.is_some_and(|hash| owner.name == format!("{name}-{hash}"))
        }
        _ => owner.kind == kind.as_str() && owner.name == *name,
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;
    use crate::names::{Subject, subject};

    #[test]
    fn pods_belong_to_the_workload_that_controls_them() {
        let pod = |kind: &str, owner: &str, controller: bool| -> ObjectMeta {
            serde_json::from_value(json!({
                "labels": {"pod-template-hash": "7d9"},
                "ownerReferences": [
                    {"apiVersion": "v1", "kind": kind, "name": owner, "uid": "u", "controller": controller},
                ],
            }))
            .unwrap()
        };
        for (text, pod, expected) in [
            ("deploy/web", pod("ReplicaSet", "web-7d9", true), true),
            ("deploy/web", pod("ReplicaSet", "web-7d9", false), false),
            // Of the Deployment web-7d9, or of a ReplicaSet without one.
            ("deploy/web", pod("ReplicaSet", "web-7d9-7d9", true), false),
            ("deploy/web", pod("ReplicaSet", "web-8c2", true), false),
            ("deploy/web", pod("StatefulSet", "web-7d9", true), false),
            ("rs/web-7d9", pod("ReplicaSet", "web-7d9", true), true),
            ("sts/db", pod("StatefulSet", "db", true), true),
            ("job/db", pod("StatefulSet", "db", true), false),
        ] {
            let Ok(Subject::Workload(workload)) = subject(text) else { panic!("{text}") };
            assert_eq!(owns(&workload, &pod), expected, "{text} {:?}", pod.owner_references);
        }
        let Ok(Subject::Workload(workload)) = subject("deploy/web") else { panic!() };
        assert!(!owns(&workload, &ObjectMeta::default()));
    }
}
