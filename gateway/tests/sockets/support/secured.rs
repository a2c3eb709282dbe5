//! A gateway that serves TLS, and its clients.

use std::{future::pending, net::SocketAddr, sync::Arc};

use bytes::Bytes;
use extender_gateway_settings::Config;
use h2::client::SendRequest;
use http::Request;
use rustls::{ClientConfig, pki_types::ServerName};
use serde_json::{Value, json};
use tokio::net::TcpStream;
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::{
    Gateway,
    backend::{Scripted, configured},
    by_name,
    certificates::{Authority, Folder, Identity},
    configuration,
    http::Client,
};

/// The name in the gateway's certificates.
pub(crate) const NAME: &str = "gateway.test";
pub(crate) const HTTP_1: &[&str] = &["http/1.1"];
pub(crate) const HTTP_2: &[&str] = &["h2"];

/// A gateway with certificates: its own authority, that of its callers, and where the files are.
pub(crate) struct Secured {
    pub(crate) gateway: Gateway,
    pub(crate) backend: Scripted,
    pub(crate) servers: Authority,
    pub(crate) callers: Authority,
    pub(crate) folder: Folder,
}

impl Secured {
    /// With these further fields of `extender.tls`; `ca.crt` has the authority of callers.
    pub(crate) async fn start(fields: &str) -> Self {
        Self::start_before(fields, Scripted::refusing(&["a"], "no", 0).await).await
    }

    pub(crate) async fn start_before(fields: &str, backend: Scripted) -> Self {
        Self::start_until(fields, backend, pending()).await
    }

    /// One that serves until `stop` ends.
    pub(crate) async fn start_until(
        fields: &str,
        backend: Scripted,
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        Self::start_by((fields, ""), backend, |_| {}, stop).await
    }

    /// With these further fields of the configuration, which is changed after validation.
    pub(crate) async fn start_changed(rest: &str, backend: Scripted, change: fn(&mut Config)) -> Self {
        Self::start_by(("", rest), backend, change, pending()).await
    }

    async fn start_by(
        (fields, rest): (&str, &str),
        backend: Scripted,
        change: fn(&mut Config),
        stop: impl Future<Output = ()> + Send + 'static,
    ) -> Self {
        let (servers, callers, folder) =
            (Authority::new("servers"), Authority::new("callers"), Folder::new());
        folder.identity("tls", &servers.issue(NAME, &[NAME]));
        folder.authority("ca", &callers);
        let file = |name: &str| folder.path(name).display().to_string();
        let fields = fields.replace("CALLERS", &file("ca.crt"));
        let extender =
            format!(", tls: {{certFile: {}, keyFile: {}{fields}}}", file("tls.crt"), file("tls.key"));
        let only = configured("only", &backend, "filter: {timeout: 60s}, score: {}");
        let rest =
            format!("{rest}timeouts: {{decision: 60s}}\nnodes: {{source: Request}}\nbackends:\n{only}");
        let mut config = configuration(&extender, &rest);
        change(&mut config);
        let gateway = Gateway::start_with(config, stop).await;
        Self { gateway, backend, servers, callers, folder }
    }

    pub(crate) fn client(&self, identity: Option<&Identity>, protocols: &[&str]) -> Arc<ClientConfig> {
        self.servers.client(identity, protocols)
    }

    /// The answer to one filter call; without an answer, the client's error.
    pub(crate) async fn filter(&self, client: &Arc<ClientConfig>) -> Result<Value, String> {
        let mut client = connect(self.gateway.address, client).await?;
        // With TLS 1.3 a client learns from its first read that its certificate is rejected.
        client.write(&http(&by_name(&["a", "b"]))).await;
        match tokio::io::AsyncReadExt::read_u8(&mut client.stream).await {
            Err(error) => Err(error.to_string()),
            Ok(first) => {
                assert_eq!(first, b'H');
                Ok(client.rest_of_answer(vec![first]).await.json())
            }
        }
    }
}

pub(crate) fn http(body: &str) -> Vec<u8> {
    format!("POST /filter HTTP/1.1\r\nHost: gateway\r\nContent-Length: {}\r\n\r\n{body}", body.len()).into()
}

pub(crate) async fn open(
    address: SocketAddr,
    config: &Arc<ClientConfig>,
) -> Result<TlsStream<TcpStream>, String> {
    let stream = TcpStream::connect(address).await.unwrap();
    let connector = TlsConnector::from(Arc::clone(config));
    let opened = connector.connect(ServerName::try_from(NAME).unwrap(), stream).await;
    opened.map_err(|error| error.to_string())
}

pub(crate) async fn connect(
    address: SocketAddr,
    config: &Arc<ClientConfig>,
) -> Result<Client<TlsStream<TcpStream>>, String> {
    open(address, config).await.map(|stream| Client { stream })
}

pub(crate) async fn connect_h2(address: SocketAddr, config: &Arc<ClientConfig>) -> SendRequest<Bytes> {
    let stream = open(address, config).await.unwrap();
    assert_eq!(stream.get_ref().1.alpn_protocol(), Some(&b"h2"[..]));
    let (requests, connection) = h2::client::handshake(stream).await.unwrap();
    tokio::spawn(connection);
    requests
}

pub(crate) fn post(path: &str) -> Request<()> {
    Request::post(format!("https://{NAME}{path}")).body(()).unwrap()
}

pub(crate) fn accepted() -> Value {
    json!({"NodeNames": ["b"], "FailedNodes": {}, "FailedAndUnresolvableNodes": {"a": "only: no"}, "Error": ""})
}
