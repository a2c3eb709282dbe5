//! One answer for each node, each for one state of its row.

use crate::cluster::table::Line;

/// Answers by node.
#[derive(Debug)]
pub(super) struct Sheet<A> {
    /// By slot.
    entries: Vec<Entry<A>>,
}

#[derive(Debug, Clone, Copy)]
struct Entry<A> {
    /// Of the row that was answered about; 0 for none.
    version: u64,
    answer: A,
}

impl<A> Default for Sheet<A> {
    /// No answers yet.
    fn default() -> Self {
        Self { entries: Vec::new() }
    }
}

impl<A: Copy + Default> Sheet<A> {
    /// The answer for exactly this state of the node's row.
    pub(super) fn get(&self, line: &Line) -> Option<A> {
        let entry = self.entries.get(line.slot as usize)?;
        (entry.version == line.row.version && line.row.is_kept()).then_some(entry.answer)
    }

    /// Keeps an answer in place of the one for an earlier state.
    pub(super) fn put(&mut self, line: &Line, answer: A) {
        if !line.row.is_kept() {
            return;
        }
        let place = line.slot as usize;
        if self.entries.len() <= place {
            self.entries.resize(place + 1, Entry { version: 0, answer: A::default() });
        }
        self.entries[place] = Entry { version: line.row.version, answer };
    }

    /// What it takes in memory.
    pub(super) fn bytes(&self) -> usize {
        self.entries.capacity() * size_of::<Entry<A>>()
    }
}

#[cfg(test)]
mod tests {
    use super::Sheet;
    use crate::cluster::table::{Line, Row};

    fn line(slot: u32, version: u64) -> Line {
        Line { slot, id: slot + 1, row: Row { bytes: bytes::Bytes::new(), version } }
    }

    #[test]
    fn an_answer_is_for_one_state_of_one_row() {
        let mut sheet = Sheet::default();
        sheet.put(&line(3, 7), 1);
        assert_eq!(sheet.get(&line(3, 7)), Some(1));
        for other in [line(3, 8), line(3, 6), line(2, 7), line(4, 7), line(0, 0)] {
            assert_eq!(sheet.get(&other), None, "{other:?}");
        }
        sheet.put(&line(3, 8), 2);
        assert_eq!((sheet.get(&line(3, 7)), sheet.get(&line(3, 8))), (None, Some(2)));
    }

    #[test]
    fn rows_that_are_in_no_table_are_not_kept() {
        let mut sheet = Sheet::default();
        sheet.put(&Line::outside(bytes::Bytes::new()), 1);
        assert_eq!(sheet.bytes(), 0);
        assert_eq!(sheet.get(&Line::outside(bytes::Bytes::new())), None);
    }
}
