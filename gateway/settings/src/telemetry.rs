//! Settings of metrics, the admin address, traces, the decision log and the log.

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::{collections::BTreeSet, fmt, time::Duration};

use extender_config::{Cursor, Value};

use super::access::{Authorization, PageTls, check_admin, check_metrics};
use super::any_address;
use super::setting::{Setting, Yaml, choices, settings, write_scalar};
use super::values::{annotation_name, collector_url, host_names, log_size, write_list, write_size};

const SCRAPE: &str = "scrape /metrics, for example with the OpenTelemetry Collector's Prometheus receiver";

settings! {
    /// The address of `/metrics`, `/livez` and `/readyz`.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct MetricsSettings: "a mapping such as {address: 0.0.0.0:9402}",
        unsupported &[("exporter", SCRAPE), ("interval", SCRAPE)],
        check check_metrics => MetricsParts;
    /// The listening address. Default 0.0.0.0:9402; port 0 selects a free port.
    address "address": SocketAddr, default(any_address(9402));
    /// TLS on this address. `None`: plain HTTP.
    tls "tls": PageTls, absent("none");
    /// What `/metrics` needs without a client certificate. Default None.
    authorization "authorization": Authorization, default(Authorization::None);
}

settings! {
    /// The address that reports decisions and the gateway's state.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct AdminSettings: "a mapping such as {address: 127.0.0.1:9403}", check check_admin => AdminParts;
    /// The listening address. Default 127.0.0.1:9403; port 0 selects a free port.
    address "address": SocketAddr, default(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9403));
    /// Host names of requests besides IP addresses and those that only exist inside a cluster or machine.
    hosts "hosts" as (host_names, write_list): BTreeSet<String>, default(BTreeSet::new());
    /// TLS on this address. `None`: plain HTTP.
    tls "tls": PageTls, absent("none");
    /// What a request needs without a client certificate. Default None.
    authorization "authorization": Authorization, default(Authorization::None);
}

settings! {
    /// How to reach an OpenTelemetry collector. Fields that are `None` come from the `OTEL_EXPORTER_OTLP_*`
    /// variables.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Otlp: "a mapping such as {endpoint: http://collector:4317, protocol: grpc}",
        unsupported &[("headers", "set OTEL_EXPORTER_OTLP_HEADERS, which keeps secrets out of this file")];
    /// `http://HOST:PORT` or `https://HOST:PORT`.
    endpoint "endpoint" as (collector_url, write_scalar): String, absent("OTEL_EXPORTER_OTLP_ENDPOINT");
    /// The collector's protocol.
    protocol "protocol": OtlpProtocol, absent("OTEL_EXPORTER_OTLP_PROTOCOL");
    /// The timeout of an export.
    timeout "timeout": Duration, absent("OTEL_EXPORTER_OTLP_TIMEOUT");
}

settings! {
    /// Which calls are traced.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Traces: "a mapping such as {exporter: OTLP, ratio: 0.01}";
    /// Whether traces are exported. `None`: as set by the `OTEL_*` variables.
    exporter "exporter": Exporter, absent("OTLP if the OTEL_* variables enable it, otherwise None");
    /// The share of pods that are traced. `None`: as set by `OTEL_TRACES_SAMPLER`.
    ratio "ratio": Ratio, absent("OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG, or 1");
    /// Calls that take longer are kept regardless of the ratio. Default 500 ms.
    keep_slower_than "keepSlowerThan": Duration, default(Duration::from_millis(500));
    /// The pod annotation with a W3C `traceparent` that traces are linked to.
    pod_annotation "podAnnotation" as (annotation_name, write_scalar): String, absent("none");
}

settings! {
    /// The size of the decision log.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Decisions: "a mapping such as {maxBytes: 64Mi}";
    /// Bytes of the decision log; 0 disables it. Default 64 Mi.
    max_bytes "maxBytes" as (log_size, write_size): usize, default(64 << 20);
}

settings! {
    /// The log on standard error.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct LogSettings: "a mapping such as {format: JSON, level: info}";
    /// The format of lines. Default text.
    format "format": LogFormat, default(LogFormat::Text);
    /// Which lines are written. Default info.
    level "level": LogLevel, default(LogLevel::Info);
}

choices! {
    /// The protocol of a collector.
    pub enum OtlpProtocol {
        /// OTLP/gRPC.
        Grpc = "grpc",
        /// OTLP/HTTP with protobuf.
        HttpProtobuf = "http/protobuf",
    }

    /// Whether traces are exported to a collector.
    pub enum Exporter {
        /// No.
        None = "None",
        /// Yes.
        Otlp = "OTLP",
    }

    /// The format of log lines.
    pub enum LogFormat {
        /// For people.
        Text = "Text",
        /// One JSON object per line.
        Json = "JSON",
    }

    /// The least severe lines that are written.
    pub enum LogLevel {
        /// Failures.
        Error = "error",
        /// Also events that require attention.
        Warn = "warn",
        /// Also rare events.
        Info = "info",
        /// Also every call.
        Debug = "debug",
    }
}

/// A share from 0 to 1, in billionths.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ratio(u32);

impl Ratio {
    const ONE: u32 = 1_000_000_000;

    /// A share; `None` outside of 0 to 1.
    pub fn new(share: f64) -> Option<Self> {
        let within = (0.0..=1.0).contains(&share);
        #[allow(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "it is from 0 to 10⁹")]
        within.then(|| Self((share * f64::from(Self::ONE)).round() as u32))
    }

    /// As a number from 0 to 1.
    pub fn share(self) -> f64 {
        f64::from(self.0) / f64::from(Self::ONE)
    }
}

impl fmt::Display for Ratio {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}", self.share())
    }
}

impl Setting for Ratio {
    #[allow(clippy::cast_precision_loss, reason = "a number that is too large to be exact is rejected")]
    fn read(field: &Cursor<'_>) -> Option<Self> {
        let right = "a number from 0 to 1 such as 0.01";
        let share = match field.value() {
            Value::Integer(number) => *number as f64,
            Value::Fraction(number) => *number,
            _ => {
                field.wrong_kind(right);
                return None;
            }
        };
        field.accepted(Self::new(share).ok_or_else(|| format!("{share} is out of range")), right)
    }

    fn write(&self, out: &mut Yaml) {
        out.inline(&self.to_string());
    }
}
