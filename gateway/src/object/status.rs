//! The part of the kubelet's status that determines what the pod takes from its node: whether the pod has ended,
//! and the progress of an in-place resize.

use std::collections::BTreeMap;

use serde::Deserialize;

use super::{
    amounts::{Amounts, Requirements, ResourceList},
    json::{List, Text},
};

/// Mirrors `corev1.PodStatus`, the fields that are read.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PodStatus<'a> {
    #[serde(borrow)]
    phase: Text<'a>,
    #[serde(borrow)]
    nominated_node_name: Text<'a>,
    #[serde(borrow)]
    conditions: List<PodCondition<'a>>,
    #[serde(borrow)]
    container_statuses: List<ContainerStatus<'a>>,
    #[serde(borrow)]
    init_container_statuses: List<ContainerStatus<'a>>,
    /// The resources that the whole pod runs with.
    #[serde(borrow)]
    resources: Option<Requirements<'a>>,
    /// The resources that the kubelet has allocated for the whole pod.
    #[serde(borrow)]
    allocated_resources: ResourceList<'a>,
}

/// Mirrors `corev1.PodCondition`, the fields that are read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PodCondition<'a> {
    #[serde(borrow)]
    r#type: Text<'a>,
    #[serde(borrow)]
    reason: Text<'a>,
}

/// Mirrors `corev1.ContainerStatus`, the fields that are read.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ContainerStatus<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    /// The resources that the container runs with; absent until it has started.
    #[serde(borrow)]
    resources: Option<Requirements<'a>>,
    /// The resources that the kubelet has allocated for it.
    #[serde(borrow)]
    allocated_resources: ResourceList<'a>,
}

impl<'a> PodStatus<'a> {
    /// Whether the pod no longer uses resources. Mirrors the selector of `newPodInformer` of kube-scheduler.
    pub(super) fn has_ended(&self) -> bool {
        matches!(&*self.phase, "Succeeded" | "Failed")
    }

    /// The node that kube-scheduler tries first; empty if it is not set.
    pub(super) fn nominated_node_name(&self) -> &str {
        &self.nominated_node_name
    }

    /// The reports about the containers and the whole pod.
    pub(super) fn reports(&self) -> Reports<'_, 'a> {
        let all = self.container_statuses.iter().chain(self.init_container_statuses.iter());
        Reports {
            // The last of equal names counts, as in the map in Kubernetes.
            containers: all.map(|report| (&*report.name, report)).collect(),
            status: self,
            is_resize_infeasible: self.is_resize_infeasible(),
        }
    }

    /// Mirrors `IsPodResizeInfeasible`.
    fn is_resize_infeasible(&self) -> bool {
        let pending = self.conditions.iter().find(|condition| &*condition.r#type == "PodResizePending");
        pending.is_some_and(|condition| &*condition.reason == "Infeasible")
    }
}

/// A status, indexed once for all containers of the pod.
#[derive(Debug)]
pub(super) struct Reports<'s, 'a> {
    containers: BTreeMap<&'s str, &'s ContainerStatus<'a>>,
    status: &'s PodStatus<'a>,
    is_resize_infeasible: bool,
}

impl<'s, 'a> Reports<'s, 'a> {
    /// The resources that count for a container with these requests.
    pub(super) fn of_container(&self, name: &str, wanted: Amounts<'s>) -> Amounts<'s> {
        match self.containers.get(name) {
            Some(ContainerStatus { resources: Some(running), allocated_resources, .. }) => {
                self.while_resized(wanted, running, allocated_resources)
            }
            _ => wanted,
        }
    }

    /// The resources that count for a pod with these pod-level requests; `None` if nothing is reported about them.
    pub(super) fn of_pod(&self, wanted: Amounts<'s>) -> Option<Amounts<'s>> {
        let running = self.status.resources.as_ref()?;
        Some(self.while_resized(wanted, running, &self.status.allocated_resources))
    }

    /// The maximum of requested, running and allocated resources: until a resize is done, its outcome is open. A
    /// resize that is infeasible on the node is not counted. Mirrors `determineEffectiveRequests`.
    fn while_resized(
        &self,
        wanted: Amounts<'s>,
        running: &'s Requirements<'a>,
        allocated: &'s ResourceList<'a>,
    ) -> Amounts<'s> {
        let mut most = if self.is_resize_infeasible { Amounts::default() } else { wanted };
        most.raise_to(&running.requests());
        most.raise_to(&Amounts::of(allocated));
        most
    }
}
