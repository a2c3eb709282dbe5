//! The share of nodes that each backend rejects, over its configured window (`maxRejectShare`).

use std::{
    collections::{HashMap, VecDeque},
    hash::{BuildHasher, RandomState},
};

use extender_gateway_settings::RejectShareSettings;
use jiff::Timestamp;
use tokio::time::Instant;

/// The minimum number of decisions in the window.
const MIN_DECISIONS: u64 = 10;
/// The minimum number of pods that they are about: a single pod may rightly fit nowhere.
const MIN_PODS: usize = 2;
/// The window moves in steps of this part of it.
const STEPS: u32 = 10;

/// A filter decision of one backend about one pod.
#[derive(Debug, Clone, Copy)]
pub struct FilterDecision<'d> {
    /// The UID of the pod.
    pub pod: &'d str,
    /// The nodes that it decided about.
    pub nodes: u64,
    /// The nodes of them that it rejected.
    pub rejected: u64,
}

/// A backend that rejects more nodes than it may.
#[derive(Debug, Clone, Copy, PartialEq)]
pub struct ExcessiveRejections {
    /// The share of nodes that it rejected in the window, from 0 to 1.
    pub share: f64,
    /// Since when it is more than the limit.
    pub since: Timestamp,
}

/// What a decision changes.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) enum ShareChange {
    None,
    /// It now rejects this share, too much.
    Exceeded(f64),
    /// It no longer does.
    Ended,
}

/// The backends with a limit, by name.
#[derive(Debug, Default)]
pub(super) struct RejectShares {
    backends: HashMap<String, ShareWindow>,
    hasher: RandomState,
}

/// The latest decisions of one backend.
#[derive(Debug, Default)]
struct ShareWindow {
    steps: VecDeque<Step>,
    exceeded: Option<Timestamp>,
}

/// The decisions of a part of the window.
#[derive(Debug)]
struct Step {
    began: Instant,
    decisions: u64,
    nodes: u64,
    rejected: u64,
    /// Hashes of the first pods in it; more are not needed.
    pods: Vec<u64>,
}

impl RejectShares {
    pub(super) fn record(
        &mut self,
        backend: &str,
        limit: &RejectShareSettings,
        decision: FilterDecision<'_>,
        now: Instant,
    ) -> ShareChange {
        let pod = self.hasher.hash_one(decision.pod);
        if !self.backends.contains_key(backend) {
            self.backends.insert(backend.to_owned(), ShareWindow::default());
        }
        let Some(window) = self.backends.get_mut(backend) else { return ShareChange::None };
        window.add(limit, decision, pod, now);
        window.judge(limit, now)
    }

    /// Forgets the decisions of a backend.
    pub(super) fn clear(&mut self, backend: &str) {
        self.backends.remove(backend);
    }

    /// Forgets those of all backends.
    pub(super) fn clear_all(&mut self) {
        self.backends.clear();
    }

    pub(super) fn excess(
        &mut self,
        backend: &str,
        limit: &RejectShareSettings,
        now: Instant,
    ) -> Option<ExcessiveRejections> {
        let window = self.backends.get_mut(backend)?;
        window.forget(limit, now);
        let share = window.share()?;
        window.exceeded.map(|since| ExcessiveRejections { share, since })
    }
}

impl ShareWindow {
    fn add(&mut self, limit: &RejectShareSettings, decision: FilterDecision<'_>, pod: u64, now: Instant) {
        self.forget(limit, now);
        if self.steps.is_empty() {
            self.exceeded = None;
        }
        let is_new = self.steps.back().is_none_or(|step| now - step.began >= limit.window / STEPS);
        if is_new {
            self.steps.push_back(Step { began: now, decisions: 0, nodes: 0, rejected: 0, pods: Vec::new() });
        }
        let Some(step) = self.steps.back_mut() else { return };
        step.decisions += 1;
        step.nodes += decision.nodes;
        step.rejected += decision.rejected;
        if step.pods.len() < MIN_PODS && !step.pods.contains(&pod) {
            step.pods.push(pod);
        }
    }

    /// Drops what has left the window.
    fn forget(&mut self, limit: &RejectShareSettings, now: Instant) {
        while self.steps.front().is_some_and(|step| now - step.began >= limit.window) {
            self.steps.pop_front();
        }
    }

    /// Compares with the limit. An excess begins when it was too much over half of the window at least.
    fn judge(&mut self, limit: &RejectShareSettings, now: Instant) -> ShareChange {
        let Some(share) = self.share() else { return ShareChange::None };
        let is_excess = share > limit.share.share();
        let is_known = self.steps.front().is_some_and(|first| now - first.began >= limit.window / 2);
        match (is_excess, self.exceeded) {
            (true, None) if is_known && self.has_enough() => {
                self.exceeded = Some(Timestamp::now());
                ShareChange::Exceeded(share)
            }
            (false, Some(_)) => {
                self.exceeded = None;
                ShareChange::Ended
            }
            _ => ShareChange::None,
        }
    }

    fn has_enough(&self) -> bool {
        let decisions: u64 = self.steps.iter().map(|step| step.decisions).sum();
        let mut pods: Vec<u64> = self.steps.iter().flat_map(|step| &step.pods).copied().collect();
        pods.sort_unstable();
        pods.dedup();
        decisions >= MIN_DECISIONS && pods.len() >= MIN_PODS
    }

    /// The share of rejected nodes; `None` without nodes.
    #[expect(clippy::cast_precision_loss, reason = "there are not that many nodes")]
    fn share(&self) -> Option<f64> {
        let nodes: u64 = self.steps.iter().map(|step| step.nodes).sum();
        let rejected: u64 = self.steps.iter().map(|step| step.rejected).sum();
        (nodes > 0).then(|| rejected as f64 / nodes as f64)
    }
}
