//! What can be seen of the gateway, and where it goes.

use std::{fmt, net::SocketAddr, time::Duration};

/// Where the gateway says what it decided and how it is.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Admin {
    /// Where it listens. Default 127.0.0.1:9403; port 0 takes a free one.
    pub address: SocketAddr,
}

/// How an OpenTelemetry collector is reached. What is `None` the `OTEL_EXPORTER_OTLP_*` variables say.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Otlp {
    /// `http://HOST:PORT` or `https://HOST:PORT`.
    pub endpoint: Option<String>,
    /// What is spoken there.
    pub protocol: Option<OtlpProtocol>,
    /// How long an export may take.
    pub timeout: Option<Duration>,
}

/// What is spoken with a collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum OtlpProtocol {
    /// OTLP/gRPC.
    Grpc,
    /// OTLP/HTTP with protobuf.
    HttpProtobuf,
}

/// Whether something goes to a collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exporter {
    /// It does not.
    None,
    /// It does.
    Otlp,
}

/// Which calls become traces.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Traces {
    /// Whether there are any. `None`: as the `OTEL_*` variables say.
    pub exporter: Option<Exporter>,
    /// Of which pods. `None`: as `OTEL_TRACES_SAMPLER` says.
    pub ratio: Option<Ratio>,
    /// Calls that take longer are kept whatever the ratio. Default 500 ms.
    pub keep_slower_than: Duration,
    /// The pods' annotation with a W3C `traceparent` that traces are linked to.
    pub pod_annotation: Option<String>,
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

/// How much of what was decided is kept to be looked at.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Decisions {
    /// Bytes of the decision log; 0 switches it off. Default 64 Mi.
    pub max_bytes: usize,
}

/// The log on standard error.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Log {
    /// How lines are written. Default text.
    pub format: LogFormat,
    /// Which lines are written. Default info.
    pub level: LogLevel,
}

/// How lines are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogFormat {
    /// For people.
    Text,
    /// One JSON object a line.
    Json,
}

/// The least important lines that are written.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LogLevel {
    /// Failures.
    Error,
    /// And what should be looked at.
    Warn,
    /// And what happens seldom.
    Info,
    /// And what happens with each call.
    Debug,
}
