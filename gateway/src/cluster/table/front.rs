//! What calls read of a table: where each node stands, and its rows.

use std::sync::{Arc, RwLockReadGuard};

use bytes::Bytes;

use super::{Lines, Names, ViewId, log::Log};

/// A node's row in one view.
#[derive(Debug, Clone)]
pub struct Row {
    /// The entry for a `NodeRows` message.
    pub bytes: Bytes,
    /// Which state of the node's row this is. Within a view a slot never has two different rows of one version,
    /// whichever nodes it is given to in the course of time.
    pub version: u64,
}

impl Row {
    /// Whether it is in a table, so that its version means something.
    pub fn is_kept(&self) -> bool {
        self.version > 0
    }
}

/// A row, and whose it is.
#[derive(Debug, Clone)]
pub struct Line {
    /// The node's slot: a small number, which another node may get when this one is gone.
    pub slot: u32,
    /// The node's id: at least 1, and never another node's.
    pub id: u32,
    /// The row.
    pub row: Row,
}

impl Line {
    /// Of a node that is in no table.
    pub fn outside(bytes: Bytes) -> Self {
        Self { slot: u32::MAX, id: 0, row: Row { bytes, version: 0 } }
    }
}

/// What a look at the table found of some nodes.
#[derive(Debug)]
pub struct Found {
    /// Of those that are there, in order.
    pub lines: Lines,
    /// The places of the others among all, ascending.
    pub unknown: Vec<u32>,
    /// The table's version then: while it has that, all lines are current.
    pub version: u64,
}

/// A node's place.
#[derive(Debug, Clone, Default)]
pub(super) struct Slot {
    /// 0 while it is nobody's.
    pub(super) id: u32,
    /// One for each view; `None` where the view wants what is not known.
    pub(super) rows: Vec<Option<Row>>,
}

/// All nodes as calls see them.
#[derive(Debug, Default)]
pub(super) struct Front {
    pub(super) slot_of: Names<u32>,
    pub(super) slots: Vec<Slot>,
    /// No row has a greater one.
    pub(super) version: u64,
    /// How it came to be at this version.
    pub(super) log: Log,
}

impl Front {
    /// Takes a node's rows; returns the old ones, to be freed after the lock.
    pub(super) fn put(&mut self, name: &Arc<str>, at: u32, slot: Slot) -> Slot {
        let place = at as usize;
        if self.slots.len() <= place {
            self.slots.resize_with(place + 1, Slot::default);
        }
        self.slot_of.insert(Arc::clone(name), at);
        self.log.push(self.version, at, self.slots.len());
        std::mem::replace(&mut self.slots[place], slot)
    }

    /// Forgets a node; returns its rows, to be freed after the lock.
    pub(super) fn remove(&mut self, name: &str) -> Slot {
        let Some(at) = self.slot_of.remove(name) else { return Slot::default() };
        self.log.push(self.version, at, self.slots.len());
        self.slots.get_mut(at as usize).map(std::mem::take).unwrap_or_default()
    }
}

/// The rows of the table while a call copies them.
#[derive(Debug)]
pub struct TableRead<'t> {
    pub(super) front: RwLockReadGuard<'t, Front>,
}

impl TableRead<'_> {
    /// The node's entry for a `NodeRows` message in this view; `None` when the node, or what the view wants of it,
    /// is not known yet.
    pub fn entry(&self, name: &str, view: ViewId) -> Option<&[u8]> {
        let slot = *self.front.slot_of.get(name)?;
        self.row(slot, view).map(|row| &*row.bytes)
    }

    /// The node's line in this view; `None` as for [`TableRead::entry`].
    pub fn line(&self, name: &str, view: ViewId) -> Option<Line> {
        let slot = *self.front.slot_of.get(name)?;
        let row = self.row(slot, view)?.clone();
        Some(Line { slot, id: self.front.slots[slot as usize].id, row })
    }

    /// Whether all of these nodes have their row in this view.
    pub(super) fn has(&self, names: &[&str], view: ViewId) -> bool {
        names.iter().all(|name| self.entry(name, view).is_some())
    }

    /// The lines of these nodes in this view, as far as they are there.
    pub fn lines<'n>(&self, names: impl ExactSizeIterator<Item = &'n str>, view: ViewId) -> Found {
        let (mut lines, mut unknown) = (Vec::with_capacity(names.len()), Vec::new());
        for (place, name) in (0..).zip(names) {
            match self.line(name, view) {
                Some(line) => lines.push(line),
                None => unknown.push(place),
            }
        }
        Found { lines: lines.into(), unknown, version: self.version() }
    }

    /// Whether the line is still the node's in this view.
    pub fn is_current(&self, line: &Line, view: ViewId) -> bool {
        let same_node = self.front.slots.get(line.slot as usize).is_some_and(|slot| slot.id == line.id);
        same_node && self.row(line.slot, view).is_some_and(|row| row.version == line.row.version)
    }

    /// The slots that are not as they were when the table had this version, some perhaps several times; `None` when
    /// that is not known any more, and every slot has to be looked at.
    pub fn changed_since(&self, version: u64) -> Option<impl Iterator<Item = u32>> {
        self.front.log.since(version)
    }

    /// How many slots there are; all above are nobody's.
    pub fn slots(&self) -> u32 {
        u32::try_from(self.front.slots.len()).expect("a slot's number has 32 bits")
    }

    /// The id of the node that has this slot, and its row in this view, if what the view wants is known; `None` while
    /// the slot is nobody's.
    pub fn at(&self, slot: u32, view: ViewId) -> Option<(u32, Option<&Row>)> {
        let node = self.front.slots.get(slot as usize).filter(|node| node.id > 0)?;
        Some((node.id, self.row(slot, view)))
    }

    /// The greatest version that a row may have now.
    pub fn version(&self) -> u64 {
        self.front.version
    }

    fn row(&self, slot: u32, view: ViewId) -> Option<&Row> {
        self.front.slots.get(slot as usize)?.rows.get(view.0)?.as_ref()
    }
}
