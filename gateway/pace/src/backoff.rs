//! Pauses between attempts, each twice the one before.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

/// Pauses that double with each failure, up to the longest one.
#[derive(Debug, Clone)]
pub struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Backoff {
    /// The next pause is the first one.
    pub const fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, next: first }
    }

    /// The pause after this many earlier ones.
    pub fn after(&self, earlier: u32) -> Duration {
        self.first.saturating_mul(1_u32.checked_shl(earlier).unwrap_or(u32::MAX)).min(self.longest)
    }

    /// The pause after another failure.
    pub fn next_pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.longest);
        pause
    }

    /// As [`next_pause`](Self::next_pause), extended by a random fraction of itself, so that those who failed together
    /// do not try again together.
    pub fn next_pause_with_jitter(&mut self) -> Duration {
        let pause = self.next_pause();
        let [a, b, c, d, ..] = RandomState::new().hash_one(0_u8).to_ne_bytes();
        pause + pause.mul_f64(f64::from(u32::from_ne_bytes([a, b, c, d])) / f64::from(u32::MAX))
    }

    /// Continues with the first pause.
    pub fn reset(&mut self) {
        self.next = self.first;
    }

    /// Continues with the longest pause.
    pub fn skip_to_longest(&mut self) {
        self.next = self.longest;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_the_longest() {
        let mut backoff = Backoff::new(Duration::from_millis(50), Duration::from_millis(300));
        for expected in [50, 100, 200, 300, 300].map(Duration::from_millis) {
            let pause = backoff.clone().next_pause_with_jitter();
            assert!(pause >= expected && pause <= 2 * expected, "{pause:?}");
            assert_eq!(backoff.next_pause(), expected);
        }
        backoff.reset();
        assert_eq!(backoff.next_pause(), Duration::from_millis(50));
        backoff.skip_to_longest();
        assert_eq!(backoff.next_pause(), Duration::from_millis(300));
        assert_eq!([0, 2, 3, 32, u32::MAX].map(|n| backoff.after(n).as_millis()), [50, 200, 300, 300, 300]);
    }
}
