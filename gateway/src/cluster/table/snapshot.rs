//! The part of a table that calls read: the slot of each node, its rows, and a log of recent changes.

use std::{collections::VecDeque, sync::Arc};

use super::{NodeNames, NodeRow, NodeRows, RowState, ViewId};

/// The rows of some nodes in one view.
#[derive(Debug)]
pub struct Found {
    /// The rows that the table has, in the order of the nodes.
    pub rows: NodeRows,
    /// The positions of the nodes without rows, ascending.
    pub unknown: Vec<u32>,
    /// The positions of those that were deleted, ascending. Only [`NodeTable::rows`](super::NodeTable::rows) sets it.
    pub deleted: Vec<u32>,
    /// The table's version: while the table has it, all rows are current.
    pub version: u64,
}

impl Found {
    /// The unknown ones of the nodes that were looked up, with their positions.
    pub(super) fn unknown_names<'n>(
        &self,
        names: impl Iterator<Item = &'n str>,
    ) -> impl Iterator<Item = (u32, &'n str)> {
        (0..).zip(names).filter(move |(position, _)| self.unknown.binary_search(position).is_ok())
    }
}

/// A node's rows by view; `None` where something that the view contains is unknown. Empty while no node has the slot.
pub(super) type TableSlot = Vec<Option<RowState>>;

/// All nodes as calls read them.
#[derive(Debug, Default)]
pub struct TableSnapshot {
    pub(super) slot_of: NodeNames<u32>,
    /// By view, then by slot: the rows of a call are close together.
    pub(super) columns: Vec<Vec<Option<RowState>>>,
    /// The number of slots that nodes have had.
    pub(super) slots: usize,
    /// The version of the latest change; no row has a later one.
    pub(super) version: u64,
    /// The generation of all row ids.
    pub(super) generation: u32,
    pub(super) log: ChangeLog,
}

impl TableSnapshot {
    /// Sets a node's rows; returns the old ones, to be freed after the lock.
    pub(super) fn put(&mut self, name: &Arc<str>, position: u32, slot: TableSlot) -> TableSlot {
        self.slots = self.slots.max(position as usize + 1);
        self.slot_of.insert(Arc::clone(name), position);
        self.log.push(self.version, position, self.slots);
        self.replace_rows(position, slot)
    }

    /// Sets the rows of a slot, and removes those of the views that `rows` lacks.
    fn replace_rows(&mut self, position: u32, mut rows: TableSlot) -> TableSlot {
        let (index, views) = (position as usize, rows.len().max(self.columns.len()));
        self.columns.resize_with(views, Vec::new);
        rows.resize_with(views, || None);
        for (column, row) in self.columns.iter_mut().zip(&mut rows) {
            if column.len() <= index && row.is_some() {
                column.resize_with(index + 1, || None);
            }
            if let Some(known) = column.get_mut(index) {
                std::mem::swap(known, row);
            }
        }
        rows
    }

    /// Removes a node; returns its rows, to be freed after the lock.
    pub(super) fn remove(&mut self, name: &str) -> TableSlot {
        let Some(position) = self.slot_of.remove(name) else { return TableSlot::default() };
        self.log.push(self.version, position, self.slots);
        self.replace_rows(position, TableSlot::new())
    }

    /// The node's row in this view; `None` if the node, or something that the view contains, is unknown.
    pub fn row(&self, name: &str, view: ViewId) -> Option<NodeRow> {
        self.row_at(*self.slot_of.get(name)?, view)
    }

    fn row_at(&self, slot: u32, view: ViewId) -> Option<NodeRow> {
        Some(NodeRow { slot, state: self.at(slot, view)?.clone() })
    }

    /// Whether there is a node of this name.
    pub(super) fn knows(&self, name: &str) -> bool {
        self.slot_of.contains_key(name)
    }

    /// The rows of these nodes in this view.
    pub fn rows<'n>(&self, names: impl ExactSizeIterator<Item = &'n str>, view: ViewId) -> Found {
        self.found(names.map(|name| self.row(name, view)))
    }

    /// The rows of the nodes in these slots in this view, if this is still the table's version.
    pub(super) fn rows_at(
        &self,
        slots: impl ExactSizeIterator<Item = u32>,
        (view, version): (ViewId, u64),
    ) -> Option<Found> {
        (self.version == version).then(|| self.found(slots.map(|slot| self.row_at(slot, view))))
    }

    fn found(&self, known: impl ExactSizeIterator<Item = Option<NodeRow>>) -> Found {
        let (mut rows, mut unknown) = (Vec::with_capacity(known.len()), Vec::new());
        for (position, row) in (0..).zip(known) {
            match row {
                Some(row) => rows.push(row),
                None => unknown.push(position),
            }
        }
        Found { rows: rows.into(), unknown, deleted: Vec::new(), version: self.version() }
    }

    /// Whether the row is still the current row of its slot in this view.
    pub fn is_current(&self, row: &NodeRow, view: ViewId) -> bool {
        self.at(row.slot, view).is_some_and(|current| current.version == row.state.version)
    }

    /// The slots that have changed after this version, perhaps several times each; `None` if the log does not reach
    /// back to it, and every slot may have changed.
    pub fn changed_since(&self, version: u64) -> Option<impl Iterator<Item = u32>> {
        self.log.since(version)
    }

    /// The number of slots. All slots of nodes are below it.
    pub fn slots(&self) -> usize {
        self.slots
    }

    /// The row of the node in this slot; `None` if no node has the slot, or something that the view contains is
    /// unknown.
    pub fn at(&self, slot: u32, view: ViewId) -> Option<&RowState> {
        self.columns.get(view.0)?.get(slot as usize)?.as_ref()
    }

    /// The generation of all row ids. Each generation requires a new table at a backend.
    pub fn generation(&self) -> u32 {
        self.generation
    }

    /// The version of the latest change; no row has a later one.
    pub fn version(&self) -> u64 {
        self.version
    }
}

/// The slots that have changed, in the order of versions. At most as many as the table has: a reader that has missed
/// more reads every slot instead.
#[derive(Debug, Default)]
pub(super) struct ChangeLog {
    /// The versions of changes, which never decrease, and the slots.
    changes: VecDeque<(u64, u32)>,
    /// Changes up to this version may be missing.
    complete_after: u64,
}

impl ChangeLog {
    /// A log of the changes after this version.
    pub(super) fn begin(version: u64) -> Self {
        Self { changes: VecDeque::new(), complete_after: version }
    }

    /// Adds the change of a slot, in a table with this many slots.
    fn push(&mut self, version: u64, slot: u32, slots: usize) {
        self.changes.push_back((version, slot));
        while self.changes.len() > slots {
            self.complete_after =
                self.changes.pop_front().map_or(self.complete_after, |(version, _)| version);
        }
    }

    fn since(&self, version: u64) -> Option<impl Iterator<Item = u32>> {
        let seen = self.changes.partition_point(|(changed, _)| *changed <= version);
        (version >= self.complete_after).then(|| self.changes.range(seen..).map(|(_, slot)| *slot))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn since(log: &ChangeLog, version: u64) -> Option<Vec<u32>> {
        log.since(version).map(Iterator::collect)
    }

    #[test]
    fn changes_before_the_log_are_unknown() {
        let mut log = ChangeLog::begin(4);
        assert_eq!((since(&log, 3), since(&log, 4)), (None, Some(vec![])));
        // Several slots change in one version, and one changes twice.
        for (version, slot) in [(5, 0), (5, 2), (7, 1), (8, 2)] {
            log.push(version, slot, 4);
        }
        assert_eq!((since(&log, 3), since(&log, 4)), (None, Some(vec![0, 2, 1, 2])));
        assert_eq!([5, 6, 7, 8].map(|version| since(&log, version).unwrap().len()), [2, 2, 1, 0]);
        // The log has only a part of the changes of version 5.
        log.push(9, 3, 4);
        assert_eq!((since(&log, 4), since(&log, 5)), (None, Some(vec![1, 2, 3])));
    }

    #[test]
    fn a_log_without_room_has_only_the_latest_version() {
        let mut log = ChangeLog::default();
        log.push(1, 0, 0);
        assert_eq!((since(&log, 0), since(&log, 1)), (None, Some(vec![])));
    }
}
