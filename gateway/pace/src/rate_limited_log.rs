//! Log lines that callers or backends can trigger by the hundred.

use std::{collections::HashMap, hash::Hash, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

/// The minimum time between two lines of a [`RateLimitedLog`].
const LINE_INTERVAL: Duration = Duration::from_secs(1);

/// Limits lines that callers or backends can trigger by the hundred to one a second: for each key, so that no key
/// suppresses another. Keys are never dropped: there must be few.
#[derive(Debug)]
pub struct RateLimitedLog<K = ()>(Mutex<HashMap<K, (Instant, u64)>>);

impl<K> Default for RateLimitedLog<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl RateLimitedLog {
    /// The number of lines suppressed since the last one; `None` if this one is suppressed, too.
    pub fn turn(&self) -> Option<u64> {
        self.turn_of(())
    }
}

impl<K: Eq + Hash> RateLimitedLog<K> {
    /// As [`turn`](RateLimitedLog::turn), for lines with this key.
    pub fn turn_of(&self, key: K) -> Option<u64> {
        let (mut lines, now) = (self.0.lock(), Instant::now());
        match lines.get_mut(&key) {
            Some((logged, suppressed)) if now.duration_since(*logged) < LINE_INTERVAL => {
                *suppressed += 1;
                None
            }
            _ => Some(lines.insert(key, (now, 0)).map_or(0, |(_, suppressed)| suppressed)),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_line_a_second_and_the_others_are_counted() {
        let limited = RateLimitedLog::default();
        assert_eq!([limited.turn(), limited.turn(), limited.turn()], [Some(0), None, None]);
        tokio::time::advance(LINE_INTERVAL).await;
        assert_eq!([limited.turn(), limited.turn()], [Some(2), None]);
    }

    #[tokio::test(start_paused = true)]
    async fn keys_do_not_suppress_each_other() {
        let limited = RateLimitedLog::default();
        let lines = [limited.turn_of("a"), limited.turn_of("a"), limited.turn_of("b")];
        assert_eq!(lines, [Some(0), None, Some(0)]);
        tokio::time::advance(LINE_INTERVAL).await;
        assert_eq!([limited.turn_of("a"), limited.turn_of("b")], [Some(1), Some(0)]);
    }
}
