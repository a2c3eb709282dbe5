//! Texts that occur in many calls, each once: names of nodes and backends, reasons.

use std::{
    hash::BuildHasher,
    sync::{PoisonError, RwLock, RwLockReadGuard, RwLockWriteGuard},
};

use foldhash::fast::RandomState;
use hashbrown::HashTable;

/// How far ahead of the last text the next one is looked for before it is looked up: nodes come in the order in which they
/// came before, with gaps where some fell out. Looking further would cost more than looking up.
const AHEAD: usize = 4;

/// Texts by numbers. Texts are only added, so that a number keeps its meaning while readers and one writer go on.
#[derive(Debug, Default)]
pub(super) struct Dictionary(RwLock<Texts>);

/// The content of a [`Dictionary`].
#[derive(Debug, Default)]
pub(super) struct Texts {
    all: String,
    ends: Vec<u32>,
    index: HashTable<u32>,
    hasher: RandomState,
}

impl Dictionary {
    pub(super) fn read(&self) -> RwLockReadGuard<'_, Texts> {
        self.0.read().unwrap_or_else(PoisonError::into_inner)
    }

    pub(super) fn write(&self) -> RwLockWriteGuard<'_, Texts> {
        self.0.write().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Texts {
    /// The text of a number that this dictionary gave.
    pub(super) fn at(&self, number: u32) -> &str {
        let start = number.checked_sub(1).map_or(0, |before| self.ends[before as usize]);
        &self.all[start as usize..self.ends[number as usize] as usize]
    }

    /// The number of a text, if it has one.
    pub(super) fn find(&self, text: &str) -> Option<u32> {
        self.index.find(self.hasher.hash_one(text), |at| self.at(*at) == text).copied()
    }

    /// The number of a text, a new one where it has none.
    pub(super) fn number(&mut self, text: &str) -> u32 {
        let hash = self.hasher.hash_one(text);
        if let Some(known) = self.index.find(hash, |at| self.at(*at) == text) {
            return *known;
        }
        let number = u32::try_from(self.ends.len()).expect("it is replaced long before");
        self.all.push_str(text);
        self.ends.push(u32::try_from(self.all.len()).expect("it is replaced long before"));
        let Self { all, ends, index, hasher } = self;
        let text_at = |at: u32| {
            let start = at.checked_sub(1).map_or(0, |before| ends[before as usize]);
            &all[start as usize..ends[at as usize] as usize]
        };
        index.insert_unique(hash, number, |at| hasher.hash_one(text_at(*at)));
        number
    }

    /// The numbers of texts that mostly follow one another as they did before.
    pub(super) fn numbers<'t>(&mut self, texts: impl Iterator<Item = &'t str>) -> impl Iterator<Item = u32> {
        let mut next = 0_u32;
        texts.map(move |text| {
            let number = self.find_ahead(next, text).unwrap_or_else(|| self.number(text));
            next = number + 1;
            number
        })
    }

    /// The number of a text, if it is one of the next ones.
    fn find_ahead(&self, next: u32, text: &str) -> Option<u32> {
        let (all, text) = (self.all.as_bytes(), text.as_bytes());
        let mut start = next.checked_sub(1).map_or(0, |before| self.ends[before as usize] as usize);
        for (number, end) in (next..).zip(self.ends.get(next as usize..)?.iter().take(AHEAD)) {
            let end = *end as usize;
            if end - start == text.len() && &all[start..end] == text {
                return Some(number);
            }
            start = end;
        }
        None
    }

    /// How many bytes it takes, about.
    pub(super) fn bytes(&self) -> usize {
        self.all.capacity() + self.ends.capacity() * 4 + self.index.capacity() * 5
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_keeps_its_number() {
        let mut texts = Texts::default();
        let all: Vec<String> = (0..100).map(|at| format!("node-{at}")).collect();
        let numbers: Vec<u32> = texts.numbers(all.iter().map(String::as_str)).collect();
        assert_eq!(numbers, (0..100).collect::<Vec<_>>());
        let some = ["node-7", "node-9", "node-60", "node-3", "", "node-3"];
        let again: Vec<u32> = texts.numbers(some.into_iter()).collect();
        assert_eq!(again, [7, 9, 60, 3, 100, 3]);
        assert_eq!(again.iter().map(|at| texts.at(*at)).collect::<Vec<_>>(), some);
    }
}
