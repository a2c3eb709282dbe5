//! The exporter's settings: endpoint, protocol, headers, timeout, certificate.

use std::{fmt, path::PathBuf, time::Duration};

use http::{HeaderMap, HeaderName, HeaderValue, Uri};

use super::{
    Explicit,
    variables::{Variables, boolean, milliseconds, pairs},
};

/// Settings of an exporter.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// An http or https URL; for HTTP including the path.
    pub endpoint: Uri,
    /// The protocol.
    pub protocol: Protocol,
    /// Sent with each request.
    pub headers: HeaderMap,
    /// How long an export may take, including retries.
    pub timeout: Duration,
    /// A file with CA certificates for the collector; `None`: those of the system.
    pub certificate: Option<PathBuf>,
}

/// Whether spans are sent: `OTEL_TRACES_EXPORTER`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exporter {
    /// No.
    None,
    /// To a collector.
    Otlp,
}

/// The protocol of a collector.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Protocol {
    /// gRPC; collectors listen on port 4317 for it.
    Grpc,
    /// Protobuf in HTTP/1.1 requests; collectors listen on port 4318 for it.
    Http,
}

impl Protocol {
    /// By the name that `OTEL_EXPORTER_OTLP_PROTOCOL` has for it.
    ///
    /// # Errors
    /// What is expected.
    pub fn named(name: &str) -> Result<Self, &'static str> {
        match name {
            "grpc" => Ok(Self::Grpc),
            "http/protobuf" => Ok(Self::Http),
            _ => Err("expected grpc or http/protobuf"),
        }
    }

    /// The default protocol follows from the port: the specification's default is http/protobuf, but port 4317
    /// serves gRPC.
    fn of(endpoint: Option<&Uri>) -> Self {
        if endpoint.and_then(Uri::port_u16) == Some(GRPC_PORT) { Self::Grpc } else { Self::Http }
    }

    fn default_endpoint(self) -> Uri {
        Uri::from_static(match self {
            Self::Grpc => "http://localhost:4317",
            Self::Http => "http://localhost:4318",
        })
    }
}

impl fmt::Display for Protocol {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Grpc => "grpc",
            Self::Http => "http/protobuf",
        })
    }
}

const GRPC_PORT: u16 = 4317;
const TIMEOUT: Duration = Duration::from_secs(10);

/// The exporter's settings, if spans are sent.
pub(super) fn traces(explicit: &Explicit, variables: &mut Variables<'_>) -> Option<Export> {
    let given = endpoint(explicit, variables);
    let exporter = exporter(explicit, variables);
    let sent = exporter.unwrap_or(if given.is_some() { Exporter::Otlp } else { Exporter::None });
    (sent == Exporter::Otlp).then(|| export(given, explicit, variables))
}

fn exporter(explicit: &Explicit, variables: &mut Variables<'_>) -> Option<Exporter> {
    let disabled = |variables: &mut Variables<'_>| variables.read("OTEL_SDK_DISABLED", boolean) == Some(true);
    match explicit.traces {
        Some(exporter) => Some(exporter),
        None if disabled(variables) => Some(Exporter::None),
        None => variables.read("OTEL_TRACES_EXPORTER", named),
    }
}

fn export(given: Option<Given>, explicit: &Explicit, variables: &mut Variables<'_>) -> Export {
    let protocol = read(variables, "PROTOCOL", Protocol::named);
    let uri = given.as_ref().map(|given| &given.uri);
    let protocol = explicit.protocol.or(protocol).unwrap_or_else(|| Protocol::of(uri));
    let endpoint = match given {
        None => posted(&protocol.default_endpoint(), protocol),
        Some(Given { uri, whole: true }) => uri,
        Some(Given { uri, whole: false }) => posted(&uri, protocol),
    };
    let timeout = read(variables, "TIMEOUT", milliseconds);
    read(variables, "COMPRESSION", uncompressed);
    Export {
        endpoint,
        protocol,
        headers: headers(variables),
        timeout: explicit.timeout.or(timeout).unwrap_or(TIMEOUT),
        certificate: text(variables, "CERTIFICATE").map(|(_, path)| path.into()),
    }
}

/// The URL for requests. gRPC has no path.
fn posted(base: &Uri, protocol: Protocol) -> Uri {
    let posted = || format!("{}/v1/traces", base.to_string().trim_end_matches('/')).parse();
    match protocol {
        Protocol::Grpc => base.clone(),
        Protocol::Http => posted().unwrap_or_else(|_| base.clone()),
    }
}

fn headers(variables: &mut Variables<'_>) -> HeaderMap {
    let parse = |text: &str| pairs(text).map_err(str::to_owned).and_then(header_map);
    let name = text(variables, "HEADERS").map(|(name, _)| name);
    name.and_then(|name| variables.read_secret(&name, parse)).unwrap_or_default()
}

fn endpoint(explicit: &Explicit, variables: &mut Variables<'_>) -> Option<Given> {
    if let Some(text) = &explicit.endpoint {
        let ignored =
            |expected| variables.mistake(format!("the OTLP endpoint {text:?} is ignored: {expected}"));
        return address(text).map_err(ignored).ok().map(|uri| Given { uri, whole: false });
    }
    let of_traces = variables.read(&of_traces("ENDPOINT"), address).map(|uri| Given { uri, whole: true });
    of_traces.or_else(|| Some(Given { uri: variables.read(&of_all("ENDPOINT"), address)?, whole: false }))
}

/// The value of traces, or that of all signals.
fn read<T>(
    variables: &mut Variables<'_>,
    what: &str,
    parse: impl Fn(&str) -> Result<T, &'static str>,
) -> Option<T> {
    [of_traces(what), of_all(what)].iter().find_map(|name| variables.read(name, &parse))
}

/// The variable of traces, or that of all signals, with its name.
fn text(variables: &Variables<'_>, what: &str) -> Option<(String, String)> {
    let names = [of_traces(what), of_all(what)];
    names.into_iter().find_map(|name| variables.text(&name).map(|text| (name, text)))
}

fn of_all(what: &str) -> String {
    format!("OTEL_EXPORTER_OTLP_{what}")
}

fn of_traces(what: &str) -> String {
    format!("OTEL_EXPORTER_OTLP_TRACES_{what}")
}

/// An endpoint as it was given.
struct Given {
    uri: Uri,
    /// It is the complete URL, to which no path is appended.
    whole: bool,
}

fn named(text: &str) -> Result<Exporter, &'static str> {
    match text {
        "otlp" => Ok(Exporter::Otlp),
        "none" => Ok(Exporter::None),
        _ => Err("expected otlp or none"),
    }
}

fn uncompressed(text: &str) -> Result<(), &'static str> {
    if text == "none" { Ok(()) } else { Err("spans are sent without compression") }
}

fn address(text: &str) -> Result<Uri, &'static str> {
    let uri: Option<Uri> = text.parse().ok();
    let uri = uri.filter(|uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.host() != Some(""));
    uri.ok_or("expected http://HOST:PORT or https://HOST:PORT")
}

/// The error names the header, not its value.
fn header_map(pairs: Vec<(String, String)>) -> Result<HeaderMap, String> {
    let header = |(name, value): (String, String)| {
        let key = HeaderName::try_from(&name).map_err(|_| format!("{name:?} is not the name of a header"))?;
        let mut value = HeaderValue::try_from(value)
            .map_err(|_| format!("the value of header {name} contains invalid characters"))?;
        value.set_sensitive(true);
        Ok((key, value))
    };
    pairs.into_iter().map(header).collect()
}
