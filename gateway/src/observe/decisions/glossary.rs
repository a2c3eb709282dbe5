//! The texts of one entry, copied out of its dictionary, so that slow work does not hold the dictionary's lock.

use std::collections::HashMap;

use super::entry::{LogEntry, SaidEntry};

/// How many texts are copied under one lock: calls that write to the dictionary wait for no longer than that.
const AT_ONCE: usize = 512;

/// Texts by their numbers.
#[derive(Debug)]
pub(super) struct Glossary(HashMap<u32, String>);

impl Glossary {
    /// The texts of an entry.
    pub(super) fn of(entry: &LogEntry) -> Self {
        let parts = entry.parts.iter().flat_map(|part| std::iter::once(part.name).chain(said(&part.said)));
        let numbers: Vec<u32> = entry.nodes.iter().chain([entry.nominated]).chain(parts).collect();
        let mut found = HashMap::with_capacity(numbers.len());
        for numbers in numbers.chunks(AT_ONCE) {
            let texts = entry.dictionary.read();
            found.extend(numbers.iter().map(|number| (*number, texts.at(*number).to_owned())));
        }
        Self(found)
    }

    /// The text of a number in the entry.
    pub(super) fn at(&self, number: u32) -> &str {
        self.0.get(&number).map_or("", String::as_str)
    }
}

/// The numbers in a backend's answer.
fn said(said: &SaidEntry) -> Vec<u32> {
    match said {
        SaidEntry::Nothing | SaidEntry::Scored { .. } | SaidEntry::Kept { .. } => Vec::new(),
        SaidEntry::Failed { message, .. } => vec![*message],
        SaidEntry::Refused { refusals, .. } => refusals.iter().map(|(reason, _)| *reason).collect(),
        SaidEntry::Choice(words) => vec![*words],
    }
}
