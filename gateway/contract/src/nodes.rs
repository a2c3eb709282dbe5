//! The nodes of a request, as a field that requests of several backends share: rows, or references to a table.

use bytes::Bytes;
use prost::encoding::{encode_varint, encoded_len_varint};

use super::{
    api::ApiVersion,
    protobuf::{field_len, put_bytes, put_fixed, put_head, put_number},
    question::hexadecimal,
    row::put_row,
    v1alpha1::{self, older},
};

/// The field of `Nodes` in requests.
const NODES: u32 = 3;
/// Fields of `Nodes`.
const COUNT: u32 = 1;
const ROWS: u32 = 2;
const REFERENCE: u32 = 3;
/// Fields of `NodeRef`.
/// In v1alpha1 a number.
const REF_TABLE_NUMBER: u32 = 1;
const REF_AT_LEAST: u32 = 2;
const REF_IDS: u32 = 3;
const REF_ROWS: u8 = 4;
const REF_TABLE: u32 = 5;

/// Nodes as a field of a request.
#[derive(Debug, Clone)]
pub struct NodesField {
    /// The field, including key and length.
    pub(super) bytes: Bytes,
    /// The number of nodes.
    pub count: u32,
    /// The form of the nodes.
    pub form: NodeForm,
}

/// The form in which a request names nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum NodeForm {
    /// Nodes by their rows.
    Rows,
    /// Nodes by their ids in the backend's table.
    Ids,
    /// A node by its name.
    Name,
    /// There are no nodes.
    None,
}

impl NodeForm {
    /// One word, for traces.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::Rows => "rows",
            Self::Ids => "ids",
            Self::Name => "name",
            Self::None => "none",
        }
    }
}

/// Rows of nodes, one after the other, as [`super::row`] writes them. Free bytes in front leave room for the heads
/// of the enclosing messages, so that the rows need not be moved.
#[derive(Debug)]
pub struct Rows {
    bytes: Vec<u8>,
    count: u32,
}

/// Room for three heads and a count, each number of at most five bytes.
const HEADROOM: usize = 4 * 6;

impl Rows {
    /// No rows, with room for this many bytes.
    pub fn with_capacity(bytes: usize) -> Self {
        let mut headed = Vec::with_capacity(HEADROOM + bytes);
        headed.resize(HEADROOM, 0);
        Self { bytes: headed, count: 0 }
    }

    /// Appends a row.
    #[inline]
    pub fn push(&mut self, row: &[u8]) {
        self.bytes.extend_from_slice(row);
        self.count += 1;
    }

    /// The finished field, for backends that speak this package.
    pub fn finish(mut self, api: ApiVersion) -> NodesField {
        if api == ApiVersion::V1Alpha1 {
            let rows = older(&self.bytes[HEADROOM..], v1alpha1::ROWS);
            self.bytes.truncate(HEADROOM);
            self.bytes.extend(rows);
        }
        let rows = self.bytes.len() - HEADROOM;
        let mut head = Vec::with_capacity(HEADROOM);
        let count_len = 1 + encoded_len_varint(u64::from(self.count));
        put_head(NODES, count_len + field_len(rows), &mut head);
        put_number(COUNT, u64::from(self.count), &mut head);
        put_head(ROWS, rows, &mut head);
        let start = HEADROOM - head.len();
        self.bytes[start..HEADROOM].copy_from_slice(&head);
        NodesField { bytes: Bytes::from(self.bytes).slice(start..), count: self.count, form: NodeForm::Rows }
    }
}

/// The name of a backend's table.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct TableName {
    /// As a number.
    pub number: u64,
    /// The package that the backend speaks: in v1alpha1 it is this number, otherwise text.
    pub api: ApiVersion,
}

impl TableName {
    /// As text.
    pub fn text(self) -> String {
        String::from_utf8_lossy(&hexadecimal(self.number)).into_owned()
    }

    /// The length of its field, with the key.
    fn len(self) -> usize {
        match self.api {
            ApiVersion::V1Beta1 => field_len(hexadecimal(self.number).len()),
            ApiVersion::V1Alpha1 => 1 + size_of::<u64>(),
        }
    }

    /// Writes it as the field with the first number, or with the second one, that of v1alpha1.
    pub fn put(self, field: u32, field_of_v1alpha1: u32, out: &mut Vec<u8>) {
        match self.api {
            ApiVersion::V1Beta1 => put_bytes(field, &hexadecimal(self.number), out),
            ApiVersion::V1Alpha1 => put_fixed(field_of_v1alpha1, self.number, out),
        }
    }
}

/// Nodes named by the ids in a backend's table; those that it may not have, by row.
#[derive(Debug)]
pub struct References {
    ids: Vec<u8>,
    rows: Vec<u8>,
    count: u32,
}

impl References {
    /// No nodes, with room for this many.
    pub fn with_capacity(nodes: usize) -> Self {
        Self { ids: Vec::with_capacity(nodes * 2), rows: Vec::new(), count: 0 }
    }

    /// Appends a node in the backend's table.
    #[inline]
    pub fn id(&mut self, id: u32) {
        // `encode_varint` writes byte by byte; nearly all ids have two or three bytes.
        let low = |bits: u32| bits.to_le_bytes()[0];
        match id {
            0x80..0x4000 => self.ids.extend([low(id | 0x80), low(id >> 7)]),
            0x4000..0x20_0000 => self.ids.extend([low(id | 0x80), low(id >> 7 | 0x80), low(id >> 14)]),
            _ => encode_varint(u64::from(id), &mut self.ids),
        }
        self.count += 1;
    }

    /// Appends a node by its row, as [`super::row`] writes it.
    pub fn row(&mut self, row: &[u8]) {
        self.ids.push(0);
        put_row(REF_ROWS, row, &mut self.rows);
        self.count += 1;
    }

    /// The finished field, for this table at this version or a later one.
    pub fn finish(self, table: TableName, at_least: u64) -> NodesField {
        let Self { ids, mut rows, count } = self;
        if table.api == ApiVersion::V1Alpha1 {
            rows = older(&rows, v1alpha1::REFERENCE);
        }
        let version = 1 + encoded_len_varint(at_least);
        let reference = table.len() + version + field_len(ids.len()) + rows.len();
        let count_len = 1 + encoded_len_varint(u64::from(count));
        let mut field = Vec::with_capacity(HEADROOM + reference);
        put_head(NODES, count_len + field_len(reference), &mut field);
        put_number(COUNT, u64::from(count), &mut field);
        put_head(REFERENCE, reference, &mut field);
        table.put(REF_TABLE, REF_TABLE_NUMBER, &mut field);
        put_number(REF_AT_LEAST, at_least, &mut field);
        put_bytes(REF_IDS, &ids, &mut field);
        field.extend_from_slice(&rows);
        NodesField { bytes: field.into(), count, form: NodeForm::Ids }
    }
}
