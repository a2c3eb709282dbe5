//! The command line, and how to reach the backend.

use std::{path::PathBuf, time::Duration};

use bytes::Bytes;
use clap::{Args, Parser};
use conformance_report::Selection;
use extender_policy_api::v1beta1::{
    self as api, hook_service_server, introspection_service_server, node_table_service_server,
};
use tonic::transport::{Certificate, ClientTlsConfig, Endpoint, Identity};

use crate::{client::Client, trail::Trail};

/// The API that the suite checks.
pub(crate) const API_VERSION: &str = "extender.policy.v1beta1";

/// How long a connection may take.
const CONNECT: Duration = Duration::from_secs(10);

/// The timeout of a call unless the gateway's configuration has another one.
const CALL_TIMEOUT: Duration = Duration::from_millis(200);

const EXAMPLES: &str = "\
Examples:
  policy-conformance --endpoint http://127.0.0.1:9000
  policy-conformance --endpoint http://127.0.0.1:9000 --args '{\"zone\": \"eu-1a\"}' --junit report.xml
  policy-conformance --endpoint http://127.0.0.1:9000 --wait 30s --max-seconds 300 --report report.yaml
  policy-conformance --endpoint https://policy.shop.svc:9000 --tls-ca ca.crt --tls-cert client.crt --tls-key client.key
  policy-conformance --list

Exit status: 0 all cases pass or are skipped; 1 a case failed; 2 wrong usage, or the backend or
its --replica cannot be reached or refuses the handshake; no case was run.
SPEC.md has the rules by their numbers.";

/// Checks that a running policy backend keeps the rules of the policy API.
///
/// It asks what the gateway would ask, and what a careless or hostile peer might, by what the backend declares in its
/// handshake. Random pods and nodes are made of the labels that the backend declares and of the texts in the args.
#[derive(Clone, Debug, Parser)]
#[command(name = "policy-conformance", version, after_help = EXAMPLES)]
pub struct Options {
    /// The backend: http://HOST:PORT, or https:// for TLS.
    #[arg(long, value_name = "URL", required_unless_present = "list")]
    pub endpoint: Option<String>,
    /// How to ask it.
    #[command(flatten)]
    pub asking: Asking,
    /// Which cases run, and where their results go.
    #[command(flatten)]
    pub selection: Selection,
    /// The timeout that the gateway's configuration has for the backend: slower calls are a warning.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "200ms")]
    pub call_timeout: Duration,
    /// Ends after so many seconds: the cases that were not run are skipped.
    #[arg(long, value_name = "SECONDS")]
    pub max_seconds: Option<u64>,
    /// Rules of SHOULD count as failures, too.
    #[arg(long)]
    pub strict: bool,
}

/// How to reach and ask a backend.
#[derive(Args, Clone, Debug)]
pub struct Asking {
    /// The operator's args as one JSON object, as in the gateway's configuration.
    #[arg(long, value_name = "JSON")]
    pub args: Option<String>,
    /// Other valid args, with which the policy decides otherwise: one process can serve both.
    #[arg(long, value_name = "JSON")]
    pub other_args: Option<String>,
    /// Certificates that the server's must lead to, PEM.
    #[arg(long, value_name = "FILE")]
    pub tls_ca: Option<PathBuf>,
    /// The client's certificate, PEM, for mutual TLS.
    #[arg(long, value_name = "FILE", requires = "tls_key")]
    pub tls_cert: Option<PathBuf>,
    /// The key of --tls-cert, PEM.
    #[arg(long, value_name = "FILE", requires = "tls_cert")]
    pub tls_key: Option<PathBuf>,
    /// The name in the server's certificate, if it is not the host of the URL.
    #[arg(long, value_name = "NAME")]
    pub tls_server_name: Option<String>,
    /// Values of labels and annotations to try, besides those in --args; with KEY=, the values of this key alone.
    #[arg(long = "value", value_name = "[KEY=]VALUE")]
    pub values: Vec<String>,
    /// A pod and a node that the backend may bind: NAMESPACE/NAME/UID/NODE. Without, nothing is bound.
    #[arg(long, value_name = "POD")]
    pub bind: Option<String>,
    /// The random pods and nodes; each seed has others.
    #[arg(long, value_name = "NUMBER", default_value_t = 1)]
    pub seed: u64,
    /// Another replica of the backend, or the same policy in another language: equal revisions give equal answers.
    #[arg(long, value_name = "URL")]
    pub replica: Option<String>,
    /// How long the backend may take for an answer, in seconds.
    #[arg(long, value_name = "SECONDS", default_value_t = 30)]
    pub timeout: u64,
    /// Waits until a backend that is starting answers and its policy can decide, such as 30s.
    #[arg(long, value_name = "DURATION", value_parser = duration, default_value = "0s")]
    pub wait: Duration,
}

/// A pod that may be bound.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Bindable {
    pub(crate) namespace: String,
    pub(crate) name: String,
    pub(crate) uid: String,
    pub(crate) node: String,
}

/// Why nothing is asked.
#[derive(Debug, thiserror::Error)]
pub enum UsageError {
    /// The URL cannot be one of a backend.
    #[error("invalid --{option} {url:?}: {why}; expected http://HOST:PORT or https://HOST:PORT")]
    Endpoint {
        /// Of the command line.
        option: &'static str,
        /// As given.
        url: String,
        /// What is wrong.
        why: String,
    },
    /// A file cannot be read.
    #[error("cannot read --{option} {}: {source}", path.display())]
    File {
        /// Of the command line.
        option: &'static str,
        /// As given.
        path: PathBuf,
        /// The system's answer.
        source: std::io::Error,
    },
    /// The args are not an object.
    #[error("invalid --{0}: {1}; expected one JSON object such as '{{\"zone\": \"eu-1a\"}}'")]
    Args(&'static str, String),
    /// The pod to bind is incomplete.
    #[error("invalid --bind {0:?}; expected NAMESPACE/NAME/UID/NODE")]
    Bind(String),
    /// Files of TLS, and a URL without it.
    #[error("--tls-... is given, and --{0} {1} is not an https:// URL")]
    NotTls(&'static str, String),
}

/// A backend, and what the operator would configure for it.
#[derive(Clone, Debug)]
pub struct Target {
    pub(crate) url: String,
    endpoint: Endpoint,
    pub(crate) args: Bytes,
    other_args: Option<Bytes>,
    pub(crate) values: Vec<String>,
    pub(crate) bindable: Option<Bindable>,
    replica: Option<(String, Endpoint)>,
    pub(crate) seed: u64,
    patience: Duration,
    pub(crate) wait: Duration,
    pub(crate) call_timeout: Duration,
    pub(crate) trail: Trail,
}

impl Options {
    /// Reads the files and checks what can be checked without the backend.
    ///
    /// # Errors
    ///
    /// [`UsageError`] with the option that is wrong.
    pub fn target(&self) -> Result<Target, UsageError> {
        let target = self.asking.target(self.endpoint.as_deref().unwrap_or_default())?;
        Ok(Target { call_timeout: self.call_timeout, ..target })
    }
}

impl Asking {
    /// The backend at this URL.
    ///
    /// # Errors
    ///
    /// [`UsageError`] with the option that is wrong.
    pub fn target(&self, url: &str) -> Result<Target, UsageError> {
        Ok(Target {
            endpoint: self.endpoint("endpoint", url)?,
            args: self.args.as_deref().map(|args| object("args", args)).transpose()?.unwrap_or_default(),
            other_args: self.other_args.as_deref().map(|args| object("other-args", args)).transpose()?,
            values: self.values.clone(),
            replica: self.replica()?,
            bindable: self.bind.as_deref().map(bindable).transpose()?,
            seed: self.seed,
            patience: Duration::from_secs(self.timeout.max(1)),
            wait: self.wait,
            call_timeout: CALL_TIMEOUT,
            trail: Trail::default(),
            url: url.to_owned(),
        })
    }

    fn replica(&self) -> Result<Option<(String, Endpoint)>, UsageError> {
        let Some(url) = &self.replica else { return Ok(None) };
        Ok(Some((url.clone(), self.endpoint("replica", url)?)))
    }

    fn endpoint(&self, option: &'static str, url: &str) -> Result<Endpoint, UsageError> {
        let invalid = |why: String| UsageError::Endpoint { option, url: url.to_owned(), why };
        let uri: http::Uri =
            url.parse().map_err(|error: http::uri::InvalidUri| invalid(error.to_string()))?;
        let endpoint = Endpoint::from(uri.clone()).connect_timeout(CONNECT);
        match uri.scheme_str() {
            Some("http") if self.tls_ca.is_some() || self.tls_cert.is_some() => {
                Err(UsageError::NotTls(option, url.to_owned()))
            }
            Some("http") => Ok(endpoint),
            Some("https") => endpoint.tls_config(self.tls()?).map_err(|error| invalid(crate::causes(&error))),
            _ => Err(invalid("it has another scheme, or none".to_owned())),
        }
    }

    fn tls(&self) -> Result<ClientTlsConfig, UsageError> {
        let mut tls = ClientTlsConfig::new();
        if let Some(path) = &self.tls_ca {
            tls = tls.ca_certificate(Certificate::from_pem(read("tls-ca", path)?));
        }
        if let (Some(cert), Some(key)) = (&self.tls_cert, &self.tls_key) {
            tls = tls.identity(Identity::from_pem(read("tls-cert", cert)?, read("tls-key", key)?));
        }
        if let Some(name) = &self.tls_server_name {
            tls = tls.domain_name(name.clone());
        }
        Ok(tls)
    }
}

impl Target {
    /// A connection without TLS and HTTP/2.
    pub(crate) async fn silent(&self) -> std::io::Result<tokio::net::TcpStream> {
        let uri = self.endpoint.uri();
        let port = uri.port_u16().unwrap_or(if uri.scheme_str() == Some("https") { 443 } else { 80 });
        let host = uri.host().unwrap_or_default().trim_matches(['[', ']']);
        tokio::net::TcpStream::connect((host, port)).await
    }

    /// Another connection to the backend.
    pub(crate) async fn connect(&self) -> Result<Client, tonic::transport::Error> {
        Client::connect(&self.endpoint, self.patience, self.trail.clone()).await
    }

    /// All args that are given, as a list in JSON.
    pub(crate) fn all_args(&self) -> Vec<u8> {
        let given = [Some(&self.args), self.other_args.as_ref()].into_iter().flatten();
        let given: Vec<_> = given.filter(|args| !args.is_empty()).map(|args| &**args).collect();
        [b"[", &*given.join(&b','), b"]"].concat()
    }

    /// The same process with the other args; `None` if there are none.
    pub(crate) fn other(&self) -> Option<Self> {
        let args = self.other_args.clone()?;
        Some(Self { args, url: format!("{} with --other-args", self.url), ..self.clone() })
    }

    /// The URL of another replica and a connection to it; `None` if there is none.
    pub(crate) async fn connect_replica(&self) -> Option<(String, Result<Client, tonic::transport::Error>)> {
        let (url, endpoint) = self.replica.as_ref()?;
        Some((url.clone(), Client::connect(endpoint, self.patience, Trail::default()).await))
    }

    /// The handshake of a gateway.
    pub(crate) fn info_request(&self) -> api::GetInfoRequest {
        api::GetInfoRequest {
            gateway_version: env!("CARGO_PKG_VERSION").to_owned(),
            api_versions: vec![API_VERSION.to_owned()],
            backend: "conformance".to_owned(),
            args: self.args.clone(),
            known: Some(known()),
        }
    }
}

/// What a gateway of this version knows.
fn known() -> api::Known {
    fn all<E: TryFrom<i32>>() -> Vec<i32> {
        (1..64).filter(|number| E::try_from(*number).is_ok()).collect()
    }
    let services = [
        hook_service_server::SERVICE_NAME,
        introspection_service_server::SERVICE_NAME,
        node_table_service_server::SERVICE_NAME,
    ];
    api::Known {
        verbs: all::<api::Verb>(),
        pod_parts: all::<api::PodPart>(),
        node_parts: all::<api::NodePart>(),
        pod_counts: all::<api::PodCountBy>(),
        changes: all::<api::ChangedPart>(),
        normalizations: all::<api::Normalization>(),
        features: Vec::new(),
        services: services.map(str::to_owned).into(),
    }
}

/// `200ms`, `10s`, `2m`; a number alone is one of seconds.
fn duration(text: &str) -> Result<Duration, String> {
    let number = text.trim_end_matches(|char: char| char.is_ascii_alphabetic());
    let unit = match text.get(number.len()..) {
        Some("ms") => Some(0.001),
        Some("" | "s") => Some(1.0),
        Some("m") => Some(60.0),
        _ => None,
    };
    let seconds = unit.zip(number.parse::<f64>().ok()).map(|(unit, number)| unit * number);
    seconds
        .and_then(|seconds| Duration::try_from_secs_f64(seconds).ok())
        .ok_or_else(|| "expected a duration such as 200ms, 10s or 2m".to_owned())
}

fn read(option: &'static str, path: &PathBuf) -> Result<Vec<u8>, UsageError> {
    std::fs::read(path).map_err(|source| UsageError::File { option, path: path.clone(), source })
}

fn object(option: &'static str, args: &str) -> Result<Bytes, UsageError> {
    match serde_json::from_str(args) {
        Ok(serde_json::Value::Object(_)) => Ok(args.to_owned().into()),
        Ok(_) => Err(UsageError::Args(option, "it is not an object".to_owned())),
        Err(error) => Err(UsageError::Args(option, error.to_string())),
    }
}

fn bindable(text: &str) -> Result<Bindable, UsageError> {
    let parts: Vec<_> = text.split('/').map(str::to_owned).collect();
    match <[String; 4]>::try_from(parts) {
        Ok(parts) if parts.iter().any(String::is_empty) => Err(UsageError::Bind(text.to_owned())),
        Ok([namespace, name, uid, node]) => Ok(Bindable { namespace, name, uid, node }),
        Err(_) => Err(UsageError::Bind(text.to_owned())),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn options(arguments: &[&str]) -> Options {
        let arguments = [&["policy-conformance"], arguments].concat();
        Options::try_parse_from(arguments).unwrap()
    }

    #[test]
    fn durations_have_units() {
        for (text, milliseconds) in [("200ms", 200), ("10", 10_000), ("1.5s", 1_500), ("2m", 120_000)] {
            assert_eq!(duration(text), Ok(Duration::from_millis(milliseconds)));
        }
        for wrong in ["", "ms", "-1s", "1h", "inf"] {
            assert!(duration(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn wrong_usage_names_the_option_and_the_remedy() {
        for (arguments, expected) in [
            (&["--endpoint", "127.0.0.1:9000"][..], "expected http://HOST:PORT"),
            (&["--endpoint", "ftp://a:1"], "another scheme"),
            (&["--endpoint", "http://a:1", "--replica", "a:1"], "invalid --replica \"a:1\""),
            (&["--endpoint", "http://a:1", "--args", "[]"], "not an object"),
            (&["--endpoint", "http://a:1", "--args", "{"], "invalid --args"),
            (&["--endpoint", "http://a:1", "--other-args", "1"], "invalid --other-args: it is not an object"),
            (&["--endpoint", "http://a:1", "--bind", "a/b"], "NAMESPACE/NAME/UID/NODE"),
            (&["--endpoint", "http://a:1", "--tls-ca", "/missing"], "not an https:// URL"),
            (&["--endpoint", "https://a:1", "--tls-ca", "/missing"], "cannot read --tls-ca /missing"),
        ] {
            let error = options(arguments).target().unwrap_err().to_string();
            assert!(error.contains(expected), "{error:?} lacks {expected:?}");
        }
    }
}
