//! A scheduler with extenders, as plain data.

mod preempt;

use std::collections::{BTreeMap, BTreeSet};

use serde::{Deserialize, Serialize};

pub use self::preempt::{Added, Bare, Candidate, Eviction, Order, Preempt, PreemptRule, Running, Victim};

/// A node of the cluster: its position in it.
pub type Node = usize;

/// The pod that is to be placed.
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
}

/// A container, as far as extenders look at it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Container {
    /// Where in the pod it stands.
    pub place: Place,
    /// Requested amounts by resource; an amount of 0 is one, too.
    pub requests: BTreeMap<String, u32>,
    /// Limits by resource.
    pub limits: BTreeMap<String, u32>,
}

/// Which of a pod's lists a container stands in.
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
    /// What its reasons begin with, where they are prefixed.
    pub name: String,
    /// Whether it takes part.
    pub mode: Mode,
    /// Which pods it is asked about.
    pub interest: Interest,
    /// `filterVerb`; `None` when it has none.
    pub filter: Option<Filter>,
    /// `prioritizeVerb`; `None` when it has none.
    pub score: Option<Score>,
    /// `preemptVerb`; `None` when it has none.
    pub preempt: Option<Preempt>,
}

/// Whether an extender takes part.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Mode {
    /// It does.
    Enforce,
    /// Its answers do not count: as if it were not configured.
    Shadow,
    /// It is not asked: as if it were not configured.
    Disabled,
}

/// The pods that an extender is asked about: all conditions hold.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Interest {
    /// `managedResources`: the pod names one of them; empty for no condition.
    pub resources: BTreeSet<String>,
    /// Where the pod is.
    pub namespaces: Namespaces,
    /// What its labels are: all of these (`matchLabels`).
    pub labels: BTreeMap<String, String>,
    /// What else its labels are (`matchExpressions`).
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
    /// How it is looked at.
    pub operator: Operator,
    /// With what it is compared; at least one for `In` and `NotIn`, else none.
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
    /// What its failure means: `ignorable`.
    pub on_failure: OnFailure,
    /// Whether its rejections may be `FailedNodes`.
    pub preemption: Preemption,
    /// What it says.
    pub rule: FilterRule,
    /// When it fails instead.
    pub failing: Failing,
    /// Nodes that it cannot be told about, because the gateway does not know them. None for an extender
    /// that stands alone.
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

/// Whether evicting pods may make room where a policy says so. One of the gateway's deliberate differences.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Preemption {
    /// Never: all rejections are `FailedAndUnresolvableNodes`.
    Ignored,
    /// As the policy says.
    Honored,
}

/// A rejection as a policy says it.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Rejection {
    /// Why; any text.
    pub reason: String,
    /// Evicting pods could help.
    pub preemption_may_help: bool,
}

/// What a policy says about a set of nodes.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum FilterRule {
    /// The same about a node in whatever company: by node of the cluster.
    PerNode(Vec<Option<Rejection>>),
    /// Accepts the first `most` of the set, rejects the rest.
    FirstOf {
        /// How many are accepted.
        most: usize,
        /// What is said about the rest.
        rest: Rejection,
    },
    /// Accepts a set of at least `least`, rejects a smaller one as a whole.
    AtLeast {
        /// How many there must be.
        least: usize,
        /// What is said about a smaller set.
        smaller: Rejection,
    },
    /// Accepts everything when asked the first time in a call, rejects everything after that: a reservation
    /// that can be made once.
    Once {
        /// What is said after that.
        again: Rejection,
    },
}

/// When a policy fails instead of answering.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Failing {
    /// It does not.
    Never,
    /// Each time.
    Always,
    /// When it is asked about more nodes than this.
    Beyond(usize),
}

/// How an extender scores.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Score {
    /// `weight`; from 1 to 1,000,000.
    pub weight: u32,
    /// How raw scores become 0 to 10.
    pub normalize: Normalize,
    /// Which end of the raw scores is the best.
    pub best: Best,
    /// The declared range; `None` for no bound on that side.
    pub range: (Option<i32>, Option<i32>),
    /// What it says.
    pub rule: ScoreRule,
    /// When it fails instead.
    pub failing: Failing,
    /// As [`Filter::blind`].
    pub blind: BTreeSet<Node>,
}

/// How raw scores become 0 to 10, over the nodes that are scored.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Normalize {
    /// As they are, like a plain extender's.
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

/// What a policy scores a set of nodes with.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum ScoreRule {
    /// The same for a node in whatever company: by node of the cluster.
    PerNode(Vec<i32>),
    /// By the place in the set: `first`, `first + step`, and so on.
    ByRank {
        /// Of the first node of the set.
        first: i32,
        /// From one node to the next.
        step: i32,
    },
}

/// What the gateway does unlike separate extenders, on purpose, by configuration.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Differences {
    /// What reasons begin with.
    pub prefix: Prefix,
    /// Namespaces about whose pods nobody is asked.
    pub exempt: BTreeSet<String>,
}

/// What reasons begin with.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Prefix {
    /// The extender's name and a colon.
    Name,
    /// Nothing, as with separate extenders.
    None,
}
