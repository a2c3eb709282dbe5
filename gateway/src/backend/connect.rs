//! Connects to a backend: TCP, TLS if the URL is `https`, HTTP/2.
//!
//! TLS files are read for each connection, so that a new connection uses their current content.

mod ended;

use std::{future::ready, io, sync::Arc, time::Duration};

use extender_gateway_core::{BackendFailure, FailureKind};
use futures_util::future::BoxFuture;
use hyper_util::rt::TokioIo;
use rustls::{ClientConfig, crypto::ring, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    task::spawn_blocking,
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};
use tonic::transport::{Channel, Endpoint};
use tower::service_fn;

use self::ended::Watched;
use super::frame_budget::Budgeted;
use crate::{
    config::{self, BackendTls},
    tls::{IdentityFiles, PemError, PemFile},
};

/// The flow-control window for an HTTP/2 peer; frames of this size are the fastest.
const MEGABYTE: u32 = 1 << 20;
/// How many reset streams h2 remembers: answers to calls that timed out or were no longer needed cross the reset.
/// An answer on a forgotten stream counts as a connection error, and h2 closes the connection after 1,024 of them.
/// With h2's default of 50 streams for one second this happens soon if many calls are decided without this backend.
const REMEMBERED_RESETS: usize = 1024;
const REMEMBERED_FOR: Duration = Duration::from_secs(5);
/// tonic appends its own name.
const AGENT: &str = concat!("extender-gateway/", env!("CARGO_PKG_VERSION"));
/// The ALPN name of HTTP/2.
const HTTP_2: &[u8] = b"h2";

/// The handle that sends requests, and the end of its connection, which is closed when this future is dropped.
pub(super) type Connected = (Channel, BoxFuture<'static, Result<(), io::Error>>);

/// Connects within this time.
///
/// # Errors
/// The backend is unreachable at any step up to the HTTP/2 handshake.
pub(super) async fn connect(
    backend: &config::BackendSettings,
    within: Duration,
) -> Result<Connected, BackendFailure> {
    let late = |_| cannot(&backend.url, &format!("no answer within {} ms", within.as_millis()));
    timeout(within, open(backend)).await.map_err(late)?
}

async fn open(backend: &config::BackendSettings) -> Result<Connected, BackendFailure> {
    let url = &backend.url;
    let refused = |error: io::Error| {
        let why = if error.raw_os_error().is_some() { error.kind().to_string() } else { error.to_string() };
        cannot(url, &why)
    };
    let stream = TcpStream::connect((url.host(), url.port())).await.map_err(refused)?;
    stream.set_nodelay(true).map_err(refused)?;
    match &backend.tls {
        None => http2(url, stream).await,
        Some(tls) => {
            let secured = secure(stream, tls, url.host()).await;
            http2(url, secured.map_err(|why| cannot(url, &format!("TLS: {why}")))?).await
        }
    }
}

async fn http2(
    url: &config::BackendUrl,
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<Connected, BackendFailure> {
    let (stream, ended) = Watched::new(Budgeted::new(stream));
    // tonic wants to connect itself, and again when a connection has ended: it gets the one connection that there is.
    let mut only = Some(TokioIo::new(stream));
    let connector =
        service_fn(move |_| ready(only.take().ok_or(io::ErrorKind::NotConnected).map_err(io::Error::from)));
    let uri = format!("{}://{}", url.scheme().as_str(), url.authority());
    let endpoint = Endpoint::from_shared(uri).and_then(|endpoint| endpoint.user_agent(AGENT));
    let channel = endpoint
        .expect("the authority was checked with the configuration")
        .initial_stream_window_size(MEGABYTE)
        .initial_connection_window_size(MEGABYTE)
        .max_frame_size(MEGABYTE)
        .http2_max_header_list_size(16 << 10)
        .http2_max_concurrent_reset_streams(REMEMBERED_RESETS)
        .http2_reset_stream_duration(REMEMBERED_FOR)
        .connect_with_connector(connector)
        .await
        .map_err(|_| closed(None))?;
    Ok((channel, Box::pin(ended)))
}

/// Performs the TLS handshake.
async fn secure(stream: TcpStream, tls: &BackendTls, host: &str) -> Result<TlsStream<TcpStream>, String> {
    let expected = tls.server_name.as_deref().unwrap_or(host).to_owned();
    let name = ServerName::try_from(expected).map_err(|error| format!("invalid TLS server name: {error}"))?;
    let tls = tls.clone();
    let config = spawn_blocking(move || client(&tls)).await.expect("reading files does not panic");
    let connector = TlsConnector::from(Arc::new(config.map_err(|error| error.to_string())?));
    let stream = connector.connect(name, stream).await.map_err(|error| error.to_string())?;
    match stream.get_ref().1.alpn_protocol() {
        Some(HTTP_2) => Ok(stream),
        _ => Err("the backend does not offer HTTP/2 (ALPN h2), which gRPC requires".to_owned()),
    }
}

/// The TLS configuration from the files; blocks while reading them.
fn client(tls: &BackendTls) -> Result<ClientConfig, PemError> {
    let authorities = PemFile::read("caFile", &tls.ca_file)?.authorities()?;
    let builder = ClientConfig::builder_with_provider(Arc::new(ring::default_provider()))
        .with_safe_default_protocol_versions()
        .expect("the provider has cipher suites for TLS 1.2 and 1.3")
        .with_root_certificates(authorities);
    let mut config = match &tls.identity {
        None => builder.with_no_client_auth(),
        Some(pair) => {
            IdentityFiles::read(pair)?.build(|chain, key| builder.with_client_auth_cert(chain, key))?
        }
    };
    config.alpn_protocols = vec![HTTP_2.to_vec()];
    Ok(config)
}

/// Why a connection ended.
pub(super) fn closed(error: Option<&io::Error>) -> BackendFailure {
    if let Some((kind, misuse)) = error.and_then(misuse) {
        return BackendFailure::new(kind, format!("the connection was closed: {misuse}"));
    }
    BackendFailure::new(FailureKind::Reset, "the connection was closed")
}

/// The backend's TLS error on a connection that was not used yet; `None` when it ended for another reason.
pub(super) fn tls_failure(backend: &config::BackendSettings, error: &io::Error) -> Option<BackendFailure> {
    backend.tls.as_ref()?;
    if misuse(error).is_some() {
        return None;
    }
    // Errors of the operating system have a number and no message.
    let tls_error = error.get_ref()?;
    Some(cannot(&backend.url, &format!("TLS: {tls_error}")))
}

/// The cause, if the backend sent more frames than allowed or something other than frames.
fn misuse(error: &io::Error) -> Option<(FailureKind, &io::Error)> {
    let kind = match error.kind() {
        io::ErrorKind::QuotaExceeded => FailureKind::Oversize,
        io::ErrorKind::Unsupported => FailureKind::Malformed,
        _ => return None,
    };
    Some((kind, error))
}

fn cannot(url: &config::BackendUrl, why: &str) -> BackendFailure {
    unreachable(format!("cannot connect to {}: {why}", url.authority()))
}

/// A failure to connect.
pub(super) fn unreachable(detail: impl AsRef<str>) -> BackendFailure {
    BackendFailure::new(FailureKind::Unreachable, detail)
}
