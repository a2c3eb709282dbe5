//! One connection at the door: HTTP/1.1, or HTTP/2 if it was negotiated by TLS, and from the start at the socket.

use std::{
    convert::Infallible,
    hash::{BuildHasher as _, RandomState},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use extender_gateway_pace::fair_queue::Flow;
use http::{HeaderValue, Request, Response, Version, header};
use hyper::{
    body::Incoming,
    server::conn::{http1, http2},
    service::service_fn,
};
use hyper_util::{
    rt::{TokioExecutor, TokioIo, TokioTimer},
    server::graceful::GracefulConnection,
};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    sync::watch,
    time::{Instant, sleep, timeout_at},
};
use tokio_util::either::Either;

use tracing::Instrument;

use super::{
    CallBody, Caller, Door,
    accept::{Accepted, IDLE, LARGEST_BUFFER, LARGEST_HEAD},
    limit::{Address, ConnectionSlot},
    tls::{self, Acceptor},
    write_timeout::WriteTimeout,
};

/// The interval of pings to an HTTP/2 caller, and the timeout of its response: idle connections are kept, dead ones
/// are closed.
const PING: Duration = Duration::from_secs(30);
const PONG: Duration = Duration::from_secs(20);
/// How long an HTTP/2 connection may be without its first call. Callers connect for a call; only a canceled one leaves a
/// connection that was never used.
const FIRST_CALL: Duration = Duration::from_secs(30);
/// How old a connection becomes, so that a certificate authority that was removed counts. After that an HTTP/1.1 caller
/// is asked to close with the next response, and an HTTP/2 caller by a GOAWAY; calls in progress are finished, for at
/// most [`FINISHED_AFTER`] or their longest budget.
pub(super) const LARGEST_AGE: Duration = Duration::from_mins(10);
const FINISHED_AFTER: Duration = Duration::from_mins(2);
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
    pub(super) acceptor: Option<Acceptor>,
    /// Whether callers are asked to reconnect elsewhere.
    pub(super) draining: AtomicBool,
    /// Hashes client certificates.
    pub(super) certificates: RandomState,
}

impl Host {
    /// Serves a connection to its end.
    pub(super) async fn serve(self: Arc<Self>, accepted: Accepted, ending: Ending) {
        let Accepted { stream, caller: address, slot } = accepted;
        let old_at = Instant::now() + LARGEST_AGE;
        let flow = Flow::of_address(address.ip());
        let caller = Caller { address, secure: self.acceptor.is_some(), flow };
        let mut connection = Connection { host: Arc::clone(&self), caller, slot, old_at };
        let limit = Address::Extender.answer_timeout();
        let stream = match stream {
            Either::Left(stream) => WriteTimeout::new(stream, limit),
            Either::Right(stream) => {
                connection.caller.flow = Flow::Socket;
                return Arc::new(connection).http2(WriteTimeout::new(stream, limit), ending).await;
            }
        };
        let Some(acceptor) = &self.acceptor else { return Arc::new(connection).http1(stream, ending).await };
        let Some(stream) = acceptor.accept(stream, address).await else { return };
        let session = stream.get_ref().1;
        if let Some(certificate) = session.peer_certificates().and_then(<[_]>::first) {
            connection.caller.flow = Flow::Certificate(self.certificates.hash_one(certificate.as_ref()));
        }
        let connection = Arc::new(connection);
        if session.alpn_protocol() == Some(tls::HTTP_2) {
            tracing::debug!(caller = %address, "a caller speaks HTTP/2");
            connection.http2(stream, ending).await;
        } else {
            connection.http1(stream, ending).await;
        }
    }
}

/// HTTP/1.1 with the limits of all addresses.
pub(super) fn http1() -> http1::Builder {
    let mut http = http1::Builder::new();
    http.timer(TokioTimer::new()).header_read_timeout(IDLE);
    http.max_header_size(LARGEST_HEAD as usize).max_buf_size(LARGEST_BUFFER);
    http
}

/// When connections are asked to end. The sender learns when all of them have.
pub(super) type Ending = watch::Receiver<()>;

/// The data shared by a connection's requests.
struct Connection {
    host: Arc<Host>,
    caller: Caller,
    slot: ConnectionSlot,
    /// When the caller is asked to connect again.
    old_at: Instant,
}

impl Connection {
    async fn http1(self: Arc<Self>, stream: impl Stream, mut ending: Ending) {
        let host = Arc::clone(&self.host);
        let service = service_fn(move |request| self.clone().call(request));
        let served = http1().serve_connection(TokioIo::new(stream), service);
        // Not at its age: a caller that has just sent a request on an idle connection would lose it. The next response
        // asks for the end, and an idle connection ends by its own time.
        finished(served, async { drop(ending.changed().await) }, &host.door).await;
    }

    async fn http2(self: Arc<Self>, stream: impl Stream, mut ending: Ending) {
        let (connection, old_at, host) = (self.slot.connection(), self.old_at, Arc::clone(&self.host));
        let silent = async {
            sleep(FIRST_CALL).await;
            if !connection.is_silent() {
                std::future::pending::<()>().await;
            }
        };
        // Each stream has a task of its own.
        let service = service_fn(move |request| self.clone().call(request).in_current_span());
        let served = http2::Builder::new(TokioExecutor::new())
            .timer(TokioTimer::new())
            .keep_alive_interval(PING)
            .keep_alive_timeout(PONG)
            .max_concurrent_streams(STREAMS)
            .initial_stream_window_size(STREAM_WINDOW)
            .initial_connection_window_size(CONNECTION_WINDOW)
            .max_header_list_size(LARGEST_HEAD)
            .serve_connection(TokioIo::new(stream), service);
        let asked = async {
            tokio::select! {
                _ = timeout_at(old_at, ending.changed()) => {}
                () = silent => tracing::debug!("an HTTP/2 connection without a call is closed"),
            }
        };
        finished(served, asked, &host.door).await;
    }

    async fn call(self: Arc<Self>, request: Request<Incoming>) -> Result<Response<CallBody>, Infallible> {
        let (in_progress, host) = (self.slot.request(), &self.host);
        let version = request.version();
        let mut response = host.door.call(request, self.caller, in_progress).await;
        // HTTP/2 has a frame for this, which is sent when the connection ends.
        let is_last = host.draining.load(Ordering::Relaxed) || Instant::now() >= self.old_at;
        if version < Version::HTTP_2 && is_last {
            response.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        }
        Ok(response)
    }
}

/// Serves a connection to its end. When it is asked to end, it accepts no new calls and finishes those in progress.
async fn finished<C>(served: C, asked: impl Future<Output = ()>, door: &Door)
where
    C: GracefulConnection<Error = hyper::Error>,
{
    tokio::pin!(served);
    let over = async {
        asked.await;
        Instant::now()
    };
    let ended = tokio::select! {
        ended = served.as_mut() => ended,
        since = over => {
            served.as_mut().graceful_shutdown();
            let finished_after = FINISHED_AFTER.max(door.served.load().config.timeouts.longest());
            timeout_at(since + finished_after, served).await.unwrap_or(Ok(()))
        }
    };
    if let Err(error) = ended {
        tracing::debug!("connection closed by an error: {error}");
    }
}

/// A transport for HTTP.
trait Stream: AsyncRead + AsyncWrite + Unpin + Send + 'static {}

impl<S: AsyncRead + AsyncWrite + Unpin + Send + 'static> Stream for S {}
