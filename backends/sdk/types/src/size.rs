//! Estimates the memory of a message before it is decoded: an empty message of two bytes on the wire can become a
//! struct of a kilobyte. The shapes name the parts that take more than a small multiple of their bytes. Rows stay
//! encoded, so theirs are counted when they are read.

use std::mem::size_of;

use extender_policy_api::v1beta1 as api;
use prost::bytes::Bytes;

use crate::{
    request::TableEntry,
    wire::{FieldValue, Fields, Unusual},
};

/// The largest message in bytes, in both directions: 5,000 nodes with their JSON fit.
pub const MAX_MESSAGE_BYTES: usize = 64 << 20;

/// What every message may take, whatever its length: enough for 15,000 rows with one value each, of nine bytes.
const BASE: usize = 16 << 20;

/// What a message may take per byte.
const PER_BYTE: usize = 32;

/// A `Vec` that grows has up to twice the capacity that it needs.
const fn listed<T>() -> usize {
    2 * size_of::<T>()
}

/// The smallest allocation of a `Vec` is four elements; most candidates have one or two victims.
const fn first_victims() -> usize {
    4 * size_of::<api::Victim>()
}

/// The same for domains of counts by topology.
const fn first_domains() -> usize {
    4 * size_of::<api::DomainCount>()
}

/// The smallest allocation of a `BTreeMap` of amounts: a node has room for eleven entries.
const fn first_amounts() -> usize {
    12 * (size_of::<String>() + size_of::<i64>())
}

/// The same for the labels of a selector.
const fn first_labels() -> usize {
    12 * 2 * size_of::<String>()
}

/// A key and a value in a `BTreeMap`, the nodes of which are at least half full.
const MAP_ENTRY: usize = 4 * size_of::<String>();

/// A row that is read, and the policy's answer about it.
const READ_ROW: usize = 512;

/// A row of the table that is found, and the policy's answer about it.
const FOUND_ROW: usize = 128;

/// The parts of a message that are counted.
pub type Shape = &'static [CountedField];

/// A field of a message.
pub struct CountedField {
    field: u32,
    /// The memory of each occurrence, besides its own bytes.
    bytes: usize,
    kind: Kind,
}

enum Kind {
    /// Text, bytes or a number.
    Plain,
    /// Numbers, each of which takes this much, packed or not.
    Numbers,
    /// A message.
    Message(Shape),
    /// An element that is invalid if it is empty: the name is that of its list.
    Element(&'static str, Shape),
}

const fn plain(field: u32, bytes: usize) -> CountedField {
    CountedField { field, bytes, kind: Kind::Plain }
}

const fn numbers(field: u32, bytes: usize) -> CountedField {
    CountedField { field, bytes, kind: Kind::Numbers }
}

const fn message(field: u32, shape: Shape) -> CountedField {
    CountedField { field, bytes: 0, kind: Kind::Message(shape) }
}

const fn messages(field: u32, bytes: usize, shape: Shape) -> CountedField {
    CountedField { field, bytes, kind: Kind::Message(shape) }
}

const fn elements(field: u32, bytes: usize, name: &'static str, shape: Shape) -> CountedField {
    CountedField { field, bytes, kind: Kind::Element(name, shape) }
}

/// `ReportRequest`.
pub const REPORT: Shape = &[plain(2, listed::<api::Outcome>())];

/// `FilterRequest`, `ScoreRequest` and `ChangeRequest`.
pub const QUESTION: Shape = &[message(2, POD), message(3, NODES)];

/// `PreemptRequest`.
pub const PREEMPT: Shape = &[
    message(2, POD),
    message(3, NODES),
    elements(4, listed::<api::Candidate>() + first_victims(), "candidates", CANDIDATE),
];

/// `BindRequest`.
pub const BIND: Shape = &[message(6, POD)];

/// `GetInfoRequest`.
pub const GET_INFO: Shape = &[plain(2, listed::<String>()), message(5, KNOWN)];

const KNOWN: Shape = &[
    numbers(1, listed::<i32>()),
    numbers(2, listed::<i32>()),
    numbers(3, listed::<i32>()),
    numbers(4, listed::<i32>()),
    numbers(5, listed::<i32>()),
    numbers(6, listed::<i32>()),
    plain(7, listed::<String>()),
    plain(8, listed::<String>()),
];

/// `IntrospectRequest`.
pub const INTROSPECT: Shape = &[plain(4, MAP_ENTRY), plain(5, MAP_ENTRY)];

/// `SyncNodesRequest`.
pub const SYNC_NODES: Shape = &[
    elements(4, listed::<TableEntry>() + READ_ROW, "upserts", &[]),
    numbers(5, listed::<u32>()),
    message(8, NODE_READS),
];

const NODE_READS: Shape = &[
    numbers(1, listed::<i32>()),
    message(2, MAP_READS),
    message(3, MAP_READS),
    plain(4, listed::<api::PodCountReads>()),
];

const MAP_READS: Shape = &[plain(1, listed::<String>()), plain(2, listed::<String>())];

/// `NodeRow`, of which everything is decoded where it is not as the gateway writes it.
pub(crate) const NODE_ROW: Shape = &[
    message(
        2,
        &[
            plain(3, listed::<api::Taint>()),
            plain(5, MAP_ENTRY),
            message(6, RESOURCES),
            message(7, RESOURCES),
            message(12, MAP_VALUES),
            message(13, MAP_VALUES),
            messages(14, listed::<api::NodeImage>(), &[plain(1, listed::<String>())]),
            plain(16, listed::<api::NodeAddress>()),
        ],
    ),
    message(4, USAGE),
    message(6, USAGE),
    messages(
        5,
        listed::<api::PodCounts>(),
        &[messages(1, listed::<api::PodCount>(), &[message(5, RESOURCES)])],
    ),
];

const USAGE: Shape = &[message(1, RESOURCES)];

const RESOURCES: Shape = &[plain(5, MAP_ENTRY)];

const MAP_VALUES: Shape = &[plain(1, listed::<String>()), numbers(2, listed::<u32>()), plain(3, MAP_ENTRY)];

/// Rows may be empty: what they must have is what the verb reads, which is checked when they are read.
const NODES: Shape = &[
    message(2, &[plain(1, listed::<Bytes>() + READ_ROW)]),
    message(3, &[numbers(3, listed::<u32>() + FOUND_ROW), plain(4, listed::<Bytes>() + READ_ROW)]),
];

const CANDIDATE: Shape =
    &[elements(1, listed::<api::Victim>(), "victims", &[messages(2, size_of::<api::Pod>(), POD)])];

const POD: Shape = &[
    message(1, &[plain(3, listed::<String>())]),
    message(
        2,
        &[
            message(7, RESOURCES),
            plain(8, listed::<api::Toleration>()),
            plain(9, MAP_ENTRY),
            plain(10, listed::<api::Volume>()),
            message(12, NODE_AFFINITY),
            message(18, MAP_VALUES),
            message(19, MAP_VALUES),
            messages(20, listed::<api::Container>(), &[plain(4, listed::<api::HostPort>())]),
            message(21, POD_AFFINITY),
            messages(
                22,
                listed::<api::TopologySpreadConstraint>(),
                &[messages(4, first_labels(), LABEL_SELECTOR), plain(8, listed::<String>())],
            ),
            plain(23, listed::<api::ResourceClaim>()),
        ],
    ),
    messages(4, listed::<api::TopologyCounts>() + first_domains(), TOPOLOGY_COUNTS),
];

/// Most sums have one extended resource or none.
const TOPOLOGY_COUNTS: Shape =
    &[messages(1, listed::<api::DomainCount>(), &[message(4, &[plain(5, first_amounts())])])];

const NODE_AFFINITY: Shape = &[
    message(1, &[messages(1, listed::<api::NodeSelectorTerm>(), SELECTOR_TERM)]),
    messages(2, listed::<api::PreferredSchedulingTerm>(), &[message(2, SELECTOR_TERM)]),
];

const POD_AFFINITY: Shape = &[
    messages(1, listed::<api::PodAffinityTerm>(), AFFINITY_TERM),
    messages(2, listed::<api::WeightedPodAffinityTerm>(), &[message(2, AFFINITY_TERM)]),
    messages(3, listed::<api::PodAffinityTerm>(), AFFINITY_TERM),
    messages(4, listed::<api::WeightedPodAffinityTerm>(), &[message(2, AFFINITY_TERM)]),
];

const AFFINITY_TERM: Shape = &[
    messages(1, first_labels(), LABEL_SELECTOR),
    plain(2, listed::<String>()),
    messages(3, first_labels(), LABEL_SELECTOR),
    plain(5, listed::<String>()),
    plain(6, listed::<String>()),
];

const LABEL_SELECTOR: Shape =
    &[plain(1, MAP_ENTRY), messages(2, listed::<api::NodeSelectorRequirement>(), REQUIREMENT)];

const SELECTOR_TERM: Shape = &[
    messages(1, listed::<api::NodeSelectorRequirement>(), REQUIREMENT),
    messages(2, listed::<api::NodeSelectorRequirement>(), REQUIREMENT),
];

const REQUIREMENT: Shape = &[plain(3, listed::<String>())];

/// Why a message is not decoded.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Refused {
    #[error(
        "the message cannot be decoded: it ends inside a field, or has a field that proto3 does not know"
    )]
    Broken,
    #[error("{0} has an empty entry; each entry has content")]
    Empty(&'static str),
    #[error(
        "the message has {len} bytes and would take more than {limit} decoded; send fewer and fuller entries"
    )]
    TooLarge { len: usize, limit: usize },
}

impl From<Unusual> for Refused {
    fn from(_: Unusual) -> Self {
        Self::Broken
    }
}

/// Rejects a message that would take much more memory than its bytes, or more than `most`, or that has empty
/// entries. Allocates nothing, and reads each byte at most once per level of nesting.
pub fn check(encoded: &[u8], shape: Shape, most: usize) -> Result<(), Refused> {
    let limit = encoded.len().saturating_mul(PER_BYTE).saturating_add(BASE).min(most);
    let mut left = Left(limit);
    left.take_message(encoded, shape)?.ok_or(Refused::TooLarge { len: encoded.len(), limit })
}

/// Bytes of memory.
struct Left(usize);

impl Left {
    /// `None` if not enough is left.
    fn take_message(&mut self, encoded: &[u8], shape: Shape) -> Result<Option<()>, Refused> {
        for field in Fields::of(encoded) {
            let field = field?;
            let Some(part) = shape.iter().find(|part| part.field == field.tag) else { continue };
            if self.take_part(part, &field.value)?.is_none() {
                return Ok(None);
            }
        }
        Ok(Some(()))
    }

    fn take_part(&mut self, part: &CountedField, value: &FieldValue<'_>) -> Result<Option<()>, Refused> {
        let occurrences = match (&part.kind, value) {
            // The last byte of each number has its highest bit clear.
            (Kind::Numbers, FieldValue::Slice(packed)) => packed.iter().filter(|byte| **byte < 0x80).count(),
            _ => 1,
        };
        let left = part.bytes.checked_mul(occurrences).and_then(|bytes| self.0.checked_sub(bytes));
        let Some(left) = left else { return Ok(None) };
        self.0 = left;
        match (&part.kind, value) {
            (Kind::Element(name, _), FieldValue::Slice([])) => Err(Refused::Empty(name)),
            (Kind::Message(shape) | Kind::Element(_, shape), FieldValue::Slice(inner))
                if !shape.is_empty() =>
            {
                self.take_message(inner, shape)
            }
            _ => Ok(Some(())),
        }
    }
}
