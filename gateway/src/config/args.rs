//! A backend's `args`: any mapping, handed on as one JSON object.

use bytes::Bytes;
use serde_json::{Map, Number, Value as Json};

use super::cursor::Cursor;
use super::yaml::Value;

/// What right arguments look like.
const EXPECTED: &str = "a mapping such as {label: topology/rack}";

/// Compact JSON with sorted keys: equal arguments have equal bytes, in whatever order they were written.
pub(super) fn json_object(args: &Cursor<'_>) -> Option<Bytes> {
    let Value::Mapping(_) = args.value() else {
        args.wrong_kind(EXPECTED);
        return None;
    };
    json(args).map(|object| Bytes::from(object.to_string()))
}

fn json(value: &Cursor<'_>) -> Option<Json> {
    match value.value() {
        Value::Null => Some(Json::Null),
        Value::Boolean(boolean) => Some(Json::Bool(*boolean)),
        Value::Integer(number) => number_json(value, Number::from_i128(*number)),
        Value::Fraction(number) => number_json(value, Number::from_f64(*number)),
        Value::Text(text) => Some(Json::String(text.clone())),
        Value::List(_) => list_json(value),
        Value::Mapping(_) => mapping_json(value),
    }
}

fn number_json(value: &Cursor<'_>, number: Option<Number>) -> Option<Json> {
    let number = number.ok_or_else(|| "is a number that JSON does not have".to_owned());
    value.accepted(number, "a finite number, or text in quotes").map(Json::Number)
}

fn list_json(list: &Cursor<'_>) -> Option<Json> {
    // All items are read before one that failed ends it: each leaves its own mistake.
    let items: Vec<Option<Json>> = list.items(EXPECTED)?.iter().map(json).collect();
    items.into_iter().collect::<Option<Vec<Json>>>().map(Json::Array)
}

fn mapping_json(mapping: &Cursor<'_>) -> Option<Json> {
    let mut entries = mapping.entries(EXPECTED)?;
    // Not left to the map: whether it sorts depends on a feature that any crate may switch on.
    entries.sort_by_key(|entry| entry.name);
    let members: Vec<Option<(String, Json)>> =
        entries.iter().map(|entry| Some((entry.name.to_owned(), json(&entry.cursor)?))).collect();
    members.into_iter().collect::<Option<Map<String, Json>>>().map(Json::Object)
}
