//! The pods near which a pod is placed or not, and over what pods are spread: `spec.affinity.podAffinity`,
//! `spec.affinity.podAntiAffinity` and `spec.topologySpreadConstraints`.

use extender_policy_api::v1beta1 as api;
use serde::Deserialize;

use super::{
    affinity::{Requirement, requirement},
    json::{List, Map, Text, nullable, texts},
    meta::owned,
};

/// Mirrors `corev1.PodAffinity` and `corev1.PodAntiAffinity`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct NearPods<'a> {
    #[serde(borrow, rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: List<PodTerm<'a>>,
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    preferred: List<Weighted<'a>>,
}

/// Mirrors `corev1.PodAffinityTerm`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodTerm<'a> {
    #[serde(borrow)]
    label_selector: Option<Selector<'a>>,
    #[serde(deserialize_with = "texts")]
    namespaces: Vec<Text<'a>>,
    namespace_selector: Option<Selector<'a>>,
    topology_key: Text<'a>,
    #[serde(deserialize_with = "texts")]
    match_label_keys: Vec<Text<'a>>,
    #[serde(deserialize_with = "texts")]
    mismatch_label_keys: Vec<Text<'a>>,
}

/// Mirrors `corev1.WeightedPodAffinityTerm`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Weighted<'a> {
    #[serde(deserialize_with = "nullable")]
    weight: i32,
    #[serde(borrow, deserialize_with = "nullable")]
    pod_affinity_term: PodTerm<'a>,
}

/// Mirrors `metav1.LabelSelector`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Selector<'a> {
    #[serde(borrow)]
    match_labels: Map<'a, Text<'a>>,
    match_expressions: List<Requirement<'a>>,
}

/// Mirrors `corev1.TopologySpreadConstraint`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub(super) struct Spread<'a> {
    #[serde(deserialize_with = "nullable")]
    max_skew: i32,
    #[serde(borrow)]
    topology_key: Text<'a>,
    when_unsatisfiable: Text<'a>,
    label_selector: Option<Selector<'a>>,
    min_domains: Option<i32>,
    node_affinity_policy: Text<'a>,
    node_taints_policy: Text<'a>,
    #[serde(deserialize_with = "texts")]
    match_label_keys: Vec<Text<'a>>,
}

impl NearPods<'_> {
    /// The number of terms, requirements and values.
    pub(super) fn entries(&self) -> usize {
        let preferred = self.preferred.iter().map(|weighted| &weighted.pod_affinity_term);
        self.required.iter().chain(preferred).map(PodTerm::entries).sum()
    }
}

/// Both as a fact; `None` without terms.
pub(super) fn pod_affinity(near: &NearPods<'_>, apart: &NearPods<'_>) -> Option<api::PodAffinity> {
    let affinity = api::PodAffinity {
        required: near.required.iter().map(term).collect(),
        preferred: near.preferred.iter().map(weighted).collect(),
        anti_required: apart.required.iter().map(term).collect(),
        anti_preferred: apart.preferred.iter().map(weighted).collect(),
    };
    (affinity != api::PodAffinity::default()).then_some(affinity)
}

impl PodTerm<'_> {
    fn entries(&self) -> usize {
        let selectors = [&self.label_selector, &self.namespace_selector].into_iter().flatten();
        let texts = self.namespaces.len() + self.match_label_keys.len() + self.mismatch_label_keys.len();
        1 + selectors.map(Selector::entries).sum::<usize>() + texts
    }
}

impl Selector<'_> {
    fn entries(&self) -> usize {
        let expressions = self.match_expressions.iter().map(|requirement| 1 + requirement.values.len());
        self.match_labels.iter().count() + expressions.sum::<usize>()
    }

    fn fact(&self) -> api::LabelSelector {
        api::LabelSelector {
            match_labels: owned(&self.match_labels),
            match_expressions: self.match_expressions.iter().map(requirement).collect(),
        }
    }
}

impl Spread<'_> {
    /// The number of requirements and values.
    pub(super) fn entries(&self) -> usize {
        1 + self.label_selector.as_ref().map_or(0, Selector::entries) + self.match_label_keys.len()
    }

    pub(super) fn fact(&self) -> api::TopologySpreadConstraint {
        api::TopologySpreadConstraint {
            max_skew: self.max_skew,
            topology_key: (&self.topology_key).into(),
            when_unsatisfiable: (&self.when_unsatisfiable).into(),
            selector: self.label_selector.as_ref().map(Selector::fact),
            min_domains: self.min_domains,
            node_affinity_policy: (&self.node_affinity_policy).into(),
            node_taints_policy: (&self.node_taints_policy).into(),
            match_label_keys: all(&self.match_label_keys),
        }
    }
}

fn term(term: &PodTerm<'_>) -> api::PodAffinityTerm {
    api::PodAffinityTerm {
        selector: term.label_selector.as_ref().map(Selector::fact),
        namespaces: all(&term.namespaces),
        namespace_selector: term.namespace_selector.as_ref().map(Selector::fact),
        topology_key: (&term.topology_key).into(),
        match_label_keys: all(&term.match_label_keys),
        mismatch_label_keys: all(&term.mismatch_label_keys),
    }
}

fn weighted(weighted: &Weighted<'_>) -> api::WeightedPodAffinityTerm {
    api::WeightedPodAffinityTerm { weight: weighted.weight, term: Some(term(&weighted.pod_affinity_term)) }
}

fn all(texts: &[Text<'_>]) -> Vec<String> {
    texts.iter().map(Into::into).collect()
}
