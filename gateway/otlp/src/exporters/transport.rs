//! Connections to a collector for OTLP over gRPC and HTTP, with TLS for https URLs. They are tasks of the runtime.

use std::{fmt, path::Path, sync::Arc};

use async_trait::async_trait;
use http::{
    HeaderMap, HeaderValue, Uri,
    header::{CONTENT_TYPE, USER_AGENT},
    uri::Scheme,
};
use hyper_rustls::{
    ConfigBuilderExt as _, HttpsConnector, HttpsConnectorBuilder, builderstates::WantsProtocols1,
};
use hyper_util::client::legacy::connect::HttpConnector;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response, hyper::HyperClient};
use opentelemetry_otlp::{Protocol, WithExportConfig, WithHttpConfig, WithTonicConfig};
use rustls::{
    ClientConfig, RootCertStore,
    crypto::ring,
    pki_types::{CertificateDer, pem::PemObject as _},
};
use tokio::runtime::Handle;
use tonic::{
    metadata::MetadataMap,
    transport::{Channel, Endpoint},
};
use tower::ServiceExt as _;

use super::{OUR_USER_AGENT, StartError};
use crate::Export;

/// Configures a gRPC exporter.
pub(super) fn grpc<B: WithTonicConfig + WithExportConfig>(
    builder: B,
    export: &Export,
    runtime: &Handle,
) -> Result<B, StartError> {
    let metadata = MetadataMap::from_headers(export.headers.clone());
    // Replaces all headers: the exporter has added those of the environment, which may be for another collector.
    let ours = move |mut request: tonic::Request<()>| {
        *request.metadata_mut() = metadata.clone();
        Ok(request)
    };
    let builder = builder.with_channel(channel(export, runtime)?).with_interceptor(ours);
    Ok(builder.with_protocol(Protocol::Grpc).with_timeout(export.timeout))
}

fn channel(export: &Export, runtime: &Handle) -> Result<Channel, StartError> {
    let url = export.endpoint.clone();
    let connector = connector(export)?.enable_http2().wrap_connector(tcp(export));
    let connector = connector.map_request({
        let url = url.clone();
        move |_: Uri| url.clone()
    });
    // While a connection is being made, only its own limit counts.
    let endpoint = Endpoint::from(without_tls(&url))
        .origin(url)
        .user_agent(OUR_USER_AGENT)
        .expect("a constant of visible ASCII")
        .timeout(export.timeout)
        .connect_timeout(export.timeout);
    let _inside = runtime.enter();
    Ok(endpoint.connect_with_connector_lazy(connector))
}

/// The URL as tonic is told it, while the connector and the requests have the real one: where another crate of the build
/// switches on tonic's own TLS, tonic refuses an https URL for which that is not configured, whatever the connector does.
fn without_tls(url: &Uri) -> Uri {
    let mut parts = url.clone().into_parts();
    parts.scheme = Some(Scheme::HTTP);
    Uri::from_parts(parts).expect("a URL with another scheme is a URL")
}

/// Configures an HTTP exporter. Its thread waits for the requests.
pub(super) fn http<B: WithHttpConfig + WithExportConfig>(
    builder: B,
    export: &Export,
    runtime: &Handle,
) -> Result<B, StartError> {
    let connector = connector(export)?.enable_http1().wrap_connector(tcp(export));
    let connections = HyperClient::new(connector, export.timeout, None);
    let client = Client { connections, headers: export.headers.clone(), runtime: runtime.clone() };
    let builder = builder.with_http_client(client).with_endpoint(export.endpoint.to_string());
    Ok(builder.with_protocol(Protocol::HttpBinary).with_timeout(export.timeout))
}

/// Hands requests to the runtime.
struct Client {
    connections: HyperClient<HttpsConnector<HttpConnector>>,
    headers: HeaderMap,
    runtime: Handle,
}

#[async_trait]
impl HttpClient for Client {
    async fn send_bytes(&self, mut request: Request<Bytes>) -> Result<Response<Bytes>, HttpError> {
        // The content headers, and ours. Nothing else: the exporter has added the headers of the environment, which
        // may be for another collector.
        let mut headers = self.headers.clone();
        headers.extend(request.headers().get(CONTENT_TYPE).map(|value| (CONTENT_TYPE, value.clone())));
        headers.entry(USER_AGENT).or_insert(HeaderValue::from_static(OUR_USER_AGENT));
        *request.headers_mut() = headers;
        let connections = self.connections.clone();
        self.runtime.spawn(async move { connections.send_bytes(request).await }).await?
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}

/// A connector that uses TLS for https URLs.
fn connector(export: &Export) -> Result<HttpsConnectorBuilder<WantsProtocols1>, StartError> {
    Ok(HttpsConnectorBuilder::new().with_tls_config(tls_config(export)?).https_or_http())
}

/// Connections without Nagle's algorithm.
fn tcp(export: &Export) -> HttpConnector {
    let mut tcp = HttpConnector::new();
    tcp.enforce_http(false);
    tcp.set_nodelay(true);
    tcp.set_connect_timeout(Some(export.timeout));
    tcp
}

fn tls_config(export: &Export) -> Result<ClientConfig, StartError> {
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
