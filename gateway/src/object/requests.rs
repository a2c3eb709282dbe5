//! What a pod needs from a node, as kube-scheduler counts it.

use extender_policy_api::v1alpha1::Resources;
use serde::Deserialize;

use super::{
    amounts::{Amounts, ResourceList},
    json::{List, Text, object},
};

/// The fields of `corev1.PodSpec` that say what the pod needs; they are read as part of the spec.
#[derive(Debug, Clone, Copy)]
pub(super) struct Demand<'s, 'a> {
    pub(super) containers: &'s List<Container<'a>>,
    pub(super) init_containers: &'s List<Container<'a>>,
    /// `spec.resources`
    pub(super) pod_level: &'s Requirements<'a>,
    pub(super) overhead: &'s ResourceList<'a>,
}

/// Mirrors `corev1.Container`, the fields that are read.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Container<'a> {
    #[serde(borrow, deserialize_with = "object")]
    resources: Requirements<'a>,
    #[serde(borrow)]
    restart_policy: Text<'a>,
}

/// Mirrors `corev1.ResourceRequirements`, the fields that are read.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Requirements<'a> {
    #[serde(borrow)]
    requests: ResourceList<'a>,
    #[serde(borrow)]
    limits: ResourceList<'a>,
}

impl Container<'_> {
    /// Not the limits: where requests are missing, the apiserver has filled them in from these.
    fn requests(&self) -> Amounts<'_> {
        Amounts::of(&self.resources.requests)
    }

    /// An init container that keeps running beside the others.
    fn is_sidecar(&self) -> bool {
        &*self.restart_policy == "Always"
    }
}

impl Demand<'_, '_> {
    /// Whether a container or an init container names the resource, whatever the amount. Mirrors
    /// `hasManagedResources` of kube-scheduler's extender.
    pub(super) fn names(&self, resource: &str) -> bool {
        let mut containers = self.containers.iter().chain(self.init_containers.iter());
        containers.any(|container| {
            let Requirements { requests, limits } = &container.resources;
            requests.iter().chain(limits.iter()).any(|(name, _)| name == resource)
        })
    }

    /// Mirrors `PodRequests` of k8s.io/component-helpers/resource 1.36 for a pod that has not been placed:
    /// what a resize left in its status is not looked at. `pods` is 1, because a pod takes one of the
    /// places that a node offers.
    pub(super) fn resources(&self) -> Resources {
        let mut total = self.of_containers();
        for (name, quantity) in self.pod_level.requests.iter().filter(|(name, _)| counts_for_the_pod(name)) {
            total.set(name, *quantity);
        }
        total.add(&Amounts::of(self.overhead));
        Resources { pods: 1, ..total.resources() }
    }

    /// Mirrors `AggregateContainerRequests`: what runs together is summed; while an init container runs, only
    /// the sidecars before it run too.
    fn of_containers(&self) -> Amounts<'_> {
        let mut total = Amounts::default();
        for container in self.containers.iter() {
            total.add(&container.requests());
        }
        let mut sidecars = Amounts::default();
        let mut peak = Amounts::default();
        for container in self.init_containers.iter() {
            let mut running = container.requests();
            if container.is_sidecar() {
                // It runs on beside everything after it; being part of the total, it needs no peak of its own.
                total.add(&running);
                sidecars.add(&running);
            } else {
                running.add(&sidecars);
                peak.raise_to(&running);
            }
        }
        total.raise_to(&peak);
        total
    }
}

/// Mirrors `IsSupportedPodLevelResource`.
fn counts_for_the_pod(resource: &str) -> bool {
    matches!(resource, "cpu" | "memory") || resource.starts_with("hugepages-")
}

#[cfg(test)]
mod tests;
