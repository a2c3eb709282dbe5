//! The shape of an encoded row as the gateway writes it. A row of this shape is read in place; every other one goes
//! through the generated types, which know all that protobuf allows, and results in this shape or an error. So this
//! check has to be sound, not complete, and readers of a checked row can ignore repeated, unordered or broken
//! fields.
//!
//! The shape: valid protobuf without groups, fields by ascending number, singular ones once, map entries by
//! strictly ascending key, counts of pods by strictly ascending namespace and value, texts in UTF-8. Fields of later
//! versions of the contract may follow: they are skipped.

use std::{cmp::Ordering, str};

use crate::wire::{Field, FieldValue, Fields};

/// The type of a known field.
enum FieldType {
    Number,
    Number32,
    Text,
    Opaque,
    One(Message),
    Many(Message),
    /// Messages of at most three texts.
    Taints(Message),
    /// Messages in strictly ascending order of their first two texts.
    Ascending(Message),
    Map(Message),
    /// Any number of them.
    Texts,
    /// 32-bit numbers in one field.
    Packed,
    /// A number that has no field.
    Reserved,
}

/// The fields of a message: the first has number 1.
type Message = &'static [FieldType];

const ROW: Message = &[
    FieldType::Text,
    FieldType::One(FACTS),
    FieldType::Opaque,
    FieldType::One(USAGE),
    FieldType::Many(POD_COUNTS),
    FieldType::One(USAGE),
];
const FACTS: Message = &[
    FieldType::Reserved,
    FieldType::Reserved,
    FieldType::Taints(TAINT),
    FieldType::Number,
    FieldType::Map(TEXTS),
    FieldType::One(RESOURCES),
    FieldType::One(RESOURCES),
    FieldType::Reserved,
    FieldType::Reserved,
    FieldType::Reserved,
    FieldType::Reserved,
    FieldType::One(MAP_VALUES),
    FieldType::One(MAP_VALUES),
    FieldType::Many(IMAGE),
    FieldType::One(SYSTEM_INFO),
    FieldType::Many(ADDRESS),
    FieldType::Text,
];
const IMAGE: Message = &[FieldType::Texts, FieldType::Number];
const SYSTEM_INFO: Message = &[const { FieldType::Text }; 6];
const ADDRESS: Message = &[FieldType::Text, FieldType::Text];
const MAP_VALUES: Message = &[FieldType::Texts, FieldType::Packed, FieldType::Map(TEXTS)];
const USAGE: Message = &[FieldType::One(RESOURCES), FieldType::One(NONZERO)];
const POD_COUNTS: Message = &[FieldType::Ascending(POD_COUNT), FieldType::Number32];
const POD_COUNT: Message =
    &[FieldType::Text, FieldType::Text, FieldType::Number32, FieldType::Number32, FieldType::One(RESOURCES)];
const TAINT: Message = &[FieldType::Text, FieldType::Text, FieldType::Text];
const RESOURCES: Message =
    &[FieldType::Number, FieldType::Number, FieldType::Number, FieldType::Number, FieldType::Map(AMOUNTS)];
const NONZERO: Message = &[FieldType::Number, FieldType::Number];
const TEXTS: Message = &[FieldType::Text, FieldType::Text];
const AMOUNTS: Message = &[FieldType::Text, FieldType::Number];

/// Whether an encoded `NodeRow` has the shape.
pub(super) fn is_usual(row: &[u8]) -> bool {
    has_shape(row, ROW)
}

fn has_shape(message: &[u8], known: Message) -> bool {
    let mut before = Previous::default();
    Fields::of(message).all(|field| field.is_ok_and(|field| before.admits(&field, known)))
}

/// The previous field.
#[derive(Default)]
struct Previous<'a> {
    tag: u32,
    /// Of the last entry of the map or of the ascending list that is being read.
    key: Option<[&'a [u8]; 2]>,
}

impl<'a> Previous<'a> {
    fn admits(&mut self, field: &Field<'a>, known: Message) -> bool {
        let order = field.tag.cmp(&self.tag);
        if order.is_ne() {
            *self = Self { tag: field.tag, key: None };
        }
        let kind = usize::try_from(field.tag - 1).ok().and_then(|place| known.get(place));
        order.is_ge() && kind.is_none_or(|kind| self.fits(kind, &field.value, order.is_gt()))
    }

    fn fits(&mut self, kind: &FieldType, value: &FieldValue<'a>, first: bool) -> bool {
        match (kind, value) {
            (FieldType::Reserved, _) => true,
            (FieldType::Number, FieldValue::Number(_)) | (FieldType::Opaque, FieldValue::Slice(_)) => first,
            (FieldType::Number32, FieldValue::Number(number)) => first && u32::try_from(*number).is_ok(),
            (FieldType::Text, FieldValue::Slice(text)) => first && str::from_utf8(text).is_ok(),
            (FieldType::Texts, FieldValue::Slice(text)) => str::from_utf8(text).is_ok(),
            (FieldType::Packed, FieldValue::Slice(numbers)) => first && are_numbers(numbers),
            (FieldType::One(message), FieldValue::Slice(inner)) => first && has_shape(inner, message),
            (FieldType::Many(message), FieldValue::Slice(inner)) => has_shape(inner, message),
            (FieldType::Taints(message), FieldValue::Slice(inner)) => {
                are_texts::<3>(inner) || has_shape(inner, message)
            }
            (FieldType::Ascending(message), FieldValue::Slice(inner)) => {
                has_shape(inner, message) && self.ascends_to(first_texts(inner))
            }
            (FieldType::Map(message), FieldValue::Slice(entry)) => {
                (are_texts::<2>(entry) || has_shape(entry, message)) && self.ascends_to([key(entry), &[]])
            }
            _ => false,
        }
    }

    fn ascends_to(&mut self, key: [&'a [u8]; 2]) -> bool {
        self.key.replace(key).is_none_or(|last| order(last, key).is_lt())
    }
}

fn are_numbers(packed: &[u8]) -> bool {
    Fields::packed(packed).all(|number| number.is_ok_and(|number| u32::try_from(number).is_ok()))
}

/// The fast check for most of a row: taints and entries of labels, messages of `N` texts and nothing else. False
/// means unknown.
fn are_texts<const N: u8>(message: &[u8]) -> bool {
    let mut fields = Fields::of(message);
    // Keys and short lengths are ASCII too, so one check of the whole message is nearly always enough.
    let ascii = message.is_ascii();
    let text = |tag| fields.slice_of(tag).is_ok_and(|text| ascii || str::from_utf8(text).is_ok());
    (1..=N).all(text) && fields.is_over()
}

/// The key of a map entry that has the shape of one.
pub(super) fn key(entry: &[u8]) -> &[u8] {
    Fields::of(entry).slice_of(1).unwrap_or_default()
}

/// The order of two pairs by their bytes. Empty slices are compared by their lengths: comparing the bytes of two took
/// twenty times as long as those of two UIDs, presumably because they point to no memory.
#[inline]
pub(super) fn order(left: [&[u8]; 2], right: [&[u8]; 2]) -> Ordering {
    let bytes = |left: &[u8], right: &[u8]| match (left, right) {
        ([], _) | (_, []) => left.len().cmp(&right.len()),
        _ => left.cmp(right),
    };
    let ([left, left_second], [right, right_second]) = (left, right);
    bytes(left, right).then_with(|| bytes(left_second, right_second))
}

/// The texts in the first two fields of a message that has the shape of one with them.
pub(super) fn first_texts(message: &[u8]) -> [&[u8]; 2] {
    let mut fields = Fields::of(message);
    [1, 2].map(|tag| fields.slice_of(tag).unwrap_or_default())
}
