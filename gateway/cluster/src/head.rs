//! The identity of an object, as far as it can be read: also of one that is malformed or cut off.

use extender_gateway_wire::{WireError, json::Cursor};

use super::unreadable::ObjectName;

/// The fields of an object by which it is named; empty where they cannot be read.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct ObjectHead {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.resourceVersion`.
    pub resource_version: String,
}

impl ObjectHead {
    /// The head of this JSON.
    pub fn of(json: &[u8]) -> Self {
        let mut head = Self::default();
        // What comes before a mistake is read.
        let _ = head.read(&mut Cursor::new(json));
        head
    }

    /// The type of an event of a watch, and the head of its object.
    pub fn of_event(json: &[u8]) -> (String, Self) {
        let (mut kind, mut head) = (String::new(), Self::default());
        let mut cursor = Cursor::new(json);
        let _ = cursor.object(|cursor, key| match key {
            b"type" => read_text(cursor, &mut kind),
            b"object" => head.read(cursor),
            _ => cursor.value().map(drop),
        });
        (kind, head)
    }

    /// The name of the object for people.
    pub fn object(&self, kind: &'static str) -> ObjectName {
        ObjectName { kind, namespace: self.namespace.clone(), name: self.name.clone() }
    }

    fn read(&mut self, cursor: &mut Cursor<'_>) -> Result<(), WireError> {
        cursor.object(|cursor, key| match key {
            b"metadata" if cursor.peek() == Some(b'{') => self.read_metadata(cursor),
            _ => cursor.value().map(drop),
        })
    }

    fn read_metadata(&mut self, cursor: &mut Cursor<'_>) -> Result<(), WireError> {
        let Self { namespace, name, uid, resource_version } = self;
        cursor.object(|cursor, key| match key {
            b"namespace" => read_text(cursor, namespace),
            b"name" => read_text(cursor, name),
            b"uid" => read_text(cursor, uid),
            b"resourceVersion" => read_text(cursor, resource_version),
            _ => cursor.value().map(drop),
        })
    }
}

/// Reads a name; anything else is skipped.
fn read_text(cursor: &mut Cursor<'_>, to: &mut String) -> Result<(), WireError> {
    if cursor.peek() != Some(b'"') {
        return cursor.value().map(drop);
    }
    let string = cursor.name("a name")?;
    *to = cursor.text(string)?.into_owned();
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_comes_before_a_mistake_is_read() {
        let read = |json: &[u8]| {
            let ObjectHead { namespace, name, uid, resource_version } = ObjectHead::of(json);
            [namespace, name, uid, resource_version].join(" ")
        };
        for (json, expected) in [
            (
                &br#"{"metadata":{"name":"p","namespace":"shop","uid":"u","resourceVersion":"7"}}"#[..],
                "shop p u 7",
            ),
            (
                br#"{"spec":[{}],"metadata":{"labels":{"a":1},"name":"p","namespace":7,"uid":"u"},"spec":"#,
                " p u ",
            ),
            (b"{\"metadata\":{\"name\":\"p\xff\",\"uid\":\"", " p\u{fffd}  "),
            (br#"{"metadata":null,"metadata":["name"]}"#, "   "),
            (b"", "   "),
        ] {
            assert_eq!(read(json), expected, "{}", json.escape_ascii());
        }
        let (kind, head) =
            ObjectHead::of_event(br#"{"type":"ADDED","object":{"metadata":{"name":"p","spec":"#);
        assert_eq!((&*kind, &*head.object("Pod").words()), ("ADDED", "pod p"));
    }
}
