//! Counters of few kinds, found without a lock.

use std::{
    borrow::Borrow,
    sync::{Arc, OnceLock},
};

use super::number::Counter;

/// At most `N` counters by their key, in the order in which they came. None ever goes, so that who looks for one
/// walks over those that there are.
#[derive(Debug)]
pub(super) struct Few<K, const N: usize>([OnceLock<(K, Arc<Counter>)>; N]);

impl<K, const N: usize> Default for Few<K, N> {
    fn default() -> Self {
        Self([const { OnceLock::new() }; N])
    }
}

impl<K, const N: usize> Few<K, N> {
    /// The counter of this key, which takes a free place with what `new` makes; `None` when there is no place.
    pub(super) fn of<Q>(&self, key: &Q, new: impl Fn() -> (K, Arc<Counter>)) -> Option<&Counter>
    where
        K: Borrow<Q>,
        Q: Eq + ?Sized,
    {
        self.0.iter().find_map(|place| {
            // The place may go to another key at this moment: then the next one is looked at.
            let (owner, counter) = place.get_or_init(&new);
            (owner.borrow() == key).then_some(counter.as_ref())
        })
    }

    /// Those that there are, with what they say now.
    pub(super) fn each(&self) -> impl Iterator<Item = (&K, u64)> {
        self.0.iter().filter_map(OnceLock::get).map(|(key, counter)| (key, counter.read()))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(few: &Few<&'static str, 2>, key: &'static str) -> bool {
        let counter = few.of(key, || (key, Arc::default()));
        counter.inspect(|counter| counter.add(1)).is_some()
    }

    #[test]
    fn who_comes_first_has_a_place() {
        let few = Few::default();
        let placed = ["a", "b", "c", "a", "c", "b", "a"].map(|key| count(&few, key));
        assert_eq!(placed, [true, true, false, true, false, true, true]);
        assert_eq!(few.each().collect::<Vec<_>>(), [(&"a", 3), (&"b", 2)]);
    }

    #[test]
    fn threads_that_come_together_share_a_place() {
        let few = Few::default();
        std::thread::scope(|scope| {
            for key in ["a", "b", "a", "b"] {
                scope.spawn(|| (0..1_000).for_each(|_| assert!(count(&few, key))));
            }
        });
        let mut counts: Vec<_> = few.each().collect();
        counts.sort_unstable();
        assert_eq!(counts, [(&"a", 2_000), (&"b", 2_000)]);
    }
}
