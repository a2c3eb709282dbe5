//! The policies' own answers: the same for a separate extender and for a backend.

use crate::model::{
    Bare, Candidate, Eviction, Failing, FilterRule, Node, Order, Preempt, PreemptRule, Rejection, ScoreRule,
    Victim,
};

/// The pods that a policy evicts on a node.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Evicted {
    /// Those of the offered victims, in the policy's order.
    pub offered: Vec<Victim>,
    /// Others.
    pub added: Vec<Victim>,
}

impl Failing {
    /// Whether a request about this many nodes fails.
    pub fn fails(self, nodes: usize) -> bool {
        match self {
            Self::Never => false,
            Self::Always => true,
            Self::Beyond(most) => nodes > most,
        }
    }
}

impl FilterRule {
    /// The answer about each node of a set, in its order: the rejection, or none. `before` is the number of earlier
    /// requests in the same call.
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
    /// The answer about each candidate of a set, in its order: the evictions there, or none if it is no longer a
    /// candidate.
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
