//! Keys and values that a label can have: what cannot be on any node is a mistake in the file.

use super::place::Place;
use crate::label;

/// A key such as `topology.kubernetes.io/zone`.
pub(super) fn key(place: &Place<'_>) -> Option<String> {
    let key = place.text()?;
    if label::is_key(key) {
        Some(key.to_owned())
    } else {
        place.note(&format!("is {key:?}, which no label can have as its key"))
    }
}

/// A value such as `eu-west-1a`; empty is right.
pub(super) fn value(place: &Place<'_>) -> Option<String> {
    let value = place.text()?;
    if label::is_value(value) {
        Some(value.to_owned())
    } else {
        place.note(&format!("is {value:?}, which no label can have as its value"))
    }
}

pub(super) fn values(place: &Place<'_>) -> Option<Vec<String>> {
    let read: Vec<_> = place.list("at least one value")?.iter().map(value).collect();
    read.into_iter().collect()
}
