//! What tests ask of a table.

use super::{Column, NodeTable, ViewId};

impl NodeTable {
    /// The number of views whose rows are kept.
    pub fn columns(&self) -> usize {
        self.lock_writer().views().count()
    }
}

impl Column {
    /// Keeps the column for as long as the table exists.
    pub fn leak(self) -> ViewId {
        let id = self.id();
        std::mem::forget(self);
        id
    }
}
