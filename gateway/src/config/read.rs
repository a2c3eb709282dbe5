//! Which fields the configuration has, and what each may say. The backends' fields are in [`backend`].

mod backend;
mod nodes;
mod value;

use std::net::{IpAddr, Ipv4Addr, SocketAddr};
use std::path::Path;
use std::time::Duration;

use super::cursor::{Cursor, Fields, Mistakes, Section};
use super::mistake::echo;
use super::yaml::{Node, Value};
use super::{API_VERSION, Config, ConfigErrors, Extender, KIND, Metrics, ReasonPrefix};
use value::{address, choice, duration, field_or, size};

const DEFAULT_EXTENDER: SocketAddr = any_address(8888);
const DEFAULT_METRICS: SocketAddr = any_address(9402);
const DEFAULT_REQUEST_BYTES: usize = 128 << 20;
const DEFAULT_DECISION: Duration = Duration::from_secs(1);

const LEAVE_OUT: &str = "leave it out";

const ROOT: Fields = Fields {
    right: "a mapping with apiVersion, kind and backends",
    known: &[
        "apiVersion",
        "kind",
        "extender",
        "metrics",
        "timeouts",
        "nodes",
        "reasons",
        "binder",
        "backends",
    ],
    unsupported: &[
        ("admin", LEAVE_OUT),
        ("exempt", "leave it out: backends are asked about the pods of every namespace"),
    ],
};
const EXTENDER: Fields = Fields {
    right: "a mapping such as {address: 0.0.0.0:8888}",
    known: &["address", "maxRequestBytes"],
    unsupported: &[
        ("tls", "leave it out, and use `enableHTTPS: false` in kube-scheduler's configuration"),
        ("http2", "leave it out: kube-scheduler is served over HTTP/1.1"),
    ],
};
const METRICS: Fields = Fields {
    right: "a mapping such as {address: 0.0.0.0:9402}",
    known: &["address"],
    unsupported: &[("tls", LEAVE_OUT)],
};
const TIMEOUTS: Fields = Fields {
    right: "a mapping such as {decision: 1s}",
    known: &["decision"],
    unsupported: &[("bind", LEAVE_OUT)],
};
const REASONS: Fields =
    Fields { right: "a mapping such as {prefix: Backend}", known: &["prefix"], unsupported: &[] };

const fn any_address(port: u16) -> SocketAddr {
    SocketAddr::new(IpAddr::V4(Ipv4Addr::UNSPECIFIED), port)
}

/// The configuration that a document says, or all its mistakes.
pub(super) fn config(document: &Node, folder: &Path) -> Result<Config, ConfigErrors> {
    let mistakes = Mistakes::default();
    let config = root(Cursor::root(document, &mistakes), folder);
    mistakes.settle(config)
}

fn root(document: Cursor<'_>, folder: &Path) -> Option<Config> {
    if matches!(document.value(), Value::Null) {
        document
            .mistake("the file is empty", &format!("apiVersion: {API_VERSION}, kind: {KIND} and backends"));
        return None;
    }
    let fields = document.section(&ROOT)?;
    constant(&fields, "apiVersion", API_VERSION);
    constant(&fields, "kind", KIND);
    no_binder(&fields);
    let extender = extender(&fields);
    let metrics = metrics(&fields, extender.as_ref());
    let decision_timeout = decision_timeout(&fields);
    let nodes = nodes::source(&fields, folder);
    let reason_prefix = reason_prefix(&fields);
    let backends = backend::all(&fields, decision_timeout);
    Some(Config {
        extender: extender?,
        metrics: metrics?,
        decision_timeout: decision_timeout?,
        nodes: nodes?,
        reason_prefix: reason_prefix?,
        backends: backends?,
    })
}

/// A field that says which format this is.
fn constant(fields: &Section<'_>, name: &str, only: &str) {
    if let Some(field) = fields.required(name, only) {
        field.parsed(only, |text| if text == only { Ok(()) } else { Err(format!("is {}", echo(text))) });
    }
}

fn no_binder(fields: &Section<'_>) {
    let Some(binder) = fields.optional("binder") else { return };
    binder.parsed("None, or leave it out", |text| match text {
        "None" => Ok(()),
        other => Err(format!("{} is not supported by this version", echo(other))),
    });
}

fn extender(root: &Section<'_>) -> Option<Extender> {
    let fields = root.subsection("extender", &EXTENDER)?;
    let address = field_or(&fields, "address", DEFAULT_EXTENDER, address);
    let max_request_bytes = field_or(&fields, "maxRequestBytes", DEFAULT_REQUEST_BYTES, size);
    Some(Extender { address: address?, max_request_bytes: max_request_bytes? })
}

fn metrics(root: &Section<'_>, extender: Option<&Extender>) -> Option<Metrics> {
    let fields = root.subsection("metrics", &METRICS)?;
    let address = field_or(&fields, "address", DEFAULT_METRICS, address)?;
    if extender.is_some_and(|extender| collide(extender.address, address)) {
        let wrong = format!("{address} is where extender listens");
        fields.mistake_of("address", wrong, "a port of its own");
    }
    Some(Metrics { address })
}

/// Whether two doors cannot listen at once. Port 0 is a free one each time.
fn collide(one: SocketAddr, other: SocketAddr) -> bool {
    let same_ip = one.ip() == other.ip() || one.ip().is_unspecified() || other.ip().is_unspecified();
    one.port() == other.port() && one.port() != 0 && same_ip
}

fn decision_timeout(root: &Section<'_>) -> Option<Duration> {
    let fields = root.subsection("timeouts", &TIMEOUTS)?;
    field_or(&fields, "decision", DEFAULT_DECISION, duration)
}

fn reason_prefix(root: &Section<'_>) -> Option<ReasonPrefix> {
    let fields = root.subsection("reasons", &REASONS)?;
    field_or(&fields, "prefix", ReasonPrefix::Backend, choice)
}
