//! What goes into the fold, and what comes out of it.

use crate::{BackendFailure, FailurePolicy};

/// One backend's place in the fold. The order of seats is the effective order ([`crate::order`]).
#[derive(Debug, Clone)]
pub struct Seat {
    /// What its failure means.
    pub policy: FailurePolicy,
    /// When it is asked.
    pub turn: Turn,
    /// Whether its word that preemption may help counts.
    pub preemption: Preemption,
    /// Positions of nodes that it needs to know more about than the gateway does, ascending. They are
    /// rejected by the gateway, at this seat's place in the order, if the backend's answer counts.
    pub unknown: Vec<u32>,
    /// As `unknown`, of nodes that were deleted: they are rejected like it, and trying again would not help.
    pub deleted: Vec<u32>,
    /// The same of nodes that are too large for a question to this backend.
    pub oversize: Vec<u32>,
}

/// When a backend is asked.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// At once: its verdict on a node depends on that node alone.
    Parallel,
    /// After all earlier ones, with the nodes they left: its verdict depends on the whole set, or
    /// asking it changes something.
    InTurn,
}

/// Whether a backend may say that evicting pods would change its verdict.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Preemption {
    /// It never helps, whatever the backend says.
    Ignored,
    /// As the backend says.
    Honored,
}

/// Nodes to ask a backend about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Asked {
    /// All nodes of the call.
    All,
    /// Those at these positions of the call, ascending.
    Some(Vec<u32>),
}

/// A question to put to a backend.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Ask {
    /// Which one: its seat, counted from 0.
    pub seat: usize,
    /// About which nodes; never about none.
    pub nodes: Asked,
}

/// Nodes that a backend refuses for one reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Refusal {
    /// Why, as the backend said it.
    pub reason: String,
    /// The backend says that evicting pods could change its mind.
    pub preemption_may_help: bool,
    /// Positions in the question (not in the call), each once and within it.
    pub positions: Vec<u32>,
}

/// Whether a backend that failed may be asked once more.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Again {
    /// There is time.
    InTime,
    /// There is not.
    TooLate,
}

/// Who rejected nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum By {
    /// The backend at this seat.
    Seat(usize),
    /// The gateway, for the backend at this seat, which needed to know more about the nodes.
    Unknown(usize),
    /// The gateway, for the backend at this seat, about nodes that were deleted.
    Deleted(usize),
    /// The gateway, for the backend at this seat, about nodes that are too large for a question to it.
    Oversize(usize),
}

/// One way of being rejected. Nodes refer to it by its index in [`Rejected::groups`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Group {
    /// By whom.
    pub by: By,
    /// Why, as the backend said it; empty where the gateway rejects.
    pub reason: String,
    /// Evicting pods could help, and the operator lets the backend say so.
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
        /// How.
        failure: BackendFailure,
    },
    /// No node is left, and some were rejected only because the gateway does not know them yet: an
    /// error, so that the pod is tried again soon.
    NotYetKnown {
        /// How many.
        nodes: u32,
    },
}

/// The nodes that fell.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Rejected {
    /// The ways of being rejected that occurred.
    pub groups: Vec<Group>,
    /// For each node of the call, in order: `None` where it is accepted, else the index of its group.
    /// Empty when no node was rejected.
    pub nodes: Vec<Option<u32>>,
}

/// What a backend answered, whether it counted or not.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Heard {
    /// The nodes that it was asked about.
    pub nodes: Asked,
    /// Those of them that it refuses.
    pub refusals: Vec<Refusal>,
}

impl Heard {
    /// The positions in the call of what a refusal is about.
    pub fn in_call<'h>(&'h self, refusal: &'h Refusal) -> impl Iterator<Item = u32> + 'h {
        refusal.positions.iter().map(|at| match &self.nodes {
            Asked::All => *at,
            Asked::Some(positions) => positions[*at as usize],
        })
    }
}
