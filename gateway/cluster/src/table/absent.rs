//! Names without a node that calls look up: deleted nodes, and names that a call has waited for.
//!
//! Both are bounded. After a name is dropped, one more call waits for it.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use tokio::time::Instant;

/// The most names of each kind; the oldest are dropped first.
const MOST: usize = 10_000;
/// The longest name of a node in bytes; longer ones are not stored.
const LONGEST: usize = 253;

/// The latest names without a node.
#[derive(Debug, Default)]
pub(super) struct Absent {
    deleted: RecentNames<()>,
    /// With the end of the first call's wait.
    awaited: RecentNames<Instant>,
}

impl Absent {
    /// A node was deleted.
    pub(super) fn delete(&mut self, name: &str) {
        self.deleted.insert(name, ());
        self.awaited.remove(name);
    }

    /// A node exists.
    pub(super) fn appear(&mut self, name: &str) {
        self.deleted.remove(name);
        self.awaited.remove(name);
    }

    /// Keeps the names for which `is_absent` returns true.
    pub(super) fn retain(&mut self, is_absent: impl Fn(&str) -> bool) {
        self.deleted.retain(&is_absent);
        self.awaited.retain(&is_absent);
    }

    pub(super) fn is_deleted(&self, name: &str) -> bool {
        self.deleted.get(name).is_some()
    }

    /// The end of the wait for a name, in a call that can wait until `until`; `None` if it is over. The first call
    /// sets it for all, so that a name that stays unknown delays calls only once.
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

/// A bounded map by name, which drops the oldest entries.
#[derive(Debug)]
struct RecentNames<V> {
    /// With the number of the entry.
    entries: HashMap<Arc<str>, (u64, V)>,
    order: BTreeMap<u64, Arc<str>>,
    next: u64,
}

impl<V> Default for RecentNames<V> {
    fn default() -> Self {
        Self { entries: HashMap::new(), order: BTreeMap::new(), next: 0 }
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
        self.entries.insert(name, (self.next, value));
        self.next += 1;
        if self.entries.len() > MOST
            && let Some((_, oldest)) = self.order.pop_first()
        {
            self.entries.remove(&oldest);
        }
    }

    fn remove(&mut self, name: &str) {
        if let Some((number, _)) = self.entries.remove(name) {
            self.order.remove(&number);
        }
    }

    fn get(&self, name: &str) -> Option<&V> {
        self.entries.get(name).map(|(_, value)| value)
    }

    fn retain(&mut self, keep: impl Fn(&str) -> bool) {
        self.entries.retain(|name, _| keep(name));
        self.order.retain(|_, name| keep(name));
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;

    #[tokio::test(start_paused = true)]
    async fn calls_wait_for_a_name_once() {
        let mut absent = Absent::default();
        let until = Instant::now() + Duration::from_millis(100);
        assert_eq!(absent.wait("n1", Instant::now()), None, "a call without time does not wait");
        assert_eq!(absent.wait("n1", until), Some(until));
        tokio::time::advance(Duration::from_millis(40)).await;
        let later = Instant::now() + Duration::from_millis(100);
        assert_eq!(absent.wait("n1", later), Some(until), "the same wait");
        tokio::time::advance(Duration::from_millis(60)).await;
        assert_eq!(absent.wait("n1", later), None);
        absent.appear("n1");
        assert_eq!(absent.wait("n1", later), Some(later), "it existed in between");
        absent.delete("n1");
        assert_eq!((absent.wait("n1", later), absent.is_deleted("n1")), (None, true));
    }

    #[test]
    fn the_oldest_names_are_dropped_first() {
        let mut absent = Absent::default();
        for number in 0..=MOST {
            absent.delete(&format!("n{number}"));
        }
        assert_eq!((absent.is_deleted("n0"), absent.is_deleted("n1")), (false, true));
        assert_eq!((absent.deleted.entries.len(), absent.deleted.order.len()), (MOST, MOST));
        absent.delete(&"n".repeat(LONGEST + 1));
        absent.retain(|name| name == "n7");
        assert_eq!((absent.deleted.entries.len(), absent.deleted.order.len()), (1, 1));
    }
}
