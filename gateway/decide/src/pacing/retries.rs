//! The last guard: recognizes a pod that is retried too often although its texts stay the same.

use std::{collections::HashMap, time::Duration};

use foldhash::fast::RandomState;
use tokio::time::Instant;

use super::{MOST_PODS, SWEEP};

/// More refusals on all nodes than this within the window are too many ...
pub(super) const MOST_REFUSALS: u32 = 50;
/// ... and are errors for this time.
const BACK_OFF: Duration = Duration::from_secs(30);

/// The pods that are tracked now, by the hash of the UID.
#[derive(Debug)]
pub(super) struct PacedPods {
    /// The window in which refusals are counted.
    window: Duration,
    pods: HashMap<u64, PacedPod, RandomState>,
    swept: Option<Instant>,
}

#[derive(Debug)]
struct PacedPod {
    /// When the current window began.
    since: Instant,
    /// The refusals on all nodes in it.
    refusals: u32,
    backing_off: Option<Instant>,
    /// The latest refusal was about the nominated node alone, and has not been counted.
    uncounted: bool,
}

/// The nodes of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum AttemptScope {
    /// Only the pod's `status.nominatedNodeName`. If the pod is rejected there, the same attempt continues with a
    /// call about all nodes (`evaluateNominatedNode` in kube-scheduler), which may be that node alone again.
    Nominated,
    /// Anything else.
    Nodes,
}

/// Whether a pod is retried too often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Pace {
    /// No.
    Usual,
    /// This is the first half of an attempt, which is not counted.
    Half,
    /// As of now.
    JustTooFast,
    /// Still.
    TooFast,
    /// Unknown: the memory for pods is full.
    Unknown,
}

impl PacedPods {
    pub(super) fn new(window: Duration) -> Self {
        Self { window, pods: HashMap::default(), swept: None }
    }

    /// Records a refusal on all nodes of a call.
    pub(super) fn refused(&mut self, pod: u64, scope: AttemptScope, now: Instant) -> Pace {
        self.sweep(now);
        if self.pods.len() >= MOST_PODS && !self.pods.contains_key(&pod) {
            return Pace::Unknown;
        }
        self.pods.entry(pod).or_insert_with(|| PacedPod::new(now)).refused(scope, now, self.window)
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
    fn new(now: Instant) -> Self {
        Self { since: now, refusals: 0, backing_off: None, uncounted: false }
    }

    fn refused(&mut self, scope: AttemptScope, now: Instant, window: Duration) -> Pace {
        if self.is_backing_off(now) {
            return Pace::TooFast;
        }
        self.backing_off = None;
        if now.duration_since(self.since) >= window {
            (self.since, self.refusals) = (now, 0);
        }
        // Half an attempt. Two in a row are the two halves of one attempt if no other node is left.
        self.uncounted = scope == AttemptScope::Nominated && !self.uncounted;
        if self.uncounted {
            return Pace::Half;
        }
        self.refusals += 1;
        if self.refusals <= MOST_REFUSALS {
            return Pace::Usual;
        }
        self.refusals = 0;
        self.backing_off = Some(now);
        Pace::JustTooFast
    }

    fn is_backing_off(&self, now: Instant) -> bool {
        self.backing_off.is_some_and(|since| now.duration_since(since) < BACK_OFF)
    }

    fn matters(&self, now: Instant, window: Duration) -> bool {
        self.is_backing_off(now) || now.duration_since(self.since) < window
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const A: u64 = 1;
    const IN: Duration = Duration::from_secs(10);

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
        for _ in 0..MOST_REFUSALS * 4 {
            assert_eq!(refused(&mut paces, A), Pace::Usual);
            tokio::time::advance(IN / MOST_REFUSALS).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn an_attempt_on_the_nominated_node_and_then_on_all_is_one() {
        for second in [AttemptScope::Nodes, AttemptScope::Nominated] {
            let mut paces = PacedPods::new(IN);
            let mut attempt =
                || [AttemptScope::Nominated, second].map(|scope| paces.refused(A, scope, Instant::now()));
            for _ in 0..MOST_REFUSALS {
                assert_eq!(attempt(), [Pace::Half, Pace::Usual], "{second:?}");
            }
            assert_eq!(attempt(), [Pace::Half, Pace::JustTooFast], "{second:?}");
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
