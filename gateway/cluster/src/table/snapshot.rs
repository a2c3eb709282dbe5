//! The part of a table that calls read: the slot of each node, its rows, and a log of recent changes.

use std::{collections::VecDeque, sync::Arc};

use bytes::Bytes;
use parking_lot::Mutex;

use super::{
    NodeNames, NodeRow, RowState, ViewId,
    columns::{ColumnRows, NodeRows},
    order::{NameOrder, UNKNOWN},
};

/// The rows of some nodes in one view.
#[derive(Debug)]
pub struct Found {
    /// The rows that the table has, in the order of the nodes.
    pub rows: NodeRows,
    /// The positions of the nodes without rows, ascending.
    pub unknown: Vec<u32>,
    /// The positions of those that cannot be read, ascending. Not set by look-ups without waiting.
    pub unreadable: Vec<u32>,
    /// The positions of those that were deleted, ascending. Not set by look-ups without waiting.
    pub deleted: Vec<u32>,
    /// The table's version: while the table has it, all rows are current.
    pub version: u64,
    /// The number of the change of pods as of which usage is.
    pub pods_number: u64,
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

/// The slots of the nodes of a call: the views of a call have the same nodes.
#[derive(Debug, Clone)]
pub struct NodeSlots {
    /// In the order of the nodes, [`UNKNOWN`] for unknown ones.
    slots: Arc<[u32]>,
    /// Whether no node is unknown.
    are_known: bool,
    /// Valid while this is the version of the latest change of slots.
    since: u64,
}

/// A node's rows by view; `None` where something that the view contains is unknown. Empty while no node has the slot.
pub(super) type TableSlot = Vec<Option<RowState>>;

/// All nodes as calls read them.
#[derive(Debug, Default)]
pub struct TableSnapshot {
    pub(super) slot_of: NodeNames<u32>,
    /// In which calls name the nodes. Locked last.
    order: Mutex<NameOrder>,
    /// The version of the latest change of `slot_of`.
    slots_since: u64,
    columns: Vec<ColumnRows>,
    /// The number of slots that nodes have had.
    pub(super) slots: usize,
    /// The version of the latest change; no row has a later one.
    pub(super) version: u64,
    /// The number of the change of pods as of which usage is.
    pub(super) pods_number: u64,
    /// The generation of all row ids.
    pub(super) generation: u32,
    pub(super) log: ChangeLog,
}

impl TableSnapshot {
    /// An empty table of this version and generation.
    pub(super) fn new(version: u64, generation: u32) -> Self {
        Self { version, slots_since: version, generation, ..Self::default() }
    }

    /// Sets a node's rows. Returns the memory of the old ones, to be freed after the lock.
    pub(super) fn put(&mut self, name: &Arc<str>, slot: u32, rows: &TableSlot) -> Vec<Bytes> {
        self.slots = self.slots.max(slot as usize + 1);
        if self.slot_of.insert(Arc::clone(name), slot).is_none() {
            self.slots_since = self.version;
        }
        self.log.push(self.version, slot, self.slots);
        self.replace_rows(slot, rows)
    }

    /// Sets the rows of a slot, and removes those of the views that `rows` lacks.
    fn replace_rows(&mut self, slot: u32, rows: &TableSlot) -> Vec<Bytes> {
        let views = rows.len().max(self.columns.len());
        self.columns.resize_with(views, ColumnRows::default);
        let rows = rows.iter().map(Option::as_ref).chain(std::iter::repeat(None));
        self.columns.iter_mut().zip(rows).map(|(column, row)| column.set(slot, row)).collect()
    }

    /// Removes a node. Returns the memory of its rows, to be freed after the lock.
    pub(super) fn remove(&mut self, name: &str) -> Vec<Bytes> {
        let Some(slot) = self.slot_of.remove(name) else { return Vec::new() };
        self.slots_since = self.version;
        self.order.get_mut().forget(slot);
        self.log.push(self.version, slot, self.slots);
        self.replace_rows(slot, &TableSlot::new())
    }

    /// The node's row in this view; `None` if the node, or something that the view contains, is unknown.
    pub fn row(&self, name: &str, view: ViewId) -> Option<NodeRow<'_>> {
        self.at(*self.slot_of.get(name)?, view)
    }

    /// Whether there is a node of this name.
    pub(super) fn knows(&self, name: &str) -> bool {
        self.slot_of.contains_key(name)
    }

    /// The slots of these different nodes.
    pub(super) fn slots_of<'n>(&self, names: impl ExactSizeIterator<Item = &'n str> + Clone) -> NodeSlots {
        let slots = self.order.lock().slots_of(names, &self.slot_of);
        let are_known = !slots.contains(&UNKNOWN);
        NodeSlots { slots: slots.into(), are_known, since: self.slots_since }
    }

    /// The same slots if no node has got or lost one since, otherwise those of now.
    pub(super) fn current_slots<'n, 's>(
        &self,
        names: impl ExactSizeIterator<Item = &'n str> + Clone,
        known: &'s mut Option<NodeSlots>,
    ) -> &'s NodeSlots {
        known.take_if(|known| known.since != self.slots_since);
        known.get_or_insert_with(|| self.slots_of(names))
    }

    /// The rows in these slots in this view.
    pub(super) fn found(&self, slots: &NodeSlots, view: ViewId) -> Found {
        let column = self.column(view);
        let mut unknown = Vec::new();
        let slots = if slots.are_known && column.count() == self.slot_of.len() {
            Arc::clone(&slots.slots)
        } else {
            let mut known = Vec::with_capacity(slots.slots.len());
            for (position, slot) in (0..).zip(&*slots.slots) {
                if column.version(*slot) > 0 {
                    known.push(*slot);
                } else {
                    unknown.push(position);
                }
            }
            if unknown.is_empty() { Arc::clone(&slots.slots) } else { known.into() }
        };
        let (unreadable, deleted) = <(Vec<_>, Vec<_>)>::default();
        let (version, pods_number) = (self.version(), self.pods_number);
        Found { rows: NodeRows::new(column, slots), unknown, unreadable, deleted, version, pods_number }
    }

    /// The rows of a view.
    pub(super) fn column(&self, view: ViewId) -> ColumnRows {
        self.columns.get(view.0).cloned().unwrap_or_default()
    }

    /// The versions of the latest change of which nodes there are, and of a row in this view.
    pub fn changed(&self, view: ViewId) -> [u64; 2] {
        [self.slots_since, self.columns.get(view.0).map_or(0, ColumnRows::newest)]
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
    pub fn at(&self, slot: u32, view: ViewId) -> Option<NodeRow<'_>> {
        self.columns.get(view.0)?.row(slot)
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
