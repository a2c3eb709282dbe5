//! What a pod requests from a node, as kube-scheduler counts it: from its spec, and from the part of the kubelet's
//! status about in-place resizes.

use std::collections::BTreeMap;

use extender_policy_api::v1beta1::{NonZero, Resources};
use serde::Deserialize;

use super::{
    amounts::{Amounts, Requirements, ResourceList},
    json::{List, Text},
    quantity::Quantity,
    spec::{Container, PodSpec},
};

/// The resources that one pod takes from its node. Mirrors `fwk.PodResource` of kube-scheduler.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Share {
    /// Effective requests; `pods` is 1.
    pub requested: Resources,
    /// The same with defaults for containers that request nothing.
    pub nonzero: NonZero,
}

impl PodSpec<'_> {
    /// Whether a container or an init container names the resource, whatever the amount. Mirrors
    /// `hasManagedResources` of kube-scheduler's extender.
    pub(super) fn names_resource(&self, resource: &str) -> bool {
        let mut containers = self.containers.iter().chain(self.init_containers.iter());
        containers.any(|container| {
            let Requirements { requests, limits } = &container.resources;
            requests.iter().chain(limits.iter()).any(|(name, _)| name == resource)
        })
    }

    pub(super) fn amounts(&self) -> usize {
        let containers = self.containers.iter().chain(self.init_containers.iter());
        let all = containers.map(|container| &container.resources).chain([&self.resources]);
        all.map(|list| list.requests.len() + list.limits.len()).sum::<usize>() + self.overhead.len()
    }

    /// The requests of the pod before it is placed. `requested` mirrors `PodRequests` of
    /// k8s.io/component-helpers/resource 1.37; `nonzero` mirrors `calculatePodResourceRequest` of the plugins
    /// `NodeResourcesFit` and `NodeResourcesBalancedAllocation`. `pods` is 1, because a pod takes one of the node's
    /// pod slots.
    pub(super) fn wanted(&self) -> Share {
        let requested = placed(&self.total(&Amounts::default(), None));
        Share { requested, nonzero: self.total(&defaults(), None).nonzero() }
    }

    /// The resources that the pod takes from its node. Mirrors `PodInfo.CalculateResource` of kube-scheduler:
    /// unlike in [`PodSpec::wanted`], with pod-level requests there are no defaults for resources that they, or any
    /// container, name.
    pub(super) fn share(&self, status: &PodStatus<'_>) -> Share {
        let total = self.total(&Amounts::default(), Some(status));
        let mut missing = defaults();
        if self.resources.requests.iter().any(|(name, _)| counts_for_the_pod(name)) {
            missing.by_name.retain(|name, _| !total.by_name.contains_key(name));
        }
        Share { requested: placed(&total), nonzero: self.total(&missing, Some(status)).nonzero() }
    }

    /// Mirrors `PodRequests`; `missing` are the defaults for resources that a container does not name. The status
    /// counts for what the pod takes from its node, not for where it is placed.
    fn total<'s>(&'s self, missing: &Amounts<'s>, status: Option<&'s PodStatus<'_>>) -> Amounts<'s> {
        let reports = status.map(PodStatus::reports);
        let mut total = match &reports {
            None => self.of_containers(missing, wanted),
            Some(reports) => self.on_node(missing, reports),
        };
        if self.resources.requests.iter().any(|(name, _)| counts_for_the_pod(name)) {
            let own = self.resources.requests();
            let own = match &reports {
                None => own,
                Some(reports) => reports.of_pod(own),
            };
            total.by_name.extend(own.by_name.into_iter().filter(|(name, _)| counts_for_the_pod(name)));
        }
        total.add(&Amounts::of(&self.overhead));
        total
    }

    /// The maximum of requested, allocated and running resources of all containers: until a resize is done, its outcome
    /// is open. A resize that is infeasible on the node is not counted. Mirrors `AggregateContainerRequests` with the
    /// status.
    fn on_node<'s>(&'s self, missing: &Amounts<'s>, reports: &Reports<'s, '_>) -> Amounts<'s> {
        let mut most = if reports.is_resize_infeasible {
            Amounts::default()
        } else {
            self.of_containers(missing, wanted)
        };
        if let Some([allocated, running]) = reports.of_all_containers() {
            most.raise_to(&allocated);
            most.raise_to(&running);
        } else {
            most.raise_to(&self.of_containers(missing, |container| reports.allocated(container)));
            most.raise_to(&self.of_containers(missing, |container| reports.running(container)));
        }
        most
    }

    /// Mirrors `aggregateContainerResourcesByFn`: what runs concurrently is summed; while an init container runs, only
    /// the sidecars before it also run.
    fn of_containers<'s>(
        &'s self,
        missing: &Amounts<'s>,
        amounts: impl Fn(&'s Container<'_>) -> Amounts<'s>,
    ) -> Amounts<'s> {
        let mut total = Amounts::default();
        for container in self.containers.iter() {
            total.add(&amounts(container).or(missing));
        }
        let mut sidecars = Amounts::default();
        let mut peak = Amounts::default();
        for container in self.init_containers.iter() {
            let mut amounts = amounts(container).or(missing);
            if container.is_sidecar() {
                // It keeps running besides everything after it; as part of the total, it needs no separate peak.
                total.add(&amounts);
                sidecars.add(&amounts);
            } else {
                // What the sidecars alone take is part of the total, which is no less, since no amount is negative.
                // Repeating it for each init container would multiply the work.
                amounts.add_to_named(&sidecars);
                peak.raise_to(&amounts);
            }
        }
        total.raise_to(&peak);
        total
    }
}

/// The requests in the spec.
fn wanted<'s>(container: &'s Container<'_>) -> Amounts<'s> {
    container.resources.requests()
}

fn placed(total: &Amounts<'_>) -> Resources {
    Resources { pods: 1, ..total.resources() }
}

/// Mirrors `DefaultMilliCPURequest` and `DefaultMemoryRequest` of kube-scheduler.
fn defaults() -> Amounts<'static> {
    let by_name = [("cpu", Quantity::of_milli(100)), ("memory", Quantity::of(200 << 20))];
    Amounts { by_name: by_name.into() }
}

/// Mirrors `IsSupportedPodLevelResource`.
fn counts_for_the_pod(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory") || resource.starts_with("hugepages-")
}

/// Mirrors `corev1.PodStatus`, the fields that are read.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct PodStatus<'a> {
    #[serde(borrow)]
    phase: Text<'a>,
    nominated_node_name: Text<'a>,
    conditions: List<PodCondition<'a>>,
    container_statuses: List<ContainerStatus<'a>>,
    init_container_statuses: List<ContainerStatus<'a>>,
    resources: Option<Running<'a>>,
    allocated_resources: Option<ResourceList<'a>>,
}

/// Mirrors `corev1.PodCondition`, the fields that are read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct PodCondition<'a> {
    #[serde(borrow)]
    r#type: Text<'a>,
    reason: Text<'a>,
}

/// Mirrors `corev1.ContainerStatus`, the fields that are read.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ContainerStatus<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    /// The resources that the container runs with; absent until it has started.
    resources: Option<Running<'a>>,
    allocated_resources: Option<ResourceList<'a>>,
}

/// Mirrors `corev1.ResourceRequirements` in a status, where absent requests are not the same as none.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Running<'a> {
    #[serde(borrow)]
    requests: Option<ResourceList<'a>>,
}

impl<'a> PodStatus<'a> {
    /// Whether it says anything about scheduling.
    pub(super) fn has_been_tried(&self) -> bool {
        self.conditions.iter().any(|condition| &*condition.r#type == "PodScheduled")
    }

    /// Whether the pod no longer uses resources. Mirrors the selector of `newPodInformer` of kube-scheduler.
    pub(super) fn has_ended(&self) -> bool {
        matches!(&*self.phase, "Succeeded" | "Failed")
    }

    pub(super) fn nominated_node_name(&self) -> &str {
        &self.nominated_node_name
    }

    pub(super) fn reports(&self) -> Reports<'_, 'a> {
        let all = self.container_statuses.iter().chain(self.init_container_statuses.iter());
        Reports {
            // The first of equal names counts, as in `findContainerStatus`.
            containers: all.rev().map(|report| (&*report.name, report)).collect(),
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

impl<'s> Reports<'s, '_> {
    /// What is allocated to a container. Mirrors `containerAllocatedRequests`.
    fn allocated(&self, container: &'s Container<'_>) -> Amounts<'s> {
        let report = self.containers.get(&*container.name);
        let allocated = report.and_then(|report| report.allocated_resources.as_ref());
        allocated.map_or_else(|| self.unreported(container), Amounts::of)
    }

    /// What a container runs with. Mirrors `containerActuatedRequests`.
    fn running(&self, container: &'s Container<'_>) -> Amounts<'s> {
        let report = self.containers.get(&*container.name);
        let running = report.and_then(|report| report.resources.as_ref()?.requests.as_ref());
        running.map_or_else(|| self.allocated(container), Amounts::of)
    }

    fn unreported(&self, container: &'s Container<'_>) -> Amounts<'s> {
        if self.is_resize_infeasible { Amounts::default() } else { wanted(container) }
    }

    /// What is allocated to all containers together, and what they run with; `None` if only containers report.
    fn of_all_containers(&self) -> Option<[Amounts<'s>; 2]> {
        let allocated = self.status.allocated_resources.as_ref()?;
        let running = self.status.resources.as_ref()?.requests.as_ref()?;
        Some([Amounts::of(allocated), Amounts::of(running)])
    }

    /// The resources that count for a pod with these pod-level requests. Mirrors `effectivePodLevelResources`.
    fn of_pod(&self, wanted: Amounts<'s>) -> Amounts<'s> {
        let Some(running) = &self.status.resources else { return wanted };
        let mut most = if self.is_resize_infeasible { Amounts::default() } else { wanted };
        for list in [&running.requests, &self.status.allocated_resources].into_iter().flatten() {
            most.raise_to(&Amounts::of(list));
        }
        most
    }
}

#[cfg(test)]
mod tests;
