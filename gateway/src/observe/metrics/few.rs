//! Counters by a key of which there are few.

use std::sync::{Mutex, MutexGuard, PoisonError};

/// Counts by key, in the order in which the keys came. Only a new key allocates.
#[derive(Debug)]
pub(super) struct Few<K>(Mutex<Vec<(K, u64)>>);

impl<K> Default for Few<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Copy + Eq> Few<K> {
    /// So many more of this key.
    pub(super) fn add(&self, key: K, more: u64) {
        let mut counts = self.lock();
        match counts.iter_mut().find(|(known, _)| *known == key) {
            Some((_, count)) => *count += more,
            None => counts.push((key, more)),
        }
    }

    /// All keys and their counts.
    pub(super) fn all(&self) -> Vec<(K, u64)> {
        self.lock().clone()
    }

    /// The sum of the counts of these keys.
    pub(super) fn sum(&self, of: impl Fn(K) -> bool) -> u64 {
        self.lock().iter().filter(|(key, _)| of(*key)).map(|(_, count)| count).sum()
    }

    fn lock(&self) -> MutexGuard<'_, Vec<(K, u64)>> {
        // Each count is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
