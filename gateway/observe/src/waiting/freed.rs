//! When pods counted on their nodes that were not bound there.

use tokio::time::Instant;

use super::MAX_SILENCE;

/// The most times that are kept apart. Beyond, the oldest two become one.
const MAX_TIMES: usize = 64;

/// The times in which pods counted that were not bound: the first of them from the one time on, the last of them until the other.
#[derive(Debug, Default)]
pub(super) struct Freed {
    times: Vec<(Instant, Instant)>,
}

impl Freed {
    /// Adds a time that ends now. A pod whose latest attempt is older than the longest pause of kube-scheduler no longer waits,
    /// so that times before it concern none.
    pub(super) fn add(&mut self, since: Instant, now: Instant) {
        self.times.retain(|(_, until)| now.saturating_duration_since(*until) < MAX_SILENCE);
        if self.times.len() >= MAX_TIMES {
            let (oldest, _) = self.times.remove(0);
            self.times[0].0 = self.times[0].0.min(oldest);
        }
        self.times.push((since, now));
    }

    /// The latest end of a time that an attempt overlaps which began and ended at these times.
    pub(super) fn during(&self, began: Instant, ended: Instant) -> Option<Instant> {
        let overlaps = |(since, until): &&(Instant, Instant)| *since <= ended && *until > began;
        self.times.iter().rev().find(overlaps).map(|(_, until)| *until)
    }
}
