//! The nodes that the gateway knows, as rows ready to be sent.
//!
//! For every view that some backend asked for there is a column: node name to encoded row. A call takes one
//! read lock for all its nodes and copies rows out; it never waits for parsing or encoding, because a writer
//! prepares everything beside the columns and only swaps it in under the write lock. Writers are serialised
//! among themselves by a lock that calls never see.
//!
//! A source keeps the table like this: what it lists goes into a [`Relist`] and from there, all at once, into
//! [`NodeTable::replace`]; what changes after that into [`NodeTable::apply`] and [`NodeTable::remove`].

mod change;
mod stock;

use std::sync::{Arc, Mutex, MutexGuard, PoisonError, RwLock, RwLockReadGuard};

use bytes::Bytes;
use tokio::sync::watch;

use self::stock::{Known, Names, Stock};
pub use self::{
    change::{Change, Changes},
    stock::Relist,
};
use crate::{
    backend::row::RowView,
    object::{ObjectError, node},
};

/// Node name to encoded row, for one view.
type Column = Names<Bytes>;

/// A registered view: which column of the table. Means nothing to another table.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub struct ViewId(usize);

/// The node table, shared between the calls and one source.
#[derive(Debug, Default)]
pub struct NodeTable {
    /// What calls read: a column for each registered view.
    columns: RwLock<Vec<Column>>,
    /// What writers know. Locked before `columns`, never while holding it.
    stock: Mutex<Stock>,
    /// Counts the changes of `columns`.
    changes: watch::Sender<u64>,
    synced: watch::Sender<bool>,
    raw_wanted: watch::Sender<bool>,
}

impl NodeTable {
    /// An empty table, not synced.
    pub fn new() -> Self {
        Self::default()
    }

    /// Makes sure that there are rows in this view, and says where; a view that is registered already keeps
    /// its place. Known nodes get their rows at once. Only the first view with JSON has to wait until the
    /// source has brought the nodes once more: [`NodeTable::complete`].
    pub fn register(&self, view: RowView) -> ViewId {
        let mut stock = self.lock_stock();
        if let Some(place) = stock.place_of(&view) {
            return ViewId(place);
        }
        let wants_raw = view.wants_raw();
        let place = stock.add_view(view);
        let column = stock.column(place);
        self.write(|columns| columns.push(column));
        self.raw_wanted.send_if_modified(|wanted| wants_raw && !std::mem::replace(wanted, true));
        ViewId(place)
    }

    /// Takes a node as it is now. Calls notice nothing unless its rows change: a heartbeat changes the rows
    /// of views with JSON alone.
    pub fn apply(&self, json: &[u8]) -> Result<Change, ObjectError> {
        let object = node::parse(json)?;
        let mut stock = self.lock_stock();
        let known = Known::new(&object, stock.wants_raw().then_some(json));
        let (name, change) = stock.put(object.name(), known);
        if change != Change::Unchanged {
            let rows = stock.rows_of(&name);
            self.write(|columns| put(columns, &name, rows));
        }
        Ok(change)
    }

    /// Forgets a node.
    pub fn remove(&self, name: &str) -> Change {
        let mut stock = self.lock_stock();
        let change = stock.remove(name);
        if change != Change::Unchanged {
            self.write(|columns| columns.iter_mut().for_each(|column| drop(column.remove(name))));
        }
        change
    }

    /// Begins to collect the nodes of a new list.
    pub fn relist(&self) -> Relist {
        Relist::new(self.lock_stock().wants_raw())
    }

    /// Takes exactly the nodes of this list: whatever is not in it goes, all in one step for the calls.
    /// From now on the table is synced.
    pub fn replace(&self, relist: Relist) {
        let mut stock = self.lock_stock();
        if stock.replace(relist) != Change::Unchanged {
            let fresh = stock.columns();
            // Returned, so that the old rows are freed after the lock.
            drop(self.write(|columns| std::mem::replace(columns, fresh)));
        }
        drop(stock);
        self.synced.send_if_modified(|synced| !std::mem::replace(synced, true));
    }

    /// The rows, for one call. Writers wait while this is held: copy what is needed and let go, and never
    /// hold it across an await.
    pub fn read(&self) -> TableRead<'_> {
        TableRead { columns: self.columns.read().unwrap_or_else(PoisonError::into_inner) }
    }

    /// How many nodes are known.
    pub fn len(&self) -> usize {
        self.lock_stock().len()
    }

    /// Whether no node is known.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Whether a source has brought a complete list at least once.
    pub fn is_synced(&self) -> bool {
        *self.synced.borrow()
    }

    /// Waits until a source has brought a complete list. Any runtime may wait.
    pub async fn synced(&self) {
        // The sender lives in `self`, so waiting cannot fail.
        drop(self.synced.subscribe().wait_for(|synced| *synced).await);
    }

    /// Waits until the table is synced and every node has its row in this view.
    pub async fn complete(&self, view: ViewId) {
        self.synced().await;
        let mut changes = self.changes();
        while !self.lock_stock().is_complete(view.0) {
            changes.next().await;
        }
    }

    /// The changes from here on. Taken before [`NodeTable::read`], it misses none that the reader has not
    /// seen.
    pub fn changes(&self) -> Changes {
        Changes::new(self.changes.subscribe())
    }

    /// Becomes true, once, when a view wants JSON. The source then brings the nodes once more, because the
    /// table has not kept it.
    pub fn raw_wanted(&self) -> watch::Receiver<bool> {
        self.raw_wanted.subscribe()
    }

    fn lock_stock(&self) -> MutexGuard<'_, Stock> {
        self.stock.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn write<T>(&self, change: impl FnOnce(&mut Vec<Column>) -> T) -> T {
        let told = change(&mut self.columns.write().unwrap_or_else(PoisonError::into_inner));
        self.changes.send_modify(|count| *count = count.wrapping_add(1));
        told
    }
}

fn put(columns: &mut [Column], name: &Arc<str>, rows: Vec<Option<Bytes>>) {
    for (column, row) in columns.iter_mut().zip(rows) {
        match row {
            Some(row) => column.insert(name.clone(), row),
            None => column.remove(name),
        };
    }
}

/// The rows of the table while a call copies them.
#[derive(Debug)]
pub struct TableRead<'t> {
    columns: RwLockReadGuard<'t, Vec<Column>>,
}

impl TableRead<'_> {
    /// The node's entry for a `NodeRows` message in this view; `None` when the node, or its JSON where that
    /// is wanted, is not known yet.
    pub fn entry(&self, name: &str, view: ViewId) -> Option<&[u8]> {
        self.columns.get(view.0)?.get(name).map(|row| &**row)
    }
}

#[cfg(test)]
mod tests;
