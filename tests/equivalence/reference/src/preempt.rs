//! Preempt, one extender after the other. Mirrors `callExtenders` of kube-scheduler's preemption, and what
//! `HTTPExtender.ProcessPreemption` checks.

use crate::{
    interest,
    model::{Added, Candidate, Differences, Extender, Node, OnFailure, Pod, Preempt, Running, Victim},
    policy::Evicted,
};

/// kube-scheduler's input for the call.
#[derive(Debug, Clone, Copy)]
pub struct Room<'r> {
    /// Where evictions would make room: each node once, with at least one victim.
    pub candidates: &'r [Candidate],
    /// The pods of the cluster.
    pub running: &'r [Running],
}

/// The result of a preempt call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Preempted {
    /// Which extenders were called about which candidates, in order.
    pub asked: Vec<(usize, Vec<Candidate>)>,
    /// The failures.
    pub failures: Vec<(usize, Failure)>,
    /// The extenders that removed candidates or changed their victims.
    pub changes: Vec<usize>,
    /// The end.
    pub ending: Ending,
}

/// Why an extender's answer does not count.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Failure {
    /// There is no answer.
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
    /// No candidate is left, and this many were dropped only because the gateway does not know their nodes.
    NotYetKnown(usize),
}

/// Calls the extenders.
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

/// kube-scheduler has one `ignorable` for all verbs, which gives the order. The gateway has a failure policy for
/// each verb; that of filter gives the order, and extenders that do not filter come last: a deliberate difference.
fn comes_last(extender: &Extender) -> bool {
    extender.filter.as_ref().is_none_or(|filter| filter.on_failure == OnFailure::Ignore)
}

struct Chain<'r> {
    pod: &'r Pod,
    running: &'r [Running],
    left: Vec<Candidate>,
    /// Candidates that were dropped because the gateway does not know their nodes.
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
        left = with_victims(left, &set, preempt.on_failure)?;
        if left != set {
            self.changes.push(position);
        }
        self.unknown += blind.len();
        self.left = left;
        Ok(())
    }

    /// Mirrors `convertToVictims`, which only checks whether a pod is on the node. The rest is a deliberate
    /// difference of the gateway: the offered victims keep kube-scheduler's order and its count of violations;
    /// others follow them, and only those that may be named.
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

/// A node that an extender leaves without victims ends preemption, or is dropped if the extender is ignorable. One that was
/// offered without victims may stay so, as in kube-schedulers after 1.37.
fn with_victims(
    left: Vec<Candidate>,
    offered: &[Candidate],
    on_failure: OnFailure,
) -> Result<Vec<Candidate>, Failure> {
    let is_placeholder = |node| offered.iter().any(|one| one.node == node && one.victims.is_empty());
    let (some, none): (Vec<Candidate>, Vec<Candidate>) = left
        .into_iter()
        .partition(|candidate| !candidate.victims.is_empty() || is_placeholder(candidate.node));
    match (on_failure, none.first()) {
        (OnFailure::Fail, Some(candidate)) => Err(Failure::NoVictims(candidate.node)),
        _ => Ok(some),
    }
}
