//! A backend on a socket: all services of the contract, health and reflection, from binding to draining, with the controllers
//! beside it.

mod health;
mod in_progress;
mod incoming;
mod joined;
#[cfg(feature = "reflection")]
mod reflection;
mod signals;
#[cfg(feature = "tls")]
mod tls;
mod tls_files;
mod turn;
#[cfg(not(feature = "tls"))]
mod without_tls;

use std::{
    convert::Infallible,
    future::pending,
    io::{self, Write as _},
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use tokio::net::TcpListener;
use tonic::transport::{
    Server,
    server::{Router, TcpIncoming},
};

#[cfg(feature = "tls")]
use self::tls::Tls;
pub use self::tls_files::{TlsError, TlsFiles};
use self::{
    health::Health,
    in_progress::{Counting, Holds, Total},
    incoming::connections,
    signals::Signals,
};
#[cfg(not(feature = "tls"))]
use self::{without_tls as tls, without_tls::NoTls as Tls};
use crate::{
    Backend, ControllersFailed, ControllersReport, DeclarationError, MAX_MESSAGE_BYTES, Telemetry,
    TelemetryError,
    backend::Exposed,
    calls::Calls,
    controllers::Beside,
    introspection::IntrospectionService,
    metrics::Metrics,
    service::{HookService, OutcomeService, Service},
    stopping::Stopping,
    table::{TableService, Tables},
    telemetry::Tracer,
    watching::WatchService,
};

/// The most bytes of requests that are arriving or being answered, over all connections: two of the largest. Without it
/// a few clients that begin large messages and never end them take all memory.
const MAX_BYTES_IN_PROGRESS: usize = 2 * MAX_MESSAGE_BYTES;

/// HTTP/2 frames and windows of 1 MiB: with the defaults of 16 and 64 KiB a request of thousands of nodes
/// waits for many small acknowledgements.
const FRAME_BYTES: u32 = 1 << 20;
const WINDOW_BYTES: u32 = 1 << 20;

/// The number of calls that the gateway has canceled and that may wait to be processed on a connection. A policy
/// that stalls, in a blocking call or because its process is stopped, finds the calls of that time reset when it
/// continues. With h2's limit of 20 it would treat them as an attack and close the connection, with the calls that
/// it could still answer and the node tables. Five seconds of 200 calls a second; each takes about a kilobyte, and
/// the window of the connection bounds their messages.
const PENDING_RESETS: usize = 1_000;

/// A gateway whose machine is gone no longer responds: after a minute without an answer of its kernel the
/// connection is closed, and its tables are dropped.
const KEEPALIVE: Duration = Duration::from_secs(15);
const KEEPALIVE_RETRIES: u32 = 3;

/// Options of [`serve`].
#[derive(Clone, Debug)]
pub struct Options {
    /// Where to listen; port 0 takes a free one. Default: 127.0.0.1:0.
    pub address: SocketAddr,
    /// How long calls in progress may take after the first signal, before they are canceled. Default: 10 s.
    pub drain: Duration,
    /// The files for TLS. Default: none, connections are not encrypted.
    pub tls: Option<TlsFiles>,
    /// Where spans of traced calls go. Default: as the `OTEL_*` variables of the process say.
    pub telemetry: Telemetry,
    /// Serves a policy that binds, or one with [`Backend::requires_client_certificates`], also beyond loopback to clients
    /// without a certificate: whoever reaches the address can then use it. Default: `false`.
    pub allow_unauthenticated_bind: bool,
    /// Where `GET /metrics` is answered in Prometheus' text format, without TLS. Default: nowhere.
    pub metrics_address: Option<SocketAddr>,
    /// Logs a line for each call: to the subscriber of `tracing` or, in a program without one, to standard error. Default: `false`.
    pub log_calls: bool,
}

impl Default for Options {
    fn default() -> Self {
        Self {
            address: (Ipv4Addr::LOCALHOST, 0).into(),
            drain: Duration::from_secs(10),
            tls: None,
            telemetry: Telemetry::environment(),
            allow_unauthenticated_bind: false,
            metrics_address: None,
            log_calls: false,
        }
    }
}

impl Options {
    /// Whether other machines reach the address without a certificate, and that was not allowed.
    fn is_exposed(&self) -> bool {
        let has_client_ca = self.tls.as_ref().is_some_and(|files| files.client_ca.is_some());
        let is_local = self.address.ip().to_canonical().is_loopback();
        !(is_local || has_client_ca || self.allow_unauthenticated_bind)
    }
}

/// Why a backend does not serve.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// The policy's declaration has mistakes.
    #[error(transparent)]
    Declaration(#[from] DeclarationError),
    /// A TLS file cannot be used.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// Callers could use the policy's permissions, and other machines can call it without a certificate.
    #[error(transparent)]
    Exposed(#[from] Exposed),
    /// The address cannot be listened on.
    #[error("cannot listen on {address}: {source}; set another --address, or stop the process that uses it")]
    Listen {
        /// As requested.
        address: SocketAddr,
        /// The system's answer.
        source: io::Error,
    },
    /// The metrics cannot be served.
    #[error("cannot serve metrics at {address}: {source}")]
    Metrics {
        /// As requested.
        address: SocketAddr,
        /// Why, and what to do.
        source: io::Error,
    },
    /// Spans are enabled, and cannot be sent with these `OTEL_*` variables.
    #[error(transparent)]
    Telemetry(#[from] TelemetryError),
    /// The address could not be printed, or a signal could not be watched.
    #[error("cannot start: {0}")]
    Start(#[from] io::Error),
    /// The controllers of [`Backend::with_controllers`] cannot be run, or one of them failed.
    #[error(transparent)]
    Controllers(#[from] ControllersFailed),
    /// The server ended by itself.
    #[error("the server ended: {0}")]
    Transport(#[from] tonic::transport::Error),
}

/// Serves until a stop signal: binds, prints one line `listening on ADDRESS` on stdout,
/// answers, and on SIGTERM or SIGINT drains.
///
/// The first signal: health reports `NOT_SERVING`, no new calls are accepted, calls in progress are finished for at
/// most [`Options::drain`], and queued spans are sent for at most 5 s. A second signal ends the process at once.
///
/// # Errors
///
/// [`ServeError`] when it cannot start, or when the server ends by itself.
pub async fn serve(backend: impl Into<Backend>, options: Options) -> Result<(), ServeError> {
    let bound = Bound::new(backend, options).await?;
    // Each watches on its own, so the second one sees the first signal too.
    let (mut first, mut second) = (Signals::new()?, Signals::new()?);
    writeln!(io::stdout(), "listening on {}", bound.address())?;
    tokio::select! {
        ended = bound.until(first.next()) => ended,
        () = second.twice() => Ok(()),
    }
}

/// A backend that listens but does not answer yet. For tests and for programs with a life cycle of their
/// own; [`serve`] is enough for the others.
pub struct Bound {
    backend: Backend,
    incoming: TcpIncoming,
    address: SocketAddr,
    drain: Duration,
    tls: Option<Arc<Tls>>,
    tracer: Tracer,
    calls: Calls,
}

impl Bound {
    /// Reads the TLS files and binds the address.
    ///
    /// # Errors
    ///
    /// [`ServeError::Declaration`], [`ServeError::Controllers`], [`ServeError::Exposed`], [`ServeError::Tls`],
    /// [`ServeError::Telemetry`], [`ServeError::Listen`] and [`ServeError::Metrics`].
    pub async fn new(backend: impl Into<Backend>, options: Options) -> Result<Self, ServeError> {
        let is_exposed = options.is_exposed();
        let Options { address, drain, tls, telemetry, metrics_address, log_calls: log, .. } = options;
        let mut backend = backend.into();
        backend.check()?;
        backend.check_controllers()?;
        if is_exposed {
            backend = backend.exposed_at(address)?;
        }
        let tls = tls.map(Tls::open).transpose()?.map(Arc::new);
        let tracer = Tracer::start(&telemetry, &backend)?;
        let listen = |source| ServeError::Listen { address, source };
        let listener = TcpListener::bind(address).await.map_err(listen)?;
        let address = listener.local_addr().map_err(listen)?;
        let metrics = match metrics_address {
            Some(address) => {
                let bound = Metrics::bind(address).await;
                Some(bound.map_err(|source| ServeError::Metrics { address, source })?)
            }
            None => None,
        };
        // A small answer must not wait for the acknowledgement of the one before.
        let incoming = TcpIncoming::from(listener).with_nodelay(Some(true));
        let incoming = incoming
            .with_keepalive(Some(KEEPALIVE))
            .with_keepalive_interval(Some(KEEPALIVE))
            .with_keepalive_retries(Some(KEEPALIVE_RETRIES));
        Ok(Self { backend, incoming, address, drain, tls, tracer, calls: Calls { log, metrics } })
    }

    /// Where it listens, with the port that was taken.
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Where the metrics are, with the port that was taken.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.calls.metrics.as_ref().map(Metrics::address)
    }

    /// Answers until `stop` is ready, then drains; queued spans then have 5 s. The controllers of the backend run
    /// meanwhile, and stop while it drains.
    ///
    /// # Errors
    ///
    /// [`ServeError::Transport`] when the server ends by itself, [`ServeError::Controllers`] when the controllers do.
    pub async fn until(self, stop: impl Future<Output = ()>) -> Result<(), ServeError> {
        let stopping = Stopping::new();
        let beside = self.backend.beside().cloned();
        let begin = async {
            tokio::select! {
                () = stop => {}
                () = stopping.clone().begun() => {}
            }
            stopping.begin();
        };
        let serving = async {
            let ended = self.serve_until(begin).await;
            stopping.begin();
            ended
        };
        let (served, controlled) = tokio::join!(serving, control(beside, &stopping));
        served?;
        Ok(controlled?)
    }

    async fn serve_until(self, stop: impl Future<Output = ()>) -> Result<(), ServeError> {
        let health = Health::new().await;
        let tables = Tables::default();
        let report = self.backend.beside().map(|beside| beside.report.clone());
        let introspection = IntrospectionService::new(self.backend.clone());
        let watch = WatchService::new(self.backend.clone(), tables.stopping().clone());
        let metered = metered(self.calls.metrics.clone(), self.backend.clone(), tables.clone());
        let service = Service::new(self.backend, tables.clone(), self.tracer.clone(), self.calls);
        let total = Total::new(MAX_BYTES_IN_PROGRESS);
        let introspection = Counting::new(introspection, Holds::UntilAnswered, &total);
        let watch = Counting::new(watch, Holds::UntilArrived, &total);
        let router = router(service, &tables, &health, &total).add_service(introspection).add_service(watch);
        let (stopping, stopped) = tokio::sync::oneshot::channel::<()>();
        let incoming = connections(self.incoming, self.tls.clone());
        let serving = router.serve_with_incoming_shutdown(incoming, async { drop(stopped.await) });
        let limit = async {
            tokio::select! {
                () = stop => {}
                never = report_health(&health, report.as_ref()) => match never {},
            }
            health.stop(report.as_ref()).await;
            tables.stopping().begin();
            drop(stopping);
            tokio::time::sleep(self.drain).await;
        };
        let ended = tokio::select! {
            ended = serving => ended,
            () = limit => Ok(()),
            never = follow(self.tls.as_deref()) => match never {},
            never = metered => match never {},
        };
        self.tracer.end().await;
        Ok(ended?)
    }
}

/// Runs the controllers, if there are any, until the stop, which their end begins.
async fn control(beside: Option<Beside>, stopping: &Stopping) -> Result<(), ControllersFailed> {
    let Some(beside) = beside else { return Ok(()) };
    let ended = beside.run(Box::pin(stopping.clone().begun())).await;
    let early = !stopping.has_begun();
    stopping.begin();
    match ended {
        Ok(()) if early => Err(ControllersFailed("the controllers ended before the stop".to_owned())),
        ended => ended,
    }
}

/// Reports the health of the controllers, if there are any.
async fn report_health(health: &Health, controllers: Option<&ControllersReport>) -> Infallible {
    match controllers {
        Some(controllers) => health.follow(controllers).await,
        None => pending().await,
    }
}

/// Follows the TLS files, if there are any.
async fn follow(tls: Option<&Tls>) -> Infallible {
    match tls {
        Some(tls) => tls.follow().await,
        None => pending().await,
    }
}

/// Serves the metrics, if they are turned on.
async fn metered(metrics: Option<Metrics>, backend: Backend, tables: Tables) -> Infallible {
    match metrics {
        Some(metrics) => metrics.serve(&backend, &tables).await,
        None => pending().await,
    }
}

fn router(service: Service, tables: &Tables, health: &Health, total: &Arc<Total>) -> Router {
    let router = Server::builder()
        .max_frame_size(FRAME_BYTES)
        .initial_stream_window_size(WINDOW_BYTES)
        .initial_connection_window_size(WINDOW_BYTES)
        .http2_max_pending_accept_reset_streams(Some(PENDING_RESETS))
        .add_service(Counting::new(HookService(service.clone()), Holds::UntilAnswered, total))
        .add_service(Counting::new(OutcomeService(service.clone()), Holds::UntilAnswered, total))
        .add_service(Counting::new(service, Holds::UntilAnswered, total))
        .add_service(Counting::new(TableService::new(tables.clone()), Holds::UntilArrived, total))
        .add_service(Counting::new(health.service(), Holds::UntilArrived, total));
    #[cfg(feature = "reflection")]
    let router = reflection::added(router, total);
    router
}
