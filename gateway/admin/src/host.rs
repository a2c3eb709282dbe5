//! Which host names a request may have. A page of the web can make its own name resolve to the address of a port that is
//! forwarded to a workstation (DNS rebinding), and then reads what is served there as if it were its own. The name in its
//! requests gives it away: it is one of the public DNS.

use std::{collections::BTreeSet, net::IpAddr};

use axum::http::{HeaderMap, Uri, header::HOST, uri::Authority};

/// Endings of names that nobody can register: of this machine, the network, and a cluster.
const PRIVATE: [&str; 4] = ["localhost", "local", "internal", "svc"];

/// Whether a request may be answered: its host is an IP address, a name that the public DNS cannot have, or one of these.
/// A request without a host does not come from a browser.
pub(super) fn is_allowed(uri: &Uri, headers: &HeaderMap, names: &BTreeSet<String>) -> bool {
    let mut hosts = headers.get_all(HOST).iter();
    let header = match (hosts.next(), hosts.next()) {
        (None, _) => None,
        (Some(host), None) => Some(host.to_str().ok().and_then(|host| host.parse::<Authority>().ok())),
        (Some(_), Some(_)) => Some(None),
    };
    let is_allowed = |authority: &Authority| {
        let host = without_dot(authority.host());
        is_private(host) || names.contains(&host.to_ascii_lowercase())
    };
    // An absolute URL, as for a proxy, has a host of its own.
    uri.authority().is_none_or(is_allowed)
        && header.is_none_or(|host| host.is_some_and(|host| is_allowed(&host)))
}

/// A name of the DNS may end with the dot of the root.
fn without_dot(host: &str) -> &str {
    host.strip_suffix('.').unwrap_or(host)
}

fn is_private(host: &str) -> bool {
    let literal = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let last = host.rsplit('.').next().unwrap_or(host);
    let is_private = |ending: &&str| last.eq_ignore_ascii_case(ending);
    literal.parse::<IpAddr>().is_ok() || !host.contains('.') || PRIVATE.iter().any(is_private)
}

#[cfg(test)]
mod tests {
    use axum::http::HeaderValue;

    use super::*;

    fn allowed(hosts: &[&str], uri: &str) -> bool {
        let mut headers = HeaderMap::new();
        for host in hosts {
            headers.append(HOST, HeaderValue::from_str(host).unwrap());
        }
        is_allowed(&uri.parse().unwrap(), &headers, &["gateway.example.com".to_owned()].into())
    }

    #[test]
    fn names_of_the_public_dns_are_refused() {
        for host in [
            "127.0.0.1:9403",
            "[::1]:9403",
            "10.1.2.3",
            "localhost:9403",
            "LOCALHOST",
            "a.localhost",
            "gateway",
            "extender-gateway.kube-system.svc:9403",
            "gateway.kube-system.svc.cluster.local.",
            "gateway.example.com:80",
            "Gateway.example.com.",
        ] {
            assert!(allowed(&[host], "/debug/status"), "{host}");
        }
        for host in [
            "evil.example:9403",
            "127.0.0.1.evil.example",
            "localhost.evil.example",
            "svc.evil.example",
            "a b",
            "",
            "other.example.com",
            "user@evil.example",
            "127.0.0.1@evil.example",
        ] {
            assert!(!allowed(&[host], "/debug/status"), "{host}");
        }
        assert!(allowed(&[], "/debug/status"), "HTTP/1.0");
        assert!(!allowed(&["localhost", "evil.example"], "/"));
        assert!(!allowed(&["localhost"], "http://evil.example/debug/status"));
        assert!(allowed(&["localhost"], "http://localhost/debug/status"));
    }
}
