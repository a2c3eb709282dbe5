//! The values of declared keys of a row, laid out for look-up by position.

use super::facts::Facts;
use crate::reads::Map;

/// Those of labels and of annotations.
#[derive(Debug)]
pub(super) struct Values {
    labels: List,
    annotations: List,
}

/// How many ends are kept in place: thousands of rows are read one after the other, and each further piece of memory is
/// one that the processor has to wait for.
const FEW: usize = 4;

/// Set in the end of a value that the node lacks. The text of a row is below 2 GiB, as every message is.
const ABSENT: u32 = 1 << 31;

/// Values in one text, one after the other.
#[derive(Debug)]
struct List {
    text: Box<str>,
    /// Where each of the first values ends in `text`, with [`ABSENT`].
    few: [u32; FEW],
    /// The same for the others.
    more: Box<[u32]>,
}

impl Values {
    /// From checked facts.
    pub(super) fn of(facts: Facts<'_>) -> Self {
        let list = |map| List::of(facts.map(map).values(), facts.map(map).absent());
        Self { labels: list(Map::Labels), annotations: list(Map::Annotations) }
    }

    /// The value of a declared key, if the node has it.
    pub(super) fn at(&self, map: Map, position: usize) -> Option<&str> {
        match map {
            Map::Labels => self.labels.at(position),
            Map::Annotations => self.annotations.at(position),
        }
    }
}

impl List {
    fn of<'v>(values: impl Iterator<Item = &'v str>, absent: impl Iterator<Item = u32>) -> Self {
        let (mut text, mut ends) = (String::new(), Vec::new());
        for value in values {
            text.push_str(value);
            ends.push(u32::try_from(text.len()).expect("a message is below 2 GiB"));
        }
        for position in absent.map(|position| position as usize) {
            let begin =
                position.checked_sub(1).and_then(|before| ends.get(before)).map_or(0, |end| end & !ABSENT);
            // A value that is not empty counts, even if its key is listed as absent.
            if let Some(end) = ends.get_mut(position).filter(|end| **end == begin) {
                *end |= ABSENT;
            }
        }
        let mut few = [0; FEW];
        let first = ends.len().min(FEW);
        few[..first].copy_from_slice(&ends[..first]);
        Self { text: text.into(), few, more: ends.drain(first..).collect() }
    }

    fn at(&self, position: usize) -> Option<&str> {
        let begin = position.checked_sub(1).map_or(0, |before| self.end(before) & !ABSENT);
        let end = self.end(position);
        (end & ABSENT == 0).then(|| &self.text[begin as usize..end as usize])
    }

    fn end(&self, position: usize) -> u32 {
        if position < FEW { self.few[position] } else { self.more[position - FEW] }
    }
}
