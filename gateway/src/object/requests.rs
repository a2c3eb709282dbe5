//! What a pod requests from a node, as kube-scheduler counts it.

use extender_policy_api::v1alpha1::{NonZero, Resources};
use serde::Deserialize;

use super::{
    amounts::{Amounts, Requirements, ResourceList},
    json::{List, Text, object},
    quantity::Quantity,
    status::{PodStatus, Reports},
};

/// The fields of `corev1.PodSpec` with the pod's requests, which are parsed as part of the spec.
#[derive(Debug, Clone, Copy)]
pub(super) struct Demand<'s, 'a> {
    pub(super) containers: &'s List<Container<'a>>,
    pub(super) init_containers: &'s List<Container<'a>>,
    /// `spec.resources`
    pub(super) pod_level: &'s Requirements<'a>,
    pub(super) overhead: &'s ResourceList<'a>,
    /// The kubelet's report, if it counts: kube-scheduler ignores it when it places a pod, and uses it when it
    /// counts what the pod takes from its node.
    pub(super) status: Option<&'s PodStatus<'a>>,
}

/// Mirrors `corev1.Container`, the fields that are read.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Container<'a> {
    #[serde(borrow)]
    name: Text<'a>,
    #[serde(borrow, deserialize_with = "object")]
    resources: Requirements<'a>,
    #[serde(borrow)]
    restart_policy: Text<'a>,
}

impl Container<'_> {
    /// An init container that keeps running besides the others.
    fn is_sidecar(&self) -> bool {
        &*self.restart_policy == "Always"
    }
}

/// The resources that one pod takes from its node. Mirrors `fwk.PodResource` of kube-scheduler.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Share {
    /// Effective requests; `pods` is 1.
    pub requested: Resources,
    /// The same with defaults for containers that request nothing.
    pub nonzero: NonZero,
}

impl<'s> Demand<'s, '_> {
    /// Whether a container or an init container names the resource, whatever the amount. Mirrors
    /// `hasManagedResources` of kube-scheduler's extender.
    pub(super) fn names(&self, resource: &str) -> bool {
        let mut containers = self.containers.iter().chain(self.init_containers.iter());
        containers.any(|container| {
            let Requirements { requests, limits } = &container.resources;
            requests.iter().chain(limits.iter()).any(|(name, _)| name == resource)
        })
    }

    /// The number of amounts in all lists.
    pub(super) fn entries(&self) -> usize {
        let containers = self.containers.iter().chain(self.init_containers.iter());
        let all = containers.map(|container| &container.resources).chain([self.pod_level]);
        all.map(|list| list.requests.len() + list.limits.len()).sum::<usize>() + self.overhead.len()
    }

    /// The requests of the pod before it is placed. `requested` mirrors `PodRequests` of
    /// k8s.io/component-helpers/resource 1.36; `nonzero` mirrors `calculatePodResourceRequest` of the plugins
    /// `NodeResourcesFit` and `NodeResourcesBalancedAllocation`. `pods` is 1, because a pod takes one of the node's
    /// pod slots.
    pub(super) fn wanted(&self) -> Share {
        let requested = placed(&self.total(&Amounts::default()));
        Share { requested, nonzero: self.total(&defaults()).nonzero() }
    }

    /// The resources that the pod takes from its node. Mirrors `PodInfo.CalculateResource` of kube-scheduler:
    /// unlike in [`Demand::wanted`], with pod-level requests there are no defaults for resources that they, or any
    /// container, name.
    pub(super) fn share(&self) -> Share {
        let total = self.total(&Amounts::default());
        let mut missing = defaults();
        if self.pod_level.requests.iter().any(|(name, _)| counts_for_the_pod(name)) {
            missing.retain(|name| !total.names(name));
        }
        Share { requested: placed(&total), nonzero: self.total(&missing).nonzero() }
    }

    /// Mirrors `PodRequests`; `missing` are the defaults for resources that a container does not name.
    fn total(&self, missing: &Amounts<'s>) -> Amounts<'s> {
        let reports = self.status.map(PodStatus::reports);
        let mut total = self.of_containers(missing, reports.as_ref());
        let wanted = self.pod_level.requests();
        let effective = reports.and_then(|reports| reports.of_pod(wanted.clone()));
        for (name, quantity) in wanted.iter().filter(|(name, _)| counts_for_the_pod(name)) {
            total.set(name, effective.as_ref().map_or(quantity, |effective| effective.amount(name)));
        }
        total.add(&Amounts::of(self.overhead));
        total
    }

    /// Mirrors `AggregateContainerRequests`: what runs concurrently is summed; while an init container runs, only
    /// the sidecars before it also run.
    fn of_containers(&self, missing: &Amounts<'s>, reports: Option<&Reports<'s, '_>>) -> Amounts<'s> {
        let running = |container: &'s Container<'_>| running(container, reports).or(missing);
        let mut total = Amounts::default();
        for container in self.containers.iter() {
            total.add(&running(container));
        }
        let mut sidecars = Amounts::default();
        let mut peak = Amounts::default();
        for container in self.init_containers.iter() {
            if container.is_sidecar() {
                // It keeps running besides everything after it; as part of the total, it needs no separate peak.
                let running = running(container);
                total.add(&running);
                sidecars.add(&running);
            } else {
                let mut running = container.resources.requests().or(missing);
                // What the sidecars alone take is part of the total, which is no less, since no amount is negative.
                // Repeating it for each init container would multiply the work.
                running.add_to_named(&sidecars);
                peak.raise_to(&running);
            }
        }
        total.raise_to(&peak);
        total
    }
}

/// The resources that a container takes, which may be resized while it runs.
fn running<'s>(container: &'s Container<'_>, reports: Option<&Reports<'s, '_>>) -> Amounts<'s> {
    let wanted = container.resources.requests();
    match reports {
        Some(reports) => reports.of_container(&container.name, wanted),
        None => wanted,
    }
}

fn placed(total: &Amounts<'_>) -> Resources {
    Resources { pods: 1, ..total.resources() }
}

/// Mirrors `DefaultMilliCPURequest` and `DefaultMemoryRequest` of kube-scheduler.
fn defaults() -> Amounts<'static> {
    let mut defaults = Amounts::default();
    defaults.set("cpu", Quantity::of_milli(100));
    defaults.set("memory", Quantity::of(200 << 20));
    defaults
}

/// Mirrors `IsSupportedPodLevelResource`.
fn counts_for_the_pod(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory") || resource.starts_with("hugepages-")
}

#[cfg(test)]
mod tests;
