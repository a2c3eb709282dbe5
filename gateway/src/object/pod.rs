//! Parses a pod's JSON into the contract's identity and facts.

use std::sync::OnceLock;

use extender_gateway_core::interest::Subject;
use extender_policy_api::v1alpha1::{OwnerReference, PodFacts, PodIdentity, Toleration};
use serde::Deserialize;

use super::{
    ObjectError,
    affinity::Affinity,
    amounts::{Requirements, ResourceList},
    annotations::AnnotationPrefixes,
    claims::{self, Volume},
    json::{List, Map, Text, nullable, object},
    limits::{self, Measures, Origin},
    meta::{Meta, Owner, owned},
    read,
    requests::{Container, Demand, Share},
    status::PodStatus,
};

/// The fields of a pod that the facts need, borrowed from its JSON. Mirrors `corev1.Pod`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub struct ObjectPod<'a> {
    #[serde(borrow, deserialize_with = "object")]
    metadata: Meta<'a>,
    #[serde(borrow, deserialize_with = "object")]
    spec: PodSpec<'a>,
    #[serde(borrow, deserialize_with = "object")]
    status: PodStatus<'a>,
    /// The sums of the containers' requests, computed once for all views of the pod.
    #[serde(skip)]
    wanted: OnceLock<Share>,
}

/// Mirrors `corev1.PodSpec`, the fields that are read.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodSpec<'a> {
    #[serde(borrow)]
    containers: List<Container<'a>>,
    /// Includes sidecars: init containers that are restarted.
    #[serde(borrow)]
    init_containers: List<Container<'a>>,
    /// For the pod as a whole, since 1.34.
    #[serde(borrow, deserialize_with = "object")]
    resources: Requirements<'a>,
    /// The overhead of the runtime class.
    #[serde(borrow)]
    overhead: ResourceList<'a>,
    /// Set from the class by the apiserver; absent on a pod that never passed one.
    #[serde(deserialize_with = "nullable")]
    priority: i32,
    #[serde(borrow)]
    priority_class_name: Text<'a>,
    #[serde(borrow)]
    tolerations: List<Tolerated<'a>>,
    #[serde(borrow)]
    node_selector: Map<'a, Text<'a>>,
    #[serde(borrow, deserialize_with = "object")]
    affinity: Affinity<'a>,
    #[serde(borrow)]
    volumes: List<Volume<'a>>,
    #[serde(borrow)]
    scheduler_name: Text<'a>,
    #[serde(borrow)]
    node_name: Text<'a>,
}

/// Mirrors `corev1.Toleration`. Operators are passed on unchanged: clusters gain new ones.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Tolerated<'a> {
    #[serde(borrow)]
    key: Text<'a>,
    #[serde(borrow)]
    operator: Text<'a>,
    #[serde(borrow)]
    value: Text<'a>,
    #[serde(borrow)]
    effect: Text<'a>,
    /// 0 is not the same as absent: evicted immediately, or never.
    toleration_seconds: Option<i64>,
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
        let sums = [
            ("spec.containers[*].resources", spec.demand().entries()),
            ("spec.affinity.nodeAffinity", spec.affinity.entries()),
        ];
        Measures { kind: "Pod", name: self.name(), names: metadata.names(), sums }.check()
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

    /// Whether the pod has succeeded or failed, and so uses no resources.
    pub fn has_ended(&self) -> bool {
        self.status.has_ended()
    }

    /// The resources that the pod takes from its node, including in-place resizes. Mirrors what kube-scheduler 1.36
    /// counts with its default feature gates.
    pub fn share(&self) -> Share {
        Demand { status: Some(&self.status), ..self.spec.demand() }.share()
    }

    /// `status.nominatedNodeName`, the node that kube-scheduler tries first; empty if it is not set.
    pub fn nominated_node_name(&self) -> &str {
        self.status.nominated_node_name()
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
            claims: claims::derived(&self.spec.volumes, self.name()),
        }
    }

    /// The fields that the pod shares with its siblings, with the selected annotations.
    pub fn facts(&self, wanted: &AnnotationPrefixes) -> PodFacts {
        let Self { metadata, spec, .. } = self;
        let Share { requested, nonzero } = self.wanted.get_or_init(|| spec.demand().wanted());
        PodFacts {
            namespace: self.namespace().to_owned(),
            labels: owned(&metadata.labels),
            annotations: metadata.annotations(wanted),
            owner: metadata.controller().map(owner),
            priority: spec.priority,
            priority_class_name: (&spec.priority_class_name).into(),
            requests: Some(requested.clone()),
            tolerations: spec.tolerations.iter().map(toleration).collect(),
            node_selector: owned(&spec.node_selector),
            volumes: claims::facts(&spec.volumes, self.name()),
            scheduler_name: (&spec.scheduler_name).into(),
            node_affinity: spec.affinity.to_nodes(),
            nonzero_requests: Some(*nonzero),
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
        self.spec.demand().names(name)
    }
}

impl<'a> PodSpec<'a> {
    fn demand(&self) -> Demand<'_, 'a> {
        Demand {
            containers: &self.containers,
            init_containers: &self.init_containers,
            pod_level: &self.resources,
            overhead: &self.overhead,
            status: None,
        }
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
