//! Whether a backend finds what questions name: where a proxy spreads the calls of one connection over replicas, the
//! stream of nodes fills a table at one of them, and the others miss it. A miss costs a round, so that rows in each
//! call are cheaper than many misses.

use std::{
    sync::{Mutex, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// So many misses among the latest 16 questions are too many: half, as with two replicas, so that rows are sent every
/// other time anyhow. Fewer happen in good order, when nodes go while calls are on their way.
const TOO_MANY: u32 = 8;
/// How long questions bring rows then. After that one miss more is too many again.
pub(super) const REST: Duration = Duration::from_secs(30);

/// The results of the latest requests to a backend on one connection, for all of its tables.
#[derive(Debug, Default)]
pub(in crate::backend) struct MissBreaker {
    questions: Mutex<RecentRequests>,
}

#[derive(Debug, Default)]
struct RecentRequests {
    /// A bit for each, the latest one lowest: 1 where it was missed.
    latest: u16,
    /// Until when questions bring rows.
    rest: Option<Instant>,
    spell: Spell,
}

/// A time of misses, which is news once.
#[derive(Debug, Default, PartialEq, Eq)]
enum Spell {
    /// There is none, or it is not bad enough yet.
    #[default]
    Unnoticed,
    /// It is known of, and lasts until a whole row of questions is answered.
    Noticed,
}

/// What a miss means.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum MissKind {
    /// Nothing yet, or what is known.
    Known,
    /// For the first time there are too many.
    TooMany,
}

impl MissBreaker {
    /// Whether the next question may name nodes. It counts as answered until it is [missed](Self::miss).
    pub(super) fn allow(&self) -> bool {
        let mut questions = self.questions.lock().unwrap_or_else(PoisonError::into_inner);
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

    /// One of the latest questions was missed. Questions that are under way at the same time are not told apart.
    pub(super) fn miss(&self) -> MissKind {
        let mut questions = self.questions.lock().unwrap_or_else(PoisonError::into_inner);
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

    /// Puts these questions, where that is allowed, and misses those that are given as true; returns how many misses
    /// were news.
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
        // All is well again for as many questions as are looked back on.
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
