//! The ids of rows. A call names a row by its id where the backend holds it.
//!
//! The contract has 32 bits for an id, and an id is never used twice in a table at a backend. When the numbers are
//! used up, all rows get ids of the next generation, and each backend is sent a new table.

use std::num::NonZeroU32;

/// The id of a row in one view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RowId {
    /// Ids of different generations are in different tables at a backend.
    pub generation: u32,
    /// What calls and streams say. 0 would mean that the row is sent inline.
    pub number: NonZeroU32,
}

/// What an id stands for in the course of time.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) enum RowIdKind {
    /// The latest row of a node: a backend may answer about a later row than the one that was meant.
    #[default]
    Node,
    /// One row. A row with other bytes has another id, so an id never means the node as another call brought it.
    Row,
}

/// Gives ids.
#[derive(Debug, Default)]
pub(super) struct RowIds {
    generation: u32,
    /// The latest number of this generation.
    number: u32,
}

impl RowIds {
    /// Whether so many more fit into this generation.
    pub(super) fn have(&self, more: usize) -> bool {
        usize::try_from(u32::MAX - self.number).is_ok_and(|left| more <= left)
    }

    /// The next id.
    ///
    /// # Panics
    /// The generation is used up: [`RowIds::have`] has to be asked first.
    pub(super) fn next(&mut self) -> RowId {
        self.number = self.number.checked_add(1).expect("writers ask for room before they take ids");
        let number = NonZeroU32::new(self.number).expect("it is at least 1 after an addition");
        RowId { generation: self.generation, number }
    }

    /// Begins the next generation. All ids that were given are void.
    pub(super) fn begin_generation(&mut self) {
        *self = Self { generation: self.generation.wrapping_add(1), number: 0 };
    }

    pub(super) fn generation(&self) -> u32 {
        self.generation
    }

    /// As if so many had been given.
    #[cfg(test)]
    pub(super) fn skip_to(&mut self, number: u32) {
        self.number = number;
    }
}
