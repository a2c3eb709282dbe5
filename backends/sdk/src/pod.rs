//! The pod of a call as a policy sees it: a borrowed view over the request.

use std::collections::BTreeMap;

use extender_policy_api::v1alpha1 as api;
use extender_policy_api::v1alpha1::{
    NodeAffinity, NonZero, OwnerReference, Resources, Taint, Toleration, Volume,
};

/// The requests of a pod without requests.
static NOTHING: Resources =
    Resources { milli_cpu: 0, memory: 0, ephemeral_storage: 0, pods: 0, others: BTreeMap::new() };

/// The same with defaults for containers that request nothing.
static NOTHING_BY_DEFAULT: NonZero = NonZero { milli_cpu: 0, memory: 0 };

/// The pod to be placed, or one that would be evicted.
#[derive(Clone, Copy, Debug)]
pub struct Pod<'a> {
    pod: &'a api::Pod,
    facts: &'a api::PodFacts,
}

impl<'a> Pod<'a> {
    /// A view of a pod of the contract; `None` when it has no facts, which every request must hold.
    pub fn new(pod: &'a api::Pod) -> Option<Self> {
        pod.facts.as_ref().map(|facts| Self { pod, facts })
    }

    /// metadata.name; `None` if the pod has none yet, and for pure verbs, which do not receive it.
    pub fn name(&self) -> Option<&'a str> {
        given(&self.pod.identity.as_ref()?.name)
    }

    /// metadata.uid; `None` under the same conditions as [`name`](Self::name).
    pub fn uid(&self) -> Option<&'a str> {
        given(&self.pod.identity.as_ref()?.uid)
    }

    /// metadata.namespace.
    pub fn namespace(&self) -> &'a str {
        &self.facts.namespace
    }

    /// The value of a label; `None` when the pod does not have it.
    pub fn label(&self, key: &str) -> Option<&'a str> {
        self.facts.labels.get(key).map(String::as_str)
    }

    /// All labels, by key.
    pub fn labels(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        self.facts.labels.iter().map(|(key, value)| (&**key, &**value))
    }

    /// The value of an annotation, if [`Info::annotations`](crate::Info::annotations) asks for its prefix.
    pub fn annotation(&self, key: &str) -> Option<&'a str> {
        self.facts.annotations.get(key).map(String::as_str)
    }

    /// The owner that is the controller, such as a `ReplicaSet`; `None` for a pod without one.
    pub fn owner(&self) -> Option<&'a OwnerReference> {
        self.facts.owner.as_ref()
    }

    /// spec.priority; 0 if not set, as in kube-scheduler.
    pub fn priority(&self) -> i32 {
        self.facts.priority
    }

    /// spec.priorityClassName; `None` if not set.
    pub fn priority_class(&self) -> Option<&'a str> {
        given(&self.facts.priority_class_name)
    }

    /// What the pod needs from a node, as kube-scheduler counts it, in its units: thousandths of a CPU,
    /// bytes, whole values.
    pub fn requests(&self) -> &'a Resources {
        self.facts.requests.as_ref().unwrap_or(&NOTHING)
    }

    /// CPU and memory as kube-scheduler's scores count them: [`requests`](Self::requests), but a container that
    /// requests none counts with 100 thousandths of a CPU, and 200 MiB.
    pub fn nonzero_requests(&self) -> &'a NonZero {
        self.facts.nonzero_requests.as_ref().unwrap_or(&NOTHING_BY_DEFAULT)
    }

    /// spec.tolerations, in order.
    pub fn tolerations(&self) -> &'a [Toleration] {
        &self.facts.tolerations
    }

    /// Whether one of the pod's tolerations tolerates the taint. Mirrors `ToleratesTaint` of k8s.io/api/core/v1;
    /// operators other than "Exists" and "Equal" tolerate nothing.
    pub fn tolerates(&self, taint: &Taint) -> bool {
        self.tolerations().iter().any(|toleration| bears(toleration, taint))
    }

    /// The value of an entry of spec.nodeSelector.
    pub fn node_selector(&self, key: &str) -> Option<&'a str> {
        self.facts.node_selector.get(key).map(String::as_str)
    }

    /// All entries of spec.nodeSelector, by key.
    pub fn node_selectors(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        self.facts.node_selector.iter().map(|(key, value)| (&**key, &**value))
    }

    /// spec.affinity.nodeAffinity, as written in the pod; `None` if the pod has none.
    pub fn node_affinity(&self) -> Option<&'a NodeAffinity> {
        self.facts.node_affinity.as_ref()
    }

    /// spec.volumes, in order, without the service account's volume.
    pub fn volumes(&self) -> &'a [Volume] {
        &self.facts.volumes
    }

    /// Names of the claims that the pod's volumes use, also those derived from the pod's name (which pure verbs do
    /// not receive).
    pub fn claims(&self) -> impl Iterator<Item = &'a str> + use<'a> {
        let derived = self.pod.identity.iter().flat_map(|identity| &identity.claims);
        self.facts.volumes.iter().filter_map(|volume| given(&volume.claim)).chain(derived.map(String::as_str))
    }

    /// spec.schedulerName; `None` if not set.
    pub fn scheduler_name(&self) -> Option<&'a str> {
        given(&self.facts.scheduler_name)
    }

    /// The object's JSON, unchanged; `None` unless [`Info::raw_pod`](crate::Info::raw_pod) asks for it.
    pub fn raw_json(&self) -> Option<&'a [u8]> {
        Some(&*self.pod.raw_json).filter(|raw| !raw.is_empty())
    }
}

/// The contract writes an unset field as an empty string.
fn given(text: &str) -> Option<&str> {
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
        let pod = Pod::new(&pod).unwrap();
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
        let pod = Pod::new(&pod).unwrap();
        assert_eq!(pod.node_affinity(), facts.node_affinity.as_ref());
        assert_eq!((pod.nonzero_requests().milli_cpu, pod.nonzero_requests().memory), (100, 7));
        assert_eq!(pod.node_selectors().collect::<Vec<_>>(), [("disk", "ssd")]);
    }

    #[test]
    fn claims_are_those_of_the_volumes_and_those_of_the_name() {
        let volume = |claim: &str| Volume { name: "v".into(), claim: claim.into() };
        let facts = api::PodFacts { volumes: vec![volume("shared"), volume("")], ..api::PodFacts::default() };
        let identity = api::PodIdentity { claims: vec!["disk-web-0".into()], ..api::PodIdentity::default() };
        let pod = api::Pod { facts: Some(facts), identity: Some(identity), ..api::Pod::default() };
        assert_eq!(Pod::new(&pod).unwrap().claims().collect::<Vec<_>>(), ["shared", "disk-web-0"]);
    }
}
