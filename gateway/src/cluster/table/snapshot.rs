//! What calls read of a table: where each node stands, and its rows.

use std::sync::Arc;

use bytes::Bytes;
use parking_lot::RwLockReadGuard;

use super::{NodeNames, NodeRows, ViewId, ids::RowId, log::ChangeLog};

/// A node's row in one view.
#[derive(Debug, Clone)]
pub struct RowState {
    /// The entry for a `NodeRows` message.
    pub bytes: Bytes,
    /// Which state of the node's row this is. Within a view a slot never has two different rows of one version,
    /// whichever nodes it is given to in the course of time.
    pub version: u64,
    /// What names it to a backend that holds it; `None` where it is in no table.
    pub id: Option<RowId>,
}

impl RowState {
    /// Whether it is in a table, so that its version means something.
    pub fn is_kept(&self) -> bool {
        self.version > 0
    }
}

/// A row, and whose it is.
#[derive(Debug, Clone)]
pub struct NodeRow {
    /// The node's slot: a small number, which another node may get when this one is gone.
    pub slot: u32,
    /// The row.
    pub state: RowState,
}

impl NodeRow {
    /// Of a node that is in no table.
    pub fn unkept(bytes: Bytes) -> Self {
        Self { slot: u32::MAX, state: RowState { bytes, version: 0, id: None } }
    }
}

/// What a look at the table found of some nodes.
#[derive(Debug)]
pub struct Found {
    /// Of those that are there, in order.
    pub rows: NodeRows,
    /// The places of the others among all, ascending.
    pub unknown: Vec<u32>,
    /// The places of those of them that were deleted, ascending; a look without waiting does not tell them apart.
    pub deleted: Vec<u32>,
    /// The table's version then: while it has that, all lines are current.
    pub version: u64,
}

/// The rows of a node: one for each view, `None` where the view wants what is not known. Empty while no node has the
/// slot.
pub(super) type TableSlot = Vec<Option<RowState>>;

/// All nodes as calls see them.
#[derive(Debug, Default)]
pub(super) struct TableSnapshot {
    pub(super) slot_of: NodeNames<u32>,
    pub(super) slots: Vec<TableSlot>,
    /// No row has a greater one.
    pub(super) version: u64,
    /// Of the ids of all rows.
    pub(super) generation: u32,
    /// How it came to be at this version.
    pub(super) log: ChangeLog,
}

impl TableSnapshot {
    /// Takes a node's rows; returns the old ones, to be freed after the lock.
    pub(super) fn put(&mut self, name: &Arc<str>, at: u32, slot: TableSlot) -> TableSlot {
        let place = at as usize;
        if self.slots.len() <= place {
            self.slots.resize_with(place + 1, TableSlot::default);
        }
        self.slot_of.insert(Arc::clone(name), at);
        self.log.push(self.version, at, self.slots.len());
        std::mem::replace(&mut self.slots[place], slot)
    }

    /// Forgets a node; returns its rows, to be freed after the lock.
    pub(super) fn remove(&mut self, name: &str) -> TableSlot {
        let Some(at) = self.slot_of.remove(name) else { return TableSlot::default() };
        self.log.push(self.version, at, self.slots.len());
        self.slots.get_mut(at as usize).map(std::mem::take).unwrap_or_default()
    }
}

/// The rows of the table while a call copies them.
#[derive(Debug)]
pub struct TableRead<'t> {
    pub(super) snapshot: RwLockReadGuard<'t, TableSnapshot>,
}

impl TableRead<'_> {
    /// The node's entry for a `NodeRows` message in this view; `None` when the node, or what the view wants of it,
    /// is not known yet.
    pub fn entry(&self, name: &str, view: ViewId) -> Option<&[u8]> {
        let slot = *self.snapshot.slot_of.get(name)?;
        self.at(slot, view).map(|row| &*row.bytes)
    }

    /// The node's line in this view; `None` as for [`TableRead::entry`].
    pub fn row(&self, name: &str, view: ViewId) -> Option<NodeRow> {
        let slot = *self.snapshot.slot_of.get(name)?;
        let row = self.at(slot, view)?.clone();
        Some(NodeRow { slot, state: row })
    }

    /// Whether there is a node of this name.
    pub(super) fn knows(&self, name: &str) -> bool {
        self.snapshot.slot_of.contains_key(name)
    }

    /// Whether all of these nodes have their row in this view.
    pub(super) fn has(&self, names: &[&str], view: ViewId) -> bool {
        names.iter().all(|name| self.entry(name, view).is_some())
    }

    /// The lines of these nodes in this view, as far as they are there.
    pub fn rows<'n>(&self, names: impl ExactSizeIterator<Item = &'n str>, view: ViewId) -> Found {
        let (mut lines, mut unknown) = (Vec::with_capacity(names.len()), Vec::new());
        for (place, name) in (0..).zip(names) {
            match self.row(name, view) {
                Some(line) => lines.push(line),
                None => unknown.push(place),
            }
        }
        Found { rows: lines.into(), unknown, deleted: Vec::new(), version: self.version() }
    }

    /// Whether the line is still the node's in this view.
    pub fn is_current(&self, line: &NodeRow, view: ViewId) -> bool {
        self.at(line.slot, view).is_some_and(|row| row.version == line.state.version)
    }

    /// The slots that are not as they were when the table had this version, some perhaps several times; `None` when
    /// that is not known any more, and every slot has to be looked at.
    pub fn changed_since(&self, version: u64) -> Option<impl Iterator<Item = u32>> {
        self.snapshot.log.since(version)
    }

    /// How many slots there are; no node has one above.
    pub fn slots(&self) -> u32 {
        u32::try_from(self.snapshot.slots.len()).expect("a slot's number has 32 bits")
    }

    /// The row of the node that has this slot; `None` where no node has it, or what the view wants is not known.
    pub fn at(&self, slot: u32, view: ViewId) -> Option<&RowState> {
        self.snapshot.slots.get(slot as usize)?.get(view.0)?.as_ref()
    }

    /// Of the ids of all rows. With another generation, a backend needs another table.
    pub fn generation(&self) -> u32 {
        self.snapshot.generation
    }

    /// The greatest version that a row may have now.
    pub fn version(&self) -> u64 {
        self.snapshot.version
    }
}
