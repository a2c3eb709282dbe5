//! The spec of a pod as JSON: the fields that facts and requests need, borrowed from it.

use serde::Deserialize;

use super::{
    affinity::Affinity,
    amounts::{Requirements, ResourceList},
    json::{List, Map, Text, nullable, object},
    pod_affinity::Spread,
    volume::Volume,
};

/// Mirrors `corev1.PodSpec`, the fields that are read.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PodSpec<'a> {
    #[serde(borrow)]
    pub(super) containers: List<Container<'a>>,
    /// Includes sidecars: init containers that are restarted.
    pub(super) init_containers: List<Container<'a>>,
    /// For the pod as a whole, since 1.34.
    #[serde(deserialize_with = "object")]
    pub(super) resources: Requirements<'a>,
    /// The overhead of the runtime class.
    pub(super) overhead: ResourceList<'a>,
    /// Set from the class by the apiserver; absent on a pod that never passed one.
    #[serde(deserialize_with = "nullable")]
    pub(super) priority: i32,
    pub(super) priority_class_name: Text<'a>,
    pub(super) preemption_policy: Text<'a>,
    pub(super) tolerations: List<Tolerated<'a>>,
    pub(super) node_selector: Map<'a, Text<'a>>,
    #[serde(deserialize_with = "object")]
    pub(super) affinity: Affinity<'a>,
    pub(super) volumes: List<Volume<'a>>,
    pub(super) scheduler_name: Text<'a>,
    pub(super) node_name: Text<'a>,
    #[serde(deserialize_with = "object")]
    pub(super) scheduling_group: SchedulingGroup<'a>,
    pub(super) topology_spread_constraints: List<Spread<'a>>,
    pub(super) resource_claims: List<Claimed<'a>>,
    pub(super) runtime_class_name: Text<'a>,
    pub(super) service_account_name: Text<'a>,
}

/// Mirrors `corev1.PodSchedulingGroup`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct SchedulingGroup<'a> {
    #[serde(borrow)]
    pub(super) pod_group_name: Text<'a>,
}

/// Mirrors `corev1.Toleration`. Operators are passed on unchanged: clusters gain new ones.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Tolerated<'a> {
    #[serde(borrow)]
    pub(super) key: Text<'a>,
    pub(super) operator: Text<'a>,
    pub(super) value: Text<'a>,
    pub(super) effect: Text<'a>,
    /// 0 is not the same as absent: evicted immediately, or never.
    pub(super) toleration_seconds: Option<i64>,
}

/// Mirrors `corev1.PodResourceClaim`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Claimed<'a> {
    #[serde(borrow)]
    pub(super) name: Text<'a>,
    pub(super) resource_claim_name: Text<'a>,
    pub(super) resource_claim_template_name: Text<'a>,
}

/// Mirrors `corev1.Container`, the fields that are read.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Container<'a> {
    #[serde(borrow)]
    pub(super) name: Text<'a>,
    #[serde(deserialize_with = "object")]
    pub(super) resources: Requirements<'a>,
    pub(super) restart_policy: Text<'a>,
    pub(super) image: Text<'a>,
    pub(super) ports: List<Port<'a>>,
}

/// Mirrors `corev1.ContainerPort`, the fields that are read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Port<'a> {
    #[serde(rename = "hostPort", deserialize_with = "nullable")]
    pub(super) of_host: i32,
    #[serde(borrow, rename = "hostIP")]
    pub(super) host_ip: Text<'a>,
    pub(super) protocol: Text<'a>,
}

impl<'a> PodSpec<'a> {
    /// All containers, init containers first, and whether each is one of these.
    pub(super) fn all_containers(&self) -> impl Iterator<Item = (&Container<'a>, bool)> {
        let init = self.init_containers.iter().map(|container| (container, true));
        init.chain(self.containers.iter().map(|container| (container, false)))
    }
}

impl Container<'_> {
    /// An init container that keeps running besides the others.
    pub(super) fn is_sidecar(&self) -> bool {
        &*self.restart_policy == "Always"
    }
}
