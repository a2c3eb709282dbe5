//! The ordered fold of one filter call. Backends are called in parallel, and the verdict equals that of calling
//! them in turn: an answer, or a failure, counts only if a node survives all earlier backends. The reference is
//! `findNodesThatPassExtenders` of kube-scheduler with one extender for each backend.
//! [`FilterFold::begin`] returns the first calls; each answer is passed to [`FilterFold::answer`], which may return
//! more calls; once [`FilterFold::verdict`] returns a verdict, calls in progress are no longer needed.

mod terms;

use std::mem;

pub use self::terms::{
    Again, Ask, Asked, By, Group, Heard, NotSent, Preemption, Refusal, Rejected, Seat, Turn, Verdict,
};
use crate::{BackendFailure, FailurePolicy};

#[derive(Debug)]
enum Progress {
    /// Not called yet.
    Waiting,
    /// Called; no answer yet.
    Asked { nodes: Asked },
    /// Answered, and not yet counted.
    Answered(Heard),
    /// Failed, and not yet counted.
    Failed { nodes: Asked, again: Again, failure: BackendFailure },
    /// Answered, and counted.
    Counted(Heard),
}

/// The state of one filter call. See the module's text.
#[derive(Debug)]
pub struct FilterFold {
    count: u32,
    seats: Vec<Seat>,
    progress: Vec<Progress>,
    /// The first seat whose answer has not been counted.
    next: usize,
    alive: u32,
    unknown: u32,
    rejected: Rejected,
    verdict: Option<Verdict>,
}

impl FilterFold {
    /// Begins a call with `count` distinct nodes. Returns the first calls to make.
    pub fn begin(count: u32, seats: Vec<Seat>) -> (Self, Vec<Ask>) {
        let progress = seats.iter().map(|_| Progress::Waiting).collect();
        let rejected = Rejected::default();
        let mut fold =
            Self { count, seats, progress, next: 0, alive: count, unknown: 0, rejected, verdict: None };
        let mut asks = fold.ask_parallel();
        fold.advance(&mut asks);
        (fold, asks)
    }

    /// Takes the answer or the failure of the backend at `seat`; returns the next calls to make. An unexpected
    /// answer is ignored.
    pub fn answer(
        &mut self,
        seat: usize,
        answer: Result<Vec<Refusal>, BackendFailure>,
        again: Again,
    ) -> Vec<Ask> {
        let Progress::Asked { nodes } = &mut self.progress[seat] else { return Vec::new() };
        let nodes = mem::replace(nodes, Asked::All);
        self.progress[seat] = match answer {
            Ok(refusals) => Progress::Answered(Heard { nodes, refusals }),
            Err(failure) => Progress::Failed { nodes, again, failure },
        };
        let mut asks = Vec::new();
        self.advance(&mut asks);
        asks
    }

    /// The verdict, once it is certain.
    pub fn verdict(&self) -> Option<&Verdict> {
        self.verdict.as_ref()
    }

    /// The verdict, `None` while it is not certain, and the answer of each seat, `None` without one.
    pub fn end(self) -> (Option<Verdict>, Vec<Option<Heard>>) {
        let heard = |progress| match progress {
            Progress::Answered(heard) | Progress::Counted(heard) => Some(heard),
            Progress::Waiting | Progress::Asked { .. } | Progress::Failed { .. } => None,
        };
        (self.verdict, self.progress.into_iter().map(heard).collect())
    }

    /// The seats whose answers are outstanding, in order.
    pub fn outstanding(&self) -> impl Iterator<Item = usize> {
        (self.next..self.seats.len()).filter(|&seat| matches!(self.progress[seat], Progress::Asked { .. }))
    }

    fn ask_parallel(&mut self) -> Vec<Ask> {
        let parallel = (0..self.seats.len()).filter(|&seat| self.seats[seat].turn == Turn::Parallel);
        parallel.collect::<Vec<_>>().into_iter().filter_map(|seat| self.ask(seat)).collect()
    }

    /// Calls a seat for the remaining nodes, without those that the gateway rejects for it.
    fn ask(&mut self, seat: usize) -> Option<Ask> {
        let nodes = self.survivors_for(seat);
        if self.len(&nodes) == 0 {
            self.progress[seat] = Progress::Answered(Heard { nodes, refusals: Vec::new() });
            return None;
        }
        self.progress[seat] = Progress::Asked { nodes: nodes.clone() };
        Some(Ask { seat, nodes })
    }

    fn survivors_for(&self, seat: usize) -> Asked {
        let untold = self.seats[seat].not_sent.lists();
        if self.alive == self.count && untold.iter().all(|nodes| nodes.is_empty()) {
            return Asked::All;
        }
        let is_told = |at: &u32| untold.iter().all(|nodes| nodes.binary_search(at).is_err());
        let known = |at: &u32| self.is_alive(*at) && is_told(at);
        Asked::Some((0..self.count).filter(known).collect())
    }

    fn is_alive(&self, at: u32) -> bool {
        self.rejected.nodes.get(at as usize).is_none_or(Option::is_none)
    }

    fn len(&self, nodes: &Asked) -> u32 {
        match nodes {
            Asked::All => self.count,
            Asked::Some(positions) => u32::try_from(positions.len()).unwrap_or(u32::MAX),
        }
    }

    /// Counts the available answers in order.
    fn advance(&mut self, asks: &mut Vec<Ask>) {
        while self.verdict.is_none() {
            if self.next == self.seats.len() || self.alive == 0 {
                self.verdict = Some(self.conclude());
                return;
            }
            if !self.count_seat(self.next, asks) {
                return;
            }
            self.next += 1;
        }
    }

    fn conclude(&mut self) -> Verdict {
        if self.alive == 0 && self.unknown > 0 {
            return Verdict::NotYetKnown { nodes: self.unknown };
        }
        Verdict::Decided(mem::take(&mut self.rejected))
    }

    /// Counts the answer of one seat. False if it is outstanding.
    fn count_seat(&mut self, seat: usize, asks: &mut Vec<Ask>) -> bool {
        match mem::replace(&mut self.progress[seat], Progress::Waiting) {
            Progress::Answered(heard) => {
                self.reject(seat, &heard);
                self.progress[seat] = Progress::Counted(heard);
            }
            Progress::Failed { nodes, again, failure } => {
                let left = self.survivors_for(seat);
                // At most once: a repeated call contains exactly the remaining nodes.
                let fewer = self.len(&nodes) > self.len(&left);
                // Called in turn, without nodes, it would not have been called and could not have failed.
                if self.len(&left) == 0 || (fewer && again == Again::InTime) {
                    return self.ask_in_turn(seat, asks);
                }
                self.fail(seat, failure);
            }
            Progress::Waiting => return self.ask_in_turn(seat, asks),
            asked @ (Progress::Asked { .. } | Progress::Counted(_)) => {
                self.progress[seat] = asked;
                return false;
            }
        }
        true
    }

    /// Calls a seat for the nodes that the earlier ones left. True if there are none, which counts as an answer.
    fn ask_in_turn(&mut self, seat: usize, asks: &mut Vec<Ask>) -> bool {
        match self.ask(seat) {
            Some(ask) => {
                asks.push(ask);
                false
            }
            None => self.count_seat(seat, asks),
        }
    }

    fn fail(&mut self, seat: usize, failure: BackendFailure) {
        if self.seats[seat].policy == FailurePolicy::Fail {
            self.verdict = Some(Verdict::Failed { seat, failure });
        }
    }

    fn reject_unknown(&mut self, seat: usize) {
        let NotSent { unknown, unreadable, deleted, oversize } = mem::take(&mut self.seats[seat].not_sent);
        let mut reject = |by: By, nodes: Vec<u32>| {
            let group = || Group { by, reason: String::new(), preemption_may_help: false };
            if nodes.is_empty() { 0 } else { self.reject_group(group, nodes.into_iter()) }
        };
        reject(By::Unreadable(seat), unreadable);
        reject(By::Deleted(seat), deleted);
        reject(By::Oversize(seat), oversize);
        let unknown = reject(By::Unknown(seat), unknown);
        self.unknown += unknown;
    }

    /// Applies an answer: rejects the nodes that it rejects, and those without the facts that the backend needs.
    fn reject(&mut self, seat: usize, heard: &Heard) {
        self.reject_unknown(seat);
        let honored = self.seats[seat].preemption == Preemption::Honored;
        for refusal in &heard.refusals {
            let group = || Group {
                by: By::Seat(seat),
                reason: refusal.reason.clone(),
                preemption_may_help: honored && refusal.preemption_may_help,
            };
            self.reject_group(group, heard.in_call(refusal));
        }
    }

    /// Rejects those of `positions` that are still alive; returns how many.
    fn reject_group(&mut self, group: impl FnOnce() -> Group, positions: impl Iterator<Item = u32>) -> u32 {
        let before = self.alive;
        let index = u32::try_from(self.rejected.groups.len()).unwrap_or(u32::MAX);
        for at in positions {
            // Allocated at the first rejection; without one the list stays empty.
            self.rejected.nodes.resize(self.count as usize, None);
            let node = &mut self.rejected.nodes[at as usize];
            if node.is_none() {
                *node = Some(index);
                self.alive -= 1;
            }
        }
        if self.alive < before {
            self.rejected.groups.push(group());
        }
        before - self.alive
    }
}

#[cfg(test)]
mod tests;
