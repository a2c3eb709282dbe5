//! Counters for a small number of keys.

use parking_lot::Mutex;

/// Counts by key, in the order of their first use. Only a new key allocates.
#[derive(Debug)]
pub(super) struct Few<K>(Mutex<Vec<(K, u64)>>);

impl<K> Default for Few<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Copy + Eq> Few<K> {
    /// Adds to the count of this key.
    pub(super) fn add(&self, key: K, more: u64) {
        let mut counts = self.0.lock();
        match counts.iter_mut().find(|(known, _)| *known == key) {
            Some((_, count)) => *count += more,
            None => counts.push((key, more)),
        }
    }

    /// All keys and their counts.
    pub(super) fn all(&self) -> Vec<(K, u64)> {
        self.0.lock().clone()
    }

    /// The sum of the counts of these keys.
    pub(super) fn sum(&self, of: impl Fn(K) -> bool) -> u64 {
        self.0.lock().iter().filter(|(key, _)| of(*key)).map(|(_, count)| count).sum()
    }
}
