//! What the policies themselves say: the same for an extender that stands alone and for a backend.

use crate::model::{
    Bare, Candidate, Eviction, Failing, FilterRule, Node, Order, Preempt, PreemptRule, Rejection, ScoreRule,
    Victim,
};

/// Who is evicted on a node, as a policy says it.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Evicted {
    /// Those of the offered victims, in the policy's order.
    pub offered: Vec<Victim>,
    /// Others.
    pub added: Vec<Victim>,
}

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

impl Preempt {
    /// What is said about each candidate of a set, in its order: who is evicted there, or nothing when it is
    /// no candidate any more.
    pub fn kept(&self, set: &[Candidate]) -> Vec<Option<Evicted>> {
        let mut kept: Vec<_> =
            set.iter().enumerate().map(|(rank, candidate)| self.rule.evicted(rank, candidate)).collect();
        if self.order == Order::Reversed {
            kept.iter_mut().flatten().for_each(|evicted| evicted.offered.reverse());
        }
        kept
    }
}

impl PreemptRule {
    fn evicted(&self, rank: usize, candidate: &Candidate) -> Option<Evicted> {
        let as_offered = || Evicted { offered: candidate.victims.clone(), added: Vec::new() };
        match self {
            Self::PerNode { evictions, bare } => {
                let evicted = evictions[candidate.node].as_ref()?.of(candidate);
                let is_bare = evicted == Evicted::default();
                (!is_bare || *bare == Bare::Kept).then_some(evicted)
            }
            Self::FirstOf { most } => (rank < *most).then(as_offered),
            Self::Budgets { most } => (candidate.violations <= *most).then(as_offered),
        }
    }
}

impl Eviction {
    fn of(&self, candidate: &Candidate) -> Evicted {
        let mut offered = candidate.victims.clone();
        offered.retain(|victim| !self.spared.contains(victim));
        Evicted { offered, added: self.added.clone() }
    }
}
