//! The pod of a call as a policy sees it: a borrowed view over the request. [`domains`] are the pods in the cluster
//! that are like it.

mod domains;

use std::collections::BTreeMap;

use extender_policy_api::v1beta1 as api;
use extender_policy_api::v1beta1::{
    Container, NodeAffinity, NonZero, OwnerReference, PodAffinity, ResourceClaim, Resources, Taint,
    Toleration, TopologySpreadConstraint, Volume,
};

pub use self::domains::Domains;
use crate::{
    PodKey, PodPart, PodPrefix, TopologyKey,
    reads::{
        Map,
        access::{Access, call_id_of_pure},
        keys::Place,
        layout::SentFields,
        values::{self, Mismatch, TopologyMismatch},
    },
};

/// The requests of a pod without requests.
static NOTHING: Resources =
    Resources { milli_cpu: 0, memory: 0, ephemeral_storage: 0, pods: 0, others: BTreeMap::new() };

/// The same with defaults for containers that request nothing.
static NOTHING_BY_DEFAULT: NonZero = NonZero { milli_cpu: 0, memory: 0 };

/// The pod to be placed, or one that would be evicted.
///
/// # Panics
///
/// All methods that read something else than what the verb declares with [`Verb::reads`](crate::Verb::reads), as
/// [`Reads`](crate::Reads) explains.
#[derive(Clone, Copy, Debug)]
pub struct Pod<'a> {
    message: &'a api::Pod,
    facts: &'a api::PodFacts,
    access: Access<'a>,
    /// `None` for victims.
    call: Option<&'a api::Call>,
    /// Whether a pure verb reads it.
    is_pure: bool,
}

/// Checks that a pod has a value for each declared key. One without facts has none.
#[doc(hidden)]
pub fn check(pod: &api::Pod, fields: &SentFields) -> Result<(), Mismatch> {
    let Some(facts) = &pod.facts else { return Ok(()) };
    let counts = fields.counts();
    for (map, values, keys) in [
        (Map::Labels, &facts.labels, counts.labels),
        (Map::Annotations, &facts.annotations, counts.annotations),
    ] {
        let values = values.as_ref();
        let absent = values.into_iter().flat_map(|values| values.absent.iter().copied());
        values::check(map, values.map_or(0, |values| values.values.len()), absent, keys)?;
    }
    Ok(())
}

/// Checks the counts by topology of the pod to be placed; victims have none.
#[doc(hidden)]
pub fn check_counts(pod: &api::Pod, fields: &SentFields) -> Result<(), TopologyMismatch> {
    values::check_topologies(&pod.topology_counts, fields.topologies())
}

impl<'a> Pod<'a> {
    /// A view of what may be read of a [checked](check) pod; `None` when it has no facts, which every request must hold.
    #[doc(hidden)]
    pub fn new(pod: &'a api::Pod, access: Access<'a>) -> Option<Self> {
        pod.facts.as_ref().map(|facts| Self { message: pod, facts, access, call: None, is_pure: false })
    }

    /// The same pod as the one that a call is about.
    #[doc(hidden)]
    #[must_use]
    pub fn of(self, call: Option<&'a api::Call>) -> Self {
        Self { call, ..self }
    }

    /// The same pod as a verb reads it that is pure, or not.
    #[doc(hidden)]
    #[must_use]
    pub fn read_by_pure(self, is_pure: bool) -> Self {
        Self { is_pure, ..self }
    }

    /// The value of a declared label or annotation; `None` when the pod does not have it.
    #[track_caller]
    pub fn get(&self, key: &PodKey) -> Option<&'a str> {
        let PodKey(key) = key;
        self.value(key.map, &key.text, self.access.key(key))
    }

    /// The labels or annotations with a declared prefix, by key.
    #[track_caller]
    pub fn entries<'p>(
        &self,
        prefix: &'p PodPrefix,
    ) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a, 'p> {
        let PodPrefix(prefix) = prefix;
        self.access.prefix(prefix);
        self.all(prefix.map).filter(|(key, _)| key.starts_with(&*prefix.text))
    }

    /// metadata.name; `None` if the pod has none yet.
    #[track_caller]
    pub fn name(&self) -> Option<&'a str> {
        self.access.part(PodPart::Identity);
        given(&self.message.identity.as_ref()?.name)
    }

    /// metadata.uid; `None` under the same conditions as [`name`](Self::name).
    #[track_caller]
    pub fn uid(&self) -> Option<&'a str> {
        self.access.part(PodPart::Identity);
        given(&self.message.identity.as_ref()?.uid)
    }

    /// metadata.creationTimestamp, in seconds since 1970; `None` if the pod has none.
    #[track_caller]
    pub fn created_seconds(&self) -> Option<i64> {
        self.access.part(PodPart::Identity);
        self.message.identity.as_ref()?.created_seconds
    }

    /// metadata.namespace.
    #[track_caller]
    pub fn namespace(&self) -> &'a str {
        self.access.part(PodPart::Namespace);
        &self.facts.namespace
    }

    /// The value of a label; `None` when the pod does not have it.
    #[track_caller]
    pub fn label(&self, key: &str) -> Option<&'a str> {
        self.value(Map::Labels, key, self.access.text(Map::Labels, key))
    }

    /// All labels, by key, which the prefix "" declares.
    #[track_caller]
    pub fn labels(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        self.access.entries(Map::Labels, "");
        self.all(Map::Labels)
    }

    /// The value of an annotation; `None` when the pod does not have it.
    #[track_caller]
    pub fn annotation(&self, key: &str) -> Option<&'a str> {
        self.value(Map::Annotations, key, self.access.text(Map::Annotations, key))
    }

    /// The owner that is the controller, such as a `ReplicaSet`; `None` for a pod without one.
    #[track_caller]
    pub fn owner(&self) -> Option<&'a OwnerReference> {
        self.access.part(PodPart::Owner);
        self.facts.owner.as_ref()
    }

    /// spec.priority; 0 if not set, as in kube-scheduler.
    #[track_caller]
    pub fn priority(&self) -> i32 {
        self.access.part(PodPart::Priority);
        self.facts.priority.unwrap_or_default()
    }

    /// spec.priorityClassName; `None` if not set.
    #[track_caller]
    pub fn priority_class(&self) -> Option<&'a str> {
        self.access.part(PodPart::PriorityClass);
        given(&self.facts.priority_class_name)
    }

    /// What the pod needs from a node, as kube-scheduler counts it, in its units: thousandths of a CPU,
    /// bytes, whole values.
    #[track_caller]
    pub fn requests(&self) -> &'a Resources {
        self.access.part(PodPart::Requests);
        self.facts.requests.as_ref().unwrap_or(&NOTHING)
    }

    /// CPU and memory as kube-scheduler's scores count them: [`requests`](Self::requests), but a container that
    /// requests none counts with 100 thousandths of a CPU, and 200 MiB.
    #[track_caller]
    pub fn nonzero_requests(&self) -> &'a NonZero {
        self.access.part(PodPart::NonzeroRequests);
        self.facts.nonzero_requests.as_ref().unwrap_or(&NOTHING_BY_DEFAULT)
    }

    /// spec.tolerations, in order.
    #[track_caller]
    pub fn tolerations(&self) -> &'a [Toleration] {
        self.access.part(PodPart::Tolerations);
        &self.facts.tolerations
    }

    /// Whether one of the pod's tolerations tolerates the taint. Mirrors `ToleratesTaint` of k8s.io/api/core/v1;
    /// operators other than "Exists" and "Equal" tolerate nothing.
    #[track_caller]
    pub fn tolerates(&self, taint: &Taint) -> bool {
        self.tolerations().iter().any(|toleration| bears(toleration, taint))
    }

    /// The value of an entry of spec.nodeSelector.
    #[track_caller]
    pub fn node_selector(&self, key: &str) -> Option<&'a str> {
        self.access.part(PodPart::NodeSelector);
        self.facts.node_selector.get(key).map(String::as_str)
    }

    /// All entries of spec.nodeSelector, by key.
    #[track_caller]
    pub fn node_selectors(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        self.access.part(PodPart::NodeSelector);
        self.facts.node_selector.iter().map(|(key, value)| (&**key, &**value))
    }

    /// spec.affinity.nodeAffinity, as written in the pod; `None` if the pod has none.
    #[track_caller]
    pub fn node_affinity(&self) -> Option<&'a NodeAffinity> {
        self.access.part(PodPart::NodeAffinity);
        self.facts.node_affinity.as_ref()
    }

    /// spec.volumes, in order, without the service account's volume.
    #[track_caller]
    pub fn volumes(&self) -> &'a [Volume] {
        self.access.part(PodPart::Volumes);
        &self.facts.volumes
    }

    /// Names of the claims that the pod's volumes use, also those derived from the pod's name. [`PodPart::Volumes`] and
    /// [`PodPart::Identity`] declare them; a pure verb, which cannot read the latter, has [`volumes`](Self::volumes).
    #[track_caller]
    pub fn claims(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.access.part(PodPart::Volumes);
        self.access.part(PodPart::Identity);
        let derived = self.message.identity.iter().flat_map(|identity| &identity.claims);
        self.facts.volumes.iter().filter_map(|volume| given(&volume.claim)).chain(derived.map(String::as_str))
    }

    /// spec.schedulerName; `None` if not set.
    #[track_caller]
    pub fn scheduler_name(&self) -> Option<&'a str> {
        self.access.part(PodPart::SchedulerName);
        given(&self.facts.scheduler_name)
    }

    /// spec.initContainers and spec.containers, in this order.
    #[track_caller]
    pub fn containers(&self) -> &'a [Container] {
        self.access.part(PodPart::Containers);
        &self.facts.containers
    }

    /// spec.affinity.podAffinity and podAntiAffinity, as written in the pod; `None` if the pod has neither.
    #[track_caller]
    pub fn pod_affinity(&self) -> Option<&'a PodAffinity> {
        self.access.part(PodPart::PodAffinity);
        self.facts.pod_affinity.as_ref()
    }

    /// spec.topologySpreadConstraints, in order.
    #[track_caller]
    pub fn topology_spread(&self) -> &'a [TopologySpreadConstraint] {
        self.access.part(PodPart::TopologySpread);
        &self.facts.topology_spread
    }

    /// spec.resourceClaims, in order.
    #[track_caller]
    pub fn resource_claims(&self) -> &'a [ResourceClaim] {
        self.access.part(PodPart::ResourceClaims);
        &self.facts.resource_claims
    }

    /// spec.schedulingGroup.podGroupName; `None` if the pod is in no `PodGroup`.
    #[track_caller]
    pub fn pod_group(&self) -> Option<&'a str> {
        self.access.part(PodPart::PodGroup);
        given(&self.facts.pod_group_name)
    }

    /// spec.runtimeClassName; `None` if not set.
    #[track_caller]
    pub fn runtime_class(&self) -> Option<&'a str> {
        self.access.part(PodPart::RuntimeClass);
        given(&self.facts.runtime_class_name)
    }

    /// spec.preemptionPolicy, such as "Never"; `None` if not set, which means `PreemptLowerPriority`.
    #[track_caller]
    pub fn preemption_policy(&self) -> Option<&'a str> {
        self.access.part(PodPart::PreemptionPolicy);
        given(&self.facts.preemption_policy)
    }

    /// spec.serviceAccountName; `None` if not set.
    #[track_caller]
    pub fn service_account(&self) -> Option<&'a str> {
        self.access.part(PodPart::ServiceAccount);
        given(&self.facts.service_account_name)
    }

    /// The pods in the cluster that are like this one: with the same owner, namespace, value of the label or priority
    /// class, added up by topology, as the key declares. `None` if the pod lacks that: a pod without a controller has
    /// no siblings. Only of the pod to be placed.
    ///
    /// Pods count from when they are bound until they have ended or are deleted; the pod of a call is none of them, and
    /// neither are pods on nodes without the label. The counts lag behind like those of
    /// [`Node::pods_like`](crate::Node::pods_like). For many nodes it is cheaper to call this once, in
    /// [`Policy::filter_all`](crate::Policy::filter_all).
    #[track_caller]
    pub fn pods_like(&self, key: &TopologyKey) -> Option<Domains<'a>> {
        let TopologyKey(topology) = key;
        let counted = self.access.topology(topology);
        let attribute = topology.by.of(self)?;
        // A victim has no counts, and verbs with victims declare none.
        let counts = self.message.topology_counts.get(counted.position)?;
        Some(Domains::new(counted, attribute, counts))
    }

    /// The name of the state of nodes and pods that the call is about: two calls of one gateway with the same name are
    /// about the same state, such as the filter and the score of a pod. For correlation, in logs for instance; an answer
    /// must not depend on it. Empty if the gateway does not tell, and for victims.
    pub fn snapshot(&self) -> &'a str {
        self.call.map_or("", |call| &call.snapshot)
    }

    /// The name of the cluster whose kube-scheduler calls, as the operator wrote it. Empty if it has none, and for victims.
    pub fn cluster(&self) -> &'a str {
        self.call.map_or("", |call| &call.cluster)
    }

    /// The id of the call, as [`Outcome::call`](crate::Outcome::call) names it: a policy that changes something outside keeps it,
    /// as [`Policy::observe`](crate::Policy::observe) shows. Not for pure verbs and hooks. Empty for victims.
    ///
    /// # Panics
    ///
    /// In a pure verb or hook: its answer may be cached, and each call has another id.
    #[track_caller]
    pub fn call_id(&self) -> &'a str {
        if self.is_pure {
            call_id_of_pure();
        }
        self.call.map_or("", |call| &call.id)
    }

    /// The object's JSON, unchanged; `None` if the gateway has none.
    #[track_caller]
    pub fn raw_json(&self) -> Option<&'a [u8]> {
        self.access.part(PodPart::RawJson);
        Some(&*self.message.raw_json).filter(|raw| !raw.is_empty())
    }

    /// Absent if there is nothing in it.
    fn map(self, map: Map) -> Option<&'a api::MapValues> {
        match map {
            Map::Labels => self.facts.labels.as_ref(),
            Map::Annotations => self.facts.annotations.as_ref(),
        }
    }

    /// The entries with keys, by key.
    fn all(self, map: Map) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        let entries = self.map(map).into_iter().flat_map(|values| &values.entries);
        entries.map(|(key, value)| (&**key, &**value))
    }

    fn value(self, map: Map, key: &str, place: Place) -> Option<&'a str> {
        let values = self.map(map)?;
        let position = match place {
            Place::Entry => return values.entries.get(key).map(String::as_str),
            Place::Value(position) => position,
        };
        let value = values.values[position].as_str();
        let is_absent =
            || u32::try_from(position).is_ok_and(|position| values.absent.binary_search(&position).is_ok());
        if value.is_empty() && is_absent() { None } else { Some(value) }
    }
}

/// The contract writes an unset field as an empty string.
pub(crate) fn given(text: &str) -> Option<&str> {
    Some(text).filter(|text| !text.is_empty())
}

fn bears(toleration: &Toleration, taint: &Taint) -> bool {
    let effect = toleration.effect.is_empty() || toleration.effect == taint.effect;
    let key = toleration.key.is_empty() || toleration.key == taint.key;
    let value = match toleration.operator.as_str() {
        "" | "Equal" => toleration.value == taint.value,
        "Exists" => true,
        _ => false,
    };
    effect && key && value
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::reads::layout::everything;

    fn whole(pod: &api::Pod) -> Pod<'_> {
        Pod::new(pod, Access::to(&everything().pod)).unwrap()
    }

    fn toleration(key: &str, operator: &str, value: &str, effect: &str) -> Toleration {
        Toleration {
            key: key.into(),
            operator: operator.into(),
            value: value.into(),
            effect: effect.into(),
            toleration_seconds: None,
        }
    }

    #[test]
    fn a_toleration_bears_a_taint_as_in_kubernetes() {
        let taint = Taint { key: "gpu".into(), value: "a100".into(), effect: "NoSchedule".into() };
        for (toleration, expected) in [
            (toleration("gpu", "Equal", "a100", "NoSchedule"), true),
            (toleration("gpu", "", "a100", ""), true),
            (toleration("gpu", "Exists", "", "NoSchedule"), true),
            (toleration("", "Exists", "", ""), true),
            (toleration("gpu", "Equal", "h100", "NoSchedule"), false),
            (toleration("gpu", "Exists", "", "NoExecute"), false),
            (toleration("fpga", "Exists", "", ""), false),
            (toleration("gpu", "Near", "a100", ""), false),
        ] {
            assert_eq!(bears(&toleration, &taint), expected, "{toleration:?}");
        }
    }

    #[test]
    fn what_is_not_given_is_none() {
        let pod = api::Pod { facts: Some(api::PodFacts::default()), ..api::Pod::default() };
        let pod = whole(&pod);
        assert_eq!((pod.name(), pod.uid(), pod.priority_class(), pod.raw_json()), (None, None, None, None));
        assert_eq!((pod.claims().count(), pod.node_selectors().count()), (0, 0));
        assert_eq!((pod.node_affinity(), pod.nonzero_requests()), (None, &NOTHING_BY_DEFAULT));
    }

    #[test]
    fn what_is_given_is_handed_out() {
        let facts = api::PodFacts {
            node_selector: [("disk".to_owned(), "ssd".to_owned())].into(),
            node_affinity: Some(NodeAffinity {
                required: Some(api::NodeSelector::default()),
                preferred: vec![],
            }),
            nonzero_requests: Some(NonZero { milli_cpu: 100, memory: 7 }),
            ..api::PodFacts::default()
        };
        let pod = api::Pod { facts: Some(facts.clone()), ..api::Pod::default() };
        let pod = whole(&pod);
        assert_eq!(pod.node_affinity(), facts.node_affinity.as_ref());
        assert_eq!((pod.nonzero_requests().milli_cpu, pod.nonzero_requests().memory), (100, 7));
        assert_eq!(pod.node_selectors().collect::<Vec<_>>(), [("disk", "ssd")]);
    }

    #[test]
    fn claims_are_those_of_the_volumes_and_those_of_the_name() {
        let volume = |claim: &str| Volume { claim: claim.into(), ..Volume::default() };
        let facts = api::PodFacts { volumes: vec![volume("shared"), volume("")], ..api::PodFacts::default() };
        let identity = api::PodIdentity { claims: vec!["disk-web-0".into()], ..api::PodIdentity::default() };
        let pod = api::Pod { facts: Some(facts), identity: Some(identity), ..api::Pod::default() };
        assert_eq!(whole(&pod).claims().collect::<Vec<_>>(), ["shared", "disk-web-0"]);
    }
}
