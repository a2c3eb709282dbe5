//! Log lines that callers or backends can trigger by the hundred.

use std::{collections::HashMap, hash::Hash, mem, time::Duration};

use parking_lot::Mutex;

use crate::token_bucket::TokenBucket;

/// The default for the minimum time between two lines.
const LINE_INTERVAL: Duration = Duration::from_secs(1);

/// The most keys. Beyond it those with nothing to limit are forgotten, and if there are none, all others count as one.
const MOST_KEYS: usize = 100;

/// Limits lines that callers or backends can trigger by the hundred to one a second, or to a burst and a rate: for each
/// key, so that no key suppresses another.
#[derive(Debug)]
pub struct RateLimitedLog<K = ()> {
    burst: u32,
    interval: Duration,
    /// `None` is the key of those that are too many.
    lines: Mutex<HashMap<Option<K>, Lines>>,
}

/// The lines with one key.
#[derive(Debug)]
struct Lines {
    permits: TokenBucket,
    /// Those suppressed since the last one.
    suppressed: u64,
}

impl<K> Default for RateLimitedLog<K> {
    fn default() -> Self {
        Self::new(1, LINE_INTERVAL)
    }
}

impl<K> RateLimitedLog<K> {
    /// A burst of lines, and then one in each interval.
    pub fn new(burst: u32, interval: Duration) -> Self {
        Self { burst, interval, lines: Mutex::default() }
    }
}

impl RateLimitedLog {
    /// The number of lines suppressed since the last one; `None` if this one is suppressed, too.
    pub fn permit(&self) -> Option<u64> {
        self.permit_of(())
    }
}

impl<K: Eq + Hash> RateLimitedLog<K> {
    /// As [`permit`](RateLimitedLog::permit), for lines with this key.
    pub fn permit_of(&self, key: K) -> Option<u64> {
        let mut lines = self.lines.lock();
        let mut key = Some(key);
        if lines.len() >= MOST_KEYS && !lines.contains_key(&key) {
            lines.retain(|_, lines| !lines.permits.is_full());
            key = key.filter(|_| lines.len() < MOST_KEYS);
        }
        let new = || Lines { permits: TokenBucket::new(self.burst, 1, self.interval), suppressed: 0 };
        let Lines { permits, suppressed } = lines.entry(key).or_insert_with(new);
        if permits.take(1) {
            return Some(mem::take(suppressed));
        }
        *suppressed += 1;
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_line_a_second_and_the_others_are_counted() {
        let limited = RateLimitedLog::default();
        assert_eq!([limited.permit(), limited.permit(), limited.permit()], [Some(0), None, None]);
        tokio::time::advance(LINE_INTERVAL).await;
        assert_eq!([limited.permit(), limited.permit()], [Some(2), None]);
    }

    #[tokio::test(start_paused = true)]
    async fn keys_do_not_suppress_each_other() {
        let limited = RateLimitedLog::default();
        let lines = [limited.permit_of("a"), limited.permit_of("a"), limited.permit_of("b")];
        assert_eq!(lines, [Some(0), None, Some(0)]);
        tokio::time::advance(LINE_INTERVAL).await;
        assert_eq!([limited.permit_of("a"), limited.permit_of("b")], [Some(1), Some(0)]);
    }

    #[tokio::test(start_paused = true)]
    async fn keys_are_bounded_and_those_without_a_line_lately_are_forgotten() {
        let limited = RateLimitedLog::default();
        let logged = (0..500).filter_map(|key| limited.permit_of(key)).count();
        assert_eq!((logged, limited.lines.lock().len()), (MOST_KEYS + 1, MOST_KEYS + 1));
        assert_eq!([limited.permit_of(7), limited.permit_of(499)], [None, None]);
        tokio::time::advance(LINE_INTERVAL).await;
        assert_eq!(
            [limited.permit_of(7), limited.permit_of(499), limited.permit_of(498)],
            [Some(1), Some(0), Some(0)]
        );
        assert_eq!(limited.lines.lock().len(), 3);
    }

    #[tokio::test(start_paused = true)]
    async fn a_burst_is_logged_and_then_one_in_an_interval() {
        let limited = RateLimitedLog::new(5, Duration::from_secs(30));
        let mut logged = Vec::new();
        for second in 0..100_u64 {
            logged.extend(limited.permit().map(|similar| (second, similar)));
            tokio::time::advance(Duration::from_secs(1)).await;
        }
        assert_eq!(logged, [(0, 0), (1, 0), (2, 0), (3, 0), (4, 0), (30, 25), (60, 29), (90, 29)]);
        tokio::time::advance(Duration::from_hours(1)).await;
        assert_eq!(
            (0..10).filter_map(|_| limited.permit()).count(),
            5,
            "an hour brings no more than the first"
        );
    }
}
