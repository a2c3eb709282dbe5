//! How kube-scheduler reaches the gateway: the URL and the TLS files. Both depend on kube-scheduler's machine,
//! which the gateway cannot see.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use extender_gateway_settings::Config;
use http::Uri;
use serde::Serialize;

use super::TlsFlags;

/// Placeholders for files that the operator must fill in.
const PLACEHOLDERS: [&str; 3] = ["/FILL/IN/ca.crt", "/FILL/IN/tls.crt", "/FILL/IN/tls.key"];

/// How kube-scheduler reaches the gateway.
#[derive(Debug, PartialEq, Eq)]
pub struct Reach {
    /// `urlPrefix`, without slashes at the end.
    pub url: String,
    /// The URL is `extender.address` as seen from the gateway's own machine, since `--url` is not set.
    pub is_assumed: bool,
    /// `None`: no TLS. The CA is always set: kube-scheduler would otherwise not check the gateway's certificate.
    pub tls: Option<TlsFiles>,
}

/// `tlsConfig`: paths on kube-scheduler's machine, as far as they are known.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize)]
pub struct TlsFiles {
    /// The CA of the gateway's certificate.
    #[serde(rename = "caFile")]
    pub ca: Option<String>,
    /// kube-scheduler's certificate.
    #[serde(rename = "certFile", skip_serializing_if = "Option::is_none")]
    pub cert: Option<String>,
    /// The key of that certificate; set if the certificate is.
    #[serde(rename = "keyFile", skip_serializing_if = "Option::is_none")]
    pub key: Option<String>,
}

/// Why the entries cannot be written.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReachError {
    /// Not a URL to which kube-scheduler can append a verb.
    #[error("--url: {0:?} is not http://HOST:PORT or https://HOST:PORT with or without a path")]
    Url(String),
    #[error("extender.address has port 0, a new port at each start; set --url or a port")]
    NoPort,
    #[error("--url is http, but extender.tls is configured; use an https URL")]
    PlainUrl,
    #[error("--ca-file, --cert-file and --key-file require TLS; configure extender.tls or use an https URL")]
    NoTls,
}

impl Reach {
    /// Combines the operator's options with the configuration, with placeholders for the rest.
    ///
    /// # Errors
    /// The URL is invalid, or conflicts with the configuration.
    pub fn new(config: &Config, url: Option<&str>, files: TlsFiles) -> Result<Self, ReachError> {
        let required = super::tls(config);
        let is_assumed = url.is_none();
        let url = match url {
            Some(url) => checked(url)?,
            None => local_url(config.extender.address, required)?,
        };
        let tls = match (url.starts_with("https:"), required) {
            (false, TlsFlags::Server | TlsFlags::Mutual) => return Err(ReachError::PlainUrl),
            (false, TlsFlags::None) if files != TlsFiles::default() => return Err(ReachError::NoTls),
            (false, TlsFlags::None) => None,
            (true, _) => Some(files.with_placeholders(required)),
        };
        Ok(Self { url, is_assumed, tls })
    }

    /// Whether there are placeholders.
    pub fn has_placeholders(&self) -> bool {
        let files = self.tls.iter().flat_map(|tls| [&tls.ca, &tls.cert, &tls.key]);
        files.flatten().any(|file| is_placeholder(file))
    }
}

impl TlsFiles {
    fn with_placeholders(mut self, required: TlsFlags) -> Self {
        let [ca, cert, key] = PLACEHOLDERS.map(str::to_owned);
        self.ca.get_or_insert(ca);
        if required == TlsFlags::Mutual {
            self.cert.get_or_insert(cert);
            self.key.get_or_insert(key);
        }
        self
    }
}

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
fn local_url(address: SocketAddr, tls: TlsFlags) -> Result<String, ReachError> {
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
