//! `spec.affinity`: the nodes that a pod requires or prefers. [`super::pod_affinity`] has the pods.

use extender_policy_api::v1beta1 as api;
use serde::Deserialize;

use super::{
    json::{List, Text, nullable, object, texts},
    pod_affinity::{NearPods, pod_affinity},
};

/// Mirrors `corev1.Affinity`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Affinity<'a> {
    #[serde(borrow, rename = "nodeAffinity")]
    nodes: Option<NodeAffinity<'a>>,
    #[serde(rename = "podAffinity", deserialize_with = "object")]
    near: NearPods<'a>,
    #[serde(rename = "podAntiAffinity", deserialize_with = "object")]
    apart: NearPods<'a>,
}

/// Mirrors `corev1.NodeAffinity`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct NodeAffinity<'a> {
    /// Empty terms are not the same as absent: they match no node, absent ones match every node.
    #[serde(borrow, rename = "requiredDuringSchedulingIgnoredDuringExecution")]
    required: Option<NodeSelector<'a>>,
    #[serde(rename = "preferredDuringSchedulingIgnoredDuringExecution")]
    preferred: List<Preferred<'a>>,
}

/// Mirrors `corev1.NodeSelector`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct NodeSelector<'a> {
    #[serde(borrow)]
    node_selector_terms: List<Term<'a>>,
}

/// Mirrors `corev1.PreferredSchedulingTerm`.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
struct Preferred<'a> {
    #[serde(deserialize_with = "nullable")]
    weight: i32,
    #[serde(borrow, deserialize_with = "nullable")]
    preference: Term<'a>,
}

/// Mirrors `corev1.NodeSelectorTerm`.
#[derive(Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct Term<'a> {
    #[serde(borrow)]
    match_expressions: List<Requirement<'a>>,
    match_fields: List<Requirement<'a>>,
}

/// Mirrors `corev1.NodeSelectorRequirement`. Operators are passed on unchanged: clusters gain new ones.
#[derive(Debug, Default, Deserialize)]
#[serde(default)]
pub(super) struct Requirement<'a> {
    #[serde(borrow)]
    key: Text<'a>,
    operator: Text<'a>,
    #[serde(deserialize_with = "texts")]
    pub(super) values: Vec<Text<'a>>,
}

impl Affinity<'_> {
    /// The number of terms, requirements and values about pods together.
    pub(super) fn entries_about_pods(&self) -> usize {
        self.near.entries() + self.apart.entries()
    }

    /// Converts what is about pods to a fact; `None` without terms.
    pub(super) fn to_pods(&self) -> Option<api::PodAffinity> {
        pod_affinity(&self.near, &self.apart)
    }

    /// The number of terms, requirements and values about nodes together.
    pub(super) fn entries(&self) -> usize {
        let Some(NodeAffinity { required, preferred }) = &self.nodes else { return 0 };
        let required = required.iter().flat_map(|selector| selector.node_selector_terms.iter());
        let preferred = preferred.iter().map(|preferred| &preferred.preference);
        required.chain(preferred).map(Term::entries).sum()
    }

    /// Converts it to a fact; `None` without terms about nodes.
    pub(super) fn to_nodes(&self) -> Option<api::NodeAffinity> {
        self.nodes.as_ref().map(|affinity| api::NodeAffinity {
            required: affinity.required.as_ref().map(selector),
            preferred: affinity.preferred.iter().map(preferred).collect(),
        })
    }
}

impl Term<'_> {
    fn entries(&self) -> usize {
        let requirements = self.match_expressions.iter().chain(self.match_fields.iter());
        1 + requirements.map(|requirement| 1 + requirement.values.len()).sum::<usize>()
    }
}

fn selector(selector: &NodeSelector<'_>) -> api::NodeSelector {
    api::NodeSelector { terms: selector.node_selector_terms.iter().map(term).collect() }
}

fn preferred(preferred: &Preferred<'_>) -> api::PreferredSchedulingTerm {
    api::PreferredSchedulingTerm { weight: preferred.weight, preference: Some(term(&preferred.preference)) }
}

fn term(term: &Term<'_>) -> api::NodeSelectorTerm {
    api::NodeSelectorTerm {
        match_expressions: term.match_expressions.iter().map(requirement).collect(),
        match_fields: term.match_fields.iter().map(requirement).collect(),
    }
}

pub(super) fn requirement(requirement: &Requirement<'_>) -> api::NodeSelectorRequirement {
    api::NodeSelectorRequirement {
        key: (&requirement.key).into(),
        operator: (&requirement.operator).into(),
        values: requirement.values.iter().map(Into::into).collect(),
    }
}

#[cfg(test)]
mod tests;
