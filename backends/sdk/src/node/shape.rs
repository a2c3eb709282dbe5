//! What an encoded row looks like when the gateway wrote it. A row of this shape is read in place; every
//! other one goes through the generated types, which know all that protobuf allows, and comes out in this
//! shape or as an error. So this check has to be sound, not complete, and readers of a checked row need not
//! think of repeated, disordered or broken fields.
//!
//! The shape: valid protobuf without groups, fields by ascending number, singular ones once, map entries by
//! strictly ascending key, texts in UTF-8. Fields of later versions of the contract may follow: they are
//! passed over.

use std::str;

use super::wire::{Field, Fields, Value};

/// What a known field holds.
enum Kind {
    Number,
    Text,
    Opaque,
    One(Message),
    Many(Message),
    Map(Message),
}

/// The fields of a message: the first has number 1.
type Message = &'static [Kind];

const ROW: Message = &[Kind::Text, Kind::One(FACTS), Kind::Opaque];
const FACTS: Message = &[
    Kind::Map(TEXTS),
    Kind::Map(TEXTS),
    Kind::Many(TAINT),
    Kind::Number,
    Kind::Map(TEXTS),
    Kind::One(RESOURCES),
    Kind::One(RESOURCES),
];
const TAINT: Message = &[Kind::Text, Kind::Text, Kind::Text];
const RESOURCES: Message = &[Kind::Number, Kind::Number, Kind::Number, Kind::Number, Kind::Map(AMOUNTS)];
const TEXTS: Message = &[Kind::Text, Kind::Text];
const AMOUNTS: Message = &[Kind::Text, Kind::Number];

/// Whether an encoded `NodeRow` has the shape.
pub(super) fn is_usual(row: &[u8]) -> bool {
    has_shape(row, ROW)
}

fn has_shape(message: &[u8], known: Message) -> bool {
    let mut before = Before { tag: 0, key: None };
    Fields::of(message).all(|field| field.is_ok_and(|field| before.admits(&field, known)))
}

/// What the last field was.
struct Before<'a> {
    tag: u32,
    /// Of the last entry of the map that is being read.
    key: Option<&'a [u8]>,
}

impl<'a> Before<'a> {
    fn admits(&mut self, field: &Field<'a>, known: Message) -> bool {
        let again = field.tag == self.tag;
        let ascends = field.tag >= self.tag;
        if !again {
            *self = Self { tag: field.tag, key: None };
        }
        let kind = usize::try_from(field.tag - 1).ok().and_then(|place| known.get(place));
        ascends
            && match (kind, &field.value) {
                (None, _) => true,
                (Some(Kind::Number), Value::Number(_)) | (Some(Kind::Opaque), Value::Slice(_)) => !again,
                (Some(Kind::Text), Value::Slice(text)) => !again && str::from_utf8(text).is_ok(),
                (Some(Kind::One(message)), Value::Slice(inner)) => !again && has_shape(inner, message),
                (Some(Kind::Many(message)), Value::Slice(inner)) => has_shape(inner, message),
                (Some(Kind::Map(entry)), Value::Slice(inner)) => {
                    has_shape(inner, entry) && self.key.replace(key(inner)) < Some(key(inner))
                }
                _ => false,
            }
    }
}

/// The key of a map entry that has the shape of one; protobuf leaves out an empty one.
pub(super) fn key(entry: &[u8]) -> &[u8] {
    match Fields::of(entry).next() {
        Some(Ok(Field { tag: 1, value: Value::Slice(key) })) => key,
        _ => &[],
    }
}
