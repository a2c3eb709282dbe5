//! The cached changes of a hook.

use std::{num::NonZeroU32, sync::Arc};

use bytes::Bytes;
use extender_gateway_cluster::table::RowKey;
use extender_gateway_contract::hook::{ChangedNodes, Changes};
use extender_policy_api::v1beta1::PodChange;
use parking_lot::Mutex;
use prost::Message;

use super::{
    Answers,
    interned::{InternedCache, MOST_CHANGE_BYTES, Numbered},
};

/// What is asked of a hook that changes the pod alone. It does not change.
const POD: RowKey = RowKey { slot: 0, version: 1 };

/// Cached changes of nodes, or of the pod.
#[derive(Debug)]
pub struct ChangeCache {
    /// The changes of nodes.
    pub nodes: InternedCache<ChangedNodes>,
    /// Encoded: some messages are much larger when they are decoded.
    pods: Mutex<Numbered<Bytes>>,
}

impl ChangeCache {
    pub(super) fn new(check_every: NonZeroU32) -> Self {
        Self { nodes: InternedCache::new(check_every), pods: Mutex::default() }
    }

    /// The change of a pod with this encoding; `None` if it is not known.
    pub fn recall_pod(&self, pod: &[u8]) -> Option<Changes> {
        let Answers { all, unknown } = self.nodes.answers.recall(pod, [POD].into_iter());
        let number = *all.first().filter(|_| unknown.is_empty())?;
        let change = number.checked_sub(1).map(|at| self.pods.lock().known[at as usize].clone());
        let pod = change.map(|change| PodChange::decode(change).map(Arc::new)).transpose().ok()?;
        Some(Changes { pod, nodes: Vec::new() })
    }

    /// Stores the change of a pod with this encoding, if it can be cached.
    pub fn store_pod(&self, pod: &Bytes, changes: &Changes) {
        let number = changes.pod.as_ref().map_or(Some(0), |change| {
            let encoded = Bytes::from(change.encode_to_vec());
            self.pods.lock().number(encoded.to_vec(), MOST_CHANGE_BYTES, || encoded)
        });
        if let Some(number) = number {
            self.nodes.answers.store(pod, [(POD, number)].into_iter());
        }
    }
}

#[cfg(test)]
mod tests {
    use extender_policy_api::v1beta1::NodeChange;

    use super::{super::interned::MOST_DIFFERENT, *};

    const NEVER: NonZeroU32 = NonZeroU32::MAX;

    fn tainted(reason: &str) -> Arc<NodeChange> {
        Arc::new(NodeChange { reason: reason.to_owned(), ..NodeChange::default() })
    }

    #[test]
    fn the_change_of_a_pod_is_recalled_by_its_encoding() {
        let cache = ChangeCache::new(NEVER);
        assert_eq!(cache.recall_pod(b"web"), None);
        let change = PodChange { reason: "r".to_owned(), ..PodChange::default() };
        let changes = Changes { pod: Some(Arc::new(change)), nodes: Vec::new() };
        cache.store_pod(&Bytes::from_static(b"web"), &changes);
        cache.store_pod(&Bytes::from_static(b"job"), &Changes::default());
        assert_eq!(cache.recall_pod(b"web"), Some(changes));
        assert_eq!(cache.recall_pod(b"job"), Some(Changes::default()));
    }

    #[test]
    fn changes_that_differ_each_time_are_not_cached_for_ever() {
        let cache = ChangeCache::new(NEVER);
        let nodes: Vec<_> = (0..).take(MOST_DIFFERENT + 1).collect();
        let tainted_at = |at: &u32| ChangedNodes { positions: vec![*at], change: tainted(&at.to_string()) };
        let changes: Vec<_> = nodes.iter().map(tainted_at).collect();
        let read = cache.nodes.read(&changes, nodes.len());
        assert_eq!((read[MOST_DIFFERENT - 1], read[MOST_DIFFERENT]), (Some(4096), None));
        let large = Changes {
            pod: Some(Arc::new(PodChange { reason: "x".repeat(MOST_CHANGE_BYTES), ..PodChange::default() })),
            nodes: Vec::new(),
        };
        cache.store_pod(&Bytes::from_static(b"web"), &large);
        assert_eq!(cache.recall_pod(b"web"), None);
    }
}
