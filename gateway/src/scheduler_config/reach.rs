//! How kube-scheduler reaches the gateway: the URL and the TLS files. Both depend on kube-scheduler's machine,
//! which the gateway cannot see.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use http::Uri;

use super::TlsFlags;
use crate::config::Config;

/// Placeholders for files that the operator must fill in.
const PLACEHOLDERS: [&str; 3] = ["/FILL/IN/ca.crt", "/FILL/IN/tls.crt", "/FILL/IN/tls.key"];

/// How kube-scheduler reaches the gateway.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Reach {
    /// `urlPrefix`, without slashes at the end.
    pub url: String,
    /// Whether the URL is only a guess.
    pub source: UrlSource,
    /// `None`: no TLS.
    pub tls: Option<TlsFiles>,
}

/// Where the URL comes from.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum UrlSource {
    /// `--url`.
    Given,
    /// `extender.address`, as seen from the gateway's own machine.
    Address,
}

/// `tlsConfig`, as paths on kube-scheduler's machine.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TlsFiles {
    /// `caFile`. Never absent: kube-scheduler would then not check the gateway's certificate at all.
    pub ca: String,
    /// `certFile` and `keyFile`.
    pub pair: Option<(String, String)>,
}

/// kube-scheduler's TLS files as given by the operator.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credentials {
    /// The CA of the gateway's certificate.
    pub ca: Option<String>,
    /// kube-scheduler's certificate and key.
    pub pair: Option<(String, String)>,
}

/// Why the entries cannot be written.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReachError {
    /// Not a URL to which kube-scheduler can append a verb.
    #[error("--url: {0:?} is not http://HOST:PORT or https://HOST:PORT with or without a path")]
    Url(String),
    /// The port is chosen at each start.
    #[error("extender.address has port 0, a new port at each start; set --url or a port")]
    NoPort,
    /// TLS on one side only.
    #[error("--url is http, but extender.tls is configured; use an https URL")]
    PlainUrl,
    /// Files without TLS.
    #[error("--ca-file, --cert-file and --key-file require TLS; configure extender.tls or use an https URL")]
    NoTls,
}

impl Reach {
    /// Combines the operator's options with the configuration, with placeholders for the rest.
    ///
    /// # Errors
    /// The URL is invalid, or conflicts with the configuration.
    pub fn new(config: &Config, url: Option<&str>, credentials: Credentials) -> Result<Self, ReachError> {
        let wanted = super::tls(config);
        let (url, source) = match url {
            Some(url) => (checked(url)?, UrlSource::Given),
            None => (guessed(config.extender.address, wanted)?, UrlSource::Address),
        };
        let tls = match (url.starts_with("https:"), wanted) {
            (false, TlsFlags::Server | TlsFlags::Mutual) => return Err(ReachError::PlainUrl),
            (false, TlsFlags::None) if credentials != Credentials::default() => {
                return Err(ReachError::NoTls);
            }
            (false, TlsFlags::None) => None,
            (true, _) => Some(TlsFiles::new(credentials, wanted)),
        };
        Ok(Self { url, source, tls })
    }

    /// Whether there are placeholders.
    pub fn has_placeholders(&self) -> bool {
        let pair = |(cert, key): &(String, String)| is_placeholder(cert) || is_placeholder(key);
        self.tls.as_ref().is_some_and(|tls| is_placeholder(&tls.ca) || tls.pair.as_ref().is_some_and(pair))
    }
}

impl TlsFiles {
    fn new(Credentials { ca, pair }: Credentials, wanted: TlsFlags) -> Self {
        let [ca_file, cert_file, key_file] = PLACEHOLDERS.map(str::to_owned);
        let required = (wanted == TlsFlags::Mutual).then_some((cert_file, key_file));
        Self { ca: ca.unwrap_or(ca_file), pair: pair.or(required) }
    }
}

/// Whether this is a placeholder.
pub(super) fn is_placeholder(file: &str) -> bool {
    PLACEHOLDERS.contains(&file)
}

/// A URL to which kube-scheduler can append a slash and a verb. It removes trailing slashes itself.
fn checked(text: &str) -> Result<String, ReachError> {
    let wrong = || ReachError::Url(text.to_owned());
    let url: Uri = text.parse().map_err(|_| wrong())?;
    let has_host = url.host().is_some_and(|host| !host.is_empty());
    let scheme_is_right = matches!(url.scheme_str(), Some("http" | "https"));
    let ends = url.query().is_none() && !text.contains('#');
    if !(has_host && scheme_is_right && ends) {
        return Err(wrong());
    }
    // Lower case, which every client accepts.
    let (scheme, rest) = text.split_once(':').ok_or_else(wrong)?;
    Ok(format!("{}:{}", scheme.to_ascii_lowercase(), rest.trim_end_matches('/')))
}

/// The address as seen from the same machine.
fn guessed(address: SocketAddr, tls: TlsFlags) -> Result<String, ReachError> {
    if address.port() == 0 {
        return Err(ReachError::NoPort);
    }
    let ip = match address.ip() {
        IpAddr::V4(ip) if ip.is_unspecified() => IpAddr::V4(Ipv4Addr::LOCALHOST),
        IpAddr::V6(ip) if ip.is_unspecified() => IpAddr::V6(Ipv6Addr::LOCALHOST),
        ip => ip,
    };
    let scheme = if tls == TlsFlags::None { "http" } else { "https" };
    Ok(format!("{scheme}://{}", SocketAddr::new(ip, address.port())))
}
