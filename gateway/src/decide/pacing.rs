//! Remembers the responses for pods that fit nowhere, for a while.
//!
//! kube-scheduler retries a rejected pod immediately when its condition changes, and the condition contains the
//! reasons: a text that differs between attempts makes it retry the pod hundreds of times a second. So a node's
//! first text is kept for a while (`first_reasons`). The condition also counts nodes over a changing sample, so a
//! pod may still be retried too often; then the call returns an error, and kube-scheduler backs off.
//!
//! Both have separate memory limits: the pacing of a pod takes 300 bytes, its texts may take megabytes.

mod first_reasons;

use std::{
    collections::{HashMap, VecDeque},
    hash::BuildHasher,
    time::Duration,
};

use extender_gateway_core::filter::Rejected;
use foldhash::fast::RandomState;
use parking_lot::Mutex;
use tokio::time::Instant;

use self::first_reasons::FirstReasons;
use crate::{
    cadences::Cadences,
    wire::{Names, reply::Reason},
};

/// More refusals on all nodes than this within the window are too many ...
const MOST_REFUSALS: usize = 5;
/// ... and are errors for this time.
const BACK_OFF: Duration = Duration::from_secs(30);
/// The most pods that are tracked, at up to 300 bytes: those rejected recently, and those backing off.
const MOST_PODS: usize = 100_000;
/// The minimum time between two searches for pods that no longer matter.
const SWEEP: Duration = Duration::from_secs(1);

/// The latest attempts to place pods that fit nowhere. Shared by all configurations of a process.
#[derive(Debug)]
pub struct RetryPacing {
    pods: Mutex<PacedPods>,
    reasons: Mutex<FirstReasons>,
    /// Hashes pods' UIDs, which may have any length. Keyed, so that callers cannot cause collisions.
    hasher: std::hash::RandomState,
}

/// The changes to the texts of a call.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct HeldReasons {
    /// Nodes whose text had changed and was restored.
    pub(super) changed: usize,
    /// Nodes whose text could not be kept for lack of memory.
    pub(super) forgotten: usize,
}

impl RetryPacing {
    /// No attempts yet.
    pub fn new(cadences: &Cadences) -> Self {
        Self {
            pods: Mutex::new(PacedPods::new(cadences.refusals)),
            reasons: Mutex::new(FirstReasons::new(cadences.first_texts)),
            hasher: std::hash::RandomState::new(),
        }
    }

    /// Records that a pod was rejected on all nodes of a call.
    pub(super) fn refused(&self, pod: &str, scope: AttemptScope) -> Pace {
        self.pods.lock().refused(self.hasher.hash_one(pod), scope, Instant::now())
    }

    /// Gives nodes the text from the pod's first attempt. `backends` are the names behind the groups of `rejected`.
    pub(super) fn hold(
        &self,
        pod: &str,
        names: &Names,
        backends: &[&str],
        rejected: (&mut Rejected, &mut Vec<Reason>),
    ) -> HeldReasons {
        self.reasons.lock().hold(self.hasher.hash_one(pod), Instant::now(), (names, backends), rejected)
    }
}

/// The pods that are tracked now, by the hash of the UID.
#[derive(Debug)]
struct PacedPods {
    /// The window in which refusals are counted.
    window: Duration,
    pods: HashMap<u64, PacedPod, RandomState>,
    swept: Option<Instant>,
}

#[derive(Debug, Default)]
struct PacedPod {
    /// The latest refusals on all nodes, at most [`MOST_REFUSALS`].
    times: VecDeque<Instant>,
    backing_off: Option<Instant>,
    /// The latest refusal was about the nominated node alone, and has not been counted.
    uncounted: bool,
}

/// The nodes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum AttemptScope {
    /// Only the pod's `status.nominatedNodeName`. If the pod is rejected there, the same attempt continues with a
    /// call about all nodes (`evaluateNominatedNode` in kube-scheduler), which may be that node alone again.
    Nominated,
    /// Anything else.
    Nodes,
}

/// Whether a pod is retried too often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    /// No.
    Usual,
    /// As of now.
    JustTooFast,
    /// Still.
    TooFast,
    /// Unknown: the memory for pods is full.
    Unknown,
}

impl PacedPods {
    fn new(window: Duration) -> Self {
        Self { window, pods: HashMap::default(), swept: None }
    }

    fn refused(&mut self, pod: u64, scope: AttemptScope, now: Instant) -> Pace {
        self.sweep(now);
        if self.pods.len() >= MOST_PODS && !self.pods.contains_key(&pod) {
            return Pace::Unknown;
        }
        self.pods.entry(pod).or_default().refused(scope, now, self.window)
    }

    /// Drops pods that no longer matter; runs at most once a second.
    fn sweep(&mut self, now: Instant) {
        if self.swept.is_some_and(|swept| now.duration_since(swept) < SWEEP) {
            return;
        }
        self.swept = Some(now);
        self.pods.retain(|_, pod| pod.matters(now, self.window));
    }
}

impl PacedPod {
    fn refused(&mut self, scope: AttemptScope, now: Instant, window: Duration) -> Pace {
        if self.is_backing_off(now) {
            return Pace::TooFast;
        }
        self.backing_off = None;
        self.times.retain(|time| now.duration_since(*time) < window);
        // Half an attempt. Two in a row are the two halves of one attempt if no other node is left.
        self.uncounted = scope == AttemptScope::Nominated && !self.uncounted;
        if self.uncounted {
            return Pace::Usual;
        }
        if self.times.len() < MOST_REFUSALS {
            self.times.push_back(now);
            return Pace::Usual;
        }
        self.times.clear();
        self.backing_off = Some(now);
        Pace::JustTooFast
    }

    fn is_backing_off(&self, now: Instant) -> bool {
        self.backing_off.is_some_and(|since| now.duration_since(since) < BACK_OFF)
    }

    fn matters(&self, now: Instant, window: Duration) -> bool {
        self.is_backing_off(now) || self.times.back().is_some_and(|last| now.duration_since(*last) < window)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: u64 = 1;
    const IN: Duration = Duration::from_secs(2);

    fn refused(paces: &mut PacedPods, pod: u64) -> Pace {
        paces.refused(pod, AttemptScope::Nodes, Instant::now())
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_that_comes_back_too_often_backs_off() {
        let mut paces = PacedPods::new(IN);
        for _ in 0..MOST_REFUSALS {
            assert_eq!(refused(&mut paces, A), Pace::Usual);
        }
        assert_eq!(refused(&mut paces, A), Pace::JustTooFast);
        assert_eq!(refused(&mut paces, 2), Pace::Usual, "another pod");
        tokio::time::advance(BACK_OFF / 2).await;
        assert_eq!(refused(&mut paces, A), Pace::TooFast);
        tokio::time::advance(BACK_OFF / 2).await;
        assert_eq!(refused(&mut paces, A), Pace::Usual);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_may_be_refused_now_and_then() {
        let mut paces = PacedPods::new(IN);
        for _ in 0..20 {
            assert_eq!(refused(&mut paces, A), Pace::Usual);
            tokio::time::advance(IN / 4).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_on_the_nominated_node_and_then_on_all_is_one() {
        for second in [AttemptScope::Nodes, AttemptScope::Nominated] {
            let mut paces = PacedPods::new(IN);
            let mut attempt =
                || [AttemptScope::Nominated, second].map(|scope| paces.refused(A, scope, Instant::now()));
            for _ in 0..MOST_REFUSALS {
                assert_eq!(attempt(), [Pace::Usual; 2], "{second:?}");
            }
            assert_eq!(attempt(), [Pace::Usual, Pace::JustTooFast], "{second:?}");
            assert_eq!(attempt(), [Pace::TooFast; 2], "{second:?}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn memory_is_bounded_and_pods_that_matter_no_more_make_room() {
        let mut paces = PacedPods::new(IN);
        for pod in 0..MOST_PODS as u64 {
            assert_eq!(refused(&mut paces, pod), Pace::Usual);
        }
        assert_eq!(refused(&mut paces, u64::MAX), Pace::Unknown);
        assert_eq!(refused(&mut paces, A), Pace::Usual, "it is remembered");
        tokio::time::advance(IN).await;
        assert_eq!(refused(&mut paces, u64::MAX), Pace::Usual);
        assert_eq!(paces.pods.len(), 1);
    }
}
