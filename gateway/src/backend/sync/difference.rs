//! What has to be sent so that a backend's table is like the gateway's.

use bytes::{BufMut, Bytes};
use extender_policy_api::v1alpha1::TableView;
use foldhash::{HashMap, HashMapExt};
use prost::encoding::{WireType, encode_key, encode_varint, encoded_len_varint, fixed64, message, uint32};

use super::super::{grpc::PREFIX, held::in_entry};
use crate::cluster::table::{TableRead, ViewId};

/// Fields of `SyncNodesRequest`.
const TABLE: u32 = 1;
const VERSION: u32 = 2;
const VIEW: u32 = 3;
const UPSERTS: u32 = 4;
const REMOVED: u32 = 5;
const COMPLETE: u32 = 6;
/// Of `TableEntry`.
const ID: u32 = 1;

/// Upserts of one message, in bytes. A row that is larger goes alone. A quarter of what HTTP/2 lets a peer have under way
/// when it has not said otherwise: a backend that does not read its stream can still be called.
const MESSAGE_BYTES: usize = 16 << 10;

/// A message with its prefix.
#[derive(Debug)]
pub(super) struct Framed {
    pub(super) bytes: Bytes,
    /// The table's version after it.
    pub(super) version: u64,
}

/// What a backend lacks.
#[derive(Debug)]
pub(super) struct Difference {
    /// What goes into a message each. The rows are the table's: a message is encoded when it is sent.
    pub(super) parts: Vec<Part>,
    /// The version up to which the backend has all rows once it has these.
    pub(super) rows: u64,
}

/// What goes into one message.
#[derive(Debug, Default)]
pub(super) struct Part {
    upserts: Vec<(u32, Bytes)>,
    removed: Vec<u32>,
    complete: bool,
}

/// What a backend has been sent.
#[derive(Debug)]
pub(super) struct Sent {
    table: u64,
    /// Of the last message.
    version: u64,
    /// Until the first message.
    view: Option<TableView>,
    /// The version of each row, by the node's id.
    rows: HashMap<u32, u64>,
    /// The table's version at the last look.
    looked: Option<u64>,
}

impl Sent {
    /// Nothing yet, for a table of this name.
    pub(super) fn new(table: u64, view: TableView) -> Self {
        Self { table, version: 0, view: Some(view), rows: HashMap::new(), looked: None }
    }

    pub(super) fn table(&self) -> u64 {
        self.table
    }

    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// What is missing. There is one part at least until everything was sent for the first time.
    pub(super) fn difference(&mut self, read: &TableRead<'_>, view: ViewId) -> Difference {
        let rows = read.version();
        if self.looked == Some(rows) {
            return Difference { parts: Vec::new(), rows };
        }
        self.looked = Some(rows);
        let mut upserts = Vec::new();
        let mut left = std::mem::take(&mut self.rows);
        for (id, row) in read.rows(view) {
            if left.remove(&id) != Some(row.version) {
                upserts.push((id, row.bytes.clone()));
            }
            self.rows.insert(id, row.version);
        }
        Difference { parts: self.parts(upserts, left.into_keys().collect()), rows }
    }

    fn parts(&self, upserts: Vec<(u32, Bytes)>, removed: Vec<u32>) -> Vec<Part> {
        let first = self.view.is_some();
        if !first && upserts.is_empty() && removed.is_empty() {
            return Vec::new();
        }
        let mut parts = vec![Part { removed, ..Part::default() }];
        let mut bytes = 0;
        for upsert in upserts {
            if bytes > 0 && bytes + upsert.1.len() > MESSAGE_BYTES {
                parts.push(Part::default());
                bytes = 0;
            }
            bytes += upsert.1.len();
            parts.last_mut().expect("there is one from the beginning").upserts.push(upsert);
        }
        parts.last_mut().expect("there is one from the beginning").complete = first;
        parts
    }

    /// The next message.
    pub(super) fn message(&mut self, part: &Part) -> Framed {
        let Part { upserts, removed, complete } = part;
        self.version += 1;
        let mut bytes = vec![0; PREFIX];
        fixed64::encode(TABLE, &self.table, &mut bytes);
        encode_key(VERSION, WireType::Varint, &mut bytes);
        encode_varint(self.version, &mut bytes);
        if let Some(view) = self.view.take() {
            message::encode(VIEW, &view, &mut bytes);
        }
        for (id, row) in upserts {
            put_entry(*id, row, &mut bytes);
        }
        uint32::encode_packed(REMOVED, removed, &mut bytes);
        if *complete {
            encode_key(COMPLETE, WireType::Varint, &mut bytes);
            bytes.put_u8(1);
        }
        let len = u32::try_from(bytes.len() - PREFIX).expect("a node's row is far below 4 GiB");
        bytes[1..PREFIX].copy_from_slice(&len.to_be_bytes());
        Framed { bytes: bytes.into(), version: self.version }
    }
}

fn put_entry(id: u32, row: &Bytes, out: &mut Vec<u8>) {
    let (key, row) = in_entry(row);
    let len = 1 + encoded_len_varint(u64::from(id)) + 1 + row.len();
    encode_key(UPSERTS, WireType::LengthDelimited, out);
    encode_varint(len as u64, out);
    encode_key(ID, WireType::Varint, out);
    encode_varint(u64::from(id), out);
    out.put_u8(key);
    out.put_slice(row);
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeMap;

    use extender_policy_api::v1alpha1::{NodeRow, SyncNodesRequest, TableEntry};
    use proptest::prelude::*;
    use prost::Message;

    use super::*;
    use crate::{backend::row::RowView, cluster::table::NodeTable, object::annotations::AnnotationPrefixes};

    fn sent_to(
        held: &mut BTreeMap<u32, NodeRow>,
        sent: &mut Sent,
        difference: &Difference,
    ) -> Vec<SyncNodesRequest> {
        let messages = difference.parts.iter().map(|part| sent.message(part)).collect();
        applied(held, messages)
    }

    fn applied(held: &mut BTreeMap<u32, NodeRow>, messages: Vec<Framed>) -> Vec<SyncNodesRequest> {
        let decode = |framed: Framed| {
            assert_eq!(
                framed.bytes[..PREFIX],
                [&[0][..], &(u32::try_from(framed.bytes.len() - PREFIX).unwrap()).to_be_bytes()].concat()
            );
            let message = SyncNodesRequest::decode(&framed.bytes[PREFIX..]).unwrap();
            assert_eq!(message.version, framed.version);
            message
        };
        let messages: Vec<_> = messages.into_iter().map(decode).collect();
        for message in &messages {
            message.removed.iter().for_each(|id| drop(held.remove(id).expect("only what is there goes")));
            held.extend(message.upserts.iter().map(|TableEntry { id, row }| (*id, row.clone().unwrap())));
        }
        messages
    }

    fn node(name: u8, zone: u8, padding: usize) -> Vec<u8> {
        let padding = "x".repeat(padding);
        format!(r#"{{"metadata":{{"name":"n{name}","labels":{{"zone":"z{zone}","padding":"{padding}"}}}}}}"#)
            .into_bytes()
    }

    #[test]
    fn a_large_table_goes_in_parts_and_only_the_last_is_complete() {
        let table = NodeTable::new();
        let view = table.register(RowView::Facts(AnnotationPrefixes::default().into()));
        for name in 0..10 {
            table.apply(&node(name, 0, MESSAGE_BYTES / 3)).unwrap();
        }
        let mut sent = Sent::new(7, TableView::default());
        let mut held = BTreeMap::new();
        let difference = sent.difference(&table.read(), view);
        let messages = sent_to(&mut held, &mut sent, &difference);
        assert!(messages.len() >= 4 && held.len() == 10);
        let complete: Vec<_> = messages.iter().map(|message| message.complete).collect();
        assert_eq!(complete.iter().filter(|complete| **complete).count(), 1);
        assert!(complete[complete.len() - 1] && messages[0].view.is_some() && messages[1].view.is_none());
        assert!(messages.iter().all(|message| message.table == 7));
        assert!(sent.difference(&table.read(), view).parts.is_empty());
    }

    #[test]
    fn an_empty_table_is_complete_at_once() {
        let table = NodeTable::new();
        let view = table.register(RowView::Name);
        let mut sent = Sent::new(1, TableView::default());
        let difference = sent.difference(&table.read(), view);
        let messages = sent_to(&mut BTreeMap::new(), &mut sent, &difference);
        assert!(messages.len() == 1 && messages[0].complete);
    }

    proptest! {
        /// Whatever happens between two looks, the backend has what the table has.
        #[test]
        fn the_backend_has_what_the_table_has(
            steps in prop::collection::vec((0_u8..5, prop::option::of(0_u8..3), any::<bool>()), 1..40),
        ) {
            let table = NodeTable::new();
            let view = table.register(RowView::Facts(AnnotationPrefixes::default().into()));
            let mut sent = Sent::new(1, TableView::default());
            let mut held = BTreeMap::new();
            let mut ids = BTreeMap::new();
            for (name, zone, look) in steps {
                match zone {
                    Some(zone) => table.apply(&node(name, zone, 0)).unwrap(),
                    None => table.remove(&format!("n{name}")),
                };
                if !look {
                    continue;
                }
                let difference = sent.difference(&table.read(), view);
                sent_to(&mut held, &mut sent, &difference);
                let rows = difference.rows;
                let read = table.read();
                prop_assert_eq!(read.rows(view).count(), held.len());
                for name in (0..5).map(|name| format!("n{name}")) {
                    let Some(line) = read.line(&name, view) else { continue };
                    prop_assert!(line.row.version <= rows);
                    prop_assert_eq!(&held[&line.id].name, &name);
                    let earlier = ids.insert(line.id, name.clone());
                    prop_assert!(earlier.is_none_or(|earlier| earlier == name), "an id is never another node's");
                    let mut entry = Vec::new();
                    message::encode(1, &held[&line.id], &mut entry);
                    prop_assert_eq!(entry, line.row.bytes.to_vec());
                }
            }
        }
    }
}
