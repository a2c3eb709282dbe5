//! Applies the messages of a stream to its table. Each row is checked here, and copied or shared with an equal one, once
//! per change, so that calls find it ready.

use std::sync::Arc;

use extender_policy_api::limits::{KEY_BYTES, READ_COUNTS, READ_KEYS, READ_PARTS, TABLE_BYTES};
use extender_policy_api::v1beta1 as api;
use prost::bytes::Bytes;
use tokio::task::yield_now;

use super::{
    Open, Tables,
    contents::Contents,
    mistake::Mistake,
    rows::{Change, Kept},
    space::{Budget, Space},
};
use crate::{
    node::{content::Content, row::Row},
    reads::values::Counts,
    request::{SyncNodesRequest, TableEntry},
};

/// After this many checked and copied bytes other tasks run: about a hundred rows with facts, or ten with their
/// JSON. Thousands of rows in one go would block calls for milliseconds.
const BYTES_AT_ONCE: usize = 128 << 10;

/// What a row costs besides its bytes, as so many bytes that are checked and copied.
const ROW_OVERHEAD_BYTES: usize = 256;

/// The memory of a row besides its name and its content: its place in the table, with what the allocator rounds up.
const NAME_OVERHEAD_BYTES: usize = 160;

/// The memory of a content besides its bytes: the positions of its parts, its place among the contents, and what the
/// allocator rounds up.
const CONTENT_OVERHEAD_BYTES: usize = 448;

/// The memory of a declared key in each content besides its value: where the value ends, and that the node lacks it.
const VALUE_BYTES: usize = 8;

/// A table that is being filled.
pub(super) struct Filling {
    open: Open,
    contents: Contents,
    version: u64,
    complete: bool,
}

impl Filling {
    /// From the first message of a stream, which is applied next.
    pub(super) fn begin(tables: &Tables, first: &SyncNodesRequest) -> Result<Self, Mistake> {
        check_name(&first.table)?;
        let reads = first.reads.as_ref().ok_or(Mistake::NoReads)?;
        check_size(reads)?;
        let open = tables.open(&first.table, reads.clone())?;
        Ok(Self { open, contents: Contents::default(), version: 0, complete: false })
    }

    /// Applies a message whole or not at all, and returns the table's new version.
    pub(super) async fn apply(&mut self, message: SyncNodesRequest) -> Result<u64, Mistake> {
        self.check(&message)?;
        let SyncNodesRequest { version, upserts, removed, complete, .. } = message;
        let upserts = self.checked(upserts).await?;
        let changed = upserts.len() + removed.len();
        let rows = self.open.table.apply(Change { version, upserts, removed });
        self.contents.rows_changed(changed, rows);
        self.version = version;
        self.complete |= complete;
        Ok(version)
    }

    fn check(&self, message: &SyncNodesRequest) -> Result<(), Mistake> {
        if message.table != *self.open.name {
            return Err(Mistake::Renamed(self.open.name.to_string()));
        }
        if message.version <= self.version {
            return Err(Mistake::Version { is: message.version, was: self.version });
        }
        if message.complete && self.complete {
            return Err(Mistake::CompleteAgain);
        }
        Ok(())
    }

    async fn checked(&mut self, entries: Vec<TableEntry>) -> Result<Vec<(u32, Kept)>, Mistake> {
        let (mut checked, mut bytes) = (Vec::with_capacity(entries.len()), 0);
        for (position, entry) in entries.into_iter().enumerate() {
            checked.push(self.kept(position, &entry)?);
            bytes += cost(&entry);
            if bytes >= BYTES_AT_ONCE {
                bytes = 0;
                yield_now().await;
            }
        }
        Ok(checked)
    }

    fn kept(&mut self, position: usize, entry: &TableEntry) -> Result<(u32, Kept), Mistake> {
        if entry.id == 0 {
            return Err(Mistake::Entry { position, field: "id" });
        }
        let encoded = entry.row.as_ref().ok_or(Mistake::Entry { position, field: "row" })?;
        let row = Row::read(encoded).map_err(|source| Mistake::Broken { position, source })?;
        let table = &self.open.table;
        if let Some(field) = row.lacks(table.row_parts()) {
            return Err(Mistake::Row { position, field });
        }
        row.check(table.counts()).map_err(|source| Mistake::Values { position, source })?;
        let (name, content) = row.into_parts();
        let bytes = self.content_bytes(&content);
        let budget = &self.open.tables.shared.budget;
        let content = self.contents.share(content, |contents| take(budget, bytes, contents))?;
        let space = take(budget, NAME_OVERHEAD_BYTES + name.len(), &mut self.contents)?;
        Ok((entry.id, Kept::new(&name, content, space)))
    }

    /// The memory that this content takes at most if it is a new one. Facts are there twice: encoded, and laid out.
    fn content_bytes(&self, content: &Content<'_>) -> usize {
        let Counts { labels, annotations, pods: _ } = self.open.table.counts();
        let laid_out = content.facts_bytes() + (labels + annotations) * VALUE_BYTES;
        CONTENT_OVERHEAD_BYTES + content.bytes() + laid_out
    }
}

fn check_name(name: &str) -> Result<(), Mistake> {
    let is_shown = |byte: u8| (b' '..=b'~').contains(&byte);
    match name {
        "" => Err(Mistake::Nameless),
        name if name.len() > TABLE_BYTES || !name.bytes().all(is_shown) => Err(Mistake::Name),
        _ => Ok(()),
    }
}

/// In bytes that are checked and copied.
fn cost(entry: &TableEntry) -> usize {
    ROW_OVERHEAD_BYTES + entry.row.as_ref().map_or(0, Bytes::len)
}

/// Takes this many bytes. Contents without a row make room if there is none.
fn take(budget: &Arc<Budget>, bytes: usize, contents: &mut Contents) -> Result<Space, Mistake> {
    let space = budget.take(bytes).or_else(|| {
        contents.drop_unused();
        budget.take(bytes)
    });
    space.ok_or_else(|| Mistake::TooLarge(budget.limit()))
}

/// The table keeps its declaration, and no gateway sends more than it accepts from a backend.
fn check_size(reads: &api::NodeReads) -> Result<(), Mistake> {
    if reads.parts.len() > READ_PARTS {
        return Err(Mistake::TooManyParts(reads.parts.len()));
    }
    if reads.pod_counts.len() > READ_COUNTS {
        return Err(Mistake::TooManyPodCounts(reads.pod_counts.len()));
    }
    let maps = || reads.labels.iter().chain(&reads.annotations);
    let keys = || maps().flat_map(|map| map.keys.iter().chain(&map.prefixes));
    let labels = reads.pod_counts.iter().map(|counts| &counts.label);
    match keys().chain(labels).find(|key| key.len() > KEY_BYTES) {
        Some(long) => Err(Mistake::LongKey(long.len())),
        None if keys().count() > READ_KEYS => Err(Mistake::TooManyKeys(keys().count())),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::{
        super::{contents::Stored, rows::Kept},
        *,
    };

    /// A map doubles when seven of eight slots are taken, so an entry can cost 16/7 of a slot; each slot has a control
    /// byte.
    fn slot(bytes: usize) -> usize {
        (bytes + 1) * 16 / 7
    }

    #[test]
    fn memory_besides_the_bytes_is_counted() {
        const COUNTS: usize = 2 * size_of::<usize>();
        const ROUNDED_UP: usize = 16;
        let row = slot(size_of::<(u32, Kept)>()) + COUNTS + Kept::NAMED_BYTES + ROUNDED_UP;
        assert!(row <= NAME_OVERHEAD_BYTES, "{row}");
        // Encoded parts, and labels and values laid out.
        let content = slot(size_of::<Arc<Stored>>()) + COUNTS + size_of::<Stored>() + 6 * ROUNDED_UP;
        assert!(content <= CONTENT_OVERHEAD_BYTES, "{content}");
    }
}
