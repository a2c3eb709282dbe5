//! Texts that occur in many calls, each stored once: names of nodes and backends, reasons.

use std::{borrow::Cow, collections::HashMap, hash::BuildHasher};

use foldhash::fast::RandomState;
use hashbrown::HashTable;
use parking_lot::{RwLock, RwLockReadGuard, RwLockWriteGuard};

use super::packed::{Runs, RunsSoFar};

/// How many texts after the last one are compared before a lookup: nodes come in their earlier order, with gaps
/// where some were rejected. Comparing more would cost more than the lookup.
const AHEAD: usize = 4;

/// The longest name that is stored whole, in bytes. No name in Kubernetes is longer.
const MAX_NAME: usize = 253;
/// Replaces texts of a call that has used up its room.
pub(super) const NOT_KEPT: &str = "(not kept)";

/// A name, shortened if it is longer than Kubernetes allows.
pub(super) fn truncated_name(name: &str) -> Cow<'_, str> {
    const MARK: &str = "…";
    if name.len() <= MAX_NAME {
        return name.into();
    }
    format!("{}{MARK}", &name[..name.floor_char_boundary(MAX_NAME - MARK.len())]).into()
}

/// How many texts are compared in one step.
const BLOCK: u32 = 16;
/// After how many consecutive texts such a step is worth its cost.
const SURE: u32 = 4;

/// Concatenated texts, and where each ends.
#[derive(Debug, Clone, Copy)]
pub(super) struct DictionaryRow<'t> {
    pub(super) all: &'t str,
    pub(super) ends: &'t [u32],
}

impl<'t> DictionaryRow<'t> {
    /// Whether each text is a name that is stored whole.
    pub(super) fn are_names(self) -> bool {
        let mut start = 0;
        self.ends.iter().all(|end| (*end - std::mem::replace(&mut start, *end)) as usize <= MAX_NAME)
    }

    fn at(self, place: usize) -> &'t str {
        &self.all[start(self.ends, place) as usize..self.ends[place] as usize]
    }

    /// Whether a [`BLOCK`] of texts of the other row, from a position on, equals the texts from this position on.
    fn has_block(self, place: usize, other: DictionaryRow<'_>, at: usize) -> bool {
        let (Some((own, own_ends)), Some((others, others_ends))) = (self.block(place), other.block(at))
        else {
            return false;
        };
        own_ends == others_ends && own == others
    }

    /// The texts from a position on, and their ends relative to it.
    fn block(&self, place: usize) -> Option<(&[u8], [u32; BLOCK as usize])> {
        let ends = self.ends.get(place..)?.first_chunk::<{ BLOCK as usize }>()?;
        let start = start(self.ends, place);
        let text = &self.all.as_bytes()[start as usize..*ends.last()? as usize];
        Some((text, ends.map(|end| end - start)))
    }
}

/// The start of the text at a position.
fn start(ends: &[u32], at: usize) -> u32 {
    at.checked_sub(1).map_or(0, |before| ends[before])
}

/// How many texts are copied under one lock: calls that write to the dictionary wait for no longer than that.
const TEXTS_PER_LOCK: usize = 512;
/// The bytes of a text besides its content: its end, and its slot in the index.
const TEXT_OVERHEAD: usize = 9;

/// Texts by number. Texts are only added, so numbers stay valid for concurrent readers.
#[derive(Debug, Default)]
pub(super) struct Dictionary(RwLock<TextIds>);

/// The content of a [`Dictionary`].
#[derive(Debug, Default)]
pub(super) struct TextIds {
    all: String,
    ends: Vec<u32>,
    index: HashTable<u32>,
    hasher: RandomState,
    /// The remaining bytes for new texts.
    room: usize,
}

impl Dictionary {
    pub(super) fn read(&self) -> RwLockReadGuard<'_, TextIds> {
        self.0.read()
    }

    pub(super) fn write(&self) -> RwLockWriteGuard<'_, TextIds> {
        self.0.write()
    }

    /// Copies these texts, so that slow work does not hold the lock.
    pub(super) fn texts(&self, numbers: &[u32]) -> Texts {
        let mut found = HashMap::with_capacity(numbers.len());
        for numbers in numbers.chunks(TEXTS_PER_LOCK) {
            let texts = self.read();
            found.extend(numbers.iter().map(|number| (*number, texts.at(*number).to_owned())));
        }
        Texts(found)
    }
}

/// Copies of texts, by number.
#[derive(Debug)]
pub(super) struct Texts(HashMap<u32, String>);

impl Texts {
    pub(super) fn at(&self, number: u32) -> &str {
        self.0.get(&number).map_or("", String::as_str)
    }
}

impl TextIds {
    /// The text of a number from this dictionary.
    pub(super) fn at(&self, number: u32) -> &str {
        self.row().at(number as usize)
    }

    /// The number of a text, if it is in the dictionary.
    pub(super) fn find(&self, text: &str) -> Option<u32> {
        self.index.find(self.hasher.hash_one(text), |at| self.at(*at) == text).copied()
    }

    /// Sets the room for new texts, in bytes. [`NOT_KEPT`] replaces texts beyond it.
    pub(super) fn limit(&mut self, room: usize) {
        self.room = room;
    }

    /// The number of a text, which is added if it is new.
    pub(super) fn number(&mut self, text: &str) -> u32 {
        let hash = self.hasher.hash_one(text);
        if let Some(known) = self.index.find(hash, |at| self.at(*at) == text) {
            return *known;
        }
        match self.room.checked_sub(text.len() + TEXT_OVERHEAD) {
            Some(room) => {
                self.room = room;
                self.add(hash, text)
            }
            None if text == NOT_KEPT => self.add(hash, text),
            None => self.number(NOT_KEPT),
        }
    }

    fn add(&mut self, hash: u64, text: &str) -> u32 {
        let number = u32::try_from(self.ends.len()).expect("it is replaced long before");
        self.all.push_str(text);
        self.ends.push(u32::try_from(self.all.len()).expect("it is replaced long before"));
        let Self { all, ends, index, hasher, room: _ } = self;
        let row = DictionaryRow { all: &*all, ends: &*ends };
        index.insert_unique(hash, number, |at| hasher.hash_one(row.at(*at as usize)));
        number
    }

    /// The numbers of texts that mostly follow each other in an earlier order.
    pub(super) fn numbers<T: AsRef<str>>(
        &mut self,
        texts: impl Iterator<Item = T>,
    ) -> impl Iterator<Item = u32> {
        let mut next = 0_u32;
        texts.map(move |text| {
            let text = text.as_ref();
            let number = self.find_ahead(next, text).unwrap_or_else(|| self.number(text));
            next = number + 1;
            number
        })
    }

    /// The same as runs, for concatenated texts: after some consecutive matches, many are compared in one step.
    pub(super) fn runs(&mut self, texts: DictionaryRow<'_>) -> Runs {
        let (mut runs, mut next, mut straight) = (RunsSoFar::default(), 0, 0);
        let mut at = 0;
        while at < texts.ends.len() {
            if straight >= SURE && self.row().has_block(next as usize, texts, at) {
                runs.push(next, BLOCK);
                (next, at) = (next + BLOCK, at + BLOCK as usize);
                continue;
            }
            let text = texts.at(at);
            let number = self.find_ahead(next, text).unwrap_or_else(|| self.number(text));
            straight = if number == next && straight < SURE { straight + 1 } else { 0 };
            runs.push(number, 1);
            (next, at) = (number + 1, at + 1);
        }
        runs.done()
    }

    fn row(&self) -> DictionaryRow<'_> {
        DictionaryRow { all: &self.all, ends: &self.ends }
    }

    /// The number of a text, if it is one of the next ones.
    fn find_ahead(&self, next: u32, text: &str) -> Option<u32> {
        let (all, text) = (self.all.as_bytes(), text.as_bytes());
        let mut start = start(&self.ends, next as usize) as usize;
        for (number, end) in (next..).zip(self.ends.get(next as usize..)?.iter().take(AHEAD)) {
            let end = *end as usize;
            if end - start == text.len() && &all[start..end] == text {
                return Some(number);
            }
            start = end;
        }
        None
    }

    /// The approximate size in bytes.
    pub(super) fn bytes(&self) -> usize {
        self.all.capacity() + self.ends.capacity() * 4 + self.index.capacity() * 5
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn roomy() -> TextIds {
        TextIds { room: usize::MAX, ..TextIds::default() }
    }

    #[test]
    fn names_longer_than_kubernetes_has_are_shortened() {
        assert_eq!(truncated_name(&"a".repeat(253)).len(), 253);
        let kept = truncated_name(&"ä".repeat(127)).into_owned();
        assert_eq!((kept.len(), kept.chars().last()), (253, Some('…')));
    }

    #[test]
    fn texts_beyond_the_room_are_one() {
        let mut texts = TextIds::default();
        texts.limit(2 * (3 + TEXT_OVERHEAD));
        let numbers: Vec<u32> = texts.numbers(["aaa", "bbb", "ccc", "aaa", "ddd"].into_iter()).collect();
        let kept: Vec<&str> = numbers.iter().map(|number| texts.at(*number)).collect();
        assert_eq!(kept, ["aaa", "bbb", NOT_KEPT, "aaa", NOT_KEPT]);
        texts.limit(3 + TEXT_OVERHEAD);
        let number = texts.number("ccc");
        assert_eq!(texts.at(number), "ccc", "the next call has room of its own");
    }

    #[test]
    fn a_text_keeps_its_number() {
        let mut texts = roomy();
        let all: Vec<String> = (0..100).map(|at| format!("node-{at}")).collect();
        let numbers: Vec<u32> = texts.numbers(all.iter().map(String::as_str)).collect();
        assert_eq!(numbers, (0..100).collect::<Vec<_>>());
        let some = ["node-7", "node-9", "node-60", "node-3", "", "node-3"];
        let again: Vec<u32> = texts.numbers(some.into_iter()).collect();
        assert_eq!(again, [7, 9, 60, 3, 100, 3]);
        assert_eq!(again.iter().map(|at| texts.at(*at)).collect::<Vec<_>>(), some);
    }

    proptest! {
        /// Whatever the texts and their order, one by one and in blocks they get the same numbers.
        #[test]
        fn rows_have_the_numbers_of_their_texts(
            rows in prop::collection::vec(
                (0..300_usize, 1..200_usize, prop::collection::vec(0..200_usize, 0..4)),
                1..6,
            ),
        ) {
            let (mut one_by_one, mut at_once) = (roomy(), roomy());
            for (first, count, missing) in rows {
                let names: Vec<String> = (0..count)
                    .filter(|at| !missing.contains(at))
                    .map(|at| (first + at) % 300)
                    .map(|at| if at % 50 == 7 { String::new() } else { format!("node-{at}") })
                    .collect();
                let ends = names.iter().scan(0, |end, name| {
                    *end += u32::try_from(name.len()).unwrap();
                    Some(*end)
                });
                let ends: Vec<u32> = ends.collect();
                let runs = at_once.runs(DictionaryRow { all: &names.concat(), ends: &ends });
                let numbers: Vec<u32> = one_by_one.numbers(names.iter().map(String::as_str)).collect();
                prop_assert_eq!(runs.iter().collect::<Vec<_>>(), numbers);
            }
        }
    }
}
