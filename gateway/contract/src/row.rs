//! Encodes a node as a row of a request, in a backend's view.
//!
//! A row is written as one entry of the field `NodeRows.rows` (key, length, `NodeRow`). Concatenated protobuf
//! messages form one message, so concatenated entries are the body of a `NodeRows`. An entry is encoded once and
//! then copied into every request that needs it.

use std::sync::Arc;

use bytes::{BufMut, Bytes};
use extender_gateway_object::{
    counted::PodCountView,
    view::{NODE_PARTS_APART, NodeFactsView},
};
use extender_policy_api::v1beta1::{NodePart, NodeReads, NodeRow, NodeUsage, PodCounts};
use prost::{
    Message,
    encoding::{decode_key, decode_varint, message},
};

use super::{
    api::ApiVersion,
    protobuf::{field_len, put_bytes, put_head},
};

/// `NodeRows.rows`, and the fields of `NodeRow`.
const ROWS: u32 = 1;
const NAME: u32 = 1;
const FACTS: u32 = 2;
const RAW_JSON: u32 = 3;
const USAGE: u32 = 4;
const POD_COUNTS: u32 = 5;
const NOMINATED: u32 = 6;

/// A backend's view of nodes. Equal views share their rows.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum RowView {
    /// Nothing: nodes are counted.
    Nothing,
    /// Only the name.
    Name,
    /// Facts, and the name unless a declaration leaves it out.
    Facts(RowFields),
    /// The same and the object's JSON.
    FactsAndRaw(RowFields),
}

/// What a row contains besides the object's JSON.
#[derive(Debug, Clone, Default, PartialEq, Eq, Hash)]
pub struct RowFields {
    /// The facts.
    pub facts: Arc<NodeFactsView>,
    /// Whether images are included.
    pub images: bool,
    /// Whether usage is included, the requests of the pods on the node.
    pub usage: bool,
    /// Whether the requests of the pods that are nominated to the node are included.
    pub nominated: bool,
    /// How the pods on the node are counted, in ascending order.
    pub pod_counts: Arc<[PodCountView]>,
    /// The package in which rows are sent.
    pub api: ApiVersion,
}

impl<F: Into<NodeFactsView>> From<F> for RowFields {
    fn from(facts: F) -> Self {
        Self { facts: Arc::new(facts.into()), ..Self::default() }
    }
}

impl RowView {
    /// The view in a handshake of this package, which its reader has checked.
    pub fn new(node: &NodeReads, api: ApiVersion) -> Self {
        let reads = |part: NodePart| node.parts.contains(&part.into());
        let facts = NodeFactsView::from(node);
        let is_bare =
            facts.is_bare() && node.pod_counts.is_empty() && !NODE_PARTS_APART.into_iter().any(reads);
        let fields = RowFields {
            facts: Arc::new(facts),
            images: reads(NodePart::Images),
            usage: reads(NodePart::Usage),
            nominated: reads(NodePart::Nominated),
            pod_counts: PodCountView::declared(&node.pod_counts).into(),
            api,
        };
        match (is_bare, reads(NodePart::RawJson)) {
            (true, _) if reads(NodePart::Name) => Self::Name,
            (true, _) => Self::Nothing,
            (false, false) => Self::Facts(fields),
            (false, true) => Self::FactsAndRaw(fields),
        }
    }

    /// The declaration of this view in its canonical form.
    pub fn reads(&self) -> NodeReads {
        let apart = [
            (self.wants_usage(), NodePart::Usage),
            (self.wants_nominated(), NodePart::Nominated),
            (self.wants_raw(), NodePart::RawJson),
            (self.wants_images(), NodePart::Images),
        ];
        let apart = apart.into_iter().filter(|(is_read, _)| *is_read).map(|(_, part)| i32::from(part));
        let mut reads = self.facts().map_or_else(NodeReads::default, NodeFactsView::reads);
        reads.parts.extend(apart);
        reads.parts.sort_unstable();
        reads.pod_counts = self.pod_counts().iter().map(PodCountView::reads).collect();
        reads
    }

    /// What the rows contain in words.
    pub fn words(&self) -> String {
        let facts = match self {
            Self::Nothing => return "nothing".to_owned(),
            Self::Name => return "name".to_owned(),
            Self::Facts(fields) | Self::FactsAndRaw(fields) => &fields.facts,
        };
        let apart = [
            (self.wants_images(), "images"),
            (self.wants_usage(), "usage"),
            (self.wants_nominated(), "nominated pods"),
            (self.wants_raw(), "JSON"),
        ];
        let apart = apart.into_iter().filter(|(is_read, _)| *is_read).map(|(_, part)| part.to_owned());
        facts.words(self.pod_counts().iter().map(PodCountView::words).chain(apart))
    }

    /// Whether rows have at most the name, so that there is one for nodes that the gateway does not know.
    pub fn is_bare(&self) -> bool {
        self.fields().is_none()
    }

    /// The package in which rows are sent.
    pub fn api(&self) -> ApiVersion {
        self.fields().map_or(ApiVersion::NEWEST, |fields| fields.api)
    }

    /// The row of a bare view for a node of this name.
    pub fn bare_row(&self, name: &str) -> Bytes {
        let row = RowMessage { name: if self.has_name() { name } else { "" }, ..RowMessage::default() };
        let mut entry = Vec::with_capacity(row.encoded_len());
        row.encode(&mut entry);
        entry.into()
    }

    /// Whether rows contain the object's JSON.
    pub fn wants_raw(&self) -> bool {
        matches!(self, Self::FactsAndRaw(_))
    }

    /// Whether rows contain the node's images.
    pub fn wants_images(&self) -> bool {
        self.fields().is_some_and(|fields| fields.images)
    }

    /// Whether the object's JSON is needed for them.
    pub fn needs_json(&self) -> bool {
        self.wants_raw() || self.wants_images()
    }

    /// The facts in the rows; `None` if there are only names.
    pub fn facts(&self) -> Option<&NodeFactsView> {
        self.fields().map(|fields| &*fields.facts)
    }

    /// Whether rows include the requests of the pods on the node.
    pub fn wants_usage(&self) -> bool {
        self.fields().is_some_and(|fields| fields.usage)
    }

    /// Whether rows include the requests of the pods that are nominated to the node.
    pub fn wants_nominated(&self) -> bool {
        self.fields().is_some_and(|fields| fields.nominated)
    }

    /// How rows count the pods on the node.
    pub fn pod_counts(&self) -> &[PodCountView] {
        self.fields().map_or(&[], |fields| &fields.pod_counts)
    }

    /// Whether rows contain something about the pods on the node, or about those that are nominated to it.
    pub fn depends_on_pods(&self) -> bool {
        self.wants_usage() || self.wants_nominated() || !self.pod_counts().is_empty()
    }

    /// Whether rows contain the node's name.
    pub fn has_name(&self) -> bool {
        match self {
            Self::Nothing => false,
            Self::Name => true,
            Self::Facts(fields) | Self::FactsAndRaw(fields) => fields.facts.has(NodePart::Name),
        }
    }

    fn fields(&self) -> Option<&RowFields> {
        match self {
            Self::Nothing | Self::Name => None,
            Self::Facts(fields) | Self::FactsAndRaw(fields) => Some(fields),
        }
    }
}

/// The row of an entry.
///
/// # Panics
/// `entry` is not the gateway's own encoding.
pub fn decoded(entry: &Bytes) -> NodeRow {
    const OWN: &str = "the gateway encoded this row itself";
    let mut row = entry.clone();
    decode_key(&mut row).expect(OWN);
    decode_varint(&mut row).expect(OWN);
    NodeRow::decode(row).expect(OWN)
}

/// The entry of a row.
pub fn encoded(row: &NodeRow) -> Bytes {
    let mut entry = Vec::new();
    message::encode(ROWS, row, &mut entry);
    entry.into()
}

/// Appends an entry as this field of another message with rows: only the key differs.
pub fn put_row(field: u8, entry: &[u8], out: &mut impl BufMut) {
    out.put_u8(field << 3 | 2);
    out.put_slice(&entry[1..]);
}

/// The parts of a row.
#[derive(Default)]
pub struct RowMessage<'r> {
    /// Empty if it is not sent.
    pub name: &'r str,
    /// The encoded facts.
    pub facts: Option<&'r [u8]>,
    /// The node as JSON.
    pub raw: Option<&'r [u8]>,
    /// What its pods request.
    pub usage: Option<&'r NodeUsage>,
    /// Its pods, counted by their labels.
    pub pod_counts: &'r [PodCounts],
    /// What the pods that are nominated to it request.
    pub nominated: Option<&'r NodeUsage>,
}

impl RowMessage<'_> {
    /// Appends the entry.
    pub fn encode(&self, out: &mut impl BufMut) {
        put_head(ROWS, self.message_len(), out);
        if !self.name.is_empty() {
            put_bytes(NAME, self.name.as_bytes(), out);
        }
        if let Some(facts) = self.facts {
            put_bytes(FACTS, facts, out);
        }
        if let Some(raw) = self.raw {
            put_bytes(RAW_JSON, raw, out);
        }
        if let Some(usage) = self.usage {
            message::encode(USAGE, usage, out);
        }
        message::encode_repeated(POD_COUNTS, self.pod_counts, out);
        if let Some(nominated) = self.nominated {
            message::encode(NOMINATED, nominated, out);
        }
    }

    /// Bytes of the entry.
    pub fn encoded_len(&self) -> usize {
        field_len(self.message_len())
    }

    fn message_len(&self) -> usize {
        let name = if self.name.is_empty() { 0 } else { field_len(self.name.len()) };
        name + self.facts.map_or(0, |facts| field_len(facts.len()))
            + self.raw.map_or(0, |raw| field_len(raw.len()))
            + self.behind_the_json()
    }

    /// Bytes of the entry behind the JSON.
    pub fn behind_the_json(&self) -> usize {
        let len =
            |field, usage: Option<&NodeUsage>| usage.map_or(0, |usage| message::encoded_len(field, usage));
        len(USAGE, self.usage)
            + len(NOMINATED, self.nominated)
            + message::encoded_len_repeated(POD_COUNTS, self.pod_counts)
    }
}

#[cfg(test)]
mod tests;
