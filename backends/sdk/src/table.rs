//! The tables of nodes that gateways keep here, so that calls name nodes by numbers. [`stream`] is the service that
//! fills them, [`filling`] applies its messages, [`rows`] is what a call reads, [`contents`] has what rows share,
//! [`space`] limits the size of all of them. This file: the set of tables.
//!
//! A table belongs to its stream and is dropped with it; calls in progress keep the rows that they hold. It is
//! found only by its random name, so several gateways, and several selections of one gateway, never share one.

mod contents;
mod filling;
#[cfg(any(test, feature = "fuzzing"))]
pub(crate) mod messages;
mod mistake;
pub(crate) mod rows;
mod space;
mod stream;

use std::{
    collections::HashMap,
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

use extender_policy_api::v1beta1 as api;
use foldhash::fast::RandomState;

pub(crate) use self::stream::TableService;
use self::{mistake::Mistake, rows::Table, space::Budget};
use crate::stopping::Stopping;

/// More tables than this are rejected: enough for 16 gateways with four selections each.
const MAX_TABLES: usize = 64;

/// Rows of more bytes than this, in all tables together, are rejected: 15,000 nodes with their JSON are about 0.2
/// GB. What a policy decodes comes on top.
const MAX_BYTES: usize = 1 << 30;

/// The tables of one server. Clones are the same tables.
#[derive(Clone)]
pub(crate) struct Tables {
    shared: Arc<Shared>,
}

struct Shared {
    by_name: RwLock<HashMap<Arc<str>, Arc<Table>, RandomState>>,
    budget: Arc<Budget>,
    max_tables: usize,
    stopping: Stopping,
}

impl Default for Tables {
    fn default() -> Self {
        Self::limited(MAX_TABLES, MAX_BYTES)
    }
}

impl Tables {
    fn limited(max_tables: usize, max_bytes: usize) -> Self {
        let (by_name, budget) = (RwLock::default(), Budget::new(max_bytes));
        Self { shared: Arc::new(Shared { by_name, budget, max_tables, stopping: Stopping::new() }) }
    }

    /// The table of this name, if its stream is open.
    pub(crate) fn find(&self, name: &str) -> Option<Arc<Table>> {
        let by_name = self.shared.by_name.read().unwrap_or_else(PoisonError::into_inner);
        by_name.get(name).map(Arc::clone)
    }

    /// The number of tables, and of the rows in all of them.
    pub(crate) fn size(&self) -> (usize, usize) {
        let by_name = self.shared.by_name.read().unwrap_or_else(PoisonError::into_inner);
        (by_name.len(), by_name.values().filter_map(|table| table.at_least(0)).map(|rows| rows.len()).sum())
    }

    /// The stop of all streams, because open ones would delay draining. The tables stay for the calls that still arrive.
    pub(crate) fn stopping(&self) -> &Stopping {
        &self.shared.stopping
    }

    /// A new table without rows, for a stream.
    fn open(&self, name: &str, reads: api::NodeReads) -> Result<Open, Mistake> {
        let mut by_name = self.shared.by_name.write().unwrap_or_else(PoisonError::into_inner);
        if by_name.contains_key(name) {
            return Err(Mistake::Taken(name.to_owned()));
        }
        if by_name.len() >= self.shared.max_tables {
            return Err(Mistake::TooManyTables(self.shared.max_tables));
        }
        let (name, table) = (Arc::from(name), Arc::new(Table::new(reads)));
        by_name.insert(Arc::clone(&name), Arc::clone(&table));
        Ok(Open { tables: self.clone(), name, table })
    }
}

impl fmt::Debug for Tables {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Tables").finish_non_exhaustive()
    }
}

/// A table that calls find as long as this lives.
struct Open {
    tables: Tables,
    name: Arc<str>,
    table: Arc<Table>,
}

impl Drop for Open {
    fn drop(&mut self) {
        let Shared { by_name, stopping, .. } = &*self.tables.shared;
        if !stopping.has_begun() {
            by_name.write().unwrap_or_else(PoisonError::into_inner).remove(&self.name);
        }
    }
}

#[cfg(test)]
mod tests;
