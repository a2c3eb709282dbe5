//! Reads and writes single values: addresses, durations, sizes, paths, lists of namespaces, JSON.

use std::collections::BTreeSet;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use bytes::Bytes;
use extender_config::{Cursor, Value, echo, names};
use http::Uri;
use serde_json::{Map, Number, Value as Json};

use super::setting::{Format, Setting, Yaml, list, scalar};
use super::{DurationText, SizeText, duration, quantity};

impl Setting for SocketAddr {
    fn read(field: &Cursor<'_>) -> Option<Self> {
        field.parsed("an IP address and a port such as 0.0.0.0:8888 or [::1]:8888", |text| {
            text.parse().map_err(|_| format!("{} is not an IP address and a port", echo(text)))
        })
    }

    fn write(&self, out: &mut Yaml) {
        out.inline(&scalar(self));
    }
}

impl Setting for Duration {
    /// A missing unit is the most common mistake; YAML parses such a value as a number.
    fn read(field: &Cursor<'_>) -> Option<Self> {
        match field.value() {
            Value::Integer(number) => {
                field.accepted(Err(format!("{number} has no unit")), duration::EXPECTED)
            }
            _ => field.parsed(duration::EXPECTED, duration::parse),
        }
    }

    fn write(&self, out: &mut Yaml) {
        out.inline(&DurationText(*self).to_string());
    }
}

impl Setting for bool {
    fn read(field: &Cursor<'_>) -> Option<Self> {
        field.boolean()
    }

    fn write(&self, out: &mut Yaml) {
        out.inline(&self.to_string());
    }
}

impl Setting for PathBuf {
    fn read(field: &Cursor<'_>) -> Option<Self> {
        field.file()
    }

    fn write(&self, out: &mut Yaml) {
        out.inline(&scalar(&self.display()));
    }
}

/// Namespaces, each once.
pub(super) struct Namespaces;

/// Reads a list of namespaces.
pub(super) fn namespaces(field: &Cursor<'_>, right: &str) -> Option<BTreeSet<String>> {
    let namespace = |item: Cursor<'_>| item.parsed(names::NAMESPACE, names::namespace);
    field.list(right, namespace).map(BTreeSet::from_iter)
}

impl Format<Option<BTreeSet<String>>> for Namespaces {
    fn read(field: &Cursor<'_>) -> Option<Option<BTreeSet<String>>> {
        namespaces(field, "a list of namespaces such as [kube-system], [] for none").map(Some)
    }

    fn write(value: &Option<BTreeSet<String>>, out: &mut Yaml) {
        out.inline(&list(value.iter().flatten()));
    }
}

/// The size of a request body.
pub(super) struct BodySize;

impl Format<usize> for BodySize {
    fn read(field: &Cursor<'_>) -> Option<usize> {
        quantity::BODY.read(field)
    }

    fn write(value: &usize, out: &mut Yaml) {
        out.inline(&SizeText(*value).to_string());
    }
}

/// The size of the decision log.
pub(super) struct LogSize;

impl Format<usize> for LogSize {
    fn read(field: &Cursor<'_>) -> Option<usize> {
        quantity::DECISION_LOG.read(field)
    }

    fn write(value: &usize, out: &mut Yaml) {
        out.inline(&SizeText(*value).to_string());
    }
}

/// The URL of an OpenTelemetry collector.
pub(super) struct CollectorUrl;

impl Format<Option<String>> for CollectorUrl {
    fn read(field: &Cursor<'_>) -> Option<Option<String>> {
        field.parsed("the URL of a collector such as http://collector:4317", |text| {
            let uri: Uri = text.parse().map_err(|_| format!("{} is not a URL", echo(text)))?;
            match (uri.scheme_str(), uri.host()) {
                (Some("http" | "https"), Some(_)) => Ok(Some(text.to_owned())),
                _ => Err(format!("{} is not an http or https URL", echo(text))),
            }
        })
    }

    fn write(value: &Option<String>, out: &mut Yaml) {
        out.inline(&value.as_ref().map_or_else(String::new, scalar));
    }
}

/// The name of an annotation.
pub(super) struct AnnotationName;

impl Format<Option<String>> for AnnotationName {
    fn read(field: &Cursor<'_>) -> Option<Option<String>> {
        field.parsed("the name of an annotation such as example.com/traceparent", names::label_key).map(Some)
    }

    fn write(value: &Option<String>, out: &mut Yaml) {
        out.inline(&value.as_ref().map_or_else(String::new, scalar));
    }
}

/// A mapping of any content, as compact JSON with sorted keys: equal mappings have equal bytes, regardless of their
/// order in the file.
pub(super) struct JsonObject;

/// Describes valid arguments.
const ARGS: &str = "a mapping such as {label: topology/rack}";

impl Format<Option<Bytes>> for JsonObject {
    fn read(args: &Cursor<'_>) -> Option<Option<Bytes>> {
        let Value::Mapping(_) = args.value() else {
            args.wrong_kind(ARGS);
            return None;
        };
        json(args).map(|object| Some(Bytes::from(object.to_string())))
    }

    fn write(value: &Option<Bytes>, out: &mut Yaml) {
        // JSON is YAML's flow style.
        out.inline(&String::from_utf8_lossy(value.as_deref().unwrap_or_default()));
    }
}

fn json(value: &Cursor<'_>) -> Option<Json> {
    match value.value() {
        Value::Null => Some(Json::Null),
        Value::Boolean(boolean) => Some(Json::Bool(*boolean)),
        Value::Integer(number) => number_json(value, Number::from_i128(*number)),
        Value::Fraction(number) => number_json(value, Number::from_f64(*number)),
        Value::Text(text) => Some(Json::String(text.clone())),
        Value::List(_) => value.list(ARGS, |item| json(&item)).map(Json::Array),
        Value::Mapping(_) => mapping_json(value),
    }
}

fn number_json(value: &Cursor<'_>, number: Option<Number>) -> Option<Json> {
    let number = number.ok_or_else(|| "is not a JSON number".to_owned());
    value.accepted(number, "a finite number, or a string in quotes").map(Json::Number)
}

fn mapping_json(mapping: &Cursor<'_>) -> Option<Json> {
    let mut entries = mapping.entries(ARGS)?;
    // The map sorts only with a crate feature that any dependency may change.
    entries.sort_by_key(|entry| entry.name);
    let members: Vec<Option<(String, Json)>> =
        entries.iter().map(|entry| Some((entry.name.to_owned(), json(&entry.cursor)?))).collect();
    members.into_iter().collect::<Option<Map<String, Json>>>().map(Json::Object)
}
