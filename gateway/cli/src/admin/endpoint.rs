//! The replicas to query: by the URL of an admin address, or as pods through the apiserver.

use std::{fmt, net::SocketAddr, sync::Arc};

use extender_gateway_settings::BackendUrl;
use k8s_openapi::api::core::v1::Pod;
use kube::{Api, Client, api::ListParams};
use tokio::net::lookup_host;

use super::{
    access::Access,
    pod::AdminPod,
    request::{self, AdminQuery, QueryError, with_timeout},
};

use crate::apiserver::error_text;

/// How to reach one replica.
pub(super) enum AdminEndpoint {
    /// Directly at an address of the URL's host.
    Address { url: BackendUrl, address: SocketAddr, access: Arc<Access> },
    /// Through the apiserver.
    Pod(AdminPod),
}

/// Parses the URL of an admin address: a scheme, a host and a port.
pub(super) fn admin_url(text: &str) -> Result<BackendUrl, String> {
    BackendUrl::new(text.strip_suffix('/').unwrap_or(text)).map_err(|wrong| {
        format!("{wrong}; expected http://HOST:PORT or https://HOST:PORT such as http://127.0.0.1:9403")
    })
}

/// All addresses of the URL's host.
pub(super) async fn addresses(
    url: &BackendUrl,
    access: &Result<Arc<Access>, Arc<QueryError>>,
) -> Result<Vec<AdminEndpoint>, QueryError> {
    let access = access.as_ref().map_err(|error| QueryError::Access(Arc::clone(error)))?;
    let found = lookup_host((url.host(), url.port())).await.map_err(QueryError::Name)?;
    let endpoint = |address| AdminEndpoint::Address { url: url.clone(), address, access: Arc::clone(access) };
    Ok(of_one_family(found.collect()).into_iter().map(endpoint).collect())
}

/// If there are IPv4 and IPv6 addresses, only the IPv4 ones: on dual-stack hosts the others belong to the same
/// replicas, and for `localhost` a gateway listens on 127.0.0.1.
fn of_one_family(mut addresses: Vec<SocketAddr>) -> Vec<SocketAddr> {
    if addresses.iter().any(SocketAddr::is_ipv4) {
        addresses.retain(SocketAddr::is_ipv4);
    }
    addresses.sort_unstable();
    addresses.dedup();
    addresses
}

/// The running pods with these labels, a selector in kubectl's syntax.
///
/// # Errors
/// The apiserver does not list them, or there is none.
pub(super) async fn pods(
    client: &Client,
    namespace: &str,
    labels: &str,
    port: u16,
    access: &Result<Arc<Access>, Arc<QueryError>>,
) -> Result<Vec<AdminEndpoint>, QueryError> {
    let access = access.as_ref().map_err(|error| QueryError::Access(Arc::clone(error)))?;
    let pods: Api<Pod> = Api::namespaced(client.clone(), namespace);
    let params = ListParams::default().labels(labels);
    let listed =
        with_timeout(pods.list(&params)).await?.map_err(|error| QueryError::Apiserver(error_text(error)))?;
    let names = listed.items.into_iter().filter(is_running).filter_map(|pod| pod.metadata.name);
    let endpoint = |name| {
        let (client, access) = (client.clone(), Arc::clone(access));
        AdminEndpoint::Pod(AdminPod { client, namespace: namespace.to_owned(), name, port, access })
    };
    let endpoints: Vec<_> = names.map(endpoint).collect();
    if endpoints.is_empty() { Err(QueryError::NoPods) } else { Ok(endpoints) }
}

fn is_running(pod: &Pod) -> bool {
    pod.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Running")
}

impl AdminEndpoint {
    /// The body of the response.
    pub(super) async fn query(&self, query: AdminQuery<'_>) -> Result<Vec<u8>, QueryError> {
        match self {
            Self::Address { url, address, access } => request::direct(url, *address, access, query).await,
            Self::Pod(pod) => pod.query(query).await,
        }
    }
}

impl fmt::Display for AdminEndpoint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Address { url, address, .. } if url.host().parse() == Ok(address.ip()) => {
                write!(f, "{url}")
            }
            Self::Address { url, address, .. } => write!(f, "{url} ({})", address.ip()),
            Self::Pod(pod) => pod.fmt(f),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls() {
        for text in ["http://127.0.0.1:9403", "https://gateways.gateway.svc:9403/", "http://[::1]:1"] {
            let url = admin_url(text).unwrap();
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
        ] {
            let error = admin_url(text).unwrap_err();
            assert!(error.starts_with(wrong), "{text}: {error}");
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
