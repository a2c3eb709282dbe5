//! A pod's JSON without what no policy decides by.

use std::{borrow::Cow, collections::BTreeMap};

use bytes::Bytes;
use serde_json::value::RawValue;

/// The fields of an object, as they stand in the text.
type KeptFields<'a> = BTreeMap<Cow<'a, str>, &'a RawValue>;

/// The object without `status` and `metadata.managedFields`; as it is where it is not an object.
pub(super) fn slim(json: &[u8]) -> Bytes {
    without_bulk(json).unwrap_or_else(|| Bytes::copy_from_slice(json))
}

fn without_bulk(json: &[u8]) -> Option<Bytes> {
    let mut pod: KeptFields<'_> = serde_json::from_slice(json).ok()?;
    pod.remove("status");
    let Some(metadata) = pod.get("metadata").copied() else { return written(&pod) };
    let mut metadata: KeptFields<'_> = serde_json::from_str(metadata.get()).ok()?;
    metadata.remove("managedFields");
    let metadata = serde_json::value::to_raw_value(&metadata).ok()?;
    pod.insert("metadata".into(), &metadata);
    written(&pod)
}

fn written(fields: &KeptFields<'_>) -> Option<Bytes> {
    // Kept for as long as the pod lives: without the room that the text was written into.
    serde_json::to_vec(fields).ok().map(|json| json.into_boxed_slice().into())
}

#[cfg(test)]
mod tests {
    use super::slim;

    #[test]
    fn only_the_bulk_goes() {
        for (json, expected) in [
            (
                r#"{"metadata":{"name":"a\u00e4","managedFields":[{}],"uid":"1"},"spec":{"x": 1.50},"status":{}}"#,
                r#"{"metadata":{"name":"a\u00e4","uid":"1"},"spec":{"x": 1.50}}"#,
            ),
            (r#"{"spec":{"status":1}}"#, r#"{"spec":{"status":1}}"#),
            (r#"{"metadata":null,"status":{}}"#, r#"{"metadata":null,"status":{}}"#),
        ] {
            let slim = slim(json.as_bytes());
            assert_eq!(slim, expected);
            assert_eq!(Vec::from(slim).capacity(), expected.len(), "no spare room is kept");
        }
    }
}
