//! Applies the messages of a stream to its table. Each row is checked and copied here, once per change, so that
//! calls find it ready.

use std::sync::Arc;

use extender_policy_api::v1alpha1 as api;
use prost::bytes::Bytes;
use tokio::task::yield_now;

use super::{
    Open, Tables,
    mistake::Mistake,
    rows::{Change, Holds, Kept},
    space::Space,
};
use crate::{
    Reads, View,
    node::row::Row,
    reads::{MAX_KEY_BYTES, MAX_PARTS, pods::MAX_POD_COUNTS, values::Counts},
    request::{SyncNodesRequest, TableEntry},
};

/// After this many checked and copied bytes other tasks run: about a hundred rows with facts, or ten with their
/// JSON. Thousands of rows in one go would block calls for milliseconds.
const BYTES_AT_ONCE: usize = 128 << 10;

/// The memory of a row besides its bytes: its place in the table, and the positions of its parts.
const ROW_OVERHEAD_BYTES: usize = 256;

/// The memory of a declared key in each row besides its value: where the value ends, and that the node lacks it.
const VALUE_BYTES: usize = 8;

/// A table that is being filled.
pub(super) struct Filling {
    open: Open,
    version: u64,
    complete: bool,
}

impl Filling {
    /// From the first message of a stream, which is applied next.
    pub(super) fn begin(tables: &Tables, first: &SyncNodesRequest) -> Result<Self, Mistake> {
        if first.table == 0 {
            return Err(Mistake::Nameless);
        }
        let open = tables.open(first.table, holds(first.view.as_ref())?)?;
        Ok(Self { open, version: 0, complete: false })
    }

    /// Applies a message whole or not at all, and returns the table's new version.
    pub(super) async fn apply(&mut self, message: SyncNodesRequest) -> Result<u64, Mistake> {
        self.check(&message)?;
        let SyncNodesRequest { version, upserts, removed, complete, .. } = message;
        let upserts = self.checked(upserts).await?;
        self.open.table.apply(Change { version, upserts, removed });
        self.version = version;
        self.complete |= complete;
        Ok(version)
    }

    fn check(&self, message: &SyncNodesRequest) -> Result<(), Mistake> {
        if message.table != self.open.name {
            return Err(Mistake::Renamed { is: message.table, was: self.open.name });
        }
        if message.version <= self.version {
            return Err(Mistake::Version { is: message.version, was: self.version });
        }
        if message.complete && self.complete {
            return Err(Mistake::CompleteAgain);
        }
        Ok(())
    }

    async fn checked(&self, entries: Vec<TableEntry>) -> Result<Vec<(u32, Arc<Kept>)>, Mistake> {
        let (mut checked, mut bytes) = (Vec::with_capacity(entries.len()), 0);
        for (position, entry) in entries.into_iter().enumerate() {
            checked.push(self.kept(position, &entry)?);
            bytes += self.cost(&entry);
            if bytes >= BYTES_AT_ONCE {
                bytes = 0;
                yield_now().await;
            }
        }
        Ok(checked)
    }

    fn kept(&self, position: usize, entry: &TableEntry) -> Result<(u32, Arc<Kept>), Mistake> {
        if entry.id == 0 {
            return Err(Mistake::Entry { position, field: "id" });
        }
        let encoded = entry.row.as_ref().ok_or(Mistake::Entry { position, field: "row" })?;
        let space = self.space(self.cost(entry))?;
        let row = Row::read(encoded).map_err(|source| Mistake::Broken { position, source })?;
        let holds = self.open.table.holds();
        if let Some(field) = row.lacks(holds.facts()) {
            return Err(Mistake::Row { position, field });
        }
        row.check(holds.counts()).map_err(|source| Mistake::Values { position, source })?;
        Ok((entry.id, Kept::new(row.into_owned(), space)))
    }

    fn space(&self, bytes: usize) -> Result<Space, Mistake> {
        let budget = &self.open.tables.shared.budget;
        budget.take(bytes).ok_or_else(|| Mistake::TooLarge(budget.limit()))
    }

    /// In bytes of memory.
    fn cost(&self, entry: &TableEntry) -> usize {
        let Counts { labels, annotations, pods: _ } = self.open.table.holds().counts();
        entry.row.as_ref().map_or(0, Bytes::len) + ROW_OVERHEAD_BYTES + (labels + annotations) * VALUE_BYTES
    }
}

fn holds(view: Option<&api::TableView>) -> Result<Holds, Mistake> {
    let api::TableView { node_view, reads, .. } = view.ok_or(Mistake::View)?;
    let view = match api::NodeView::try_from(*node_view) {
        Ok(api::NodeView::Name) => View::Name,
        Ok(api::NodeView::Facts) => View::Facts,
        Ok(api::NodeView::FactsAndRaw) => View::FactsAndRaw,
        Ok(api::NodeView::Unspecified) | Err(_) => return Err(Mistake::View),
    };
    reads.as_ref().map_or(Ok(()), check_size)?;
    Ok(Holds { view, reads: reads.clone() })
}

/// The table keeps its declaration, and no gateway sends more than it accepts from a backend.
fn check_size(reads: &api::NodeReads) -> Result<(), Mistake> {
    if reads.parts.len() > MAX_PARTS {
        return Err(Mistake::TooManyParts(reads.parts.len()));
    }
    if reads.pod_counts.len() > MAX_POD_COUNTS {
        return Err(Mistake::TooManyPodCounts(reads.pod_counts.len()));
    }
    let maps = || reads.labels.iter().chain(&reads.annotations);
    let keys = || maps().flat_map(|map| map.keys.iter().chain(&map.prefixes));
    let labels = reads.pod_counts.iter().map(|counts| &counts.label);
    match keys().chain(labels).find(|key| key.len() > MAX_KEY_BYTES) {
        Some(long) => Err(Mistake::LongKey(long.len())),
        None if keys().count() > Reads::MAX_KEYS => Err(Mistake::TooManyKeys(keys().count())),
        None => Ok(()),
    }
}
