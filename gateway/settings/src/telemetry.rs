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
    /// The address of `/metrics`, `/livez` and `/readyz`. It must differ from `extender.address`.
    address "address": SocketAddr, default(any_address(9402));
    /// TLS on the address, also for probes.
    tls "tls": PageTls, absent("none");
    /// `Kubernetes`: `/metrics` needs a client certificate, or a bearer token of a user that may `get` it, which [the apiserver
    /// reviews](authorization.md). Except on loopback it needs `metrics.tls`.
    authorization "authorization": Authorization, default(Authorization::None);
}

settings! {
    /// The address that reports decisions and the gateway's state.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct AdminSettings: "a mapping such as {address: 127.0.0.1:9403}", check check_admin => AdminParts;
    /// The address that [`explain` and `status`](explain.md) use, with [the decision log, log level and score debugging](decisions.md).
    /// It must differ from `extender.address` and `metrics.address`. It has no authentication unless you [configure
    /// it](authorization.md): keep it on loopback, restrict it with a `NetworkPolicy`, or set `authorization`.
    address "address": SocketAddr, default(SocketAddr::new(IpAddr::V4(Ipv4Addr::LOCALHOST), 9403));
    /// Host names that requests may have. IP addresses, names without a dot, and names that end with `localhost`, `local`, `internal`
    /// or `svc` are always accepted. Others are refused, because a page of the web can make its own name resolve to a forwarded port.
    hosts "hosts" as (host_names, write_list, HOSTS): BTreeSet<String>, default(BTreeSet::new());
    /// TLS on the address.
    tls "tls": PageTls, absent("none");
    /// `Kubernetes`: a request needs a client certificate, or a bearer token of a user that may use its path, which [the apiserver
    /// reviews](authorization.md). Except on loopback it needs `admin.tls`.
    authorization "authorization": Authorization, default(Authorization::None);
}

settings! {
    /// How to reach an OpenTelemetry collector. Fields that are `None` come from the `OTEL_EXPORTER_OTLP_*`
    /// variables.
    #[derive(Clone, Debug, Default, PartialEq, Eq)]
    pub struct Otlp: "a mapping such as {endpoint: http://collector:4317, protocol: grpc}",
        unsupported &[("headers", "set OTEL_EXPORTER_OTLP_HEADERS, which keeps secrets out of this file")];
    /// The `http` or `https` URL of an OpenTelemetry collector, see [traces](traces.md#configuration).
    endpoint "endpoint" as (collector_url, write_scalar, URL): String, absent("OTEL_EXPORTER_OTLP_ENDPOINT");
    /// `grpc` or `http/protobuf`. If neither the file nor the variable sets it: `grpc` with port 4317, otherwise `http/protobuf`.
    protocol "protocol": OtlpProtocol, absent("OTEL_EXPORTER_OTLP_PROTOCOL");
    /// The timeout of one export; 10 seconds if neither the file nor the variable sets it. Headers, which are often secrets, are set
    /// with `OTEL_EXPORTER_OTLP_HEADERS`.
    timeout "timeout": Duration, absent("OTEL_EXPORTER_OTLP_TIMEOUT");
}

settings! {
    /// Which calls are traced.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct Traces: "a mapping such as {exporter: OTLP, ratio: 0.01}";
    /// `OTLP`: export calls as [traces](traces.md). `None`: do not. If neither the file nor `OTEL_TRACES_EXPORTER` sets it, traces are
    /// exported if an endpoint is set, here or in a variable.
    exporter "exporter": Exporter, absent("OTLP if the OTEL_* variables enable it, otherwise None");
    /// The share of pods whose calls are traced, from 0 to 1: all calls of a pod, or none; see [which calls are
    /// kept](traces.md#sampling).
    ratio "ratio": Ratio, absent("OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG, or 1");
    /// The gateway's own spans of slower calls, of failed calls, and of calls in which a backend was late are kept at any ratio.
    keep_slower_than "keepSlowerThan": Duration, default(Duration::from_millis(500));
    /// The pod annotation that contains a W3C `traceparent`: the traces of the pod's calls link to it.
    pod_annotation "podAnnotation" as (annotation_name, write_scalar, TEXT): String, absent("none");
}

settings! {
    /// The size of the decision log.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Decisions: "a mapping such as {maxBytes: 64Mi}";
    /// The maximum size of the [decision log](decisions.md), which `explain` reads: a [size](#sizes) from 1Mi to 16Gi, or 0 to disable
    /// it. In memory it takes up to twice as much. The oldest calls are evicted first; those of pods without a node last.
    max_bytes "maxBytes" as (log_size, write_size, SIZE): usize, default(64 << 20);
}

settings! {
    /// The log on standard error.
    #[derive(Clone, Debug, PartialEq, Eq)]
    pub struct LogSettings: "a mapping such as {format: JSON, level: info}";
    /// The format of the log: `Text`, or `JSON` with one object per line.
    format "format": LogFormat, default(LogFormat::Text);
    /// `error`, `warn`, `info` or `debug`. The variable `RUST_LOG` takes precedence; `PUT /debug/flags/v` changes the level while the
    /// gateway runs.
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
