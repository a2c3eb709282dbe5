//! OTLP over HTTP: requests are tasks of the runtime, and the exporter's thread waits for them.

use std::fmt;

use async_trait::async_trait;
use http::{
    HeaderMap, HeaderValue,
    header::{CONTENT_TYPE, USER_AGENT},
};
use hyper_rustls::HttpsConnector;
use hyper_util::client::legacy::connect::HttpConnector;
use opentelemetry_http::{Bytes, HttpClient, HttpError, Request, Response, hyper::HyperClient};
use opentelemetry_otlp::{Protocol, WithExportConfig, WithHttpConfig};
use tokio::runtime::Handle;

use super::{StartError, tls};
use crate::Export;

/// Configures an HTTP exporter.
pub(super) fn set<B: WithHttpConfig + WithExportConfig>(
    builder: B,
    export: &Export,
    runtime: &Handle,
) -> Result<B, StartError> {
    let connector = tls::connector(export)?.enable_http1().wrap_connector(tls::tcp(export));
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
        let headers = self.headers_for(request.headers());
        *request.headers_mut() = headers;
        let connections = self.connections.clone();
        self.runtime.spawn(async move { connections.send_bytes(request).await }).await?
    }
}

impl Client {
    /// The content headers, and ours. Nothing else: the exporter has added the headers of the environment, which
    /// may be for another collector.
    fn headers_for(&self, given: &HeaderMap) -> HeaderMap {
        let mut headers = self.headers.clone();
        headers.extend(given.get(CONTENT_TYPE).map(|value| (CONTENT_TYPE, value.clone())));
        headers.entry(USER_AGENT).or_insert(HeaderValue::from_static(super::USER_AGENT));
        headers
    }
}

impl fmt::Debug for Client {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Client").finish_non_exhaustive()
    }
}
