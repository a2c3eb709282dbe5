//! The body of bind: `ExtenderBindingArgs`.

use extender_gateway_core::Assignment;

use super::{
    WireError,
    json::{Cursor, key_is},
};

/// The keys, in the order of the fields.
const KEYS: [&str; 4] = ["PodName", "PodNamespace", "PodUID", "Node"];

/// Parses a body. As in Go's `encoding/json`, keys match in any letter case, the last of equal keys counts, and
/// unknown keys are ignored.
///
/// # Errors
/// The JSON is malformed, one of the four fields is missing or empty, or a name is invalid: a name becomes part of
/// an apiserver path, so it must not contain a slash or other characters with a meaning there.
pub fn read(body: &[u8]) -> Result<Assignment, WireError> {
    let [name, namespace, uid, node] = fields(body)?;
    checked("PodName", &name)?;
    checked("PodNamespace", &namespace)?;
    checked("Node", &node)?;
    Ok(Assignment { namespace, name, uid, node })
}

fn fields(body: &[u8]) -> Result<[String; 4], WireError> {
    let mut fields = KEYS.map(|_| String::new());
    let mut cursor = Cursor::new(body);
    cursor.object(|cursor, key| match KEYS.iter().position(|known| key_is(key, known)) {
        // Go leaves a field unchanged for null.
        Some(_) if cursor.take_null() => Ok(()),
        Some(at) => {
            let key = KEYS[at];
            let string = cursor.name(&format!("the {key}"))?;
            fields[at] = cursor.text(string)?.into_owned();
            Ok(())
        }
        None => cursor.value().map(drop),
    })?;
    cursor.end()?;
    match KEYS.iter().zip(&fields).find(|(_, field)| field.is_empty()) {
        Some((key, _)) => Err(WireError::whole(format!("the request has no {key}"))),
        None => Ok(fields),
    }
}

/// Checks part of a Kubernetes name. Less strict than DNS-1123, which the apiserver enforces.
fn checked(key: &str, name: &str) -> Result<(), WireError> {
    let usual = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'.');
    if name.bytes().all(usual) && !name.starts_with('.') {
        return Ok(());
    }
    Err(WireError::whole(format!("the {key} is not a name: letters, digits, '-' and '.' are expected")))
}

#[cfg(test)]
mod tests {
    use super::*;

    const CAPTURED: &[u8] = include_bytes!("../../../tests/captures/bind.json");

    #[test]
    fn a_real_request_is_read() {
        let expected = Assignment {
            namespace: "cap-names".into(),
            name: "low-0".into(),
            uid: "e83da295-e688-4dff-8a8c-052f73c8801d".into(),
            node: "ip-10-16-0-0.eu-west-1.compute.internal".into(),
        };
        assert_eq!(read(CAPTURED), Ok(expected));
    }

    #[test]
    fn keys_are_read_as_go_reads_them() {
        let body = br#" {"podname":"x","PODNAME":"p","PodName":null,"podnamespace":"n\u0073",
                         "podUid":"u/1","new":{"Node":"b"},"node":"a"} "#;
        let read = read(body).unwrap();
        assert_eq!((&*read.name, &*read.namespace, &*read.uid, &*read.node), ("p", "ns", "u/1", "a"));
    }

    #[test]
    fn a_field_longer_than_any_name_is_refused() {
        let fields = r#"{"PodName":"PodName","PodNamespace":"PodNamespace","PodUID":"PodUID","Node":"Node"}"#;
        for key in KEYS {
            let of = |length: usize| {
                read(
                    fields
                        .replace(&format!(":\"{key}\""), &format!(":\"{}\"", "x".repeat(length)))
                        .as_bytes(),
                )
            };
            assert!(of(1024).is_ok());
            let error = of(1025).unwrap_err().to_string();
            let expected = format!("the {key} has 1025 bytes, and the gateway accepts at most 1024 at byte ");
            assert!(error.starts_with(&expected), "{error}");
        }
    }

    #[test]
    fn what_is_missing_or_wrong_is_said() {
        let whole = r#"{"PodName":"p","PodNamespace":"ns","PodUID":"u","Node":"a"}"#;
        for (from, to, error) in [
            ("\"PodName\":\"p\",", "", "the request has no PodName"),
            ("\"ns\"", "\"\"", "the request has no PodNamespace"),
            ("\"u\"", "null", "the request has no PodUID"),
            ("\"a\"", "\"\"", "the request has no Node"),
            ("\"a\"", "7", "malformed JSON: expected the Node in quotes, found '7' at byte 55"),
            ("\"a\"}", "\"a\"} x", "unexpected text after the JSON value at byte 60"),
            (
                "\"p\"",
                "\"../../nodes/a\"",
                "the PodName is not a name: letters, digits, '-' and '.' are expected",
            ),
            ("\"ns\"", "\"..\"", "the PodNamespace is not a name: letters, digits, '-' and '.' are expected"),
            ("\"a\"", "\"a?b\"", "the Node is not a name: letters, digits, '-' and '.' are expected"),
        ] {
            let body = whole.replace(from, to);
            assert_ne!(body, whole);
            assert_eq!(read(body.as_bytes()).unwrap_err().to_string(), error, "{body}");
        }
        let body = b"{\"PodName\":\"\xff\",\"PodNamespace\":\"ns\",\"PodUID\":\"u\",\"Node\":\"a\"}";
        assert!(read(body).unwrap_err().to_string().starts_with("the PodName is not a name"));
    }
}
