//! Connects to a collector: TCP, with TLS for https URLs, for gRPC and HTTP.

use std::{path::Path, sync::Arc};

use http::uri::Scheme;
use hyper_rustls::{ConfigBuilderExt as _, HttpsConnectorBuilder, builderstates::WantsProtocols1};
use hyper_util::client::legacy::connect::HttpConnector;
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject as _},
};

use super::StartError;
use crate::Export;

/// A connector that uses TLS for https URLs.
pub(super) fn connector(export: &Export) -> Result<HttpsConnectorBuilder<WantsProtocols1>, StartError> {
    Ok(HttpsConnectorBuilder::new().with_tls_config(config(export)?).https_or_http())
}

/// Connections without Nagle's algorithm.
pub(super) fn tcp(export: &Export) -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(export.timeout));
    tcp
}

fn config(export: &Export) -> Result<ClientConfig, StartError> {
    let config = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions()?;
    let config = match &export.certificate {
        _ if export.endpoint.scheme() != Some(&Scheme::HTTPS) => {
            config.with_root_certificates(RootCertStore::empty())
        }
        Some(path) => config.with_root_certificates(roots(path)?),
        None => config.with_native_roots().map_err(StartError::NoRoots)?,
    };
    Ok(config.with_no_client_auth())
}

fn roots(path: &Path) -> Result<RootCertStore, StartError> {
    let unusable = |source| StartError::Certificate { path: path.to_owned(), source };
    let mut roots = RootCertStore::empty();
    for certificate in CertificateDer::pem_file_iter(path).map_err(unusable)? {
        roots.add(certificate.map_err(unusable)?)?;
    }
    if roots.is_empty() { Err(unusable(rustls::pki_types::pem::Error::NoItemsFound)) } else { Ok(roots) }
}
