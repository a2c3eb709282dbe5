//! The cached changes of a hook.

use std::{num::NonZeroU32, sync::Arc};

use bytes::Bytes;
use extender_gateway_cluster::table::RowKey;
use extender_gateway_contract::hook::{ChangedNodes, Changes};
use extender_policy_api::v1alpha1::{NodeChange, PodChange};
use foldhash::HashMap;
use parking_lot::Mutex;
use prost::Message;

use super::{Answers, MOST_BYTES, VerbCache};

/// The most different changes that are cached, and their bytes as messages. A hook with more of them is not asked the same
/// question twice, or is no function of it.
const MOST_CHANGES: usize = 4096;
const MOST_CHANGE_BYTES: usize = 1 << 20;

/// What is asked of a hook that changes the pod alone. It does not change.
const POD: RowKey = RowKey { slot: 0, version: 1 };

/// Cached changes: by node, or of the pod. 0 for no change, otherwise the number of the change plus one.
#[derive(Debug)]
pub struct ChangeCache {
    answers: VerbCache<u32>,
    nodes: Mutex<Numbered<NodeChange>>,
    pods: Mutex<Numbered<PodChange>>,
}

/// Different changes by number.
#[derive(Debug)]
struct Numbered<C> {
    known: Vec<Arc<C>>,
    /// By their encoding.
    numbers: HashMap<Vec<u8>, u32>,
    /// Bytes of all encodings.
    bytes: usize,
}

impl<C> Default for Numbered<C> {
    fn default() -> Self {
        Self { known: Vec::new(), numbers: HashMap::default(), bytes: 0 }
    }
}

impl<C: Message> Numbered<C> {
    /// The number of a change plus one; `None` if there are too many.
    fn number(&mut self, change: &Arc<C>) -> Option<u32> {
        let encoded = change.encode_to_vec();
        if let Some(number) = self.numbers.get(&encoded) {
            return Some(*number);
        }
        let has_room = self.known.len() < MOST_CHANGES && self.bytes + encoded.len() <= MOST_CHANGE_BYTES;
        let number = u32::try_from(self.known.len() + 1).ok().filter(|_| has_room)?;
        self.bytes += encoded.len();
        self.known.push(Arc::clone(change));
        self.numbers.insert(encoded, number);
        Some(number)
    }
}

impl ChangeCache {
    pub(super) fn new(check_every: NonZeroU32) -> Self {
        let answers = VerbCache::new(MOST_BYTES, check_every);
        Self { answers, nodes: Mutex::default(), pods: Mutex::default() }
    }

    /// As [`VerbCache::take_check`].
    pub fn take_check(&self) -> bool {
        self.answers.take_check()
    }

    /// The numbers of the changes of these nodes.
    pub fn recall(&self, pod: &[u8], rows: impl ExactSizeIterator<Item = RowKey>) -> Answers<u32> {
        self.answers.recall(pod, rows)
    }

    /// The changes with these numbers. Positions are indexes of `numbers`.
    pub fn changes(&self, numbers: &[u32]) -> Vec<ChangedNodes> {
        let nodes = self.nodes.lock();
        let mut changes: Vec<ChangedNodes> = Vec::new();
        let mut places = vec![None; nodes.known.len()];
        let numbered = (0_u32..).zip(numbers).filter_map(|(at, number)| Some((at, number.checked_sub(1)?)));
        for (at, number) in numbered {
            let number = number as usize;
            let place: usize = *places[number].get_or_insert_with(|| {
                let change = Arc::clone(&nodes.known[number]);
                changes.push(ChangedNodes { positions: Vec::new(), change });
                changes.len() - 1
            });
            changes[place].positions.push(at);
        }
        changes
    }

    /// The numbers of the changes in an answer, one for each of `count` nodes. `None` for those that cannot be cached.
    pub fn read(&self, changes: &Changes, count: usize) -> Vec<Option<u32>> {
        let mut numbers = vec![Some(0); count];
        let mut nodes = self.nodes.lock();
        for ChangedNodes { positions, change } in &changes.nodes {
            let number = nodes.number(change);
            for at in positions {
                numbers[*at as usize] = number;
            }
        }
        numbers
    }

    /// Stores the numbers of changes.
    pub fn store(&self, pod: &Bytes, numbers: impl Iterator<Item = (RowKey, Option<u32>)>) {
        self.answers.store(pod, numbers.filter_map(|(row, number)| Some((row, number?))));
    }

    /// The change of a pod with this encoding; `None` if it is not known.
    pub fn recall_pod(&self, pod: &[u8]) -> Option<Changes> {
        let Answers { all, unknown } = self.answers.recall(pod, [POD].into_iter());
        let number = *all.first().filter(|_| unknown.is_empty())?;
        let change = number.checked_sub(1).map(|at| Arc::clone(&self.pods.lock().known[at as usize]));
        Some(Changes { pod: change, nodes: Vec::new() })
    }

    /// Stores the change of a pod with this encoding, if it can be cached.
    pub fn store_pod(&self, pod: &Bytes, changes: &Changes) {
        let number = changes.pod.as_ref().map_or(Some(0), |change| self.pods.lock().number(change));
        if let Some(number) = number {
            self.answers.store(pod, [(POD, number)].into_iter());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NEVER: NonZeroU32 = NonZeroU32::MAX;

    fn tainted(reason: &str) -> Arc<NodeChange> {
        Arc::new(NodeChange { reason: reason.to_owned(), ..NodeChange::default() })
    }

    #[test]
    fn changes_are_recalled_by_node_and_version() {
        let cache = ChangeCache::new(NEVER);
        let pod = Bytes::from_static(b"pod");
        let row = |slot, version| RowKey { slot, version };
        let nodes = vec![
            ChangedNodes { positions: vec![2, 0], change: tainted("a") },
            ChangedNodes { positions: vec![3], change: tainted("b") },
        ];
        let read = cache.read(&Changes { pod: None, nodes }, 4);
        assert_eq!(read, [Some(1), Some(0), Some(1), Some(2)]);
        cache.store(&pod, (0..4).map(|slot| row(slot, 7)).zip(read));
        let answers = cache.recall(&pod, [row(3, 7), row(1, 7), row(0, 8), row(2, 7)].into_iter());
        assert_eq!((answers.all.as_slice(), answers.unknown.as_slice()), (&[2, 0, 0, 1][..], &[2][..]));
        let told = cache.changes(&answers.all);
        assert_eq!(
            told,
            [
                ChangedNodes { positions: vec![0], change: tainted("b") },
                ChangedNodes { positions: vec![3], change: tainted("a") }
            ]
        );
        assert_eq!(cache.recall(b"other", [row(3, 7)].into_iter()).unknown, [0]);
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
        let nodes: Vec<_> = (0..).take(MOST_CHANGES + 1).collect();
        let tainted_at = |at: &u32| ChangedNodes { positions: vec![*at], change: tainted(&at.to_string()) };
        let changes = Changes { pod: None, nodes: nodes.iter().map(tainted_at).collect() };
        let read = cache.read(&changes, nodes.len());
        assert_eq!((read[MOST_CHANGES - 1], read[MOST_CHANGES]), (Some(4096), None));
        let large = Changes {
            pod: Some(Arc::new(PodChange { reason: "x".repeat(MOST_CHANGE_BYTES), ..PodChange::default() })),
            nodes: Vec::new(),
        };
        cache.store_pod(&Bytes::from_static(b"web"), &large);
        assert_eq!(cache.recall_pod(b"web"), None);
    }
}
