//! The inputs and outputs of the fold.

use crate::{BackendFailure, FailurePolicy};

/// One backend's place in the fold. The order of seats is the effective order ([`crate::order`]).
#[derive(Debug, Clone)]
pub struct Seat {
    /// The failure policy.
    pub policy: FailurePolicy,
    /// When it is called.
    pub turn: Turn,
    /// Whether it may declare that preemption could help.
    pub preemption: Preemption,
    /// The gateway rejects these nodes, at this seat's place in the order, if the backend's answer counts.
    pub not_sent: NotSent,
}

/// The nodes of a call that one backend is not sent, by their positions, ascending.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct NotSent {
    /// Nodes without the facts that it needs, which may become known in a moment.
    pub unknown: Vec<u32>,
    /// Nodes that the gateway cannot read: a retry would not help.
    pub unreadable: Vec<u32>,
    /// Deleted nodes: a retry would not help either.
    pub deleted: Vec<u32>,
    /// Nodes that are too large for a request to this backend.
    pub oversize: Vec<u32>,
}

impl NotSent {
    /// In the order of the fields.
    pub fn lists(&self) -> [&[u32]; 4] {
        let Self { unknown, unreadable, deleted, oversize } = self;
        [unknown, unreadable, deleted, oversize]
    }
}

/// When a backend is called.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Immediately: its verdict on a node depends only on that node.
    Parallel,
    /// After all earlier ones, with the nodes they left: its verdict depends on the whole set, or its call has side
    /// effects.
    InTurn,
}

/// Whether a backend may declare that evicting pods could change its verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preemption {
    /// Never, regardless of the backend's answer.
    Ignored,
    /// As the backend declares.
    Honored,
}

/// The nodes of a call to a backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// All nodes of the call.
    All,
    /// Those at these positions of the call, ascending.
    Some(Vec<u32>),
}

/// A call to make to a backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// Its seat, counted from 0.
    pub seat: usize,
    /// The nodes, at least one.
    pub nodes: Asked,
}

/// Nodes that a backend rejects for one reason, by one rule.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Refusal {
    /// The backend's reason.
    pub reason: String,
    /// The name of the backend's rule; empty if it names none.
    pub rule: String,
    /// Evicting pods could change the verdict.
    pub preemption_may_help: bool,
    /// In how many seconds from the answer the verdict can be another one at the earliest, if only time passes; `None` if that is
    /// not known.
    pub retry_after: Option<u32>,
    /// Positions in the request to the backend (not in kube-scheduler's call), each at most once and within range.
    pub positions: Vec<u32>,
}

/// Whether a failed backend may be called once more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// Time is left.
    InTime,
    /// No time is left.
    TooLate,
}

/// What rejected nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum By {
    /// The backend at this seat.
    Seat(usize),
    /// The gateway, for the backend at this seat, which needed facts about the nodes.
    Unknown(usize),
    /// The gateway, for the backend at this seat, about nodes that it cannot read.
    Unreadable(usize),
    /// The gateway, for the backend at this seat, about nodes that were deleted.
    Deleted(usize),
    /// The gateway, for the backend at this seat, about nodes that are too large for a request to it.
    Oversize(usize),
}

/// A rejection. Nodes refer to it by its index in [`Rejected::groups`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// Its source.
    pub by: By,
    /// The backend's reason; empty if the gateway rejects.
    pub reason: String,
    /// Evicting pods could help, and the operator allows the backend to declare it.
    pub preemption_may_help: bool,
}

/// How a filter call ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Every node is accepted or rejected.
    Decided(Rejected),
    /// A backend with [`FailurePolicy::Fail`] failed: the call ends with an error.
    Failed {
        /// Its seat.
        seat: usize,
        /// The failure.
        failure: BackendFailure,
    },
    /// No node is left, and some were rejected only because the gateway does not know them yet: an error, so that
    /// the pod is retried soon.
    NotYetKnown {
        /// Their number.
        nodes: u32,
    },
}

/// The rejected nodes.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rejected {
    /// The rejections.
    pub groups: Vec<Group>,
    /// For each node of the call, in order: `None` where it is accepted, else the index of its group.
    /// Empty when no node was rejected.
    pub nodes: Vec<Option<u32>>,
}

/// A backend's answer, whether it counted or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    /// The nodes of its call.
    pub nodes: Asked,
    /// Those of them that it rejects.
    pub refusals: Vec<Refusal>,
}

impl Heard {
    /// The positions in kube-scheduler's call of the nodes of a rejection.
    pub fn in_call<'h>(&'h self, refusal: &'h Refusal) -> impl Iterator<Item = u32> + 'h {
        refusal.positions.iter().map(|at| match &self.nodes {
            Asked::All => *at,
            Asked::Some(positions) => positions[*at as usize],
        })
    }
}
