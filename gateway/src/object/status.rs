//! What the kubelet reports about a pod, as far as it decides what the pod takes from its node: whether it has
//! ended, and how far a resize in place has come.

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
    /// What the pod as a whole runs with.
    #[serde(borrow)]
    resources: Option<Requirements<'a>>,
    /// What the kubelet has set aside for the pod as a whole.
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
    /// What the container runs with; absent while it has not started.
    #[serde(borrow)]
    resources: Option<Requirements<'a>>,
    /// What the kubelet has set aside for it.
    #[serde(borrow)]
    allocated_resources: ResourceList<'a>,
}

impl<'a> PodStatus<'a> {
    /// Whether the pod no longer holds resources. Mirrors the selector of `newPodInformer` of kube-scheduler.
    pub(super) fn has_ended(&self) -> bool {
        matches!(&*self.phase, "Succeeded" | "Failed")
    }

    /// The node on which kube-scheduler tries the pod first; empty when there is none.
    pub(super) fn nominated_node_name(&self) -> &str {
        &self.nominated_node_name
    }

    /// What is reported about the containers and the pod as a whole.
    pub(super) fn reports(&self) -> Reports<'_, 'a> {
        let all = self.container_statuses.iter().chain(self.init_container_statuses.iter());
        Reports {
            // The last of equal names counts, as in the map that Kubernetes makes of them.
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

/// A status, looked through once for all containers of the pod.
#[derive(Debug)]
pub(super) struct Reports<'s, 'a> {
    containers: BTreeMap<&'s str, &'s ContainerStatus<'a>>,
    status: &'s PodStatus<'a>,
    is_resize_infeasible: bool,
}

impl<'s, 'a> Reports<'s, 'a> {
    /// What a container that asks for so much counts with.
    pub(super) fn of_container(&self, name: &str, wanted: Amounts<'s>) -> Amounts<'s> {
        match self.containers.get(name) {
            Some(ContainerStatus { resources: Some(running), allocated_resources, .. }) => {
                self.while_resized(wanted, running, allocated_resources)
            }
            _ => wanted,
        }
    }

    /// What a pod that asks for so much as a whole counts with; `None` when nothing is reported about that.
    pub(super) fn of_pod(&self, wanted: Amounts<'s>) -> Option<Amounts<'s>> {
        let running = self.status.resources.as_ref()?;
        Some(self.while_resized(wanted, running, &self.status.allocated_resources))
    }

    /// The most of what is wanted, running and set aside: until a resize is done, its outcome is open. One that
    /// the node cannot grant will not happen. Mirrors `determineEffectiveRequests`.
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
