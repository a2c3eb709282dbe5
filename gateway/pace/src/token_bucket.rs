//! How often something may happen: a burst, and then a rate.

use std::time::Duration;

use tokio::time::Instant;

/// A token bucket: full at first, and filled at a rate.
#[derive(Debug)]
pub struct TokenBucket {
    most: u32,
    /// The tokens that each period adds.
    per_period: u32,
    period: Duration,
    left: u32,
    /// Until when the tokens that time adds are in `left`.
    filled: Instant,
}

impl TokenBucket {
    /// A full bucket of this size, to which each period adds this many tokens.
    pub fn new(most: u32, per_period: u32, period: Duration) -> Self {
        Self { most, per_period, period, left: most, filled: Instant::now() }
    }

    /// Takes tokens, if there are as many now. Returns whether there were.
    pub fn take(&mut self, tokens: u32) -> bool {
        self.fill();
        self.take_saved(tokens)
    }

    /// As [`take`](Self::take) without a look at the clock: of the tokens that there were at the last one.
    pub fn take_saved(&mut self, tokens: u32) -> bool {
        let left = self.left.checked_sub(tokens);
        self.left = left.unwrap_or(self.left);
        left.is_some()
    }

    /// Adds tokens in addition to those that time adds.
    pub fn put(&mut self, tokens: u32) {
        self.left = self.left.saturating_add(tokens).min(self.most);
    }

    /// Whether nothing has been taken lately.
    pub fn is_full(&mut self) -> bool {
        self.fill();
        self.left == self.most
    }

    fn fill(&mut self) {
        let now = Instant::now();
        let periods = (now - self.filled).as_nanos() * u128::from(self.per_period) / self.period.as_nanos();
        let added = u32::try_from(periods).unwrap_or(u32::MAX);
        self.put(added);
        // A full bucket gains nothing: the next token is due a whole time after one is taken.
        self.filled =
            if self.left == self.most { now } else { self.filled + self.period * added / self.per_period };
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn there_is_a_burst_and_then_a_rate() {
        let mut bucket = TokenBucket::new(5, 2, Duration::from_secs(1));
        assert!(!bucket.take(6) && bucket.take(3) && bucket.take(2) && !bucket.take(1));
        tokio::time::advance(Duration::from_millis(700)).await;
        assert!(!bucket.take_saved(1) && bucket.take(1) && !bucket.take(1));
        tokio::time::advance(Duration::from_millis(300)).await;
        assert!(bucket.take(1) && !bucket.take(1), "no time is lost");
        tokio::time::advance(Duration::from_hours(1)).await;
        assert!(bucket.take(5) && !bucket.take(1), "an hour brings no more than the first burst");
        bucket.put(2);
        assert!(bucket.take_saved(2) && !bucket.take_saved(1));
    }
}
