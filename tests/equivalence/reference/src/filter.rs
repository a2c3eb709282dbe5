//! Filter, one extender after the other. Mirrors `findNodesThatPassExtenders`.

use std::collections::{BTreeMap, BTreeSet};

use crate::{
    interest,
    model::{Differences, Extender, Filter, Node, OnFailure, Pod, Preemption, Rejection},
    reason,
};

/// The result of a filter call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Filtered {
    /// Which extenders were called about which nodes, in order.
    pub asked: Vec<(usize, Vec<Node>)>,
    /// The failures.
    pub failures: Vec<usize>,
    /// The end.
    pub verdict: Verdict,
}

/// How a filter call ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Verdict {
    /// Every node is accepted or rejected.
    Decided {
        /// The offered nodes that are left, in the order and as often as they were offered.
        feasible: Vec<Node>,
        /// Why each of the others was rejected.
        statuses: BTreeMap<Node, Status>,
    },
    /// The attempt ends with an error of this extender.
    Failed(usize),
    /// No node is left, and this many were rejected only because the gateway does not know them.
    NotYetKnown(usize),
}

/// Why a node was rejected.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Status {
    /// The map of the reply.
    pub kind: Kind,
    /// The text there.
    pub reason: String,
}

/// The maps of an extender's reply.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Kind {
    /// `FailedNodes`: Unschedulable.
    Failed,
    /// `FailedAndUnresolvableNodes`: `UnschedulableAndUnresolvable`.
    Unresolvable,
}

/// Calls the extenders about these nodes. A node that is offered twice is one node, as docs/equivalence.md says:
/// policies see it once, at its first place.
pub fn filter(
    extenders: &[Extender],
    (pod, differences): (&Pod, &Differences),
    offered: &[Node],
) -> Filtered {
    let mut chain = Chain::new(offered, differences);
    for (position, extender) in interest::in_turn(extenders, (pod, differences), is_ignorable) {
        if chain.feasible.is_empty() {
            break;
        }
        let Some(filter) = &extender.filter else { continue };
        if chain.ask(position, (extender, filter)) == Next::Stop {
            let verdict = Verdict::Failed(position);
            return Filtered { asked: chain.asked, failures: chain.failures, verdict };
        }
    }
    let verdict = chain.verdict(offered);
    Filtered { asked: chain.asked, failures: chain.failures, verdict }
}

/// Each node once, at its first place.
pub fn distinct(nodes: &[Node]) -> Vec<Node> {
    let mut seen = BTreeSet::new();
    nodes.iter().copied().filter(|node| seen.insert(*node)).collect()
}

fn is_ignorable(extender: &Extender) -> bool {
    extender.filter.as_ref().is_some_and(|filter| filter.on_failure == OnFailure::Ignore)
}

#[derive(PartialEq, Eq)]
enum Next {
    Go,
    Stop,
}

struct Chain<'d> {
    differences: &'d Differences,
    feasible: Vec<Node>,
    statuses: BTreeMap<Node, Status>,
    /// Nodes that were rejected because the gateway does not know them.
    unknown: usize,
    asked: Vec<(usize, Vec<Node>)>,
    failures: Vec<usize>,
}

impl<'d> Chain<'d> {
    fn new(offered: &[Node], differences: &'d Differences) -> Self {
        Self {
            differences,
            feasible: distinct(offered),
            statuses: BTreeMap::new(),
            unknown: 0,
            asked: Vec::new(),
            failures: Vec::new(),
        }
    }

    fn ask(&mut self, position: usize, (extender, filter): (&Extender, &Filter)) -> Next {
        let (blind, set): (Vec<Node>, Vec<Node>) =
            self.feasible.iter().partition(|node| filter.blind.contains(node));
        if !set.is_empty() {
            self.asked.push((position, set.clone()));
            if filter.failing.fails(set.len()) {
                self.failures.push(position);
                return if filter.on_failure == OnFailure::Fail { Next::Stop } else { Next::Go };
            }
        }
        self.unknown += blind.len();
        for node in blind {
            let reason = reason::NOT_YET_KNOWN.to_owned();
            self.statuses.insert(node, Status { kind: Kind::Unresolvable, reason });
        }
        for (node, rejection) in set.iter().zip(filter.rule.verdicts(&set, 0)) {
            if let Some(rejection) = rejection {
                self.statuses.insert(*node, self.status((extender, filter), rejection));
            }
        }
        self.feasible.retain(|node| !self.statuses.contains_key(node));
        Next::Go
    }

    fn status(&self, (extender, filter): (&Extender, &Filter), rejection: &Rejection) -> Status {
        let helps = rejection.preemption_may_help && filter.preemption == Preemption::Honored;
        Status {
            kind: if helps { Kind::Failed } else { Kind::Unresolvable },
            reason: reason::shown(extender, &rejection.reason, self.differences.prefix),
        }
    }

    fn verdict(&self, offered: &[Node]) -> Verdict {
        if self.feasible.is_empty() && self.unknown > 0 {
            return Verdict::NotYetKnown(self.unknown);
        }
        let feasible = offered.iter().copied().filter(|node| !self.statuses.contains_key(node)).collect();
        Verdict::Decided { feasible, statuses: self.statuses.clone() }
    }
}
