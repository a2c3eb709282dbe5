//! The URL of a backend: `http://HOST:PORT` or `https://HOST:PORT` and nothing else.

use std::fmt;
use std::net::{Ipv4Addr, Ipv6Addr};

use extender_config::echo;
use http::uri::Scheme;

/// The longest DNS name in bytes.
const LONGEST_NAME: usize = 253;
/// The longest label of a DNS name in bytes.
const LONGEST_LABEL: usize = 63;

/// A backend's address: HTTP/2 with or without TLS, a host and a port; no user, path or query.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct BackendUrl {
    scheme: Scheme,
    /// A DNS name, an IPv4 address, or an IPv6 address without brackets.
    host: String,
    port: u16,
}

impl BackendUrl {
    /// Parses `http://HOST:PORT` or `https://HOST:PORT`; an IPv6 address is in brackets.
    ///
    /// # Errors
    /// The error in the text, as the predicate of a sentence.
    pub fn new(text: &str) -> Result<Self, String> {
        let (scheme, rest) = without_scheme(text)?;
        if let Some(position) = rest.find(['/', '?', '#']) {
            return Err(format!("has {} after the host and port", echo(&rest[position..])));
        }
        if rest.contains('@') {
            return Err("has a user".to_owned());
        }
        let (host, port) = host_and_port(rest)?;
        Ok(Self { scheme, host: host.to_owned(), port: valid_port(port)? })
    }

    /// `http`, or `https` if TLS is used.
    pub fn scheme(&self) -> &Scheme {
        &self.scheme
    }

    /// A DNS name or an IP address, without brackets.
    pub fn host(&self) -> &str {
        &self.host
    }

    /// 1 to 65535.
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `HOST:PORT`, the value of HTTP/2's `:authority`.
    pub fn authority(&self) -> String {
        let Self { host, port, .. } = self;
        if host.contains(':') { format!("[{host}]:{port}") } else { format!("{host}:{port}") }
    }
}

impl fmt::Display for BackendUrl {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(out, "{}://{}", self.scheme, self.authority())
    }
}

fn without_scheme(text: &str) -> Result<(Scheme, &str), String> {
    match text.split_once("://") {
        Some(("http", rest)) => Ok((Scheme::HTTP, rest)),
        Some(("https", rest)) => Ok((Scheme::HTTPS, rest)),
        Some((scheme, _)) => Err(format!("has the scheme {}", echo(scheme))),
        None => Err(format!("{} has no scheme", echo(text))),
    }
}

/// Splits at the colon before the port; an IPv6 address must have brackets, which are removed.
fn host_and_port(rest: &str) -> Result<(&str, &str), String> {
    let (split, is_host): (_, fn(&str) -> bool) = match rest.strip_prefix('[') {
        Some(inner) => (inner.split_once("]:"), is_ipv6),
        None => (rest.rsplit_once(':'), is_ipv4_or_name),
    };
    let (host, port) = split.ok_or_else(|| format!("{} has no port", echo(rest)))?;
    if is_host(host) { Ok((host, port)) } else { Err(format!("{} is not a host", echo(host))) }
}

fn valid_port(port: &str) -> Result<u16, String> {
    let digits = !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit());
    let number = port.parse().ok().filter(|number| digits && *number > 0);
    number.ok_or_else(|| format!("{} is not a port", echo(port)))
}

/// Whether a text is a DNS name, an IPv4 address, or an IPv6 address without brackets.
pub(super) fn is_host(text: &str) -> bool {
    is_ipv6(text) || is_ipv4_or_name(text)
}

fn is_ipv6(host: &str) -> bool {
    host.parse::<Ipv6Addr>().is_ok()
}

/// A host that ends with a number is an IPv4 address: no top-level domain is a number.
fn is_ipv4_or_name(host: &str) -> bool {
    let last = host.trim_end_matches('.').rsplit('.').next().unwrap_or_default();
    if last.bytes().all(|byte| byte.is_ascii_digit()) {
        return host.parse::<Ipv4Addr>().is_ok();
    }
    is_dns_name(host)
}

fn is_dns_name(host: &str) -> bool {
    let host = host.strip_suffix('.').unwrap_or(host);
    host.len() <= LONGEST_NAME && host.split('.').all(is_dns_label)
}

/// A label as resolvers accept it: underscores occur in service names outside Kubernetes.
fn is_dns_label(label: &str) -> bool {
    (1..=LONGEST_LABEL).contains(&label.len())
        && label.bytes().all(|byte| byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_'))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn hosts_and_ports() {
        let cases = [
            (
                "http://rack-drain.policies.svc:9000",
                "rack-drain.policies.svc",
                9000,
                "rack-drain.policies.svc:9000",
            ),
            ("http://a:1", "a", 1, "a:1"),
            ("http://a.b.:65535", "a.b.", 65535, "a.b.:65535"),
            ("http://127.0.0.1:80", "127.0.0.1", 80, "127.0.0.1:80"),
            ("http://[::1]:80", "::1", 80, "[::1]:80"),
            ("https://a:443", "a", 443, "a:443"),
        ];
        for (text, host, port, authority) in cases {
            let url = BackendUrl::new(text).unwrap();
            assert_eq!((url.host(), url.port(), url.authority().as_str()), (host, port, authority));
            assert_eq!(url.to_string(), text);
        }
    }

    #[test]
    fn texts_that_are_no_url_of_a_backend() {
        let cases = [
            ("", "\"\" has no scheme"),
            ("a:1", "\"a:1\" has no scheme"),
            ("grpc://a:1", "has the scheme \"grpc\""),
            ("HTTPS://a:1", "has the scheme \"HTTPS\""),
            ("http://a", "\"a\" has no port"),
            ("http://[::1]", "\"[::1]\" has no port"),
            ("http://:1", "\"\" is not a host"),
            ("http://a:0", "\"0\" is not a port"),
            ("http://a:65536", "\"65536\" is not a port"),
            ("http://a:+1", "\"+1\" is not a port"),
            ("http://a:", "\"\" is not a port"),
            ("http://a:1/", "has \"/\" after the host and port"),
            ("http://a:1?x", "has \"?x\" after the host and port"),
            ("http://user:secret@a:1", "has a user"),
            ("http://::1:1", "\"::1\" is not a host"),
            ("http://[a]:1", "\"a\" is not a host"),
            ("http://a..b:1", "\"a..b\" is not a host"),
            ("http://1.2.3:1", "\"1.2.3\" is not a host"),
            ("http://1.2.3.256:1", "\"1.2.3.256\" is not a host"),
            ("http://a b:1", "\"a b\" is not a host"),
        ];
        for (text, expected) in cases {
            assert_eq!(BackendUrl::new(text), Err(expected.to_owned()), "{text}");
        }
    }
}
