//! Which nodes a backend holds, and how calls name them.

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use bytes::Bytes;

use super::question::{Nodes, References};
use crate::cluster::table::Line;

/// What a backend holds of one table in one view, as far as it has said so.
#[derive(Debug, Default)]
pub struct Held {
    latest: ArcSwapOption<Holding>,
}

/// A state that the backend has.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Holding {
    /// `SyncNodesRequest.table`.
    pub table: u64,
    /// The version that it has acknowledged.
    pub applied: u64,
    /// It has every row of at most this version, or a later one of the node.
    pub rows: u64,
}

impl Held {
    /// The latest state; `None` when it holds nothing.
    pub fn latest(&self) -> Option<Arc<Holding>> {
        self.latest.load_full()
    }

    pub(super) fn set(&self, holding: Option<Holding>) {
        self.latest.store(holding.map(Arc::new));
    }
}

impl Holding {
    /// These nodes as a part of a question: by their ids where the backend has them, else by their rows.
    pub fn name<'l>(&self, lines: impl ExactSizeIterator<Item = &'l Line>) -> Nodes {
        let mut references = References::with_capacity(lines.len());
        for line in lines {
            if line.row.is_kept() && line.row.version <= self.rows {
                references.id(line.id);
            } else {
                references.row(&line.row.bytes);
            }
        }
        references.finish(self.table, self.applied)
    }
}

/// A row in the form of `TableEntry.row`: another key before the same message.
pub(super) fn in_entry(row: &Bytes) -> (u8, &[u8]) {
    const ROW_KEY: u8 = 2 << 3 | 2;
    (ROW_KEY, &row[1..])
}
