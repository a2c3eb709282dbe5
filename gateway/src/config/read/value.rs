//! Values that several fields have, and fields that may be left out.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::time::Duration;

use super::super::cursor::{Cursor, Section};
use super::super::mistake::echo;
use super::super::yaml::Value;
use super::super::{Words, duration as durations, kubernetes, quantity};

/// A field that may be left out.
pub(super) fn field_or<T>(
    fields: &Section<'_>,
    name: &str,
    absent: T,
    read: impl FnOnce(&Cursor<'_>) -> Option<T>,
) -> Option<T> {
    match fields.optional(name) {
        None => Some(absent),
        Some(cursor) => read(&cursor),
    }
}

/// One of several words.
pub(super) fn choice<T: Words>(field: &Cursor<'_>) -> Option<T> {
    field.parsed(&one_of::<T>(), |text| {
        let chosen = T::WORDS.iter().find(|(word, _)| *word == text).map(|(_, choice)| *choice);
        chosen.ok_or_else(|| format!("{} is not known", echo(text)))
    })
}

/// `A, B or C`.
fn one_of<T: Words>() -> String {
    let words: Vec<&str> = T::WORDS.iter().map(|(word, _)| *word).collect();
    match words.split_last() {
        Some((last, others)) if !others.is_empty() => format!("{} or {last}", others.join(", ")),
        _ => words.concat(),
    }
}

pub(super) fn address(field: &Cursor<'_>) -> Option<SocketAddr> {
    field.parsed("an IP address and a port such as 0.0.0.0:8888 or [::1]:8888", |text| {
        text.parse().map_err(|_| format!("{} is not an IP address and a port", echo(text)))
    })
}

/// A size in bytes, which YAML gives as a number where it has no suffix.
pub(super) fn size(field: &Cursor<'_>) -> Option<usize> {
    match field.value() {
        Value::Integer(number) => field.accepted(quantity::from_number(*number), quantity::EXPECTED),
        _ => field.parsed(quantity::EXPECTED, quantity::parse),
    }
}

/// A duration. A number without a unit is the usual mistake, and YAML gives it as a number.
pub(super) fn duration(field: &Cursor<'_>) -> Option<Duration> {
    match field.value() {
        Value::Integer(number) => field.accepted(Err(format!("{number} has no unit")), durations::EXPECTED),
        _ => field.parsed(durations::EXPECTED, durations::parse),
    }
}

/// A path; a relative one is relative to the configuration's folder.
pub(super) fn path(field: &Cursor<'_>, folder: &Path) -> Option<PathBuf> {
    field.parsed("the path of a file", not_empty).map(|text| folder.join(text))
}

/// What a text means, or what is wrong with it, as the predicate of a sentence.
type Rule = fn(&str) -> Result<String, String>;

/// A list of texts, each with a meaning: what a right one looks like, and what it means.
pub(super) fn list(field: &Cursor<'_>, right: &str, (right_item, item): (&str, Rule)) -> Option<Vec<String>> {
    let items: Vec<_> =
        field.items(right)?.into_iter().map(|cursor| cursor.parsed(right_item, item)).collect();
    items.into_iter().collect()
}

/// A list of namespaces.
pub(super) fn namespaces(field: &Cursor<'_>, right: &str) -> Option<BTreeSet<String>> {
    list(field, right, (kubernetes::NAMESPACE, kubernetes::namespace)).map(BTreeSet::from_iter)
}

/// A text that says something.
pub(super) fn not_empty(text: &str) -> Result<String, String> {
    if text.is_empty() { Err("is empty".to_owned()) } else { Ok(text.to_owned()) }
}
