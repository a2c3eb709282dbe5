//! How kube-scheduler reaches the gateway: the URL, and the files that it needs for TLS. The gateway cannot know
//! either: both are about kube-scheduler's machine.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr};

use http::Uri;

use super::TlsFlags;
use crate::config::Config;

/// What stands in an entry where the operator has to fill in a file.
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
    /// The operator.
    Said,
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

/// What the operator says about kube-scheduler's files.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Credentials {
    /// The authorities of the gateway's certificate.
    pub ca: Option<String>,
    /// kube-scheduler's certificate and key.
    pub pair: Option<(String, String)>,
}

/// Why it cannot be said how kube-scheduler reaches the gateway.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub enum ReachError {
    /// Not a URL that kube-scheduler can put a verb behind.
    #[error("--url: {0:?} is not http://HOST:PORT or https://HOST:PORT with or without a path")]
    Url(String),
    /// The configuration takes a free port.
    #[error("extender.address has port 0, which is another one each time; say --url or give it a port")]
    NoPort,
    /// TLS on the one side only.
    #[error("--url: is http, and extender.tls is configured; an https URL")]
    PlainUrl,
    /// Files without TLS.
    #[error("--ca-file, --cert-file and --key-file go with TLS; extender.tls or an https URL")]
    NoTls,
}

impl Reach {
    /// From what the operator says; what is left out comes from the configuration or has to be filled in.
    ///
    /// # Errors
    /// The URL is no URL, or does not go with the configuration.
    pub fn new(config: &Config, url: Option<&str>, credentials: Credentials) -> Result<Self, ReachError> {
        let wanted = super::tls(config);
        let (url, source) = match url {
            Some(url) => (checked(url)?, UrlSource::Said),
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

    /// Whether there is a file that the operator has to fill in.
    pub fn is_to_be_filled_in(&self) -> bool {
        let pair = |(cert, key): &(String, String)| is_placeholder(cert) || is_placeholder(key);
        self.tls.as_ref().is_some_and(|tls| is_placeholder(&tls.ca) || tls.pair.as_ref().is_some_and(pair))
    }
}

impl TlsFiles {
    fn new(Credentials { ca, pair }: Credentials, wanted: TlsFlags) -> Self {
        let [ca_file, cert_file, key_file] = PLACEHOLDERS.map(str::to_owned);
        let asked = (wanted == TlsFlags::Mutual).then_some((cert_file, key_file));
        Self { ca: ca.unwrap_or(ca_file), pair: pair.or(asked) }
    }
}

/// Whether the operator has to put a file here.
pub(super) fn is_placeholder(file: &str) -> bool {
    PLACEHOLDERS.contains(&file)
}

/// A URL behind which kube-scheduler can put a slash and a verb. It takes slashes off the end itself.
fn checked(text: &str) -> Result<String, ReachError> {
    let wrong = || ReachError::Url(text.to_owned());
    let url: Uri = text.parse().map_err(|_| wrong())?;
    let has_host = url.host().is_some_and(|host| !host.is_empty());
    let scheme_is_right = matches!(url.scheme_str(), Some("http" | "https"));
    let ends = url.query().is_none() && !text.contains('#');
    if !(has_host && scheme_is_right && ends) {
        return Err(wrong());
    }
    // The scheme in the one way of writing it that everybody takes.
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
