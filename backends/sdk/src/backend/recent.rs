//! The policies that were built from args lately. Bounded: args come from outside, and each of them costs
//! memory.

use std::{collections::VecDeque, sync::Arc};

use super::Prepared;

/// More configured policies than this in one process are built anew at times; they still work.
const CAPACITY: usize = 32;

/// The most recently used first. A linear search: there are few, and mostly one.
#[derive(Default)]
pub(super) struct Recent {
    entries: VecDeque<(Box<[u8]>, Arc<Prepared>)>,
}

impl Recent {
    pub(super) fn find(&mut self, args: &[u8]) -> Option<Arc<Prepared>> {
        let position = self.entries.iter().position(|(known, _)| **known == *args)?;
        if position > 0 {
            let entry = self.entries.remove(position)?;
            self.entries.push_front(entry);
        }
        self.entries.front().map(|(_, prepared)| Arc::clone(prepared))
    }

    /// The bytes are copied: a slice of the request would keep all of it in memory.
    pub(super) fn remember(&mut self, args: &[u8], prepared: Arc<Prepared>) {
        self.entries.truncate(CAPACITY - 1);
        self.entries.push_front((args.into(), prepared));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{Info, Policy, Verb};

    struct Any;

    impl Policy for Any {
        fn info(&self) -> Info {
            Info::new("any", "1").filters(Verb::per_node())
        }
    }

    fn prepared() -> Arc<Prepared> {
        Prepared::new(Box::new(Any)).unwrap()
    }

    #[test]
    fn the_least_recently_used_one_goes() {
        let mut recent = Recent::default();
        let first = prepared();
        recent.remember(b"0", Arc::clone(&first));
        for args in 1..CAPACITY {
            recent.remember(args.to_string().as_bytes(), prepared());
        }
        assert!(Arc::ptr_eq(&recent.find(b"0").unwrap(), &first));
        recent.remember(b"one more", prepared());
        assert!(recent.find(b"0").is_some());
        assert!(recent.find(b"1").is_none());
        assert_eq!(recent.entries.len(), CAPACITY);
    }
}
