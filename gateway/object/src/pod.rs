//! Parses a pod's JSON into the contract's identity and facts.

use std::sync::OnceLock;

use extender_gateway_core::interest::Subject;
use extender_policy_api::v1beta1::{self as api, OwnerReference, PodFacts, PodIdentity, PodPart, Toleration};
use serde::Deserialize;

use super::{
    ObjectError,
    json::object,
    limits::{self, MOST_ENTRIES, Origin},
    meta::{Meta, Owner, owned},
    pod_affinity::Spread,
    read,
    requests::{PodStatus, Share},
    spec::{Claimed, Container, PodSpec, Tolerated},
    view::PodFactsView,
    volume::{EPHEMERAL, Volume},
};

/// The name prefix of the volume with the service account's token. The apiserver adds a random suffix for each pod.
const TOKEN_VOLUME: &str = "kube-api-access-";

/// The fields of a pod that the facts need, borrowed from its JSON. Mirrors `corev1.Pod`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ObjectPod<'a> {
    #[serde(borrow, deserialize_with = "object")]
    metadata: Meta<'a>,
    #[serde(deserialize_with = "object")]
    spec: PodSpec<'a>,
    #[serde(deserialize_with = "object")]
    status: PodStatus<'a>,
    /// The sums of the containers' requests, computed once for all views of the pod.
    #[serde(skip)]
    wanted: OnceLock<Share>,
}

/// Parses a pod. All fields are optional, including its name; existing fields must have their type.
pub fn parse(json: &[u8]) -> Result<ObjectPod<'_>, ObjectError> {
    read("Pod", json, Origin::Cluster)
}

/// Parses the pod of a call, like [`parse`].
///
/// # Errors
/// Also if the pod is larger than any in a cluster ([`limits`]).
pub fn offered(json: &[u8]) -> Result<ObjectPod<'_>, ObjectError> {
    limits::check_bytes("Pod", json)?;
    let pod: ObjectPod<'_> = read("Pod", json, Origin::Call)?;
    pod.check_limits()?;
    Ok(pod)
}

impl ObjectPod<'_> {
    fn check_limits(&self) -> Result<(), ObjectError> {
        let Self { metadata, spec, .. } = self;
        metadata.check_names("Pod")?;
        let sums = [
            ("spec.containers[*].resources", spec.amounts()),
            ("spec.affinity.nodeAffinity", spec.affinity.entries()),
            ("spec.affinity.podAffinity", spec.affinity.entries_about_pods()),
            (
                "spec.topologySpreadConstraints",
                spec.topology_spread_constraints.iter().map(Spread::entries).sum(),
            ),
            (
                "spec.containers[*].ports",
                spec.all_containers().map(|(container, _)| container.ports.len()).sum(),
            ),
        ];
        match sums.into_iter().find(|(_, entries)| *entries > MOST_ENTRIES) {
            None => Ok(()),
            Some((path, entries)) => {
                let name = self.name();
                let problem =
                    format!("{name} has {entries} entries, and the gateway accepts at most {MOST_ENTRIES}");
                Err(ObjectError::new("Pod", path, problem))
            }
        }
    }

    /// `metadata.name`; empty if the pod has none.
    pub fn name(&self) -> &str {
        &self.metadata.name
    }

    /// `metadata.namespace`; `default` if the pod has none.
    pub fn namespace(&self) -> &str {
        if self.metadata.namespace.is_empty() { "default" } else { &self.metadata.namespace }
    }

    /// `metadata.uid`; empty if the pod has none.
    pub fn uid(&self) -> &str {
        &self.metadata.uid
    }

    /// `spec.nodeName`; empty while the pod is not scheduled.
    pub fn node_name(&self) -> &str {
        &self.spec.node_name
    }

    /// `spec.priority`; 0 if the pod has none, as in kube-scheduler.
    pub fn priority(&self) -> i32 {
        self.spec.priority
    }

    /// Whether the pod has no node, and no scheduler has said why: it was not tried yet.
    pub fn is_untried(&self) -> bool {
        self.node_name().is_empty() && !self.has_ended() && !self.status.has_been_tried()
    }

    /// `spec.schedulerName`; empty if the pod has none.
    pub fn scheduler_name(&self) -> &str {
        &self.spec.scheduler_name
    }

    /// `spec.schedulingGroup.podGroupName`, the `PodGroup` of the pod; empty if it is in none.
    pub fn pod_group_name(&self) -> &str {
        &self.spec.scheduling_group.pod_group_name
    }

    /// Whether the pod may preempt others. Mirrors `PodEligibleToPreemptOthers` of kube-scheduler.
    pub fn may_preempt(&self) -> bool {
        &*self.spec.preemption_policy != "Never"
    }

    /// Whether the pod has succeeded or failed, and so uses no resources.
    pub fn has_ended(&self) -> bool {
        self.status.has_ended()
    }

    /// The resources that the pod takes from its node, including in-place resizes. Mirrors what kube-scheduler 1.37
    /// counts with its default feature gates.
    pub fn share(&self) -> Share {
        self.spec.share(&self.status)
    }

    /// `status.nominatedNodeName`, the node that kube-scheduler tries first; empty if it is not set.
    pub fn nominated_node_name(&self) -> &str {
        self.status.nominated_node_name()
    }

    /// The UID of the controller; `None` without one.
    pub fn controller_uid(&self) -> Option<&str> {
        self.metadata.controller().map(|owner| &*owner.uid)
    }

    /// The kind and name of the controller, such as `ReplicaSet web-7d9`; `None` without one.
    pub fn controller(&self) -> Option<String> {
        // One allocation: it is made for each call.
        self.metadata.controller().map(|owner| [&*owner.kind, " ", &*owner.name].concat())
    }

    /// `spec.priorityClassName`; empty if the pod has none.
    pub fn priority_class_name(&self) -> &str {
        &self.spec.priority_class_name
    }

    /// Whether the pod is being deleted: it has a `metadata.deletionTimestamp`.
    pub fn is_terminating(&self) -> bool {
        !self.metadata.deletion_timestamp.is_empty()
    }

    /// The label of `metadata.labels` with this key.
    pub fn label(&self, key: &str) -> Option<&str> {
        // Of equal keys the last one counts, as in Go.
        self.labels().filter(|(known, _)| *known == key).last().map(|(_, value)| value)
    }

    /// `metadata.labels`, in the order of the text.
    pub fn labels(&self) -> impl Iterator<Item = (&str, &str)> {
        self.metadata.labels.iter().map(|(key, value)| (key, &**value))
    }

    /// The annotation of `metadata.annotations` with this key.
    pub fn annotation(&self, key: &str) -> Option<&str> {
        self.metadata.annotation(key)
    }

    /// The fields that distinguish the pod from its siblings.
    pub fn identity(&self) -> PodIdentity {
        PodIdentity {
            name: self.name().to_owned(),
            uid: self.uid().to_owned(),
            claims: self.spec.volumes.iter().filter_map(|volume| volume.derived_claim(self.name())).collect(),
            created_seconds: self.metadata.creation_timestamp.parse().ok().map(jiff::Timestamp::as_second),
        }
    }

    /// The fields of a view that the pod shares with its siblings.
    pub fn facts(&self, view: &PodFactsView) -> PodFacts {
        let Self { metadata, spec, .. } = self;
        let wanted = || self.wanted.get_or_init(|| spec.wanted());
        let volumes = || {
            let volumes = spec.volumes.iter().filter(|volume| !volume.name.starts_with(TOKEN_VOLUME));
            volumes.map(|volume| volume.fact(self.name())).collect()
        };
        let tolerations = || spec.tolerations.iter().map(toleration).collect();
        PodFacts {
            namespace: view.part(PodPart::Namespace, || self.namespace().to_owned()),
            owner: view.part(PodPart::Owner, || metadata.controller().map(owner)),
            priority: view.part(PodPart::Priority, || Some(spec.priority)),
            priority_class_name: view.part(PodPart::PriorityClassName, || (&spec.priority_class_name).into()),
            requests: view.part(PodPart::Requests, || Some(wanted().requested.clone())),
            tolerations: view.part(PodPart::Tolerations, tolerations),
            node_selector: view.part(PodPart::NodeSelector, || owned(&spec.node_selector)),
            volumes: view.part(PodPart::Volumes, volumes),
            scheduler_name: view.part(PodPart::SchedulerName, || (&spec.scheduler_name).into()),
            node_affinity: view.part(PodPart::NodeAffinity, || spec.affinity.to_nodes()),
            nonzero_requests: view.part(PodPart::NonzeroRequests, || Some(wanted().nonzero)),
            labels: metadata.select_labels(&view.labels),
            annotations: metadata.select_annotations(&view.annotations),
            containers: view.part(PodPart::Containers, || {
                spec.all_containers().map(|(it, init)| container(it, init)).collect()
            }),
            pod_affinity: view.part(PodPart::PodAffinity, || spec.affinity.to_pods()),
            topology_spread: view.part(PodPart::TopologySpread, || {
                spec.topology_spread_constraints.iter().map(Spread::fact).collect()
            }),
            resource_claims: view
                .part(PodPart::ResourceClaims, || spec.resource_claims.iter().map(claim).collect()),
            pod_group_name: view.part(PodPart::PodGroupName, || self.pod_group_name().to_owned()),
            runtime_class_name: view.part(PodPart::RuntimeClassName, || (&spec.runtime_class_name).into()),
            preemption_policy: view.part(PodPart::PreemptionPolicy, || (&spec.preemption_policy).into()),
            service_account_name: view
                .part(PodPart::ServiceAccountName, || (&spec.service_account_name).into()),
        }
    }
}

impl Subject for ObjectPod<'_> {
    fn namespace(&self) -> &str {
        self.namespace()
    }

    /// Of equal keys the last one counts, as in Go.
    fn label(&self, key: &str) -> Option<&str> {
        self.labels().filter(|(known, _)| *known == key).last().map(|(_, value)| value)
    }

    fn names_resource(&self, name: &str) -> bool {
        self.spec.names_resource(name)
    }
}

impl Volume<'_> {
    /// The volume with its claim, if that is named in the template.
    fn fact(&self, pod: &str) -> api::Volume {
        let claim = self.persistent_volume_claim.as_ref().map(|source| &source.claim_name);
        let claim = claim.filter(|claim| !is_derived(claim, pod)).map_or_else(String::new, String::from);
        let driver = self.csi.as_ref().map_or_else(String::new, |csi| (&csi.driver).into());
        api::Volume { name: (&self.name).into(), claim, source: self.source.to_owned(), driver }
    }

    /// The claim, if its name is derived from the pod's.
    fn derived_claim(&self, pod: &str) -> Option<String> {
        match &self.persistent_volume_claim {
            Some(source) => is_derived(&source.claim_name, pod).then(|| (&source.claim_name).into()),
            // Mirrors `ephemeral.VolumeClaimName` of k8s.io/component-helpers.
            None if self.source == EPHEMERAL && !pod.is_empty() => Some(format!("{pod}-{}", &*self.name)),
            None => None,
        }
    }
}

/// A claim of a `StatefulSet` is named `<template>-<pod>`: it differs between pods, so it is not a fact.
fn is_derived(claim: &str, pod: &str) -> bool {
    !pod.is_empty() && claim.strip_suffix(pod).is_some_and(|template| template.ends_with('-'))
}

fn container(container: &Container<'_>, init: bool) -> api::Container {
    let ports = container.ports.iter().filter(|port| port.of_host != 0);
    let host_ports = ports.map(|port| api::HostPort {
        port: port.of_host,
        protocol: if port.protocol.is_empty() { "TCP".to_owned() } else { (&port.protocol).into() },
        ip: (&port.host_ip).into(),
    });
    api::Container {
        name: (&container.name).into(),
        image: (&container.image).into(),
        init,
        host_ports: host_ports.collect(),
    }
}

fn claim(claim: &Claimed<'_>) -> api::ResourceClaim {
    api::ResourceClaim {
        name: (&claim.name).into(),
        claim: (&claim.resource_claim_name).into(),
        template: (&claim.resource_claim_template_name).into(),
    }
}

fn owner(owner: &Owner<'_>) -> OwnerReference {
    OwnerReference {
        api_version: (&owner.api_version).into(),
        kind: (&owner.kind).into(),
        name: (&owner.name).into(),
        uid: (&owner.uid).into(),
    }
}

fn toleration(tolerated: &Tolerated<'_>) -> Toleration {
    Toleration {
        key: (&tolerated.key).into(),
        operator: (&tolerated.operator).into(),
        value: (&tolerated.value).into(),
        effect: (&tolerated.effect).into(),
        toleration_seconds: tolerated.toleration_seconds,
    }
}

#[cfg(test)]
mod tests;
