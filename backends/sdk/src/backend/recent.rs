//! The policies that were recently built from args, by the digest of these. Bounded in number and bytes: args come from outside, and each
//! policy costs memory.

use std::{collections::VecDeque, sync::Arc};

use super::Versions;
use crate::digest::Digest;

/// With more configured policies than this, some are rebuilt now and then; they still work.
const MAX_POLICIES: usize = 32;

/// The most bytes of args from which they were built. A policy built from them can be tens of times as large.
const MAX_BYTES: usize = 2 << 20;

/// The policies, the most recently used first. A linear search: there are few, and mostly one.
#[derive(Default)]
pub(super) struct Recent {
    entries: VecDeque<Entry>,
}

struct Entry {
    digest: Digest,
    /// Of the args.
    bytes: usize,
    versions: Arc<Versions>,
    usage: Used,
}

/// Args that are used once, as by a client that is not the gateway, must not displace those of every call.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Used {
    Once,
    Repeated,
}

impl Recent {
    pub(super) fn find(&mut self, digest: &Digest) -> Option<Arc<Versions>> {
        let position = self.entries.iter().position(|entry| entry.digest == *digest)?;
        if position > 0 {
            let entry = self.entries.remove(position)?;
            self.entries.push_front(entry);
        }
        let entry = self.entries.front_mut()?;
        entry.usage = Used::Repeated;
        Some(Arc::clone(&entry.versions))
    }

    /// The policy for args of this digest and length.
    pub(super) fn remember(&mut self, digest: Digest, bytes: usize, versions: Arc<Versions>) {
        while self.entries.len() >= MAX_POLICIES || self.bytes() + bytes > MAX_BYTES {
            if self.evict().is_none() {
                break;
            }
        }
        self.entries.push_front(Entry { digest, bytes, versions, usage: Used::Once });
    }

    /// Removes the least recently used entry; entries that were used only once go first.
    fn evict(&mut self) -> Option<Entry> {
        let once = self.entries.iter().rposition(|entry| entry.usage == Used::Once);
        self.entries.remove(once.or(self.entries.len().checked_sub(1))?)
    }

    pub(super) fn versions(&self) -> impl Iterator<Item = &Arc<Versions>> {
        self.entries.iter().map(|entry| &entry.versions)
    }

    fn bytes(&self) -> usize {
        self.entries.iter().map(|entry| entry.bytes).sum()
    }
}

#[cfg(test)]
mod tests {
    use std::convert::identity;

    use super::*;
    use crate::{digest::sha256, tests::Filters};

    fn prepared() -> Arc<Versions> {
        Arc::new(Versions::new(Box::new(Filters), identity).unwrap())
    }

    fn remember(recent: &mut Recent, args: &[u8], versions: Arc<Versions>) {
        recent.remember(sha256(args), args.len(), versions);
    }

    fn find(recent: &mut Recent, args: &[u8]) -> Option<Arc<Versions>> {
        recent.find(&sha256(args))
    }

    #[test]
    fn the_least_recently_used_one_goes() {
        let mut recent = Recent::default();
        let first = prepared();
        remember(&mut recent, b"0", Arc::clone(&first));
        for args in 1..MAX_POLICIES {
            remember(&mut recent, args.to_string().as_bytes(), prepared());
        }
        assert!(Arc::ptr_eq(&find(&mut recent, b"0").unwrap(), &first));
        remember(&mut recent, b"one more", prepared());
        assert!(find(&mut recent, b"0").is_some());
        assert!(find(&mut recent, b"1").is_none());
        assert_eq!(recent.entries.len(), MAX_POLICIES);
    }

    #[test]
    fn large_args_do_not_add_up() {
        let mut recent = Recent::default();
        for number in 0..8 {
            remember(&mut recent, &vec![number; 1 << 20], prepared());
        }
        assert_eq!(recent.bytes(), 2 << 20);
        assert!(find(&mut recent, &vec![7; 1 << 20]).is_some());
        assert!(find(&mut recent, &vec![5; 1 << 20]).is_none());
    }

    #[test]
    fn args_that_come_once_do_not_displace_those_in_use() {
        let mut recent = Recent::default();
        for args in [b"a", b"b"] {
            remember(&mut recent, args, prepared());
            assert!(find(&mut recent, args).is_some());
        }
        for number in 0..1_000_u32 {
            remember(&mut recent, &number.to_be_bytes(), prepared());
        }
        for number in 0..4 {
            remember(&mut recent, &vec![number; 1 << 20], prepared());
        }
        assert!(find(&mut recent, b"a").is_some());
        assert!(find(&mut recent, b"b").is_some());
    }
}
