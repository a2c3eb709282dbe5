//! The node names of a request, as places in its body.

use std::{borrow::Cow, collections::hash_map::Entry, ops::Range, str};

use bytes::Bytes;
use foldhash::{HashMap, HashMapExt};

use super::{
    WireError,
    json::{Cursor, RawString},
};

/// The names of the nodes in question.
///
/// A name that occurs twice is *one* node: it is evaluated once and answered at each of its places. Nodes
/// are numbered without repetitions in the order of their first places; entries are the places.
#[derive(Debug)]
pub struct Names {
    body: Bytes,
    /// The string at each entry.
    strings: Vec<RawString>,
    repetitions: Option<Repetitions>,
    /// The few names that stand with escapes in the body, by entry.
    unescaped: HashMap<u32, Box<str>>,
}

/// Which entries are the same node.
#[derive(Debug, Default)]
struct Repetitions {
    node_of_entry: Vec<u32>,
    first_entry_of_node: Vec<u32>,
}

impl Names {
    /// The names that stand at these places of a body.
    ///
    /// # Errors
    /// A name is not UTF-8, or its escapes are malformed.
    pub(super) fn new(body: Bytes, strings: Vec<RawString>) -> Result<Self, WireError> {
        let mut unescaped = HashMap::new();
        let mut repetitions: Option<Repetitions> = None;
        let mut nodes = HashMap::with_capacity(strings.len());
        for (entry, &string) in (0_u32..).zip(&strings) {
            let name = Cursor::new(&body).text(string, "a node name")?;
            if let Cow::Owned(name) = &name {
                unescaped.insert(entry, name.as_str().into());
            }
            let node = number(nodes.len());
            match (nodes.entry(name), &mut repetitions) {
                (Entry::Vacant(new), None) => drop(new.insert(node)),
                (Entry::Vacant(new), Some(repetitions)) => repetitions.push(*new.insert(node), Some(entry)),
                (Entry::Occupied(known), repetitions) => {
                    repetitions.get_or_insert_with(|| Repetitions::none_of(entry)).push(*known.get(), None);
                }
            }
        }
        drop(nodes);
        Ok(Self { body, strings, repetitions, unescaped })
    }

    /// How many different nodes there are.
    pub fn count(&self) -> u32 {
        let nodes = match &self.repetitions {
            None => self.strings.len(),
            Some(repetitions) => repetitions.first_entry_of_node.len(),
        };
        number(nodes)
    }

    /// How many names there are, repetitions included.
    pub fn entries(&self) -> usize {
        self.strings.len()
    }

    /// The node at an entry.
    pub fn node_at(&self, entry: usize) -> u32 {
        match &self.repetitions {
            None => number(entry),
            Some(repetitions) => repetitions.node_of_entry[entry],
        }
    }

    /// The first entry of a node.
    pub fn first_entry(&self, node: u32) -> usize {
        let first =
            self.repetitions.as_ref().map(|repetitions| repetitions.first_entry_of_node[node as usize]);
        first.unwrap_or(node) as usize
    }

    /// The name of a node.
    pub fn name(&self, node: u32) -> &str {
        let entry = self.first_entry(node);
        if !self.unescaped.is_empty()
            && let Some(name) = u32::try_from(entry).ok().and_then(|entry| self.unescaped.get(&entry))
        {
            return name;
        }
        let raw = &self.body[self.strings[entry].inner()];
        str::from_utf8(raw).expect("names were checked when they were read")
    }

    /// The name at an entry as JSON, quotes and escapes included, as it stands in the request.
    pub fn quoted(&self, entry: usize) -> &[u8] {
        &self.body[self.quoted_range(entry)]
    }

    pub(super) fn quoted_range(&self, entry: usize) -> Range<usize> {
        self.strings[entry].quoted()
    }
}

impl Repetitions {
    /// The first `entries` entries are different nodes.
    fn none_of(entries: u32) -> Self {
        let all: Vec<u32> = (0..entries).collect();
        Self { node_of_entry: all.clone(), first_entry_of_node: all }
    }

    /// The next entry is this node; `first` is the entry if it is new.
    fn push(&mut self, node: u32, first: Option<u32>) {
        self.node_of_entry.push(node);
        self.first_entry_of_node.extend(first);
    }
}

/// Nodes and entries are numbered in 32 bits.
fn number(at: usize) -> u32 {
    u32::try_from(at).expect("a body below 4 GiB has fewer names")
}
