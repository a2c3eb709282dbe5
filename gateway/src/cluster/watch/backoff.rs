//! How long a watch pauses after a failure. Mirrors the backoff of client-go's `Reflector`.

use std::{
    hash::{BuildHasher, RandomState},
    time::Duration,
};

/// Pauses that double up to a limit, each made longer by a random part of itself.
#[derive(Debug)]
pub(super) struct Backoff {
    first: Duration,
    longest: Duration,
    next: Duration,
}

impl Default for Backoff {
    fn default() -> Self {
        Self::new(Duration::from_millis(800), Duration::from_secs(30))
    }
}

impl Backoff {
    pub(super) fn new(first: Duration, longest: Duration) -> Self {
        Self { first, longest, next: first }
    }

    /// The pause after one failure more.
    pub(super) fn pause(&mut self) -> Duration {
        let pause = self.next;
        self.next = (pause * 2).min(self.longest);
        pause + pause.mul_f64(random())
    }

    /// Begins again with the first pause.
    pub(super) fn reset(&mut self) {
        self.next = self.first;
    }
}

/// A number from 0 to 1, so that gateways that lost their watches together do not return together.
fn random() -> f64 {
    let [a, b, c, d, ..] = RandomState::new().hash_one(0_u8).to_ne_bytes();
    f64::from(u32::from_ne_bytes([a, b, c, d])) / f64::from(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_double_up_to_a_limit() {
        let mut backoff = Backoff::default();
        for milliseconds in [800, 1_600, 3_200, 6_400, 12_800, 25_600, 30_000, 30_000] {
            let (least, pause) = (Duration::from_millis(milliseconds), backoff.pause());
            assert!(pause >= least && pause <= 2 * least, "{pause:?}");
        }
        backoff.reset();
        assert!(backoff.pause() <= Duration::from_millis(1_600));
    }
}
