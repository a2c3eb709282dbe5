//! The changes to send so that a backend's table matches the gateway's.

use std::mem;

use bytes::Bytes;
use extender_gateway_cluster::table::{NodeRow, RowId, TableSnapshot, ViewId};
use extender_gateway_contract::{
    api::ApiVersion,
    nodes::TableName,
    protobuf::{PREFIX, put_head, put_number},
    row::{RowView, put_row},
    v1alpha1::{self, TableView},
};
use prost::encoding::{encoded_len_varint, message, uint32};

/// Fields of `SyncNodesRequest`.
/// In v1alpha1 a number.
const TABLE_NUMBER: u32 = 1;
const VERSION: u32 = 2;
/// In v1alpha1, in place of `reads`.
const VIEW: u32 = 3;
const UPSERTS: u32 = 4;
const REMOVED: u32 = 5;
const COMPLETE: u32 = 6;
const TABLE: u32 = 7;
const READS: u32 = 8;
/// Fields of `TableEntry`.
const ID: u32 = 1;
const ROW: u8 = 2;

/// The size of the upserts in one message, in bytes. A larger row is sent alone. A quarter of the default HTTP/2
/// window of a peer: a backend that does not read this stream can still be called.
const MESSAGE_BYTES: usize = 16 << 10;

/// The largest encoded id, in bytes.
const ID_BYTES: usize = 5;

/// The changes that a backend lacks.
#[derive(Debug)]
pub(super) struct Difference {
    /// One part for each message. The rows belong to the table: a message is encoded when it is sent.
    pub(super) parts: Vec<RowChanges>,
    /// The version up to which the backend has all rows after these changes.
    pub(super) rows: u64,
}

/// Changed rows, of all slots or of one message.
#[derive(Debug, Default)]
pub(super) struct RowChanges {
    upserts: Vec<(u32, Bytes)>,
    removed: Vec<u32>,
    complete: bool,
}

/// The rows that a backend was sent.
#[derive(Debug)]
pub(super) struct SentRows {
    /// The name of the table.
    pub(super) table: TableName,
    /// The version of the table after the last message.
    pub(super) version: u64,
    /// What the rows contain, until the first message.
    view: Option<RowView>,
    /// The row sent for each slot.
    slots: Vec<Option<SentRow>>,
    /// The table's version at the last comparison.
    looked: Option<u64>,
}

/// The row of a slot that was sent.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
struct SentRow {
    id: RowId,
    version: u64,
}

impl SentRows {
    /// Nothing sent yet, for a table with this name.
    pub(super) fn new(table: TableName, view: RowView) -> Self {
        Self { table, version: 0, view: Some(view), slots: Vec::new(), looked: None }
    }

    /// The missing changes. There is at least one part until everything was sent for the first time.
    pub(super) fn difference(&mut self, read: &TableSnapshot, view: ViewId) -> Difference {
        let rows = read.version();
        if self.looked == Some(rows) {
            return Difference { parts: Vec::new(), rows };
        }
        let mut missing = RowChanges::default();
        match self.looked.and_then(|looked| read.changed_since(looked)) {
            Some(changed) => changed.for_each(|slot| self.look(slot, read.at(slot, view), &mut missing)),
            None => self.look_at_all(read, view, &mut missing),
        }
        self.looked = Some(rows);
        Difference { parts: self.parts(missing), rows }
    }

    fn look_at_all(&mut self, read: &TableSnapshot, view: ViewId, missing: &mut RowChanges) {
        let slots = read.slots();
        for slot in 0..slots.max(self.slots.len()) {
            let slot = u32::try_from(slot).expect("a slot's number has 32 bits");
            self.look(slot, read.at(slot, view), missing);
        }
        // No node has a higher slot.
        self.slots.truncate(slots);
    }

    fn look(&mut self, slot: u32, row: Option<NodeRow<'_>>, missing: &mut RowChanges) {
        let slot = slot as usize;
        if self.slots.len() <= slot {
            self.slots.resize(slot + 1, None);
        }
        let now = row.and_then(|row| Some(SentRow { id: row.id?, version: row.version }));
        let sent = mem::replace(&mut self.slots[slot], now);
        if now == sent {
            return;
        }
        // A row that returns has another id.
        let gone = sent.filter(|sent| now.is_none_or(|now| now.id != sent.id));
        missing.removed.extend(gone.map(|sent| sent.id.number.get()));
        if let (Some(row), Some(now)) = (row, now) {
            missing.upserts.push((now.id.number.get(), row.bytes.clone()));
        }
    }

    fn parts(&self, missing: RowChanges) -> Vec<RowChanges> {
        let first = self.view.is_some();
        if !first && missing.upserts.is_empty() && missing.removed.is_empty() {
            return Vec::new();
        }
        let part = |removed: &[u32]| RowChanges { removed: removed.to_vec(), ..RowChanges::default() };
        let mut parts: Vec<RowChanges> = missing.removed.chunks(MESSAGE_BYTES / ID_BYTES).map(part).collect();
        let mut last = parts.pop().unwrap_or_default();
        let mut bytes = last.removed.len() * ID_BYTES;
        for upsert in missing.upserts {
            if bytes > 0 && bytes + upsert.1.len() > MESSAGE_BYTES {
                parts.push(mem::take(&mut last));
                bytes = 0;
            }
            bytes += upsert.1.len();
            last.upserts.push(upsert);
        }
        parts.push(RowChanges { complete: first, ..last });
        parts
    }

    /// The next message, with its gRPC prefix.
    pub(super) fn message(&mut self, part: &RowChanges) -> Bytes {
        let RowChanges { upserts, removed, complete } = part;
        self.version += 1;
        let mut bytes = vec![0; PREFIX];
        self.table.put(TABLE, TABLE_NUMBER, &mut bytes);
        put_number(VERSION, self.version, &mut bytes);
        let api = self.table.api;
        if let Some(view) = self.view.take() {
            match api {
                ApiVersion::V1Beta1 => message::encode(READS, &view.reads(), &mut bytes),
                ApiVersion::V1Alpha1 => message::encode(VIEW, &TableView::new(&view), &mut bytes),
            }
        }
        let begin = bytes.len();
        for (id, row) in upserts {
            put_entry(*id, row, &mut bytes);
        }
        if api == ApiVersion::V1Alpha1 {
            let older = v1alpha1::upserts(&bytes[begin..]);
            bytes.truncate(begin);
            bytes.extend(older);
        }
        uint32::encode_packed(REMOVED, removed, &mut bytes);
        if *complete {
            put_number(COMPLETE, 1, &mut bytes);
        }
        let len = u32::try_from(bytes.len() - PREFIX).expect("a node's row is far below 4 GiB");
        bytes[1..PREFIX].copy_from_slice(&len.to_be_bytes());
        bytes.into()
    }
}

fn put_entry(id: u32, row: &Bytes, out: &mut Vec<u8>) {
    let len = 1 + encoded_len_varint(u64::from(id)) + row.len();
    put_head(UPSERTS, len, out);
    put_number(ID, u64::from(id), out);
    put_row(ROW, row, out);
}

#[cfg(test)]
mod tests;
