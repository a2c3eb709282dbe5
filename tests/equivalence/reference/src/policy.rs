//! What the policies themselves say: the same for an extender that stands alone and for a backend.

use crate::model::{Failing, FilterRule, Node, Rejection, ScoreRule};

impl Failing {
    /// Whether a question about so many nodes fails.
    pub fn fails(self, nodes: usize) -> bool {
        match self {
            Self::Never => false,
            Self::Always => true,
            Self::Beyond(most) => nodes > most,
        }
    }
}

impl FilterRule {
    /// What is said about each node of a set, in its order: why it is rejected, or nothing. `before` is how
    /// often it was asked before in the same call.
    pub fn verdicts(&self, set: &[Node], before: usize) -> Vec<Option<&Rejection>> {
        let verdict = |(rank, node): (usize, &Node)| match self {
            Self::PerNode(table) => table[*node].as_ref(),
            Self::FirstOf { most, rest } => (rank >= *most).then_some(rest),
            Self::AtLeast { least, smaller } => (set.len() < *least).then_some(smaller),
            Self::Once { again } => (before > 0).then_some(again),
        };
        set.iter().enumerate().map(verdict).collect()
    }
}

impl ScoreRule {
    /// The raw score of each node of a set, in its order.
    pub fn scores(&self, set: &[Node]) -> Vec<i32> {
        let score = |(rank, node): (usize, &Node)| match self {
            Self::PerNode(table) => table[*node],
            Self::ByRank { first, step } => {
                let rank = i32::try_from(rank).unwrap_or(i32::MAX);
                first.saturating_add(step.saturating_mul(rank))
            }
        };
        set.iter().enumerate().map(score).collect()
    }
}
