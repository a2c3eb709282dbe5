//! One connection at the door: HTTP/1.1, or HTTP/2 if it was negotiated by TLS.

use std::{
    convert::Infallible,
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use http::{HeaderValue, Request, Response, Version, header};
use hyper::{
    body::Incoming,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::graceful::Watcher,
};
use tokio::io::{AsyncRead, AsyncWrite};

use super::{
    CallBody, Door,
    accept::{Accepted, IDLE, LARGEST_HEAD, with_write_timeout},
    limit::ConnectionSlot,
    tls::{self, Tls, TlsCause, TlsRefusal},
};
use crate::observe::RateLimitedLog;

/// The interval of pings to an HTTP/2 caller, and the timeout of its response: idle connections are kept, dead ones
/// are closed.
const PING: Duration = Duration::from_secs(30);
const PONG: Duration = Duration::from_secs(20);
/// The most concurrent calls on an HTTP/2 connection. kube-scheduler binds without a limit, and waits beyond this
/// one.
const STREAMS: u32 = 256;
/// The flow-control windows of an HTTP/2 connection: for one call, and for all.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 4 << 20;

/// The data shared by connections.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) door: Arc<Door>,
    /// `None` without TLS.
    pub(super) tls: Option<Arc<Tls>>,
    /// Whether callers are asked to reconnect elsewhere.
    pub(super) draining: AtomicBool,
    /// Limits log lines about failed handshakes, by cause.
    pub(super) refused: RateLimitedLog<TlsCause>,
}

impl Host {
    /// Serves a connection to its end.
    pub(super) async fn serve(self: Arc<Self>, accepted: Accepted, watcher: Watcher) {
        let Accepted { stream, caller, slot } = accepted;
        let connection = Arc::new(Connection { host: Arc::clone(&self), caller, slot });
        let Some(tls) = &self.tls else {
            return connection.http1(with_write_timeout(stream), watcher).await;
        };
        match tls::handshake(tls, stream).await {
            Err(failed) => {
                let metrics = self.door.observer.metrics.process();
                metrics.tls_handshake_failed(failed.refusal.cause.label());
                self.log(&failed.refusal, caller);
                failed.close.await;
            }
            Ok(stream) if stream.get_ref().1.alpn_protocol() == Some(tls::HTTP_2) => {
                tracing::debug!(%caller, "a caller speaks HTTP/2");
                connection.http2(stream, watcher).await;
            }
            Ok(stream) => connection.http1(stream, watcher).await,
        }
    }

    fn log(&self, refusal: &TlsRefusal, caller: SocketAddr) {
        if refusal.cause == TlsCause::Gone {
            tracing::debug!(%caller, "TLS handshake failed: {refusal}");
        } else if let Some(similar) = self.refused.turn_of(refusal.cause) {
            tracing::warn!(%caller, similar, "TLS handshake failed: {refusal}");
        }
    }
}

/// HTTP/1.1 with the limits of all addresses.
pub(super) fn http1() -> http1::Builder {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(IDLE).max_header_size(LARGEST_HEAD as usize);
    http
}

/// The data shared by a connection's requests.
struct Connection {
    host: Arc<Host>,
    caller: SocketAddr,
    slot: ConnectionSlot,
}

impl Connection {
    async fn http1(self: Arc<Self>, stream: impl Stream, watcher: Watcher) {
        let service = service_fn(move |request| self.clone().call(request));
        let served = http1().serve_connection(TokioIo::new(stream), service);
        ended(watcher.watch(served).await);
    }

    async fn http2(self: Arc<Self>, stream: impl Stream, watcher: Watcher) {
        let served = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(PING)
            .keep_alive_timeout(PONG)
            .max_concurrent_streams(STREAMS)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(LARGEST_HEAD)
            .serve_connection(TokioIo::new(stream), service_fn(move |request| self.clone().call(request)));
        ended(watcher.watch(served).await);
    }

    async fn call(self: Arc<Self>, request: Request<Incoming>) -> Result<Response<CallBody>, Infallible> {
        let (in_progress, host) = (self.slot.request(), &self.host);
        let version = request.version();
        let mut response = host.door.call(request, (self.caller, host.tls.is_some()), in_progress).await;
        // HTTP/2 has a frame for this, which is sent when the connection ends.
        if version < Version::HTTP_2 && host.draining.load(Ordering::Relaxed) {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(response)
    }
}

fn ended(connection: Result<(), hyper::Error>) {
    if let Err(error) = connection {
        tracing::debug!("connection closed by an error: {error}");
    }
}

/// A transport for HTTP.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Stream for S {}
