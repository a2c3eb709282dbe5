//! The chain of one preempt call: each backend gets the candidates that the earlier ones left.
//! A backend keeps or drops candidates and victims, by position; it cannot add nodes, and can add pods only if the
//! operator allows it. The reference is `callExtenders` of kube-scheduler
//! (pkg/scheduler/framework/preemption/preemption.go) with one extender for each backend.

use std::{collections::HashSet, fmt};

use crate::{BackendFailure, FailureKind, FailurePolicy};

/// The evictions that would make room on one node.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Candidate {
    /// Position of the node in the call.
    pub node: u32,
    /// UIDs of the pods that would be evicted, in kube-scheduler's order. None if only an extender rejected the node: a
    /// placeholder, for which a backend may name victims.
    pub victims: Vec<String>,
    /// How many evictions violate a `PodDisruptionBudget`, as kube-scheduler counted them.
    pub pdb_violations: i64,
}

/// One candidate that a backend keeps.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Kept {
    /// Position among the candidates of its call.
    pub position: u32,
    /// Positions of the victims that it keeps, in any order.
    pub victims: Vec<u32>,
    /// UIDs of added victims, appended to the others.
    pub added: Vec<String>,
    /// The backend's number of violations; counts only if it may add victims.
    pub pdb_violations: Option<u32>,
}

/// Which victims a backend may add.
#[derive(Clone, Copy)]
pub enum Added<'a> {
    /// None: an answer that adds a pod is malformed.
    Refused,
    /// A pod that passes this check, which takes the node's position in the call and the pod's UID and returns what
    /// is wrong.
    Checked(&'a dyn Fn(u32, &str) -> Result<(), String>),
}

impl fmt::Debug for Added<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Refused => "Refused",
            Self::Checked(_) => "Checked",
        })
    }
}

/// The operator's settings for a backend.
#[derive(Debug, Clone, Copy)]
pub struct Terms<'a> {
    /// The failure policy.
    pub policy: FailurePolicy,
    /// Whether it may add victims.
    pub added: Added<'a>,
}

/// The effect of a backend's answer.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Taken {
    /// It was applied.
    Counted,
    /// It failed, and the backend is ignored.
    Skipped(BackendFailure),
    /// It failed, and the call ends with an error.
    Failed(BackendFailure),
}

/// The state of one preempt call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Chain {
    left: Vec<Candidate>,
}

impl Chain {
    /// Starts with kube-scheduler's candidates.
    pub fn begin(candidates: Vec<Candidate>) -> Self {
        Self { left: candidates }
    }

    /// The remaining candidates, in the call's order. Without any, no other backend is called.
    pub fn left(&self) -> &[Candidate] {
        &self.left
    }

    /// The remaining candidates.
    pub fn into_left(self) -> Vec<Candidate> {
        self.left
    }

    /// Takes the answer of a backend that was called with `asked`, some of the remaining candidates in order. If it
    /// is applied, only the candidates that it keeps remain.
    pub fn take(
        &mut self,
        asked: &[Candidate],
        answer: Result<Vec<Kept>, BackendFailure>,
        terms: Terms<'_>,
    ) -> Taken {
        match (answer.and_then(|kept| applied(asked, kept, terms)), terms.policy) {
            (Ok(left), _) => {
                self.left = left;
                Taken::Counted
            }
            (Err(failure), FailurePolicy::Fail) => Taken::Failed(failure),
            (Err(failure), FailurePolicy::Ignore) => Taken::Skipped(failure),
        }
    }
}

/// The candidates that an answer leaves.
fn applied(asked: &[Candidate], kept: Vec<Kept>, terms: Terms<'_>) -> Result<Vec<Candidate>, BackendFailure> {
    let mut left: Vec<Option<Candidate>> = vec![None; asked.len()];
    for kept in kept {
        let at = kept.position;
        let (Some(candidate), Some(place)) = (asked.get(at as usize), left.get_mut(at as usize)) else {
            let count = asked.len();
            return Err(malformed(format!(
                "position {at} is out of range: the request has {count} candidates"
            )));
        };
        if place.is_some() {
            return Err(malformed(format!("position {at} is kept twice")));
        }
        *place = Some(candidate_left(candidate, kept, terms.added)?);
    }
    let left = asked.iter().zip(left).filter_map(|(offered, left)| Some((offered, left?)));
    let is_emptied =
        |(offered, left): &(&Candidate, Candidate)| left.victims.is_empty() && !offered.victims.is_empty();
    match terms.policy {
        FailurePolicy::Fail if left.clone().any(|both| is_emptied(&both)) => {
            Err(malformed("a candidate is kept without any victim".to_owned()))
        }
        // As kube-scheduler does it for an ignorable extender.
        _ => Ok(left.filter(|both| !is_emptied(both)).map(|(_, left)| left).collect()),
    }
}

fn candidate_left(candidate: &Candidate, kept: Kept, added: Added<'_>) -> Result<Candidate, BackendFailure> {
    let mut victims = victims_left(candidate, &kept)?;
    let sent = u32::try_from(candidate.pdb_violations.max(0)).unwrap_or(u32::MAX);
    let pdb_violations = match (added, kept.pdb_violations) {
        (Added::Checked(_), Some(counted)) if counted != sent => counted.into(),
        _ => candidate.pdb_violations,
    };
    if kept.added.is_empty() {
        return Ok(Candidate { victims, pdb_violations, ..*candidate });
    }
    // A set, since both the added and the existing victims may be many.
    let mut named: HashSet<String> = candidate.victims.iter().cloned().collect();
    for uid in kept.added {
        let Added::Checked(check) = added else {
            return Err(malformed(format!(
                "victim {uid} was not offered, and preempt.addedVictims is Refused"
            )));
        };
        if !named.insert(uid.clone()) {
            return Err(malformed(format!("added victim {uid} is already a victim")));
        }
        check(candidate.node, &uid)
            .map_err(|wrong| malformed(format!("cannot add victim {uid}: {wrong}")))?;
        victims.push(uid);
    }
    Ok(Candidate { victims, pdb_violations, ..*candidate })
}

/// The kept ones of the offered victims, in kube-scheduler's order.
fn victims_left(candidate: &Candidate, kept: &Kept) -> Result<Vec<String>, BackendFailure> {
    let mut stays = vec![false; candidate.victims.len()];
    for at in &kept.victims {
        match stays.get_mut(*at as usize) {
            None => {
                let (count, position) = (stays.len(), kept.position);
                return Err(malformed(format!(
                    "victim {at} of position {position} is out of range: it has {count} victims"
                )));
            }
            Some(true) => {
                return Err(malformed(format!("victim {at} of position {} is kept twice", kept.position)));
            }
            Some(stays) => *stays = true,
        }
    }
    let victims = candidate.victims.iter().zip(stays);
    Ok(victims.filter(|(_, stays)| *stays).map(|(uid, _)| uid.clone()).collect())
}

fn malformed(detail: String) -> BackendFailure {
    BackendFailure::new(FailureKind::Malformed, detail)
}

#[cfg(test)]
mod tests;
