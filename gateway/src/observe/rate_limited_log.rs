//! Log lines that callers or backends can trigger by the hundred are written at most once a second.

use std::{collections::HashMap, hash::Hash, time::Duration};

use parking_lot::Mutex;
use tokio::time::Instant;

/// The minimum time between two lines.
const PAUSE: Duration = Duration::from_secs(1);

/// Limits the lines of one kind.
#[derive(Debug, Default)]
pub struct RateLimitedLog {
    /// When the last line was written, and how many were suppressed since.
    last: Mutex<Option<(Instant, u64)>>,
}

impl RateLimitedLog {
    /// The number of lines suppressed since the last one; `None` if this one is suppressed, too.
    pub fn turn(&self) -> Option<u64> {
        let mut last = self.last.lock();
        let now = Instant::now();
        match &mut *last {
            Some((said, unsaid)) if now.duration_since(*said) < PAUSE => {
                *unsaid += 1;
                None
            }
            last => Some(last.replace((now, 0)).map_or(0, |(_, unsaid)| unsaid)),
        }
    }
}

/// The same for lines of several kinds, so that no kind suppresses another. Kinds are never dropped: there must be
/// few.
#[derive(Debug)]
pub struct SeldomEach<K>(Mutex<HashMap<K, RateLimitedLog>>);

impl<K> Default for SeldomEach<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Eq + Hash> SeldomEach<K> {
    /// As [`RateLimitedLog::turn`], for lines of this kind.
    pub fn turn(&self, kind: K) -> Option<u64> {
        self.0.lock().entry(kind).or_default().turn()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn one_line_a_second_and_the_others_are_counted() {
        let seldom = RateLimitedLog::default();
        assert_eq!([seldom.turn(), seldom.turn(), seldom.turn()], [Some(0), None, None]);
        tokio::time::advance(PAUSE).await;
        assert_eq!([seldom.turn(), seldom.turn()], [Some(2), None]);
    }

    #[tokio::test(start_paused = true)]
    async fn each_kind_has_its_own_turn() {
        let seldom = SeldomEach::default();
        assert_eq!([seldom.turn("a"), seldom.turn("a"), seldom.turn("b")], [Some(0), None, Some(0)]);
        tokio::time::advance(PAUSE).await;
        assert_eq!([seldom.turn("a"), seldom.turn("b")], [Some(1), Some(0)]);
    }
}
