//! One table: rows by id, at a version.

use std::{
    borrow::Cow,
    collections::HashMap,
    sync::{Arc, PoisonError, RwLock},
};

use extender_policy_api::v1beta1 as api;
use foldhash::fast::RandomState;

use super::{contents::Stored, space::Space};
use crate::{
    node::row::{RowParts, RowRef},
    reads::values::Counts,
};

/// A table that changes while calls read it.
pub(crate) struct Table {
    /// What its rows contain.
    reads: api::NodeReads,
    current: RwLock<Arc<Rows>>,
}

/// All rows of one version. A call holds one and borrows from it: later changes are visible to later calls only.
#[derive(Clone, Default)]
pub(crate) struct Rows {
    version: u64,
    /// By hash, since ids are never reused: deleted nodes cost nothing, however many there were.
    by_id: HashMap<u32, Kept, RandomState>,
}

/// A row, and the memory that it takes. Its content is found without reading its name. Equal contents are shared, so a
/// content is usually in the processor's cache already.
#[derive(Clone)]
pub(super) struct Kept {
    named: Arc<Named>,
    content: Arc<Stored>,
}

struct Named {
    name: Cow<'static, str>,
    _space: Space,
}

impl Kept {
    /// The size of what a row has besides its place in the table and its content.
    #[cfg(test)]
    pub(super) const NAMED_BYTES: usize = size_of::<Named>();

    /// The space is that of the row without its content.
    pub(super) fn new(name: &str, content: Arc<Stored>, space: Space) -> Self {
        Self { named: Arc::new(Named { name: name.to_owned().into(), _space: space }), content }
    }
}

/// What one message changes.
pub(super) struct Change {
    pub(super) version: u64,
    pub(super) upserts: Vec<(u32, Kept)>,
    /// Wins over an upsert of the same id: a removed row does not come back.
    pub(super) removed: Vec<u32>,
}

impl Table {
    /// Without rows, at version 0.
    pub(super) fn new(reads: api::NodeReads) -> Self {
        Self { reads, current: RwLock::default() }
    }

    /// What its rows contain.
    pub(crate) fn reads(&self) -> &api::NodeReads {
        &self.reads
    }

    /// What each row has.
    pub(super) fn row_parts(&self) -> RowParts {
        RowParts::of(&self.reads)
    }

    /// The number of values of each row.
    pub(super) fn counts(&self) -> Counts {
        Counts::of(&self.reads)
    }

    /// The current rows; `None` if they are older than this version.
    pub(crate) fn at_least(&self, version: u64) -> Option<Arc<Rows>> {
        let current = self.current.read().unwrap_or_else(PoisonError::into_inner);
        Some(&*current).filter(|rows| rows.version >= version).map(Arc::clone)
    }

    /// Applies the change at once. In place if no call holds the rows, as always on a runtime with one thread; else
    /// on a copy, which shares the unchanged rows. Returns the number of rows.
    pub(super) fn apply(&self, change: Change) -> usize {
        let mut current = self.current.write().unwrap_or_else(PoisonError::into_inner);
        let rows = Arc::make_mut(&mut current);
        rows.apply(change);
        rows.by_id.len()
    }
}

impl Rows {
    /// The row of a node. A removed row is not kept for calls in transit: they are answered with a miss. There are
    /// few, since the gateway learns first that the node is gone.
    pub(crate) fn row(&self, id: u32) -> Option<RowRef<'_>> {
        let Kept { named, content } = self.by_id.get(&id)?;
        Some(RowRef { name: &named.name, content: &content.content })
    }

    pub(super) fn len(&self) -> usize {
        self.by_id.len()
    }

    fn apply(&mut self, change: Change) {
        let Change { version, upserts, removed } = change;
        self.version = version;
        self.by_id.extend(upserts);
        for id in removed {
            self.by_id.remove(&id);
        }
        self.shrink();
    }

    /// Releases memory when three quarters of it are unused.
    fn shrink(&mut self) {
        let rows = self.by_id.len();
        if rows < self.by_id.capacity() / 4 {
            self.by_id.shrink_to(2 * rows);
        }
    }
}

#[cfg(test)]
mod tests;
