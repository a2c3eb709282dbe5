//! Pauses after failures: each is twice as long as the one before, up to the longest.

use std::time::Duration;

/// How long the pauses are.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Backoff {
    pub(crate) first: Duration,
    pub(crate) longest: Duration,
}

impl Backoff {
    /// The pause after this many others.
    pub(crate) fn pause(self, after: u32) -> Duration {
        self.first.saturating_mul(2_u32.saturating_pow(after)).min(self.longest)
    }
}
