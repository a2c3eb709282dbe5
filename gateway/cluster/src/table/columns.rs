//! The rows of one view by slot, as calls read them. A call keeps the rows of thousands of nodes by one reference, and
//! none of them is counted or copied for it: a change replaces the piece that has its row if a call still reads it.

use std::{num::NonZeroU32, sync::Arc};

use bytes::Bytes;

use super::{NodeRow, RowId, RowKey, RowState};

/// The number of rows in a piece. A change copies at most one piece, and a reference to each of the others.
const PIECE: usize = 64;

/// The rows of one view. Clones share them.
#[derive(Debug, Clone, Default)]
pub(super) struct ColumnRows(Arc<Pieces>);

#[derive(Debug, Clone, Default)]
struct Pieces {
    all: Vec<Arc<Piece>>,
    /// The number of rows.
    count: usize,
    /// Bytes of all rows.
    bytes: usize,
    /// The latest version that a row has had.
    newest: u64,
    /// The generation of all ids.
    generation: u32,
}

/// Rows of consecutive slots. What most calls read is apart from the rows.
#[derive(Debug, Clone)]
struct Piece {
    /// 0 where there is no row.
    versions: [u64; PIECE],
    ids: [u32; PIECE],
    bytes: [Bytes; PIECE],
}

impl Default for Piece {
    fn default() -> Self {
        Self { versions: [0; PIECE], ids: [0; PIECE], bytes: [const { Bytes::new() }; PIECE] }
    }
}

#[inline]
fn place(slot: u32) -> (usize, usize) {
    (slot as usize / PIECE, slot as usize % PIECE)
}

impl ColumnRows {
    /// The row in a slot.
    #[inline]
    pub(super) fn row(&self, slot: u32) -> Option<NodeRow<'_>> {
        let (piece, at) = place(slot);
        let piece = self.0.all.get(piece)?;
        let version = piece.versions[at];
        let id = NonZeroU32::new(piece.ids[at]).map(|number| RowId { generation: self.0.generation, number });
        (version > 0).then_some(NodeRow { slot, version, id, bytes: &piece.bytes[at] })
    }

    /// The version of the row in a slot; 0 if there is none.
    #[inline]
    pub(super) fn version(&self, slot: u32) -> u64 {
        let (piece, at) = place(slot);
        self.0.all.get(piece).map_or(0, |piece| piece.versions[at])
    }

    /// Identifies the row in a slot.
    #[inline]
    pub(super) fn key(&self, slot: u32) -> RowKey {
        RowKey { slot, version: self.version(slot) }
    }

    /// The number of the id of the row in a slot; 0 if there is no row.
    #[inline]
    pub(super) fn number(&self, slot: u32) -> u32 {
        let (piece, at) = place(slot);
        self.0.all.get(piece).map_or(0, |piece| piece.ids[at])
    }

    /// The number of rows.
    pub(super) fn count(&self) -> usize {
        self.0.count
    }

    /// Bytes of all rows.
    pub(super) fn bytes(&self) -> usize {
        self.0.bytes
    }

    /// No row has a later version.
    pub(super) fn newest(&self) -> u64 {
        self.0.newest
    }

    /// The generation of all ids.
    pub(super) fn generation(&self) -> u32 {
        self.0.generation
    }

    /// Whether these are the rows of the same state of the table.
    pub(super) fn is_same(&self, other: &Self) -> bool {
        Arc::ptr_eq(&self.0, &other.0)
    }

    /// Whether the slot has this row already, in the same memory. Setting it would copy what calls share.
    fn has(&self, slot: u32, row: Option<&RowState>) -> bool {
        match (self.row(slot), row) {
            (None, None) => true,
            (Some(known), Some(row)) => {
                (known.version, known.bytes.as_ptr()) == (row.version, row.bytes.as_ptr())
            }
            _ => false,
        }
    }

    /// Sets or removes the row in a slot. Returns the bytes of the earlier row, to be freed after the lock.
    pub(super) fn set(&mut self, slot: u32, row: Option<&RowState>) -> Bytes {
        let (piece, at) = place(slot);
        if self.has(slot, row) {
            return Bytes::new();
        }
        let Pieces { all: pieces, count, bytes, newest, generation } = Arc::make_mut(&mut self.0);
        if pieces.len() <= piece {
            pieces.resize_with(piece + 1, Arc::default);
        }
        let piece = Arc::make_mut(&mut pieces[piece]);
        let (version, id, fresh) = match row {
            Some(RowState { bytes, version, id }) => {
                *generation = id.generation;
                (*version, id.number.get(), bytes.clone())
            }
            None => (0, 0, Bytes::new()),
        };
        *count = *count + usize::from(version > 0) - usize::from(piece.versions[at] > 0);
        *bytes = *bytes + fresh.len() - piece.bytes[at].len();
        *newest = version.max(*newest);
        piece.versions[at] = version;
        piece.ids[at] = id;
        std::mem::replace(&mut piece.bytes[at], fresh)
    }
}

/// The rows of the nodes of a call in one view.
#[derive(Debug, Clone)]
pub struct NodeRows {
    column: ColumnRows,
    /// The slots of the nodes, in order.
    slots: Arc<[u32]>,
    /// The rows that are in no table: their slots are [`NOT_KEPT`] and higher.
    not_kept: Arc<[Bytes]>,
}

/// Slots from this one on are no slots of a table. A table with so many nodes would not fit into memory.
const NOT_KEPT: u32 = 1 << 31;

impl NodeRows {
    /// The rows in these slots, all of which have one.
    pub(super) fn new(column: ColumnRows, slots: Arc<[u32]>) -> Self {
        Self { column, slots, not_kept: Arc::default() }
    }

    /// The number of rows.
    pub fn len(&self) -> usize {
        self.slots.len()
    }

    /// Whether there are no rows.
    pub fn is_empty(&self) -> bool {
        self.slots.is_empty()
    }

    /// The slots of the rows, in order. In all methods, a slot is one of these.
    pub fn slots(&self) -> &Arc<[u32]> {
        &self.slots
    }

    /// The row in a slot.
    ///
    /// # Panics
    /// There is none.
    #[inline]
    pub fn row(&self, slot: u32) -> NodeRow<'_> {
        match slot.checked_sub(NOT_KEPT) {
            None => self.column.row(slot).expect("a look-up selects slots with rows"),
            Some(at) => NodeRow { slot, version: 0, id: None, bytes: &self.not_kept[at as usize] },
        }
    }

    /// The rows in these slots.
    #[inline]
    pub fn rows<'r>(&'r self, slots: &'r [u32]) -> impl ExactSizeIterator<Item = NodeRow<'r>> + Clone {
        slots.iter().map(|slot| self.row(*slot))
    }

    /// All rows, in order.
    #[inline]
    pub fn iter(&self) -> impl ExactSizeIterator<Item = NodeRow<'_>> + Clone {
        self.rows(&self.slots)
    }

    /// Identifies the row in a slot.
    #[inline]
    pub fn key(&self, slot: u32) -> RowKey {
        self.column.key(slot)
    }

    /// The number of the id of the row in a slot; 0 if the row is in no table.
    #[inline]
    pub fn number(&self, slot: u32) -> u32 {
        self.column.number(slot)
    }

    /// Whether a backend with the rows up to this version has all of these under the ids of this generation. False
    /// also if it lacks other rows of the table.
    pub fn are_all_in(&self, version: u64, generation: u32) -> bool {
        self.not_kept.is_empty() && self.column.newest() <= version && self.column.generation() == generation
    }

    /// All rows take at most this many bytes. The table counts them, so this costs nothing, but it counts the rows of
    /// all nodes.
    pub fn most_bytes(&self) -> usize {
        self.column.bytes() + self.not_kept.iter().map(Bytes::len).sum::<usize>()
    }

    /// Which of the rows in these slots a later state of the table still has; `None` if all of them.
    pub(super) fn current(&self, slots: &[u32], now: &ColumnRows) -> Option<Vec<bool>> {
        if self.not_kept.is_empty() && self.column.is_same(now) {
            return None;
        }
        let is_current = |slot: &u32| {
            let row = self.key(*slot);
            row.is_kept() && now.key(*slot) == row
        };
        Some(slots.iter().map(is_current).collect())
    }

    /// The rows in some of the slots.
    #[must_use]
    pub fn only(&self, slots: Arc<[u32]>) -> Self {
        Self { slots, ..self.clone() }
    }

    /// Replaces the rows at these indexes of [`Self::slots`], each once, by rows that are in no table.
    #[must_use]
    pub fn replaced(self, rows: Vec<(usize, Bytes)>) -> Self {
        let (mut slots, mut not_kept) = (self.slots.to_vec(), self.not_kept.to_vec());
        for (at, row) in rows {
            // A call is below 4 GiB, and a node takes more than one byte of it.
            let next = NOT_KEPT + u32::try_from(not_kept.len()).expect("a call has fewer nodes than slots");
            slots[at] = next;
            not_kept.push(row);
        }
        Self { slots: slots.into(), not_kept: not_kept.into(), column: self.column }
    }

    /// Inserts rows that are in no table before the nodes at these positions, which are ascending.
    #[must_use]
    pub fn with_rows(self, positions: &[u32], rows: Vec<Bytes>) -> Self {
        let mut known = self.slots.iter().copied();
        let mut inserted = (NOT_KEPT..).zip(positions).peekable();
        let count = self.slots.len() + positions.len();
        let slot = |at: usize| match inserted.next_if(|(_, position)| **position as usize == at) {
            Some((slot, _)) => Some(slot),
            None => known.next(),
        };
        let slots = (0..count).filter_map(slot).collect();
        Self { slots, not_kept: rows.into(), column: self.column }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn row(version: u64, number: u32) -> RowState {
        let id = RowId { generation: 0, number: NonZeroU32::new(number).unwrap() };
        RowState { bytes: Bytes::from(vec![b'x'; number as usize]), version, id }
    }

    #[test]
    fn a_call_keeps_the_rows_as_they_were() {
        let mut column = ColumnRows::default();
        for slot in 0..200 {
            column.set(slot, Some(&row(1, slot + 1)));
        }
        let slots: Arc<[u32]> = [0, 70, 199].into();
        let before = NodeRows::new(column.clone(), Arc::clone(&slots));
        assert_eq!(before.current(&slots, &column), None);
        column.set(70, Some(&row(2, 71)));
        column.set(199, None);
        assert_eq!(before.current(&slots, &column), Some(vec![true, false, false]));
        assert_eq!(
            before.iter().map(|row| (row.version, row.bytes.len())).collect::<Vec<_>>(),
            [(1, 1), (1, 71), (1, 200)]
        );
        assert_eq!((column.version(70), column.version(199), column.version(5000)), (2, 0, 0));
    }

    #[test]
    fn a_row_that_is_there_already_changes_nothing() {
        let mut column = ColumnRows::default();
        let (row, moved) = (row(1, 3), row(1, 3));
        column.set(2, Some(&row));
        let before = column.clone();
        column.set(2, Some(&row));
        column.set(7, None);
        assert!(column.is_same(&before));
        // Rows are packed without a new version.
        column.set(2, Some(&moved));
        assert!(!column.is_same(&before));
        assert_eq!(column.row(2).unwrap().bytes.as_ptr(), moved.bytes.as_ptr());
    }

    #[test]
    fn rows_bytes_and_the_newest_version_are_counted() {
        let mut column = ColumnRows::default();
        let counted = |column: &ColumnRows| (column.count(), column.bytes(), column.newest());
        column.set(3, Some(&row(5, 10)));
        column.set(100, Some(&row(6, 20)));
        assert_eq!(counted(&column), (2, 30, 6));
        column.set(3, Some(&row(7, 11)));
        column.set(100, None);
        column.set(100, None);
        column.set(9999, None);
        assert_eq!(counted(&column), (1, 11, 7));
    }

    #[test]
    fn rows_of_one_call_replace_those_of_the_table() {
        let mut column = ColumnRows::default();
        for slot in 0..3 {
            column.set(slot, Some(&row(1, slot + 1)));
        }
        let before = NodeRows::new(column.clone(), [2, 0, 1].into());
        let changed = before.clone().replaced(vec![(0, Bytes::from_static(b"aaaaa"))]);
        let changed = changed.replaced(vec![(2, Bytes::from_static(b"bbbbbb"))]);
        let lengths = |rows: &NodeRows| rows.iter().map(|row| row.bytes.len()).collect::<Vec<_>>();
        assert_eq!((lengths(&before), lengths(&changed)), (vec![3, 1, 2], vec![5, 1, 6]));
        let kept: Vec<_> = changed.iter().map(|row| changed.key(row.slot).is_kept()).collect();
        assert_eq!(kept, [false, true, false]);
        assert_eq!(changed.current(changed.slots(), &column), Some(vec![false, true, false]));
        assert!(!changed.are_all_in(u64::MAX, 0));
    }

    #[test]
    fn rows_in_no_table_are_between_the_others() {
        let mut column = ColumnRows::default();
        column.set(4, Some(&row(1, 1)));
        column.set(5, Some(&row(1, 2)));
        let rows = NodeRows::new(column, [5, 4].into());
        let rows = rows.with_rows(&[0, 3], vec![Bytes::from_static(b"aaaaa"), Bytes::from_static(b"bbbbbb")]);
        assert_eq!(rows.iter().map(|row| row.bytes.len()).collect::<Vec<_>>(), [5, 2, 1, 6]);
        assert_eq!(
            rows.iter().map(|row| rows.key(row.slot).is_kept()).collect::<Vec<_>>(),
            [false, true, true, false]
        );
    }
}
