//! The shape of an encoded row as the gateway writes it. A row of this shape is read in place; every other one goes
//! through the generated types, which know all that protobuf allows, and results in this shape or an error. So this
//! check has to be sound, not complete, and readers of a checked row can ignore repeated, unordered or broken
//! fields.
//!
//! The shape: valid protobuf without groups, fields by ascending number, singular ones once, map entries by
//! strictly ascending key, counts of pods by strictly ascending namespace and value, texts in UTF-8. Fields of later
//! versions of the contract may follow: they are skipped.

use std::{cmp::Ordering, str};

use crate::wire::{Field, Fields, Value};

/// The type of a known field.
enum Kind {
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
}

/// The fields of a message: the first has number 1.
type Message = &'static [Kind];

const ROW: Message = &[Kind::Text, Kind::One(FACTS), Kind::Opaque, Kind::One(USAGE), Kind::Many(POD_COUNTS)];
const FACTS: Message = &[
    Kind::Map(TEXTS),
    Kind::Map(TEXTS),
    Kind::Taints(TAINT),
    Kind::Number,
    Kind::Map(TEXTS),
    Kind::One(RESOURCES),
    Kind::One(RESOURCES),
    Kind::Texts,
    Kind::Texts,
    Kind::Packed,
    Kind::Packed,
];
const USAGE: Message = &[Kind::One(RESOURCES), Kind::One(NONZERO)];
const POD_COUNTS: Message = &[Kind::Ascending(POD_COUNT), Kind::Number32];
const POD_COUNT: Message = &[Kind::Text, Kind::Text, Kind::Number32, Kind::Number32, Kind::One(RESOURCES)];
const TAINT: Message = &[Kind::Text, Kind::Text, Kind::Text];
const RESOURCES: Message = &[Kind::Number, Kind::Number, Kind::Number, Kind::Number, Kind::Map(AMOUNTS)];
const NONZERO: Message = &[Kind::Number, Kind::Number];
const TEXTS: Message = &[Kind::Text, Kind::Text];
const AMOUNTS: Message = &[Kind::Text, Kind::Number];

/// Whether an encoded `NodeRow` has the shape.
pub(super) fn is_usual(row: &[u8]) -> bool {
    has_shape(row, ROW)
}

fn has_shape(message: &[u8], known: Message) -> bool {
    let mut before = Before::default();
    Fields::of(message).all(|field| field.is_ok_and(|field| before.admits(&field, known)))
}

/// The previous field.
#[derive(Default)]
struct Before<'a> {
    tag: u32,
    /// Of the last entry of the map or of the ascending list that is being read.
    key: Option<[&'a [u8]; 2]>,
}

impl<'a> Before<'a> {
    fn admits(&mut self, field: &Field<'a>, known: Message) -> bool {
        let order = field.tag.cmp(&self.tag);
        if order.is_ne() {
            *self = Self { tag: field.tag, key: None };
        }
        let kind = usize::try_from(field.tag - 1).ok().and_then(|place| known.get(place));
        order.is_ge() && kind.is_none_or(|kind| self.fits(kind, &field.value, order.is_gt()))
    }

    fn fits(&mut self, kind: &Kind, value: &Value<'a>, first: bool) -> bool {
        match (kind, value) {
            (Kind::Number, Value::Number(_)) | (Kind::Opaque, Value::Slice(_)) => first,
            (Kind::Number32, Value::Number(number)) => first && u32::try_from(*number).is_ok(),
            (Kind::Text, Value::Slice(text)) => first && str::from_utf8(text).is_ok(),
            (Kind::Texts, Value::Slice(text)) => str::from_utf8(text).is_ok(),
            (Kind::Packed, Value::Slice(numbers)) => first && are_numbers(numbers),
            (Kind::One(message), Value::Slice(inner)) => first && has_shape(inner, message),
            (Kind::Many(message), Value::Slice(inner)) => has_shape(inner, message),
            (Kind::Taints(message), Value::Slice(inner)) => {
                are_texts::<3>(inner) || has_shape(inner, message)
            }
            (Kind::Ascending(message), Value::Slice(inner)) => {
                has_shape(inner, message) && self.ascends_to(first_texts(inner))
            }
            (Kind::Map(message), Value::Slice(entry)) => {
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
