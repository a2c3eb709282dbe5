//! What rules mean: for which pods, on which nodes, with what effect.

use std::{ops::RangeInclusive, sync::Arc};

use extender_policy_sdk::{NO_OPINION, Node, Pod, Verdict, Victim};

/// Refuses nodes that do not meet a requirement.
#[derive(Clone, Debug, PartialEq)]
pub struct Refusal {
    /// The pods that the rule is for.
    pub pods: PodSelector,
    /// What a node must meet.
    pub require: Vec<LabelRequirement>,
    /// Why the others are refused.
    pub reason: Arc<str>,
    /// The rule's name, if it has one.
    pub name: Option<Arc<str>>,
}

impl Refusal {
    /// Whether the node fails any of the requirements.
    pub fn refuses(&self, node: &Node<'_>) -> bool {
        !self.require.iter().all(|requirement| requirement.holds(node.label(&requirement.key)))
    }

    /// What it says of a node that it refuses.
    pub fn verdict(&self) -> Verdict {
        let rejected = Verdict::reject(Arc::clone(&self.reason)).unresolvable();
        match &self.name {
            Some(name) => rejected.by_rule(Arc::clone(name)),
            None => rejected,
        }
    }
}

/// Gives nodes that meet all requirements a score.
#[derive(Clone, Debug, PartialEq)]
pub struct Preference {
    /// The pods that the rule is for.
    pub pods: PodSelector,
    /// What a node must meet.
    pub prefer: Vec<LabelRequirement>,
    /// What such a node gets; negative to avoid it. Never 0.
    pub score: i32,
}

impl Preference {
    /// Whether the node meets all of the requirements.
    pub fn prefers(&self, node: &Node<'_>) -> bool {
        self.prefer.iter().all(|requirement| requirement.holds(node.label(&requirement.key)))
    }
}

/// Protects pods from eviction.
#[derive(Clone, Debug, PartialEq)]
pub struct Protection {
    /// The pods for which they are not evicted.
    pub pods: PodSelector,
    /// The pods that are not evicted.
    pub protect: PodSelector,
}

impl Protection {
    /// Whether the victim must stay. An unknown victim must: it could be one of the protected pods.
    pub fn protects(&self, victim: Victim<'_>) -> bool {
        victim.pod().is_none_or(|pod| self.protect.includes(&pod))
    }
}

/// The least and the largest possible sum of scores, whichever rules match.
pub fn bounds(preferences: &[Preference]) -> RangeInclusive<i32> {
    let scores = || preferences.iter().map(|preference| preference.score);
    sum(scores().filter(|score| *score < 0))..=sum(scores().filter(|score| *score > 0))
}

/// The sum of scores, within the range of the type. However low, it is an opinion.
pub fn sum(scores: impl Iterator<Item = i32>) -> i32 {
    scores.fold(0, i32::saturating_add).max(NO_OPINION + 1)
}

/// Which pods a rule is for. All conditions that are set must hold; without conditions, every pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub struct PodSelector {
    /// One of these; empty: any.
    pub namespaces: Vec<String>,
    /// All of these, on the pod's labels.
    pub labels: Vec<LabelRequirement>,
}

impl PodSelector {
    /// Whether the rule is for this pod.
    pub fn includes(&self, pod: &Pod<'_>) -> bool {
        let namespace = self.namespaces.is_empty() || self.namespaces.iter().any(|n| n == pod.namespace());
        namespace && self.labels.iter().all(|requirement| requirement.holds(pod.label(&requirement.key)))
    }
}

/// A condition on one label.
#[derive(Clone, Debug, PartialEq)]
pub struct LabelRequirement {
    /// The label's key.
    pub key: String,
    /// What its value must be.
    pub condition: LabelCondition,
}

/// What a label's value must be.
#[derive(Clone, Debug, PartialEq)]
pub enum LabelCondition {
    /// One of these. `equals` is a list of one.
    In(Vec<String>),
    /// None of these.
    NotIn(Vec<String>),
    /// The label exists, with any value.
    Exists,
    /// The label does not exist.
    Absent,
    /// A whole number larger than this.
    GreaterThan(i64),
    /// A whole number less than this.
    LessThan(i64),
}

impl LabelRequirement {
    /// Whether a label with this value (`None`: missing) meets the condition. A missing label meets
    /// `NotIn` and `Absent` alone, as in a Kubernetes label selector; a value that is not a whole number
    /// meets no comparison.
    pub fn holds(&self, value: Option<&str>) -> bool {
        let among = |values: &[String]| value.is_some_and(|value| values.iter().any(|v| v == value));
        let number = || value.and_then(|value| value.parse::<i64>().ok());
        match &self.condition {
            LabelCondition::In(values) => among(values),
            LabelCondition::NotIn(values) => !among(values),
            LabelCondition::Exists => value.is_some(),
            LabelCondition::Absent => value.is_none(),
            LabelCondition::GreaterThan(limit) => number().is_some_and(|number| number > *limit),
            LabelCondition::LessThan(limit) => number().is_some_and(|number| number < *limit),
        }
    }
}
