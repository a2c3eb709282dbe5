//! Preemption candidates, and the policies' answers about them.

use std::collections::BTreeSet;

use serde::{Deserialize, Serialize};

use super::{Failing, Node, OnFailure};

/// A running pod, by its position among these.
pub type Victim = usize;

/// A pod that runs in the cluster.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Running {
    /// Its node.
    pub node: Node,
    /// `spec.priority`.
    pub priority: i32,
}

/// The evictions that would make room on one node. Mirrors `extenderv1.Victims`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub struct Candidate {
    /// The node.
    pub node: Node,
    /// The pods that would be evicted, in kube-scheduler's order.
    pub victims: Vec<Victim>,
    /// `NumPDBViolations`.
    pub violations: i64,
}

/// How an extender preempts.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Preempt {
    /// The effect of its failure: `ignorable`.
    pub on_failure: OnFailure,
    /// Whether it may name victims of its own.
    pub added: Added,
    /// Its answers.
    pub rule: PreemptRule,
    /// The order of its answers.
    pub order: Order,
    /// When it fails instead.
    pub failing: Failing,
    /// As [`super::Filter::blind`].
    pub blind: BTreeSet<Node>,
    /// Pods that it cannot name, because the gateway does not know them. None for a separate extender.
    pub unseen: BTreeSet<Victim>,
}

/// Whether a policy may name victims that were not offered. One of the gateway's deliberate differences:
/// kube-scheduler accepts any answer.
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

/// A policy's answer about candidates.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub enum PreemptRule {
    /// The same about a node whatever the set: by node of the cluster.
    PerNode {
        /// Which pods may be evicted there; `None`: none, the node is no longer a candidate.
        evictions: Vec<Option<Eviction>>,
        /// How a node is handled whose victims are all spared.
        bare: Bare,
    },
    /// Keeps the first `most` of the candidates as they are, and no other.
    FirstOf {
        /// How many are kept.
        most: usize,
    },
    /// Keeps candidates with at most `most` violations of disruption budgets as they are, and no other.
    Budgets {
        /// How many violations are accepted.
        most: i64,
    },
}

/// Which pods may be evicted on a node, according to a policy.
#[derive(Debug, Clone, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Eviction {
    /// Victims that may not be evicted.
    pub spared: BTreeSet<Victim>,
    /// Pods to be evicted as well.
    pub added: Vec<Victim>,
}

/// How a policy answers for a node whose victims it all spares.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Bare {
    /// It omits the node.
    LeftOut,
    /// It keeps the node, without any victim.
    Kept,
}
