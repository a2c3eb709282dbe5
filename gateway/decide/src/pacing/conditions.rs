//! Keeps the condition of a pod that fits nowhere the same from one attempt to the next.

use std::{collections::HashMap, sync::Arc, time::Duration};

use foldhash::fast::RandomState;
use tokio::time::Instant;

use super::{MOST_PODS, SWEEP, tally::Tally};

/// The pods that were rejected on all nodes in the last while, by the hash of the UID.
#[derive(Debug)]
pub(super) struct Conditions {
    /// How long a first refusal counts.
    held: Duration,
    pods: HashMap<u64, FirstRefusal, RandomState>,
    swept: Option<Instant>,
    hasher: RandomState,
}

/// A pod's first refusal, and what was sent since.
#[derive(Debug)]
struct FirstRefusal {
    since: Instant,
    /// The policies that were asked.
    policies: u64,
    /// What the condition said, as [`Tally::condition`].
    condition: u64,
    summary: Arc<str>,
    /// A later refusal would have changed the condition: from then on the summary is sent.
    is_summarized: bool,
}

/// The texts to send for a refusal on all nodes.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Told {
    /// Each node's own reason.
    Reasons,
    /// The same for all nodes.
    Summary(Arc<str>),
    /// Each node's own reason, because the memory for pods is full.
    Untracked,
}

impl Conditions {
    pub(super) fn new(held: Duration) -> Self {
        let hasher = RandomState::default();
        Self { held, pods: HashMap::default(), swept: None, hasher }
    }

    /// The texts for a refusal on all nodes by these policies. The first one of a pod is remembered.
    pub(super) fn tell(&mut self, pod: u64, policies: u64, tally: &Tally<'_>, now: Instant) -> Told {
        self.sweep(now);
        let condition = tally.condition(&self.hasher);
        if let Some(first) = self.first(pod, policies, now) {
            first.is_summarized |= first.condition != condition;
            return first.told();
        }
        if self.pods.len() >= MOST_PODS && !self.pods.contains_key(&pod) {
            return Told::Untracked;
        }
        let summary = tally.summary().into();
        self.pods
            .insert(pod, FirstRefusal { since: now, policies, condition, summary, is_summarized: false });
        Told::Reasons
    }

    /// The texts for the first half of an attempt, which does not count.
    pub(super) fn tell_half(&mut self, pod: u64, policies: u64, now: Instant) -> Told {
        self.first(pod, policies, now).map_or(Told::Reasons, |first| first.told())
    }

    /// Forgets a pod: its next refusal is the first one.
    pub(super) fn forget(&mut self, pod: u64) {
        self.pods.remove(&pod);
    }

    fn first(&mut self, pod: u64, policies: u64, now: Instant) -> Option<&mut FirstRefusal> {
        let counts = |first: &&mut FirstRefusal| {
            first.policies == policies && now.duration_since(first.since) < self.held
        };
        self.pods.get_mut(&pod).filter(counts)
    }

    /// Drops refusals that no longer count; runs at most once a second.
    fn sweep(&mut self, now: Instant) {
        if self.swept.is_some_and(|swept| now.duration_since(swept) < SWEEP) {
            return;
        }
        self.swept = Some(now);
        self.pods.retain(|_, first| now.duration_since(first.since) < self.held);
    }
}

impl FirstRefusal {
    fn told(&self) -> Told {
        if self.is_summarized { Told::Summary(Arc::clone(&self.summary)) } else { Told::Reasons }
    }
}

#[cfg(test)]
mod tests;
