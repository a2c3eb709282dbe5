//! The answer caches of a backend's addresses. Addresses with the same handshake share one: a pure answer depends on
//! args, pod and row alone, and equal handshakes have equal versions and revisions. So a backend with ten addresses
//! answers a question once and not ten times, while replicas of two revisions side by side never share an answer.

use std::sync::{Arc, Weak};

use extender_gateway_contract::api::Handshake;
use parking_lot::Mutex;

use super::AnswerCache;

/// The caches in use, by handshake.
#[derive(Debug, Default)]
pub struct SharedCaches(Mutex<Vec<(Handshake, Weak<AnswerCache>)>>);

impl SharedCaches {
    /// The cache for a handshake: the one that others use, unless it is outdated.
    pub fn of(&self, handshake: &Handshake, make: impl FnOnce() -> AnswerCache) -> Arc<AnswerCache> {
        let mut caches = self.0.lock();
        caches.retain(|(_, cache)| cache.upgrade().is_some_and(|cache| !cache.is_outdated()));
        let known = caches.iter().find(|(known, _)| known == handshake);
        if let Some(cache) = known.and_then(|(_, cache)| cache.upgrade()) {
            return cache;
        }
        let cache = Arc::new(make());
        caches.push((handshake.clone(), Arc::downgrade(&cache)));
        cache
    }
}

#[cfg(test)]
mod tests {
    use std::num::NonZeroU32;

    use extender_gateway_contract::api::ApiVersion;
    use extender_policy_api::v1beta1::GetInfoResponse;

    use super::*;
    use crate::answer_cache::CachedVerbs;

    fn handshake(revision: &str) -> Handshake {
        let response = GetInfoResponse { revision: revision.to_owned(), ..GetInfoResponse::default() };
        Handshake { api: ApiVersion::NEWEST, response, reads: Vec::new() }
    }

    #[test]
    fn equal_handshakes_share_a_cache_until_it_is_outdated() {
        let caches = SharedCaches::default();
        let of = |revision| {
            caches.of(&handshake(revision), || AnswerCache::new(&CachedVerbs::default(), NonZeroU32::MIN))
        };
        let (one, same, other) = (of("r1"), of("r1"), of("r2"));
        assert!(Arc::ptr_eq(&one, &same));
        assert!(!Arc::ptr_eq(&one, &other));
        one.mark_outdated();
        let fresh = of("r1");
        assert!(!Arc::ptr_eq(&one, &fresh));
        assert!(Arc::ptr_eq(&fresh, &of("r1")) && Arc::ptr_eq(&other, &of("r2")));
        drop((fresh, one, same));
        assert!(!of("r1").is_outdated(), "nobody used it any more");
    }
}
