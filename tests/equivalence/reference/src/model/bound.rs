//! Pods that are bound to nodes, and what they have in common.

use serde::{Deserialize, Serialize};

use super::{Node, Pod};

/// A pod that is, was or will be bound to a node.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct BoundPod {
    /// The node.
    pub node: Node,
    /// How far it has come.
    pub life: Life,
    /// The pod.
    pub pod: Pod,
}

/// How far a pod has come.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Life {
    /// It does not exist, not yet or no longer.
    Absent,
    /// It is not bound yet.
    Pending,
    /// It runs.
    Running,
    /// It runs and is being deleted.
    Terminating,
    /// It has ended: `Succeeded`.
    Succeeded,
    /// It has ended: `Failed`.
    Failed,
}

/// What pods have in common to be counted together.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum CountedBy {
    /// The controller.
    Owner,
    /// The namespace.
    Namespace,
    /// The namespace, and the value of this label.
    Label(&'static str),
    /// The priority class.
    PriorityClass,
}
