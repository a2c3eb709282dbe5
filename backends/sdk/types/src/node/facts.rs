//! Reads the encoded facts of a node in place. They were [checked](super::shape) when the request arrived, so
//! reading cannot fail; if the check is wrong, the call fails by a panic, so that a node is never mistaken for one
//! without labels.

use std::str;

use extender_policy_api::v1beta1::{NodeUsage, Resources, Taint};
use prost::Message;

use super::shape;
use crate::{
    reads::{
        self,
        values::{self, Counts, Mismatch},
    },
    wire::{Field, FieldValue, Fields},
};

/// Why reading cannot fail.
pub(super) const CHECKED: &str = "the row was checked when the request came in";

/// The maps of `NodeFacts`, by their field numbers.
#[derive(Clone, Copy)]
pub(super) enum FactsMap {
    Labels = 1,
    Annotations = 2,
    Conditions = 5,
}

impl From<reads::Map> for FactsMap {
    fn from(map: reads::Map) -> Self {
        match map {
            reads::Map::Labels => Self::Labels,
            reads::Map::Annotations => Self::Annotations,
        }
    }
}

/// The number of `NodeFacts.unschedulable`.
const UNSCHEDULABLE: u32 = 4;

/// The numbers of `label_values` and `absent_labels` in `NodeFacts`, and those of annotations.
const LABEL_VALUES: u32 = 8;
const ANNOTATION_VALUES: u32 = 9;
const ABSENT_LABELS: u32 = 10;
const ABSENT_ANNOTATIONS: u32 = 11;

/// The values of declared keys in a `NodeFacts`: how many, and the positions of those that the node lacks.
#[derive(Clone, Copy, Default)]
struct Tally<'a> {
    labels: usize,
    annotations: usize,
    absent_labels: &'a [u8],
    absent_annotations: &'a [u8],
}

/// An encoded `NodeFacts` of the usual shape.
#[derive(Clone, Copy)]
pub(super) struct Facts<'a> {
    encoded: &'a [u8],
}

impl<'a> Facts<'a> {
    pub(super) fn new(checked: &'a [u8]) -> Self {
        Self { encoded: checked }
    }

    /// The entries of a map, by key.
    pub(super) fn entries(self, map: FactsMap) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        self.slices(map as u32).map(|entry| (text(shape::key(entry)), value(entry)))
    }

    /// The value of a map at a key. Keys are compared as bytes: only the returned value becomes a text.
    pub(super) fn at(self, map: FactsMap, key: &str) -> Option<&'a str> {
        self.slices(map as u32).find(|entry| shape::key(entry) == key.as_bytes()).map(value)
    }

    /// The value of a declared key, if the node has it.
    pub(super) fn value(self, map: reads::Map, position: usize) -> Option<&'a str> {
        let value = text(self.slices(value_field(map)).nth(position).expect(CHECKED));
        let is_absent = || self.absent(map).any(|absent| usize::try_from(absent) == Ok(position));
        if value.is_empty() && is_absent() { None } else { Some(value) }
    }

    /// The values of the declared keys.
    pub(super) fn values(self, map: reads::Map) -> impl Iterator<Item = &'a str> + use<'a> {
        self.slices(value_field(map)).map(text)
    }

    /// The positions of the declared keys that the node lacks.
    pub(super) fn absent(self, map: reads::Map) -> impl Iterator<Item = u32> + use<'a> {
        let field = match map {
            reads::Map::Labels => ABSENT_LABELS,
            reads::Map::Annotations => ABSENT_ANNOTATIONS,
        };
        self.slices(field).flat_map(positions)
    }

    /// Whether there are as many values as keys are declared.
    pub(super) fn check(self, counts: Counts) -> Result<(), Mismatch> {
        let tally = self.tally();
        values::check_labels(tally.labels, positions(tally.absent_labels), counts)?;
        values::check_annotations(tally.annotations, positions(tally.absent_annotations), counts)
    }

    /// In one pass over the fields.
    fn tally(self) -> Tally<'a> {
        let mut tally = Tally::default();
        for field in Fields::of(self.encoded) {
            match field {
                Ok(Field { tag: LABEL_VALUES, .. }) => tally.labels += 1,
                Ok(Field { tag: ANNOTATION_VALUES, .. }) => tally.annotations += 1,
                Ok(Field { tag: ABSENT_LABELS, value: FieldValue::Slice(absent) }) => {
                    tally.absent_labels = absent;
                }
                Ok(Field { tag: ABSENT_ANNOTATIONS, value: FieldValue::Slice(absent) }) => {
                    tally.absent_annotations = absent;
                }
                _ => {}
            }
        }
        tally
    }

    pub(super) fn is_unschedulable(self) -> bool {
        self.fields(UNSCHEDULABLE)
            .any(|field| matches!(field.value, FieldValue::Number(number) if number != 0))
    }

    /// The fields that are returned as generated types, without the rest.
    pub(super) fn whole(self) -> Whole {
        Whole::decode(self.encoded).expect(CHECKED)
    }

    fn slices(self, tag: u32) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        self.fields(tag).filter_map(|field| match field.value {
            FieldValue::Slice(slice) => Some(slice),
            _ => None,
        })
    }

    /// The fields with one number: fields are in ascending order.
    fn fields(self, tag: u32) -> impl Iterator<Item = Field<'a>> + use<'a> {
        let fields = Fields::of(self.encoded).map(|field| field.expect(CHECKED));
        fields.skip_while(move |field| field.tag < tag).take_while(move |field| field.tag == tag)
    }
}

fn value_field(map: reads::Map) -> u32 {
    match map {
        reads::Map::Labels => LABEL_VALUES,
        reads::Map::Annotations => ANNOTATION_VALUES,
    }
}

/// The numbers of a checked packed field.
fn positions(packed: &[u8]) -> impl Iterator<Item = u32> {
    Fields::packed(packed).map(|number| u32::try_from(number.expect(CHECKED)).expect(CHECKED))
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
}
