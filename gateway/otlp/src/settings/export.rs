//! Where one signal goes.

use std::{fmt, path::PathBuf, time::Duration};

use http::{HeaderMap, HeaderName, HeaderValue, Uri};

use super::{
    Explicit,
    variables::{Variables, boolean, milliseconds, pairs},
};

/// Where spans or metrics go.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Export {
    /// An http or https address; for HTTP with the path that is posted to.
    pub endpoint: Uri,
    /// How it is spoken to.
    pub protocol: Protocol,
    /// Sent with each request.
    pub headers: HeaderMap,
    /// How long an export may take, its repetitions together.
    pub timeout: Duration,
    /// A file with the certificates of who may have signed the collector's; those of the system when there is none.
    pub certificate: Option<PathBuf>,
}

/// Whether a signal is sent: `OTEL_TRACES_EXPORTER`, `OTEL_METRICS_EXPORTER`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Exporter {
    /// It is not.
    None,
    /// To a collector.
    Otlp,
}

/// How a collector is spoken to.
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
    ///
    /// What would be right.
    pub fn named(name: &str) -> Result<Self, &'static str> {
        match name {
            "grpc" => Ok(Self::Grpc),
            "http/protobuf" => Ok(Self::Http),
            _ => Err("grpc or http/protobuf would be right"),
        }
    }

    /// The port says it, where it is not said: http/protobuf is the default of the specification, but nothing listens
    /// for it where gRPC is served.
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

/// What can be sent.
#[derive(Clone, Copy, Debug)]
pub(super) enum Signal {
    Traces,
    Metrics,
}

impl Signal {
    /// Where the signal goes, if it is sent.
    pub(super) fn export(self, explicit: &Explicit, variables: &mut Variables<'_>) -> Option<Export> {
        let given = self.endpoint(explicit, variables);
        let said = self.said(explicit, variables);
        let sent = said.unwrap_or(if given.is_some() { Exporter::Otlp } else { Exporter::None });
        (sent == Exporter::Otlp).then(|| self.sent(given, explicit, variables))
    }

    fn said(self, explicit: &Explicit, variables: &mut Variables<'_>) -> Option<Exporter> {
        let (explicit, name) = match self {
            Self::Traces => (explicit.traces, "OTEL_TRACES_EXPORTER"),
            Self::Metrics => (explicit.metrics, "OTEL_METRICS_EXPORTER"),
        };
        let disabled =
            |variables: &mut Variables<'_>| variables.read("OTEL_SDK_DISABLED", boolean) == Some(true);
        match explicit {
            Some(exporter) => Some(exporter),
            None if disabled(variables) => Some(Exporter::None),
            None => variables.read(name, exporter),
        }
    }

    fn sent(self, given: Option<Given>, explicit: &Explicit, variables: &mut Variables<'_>) -> Export {
        let protocol = self.read(variables, "PROTOCOL", Protocol::named);
        let uri = given.as_ref().map(|given| &given.text).and_then(|text| address(text).ok());
        let protocol = explicit.protocol.or(protocol).unwrap_or_else(|| Protocol::of(uri.as_ref()));
        let endpoint = given.map_or_else(
            || Some(self.posted(&protocol.default_endpoint(), protocol)),
            |given| self.checked(&given, protocol, variables),
        );
        let timeout = self.read(variables, "TIMEOUT", milliseconds);
        Export {
            // What is wrong has been noted, and the default comes to nothing.
            endpoint: endpoint.unwrap_or_else(|| protocol.default_endpoint()),
            protocol,
            headers: self.headers(variables),
            timeout: explicit.timeout.or(timeout).unwrap_or(TIMEOUT),
            certificate: self.text(variables, "CERTIFICATE").map(|(_, path)| path.into()),
        }
    }

    fn checked(self, given: &Given, protocol: Protocol, variables: &mut Variables<'_>) -> Option<Uri> {
        match address(&given.text) {
            Err(right) => {
                variables.mistake(format!("{}={:?} cannot be used: {right}", given.name, given.text));
                None
            }
            Ok(uri) if given.whole => Some(uri),
            Ok(uri) => Some(self.posted(&uri, protocol)),
        }
    }

    /// The address that is posted to. gRPC has none of its own.
    fn posted(self, base: &Uri, protocol: Protocol) -> Uri {
        let path = match self {
            Self::Traces => "v1/traces",
            Self::Metrics => "v1/metrics",
        };
        let posted = || format!("{}/{path}", base.to_string().trim_end_matches('/')).parse();
        match protocol {
            Protocol::Grpc => base.clone(),
            Protocol::Http => posted().unwrap_or_else(|_| base.clone()),
        }
    }

    fn headers(self, variables: &mut Variables<'_>) -> HeaderMap {
        let parse = |text: &str| pairs(text).map_err(str::to_owned).and_then(header_map);
        let name = self.text(variables, "HEADERS").map(|(name, _)| name);
        name.and_then(|name| variables.read_secret(&name, parse)).unwrap_or_default()
    }

    fn endpoint(self, explicit: &Explicit, variables: &Variables<'_>) -> Option<Given> {
        let said =
            |text: &String| Given { name: "the OTLP endpoint".to_owned(), text: text.clone(), whole: false };
        explicit.endpoint.as_ref().map(said).or_else(|| {
            let (name, text) = self.text(variables, "ENDPOINT")?;
            Some(Given { whole: name == self.variable("ENDPOINT"), name, text })
        })
    }

    fn read<T>(
        self,
        variables: &mut Variables<'_>,
        what: &str,
        parse: impl FnOnce(&str) -> Result<T, &'static str>,
    ) -> Option<T> {
        let (name, _) = self.text(variables, what)?;
        variables.read(&name, parse)
    }

    /// The signal's own variable, or that of all signals, with its name.
    fn text(self, variables: &Variables<'_>, what: &str) -> Option<(String, String)> {
        let names = [self.variable(what), format!("OTEL_EXPORTER_OTLP_{what}")];
        names.into_iter().find_map(|name| variables.text(&name).map(|text| (name, text)))
    }

    fn variable(self, what: &str) -> String {
        let signal = match self {
            Self::Traces => "TRACES",
            Self::Metrics => "METRICS",
        };
        format!("OTEL_EXPORTER_OTLP_{signal}_{what}")
    }
}

/// An endpoint as it was given.
struct Given {
    /// Who gave it.
    name: String,
    text: String,
    /// It is the address that is posted to, and gets no path.
    whole: bool,
}

fn exporter(text: &str) -> Result<Exporter, &'static str> {
    match text {
        "otlp" => Ok(Exporter::Otlp),
        "none" => Ok(Exporter::None),
        _ => Err("otlp or none would be right"),
    }
}

fn address(text: &str) -> Result<Uri, &'static str> {
    let uri: Option<Uri> = text.parse().ok();
    let uri = uri.filter(|uri| matches!(uri.scheme_str(), Some("http" | "https")) && uri.host() != Some(""));
    uri.ok_or("http://HOST:PORT or https://HOST:PORT would be right")
}

/// The error names the header, not its value.
fn header_map(pairs: Vec<(String, String)>) -> Result<HeaderMap, String> {
    let header = |(name, value): (String, String)| {
        let key = HeaderName::try_from(&name).map_err(|_| format!("{name:?} is not the name of a header"))?;
        let mut value = HeaderValue::try_from(value)
            .map_err(|_| format!("the value of header {name} holds what no header may hold"))?;
        value.set_sensitive(true);
        Ok((key, value))
    };
    pairs.into_iter().map(header).collect()
}
