//! One connection at the door: HTTP/1.1, or HTTP/2 where TLS has agreed on it.

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
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
};

use super::{
    Door,
    answer::Reply,
    patience::patient,
    tls::{self, Cause, HandshakeError, Tls},
};
use crate::observe::SeldomEach;

/// How long a connection may go without a complete request head. More than the 90 seconds for which
/// kube-scheduler keeps idle connections: a connection that closes while a request is on its way fails that
/// request.
const IDLE: Duration = Duration::from_mins(2);
/// How often an HTTP/2 caller is asked whether it is there, and how long it may take to say so: idle
/// connections are kept, dead ones are not.
const PING: Duration = Duration::from_secs(30);
const PONG: Duration = Duration::from_secs(20);
/// Calls at the same time on an HTTP/2 connection. Kube-scheduler binds without limit, and waits beyond it.
const STREAMS: u32 = 256;
/// What may be under way on an HTTP/2 connection: of one call, and of all.
const STREAM_WINDOW: u32 = 1 << 20;
const CONNECTION_WINDOW: u32 = 4 << 20;
/// The largest head of an HTTP/2 request. Kube-scheduler's has some hundred bytes.
const LARGEST_HEAD: u32 = 16 << 10;

/// What connections share.
#[derive(Debug)]
pub(super) struct Host {
    pub(super) door: Arc<Door>,
    /// `None`: TLS is not spoken.
    pub(super) tls: Option<Arc<Tls>>,
    /// Whether callers are asked to go elsewhere.
    pub(super) leaving: AtomicBool,
    /// Whether a handshake that failed for this cause is said.
    pub(super) refused: SeldomEach<Cause>,
}

impl Host {
    /// Serves a connection to its end.
    pub(super) async fn serve(self: Arc<Self>, (stream, caller): (TcpStream, SocketAddr), watcher: Watcher) {
        // Without it a small answer waits for the acknowledgement of an earlier one.
        if let Err(error) = stream.set_nodelay(true) {
            tracing::debug!("TCP_NODELAY could not be set: {error}");
        }
        let Some(tls) = &self.tls else { return self.http1(patient(stream), caller, watcher).await };
        match tls::handshake(tls, stream).await {
            Err(error) => self.say(&error, caller),
            Ok(stream) if stream.get_ref().1.alpn_protocol() == Some(tls::HTTP_2) => {
                tracing::debug!(%caller, "a caller speaks HTTP/2");
                self.http2(stream, caller, watcher).await;
            }
            Ok(stream) => self.http1(stream, caller, watcher).await,
        }
    }

    fn say(&self, error: &HandshakeError, caller: SocketAddr) {
        if matches!(error, HandshakeError::Gone) {
            return tracing::debug!(%caller, "TLS handshake: {error}");
        }
        if let Some(similar) = self.refused.turn(error.cause()) {
            tracing::warn!(%caller, similar, "TLS handshake failed: {error}");
        }
    }

    async fn http1(self: Arc<Self>, stream: impl Stream, caller: SocketAddr, watcher: Watcher) {
        let served =
            http1::Builder::new().timer(TokioTimer::new()).header_read_timeout(IDLE).serve_connection(
                TokioIo::new(stream),
                service_fn(move |request| self.clone().call(request, caller)),
            );
        ended(watcher.watch(served).await);
    }

    async fn http2(self: Arc<Self>, stream: impl Stream, caller: SocketAddr, watcher: Watcher) {
        let served = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(PING)
            .keep_alive_timeout(PONG)
            .max_concurrent_streams(STREAMS)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(LARGEST_HEAD)
            .serve_connection(
                TokioIo::new(stream),
                service_fn(move |request| self.clone().call(request, caller)),
            );
        ended(watcher.watch(served).await);
    }

    async fn call(
        self: Arc<Self>,
        request: Request<Incoming>,
        caller: SocketAddr,
    ) -> Result<Response<Reply>, Infallible> {
        let version = request.version();
        let mut response = self.door.call(request, (caller, self.tls.is_some())).await;
        // HTTP/2 has a frame for it, which the end of the connection sends.
        if version < Version::HTTP_2 && self.leaving.load(Ordering::Relaxed) {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(response)
    }
}

fn ended(connection: Result<(), hyper::Error>) {
    if let Err(error) = connection {
        tracing::debug!("a connection ended early: {error}");
    }
}

/// What HTTP is spoken on.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Stream for S {}
