//! Preempt, one extender after the other. Mirrors `callExtenders` of kube-scheduler's preemption, and what
//! `HTTPExtender.ProcessPreemption` checks.

use crate::{
    interest,
    model::{Added, Candidate, Differences, Extender, Node, OnFailure, Pod, Preempt, Running, Victim},
    policy::Evicted,
};

/// What kube-scheduler knows when it asks who may be evicted.
#[derive(Debug, Clone, Copy)]
pub struct Room<'r> {
    /// Where evictions would make room: each node once, with at least one victim.
    pub candidates: &'r [Candidate],
    /// The pods of the cluster.
    pub running: &'r [Running],
}

/// What became of a preempt call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preempted {
    /// Who was asked about which candidates, in order.
    pub asked: Vec<(usize, Vec<Candidate>)>,
    /// The failures that were met.
    pub failures: Vec<(usize, Failure)>,
    /// Who made the candidates fewer, or their victims others.
    pub changes: Vec<usize>,
    /// The end.
    pub ending: Ending,
}

/// Why an extender's answer does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// There is none.
    NoAnswer,
    /// It has a node without victims, under [`OnFailure::Fail`].
    NoVictims(Node),
    /// It names a victim that it may not name.
    Stranger(Victim),
}

/// How a preempt call ends.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// These candidates are left, perhaps none.
    Left(Vec<Candidate>),
    /// Preemption ends with an error of this extender.
    Failed(usize),
    /// No candidate is left, and so many only fell because the gateway does not know their nodes.
    NotYetKnown(usize),
}

/// Asks the extenders who may be evicted.
pub fn preempt(
    extenders: &[Extender],
    (pod, differences): (&Pod, &Differences),
    room: Room<'_>,
) -> Preempted {
    let mut chain = Chain::new(pod, room);
    for (position, extender) in interest::in_turn(extenders, (pod, differences), comes_last) {
        if chain.left.is_empty() {
            break;
        }
        let Some(preempt) = &extender.preempt else { continue };
        if let Err(failure) = chain.ask(position, preempt) {
            chain.failures.push((position, failure));
            if preempt.on_failure == OnFailure::Fail {
                return chain.end(Ending::Failed(position));
            }
        }
    }
    let ending = match (chain.left.is_empty(), chain.unknown) {
        (true, 1..) => Ending::NotYetKnown(chain.unknown),
        _ => Ending::Left(chain.left.clone()),
    };
    chain.end(ending)
}

/// Kube-scheduler has one `ignorable` for all verbs, which gives the order. The gateway has a failure policy
/// for each verb; there that of filter gives it, and who does not filter comes last: a deliberate difference.
fn comes_last(extender: &Extender) -> bool {
    extender.filter.as_ref().is_none_or(|filter| filter.on_failure == OnFailure::Ignore)
}

struct Chain<'r> {
    pod: &'r Pod,
    running: &'r [Running],
    left: Vec<Candidate>,
    /// Candidates that fell because the gateway does not know their nodes.
    unknown: usize,
    asked: Vec<(usize, Vec<Candidate>)>,
    failures: Vec<(usize, Failure)>,
    changes: Vec<usize>,
}

impl<'r> Chain<'r> {
    fn new(pod: &'r Pod, Room { candidates, running }: Room<'r>) -> Self {
        Self {
            pod,
            running,
            left: candidates.to_vec(),
            unknown: 0,
            asked: Vec::new(),
            failures: Vec::new(),
            changes: Vec::new(),
        }
    }

    /// Mirrors one turn of the loop in `callExtenders`.
    fn ask(&mut self, position: usize, preempt: &Preempt) -> Result<(), Failure> {
        let (blind, set): (Vec<Candidate>, Vec<Candidate>) =
            self.left.iter().cloned().partition(|candidate| preempt.blind.contains(&candidate.node));
        let mut left = Vec::new();
        if !set.is_empty() {
            self.asked.push((position, set.clone()));
            if preempt.failing.fails(set.len()) {
                return Err(Failure::NoAnswer);
            }
            for (candidate, kept) in set.iter().zip(preempt.kept(&set)) {
                if let Some(evicted) = kept {
                    left.push(self.converted(preempt, candidate, evicted)?);
                }
            }
        }
        left = with_victims(left, preempt.on_failure)?;
        if left != set {
            self.changes.push(position);
        }
        self.unknown += blind.len();
        self.left = left;
        Ok(())
    }

    /// Mirrors `convertToVictims`, which only asks whether a pod is on the node. The rest is the gateway's, a
    /// deliberate difference: the offered victims stay in kube-scheduler's order, and with its count of
    /// violations; others come behind them, and only those that may be named.
    fn converted(
        &self,
        preempt: &Preempt,
        offered: &Candidate,
        evicted: Evicted,
    ) -> Result<Candidate, Failure> {
        let mut victims = offered.victims.clone();
        victims.retain(|victim| evicted.offered.contains(victim));
        for added in evicted.added {
            if offered.victims.contains(&added)
                || victims.contains(&added)
                || !self.may_be_named(preempt, added, offered.node)
            {
                return Err(Failure::Stranger(added));
            }
            victims.push(added);
        }
        Ok(Candidate { victims, ..offered.clone() })
    }

    fn may_be_named(&self, preempt: &Preempt, victim: Victim, node: Node) -> bool {
        let running = self.running[victim];
        running.node == node
            && preempt.added == Added::Allowed
            && running.priority < self.pod.priority
            && !preempt.unseen.contains(&victim)
    }

    fn end(self, ending: Ending) -> Preempted {
        let Self { asked, failures, changes, .. } = self;
        Preempted { asked, failures, changes, ending }
    }
}

/// A node without victims ends preemption, or is dropped when the extender is ignorable.
fn with_victims(left: Vec<Candidate>, on_failure: OnFailure) -> Result<Vec<Candidate>, Failure> {
    let (some, none): (Vec<Candidate>, Vec<Candidate>) =
        left.into_iter().partition(|candidate| !candidate.victims.is_empty());
    match (on_failure, none.first()) {
        (OnFailure::Fail, Some(candidate)) => Err(Failure::NoVictims(candidate.node)),
        _ => Ok(some),
    }
}

#[cfg(test)]
mod tests;
