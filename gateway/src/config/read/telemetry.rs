//! The fields of what can be seen of the gateway: `admin`, `metrics`, `otlp`, `traces`, `decisions`, `log`.

use std::net::SocketAddr;
use std::time::Duration;

use http::Uri;

use super::super::cursor::{Cursor, Fields, Read, Section};
use super::super::mistake::echo;
use super::super::yaml::Value;
use super::super::{
    Admin, Decisions, Extender, Log, LogFormat, LogLevel, Metrics, Otlp, Ratio, Traces, kubernetes, quantity,
};
use super::value::{address, choice, duration, field_or};
use super::{LEAVE_OUT, any_address};

const DEFAULT_METRICS: SocketAddr = any_address(9402);
const DEFAULT_ADMIN: SocketAddr = SocketAddr::new(std::net::IpAddr::V4(std::net::Ipv4Addr::LOCALHOST), 9403);
const DEFAULT_SLOW: Duration = Duration::from_millis(500);
const DEFAULT_DECISIONS: usize = 64 << 20;

/// Metrics were pushed by OTLP once.
const SCRAPE: &str =
    "scrape /metrics: every OpenTelemetry Collector can do that with its Prometheus receiver";

pub(super) const METRICS: Fields = Fields {
    right: "a mapping such as {address: 0.0.0.0:9402}",
    known: &["address"],
    unsupported: &[("tls", LEAVE_OUT), ("exporter", SCRAPE), ("interval", SCRAPE)],
};
pub(super) const ADMIN: Fields =
    Fields { right: "a mapping such as {address: 127.0.0.1:9403}", known: &["address"], unsupported: &[] };
pub(super) const OTLP: Fields = Fields {
    right: "a mapping such as {endpoint: http://collector:4317, protocol: grpc}",
    known: &["endpoint", "protocol", "timeout"],
    unsupported: &[("headers", "set OTEL_EXPORTER_OTLP_HEADERS, which keeps secrets out of this file")],
};
pub(super) const TRACES: Fields = Fields {
    right: "a mapping such as {exporter: OTLP, ratio: 0.01}",
    known: &["exporter", "ratio", "keepSlowerThan", "podAnnotation"],
    unsupported: &[],
};
pub(super) const DECISIONS: Fields =
    Fields { right: "a mapping such as {maxBytes: 64Mi}", known: &["maxBytes"], unsupported: &[] };
pub(super) const LOG: Fields = Fields {
    right: "a mapping such as {format: JSON, level: info}",
    known: &["format", "level"],
    unsupported: &[],
};

pub(super) fn metrics(root: &Section<'_>, extender: Option<&Extender>) -> Option<Metrics> {
    let fields = root.subsection("metrics", &METRICS)?;
    let address = field_or(&fields, "address", DEFAULT_METRICS, address)?;
    if extender.is_some_and(|extender| collide(extender.address, address)) {
        let wrong = format!("{address} is where extender listens");
        fields.mistake_of("address", wrong, "a port of its own");
    }
    Some(Metrics { address })
}

pub(super) fn admin(
    root: &Section<'_>,
    extender: Option<&Extender>,
    metrics: Option<&Metrics>,
) -> Option<Admin> {
    let fields = root.subsection("admin", &ADMIN)?;
    let address = field_or(&fields, "address", DEFAULT_ADMIN, address)?;
    let others = [("extender", extender.map(|it| it.address)), ("metrics", metrics.map(|it| it.address))];
    let taken = others.into_iter().find(|(_, other)| other.is_some_and(|other| collide(other, address)));
    if let Some((who, _)) = taken {
        fields.mistake_of("address", format!("{address} is where {who} listens"), "a port of its own");
    }
    Some(Admin { address })
}

/// Whether two doors cannot listen at once. Port 0 is a free one each time.
fn collide(one: SocketAddr, other: SocketAddr) -> bool {
    let same_ip = one.ip() == other.ip() || one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() == other.port() && one.port() != 0 && same_ip
}

pub(super) fn otlp(root: &Section<'_>) -> Option<Otlp> {
    let fields = root.subsection("otlp", &OTLP)?;
    let endpoint = field_or(&fields, "endpoint", None, |field| endpoint(field).map(Some));
    let protocol = field_or(&fields, "protocol", None, |field| choice(field).map(Some));
    let timeout = field_or(&fields, "timeout", None, |field| duration(field).map(Some));
    Some(Otlp { endpoint: endpoint?, protocol: protocol?, timeout: timeout? })
}

fn endpoint(field: &Cursor<'_>) -> Option<String> {
    field.parsed("the URL of a collector such as http://collector:4317", |text| {
        let uri: Uri = text.parse().map_err(|_| format!("{} is not a URL", echo(text)))?;
        match (uri.scheme_str(), uri.host()) {
            (Some("http" | "https"), Some(_)) => Ok(text.to_owned()),
            _ => Err(format!("{} is not an http or https URL", echo(text))),
        }
    })
}

pub(super) fn traces(root: &Section<'_>) -> Option<Traces> {
    let fields = root.subsection("traces", &TRACES)?;
    let exporter = field_or(&fields, "exporter", None, |field| choice(field).map(Some));
    let ratio = field_or(&fields, "ratio", None, |field| ratio(field).map(Some));
    let slow = field_or(&fields, "keepSlowerThan", DEFAULT_SLOW, duration);
    let pod_annotation = field_or(&fields, "podAnnotation", None, |field| annotation(field).map(Some));
    Some(Traces {
        exporter: exporter?,
        ratio: ratio?,
        keep_slower_than: slow?,
        pod_annotation: pod_annotation?,
    })
}

#[allow(clippy::cast_precision_loss, reason = "a number that is too large to be exact is refused")]
fn ratio(field: &Cursor<'_>) -> Option<Ratio> {
    let right = "a number from 0 to 1 such as 0.01";
    let share = match field.value() {
        Value::Integer(number) => *number as f64,
        Value::Fraction(number) => *number,
        _ => {
            field.wrong_kind(right);
            return None;
        }
    };
    field.accepted(Ratio::new(share).ok_or_else(|| format!("{share} is out of range")), right)
}

fn annotation(field: &Cursor<'_>) -> Option<String> {
    field.parsed("the name of an annotation such as example.com/traceparent", |text| {
        kubernetes::label_key(text)?;
        Ok(text.to_owned())
    })
}

pub(super) fn decisions(root: &Section<'_>) -> Option<Decisions> {
    let fields = root.subsection("decisions", &DECISIONS)?;
    let max_bytes = field_or(&fields, "maxBytes", DEFAULT_DECISIONS, |field| match field.value() {
        Value::Integer(0) => Some(0),
        Value::Integer(number) => field.accepted(quantity::log_from_number(*number), quantity::LOG_EXPECTED),
        _ => field.parsed(quantity::LOG_EXPECTED, quantity::parse_log),
    });
    Some(Decisions { max_bytes: max_bytes? })
}

pub(super) fn log(root: &Section<'_>) -> Read<Log> {
    let fields = root.subsection("log", &LOG)?;
    let format = field_or(&fields, "format", LogFormat::Text, choice);
    let level = field_or(&fields, "level", LogLevel::Info, choice);
    Some(Log { format: format?, level: level? })
}
