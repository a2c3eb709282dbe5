//! Which nodes a backend has in its table, and how calls name them.

mod miss_breaker;

use std::sync::Arc;

use arc_swap::ArcSwapOption;
use bytes::Bytes;

pub(super) use self::miss_breaker::MissBreaker;
use self::miss_breaker::{MissKind, REST};
use crate::{
    cluster::table::{NodeRow, RowState},
    contract::nodes::{NodesField, References},
};

/// What a backend has of one table in one view, as far as it has acknowledged it.
#[derive(Debug)]
pub struct RemoteTable {
    latest: ArcSwapOption<AckedTable>,
    misses: Arc<MissBreaker>,
}

/// A state that the backend has acknowledged.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct AckedTable {
    /// `SyncNodesRequest.table`.
    pub table: u64,
    /// The acknowledged version.
    pub applied: u64,
    /// It has every row up to this version, or a later row of the node.
    pub rows: u64,
    /// The generation of the ids in its table.
    pub generation: u32,
}

/// The state of the table that a request relies on when it names nodes by id.
#[derive(Debug)]
pub struct TableReference {
    table: Arc<RemoteTable>,
    acked: Arc<AckedTable>,
}

impl RemoteTable {
    /// Nothing acknowledged yet. The connection's tables share `misses`.
    pub(super) fn new(misses: Arc<MissBreaker>) -> Self {
        Self { latest: ArcSwapOption::empty(), misses }
    }

    /// The latest state; `None` when the backend has none.
    pub fn acked(&self) -> Option<Arc<AckedTable>> {
        self.latest.load_full()
    }

    /// The latest state for one request; `None` also after too many misses.
    pub fn reference(self: &Arc<Self>) -> Option<TableReference> {
        let holding = self.acked()?;
        self.misses.allow().then(|| TableReference { table: Arc::clone(self), acked: holding })
    }

    pub(super) fn set(&self, holding: Option<AckedTable>) {
        self.latest.store(holding.map(Arc::new));
    }
}

impl TableReference {
    /// The field with these nodes. A row that was replaced since is sent along: the backend may never have received
    /// it.
    pub fn nodes(&self, lines: &[&NodeRow], is_replaced: impl Fn(usize) -> bool) -> NodesField {
        self.acked.nodes(lines, is_replaced)
    }

    /// Records that the backend did not find the nodes. If it still acknowledges the same table, too many misses
    /// make requests carry rows for a while.
    pub fn missed(&self, backend: &str) {
        let now = self.table.latest.load();
        if now.as_ref().is_none_or(|now| now.table != self.acked.table) {
            return;
        }
        if self.table.misses.miss() == MissKind::TooMany {
            tracing::warn!(
                backend,
                "backend often misses its node table, so calls carry their nodes (retried every {} s): a proxy seems to spread the calls of one connection over several replicas; \
                 balance connections instead of calls, or disable the node table in the backend",
                REST.as_secs()
            );
        }
    }
}

impl AckedTable {
    /// The field with these nodes: by id where the backend has them, otherwise by row.
    fn nodes(&self, lines: &[&NodeRow], is_replaced: impl Fn(usize) -> bool) -> NodesField {
        let mut references = References::with_capacity(lines.len());
        for (at, line) in lines.iter().enumerate() {
            match self.id_of(&line.state).filter(|_| !is_replaced(at)) {
                Some(id) => references.id(id),
                None => references.row(&line.state.bytes),
            }
        }
        references.finish(self.table, self.applied)
    }

    /// Whether requests can name this row.
    pub fn has(&self, row: &RowState) -> bool {
        self.id_of(row).is_some()
    }

    /// The id of the row in the table; `None` if the table may not have it.
    fn id_of(&self, row: &RowState) -> Option<u32> {
        let id = row.id.filter(|id| id.generation == self.generation && row.version <= self.rows)?;
        Some(id.number.get())
    }
}

/// A row encoded as `TableEntry.row`: the same message under another key.
pub(super) fn in_entry(row: &Bytes) -> (u8, &[u8]) {
    const ROW_KEY: u8 = 2 << 3 | 2;
    (ROW_KEY, &row[1..])
}

#[cfg(test)]
mod tests {
    use super::*;

    fn holding(table: u64) -> AckedTable {
        AckedTable { table, applied: 1, rows: 1, generation: 0 }
    }

    #[tokio::test(start_paused = true)]
    async fn only_misses_of_the_table_that_is_held_count() {
        let held = Arc::new(RemoteTable::new(Arc::default()));
        assert!(held.reference().is_none());
        held.set(Some(holding(1)));
        let questions: Vec<_> = (0..20).map(|_| held.reference().unwrap()).collect();
        // The stream has ended since, and another has started.
        for now in [None, Some(holding(2))] {
            held.set(now);
            for named in &questions {
                named.missed("racks");
            }
        }
        assert!(held.reference().is_some());
        for _ in 0..8 {
            held.reference().unwrap().missed("racks");
        }
        assert!(held.reference().is_none());
        held.set(Some(holding(3)));
        assert!(held.reference().is_none(), "a new stream of the same connection proves nothing");
        tokio::time::advance(REST).await;
        assert!(held.reference().is_some());
    }

    #[tokio::test(start_paused = true)]
    async fn all_tables_of_a_connection_rest_together() {
        let misses = Arc::new(MissBreaker::default());
        let [one, other] = [1, 2].map(|table| {
            let held = Arc::new(RemoteTable::new(Arc::clone(&misses)));
            held.set(Some(holding(table)));
            held
        });
        for held in [&one, &other].repeat(4) {
            held.reference().unwrap().missed("racks");
        }
        assert!(one.reference().is_none() && other.reference().is_none());
    }
}
