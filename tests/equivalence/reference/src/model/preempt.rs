//! What would be evicted, and what policies say about it.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Failing, Node, OnFailure};

/// A pod that runs in the cluster: its position among these.
pub type Victim = usize;

/// A pod that runs in the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Running {
    /// Where it runs.
    pub node: Node,
    /// `spec.priority`.
    pub priority: i32,
}

/// The evictions that would make room on one node. Mirrors `extenderv1.Victims`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Candidate {
    /// The node.
    pub node: Node,
    /// Who would be evicted, in kube-scheduler's order.
    pub victims: Vec<Victim>,
    /// `NumPDBViolations`.
    pub violations: i64,
}

/// How an extender preempts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preempt {
    /// What its failure means: `ignorable`.
    pub on_failure: OnFailure,
    /// Whether it may name victims of its own.
    pub added: Added,
    /// What it says.
    pub rule: PreemptRule,
    /// In which order it says so.
    pub order: Order,
    /// When it fails instead.
    pub failing: Failing,
    /// As [`super::Filter::blind`].
    pub blind: BTreeSet<Node>,
    /// Pods that it cannot name, because the gateway does not know them. None for an extender that stands
    /// alone.
    pub unseen: BTreeSet<Victim>,
}

/// Whether a policy may name victims that were not offered. One of the gateway's deliberate differences:
/// kube-scheduler believes whatever it is told.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Added {
    /// No: that is a failure.
    Refused,
    /// Yes, those on that node of lower priority than the pod.
    Allowed,
}

/// In which order a policy names nodes and victims.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Order {
    /// As they were offered.
    Offered,
    /// The other way round.
    Reversed,
}

/// What a policy says about candidates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PreemptRule {
    /// The same about a node in whatever company: by node of the cluster.
    PerNode {
        /// Who may be evicted there; `None`: nobody, the node is no candidate any more.
        evictions: Vec<Option<Eviction>>,
        /// What becomes of a node where everybody is spared.
        bare: Bare,
    },
    /// Keeps the first `most` of the candidates as they are, and no other.
    FirstOf {
        /// How many are kept.
        most: usize,
    },
    /// Keeps candidates with at most `most` violations of disruption budgets as they are, and no other.
    Budgets {
        /// How many violations are borne.
        most: i64,
    },
}

/// Who may be evicted on a node, as a policy sees it.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Eviction {
    /// Victims that may not be evicted.
    pub spared: BTreeSet<Victim>,
    /// Pods that shall be evicted as well.
    pub added: Vec<Victim>,
}

/// What a policy does with a node where it spares everybody.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Bare {
    /// It leaves the node out.
    LeftOut,
    /// It keeps the node, without any victim.
    Kept,
}
