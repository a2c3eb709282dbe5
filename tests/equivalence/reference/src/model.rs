//! A scheduler with extenders, as plain data.

mod bound;
mod preempt;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

pub use self::{
    bound::{BoundPod, CountedBy, Life},
    preempt::{Added, Bare, Candidate, Eviction, Order, Preempt, PreemptRule, Running, Victim},
};

/// A node of the cluster, by its position.
pub type Node = usize;

/// The pod to be placed.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Pod {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.labels`.
    pub labels: BTreeMap<String, String>,
    /// `spec.priority`.
    pub priority: i32,
    /// Init containers and others.
    pub containers: Vec<Container>,
    /// The UID of its controller; `None` without one.
    #[serde(default)]
    pub owner: Option<String>,
    /// `spec.priorityClassName`; `None` without one.
    #[serde(default)]
    pub priority_class: Option<String>,
}

/// A container, with the fields that extenders read.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Container {
    /// Its place in the pod.
    pub place: Place,
    /// Requested amounts by resource; an amount of 0 is one, too.
    pub requests: BTreeMap<String, u32>,
    /// Limits by resource.
    pub limits: BTreeMap<String, u32>,
}

/// Which of a pod's lists a container is in.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Place {
    /// `spec.containers`.
    Main,
    /// `spec.initContainers`.
    Init,
}

/// An entry of `extenders:` in kube-scheduler's configuration, with the policy behind it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Extender {
    /// The prefix of its reasons, where they are prefixed.
    pub name: String,
    /// Whether it takes part.
    pub mode: Mode,
    /// The pods for which it is called.
    pub interest: Interest,
    /// `filterVerb`; `None` without one.
    pub filter: Option<Filter>,
    /// `prioritizeVerb`; `None` without one.
    pub score: Option<Score>,
    /// `preemptVerb`; `None` without one.
    pub preempt: Option<Preempt>,
}

/// Whether an extender takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// Yes.
    Enforce,
    /// Its answers do not count: as if it were not configured.
    Shadow,
    /// It is not called: as if it were not configured.
    Disabled,
}

/// The pods for which an extender is called: all conditions hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interest {
    /// `managedResources`: the pod names one of them; empty for no condition.
    pub resources: BTreeSet<String>,
    /// The namespace condition.
    pub namespaces: Namespaces,
    /// The pod has all of these labels (`matchLabels`).
    pub labels: BTreeMap<String, String>,
    /// Further conditions on its labels (`matchExpressions`).
    pub selector: Vec<Requirement>,
}

/// A condition on the pod's namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub enum Namespaces {
    /// None.
    #[default]
    All,
    /// One of these.
    Only(BTreeSet<String>),
    /// None of these.
    Except(BTreeSet<String>),
}

/// A condition on a label. Mirrors `metav1.LabelSelectorRequirement`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Requirement {
    /// The label.
    pub key: String,
    /// The operator.
    pub operator: Operator,
    /// The values to compare with; at least one for `In` and `NotIn`, else none.
    pub values: BTreeSet<String>,
}

/// Mirrors `metav1.LabelSelectorOperator`.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Operator {
    /// One of the values.
    In,
    /// None of the values, or absent.
    NotIn,
    /// Present.
    Exists,
    /// Absent.
    DoesNotExist,
}

/// How an extender filters.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Filter {
    /// The effect of its failure: `ignorable`.
    pub on_failure: OnFailure,
    /// Whether its rejections may be `FailedNodes`.
    pub preemption: Preemption,
    /// Its answers.
    pub rule: FilterRule,
    /// When it fails instead.
    pub failing: Failing,
    /// Nodes that it has no data about, because the gateway does not know them. None for a separate extender.
    pub blind: BTreeSet<Node>,
}

/// `ignorable` of an extender's configuration.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum OnFailure {
    /// `ignorable: false`: the scheduling attempt ends with an error.
    Fail,
    /// `ignorable: true`: it is skipped.
    Ignore,
}

/// Whether evicting pods may make room if a policy says so. One of the gateway's deliberate differences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Preemption {
    /// Never: all rejections are `FailedAndUnresolvableNodes`.
    Ignored,
    /// As the policy says.
    Honored,
}

/// A rejection by a policy.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejection {
    /// Why; any text.
    pub reason: String,
    /// Evicting pods could help.
    pub preemption_may_help: bool,
}

/// A policy's answer about a set of nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FilterRule {
    /// The same about a node whatever the set: by node of the cluster.
    PerNode(Vec<Option<Rejection>>),
    /// Accepts the first `most` of the set, rejects the rest.
    FirstOf {
        /// How many are accepted.
        most: usize,
        /// The answer about the rest.
        rest: Rejection,
    },
    /// Accepts a set of at least `least`, rejects a smaller one as a whole.
    AtLeast {
        /// The minimum size of the set.
        least: usize,
        /// The answer about a smaller set.
        smaller: Rejection,
    },
    /// Accepts everything in the first request of a call, rejects everything after that: a reservation that can be
    /// made once.
    Once {
        /// The answer after that.
        again: Rejection,
    },
}

/// When a policy fails instead of answering.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Failing {
    /// It does not fail.
    Never,
    /// Every time.
    Always,
    /// When it is called about more nodes than this.
    Beyond(usize),
}

/// How an extender scores.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Score {
    /// `weight`; from 1 to 1,000,000.
    pub weight: u32,
    /// How raw scores are normalized to 0 to 10.
    pub normalize: Normalize,
    /// Which end of the raw scores is the best.
    pub best: Best,
    /// The declared range; `None` for no bound on that side.
    pub range: (Option<i32>, Option<i32>),
    /// Its scores.
    pub rule: ScoreRule,
    /// When it fails instead.
    pub failing: Failing,
    /// As [`Filter::blind`].
    pub blind: BTreeSet<Node>,
}

/// How raw scores are normalized to 0 to 10, over the nodes that are scored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Normalize {
    /// Unchanged, like a plain extender's.
    None,
    /// 10·(s − lo)/(hi − lo), with lo and hi the declared range.
    Range,
    /// 10·s/largest; 0 when the largest is not positive.
    Max,
    /// 10·(s − least)/(largest − least); 0 when they are equal.
    MinMax,
}

/// Which raw scores are the best.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Best {
    /// The largest.
    Largest,
    /// The least: 10 minus the normalized score counts. Not with [`Normalize::None`].
    Least,
}

/// A policy's scores for a set of nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ScoreRule {
    /// The same for a node whatever the set: by node of the cluster.
    PerNode(Vec<i32>),
    /// By the place in the set: `first`, `first + step`, and so on.
    ByRank {
        /// Of the first node of the set.
        first: i32,
        /// From one node to the next.
        step: i32,
    },
}

/// The gateway's deliberate differences from separate extenders, by configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Differences {
    /// The prefix of reasons.
    pub prefix: Prefix,
    /// Namespaces for whose pods no extender is called.
    pub exempt: BTreeSet<String>,
}

/// The prefix of reasons.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Prefix {
    /// The extender's name and a colon.
    Name,
    /// Nothing, as with separate extenders.
    None,
}
