//! Names that calls ask for and that have no node: nodes that were deleted, and names that were waited for in vain.
//!
//! Both are bounded. A deleted node that is forgotten costs one wait more; so does a name that was waited for.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use tokio::time::Instant;

/// So many names of each kind are remembered; the oldest are forgotten first.
const MOST: usize = 10_000;
/// Longer names are not remembered, in bytes: no node can have one.
const LONGEST: usize = 253;

/// What is known of names without a node.
#[derive(Debug, Default)]
pub(super) struct Absent {
    deleted: RecentNames<()>,
    /// Until when a call waited for each of them first.
    awaited: RecentNames<Instant>,
}

impl Absent {
    /// These nodes were deleted.
    pub(super) fn delete(&mut self, name: &str) {
        self.deleted.insert(name, ());
        self.awaited.remove(name);
    }

    /// There is a node of this name.
    pub(super) fn appear(&mut self, name: &str) {
        self.deleted.remove(name);
        self.awaited.remove(name);
    }

    /// Keeps only the names for which this holds.
    pub(super) fn retain(&mut self, is_absent: impl Fn(&str) -> bool) {
        self.deleted.retain(&is_absent);
        self.awaited.retain(&is_absent);
    }

    pub(super) fn is_deleted(&self, name: &str) -> bool {
        self.deleted.get(name).is_some()
    }

    /// Until when a call that has time until `until` waits for the name; `None` where that is over. Whoever asks first
    /// decides for all, so that a name that stays unknown delays calls once.
    pub(super) fn wait(&mut self, name: &str, until: Instant) -> Option<Instant> {
        let now = Instant::now();
        if self.is_deleted(name) || until <= now {
            return None;
        }
        if let Some(awaited) = self.awaited.get(name) {
            return Some(until.min(*awaited)).filter(|until| *until > now);
        }
        self.awaited.insert(name, until);
        Some(until)
    }
}

/// A bounded map, of which the oldest entries are forgotten.
#[derive(Debug)]
struct RecentNames<V> {
    known: HashMap<Arc<str>, (u64, V)>,
    /// By age.
    order: BTreeMap<u64, Arc<str>>,
    next: u64,
}

impl<V> Default for RecentNames<V> {
    fn default() -> Self {
        Self { known: HashMap::new(), order: BTreeMap::new(), next: 0 }
    }
}

impl<V> RecentNames<V> {
    fn insert(&mut self, name: &str, value: V) {
        if name.len() > LONGEST {
            return;
        }
        self.remove(name);
        let name: Arc<str> = name.into();
        self.order.insert(self.next, Arc::clone(&name));
        self.known.insert(name, (self.next, value));
        self.next += 1;
        if self.known.len() > MOST
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.known.remove(&oldest);
        }
    }

    fn remove(&mut self, name: &str) {
        if let Some((age, _)) = self.known.remove(name) {
            self.order.remove(&age);
        }
    }

    fn get(&self, name: &str) -> Option<&V> {
        self.known.get(name).map(|(_, value)| value)
    }

    fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.known.retain(|name, _| keep(name));
        self.order.retain(|_, name| keep(name));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn a_name_is_waited_for_once() {
        let mut absent = Absent::default();
        let until = Instant::now() + Duration::from_millis(100);
        assert_eq!(absent.wait("n1", Instant::now()), None, "a call without time is no wait");
        assert_eq!(absent.wait("n1", until), Some(until));
        tokio::time::advance(Duration::from_millis(40)).await;
        let later = Instant::now() + Duration::from_millis(100);
        assert_eq!(absent.wait("n1", later), Some(until), "the same wait");
        tokio::time::advance(Duration::from_millis(60)).await;
        assert_eq!(absent.wait("n1", later), None);
        absent.appear("n1");
        assert_eq!(absent.wait("n1", later), Some(later), "it was known in between");
        absent.delete("n1");
        assert_eq!((absent.wait("n1", later), absent.is_deleted("n1")), (None, true));
    }

    #[test]
    fn the_oldest_names_are_forgotten_first() {
        let mut absent = Absent::default();
        for number in 0..=MOST {
            absent.delete(&format!("n{number}"));
        }
        assert_eq!((absent.is_deleted("n0"), absent.is_deleted("n1")), (false, true));
        assert_eq!((absent.deleted.known.len(), absent.deleted.order.len()), (MOST, MOST));
        absent.delete(&"n".repeat(LONGEST + 1));
        absent.retain(|name| name == "n7");
        assert_eq!((absent.deleted.known.len(), absent.deleted.order.len()), (1, 1));
    }
}
