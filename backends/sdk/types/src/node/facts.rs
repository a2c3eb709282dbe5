//! Reads the encoded facts of a node in place. They were [checked](super::shape) when the request arrived, so
//! reading cannot fail; if the check is wrong, the call fails by a panic, so that a node is never mistaken for one
//! without labels.

use std::str;

use extender_policy_api::v1beta1::{NodeAddress, NodeImage, NodeUsage, Resources, SystemInfo, Taint};
use prost::Message;

use super::shape;
use crate::{
    reads::{
        Map,
        values::{self, Counts, Mismatch},
    },
    wire::{Field, FieldValue, Fields},
};

/// Why reading cannot fail.
pub(super) const CHECKED: &str = "the row was checked when the request came in";

/// Numbers of fields of `NodeFacts`.
const UNSCHEDULABLE: u32 = 4;
const CONDITIONS: u32 = 5;
const LABELS: u32 = 12;
const ANNOTATIONS: u32 = 13;
const PROVIDER_ID: u32 = 17;

/// The numbers of the fields of `MapValues`.
const VALUES: u8 = 1;
const ABSENT: u32 = 2;
const ENTRIES: u32 = 3;

/// An encoded `NodeFacts` of the usual shape.
#[derive(Clone, Copy)]
pub(super) struct Facts<'a> {
    encoded: &'a [u8],
}

/// An encoded `MapValues` of the usual shape: the labels or annotations of a node.
#[derive(Clone, Copy)]
pub(super) struct MapValues<'a> {
    encoded: &'a [u8],
}

impl<'a> Facts<'a> {
    pub(super) fn new(checked: &'a [u8]) -> Self {
        Self { encoded: checked }
    }

    /// The labels or annotations; a message that is absent has nothing in it.
    pub(super) fn map(self, map: Map) -> MapValues<'a> {
        let field = match map {
            Map::Labels => LABELS,
            Map::Annotations => ANNOTATIONS,
        };
        MapValues { encoded: slices(self.encoded, field).next().unwrap_or_default() }
    }

    /// The status of a condition.
    pub(super) fn condition(self, kind: &str) -> Option<&'a str> {
        at(slices(self.encoded, CONDITIONS), kind)
    }

    /// Whether there are as many values as keys are declared.
    pub(super) fn check(self, counts: Counts) -> Result<(), Mismatch> {
        for (map, keys) in [(Map::Labels, counts.labels), (Map::Annotations, counts.annotations)] {
            let values = self.map(map);
            values::check(map, values.encoded_values().count(), values.absent(), keys)?;
        }
        Ok(())
    }

    pub(super) fn is_unschedulable(self) -> bool {
        fields(self.encoded, UNSCHEDULABLE)
            .any(|field| matches!(field.value, FieldValue::Number(number) if number != 0))
    }

    pub(super) fn provider_id(self) -> &'a str {
        slices(self.encoded, PROVIDER_ID).next().map_or("", text)
    }

    /// The fields that are returned as generated types, without the rest.
    pub(super) fn whole(self) -> Whole {
        Whole::decode(self.encoded).expect(CHECKED)
    }
}

impl<'a> MapValues<'a> {
    /// The entries with keys, by key.
    pub(super) fn entries(self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        slices(self.encoded, ENTRIES).map(|entry| (text(shape::key(entry)), value(entry)))
    }

    /// The value of an entry.
    pub(super) fn at(self, key: &str) -> Option<&'a str> {
        at(slices(self.encoded, ENTRIES), key)
    }

    /// The value of a declared key, if the node has it.
    pub(super) fn value(self, position: usize) -> Option<&'a str> {
        let value = text(self.encoded_values().nth(position).expect(CHECKED));
        let is_absent = || self.absent().any(|absent| usize::try_from(absent) == Ok(position));
        if value.is_empty() && is_absent() { None } else { Some(value) }
    }

    /// The values of the declared keys.
    pub(super) fn values(self) -> impl Iterator<Item = &'a str> + use<'a> {
        self.encoded_values().map(text)
    }

    /// The positions of the declared keys that the node lacks.
    pub(super) fn absent(self) -> impl Iterator<Item = u32> + use<'a> {
        let positions = slices(self.encoded, ABSENT).flat_map(Fields::packed);
        positions.map(|number| u32::try_from(number.expect(CHECKED)).expect(CHECKED))
    }

    /// They come first.
    fn encoded_values(self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        let mut fields = Fields::of(self.encoded);
        std::iter::from_fn(move || fields.next_slice_of(VALUES).map(|value| value.expect(CHECKED)))
    }
}

/// The value at a key, of the entries of a map. Keys are compared as bytes: only the returned value becomes a text.
fn at<'a>(mut entries: impl Iterator<Item = &'a [u8]>, key: &str) -> Option<&'a str> {
    entries.find(|entry| shape::key(entry) == key.as_bytes()).map(value)
}

pub(super) fn slices(message: &[u8], tag: u32) -> impl Iterator<Item = &[u8]> {
    fields(message, tag).filter_map(|field| match field.value {
        FieldValue::Slice(slice) => Some(slice),
        _ => None,
    })
}

/// The fields with one number: fields are in ascending order.
fn fields(message: &[u8], tag: u32) -> impl Iterator<Item = Field<'_>> {
    let fields = Fields::of(message).map(|field| field.expect(CHECKED));
    fields.skip_while(move |field| field.tag < tag).take_while(move |field| field.tag == tag)
}

/// An encoded `NodeUsage` of the usual shape, decoded as a whole.
pub(super) fn usage(checked: &[u8]) -> NodeUsage {
    NodeUsage::decode(checked).expect(CHECKED)
}

/// The value of a map entry.
fn value(entry: &[u8]) -> &str {
    let mut fields = Fields::of(entry);
    let value = fields.slice_of(1).and_then(|_| fields.slice_of(2));
    text(value.expect(CHECKED))
}

/// A text that was checked: without `unsafe` it has to be validated again.
pub(super) fn text(bytes: &[u8]) -> &str {
    str::from_utf8(bytes).expect(CHECKED)
}

/// The fields of `NodeFacts` that are returned as generated types. Decoding skips the others.
#[derive(Clone, PartialEq, prost::Message)]
pub(super) struct Whole {
    #[prost(message, repeated, tag = "3")]
    pub(super) taints: Vec<Taint>,
    #[prost(message, optional, tag = "6")]
    pub(super) capacity: Option<Resources>,
    #[prost(message, optional, tag = "7")]
    pub(super) allocatable: Option<Resources>,
    #[prost(message, repeated, tag = "14")]
    pub(super) images: Vec<NodeImage>,
    #[prost(message, optional, tag = "15")]
    pub(super) system_info: Option<SystemInfo>,
    #[prost(message, repeated, tag = "16")]
    pub(super) addresses: Vec<NodeAddress>,
}
