//! Keys and values that a label can have: what cannot be on any node is a mistake in the file.

use super::place::Place;

/// Kubernetes' limits in bytes: a name with a DNS prefix before a slash, and a value.
const MAX_NAME: usize = 63;
const MAX_PREFIX: usize = 253;
const MAX_VALUE: usize = 63;

/// A key such as `topology.kubernetes.io/zone`. Mirrors `IsQualifiedName` of
/// k8s.io/apimachinery/pkg/util/validation, less strict about the prefix.
pub(super) fn key(place: &Place<'_>) -> Option<String> {
    let key = place.text()?;
    let (prefix, name) = key.split_once('/').unwrap_or(("x", key));
    let right = is_word(name, MAX_NAME) && is_word(prefix, MAX_PREFIX);
    if right {
        Some(key.to_owned())
    } else {
        place.note(&format!("is {key:?}, which no label can have as its key"))
    }
}

/// Mirrors `IsValidLabelValue`.
pub(super) fn value(place: &Place<'_>) -> Option<String> {
    let value = place.text()?;
    let right = value.is_empty() || is_word(value, MAX_VALUE);
    if right {
        Some(value.to_owned())
    } else {
        place.note(&format!("is {value:?}, which no label can have as its value"))
    }
}

pub(super) fn values(place: &Place<'_>) -> Option<Vec<String>> {
    let read: Vec<_> = place.list("at least one value")?.iter().map(value).collect();
    read.into_iter().collect()
}

/// Letters, digits, `-`, `_` and `.`, with a letter or digit at both ends.
fn is_word(text: &str, limit: usize) -> bool {
    let ends = |byte: Option<&u8>| byte.is_some_and(u8::is_ascii_alphanumeric);
    let bytes = text.as_bytes();
    let inner = bytes.iter().all(|byte| byte.is_ascii_alphanumeric() || b"-_.".contains(byte));
    bytes.len() <= limit && inner && ends(bytes.first()) && ends(bytes.last())
}
