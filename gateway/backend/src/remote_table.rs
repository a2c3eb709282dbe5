//! Which nodes a backend has in its tables, and how calls name them.

use std::{sync::Arc, time::Duration};

use arc_swap::ArcSwapOption;
use extender_gateway_cluster::table::{NodeRow, NodeRows};
use extender_gateway_contract::nodes::{NodesField, References, TableName};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::info::NodesView;

/// The source of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableSource {
    /// A watch or a file.
    Cluster,
    /// Calls brought them.
    Calls,
}

/// The tables at a backend, by source and view.
#[derive(Debug, Default)]
pub struct RemoteTables(pub(super) Vec<(TableSource, NodesView, Arc<RemoteTable>)>);

impl RemoteTables {
    /// The latest state of the backend's table for the nodes of a source in a view; `None` if it has none.
    pub fn latest(&self, source: TableSource, view: &NodesView) -> Option<Arc<AckedTable>> {
        self.table(source, view)?.acked.load_full()
    }

    /// The same for one request; `None` if the request must carry rows, also after too many misses.
    pub fn named(&self, source: TableSource, view: &NodesView) -> Option<TableReference> {
        self.table(source, view)?.reference()
    }

    fn table(&self, source: TableSource, view: &NodesView) -> Option<&Arc<RemoteTable>> {
        let (.., table) = self.0.iter().find(|(from, known, _)| *from == source && known == view)?;
        Some(table)
    }
}

/// What a backend has of one table in one view.
#[derive(Debug)]
pub(super) struct RemoteTable {
    acked: ArcSwapOption<AckedTable>,
    misses: Arc<MissBreaker>,
}

/// A state that the backend has acknowledged.
#[derive(Debug)]
pub struct AckedTable {
    /// `SyncNodesRequest.table`.
    pub table: TableName,
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
        Self { acked: ArcSwapOption::empty(), misses }
    }

    fn reference(self: &Arc<Self>) -> Option<TableReference> {
        let acked = self.acked.load_full()?;
        self.misses.admit().then(|| TableReference { table: Arc::clone(self), acked })
    }

    /// Replaces the state; `None` when the backend no longer has a table.
    pub(super) fn set(&self, acked: Option<AckedTable>) {
        self.acked.store(acked.map(Arc::new));
    }
}

impl TableReference {
    /// The field with the nodes in these slots: by id where the backend has them, otherwise by row. A row that was
    /// replaced since is sent along: the backend may never have received it. `current` says which were not; `None` if
    /// none was.
    pub fn nodes(&self, rows: &NodeRows, slots: &[u32], current: Option<&[bool]>) -> NodesField {
        let mut references = References::with_capacity(slots.len());
        if current.is_none() && rows.are_all_in(self.acked.rows, self.acked.generation) {
            for slot in slots {
                references.id(rows.number(*slot));
            }
        } else {
            for (at, row) in rows.rows(slots).enumerate() {
                match self.acked.id_of(row).filter(|_| current.is_none_or(|current| current[at])) {
                    Some(id) => references.id(id),
                    None => references.row(row.bytes),
                }
            }
        }
        references.finish(self.acked.table, self.acked.applied)
    }

    /// Records that the backend did not find the nodes. If it still acknowledges the same table, too many misses
    /// make requests carry rows for a while.
    pub fn missed(&self, backend: &str) {
        let now = self.table.acked.load();
        if now.as_ref().is_none_or(|now| now.table != self.acked.table) {
            return;
        }
        if self.table.misses.miss() {
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
    /// Whether requests can name this row.
    pub fn has(&self, row: NodeRow<'_>) -> bool {
        self.id_of(row).is_some()
    }

    /// The id of the row in the table; `None` if the table may not have it.
    fn id_of(&self, row: NodeRow<'_>) -> Option<u32> {
        let id = row.id.filter(|id| id.generation == self.generation && row.version <= self.rows)?;
        Some(id.number.get())
    }
}

/// The number of misses among the latest 16 requests that is too many: half, as with two replicas, where rows are
/// sent every other time anyway. Fewer are normal when nodes are removed while calls are in flight.
const TOO_MANY: u32 = 8;
/// How long requests carry rows then. After that, one more miss is too many.
const REST: Duration = Duration::from_secs(30);

/// Tracks whether a backend finds the nodes that requests on one connection name, in any of its tables. Where a proxy
/// spreads the calls of a connection over replicas, the node stream fills the table at one of them, and the others
/// miss it. A miss costs a round trip, so rows in each call are cheaper than many misses.
#[derive(Debug, Default)]
pub(super) struct MissBreaker(Mutex<RecentRequests>);

#[derive(Debug, Default)]
struct RecentRequests {
    /// One bit for each of the latest requests, the latest one lowest: 1 for a miss.
    misses: u16,
    /// Until when requests carry rows.
    rest: Option<Instant>,
    /// Whether it was reported that there are too many misses. This is reported once, until 16 requests in a row are
    /// answered.
    is_reported: bool,
}

impl MissBreaker {
    /// Records a request. Returns whether it may name nodes; it counts as answered until it is [missed](Self::miss).
    fn admit(&self) -> bool {
        let mut recent = self.0.lock();
        if recent.rest.is_some_and(|until| Instant::now() < until) {
            return false;
        }
        recent.rest = None;
        recent.misses <<= 1;
        recent.is_reported &= recent.misses != 0;
        true
    }

    /// Records a miss of one of the latest requests; concurrent requests are not distinguished. Returns whether there
    /// are too many and this has not been reported.
    fn miss(&self) -> bool {
        let mut recent = self.0.lock();
        // The lowest 0 becomes a 1.
        recent.misses |= recent.misses.wrapping_add(1);
        if recent.misses.count_ones() < TOO_MANY {
            return false;
        }
        recent.rest = Some(Instant::now() + REST);
        !std::mem::replace(&mut recent.is_reported, true)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;
    use crate::info::ApiVersion;

    fn holding(table: u64) -> AckedTable {
        let table = TableName { number: table, api: ApiVersion::NEWEST };
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
        advance(REST).await;
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

    /// Sends these requests, where allowed, and misses those with `true`; returns how many misses were reported.
    fn put(misses: &MissBreaker, questions: impl IntoIterator<Item = bool>) -> usize {
        let is_news = |missed: &bool| misses.admit() && *missed && misses.miss();
        questions.into_iter().filter(is_news).count()
    }

    #[tokio::test(start_paused = true)]
    async fn a_backend_that_always_misses_is_asked_once_in_half_a_minute() {
        let misses = MissBreaker::default();
        assert_eq!(put(&misses, [true; 7]), 0);
        assert!(misses.admit());
        assert_eq!((misses.miss(), misses.admit()), (true, false));
        for _ in 0..5 {
            advance(Duration::from_millis(29_999)).await;
            assert!(!misses.admit());
            advance(Duration::from_millis(1)).await;
            assert!(misses.admit());
            assert_eq!((misses.miss(), misses.admit()), (false, false), "and that is no news");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn every_other_miss_is_too_many_and_one_in_three_is_not() {
        let misses = MissBreaker::default();
        assert_eq!(put(&misses, (0..300).map(|question| question % 3 == 0)), 0);
        assert!(misses.admit());
        let misses = MissBreaker::default();
        assert_eq!(put(&misses, (0..15).map(|question| question % 2 == 0)), 1);
        assert!(!misses.admit());
    }

    #[tokio::test(start_paused = true)]
    async fn what_is_over_is_forgotten() {
        let misses = MissBreaker::default();
        assert_eq!(put(&misses, [true; 8]), 1);
        advance(REST).await;
        // The period ends after as many answered requests as are tracked.
        assert_eq!(put(&misses, [false; 16]), 0);
        assert_eq!(put(&misses, [true; 7]), 0);
        assert!(misses.admit());
        assert!(misses.miss(), "news again");
    }

    #[tokio::test(start_paused = true)]
    async fn misses_of_questions_that_were_under_way_together_all_count() {
        let misses = MissBreaker::default();
        assert!((0..20).all(|_| misses.admit()));
        let news: Vec<_> = (0..20).map(|_| misses.miss()).collect();
        assert_eq!(news.iter().position(|meaning| *meaning), Some(7));
        assert_eq!(news.iter().filter(|meaning| **meaning).count(), 1);
        advance(REST).await;
        assert!(misses.admit());
    }
}
