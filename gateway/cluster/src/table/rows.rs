//! Rows in the views of a table, with their versions and ids.
//!
//! Calls name a row by its id if the backend holds it. The contract has 32 bits for an id, and a backend's table never
//! reuses one. When the numbers are exhausted, all rows get ids of the next generation, and each backend is sent a new
//! table.

use std::{num::NonZeroU32, sync::Arc};

use bytes::Bytes;

/// The position of a view's rows. Valid in one table, until the view's last [`Column`] is dropped.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ViewId(pub(super) usize);

/// A registered view. Its rows are dropped with the first write to the table after the last clone of this is dropped.
#[derive(Debug, Clone)]
pub struct Column(pub(super) Arc<ViewId>);

impl Column {
    /// The position of its rows.
    pub fn id(&self) -> ViewId {
        *self.0
    }
}

/// Positions are reused and mean nothing in another table: only clones are equal.
impl PartialEq for Column {
    fn eq(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }
}

impl Eq for Column {}

/// The id of a node's row in one view.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct RowId {
    /// Ids of different generations are in different tables at a backend.
    pub generation: u32,
    /// The id in calls and streams, where 0 means that the row is sent inline.
    pub number: NonZeroU32,
}

/// A node's row in one view, as the table's writer has it.
#[derive(Debug, Clone)]
pub(super) struct RowState {
    /// The entry for a `NodeRows` message.
    pub bytes: Bytes,
    /// Identifies the state of the row: within a view, a slot never has two different rows of one version, even if
    /// another node gets the slot.
    pub version: u64,
    /// Identifies the row to backends that hold it.
    pub id: RowId,
}

/// A node's row in one view, as a call reads it.
#[derive(Debug, Clone, Copy)]
pub struct NodeRow<'r> {
    /// A small number, which another node may get when this one is removed.
    pub slot: u32,
    /// Identifies the state of the row: within a view, a slot never has two different rows of one version, even if
    /// another node gets the slot. 0 if the row is in no table.
    pub version: u64,
    /// Identifies the row to backends that hold it; `None` if it is in no table.
    pub id: Option<RowId>,
    /// The entry for a `NodeRows` message.
    pub bytes: &'r Bytes,
}

/// Identifies a state of a node's row in one view. Calls compare thousands of them, without touching the rows.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RowKey {
    /// As in [`NodeRow`].
    pub slot: u32,
    /// As in [`NodeRow`].
    pub version: u64,
}

impl RowKey {
    /// Whether the row is in a table, so that its version identifies it.
    pub fn is_kept(&self) -> bool {
        self.version > 0
    }
}

/// Writes rows with their versions and ids.
#[derive(Debug, Default)]
pub(super) struct RowWriter {
    /// Whether a changed row gets a new id, so that an id never means the node as another call sent it. Otherwise an id
    /// means the latest row of its node, and a backend may answer about a later row than the call's.
    pub(super) id_per_row: bool,
    /// The version of the latest change, for the rows written in it.
    pub(super) version: u64,
    pub(super) generation: u32,
    /// The latest id of this generation.
    pub(super) number: u32,
}

impl RowWriter {
    /// Replaces a row, unless its bytes are the same. Returns whether they were not.
    ///
    /// # Panics
    /// The ids are exhausted: see [`RowWriter::has_ids`].
    pub(super) fn write(&mut self, row: &mut Option<RowState>, bytes: Option<Bytes>) -> bool {
        if row.as_ref().map(|row| &row.bytes) == bytes.as_ref() {
            return false;
        }
        let kept = row.as_ref().map(|row| row.id).filter(|_| !self.id_per_row);
        *row = bytes.map(|bytes| {
            let id = kept.unwrap_or_else(|| self.next_id());
            RowState { bytes, version: self.version, id }
        });
        true
    }

    /// Whether this generation has this many unused ids.
    pub(super) fn has_ids(&self, count: usize) -> bool {
        usize::try_from(u32::MAX - self.number).is_ok_and(|left| count <= left)
    }

    /// The next id.
    pub(super) fn next_id(&mut self) -> RowId {
        self.number = self.number.checked_add(1).expect("writers call `has_ids` first");
        let number = NonZeroU32::new(self.number).expect("it is at least 1 after an addition");
        RowId { generation: self.generation, number }
    }

    /// Begins the next generation. All earlier ids become invalid.
    pub(super) fn begin_generation(&mut self) {
        self.generation = self.generation.wrapping_add(1);
        self.number = 0;
    }
}
