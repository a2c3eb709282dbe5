//! `http://HOST:PORT` of an admin address, and the addresses behind it.

use std::{fmt, io, net::SocketAddr, str::FromStr};

use crate::config::{BackendUrl, Scheme};

/// The URL of an admin address: HTTP without TLS, a host and a port.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct AdminUrl(BackendUrl);

impl FromStr for AdminUrl {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let url = BackendUrl::new(text.strip_suffix('/').unwrap_or(text));
        let url =
            url.map_err(|wrong| format!("{wrong}; expected http://HOST:PORT such as http://127.0.0.1:9403"))?;
        match url.scheme() {
            Scheme::Http => Ok(Self(url)),
            Scheme::Https => {
                Err("an admin address uses HTTP without TLS; set http://HOST:PORT, and reach it through \
                                  a tunnel, or with --gateway-namespace through the apiserver"
                    .to_owned())
            }
        }
    }
}

impl AdminUrl {
    /// `HOST:PORT`.
    pub(super) fn authority(&self) -> String {
        self.0.authority()
    }

    /// Whether its host is this address itself.
    pub(super) fn is(&self, address: SocketAddr) -> bool {
        self.0.host().parse() == Ok(address.ip())
    }

    /// All addresses of the host. If there are IPv4 and IPv6 addresses, only the IPv4 ones: on dual-stack hosts the
    /// others belong to the same replicas, and for `localhost` a gateway listens on 127.0.0.1.
    pub(super) async fn addresses(&self) -> io::Result<Vec<SocketAddr>> {
        let found = tokio::net::lookup_host((self.0.host(), self.0.port())).await?;
        Ok(of_one_family(found.collect()))
    }
}

fn of_one_family(mut addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    if addresses.iter().any(SocketAddr::is_ipv4) {
        addresses.retain(SocketAddr::is_ipv4);
    }
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

impl fmt::Display for AdminUrl {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        for text in ["http://127.0.0.1:9403", "http://gateways.gateway.svc:9403/", "http://[::1]:1"] {
            let url: AdminUrl = text.parse().unwrap();
            assert_eq!(url.to_string(), text.trim_end_matches('/'));
        }
        for (text, wrong) in [
            ("", "\"\" has no scheme; expected http://HOST:PORT"),
            ("127.0.0.1:9403", "\"127.0.0.1:9403\" has no scheme; expected http://HOST:PORT"),
            ("http://gateway", "\"gateway\" has no port; expected http://HOST:PORT"),
            (
                "http://gateway:9403/debug",
                "has \"/debug\" after the host and port; expected http://HOST:PORT",
            ),
            ("https://gateway:9403", "an admin address uses HTTP without TLS; set http://HOST:PORT, and"),
        ] {
            let told = text.parse::<AdminUrl>().unwrap_err();
            assert!(told.starts_with(wrong), "{text}: {told}");
        }
    }

    #[test]
    fn a_name_with_two_families_is_asked_in_one() {
        let addresses = |texts: &[&str]| texts.iter().map(|text| text.parse().unwrap()).collect::<Vec<_>>();
        let both = addresses(&["[::1]:1", "10.0.0.2:1", "10.0.0.1:1", "10.0.0.2:1"]);
        assert_eq!(of_one_family(both), addresses(&["10.0.0.1:1", "10.0.0.2:1"]));
        assert_eq!(of_one_family(addresses(&["[::2]:1", "[::1]:1"])), addresses(&["[::1]:1", "[::2]:1"]));
    }
}
