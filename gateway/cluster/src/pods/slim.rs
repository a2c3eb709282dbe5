//! What the pod table keeps of a pod's JSON.
//!
//! Without `status` and `metadata.managedFields`, which are most of its bytes and irrelevant to policies, and without the
//! escapes of Go's encoder, which writes `<`, `>` and `&` as six bytes each. Of a pod that is too large for its namespace,
//! only by what it is counted is kept.

use std::{ops::Range, str};

use bytes::Bytes;
use extender_apiserver::text::utf8;
use extender_gateway_wire::{
    WireError,
    json::{Cursor, key_is, push_string},
};
use memchr::memchr;

/// The largest field of a reduced pod in bytes.
const LARGEST_FIELD: usize = 8 << 10;

/// What is copied of a field.
#[derive(Clone, Copy)]
enum Copied {
    Nothing,
    All,
    /// All, unless it is larger than [`LARGEST_FIELD`].
    Small,
    /// Those of its fields that are selected, if it is an object.
    Fields(fn(&[u8]) -> Copied),
}

/// The object without `status` and `metadata.managedFields`; `None` if it is not an object.
pub(super) fn slim(json: &[u8]) -> Option<Bytes> {
    copied(json, |key| match () {
        () if key_is(key, "status") => Copied::Nothing,
        () if key_is(key, "metadata") => {
            Copied::Fields(|key| if key_is(key, "managedFields") { Copied::Nothing } else { Copied::All })
        }
        () => Copied::All,
    })
}

/// The pod's identity, and by what it is counted.
pub(super) fn reduced(json: &[u8]) -> Option<Bytes> {
    const METADATA: [&str; 6] =
        ["name", "namespace", "uid", "deletionTimestamp", "labels", "ownerReferences"];
    const SPEC: [&str; 4] = ["nodeName", "priority", "priorityClassName", "schedulerName"];
    fn small(key: &[u8], names: &[&str]) -> Copied {
        if names.iter().any(|name| key_is(key, name)) { Copied::Small } else { Copied::Nothing }
    }
    copied(json, |key| match () {
        () if key_is(key, "metadata") => Copied::Fields(|key| small(key, &METADATA)),
        () if key_is(key, "spec") => Copied::Fields(|key| small(key, &SPEC)),
        () => Copied::Nothing,
    })
}

fn copied(json: &[u8], select: fn(&[u8]) -> Copied) -> Option<Bytes> {
    let mut copy = PartialCopy { json, out: Vec::new() };
    copy.add_fields(&mut Cursor::new(json), select).ok()?;
    // Without spare capacity: it is kept for as long as the pod exists.
    Some(copy.out.into_boxed_slice().into())
}

/// A part of an object while it is copied.
struct PartialCopy<'j> {
    json: &'j [u8],
    out: Vec<u8>,
}

impl PartialCopy<'_> {
    fn add_fields(&mut self, cursor: &mut Cursor<'_>, select: fn(&[u8]) -> Copied) -> Result<(), WireError> {
        self.out.push(b'{');
        let first = self.out.len();
        cursor.object(|cursor, key| {
            let before = self.out.len();
            if before > first {
                self.out.push(b',');
            }
            push_string(&mut self.out, &utf8(key.into()));
            self.out.push(b':');
            if !self.add_value(cursor, select(key))? {
                self.out.truncate(before);
            }
            Ok(())
        })?;
        self.out.push(b'}');
        Ok(())
    }

    /// Whether any of it is copied.
    fn add_value(&mut self, cursor: &mut Cursor<'_>, selected: Copied) -> Result<bool, WireError> {
        if let (Copied::Fields(select), Some(b'{')) = (&selected, cursor.peek()) {
            return self.add_fields(cursor, *select).map(|()| true);
        }
        let value = cursor.value()?;
        let is_kept = is_kept(&selected, &value);
        if is_kept {
            push_unescaped(&self.json[value], &mut self.out);
        }
        Ok(is_kept)
    }
}

fn is_kept(selected: &Copied, value: &Range<usize>) -> bool {
    match selected {
        Copied::Nothing => false,
        Copied::All | Copied::Fields(_) => true,
        Copied::Small => value.len() <= LARGEST_FIELD,
    }
}

/// Appends JSON in which each character that needs no escape has none.
fn push_unescaped(mut json: &[u8], out: &mut Vec<u8>) {
    // Outside of strings, JSON has no backslash.
    while let Some(at) = memchr(b'\\', json) {
        out.extend_from_slice(&json[..at]);
        json = &json[at..];
        let length = if let Some(character) = character(json) {
            out.extend_from_slice(character.encode_utf8(&mut [0; 4]).as_bytes());
            6
        } else {
            out.extend_from_slice(&json[..json.len().min(2)]);
            2
        };
        json = json.get(length..).unwrap_or_default();
    }
    out.extend_from_slice(json);
}

/// The character that is escaped as `\uXXXX` here, if it may stand for itself. Halves of surrogate pairs may not.
fn character(json: &[u8]) -> Option<char> {
    let digits = str::from_utf8(json.strip_prefix(b"\\u")?.get(..4)?).ok()?;
    let character = char::from_u32(u32::from_str_radix(digits, 16).ok()?)?;
    (character >= ' ' && !matches!(character, '"' | '\\')).then_some(character)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn text(json: Option<Bytes>) -> String {
        String::from_utf8_lossy(&json.expect("it is an object")).into_owned()
    }

    #[test]
    fn what_nobody_reads_is_left_out_and_what_needs_no_escape_has_none() {
        let json = br#" {"metadata" : {"managedFields":[{"fieldsV1":{"f:\u003c":{}}}],"name":"p"},
            "status":{"phase":"Running"},"spec":{"a":"\u003cb\u003e \"\\u003c\" \u0022 \u005c \ud83d\ude00 \n\u0001\u00e4"}} "#;
        let slim = slim(json);
        let expected = r#"{"metadata":{"name":"p"},"spec":{"a":"<b> \"\\u003c\" \u0022 \u005c \ud83d\ude00 \n\u0001ä"}}"#;
        let capacity = slim.clone().map(|slim| Vec::from(slim).capacity());
        assert_eq!(capacity, Some(expected.len()), "no spare capacity is kept");
        assert_eq!(text(slim), expected);
        for json in ["[]", "null", "{\"metadata\":"] {
            assert_eq!(super::slim(json.as_bytes()), None, "{json}");
        }
        assert_eq!(text(super::slim(br#"{"metadata":null,"status":1}"#)), r#"{"metadata":null}"#);
    }

    #[test]
    fn a_reduced_pod_is_counted_by_the_same() {
        let labels = |value: &str| {
            format!(
                r#"{{"metadata":{{"name":"p","annotations":{{"a":"b"}},"labels":{{"app":"{value}"}}}},"spec":{{"containers":[{{}}],"nodeName":"n1"}}}}"#
            )
        };
        let expected = r#"{"metadata":{"name":"p","labels":{"app":"web"}},"spec":{"nodeName":"n1"}}"#;
        assert_eq!(text(reduced(labels("web").as_bytes())), expected);
        let expected = r#"{"metadata":{"name":"p"},"spec":{"nodeName":"n1"}}"#;
        assert_eq!(text(reduced(labels(&"w".repeat(LARGEST_FIELD)).as_bytes())), expected);
    }
}
