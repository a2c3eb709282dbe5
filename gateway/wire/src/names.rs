//! The node names of a request, or of a list that is known from an earlier one.

use std::{hash::BuildHasher, ops::Range};

use extender_apiserver::text::utf8;
use foldhash::fast::RandomState;
use hashbrown::{HashTable, hash_table::Entry};

use super::{
    WireError,
    json::{Cursor, RawString},
};

/// The names of the nodes of a call.
///
/// A name that occurs twice is *one* node: it is evaluated once and answered at each of its positions. Nodes are
/// numbered without repetitions in the order of their first entries; entries are the positions in the list.
#[derive(Debug)]
pub struct Names {
    texts: NameTexts,
    repetitions: Option<Repetitions>,
}

/// The names at all entries, without quotes and escapes, concatenated: so they are checked together, and each is
/// available as text without another check.
#[derive(Debug)]
struct NameTexts {
    all: String,
    ends: Vec<u32>,
}

/// Which entries are the same node.
#[derive(Debug, Default)]
struct Repetitions {
    node_of_entry: Vec<u32>,
    first_entry_of_node: Vec<u32>,
}

impl Names {
    /// The names of a list, less than 4 GiB together.
    pub fn of<S: AsRef<str>>(list: &[S]) -> Self {
        Self::at_entries(NameTexts::of(list.iter().map(AsRef::as_ref)))
    }

    /// The names at these positions of a body.
    ///
    /// # Errors
    /// The escapes of a name are malformed.
    pub(super) fn read(body: &[u8], strings: &[RawString]) -> Result<Self, WireError> {
        NameTexts::read(body, strings).map(Self::at_entries)
    }

    fn at_entries(texts: NameTexts) -> Self {
        let repetitions = Repetitions::among(&texts);
        Self { texts, repetitions }
    }

    /// The names of some nodes, each at most once; they are numbered in this order.
    #[must_use]
    pub fn only(&self, nodes: &[u32]) -> Self {
        // Different nodes have different names.
        Self { texts: NameTexts::of(nodes.iter().map(|node| self.name(*node))), repetitions: None }
    }

    /// The number of different nodes.
    pub fn count(&self) -> u32 {
        let nodes = match &self.repetitions {
            None => self.entries(),
            Some(repetitions) => repetitions.first_entry_of_node.len(),
        };
        number(nodes)
    }

    /// The number of names, including repetitions.
    pub fn entries(&self) -> usize {
        self.texts.ends.len()
    }

    /// The node at an entry.
    pub fn node_at(&self, entry: usize) -> u32 {
        match &self.repetitions {
            None => number(entry),
            Some(repetitions) => repetitions.node_of_entry[entry],
        }
    }

    /// The first entry of a node.
    #[inline]
    pub fn first_entry(&self, node: u32) -> usize {
        let first =
            self.repetitions.as_ref().map(|repetitions| repetitions.first_entry_of_node[node as usize]);
        first.unwrap_or(node) as usize
    }

    /// The name of a node.
    #[inline]
    pub fn name(&self, node: u32) -> &str {
        self.texts.at(self.first_entry(node))
    }

    /// The concatenated names of all nodes and the end of each; `None` if a name occurs twice.
    pub fn in_one_piece(&self) -> Option<(&str, &[u32])> {
        self.repetitions.is_none().then_some((&self.texts.all, &self.texts.ends))
    }
}

impl NameTexts {
    fn of<'n>(names: impl Iterator<Item = &'n str> + Clone) -> Self {
        let bytes = names.clone().map(str::len).sum();
        let mut texts = Self::with_capacity(bytes, names.size_hint().0);
        for name in names {
            texts.push(name);
        }
        texts
    }

    fn with_capacity(bytes: usize, entries: usize) -> Self {
        Self { all: String::with_capacity(bytes), ends: Vec::with_capacity(entries) }
    }

    fn push(&mut self, name: &str) {
        self.all.push_str(name);
        self.ends.push(number(self.all.len()));
    }

    fn read(body: &[u8], strings: &[RawString]) -> Result<Self, WireError> {
        let cursor = Cursor::new(body);
        let bytes = strings.iter().map(|string| string.inner().len()).sum();
        let (mut all, mut ends) = (Vec::with_capacity(bytes), Vec::with_capacity(strings.len()));
        for string in strings {
            all.extend_from_slice(&cursor.unescaped(*string)?);
            ends.push(number(all.len()));
        }
        Ok(match checked(all, &ends) {
            Ok(all) => Self { all, ends },
            Err(bytes) => Self::replaced(&bytes, &ends),
        })
    }

    /// The same with replaced bytes in the names that are not UTF-8.
    #[cold]
    fn replaced(bytes: &[u8], bounds: &[u32]) -> Self {
        let mut texts = Self::with_capacity(bytes.len(), bounds.len());
        for entry in 0..bounds.len() {
            texts.push(&utf8(bytes[range(bounds, entry)].into()));
        }
        texts
    }

    #[inline]
    fn at(&self, entry: usize) -> &str {
        &self.all[range(&self.ends, entry)]
    }
}

/// The text, if each of its parts, which end at `ends`, is UTF-8; otherwise the bytes.
fn checked(all: Vec<u8>, ends: &[u32]) -> Result<String, Vec<u8>> {
    let apart = |all: &str| ends.iter().all(|end| all.is_char_boundary(*end as usize));
    match String::from_utf8(all) {
        Ok(all) if apart(&all) => Ok(all),
        Ok(all) => Err(all.into_bytes()),
        Err(error) => Err(error.into_bytes()),
    }
}

/// The range of an entry's name in the concatenated text.
fn range(ends: &[u32], entry: usize) -> Range<usize> {
    let start = if entry == 0 { 0 } else { ends[entry - 1] as usize };
    start..ends[entry] as usize
}

impl Repetitions {
    /// The repetitions in these names, if there are any.
    fn among(texts: &NameTexts) -> Option<Self> {
        let state = RandomState::default();
        let hash = |entry: &u32| state.hash_one(texts.at(*entry as usize).as_bytes());
        let mut first_entries: HashTable<u32> = HashTable::with_capacity(texts.ends.len());
        let mut repetitions: Option<Self> = None;
        for entry in 0..number(texts.ends.len()) {
            let same = |known: &u32| texts.at(*known as usize) == texts.at(entry as usize);
            match first_entries.entry(hash(&entry), same, hash) {
                Entry::Vacant(new) => {
                    new.insert(entry);
                    if let Some(repetitions) = &mut repetitions {
                        repetitions.push_new(entry);
                    }
                }
                Entry::Occupied(first) => {
                    repetitions.get_or_insert_with(|| Self::none_of(entry)).push_again(*first.get());
                }
            }
        }
        repetitions
    }

    /// No repetitions: the first `entries` entries are different nodes.
    fn none_of(entries: u32) -> Self {
        let all: Vec<u32> = (0..entries).collect();
        Self { node_of_entry: all.clone(), first_entry_of_node: all }
    }

    fn push_new(&mut self, entry: u32) {
        self.node_of_entry.push(number(self.first_entry_of_node.len()));
        self.first_entry_of_node.push(entry);
    }

    /// Appends an entry of the node that has its first entry at `first`.
    fn push_again(&mut self, first: u32) {
        self.node_of_entry.push(self.node_of_entry[first as usize]);
    }
}

/// Converts an index: nodes and entries are numbered in 32 bits.
fn number(at: usize) -> u32 {
    u32::try_from(at).expect("a body below 4 GiB has fewer names")
}
