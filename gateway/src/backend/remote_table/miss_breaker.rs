//! Tracks whether a backend finds the nodes that requests name. Where a proxy spreads the calls of one connection
//! over replicas, the node stream fills the table at one of them, and the others miss it. A miss costs a round
//! trip, so rows in each call are cheaper than many misses.

use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::Instant;

/// The number of misses among the latest 16 requests that is too many: half, as with two replicas, where rows are
/// sent every other time anyway. Fewer are normal when nodes are removed while calls are in flight.
const TOO_MANY: u32 = 8;
/// How long requests carry rows then. After that, one more miss is too many.
pub(super) const REST: Duration = Duration::from_secs(30);

/// The results of the latest requests to a backend on one connection, for all of its tables.
#[derive(Debug, Default)]
pub(in crate::backend) struct MissBreaker {
    questions: Mutex<RecentRequests>,
}

#[derive(Debug, Default)]
struct RecentRequests {
    /// One bit for each request, the latest one lowest: 1 for a miss.
    latest: u16,
    /// Until when requests carry rows.
    rest: Option<Instant>,
    spell: Spell,
}

/// Whether a period of misses was reported. It is reported once.
#[derive(Debug, Default, PartialEq, Eq)]
enum Spell {
    /// There is none, or it is below the limit.
    #[default]
    Unnoticed,
    /// It was reported, and lasts until 16 consecutive requests are answered.
    Noticed,
}

/// The significance of a miss.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum MissKind {
    /// Below the limit, or already reported.
    Known,
    /// The first time that there are too many.
    TooMany,
}

impl MissBreaker {
    /// Whether the next request may name nodes. It counts as answered until it is [missed](Self::miss).
    pub(super) fn allow(&self) -> bool {
        let mut questions = self.questions.lock();
        if questions.rest.is_some_and(|until| Instant::now() < until) {
            return false;
        }
        questions.rest = None;
        questions.latest <<= 1;
        if questions.latest == 0 {
            questions.spell = Spell::Unnoticed;
        }
        true
    }

    /// Records a miss of one of the latest requests. Concurrent requests are not distinguished.
    pub(super) fn miss(&self) -> MissKind {
        let mut questions = self.questions.lock();
        // The lowest 0 becomes a 1.
        questions.latest |= questions.latest.wrapping_add(1);
        if questions.latest.count_ones() < TOO_MANY {
            return MissKind::Known;
        }
        questions.rest = Some(Instant::now() + REST);
        match std::mem::replace(&mut questions.spell, Spell::Noticed) {
            Spell::Unnoticed => MissKind::TooMany,
            Spell::Noticed => MissKind::Known,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use tokio::time::advance;

    /// Sends these requests, where allowed, and misses those with `true`; returns how many misses were reported.
    fn put(misses: &MissBreaker, questions: impl IntoIterator<Item = bool>) -> usize {
        let is_news = |missed: &bool| misses.allow() && *missed && misses.miss() == MissKind::TooMany;
        questions.into_iter().filter(is_news).count()
    }

    #[tokio::test(start_paused = true)]
    async fn a_backend_that_always_misses_is_asked_once_in_half_a_minute() {
        let misses = MissBreaker::default();
        assert_eq!(put(&misses, [true; 7]), 0);
        assert!(misses.allow());
        assert_eq!((misses.miss(), misses.allow()), (MissKind::TooMany, false));
        for _ in 0..5 {
            advance(Duration::from_millis(29_999)).await;
            assert!(!misses.allow());
            advance(Duration::from_millis(1)).await;
            assert!(misses.allow());
            assert_eq!((misses.miss(), misses.allow()), (MissKind::Known, false), "and that is no news");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn every_other_miss_is_too_many_and_one_in_three_is_not() {
        let misses = MissBreaker::default();
        assert_eq!(put(&misses, (0..300).map(|question| question % 3 == 0)), 0);
        assert!(misses.allow());
        let misses = MissBreaker::default();
        assert_eq!(put(&misses, (0..15).map(|question| question % 2 == 0)), 1);
        assert!(!misses.allow());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_over_is_forgotten() {
        let misses = MissBreaker::default();
        assert_eq!(put(&misses, [true; 8]), 1);
        advance(REST).await;
        // The period ends after as many answered requests as are tracked.
        assert_eq!(put(&misses, [false; 16]), 0);
        assert_eq!(put(&misses, [true; 7]), 0);
        assert!(misses.allow());
        assert_eq!(misses.miss(), MissKind::TooMany, "news again");
    }

    #[tokio::test(start_paused = true)]
    async fn misses_of_questions_that_were_under_way_together_all_count() {
        let misses = MissBreaker::default();
        assert!((0..20).all(|_| misses.allow()));
        let news: Vec<_> = (0..20).map(|_| misses.miss()).collect();
        assert_eq!(news.iter().position(|meaning| *meaning == MissKind::TooMany), Some(7));
        assert_eq!(news.iter().filter(|meaning| **meaning == MissKind::TooMany).count(), 1);
        advance(REST).await;
        assert!(misses.allow());
    }
}
