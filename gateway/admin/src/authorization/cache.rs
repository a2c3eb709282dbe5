//! Results of reviews, each for a short time.

use std::{
    collections::{HashMap, VecDeque},
    sync::Arc,
    time::Duration,
};

use parking_lot::Mutex;
use ring::digest::{SHA256, SHA256_OUTPUT_LEN, digest};
use tokio::time::Instant;

/// How long a result is used: for so long a user keeps a permission that was removed, and lacks one that was added.
pub(super) const KEPT_FOR: Duration = Duration::from_secs(10);
/// The most results of each kind. Refusals have a share of their own, so that tokens of strangers displace no others.
const MOST: usize = 1024;

/// What the apiserver says about a request.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Review {
    /// The token's user may do it.
    Allowed { user: Arc<str> },
    /// The token's user may not do it.
    NotAllowed { user: Arc<str> },
    /// The token is nobody's.
    Unauthenticated,
}

/// Stands for a token, a verb and a path. The cache has no tokens that could be disclosed.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) struct ReviewKey([u8; SHA256_OUTPUT_LEN]);

impl ReviewKey {
    /// Neither tokens nor verbs have line breaks, so no two requests have one key.
    pub(super) fn new(token: &str, verb: &str, path: &str) -> Self {
        let hash = digest(&SHA256, [token, verb, path].join("\n").as_bytes());
        let mut key = [0; SHA256_OUTPUT_LEN];
        key.copy_from_slice(hash.as_ref());
        Self(key)
    }
}

/// The latest results.
#[derive(Debug, Default)]
pub(super) struct ReviewCache {
    allowed: Mutex<Recent>,
    refused: Mutex<Recent>,
}

/// Results of one kind, the oldest first.
#[derive(Debug, Default)]
struct Recent {
    results: HashMap<ReviewKey, Review>,
    order: VecDeque<(Instant, ReviewKey)>,
}

impl ReviewCache {
    pub(super) fn get(&self, key: &ReviewKey) -> Option<Review> {
        self.allowed.lock().get(key).or_else(|| self.refused.lock().get(key))
    }

    pub(super) fn insert(&self, key: ReviewKey, review: Review) {
        let is_allowed = matches!(review, Review::Allowed { .. });
        let kind = if is_allowed { &self.allowed } else { &self.refused };
        kind.lock().insert(key, review);
    }
}

impl Recent {
    fn get(&mut self, key: &ReviewKey) -> Option<Review> {
        self.remove_old(Instant::now());
        self.results.get(key).cloned()
    }

    fn insert(&mut self, key: ReviewKey, review: Review) {
        let now = Instant::now();
        self.remove_old(now);
        if self.order.len() >= MOST {
            self.remove_first();
        }
        self.results.insert(key, review);
        self.order.push_back((now, key));
    }

    fn remove_old(&mut self, now: Instant) {
        while self.order.front().is_some_and(|(since, _)| now.duration_since(*since) >= KEPT_FOR) {
            self.remove_first();
        }
    }

    fn remove_first(&mut self) {
        if let Some((_, key)) = self.order.pop_front() {
            // One that was reviewed twice at the same time ends with its first review.
            self.results.remove(&key);
        }
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    fn allowed() -> Review {
        Review::Allowed { user: "a".into() }
    }

    fn key(token: usize) -> ReviewKey {
        ReviewKey::new(&token.to_string(), "get", "/metrics")
    }

    #[test]
    fn each_part_of_a_request_counts() {
        let keys = [("a", "get", "/"), ("b", "get", "/"), ("a", "post", "/"), ("a", "get", "/a")];
        let keys = keys.map(|(token, verb, path)| ReviewKey::new(token, verb, path));
        for (at, one) in keys.iter().enumerate() {
            assert_eq!(keys.iter().position(|other| other == one), Some(at));
        }
    }

    #[tokio::test(start_paused = true)]
    async fn a_result_is_used_for_its_time_and_no_longer() {
        let cache = ReviewCache::default();
        for (at, review) in [allowed(), Review::NotAllowed { user: "a".into() }, Review::Unauthenticated]
            .into_iter()
            .enumerate()
        {
            cache.insert(key(at), review.clone());
            advance(KEPT_FOR.saturating_sub(Duration::from_millis(1))).await;
            assert_eq!(cache.get(&key(at)), Some(review));
            advance(Duration::from_millis(1)).await;
            assert_eq!(cache.get(&key(at)), None);
        }
    }

    #[tokio::test(start_paused = true)]
    async fn refusals_are_bounded_and_displace_no_permission() {
        let cache = ReviewCache::default();
        cache.insert(key(0), allowed());
        for token in 1..=MOST * 3 {
            cache.insert(key(token), Review::Unauthenticated);
        }
        assert_eq!(cache.get(&key(0)), Some(allowed()));
        assert_eq!(cache.get(&key(MOST * 3)), Some(Review::Unauthenticated));
        assert_eq!(cache.get(&key(MOST * 2)), None, "the oldest ones made room");
        let refused = cache.refused.lock();
        assert_eq!((refused.results.len(), refused.order.len()), (MOST, MOST));
    }

    #[tokio::test(start_paused = true)]
    async fn a_result_that_comes_twice_takes_no_more_room() {
        let cache = ReviewCache::default();
        for _ in 0..MOST * 3 {
            cache.insert(key(0), allowed());
        }
        assert!(cache.allowed.lock().order.len() <= MOST);
        advance(KEPT_FOR).await;
        assert_eq!(cache.get(&key(0)), None);
        assert_eq!(cache.allowed.lock().results.len(), 0);
    }
}
