//! Connects to a backend: TCP, TLS if the URL is `https`, HTTP/2.
//!
//! TLS files are read for each connection, so that a new connection uses their current content.

use std::{io, net::SocketAddr, sync::Arc, time::Duration};

use bytes::Bytes;
use extender_gateway_core::{BackendFailure, FailureKind};
use extender_gateway_settings::{self as config, BackendTls};
use extender_gateway_tls::{PemError, client_config, handshake_text};
use futures_util::future::BoxFuture;
use h2::client::SendRequest;
use rustls::{ClientConfig, pki_types::ServerName};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    task::spawn_blocking,
    time::timeout,
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use crate::frame_budget::Budgeted;

/// The flow-control window for an HTTP/2 peer; frames of this size are the fastest.
const MEGABYTE: u32 = 1 << 20;
/// How many reset streams h2 remembers: answers to calls that timed out or were no longer needed cross the reset.
/// An answer on a forgotten stream counts as a connection error, and h2 closes the connection after 1,024 of them.
/// With h2's default of 50 streams for one second this happens soon if many calls are decided without this backend.
const REMEMBERED_RESETS: usize = 1024;
const REMEMBERED_FOR: Duration = Duration::from_secs(5);
/// The ALPN name of HTTP/2.
const HTTP_2: &[u8] = b"h2";

/// The handle that sends requests, and the connection that must be polled for it.
pub type Connected = (SendRequest<Bytes>, BoxFuture<'static, Result<(), h2::Error>>);

/// Connects within this time.
///
/// # Errors
/// The backend is unreachable at any step up to the HTTP/2 handshake.
pub async fn connect(
    backend: &config::BackendSettings,
    target: Target,
    within: Duration,
) -> Result<Connected, BackendFailure> {
    timeout(within, open(backend, target)).await.map_err(|_| late(&backend.url, within))?
}

/// What is connected to.
#[derive(Debug, Clone, Copy)]
pub enum Target {
    /// One of the addresses that the host of the URL resolves to.
    Host,
    /// This address, which the host of the URL resolves to.
    Address(SocketAddr),
}

async fn open(backend: &config::BackendSettings, target: Target) -> Result<Connected, BackendFailure> {
    let url = &backend.url;
    let stream = match target {
        Target::Host => TcpStream::connect((url.host(), url.port())).await,
        Target::Address(address) => TcpStream::connect(address).await,
    };
    let stream = stream.map_err(|error| refused(url, &error))?;
    stream.set_nodelay(true).map_err(|error| refused(url, &error))?;
    match &backend.tls {
        None => http2(stream).await,
        Some(tls) => {
            let secured = secure(stream, tls, url.host()).await;
            http2(secured.map_err(|why| cannot(url, &format!("TLS: {why}")))?).await
        }
    }
}

async fn http2(
    stream: impl AsyncRead + AsyncWrite + Unpin + Send + 'static,
) -> Result<Connected, BackendFailure> {
    let (requests, connection) = h2::client::Builder::new()
        .enable_push(false)
        .initial_window_size(MEGABYTE)
        .initial_connection_window_size(MEGABYTE)
        .max_frame_size(MEGABYTE)
        .max_header_list_size(16 << 10)
        .max_concurrent_reset_streams(REMEMBERED_RESETS)
        .reset_stream_duration(REMEMBERED_FOR)
        // Small DATA frames are limited by [`Budgeted`], which knows the requests; h2 also counts answers that
        // cross a reset.
        .data_frame_budget(usize::MAX)
        .handshake(Budgeted::new(stream))
        .await
        .map_err(|error| closed(Some(&error)))?;
    Ok((requests, Box::pin(connection)))
}

/// Performs the TLS handshake.
async fn secure(stream: TcpStream, tls: &BackendTls, host: &str) -> Result<TlsStream<TcpStream>, String> {
    let expected = tls.server_name.as_deref().unwrap_or(host).to_owned();
    let name = ServerName::try_from(expected).map_err(|error| format!("invalid TLS server name: {error}"))?;
    let tls = tls.clone();
    let config = spawn_blocking(move || client(&tls)).await.expect("reading files does not panic");
    let connector = TlsConnector::from(Arc::new(config.map_err(|error| error.to_string())?));
    let stream = connector.connect(name, stream).await.map_err(|error| handshake_text(&error))?;
    match stream.get_ref().1.alpn_protocol() {
        Some(HTTP_2) => Ok(stream),
        _ => Err("the backend does not offer HTTP/2 (ALPN h2), which gRPC requires".to_owned()),
    }
}

/// The TLS configuration from the files; blocks while reading them.
fn client(tls: &BackendTls) -> Result<ClientConfig, PemError> {
    let mut config = client_config("caFile", &tls.ca_file, tls.identity.as_ref())?;
    config.alpn_protocols = vec![HTTP_2.to_vec()];
    Ok(config)
}

/// Why a connection ended.
pub fn closed(error: Option<&h2::Error>) -> BackendFailure {
    if let Some((kind, misuse)) = error.and_then(misuse) {
        return BackendFailure::new(kind, format!("the connection was closed: {misuse}"));
    }
    let detail = match error.and_then(h2::Error::reason) {
        Some(reason) if reason != h2::Reason::NO_ERROR => format!("the connection was closed: {reason}"),
        _ => "the connection was closed".to_owned(),
    };
    BackendFailure::new(FailureKind::Reset, detail)
}

/// The backend's TLS error on a connection that was not used yet; `None` when it ended for another reason.
pub fn tls_failure(backend: &config::BackendSettings, error: &h2::Error) -> Option<BackendFailure> {
    backend.tls.as_ref()?;
    if misuse(error).is_some() {
        return None;
    }
    // Errors of the operating system have a number and no message.
    let tls_error = error.get_io()?.get_ref()?;
    Some(cannot(&backend.url, &format!("TLS: {tls_error}")))
}

/// The cause, if the backend sent more frames than allowed or something other than frames.
fn misuse(error: &h2::Error) -> Option<(FailureKind, &io::Error)> {
    let error = error.get_io()?;
    let kind = match error.kind() {
        io::ErrorKind::QuotaExceeded => FailureKind::Oversize,
        io::ErrorKind::Unsupported => FailureKind::Malformed,
        _ => return None,
    };
    Some((kind, error))
}

/// The failure of an attempt that took too long.
pub fn late(url: &config::BackendUrl, within: Duration) -> BackendFailure {
    cannot(url, &format!("no answer within {} ms", within.as_millis()))
}

/// The failure of an attempt that ended with this error.
pub fn refused(url: &config::BackendUrl, error: &io::Error) -> BackendFailure {
    let why = if error.raw_os_error().is_some() { error.kind().to_string() } else { error.to_string() };
    cannot(url, &why)
}

fn cannot(url: &config::BackendUrl, why: &str) -> BackendFailure {
    unreachable(format!("cannot connect to {}: {why}", url.authority()))
}

/// A failure to connect.
pub fn unreachable(detail: impl AsRef<str>) -> BackendFailure {
    BackendFailure::new(FailureKind::Unreachable, detail)
}
