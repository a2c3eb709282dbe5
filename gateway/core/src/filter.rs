//! The ordered fold of one filter call.
//!
//! Backends are asked in parallel, and the verdict is the one that asking them in turn would have given:
//! an answer, or a failure, counts only if a node survives all earlier backends. The reference is
//! `findNodesThatPassExtenders` of kube-scheduler with one extender for each backend.
//!
//! [`FilterFold::begin`] says whom to ask at once; each answer goes to [`FilterFold::answer`], which may
//! ask for more; when [`FilterFold::verdict`] is there, whatever is still under way is no longer needed.

mod terms;

use std::mem;

pub use self::terms::{
    Again, Ask, Asked, By, Group, Heard, Preemption, Refusal, Rejected, Seat, Turn, Verdict,
};
use crate::{BackendFailure, FailurePolicy};

#[derive(Debug)]
enum Progress {
    /// Not asked yet.
    Waiting,
    /// Asked; no answer yet.
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
    /// Begins a call about `count` nodes, all of them different. Returns the questions to ask at once.
    pub fn begin(count: u32, seats: Vec<Seat>) -> (Self, Vec<Ask>) {
        let progress = seats.iter().map(|_| Progress::Waiting).collect();
        let rejected = Rejected::default();
        let mut fold =
            Self { count, seats, progress, next: 0, alive: count, unknown: 0, rejected, verdict: None };
        let mut asks = fold.ask_parallel();
        fold.advance(&mut asks);
        (fold, asks)
    }

    /// Takes the answer to a question that was asked of `seat`, or says why there is none; returns what
    /// to ask next. An answer nobody waits for is ignored.
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

    /// The verdict, `None` while it is not certain, and what was heard from each seat, `None` where nothing was.
    pub fn end(self) -> (Option<Verdict>, Vec<Option<Heard>>) {
        let heard = |progress| match progress {
            Progress::Answered(heard) | Progress::Counted(heard) => Some(heard),
            Progress::Waiting | Progress::Asked { .. } | Progress::Failed { .. } => None,
        };
        (self.verdict, self.progress.into_iter().map(heard).collect())
    }

    /// The seats whose answer is still waited for, in order.
    pub fn outstanding(&self) -> impl Iterator<Item = usize> {
        (self.next..self.seats.len()).filter(|&seat| matches!(self.progress[seat], Progress::Asked { .. }))
    }

    fn ask_parallel(&mut self) -> Vec<Ask> {
        let parallel = (0..self.seats.len()).filter(|&seat| self.seats[seat].turn == Turn::Parallel);
        parallel.collect::<Vec<_>>().into_iter().filter_map(|seat| self.ask(seat)).collect()
    }

    /// Asks a seat about the nodes that are left, without those that the gateway rejects for it.
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
        let Seat { unknown, deleted, oversize, .. } = &self.seats[seat];
        let untold = [unknown, deleted, oversize];
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

    /// Counts answers in order, as far as they are there.
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

    /// Counts the answer of one seat. False when it is not there yet.
    fn count_seat(&mut self, seat: usize, asks: &mut Vec<Ask>) -> bool {
        match mem::replace(&mut self.progress[seat], Progress::Waiting) {
            Progress::Answered(heard) => {
                self.reject(seat, &heard);
                self.progress[seat] = Progress::Counted(heard);
            }
            Progress::Failed { nodes, again, failure } => {
                let left = self.survivors_for(seat);
                // Once at most: a repetition is about exactly those that are left.
                let fewer = self.len(&nodes) > self.len(&left);
                // Asked in turn about no node, it would not have been asked, and could not have failed.
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

    /// Asks a seat about what the earlier ones left. True when that is nothing, which is an answer.
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
        let Seat { unknown, deleted, oversize, .. } = &mut self.seats[seat];
        let [unknown, deleted, oversize] = [unknown, deleted, oversize].map(mem::take);
        let mut reject = |by: By, nodes: Vec<u32>| {
            let group = || Group { by, reason: String::new(), preemption_may_help: false };
            if nodes.is_empty() { 0 } else { self.reject_group(group, nodes.into_iter()) }
        };
        reject(By::Deleted(seat), deleted);
        reject(By::Oversize(seat), oversize);
        let unknown = reject(By::Unknown(seat), unknown);
        self.unknown += unknown;
    }

    /// Takes an answer: rejects what it refuses, and what the backend would have had to know more about.
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
            // At the first rejection of all: without any the list stays empty.
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
