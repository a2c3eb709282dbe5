//! What kube-scheduler was told about pods that fit nowhere, for a while.
//!
//! kube-scheduler tries a rejected pod again at once when its condition changes, and the condition is made of
//! the reasons: a text that differs from one attempt to the next makes it try the pod hundreds of times a
//! second. So a node's first text is kept for a while, and a pod that comes back too often all the same, since
//! the condition also counts nodes over a changing sample, gets an error, for which kube-scheduler backs off.

use std::{
    collections::{HashMap, VecDeque},
    sync::{Mutex, PoisonError},
    time::Duration,
};

use extender_gateway_core::filter::Rejected;
use foldhash::fast::RandomState;
use std::hash::BuildHasher;
use tokio::time::Instant;

use crate::wire::{Names, reply::Reason};

/// For how long a node's first text is kept.
const HELD: Duration = Duration::from_secs(30);
/// More refusals on all nodes than this ...
const MOST_REFUSALS: usize = 5;
/// ... in this time are too many ...
const IN: Duration = Duration::from_secs(2);
/// ... and are errors for this time.
const BACK_OFF: Duration = Duration::from_secs(30);
/// A pod that did not come for this long is forgotten.
const FORGOTTEN: Duration = Duration::from_mins(1);
/// Pods that are remembered at once; further ones are answered as they are.
const MOST_PODS: usize = 4096;
/// Nodes whose texts are remembered at once, over all pods: about 32 MiB.
const MOST_NODES: usize = 1 << 20;

/// The latest attempts to place pods that fit nowhere. Shared by all configurations of a process.
#[derive(Debug, Default)]
pub struct Attempts {
    ledger: Mutex<Ledger>,
    hasher: RandomState,
}

#[derive(Debug, Default)]
struct Ledger {
    pods: HashMap<String, Attempt, RandomState>,
    /// Nodes remembered over all pods.
    nodes: usize,
    swept: Option<Instant>,
}

/// One pod.
#[derive(Debug)]
struct Attempt {
    last: Instant,
    /// The latest refusals on all nodes, at most [`MOST_REFUSALS`].
    refusals: VecDeque<Instant>,
    backing_off: Option<Instant>,
    /// When the first of `texts` was given.
    since: Instant,
    texts: Vec<String>,
    /// The text of a node, by the hash of its backend and name.
    nodes: HashMap<u64, u32, RandomState>,
}

/// Whether a pod comes back too often.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Pace {
    /// No.
    Usual,
    /// From now on.
    JustTooFast,
    /// Still.
    TooFast,
}

impl Attempts {
    /// Records that a pod was refused on all nodes.
    pub(super) fn refused(&self, pod: &str) -> Pace {
        self.with(pod, Attempt::refused).unwrap_or(Pace::Usual)
    }

    /// Gives nodes the text that they had in the pod's first attempt; returns how many texts had changed.
    /// `backends` are the names behind the groups of `rejected`.
    pub(super) fn hold(
        &self,
        pod: &str,
        names: &Names,
        backends: &[&str],
        (rejected, reasons): (&mut Rejected, &mut Vec<Reason>),
    ) -> usize {
        let room = {
            let ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
            ledger.nodes + rejected.nodes.len() <= MOST_NODES
        };
        let held = self.with(pod, |attempt, now| {
            attempt.begin_anew(now);
            let before = attempt.nodes.len();
            let mut changed = 0;
            for node in 0..names.count() {
                let Some(group) = rejected.nodes[node as usize] else { continue };
                let key = self.hasher.hash_one((backends[group as usize], names.name(node)));
                let given = &reasons[group as usize].text;
                let Some(first) = attempt.first_text(key, given, room).filter(|first| *first != given) else {
                    continue;
                };
                let first = first.to_owned();
                rejected.nodes[node as usize] = Some(group_with(group, first, rejected, reasons));
                changed += 1;
            }
            (changed, before, attempt.nodes.len())
        });
        let Some((changed, before, after)) = held else { return 0 };
        let mut ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        ledger.nodes = ledger.nodes + after - before.min(after);
        changed
    }

    /// Does something with what is remembered of a pod; `None` when there is no room for it.
    fn with<T>(&self, pod: &str, then: impl FnOnce(&mut Attempt, Instant) -> T) -> Option<T> {
        let now = Instant::now();
        let mut ledger = self.ledger.lock().unwrap_or_else(PoisonError::into_inner);
        ledger.sweep(now);
        if !ledger.pods.contains_key(pod) {
            if ledger.pods.len() == MOST_PODS {
                return None;
            }
            ledger.pods.insert(pod.to_owned(), Attempt::new(now));
        }
        let attempt = ledger.pods.get_mut(pod)?;
        attempt.last = now;
        Some(then(attempt, now))
    }
}

impl Ledger {
    /// Forgets pods that did not come for a while; looks once a second at most.
    fn sweep(&mut self, now: Instant) {
        if self.swept.is_some_and(|swept| now.duration_since(swept) < Duration::from_secs(1)) {
            return;
        }
        self.swept = Some(now);
        self.pods.retain(|_, attempt| now.duration_since(attempt.last) < FORGOTTEN);
        self.nodes = self.pods.values().map(|attempt| attempt.nodes.len()).sum();
    }
}

impl Attempt {
    fn new(now: Instant) -> Self {
        Self {
            last: now,
            refusals: VecDeque::new(),
            backing_off: None,
            since: now,
            texts: Vec::new(),
            nodes: HashMap::default(),
        }
    }

    fn refused(&mut self, now: Instant) -> Pace {
        if self.backing_off.is_some_and(|since| now.duration_since(since) < BACK_OFF) {
            return Pace::TooFast;
        }
        self.backing_off = None;
        self.refusals.retain(|refusal| now.duration_since(*refusal) < IN);
        if self.refusals.len() < MOST_REFUSALS {
            self.refusals.push_back(now);
            return Pace::Usual;
        }
        self.refusals.clear();
        self.backing_off = Some(now);
        Pace::JustTooFast
    }

    /// Forgets texts that have been kept long enough.
    fn begin_anew(&mut self, now: Instant) {
        if now.duration_since(self.since) >= HELD {
            self.texts.clear();
            self.nodes.clear();
        }
        if self.nodes.is_empty() {
            self.since = now;
        }
    }

    /// The first text of a node. Remembers `given` if there is none yet and room for it.
    fn first_text(&mut self, node: u64, given: &str, room: bool) -> Option<&str> {
        if !self.nodes.contains_key(&node) && room {
            let known = self.texts.iter().position(|text| text == given);
            let at = known.unwrap_or_else(|| {
                self.texts.push(given.to_owned());
                self.texts.len() - 1
            });
            self.nodes.insert(node, u32::try_from(at).ok()?);
        }
        self.nodes.get(&node).map(|at| self.texts[*at as usize].as_str())
    }
}

/// The group like this one with another text; added if there is none.
fn group_with(group: u32, text: String, rejected: &mut Rejected, reasons: &mut Vec<Reason>) -> u32 {
    let like = rejected.groups[group as usize].clone();
    let same = (0..).zip(rejected.groups.iter().zip(reasons.iter())).find(|(_, (other, reason))| {
        (other.by, other.preemption_may_help) == (like.by, like.preemption_may_help) && reason.text == text
    });
    if let Some((at, _)) = same {
        return at;
    }
    reasons.push(Reason { text, preemption_may_help: like.preemption_may_help });
    rejected.groups.push(like);
    u32::try_from(rejected.groups.len() - 1).unwrap_or(group)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_pod_that_comes_back_too_often_backs_off() {
        let attempts = Attempts::default();
        for _ in 0..MOST_REFUSALS {
            assert_eq!(attempts.refused("a"), Pace::Usual);
        }
        assert_eq!(attempts.refused("a"), Pace::JustTooFast);
        assert_eq!(attempts.refused("b"), Pace::Usual, "another pod");
        tokio::time::advance(BACK_OFF / 2).await;
        assert_eq!(attempts.refused("a"), Pace::TooFast);
        tokio::time::advance(BACK_OFF / 2).await;
        assert_eq!(attempts.refused("a"), Pace::Usual);
    }

    #[tokio::test(start_paused = true)]
    async fn a_pod_may_be_refused_now_and_then() {
        let attempts = Attempts::default();
        for _ in 0..20 {
            assert_eq!(attempts.refused("a"), Pace::Usual);
            tokio::time::advance(IN / 4).await;
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_first_text_is_kept_for_a_while() {
        let attempts = Attempts::default();
        let text = |given: &str| {
            let first = |attempt: &mut Attempt, now| {
                attempt.begin_anew(now);
                attempt.first_text(7, given, true).map(str::to_owned)
            };
            attempts.with("a", first).flatten().unwrap()
        };
        assert_eq!(text("3 gpus"), "3 gpus");
        tokio::time::advance(HELD / 2).await;
        assert_eq!(text("4 gpus"), "3 gpus");
        tokio::time::advance(HELD / 2).await;
        assert_eq!(text("5 gpus"), "5 gpus");
    }

    #[tokio::test(start_paused = true)]
    async fn memory_is_bounded() {
        let attempts = Attempts::default();
        for pod in 0..MOST_PODS + 10 {
            attempts.refused(&pod.to_string());
        }
        assert_eq!(attempts.ledger.lock().unwrap().pods.len(), MOST_PODS);
        tokio::time::advance(FORGOTTEN).await;
        attempts.refused("a");
        assert_eq!(attempts.ledger.lock().unwrap().pods.len(), 1);
    }
}
