//! Reads and writes single values: addresses, durations, sizes, paths, lists of namespaces, JSON.

use std::collections::BTreeSet;
use std::fmt;
use std::net::SocketAddr;
use std::ops::RangeInclusive;
use std::path::{Path, PathBuf};
use std::time::Duration;

use bytes::Bytes;
use extender_config::{Cursor, Value, echo, names};
use extender_gateway_object::quantity::Quantity;
use http::Uri;
use serde_json::{Map, Number, Value as Json};

use super::backend::{BackendName, NAME};
use super::setting::{Setting, Yaml, list, scalar};

/// The longest duration in the file. A scheduler that waits longer for one pod is stuck.
const LONGEST: Duration = Duration::from_hours(1);
/// Units and their milliseconds. `ms` precedes `m`, its prefix.
const UNITS: [(&str, u64); 4] = [("ms", 1), ("h", 3_600_000), ("m", 60_000), ("s", 1_000)];
/// The range of the largest request body: below it ordinary pods would be rejected, above it one call could use more
/// memory than a gateway should have.
pub(super) const BODY_SIZE: RangeInclusive<i128> = 64 << 10..=1 << 30;
/// The range of the most of all request bodies together.
const BYTES_IN_FLIGHT: RangeInclusive<i128> = 64 << 10..=64 << 30;
/// The range of the decision log: a smaller one could not hold a call about thousands of nodes.
const LOG_SIZE: RangeInclusive<i128> = 1 << 20..=16 << 30;
/// Suffixes that sizes are displayed with and their bytes, the larger first.
const SUFFIXES: [(&str, u64); 7] = [
    ("Gi", 1 << 30),
    ("G", 1_000_000_000),
    ("Mi", 1 << 20),
    ("M", 1_000_000),
    ("Ki", 1 << 10),
    ("k", 1_000),
    ("", 1),
];

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
    fn read(field: &Cursor<'_>) -> Option<Self> {
        let right = "a duration from 1ms to 1h such as 200ms, 1s or 1m30s";
        match field.value() {
            // A missing unit is the most common mistake; YAML parses such a value as a number.
            Value::Integer(number) => field.accepted(Err(format!("{number} has no unit")), right),
            _ => field.parsed(right, parse_duration),
        }
    }

    fn write(&self, out: &mut Yaml) {
        out.inline(&DurationText(*self).to_string());
    }
}

/// Reads whole numbers, each with a unit of `h`, `m`, `s` or `ms`, that add up to 1 ms to 1 h. Mirrors
/// Go's `time.ParseDuration`, without signs, fractions and the units below `ms`.
pub fn parse_duration(text: &str) -> Result<Duration, String> {
    parse_long_duration(text, LONGEST)
}

/// The same up to another limit.
pub fn parse_long_duration(text: &str, longest: Duration) -> Result<Duration, String> {
    let total = milliseconds(text).ok_or_else(|| format!("{} is not a duration", echo(text)))?;
    let duration = Duration::from_millis(total);
    if duration.is_zero() || duration > longest {
        return Err(format!("{} is out of range", echo(text)));
    }
    Ok(duration)
}

/// The sum of all numbers with their units, saturating; `None` if it is not a duration.
fn milliseconds(text: &str) -> Option<u64> {
    let (mut total, mut rest) = (0_u64, text);
    loop {
        let end = rest.bytes().position(|byte| !byte.is_ascii_digit()).filter(|end| *end > 0)?;
        let (digits, after) = rest.split_at(end);
        let (unit, factor) = UNITS.into_iter().find(|(unit, _)| after.starts_with(unit))?;
        let number: u64 = digits.parse().unwrap_or(u64::MAX);
        total = total.saturating_add(number.saturating_mul(factor));
        rest = &after[unit.len()..];
        if rest.is_empty() {
            return Some(total);
        }
    }
}

/// Displays a duration of whole milliseconds in the file's syntax.
#[derive(Clone, Copy, Debug)]
pub struct DurationText(pub Duration);

impl fmt::Display for DurationText {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(duration) = self;
        if duration.is_zero() {
            return out.write_str("0s");
        }
        let seconds = duration.as_secs();
        let parts = [
            (seconds / 3600, "h"),
            (seconds / 60 % 60, "m"),
            (seconds % 60, "s"),
            (u64::from(duration.subsec_millis()), "ms"),
        ];
        parts
            .iter()
            .filter(|(number, _)| *number > 0)
            .try_for_each(|(number, unit)| write!(out, "{number}{unit}"))
    }
}

/// Reads the largest request body.
pub(super) fn body_size(field: &Cursor<'_>) -> Option<usize> {
    read_size(field, BODY_SIZE, "a size from 64Ki to 1Gi such as 128Mi")
}

/// Reads the most of all bodies together.
pub(super) fn bytes_in_flight(field: &Cursor<'_>) -> Option<usize> {
    read_size(field, BYTES_IN_FLIGHT, "a size from 64Ki to 64Gi such as 512Mi")
}

/// Reads the size of the decision log; 0 disables it.
pub(super) fn log_size(field: &Cursor<'_>) -> Option<usize> {
    if matches!(field.value(), Value::Integer(0)) {
        return Some(0);
    }
    read_size(field, LOG_SIZE, "a size from 1Mi to 16Gi such as 64Mi, or 0")
}

/// Reads a size in bytes, a Kubernetes quantity. YAML parses it as a number if it has no suffix.
fn read_size(field: &Cursor<'_>, range: RangeInclusive<i128>, right: &str) -> Option<usize> {
    match field.value() {
        Value::Integer(number) => field.accepted(size_within(range, *number, number), right),
        _ => field.parsed(right, |text| parse_size(range, text)),
    }
}

pub(super) fn parse_size(range: RangeInclusive<i128>, text: &str) -> Result<usize, String> {
    let size = Quantity::parse(text).map_err(|_| format!("{} is not a size", echo(text)))?;
    size_within(range, size.value().into(), &echo(text))
}

fn size_within(range: RangeInclusive<i128>, bytes: i128, shown: &impl fmt::Display) -> Result<usize, String> {
    let within = usize::try_from(bytes).ok().filter(|_| range.contains(&bytes));
    within.ok_or_else(|| format!("{shown} is out of range"))
}

#[expect(clippy::trivially_copy_pass_by_ref, reason = "fields are written by reference")]
pub(super) fn write_size(bytes: &usize, out: &mut Yaml) {
    out.inline(&SizeText(*bytes).to_string());
}

/// Displays a size in bytes in the file's syntax, with the largest suffix that leaves a whole number.
#[derive(Clone, Copy, Debug)]
pub struct SizeText(pub usize);

impl fmt::Display for SizeText {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let bytes = self.0 as u64;
        let whole = |factor: u64| bytes > 0 && bytes.is_multiple_of(factor);
        let (suffix, factor) = SUFFIXES.into_iter().find(|(_, factor)| whole(*factor)).unwrap_or(("", 1));
        write!(out, "{}{suffix}", bytes / factor)
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

pub(super) fn namespaces(field: &Cursor<'_>, right: &str) -> Option<BTreeSet<String>> {
    let namespace = |item: Cursor<'_>| item.parsed(names::NAMESPACE, names::namespace);
    field.list(right, namespace).map(BTreeSet::from_iter)
}

pub(super) fn exempt_namespaces(field: &Cursor<'_>) -> Option<BTreeSet<String>> {
    namespaces(field, "a list of namespaces such as [kube-system], [] for none")
}

/// Whether they are backends of the file is checked with the backends.
pub(super) fn backend_names(field: &Cursor<'_>) -> Option<BTreeSet<String>> {
    let name =
        |item: Cursor<'_>| item.parsed(NAME, |text| BackendName::new(text).map(|name| name.to_string()));
    field.list("a list of backends such as [quota], [] for none", name).map(BTreeSet::from_iter)
}

/// Names without ports, in lower case.
pub(super) fn host_names(field: &Cursor<'_>) -> Option<BTreeSet<String>> {
    const HOST: &str = "a host name such as gateway.example.com";
    let name = |item: Cursor<'_>| {
        item.parsed(HOST, |text| {
            let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.');
            if text.is_empty() || !text.bytes().all(plain) {
                return Err(format!("{} is not a host name", echo(text)));
            }
            Ok(text.strip_suffix('.').unwrap_or(text).to_ascii_lowercase())
        })
    };
    field.list("a list of host names such as [gateway.example.com]", name).map(BTreeSet::from_iter)
}

pub(super) fn write_list(texts: &BTreeSet<String>, out: &mut Yaml) {
    out.inline(&list(texts));
}

pub(super) fn collector_url(field: &Cursor<'_>) -> Option<String> {
    field.parsed("the URL of a collector such as http://collector:4317", |text| {
        let uri: Uri = text.parse().map_err(|_| format!("{} is not a URL", echo(text)))?;
        match (uri.scheme_str(), uri.host()) {
            (Some("http" | "https"), Some(_)) => Ok(text.to_owned()),
            _ => Err(format!("{} is not an http or https URL", echo(text))),
        }
    })
}

pub(super) fn annotation_name(field: &Cursor<'_>) -> Option<String> {
    field.parsed("the name of an annotation such as example.com/traceparent", names::label_key)
}

pub(super) fn cluster_name(field: &Cursor<'_>) -> Option<String> {
    field.parsed("the name of a cluster such as east", |text| {
        if names::is_dns_label(text) {
            return Ok(text.to_owned());
        }
        Err(format!("{} is not a label of at most 63 lower case letters, digits and -", echo(text)))
    })
}

/// What the system takes as the path of a socket, in bytes (`sun_path` in unix(7), with a 0 at its end).
const LONGEST_SOCKET: usize = 107;

pub(super) fn socket(field: &Cursor<'_>) -> Option<PathBuf> {
    field.parsed("an absolute path such as /run/extender-gateway/plugin.sock", |text| {
        if !text.starts_with('/') || text.ends_with('/') {
            return Err(format!("{} is not an absolute path of a file", echo(text)));
        }
        if text.len() > LONGEST_SOCKET {
            return Err(format!(
                "{} has {} bytes, and a socket's path at most {LONGEST_SOCKET}",
                echo(text),
                text.len()
            ));
        }
        Ok(text.into())
    })
}

pub(super) fn write_path(path: &Path, out: &mut Yaml) {
    out.inline(&scalar(&path.display()));
}

pub(super) fn verb_path(field: &Cursor<'_>) -> Option<String> {
    field.parsed("the end of a path without slashes around it such as predicates/always_true", |text| {
        let plain = |byte: u8| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_' | b'.' | b'/');
        if text.split('/').any(str::is_empty) || !text.bytes().all(plain) {
            return Err(format!("{} is not the end of a path", echo(text)));
        }
        Ok(text.to_owned())
    })
}

const ARGS: &str = "a mapping such as {label: topology/rack}";

/// Reads a mapping of any content as compact JSON with sorted keys: equal mappings have equal bytes, regardless of
/// their order in the file.
pub(super) fn json_object(args: &Cursor<'_>) -> Option<Bytes> {
    mapping_json(args).map(|object| Bytes::from(object.to_string()))
}

/// Writes JSON, which is YAML's flow style.
pub(super) fn write_json(object: &Bytes, out: &mut Yaml) {
    out.inline(&String::from_utf8_lossy(object));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations() {
        let cases = [
            ("1ms", 1),
            ("200ms", 200),
            ("1s", 1_000),
            ("1m30s", 90_000),
            ("1s1s", 2_000),
            ("60m", 3_600_000),
            ("1h", 3_600_000),
            ("0h0m1s", 1_000),
        ];
        for (text, milliseconds) in cases {
            assert_eq!(parse_duration(text), Ok(Duration::from_millis(milliseconds)), "{text}");
        }
    }

    #[test]
    fn texts_that_are_no_duration() {
        for text in ["", "1", "s", "1 s", "-1s", "+1s", "1.5s", "1d", "1us", "1S", "1s2", "s1", "١s"] {
            assert_eq!(parse_duration(text), Err(format!("{text:?} is not a duration")));
        }
    }

    #[test]
    fn durations_out_of_range() {
        for text in ["0s", "0ms", "1h1ms", "99999999999999999999h", "18446744073709551615ms1ms"] {
            assert_eq!(parse_duration(text), Err(format!("{text:?} is out of range")));
        }
    }

    #[test]
    fn durations_are_written_in_whole_parts() {
        for text in ["1h", "1m30s", "1s500ms", "200ms"] {
            assert_eq!(DurationText(parse_duration(text).unwrap()).to_string(), text);
        }
    }

    #[test]
    fn sizes() {
        let cases = [
            ("64Ki", 65_536),
            ("65536", 65_536),
            ("66k", 66_000),
            ("1M", 1_000_000),
            ("128Mi", 134_217_728),
            ("0.5Gi", 536_870_912),
            ("1e6", 1_000_000),
            ("1G", 1_000_000_000),
            ("1Gi", 1_073_741_824),
        ];
        for (text, bytes) in cases {
            assert_eq!(parse_size(BODY_SIZE, text), Ok(bytes), "{text}");
        }
    }

    #[test]
    fn texts_that_are_no_size() {
        for text in ["", "1 Mi", "1mi", "1K", "1MiB"] {
            assert_eq!(parse_size(BODY_SIZE, text), Err(format!("{text:?} is not a size")));
        }
    }

    #[test]
    fn sizes_out_of_range() {
        for text in ["0", "Mi", "-1Mi", "100m", "65535", "63Ki", "1025Mi", "99999999999999999999Gi"] {
            assert_eq!(parse_size(BODY_SIZE, text), Err(format!("{text:?} is out of range")));
        }
        assert_eq!(size_within(BODY_SIZE, -1, &-1), Err("-1 is out of range".to_owned()));
    }

    #[test]
    fn sizes_are_written_with_the_largest_suffix() {
        let cases =
            [(134_217_728, "128Mi"), (1_000_000, "1M"), (65_537, "65537"), (66_560, "65Ki"), (0, "0")];
        for (bytes, text) in cases {
            assert_eq!(SizeText(bytes).to_string(), text);
        }
    }
}
