//! Runs the gateway from its configuration until it stops.
//!
//! Calls are decided on the main thread, by a separate runtime: no wake-up crosses threads while a call is decided,
//! and the only shared locks are those of the node and pod tables and of observability data, which are held
//! briefly. Slower work, such as the watches of nodes and pods and the metrics address, runs on a second thread
//! (`background`). If a task of either thread ends unexpectedly, the process stops: the gateway never runs with parts
//! missing.

pub mod assembly;
mod background;
mod certificates;
mod override_events;
mod reload;
mod requeue;
pub mod simulation;
mod telemetry;

use std::{
    convert::Infallible,
    future::pending,
    io::{self, Write},
    net::{SocketAddr, TcpListener as Bound},
    os::unix::{fs::FileTypeExt as _, net::UnixStream as StdUnixStream},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use extender_apiserver::ConnectError;
use extender_gateway_admin::{
    AdminState,
    status::{GatewayStatus, StatusSources},
};
use extender_gateway_door::{self as door, Busy, Door, Entrance, Tls, TlsError};
use extender_gateway_observe::{Health, debug::DebugTables, log};
use extender_gateway_pace::cadences::Cadences;
use extender_gateway_settings::Config;
use extender_gateway_tls::Certificates;
use extender_otlp::StartError;
use futures_util::future::OptionFuture;
use tokio::{
    net::{TcpSocket, UnixListener},
    runtime::{self, Runtime},
    signal::unix::{Signal, SignalKind, signal},
    sync::oneshot,
};

use self::{
    assembly::{Assembly, listed},
    background::{Background, PageAddress},
    reload::Reload,
    telemetry::Telemetry,
};

/// How long shadow calls of the last calls may still take.
const LAST_CALLS: Duration = Duration::from_secs(1);
/// How long backends may take to acknowledge the last outcomes.
const LAST_OUTCOMES: Duration = Duration::from_secs(1);
/// How long the export of the last spans may take when the gateway stops.
const LAST_SPANS: Duration = Duration::from_secs(3);

/// Why the gateway could not start, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// A configured address cannot be listened on.
    #[error("{field}: cannot listen on {address}: {source}; choose an address that is free on this machine")]
    Listen {
        /// Its field in the configuration.
        field: &'static str,
        /// The address.
        address: SocketAddr,
        /// The system's error.
        source: io::Error,
    },
    /// The socket for kube-scheduler's plugin cannot be listened on.
    #[error("extender.socket: cannot listen on {}: {source}; end what listens there, or choose a path for which there is no file, in a folder that the gateway may write", .path.display())]
    Socket {
        /// Its path.
        path: PathBuf,
        /// The system's error.
        source: io::Error,
    },
    /// A file of the TLS of an address is invalid.
    #[error(transparent)]
    Tls(#[from] TlsError),
    /// A system call that every process needs has failed.
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
    /// The configuration needs an apiserver, and none was found.
    #[error("pods.source, binder, requeue or events: {0}")]
    Apiserver(#[from] ConnectError),
    /// An exporter of telemetry cannot be created.
    #[error(transparent)]
    Exporter(#[from] StartError),
    /// A source of nodes failed permanently, or a task ended unexpectedly.
    #[error("{0}")]
    Background(String),
}

/// Serves until SIGTERM or SIGINT, then finishes the calls in progress. `file` is the source of `config`; it is
/// read again when it changes, and at SIGHUP.
pub fn run(file: &Path, config: Config, tables: DebugTables) -> Result<(), ServeError> {
    // Dropped last, also when this panics.
    let _flush = log::init(&config.log)?;
    // kube's client and ours use the same provider; a second installation finds the first one.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let tls = config.extender.tls.clone().map(Tls::open).transpose()?.map(Arc::new);
    let extender = reserve("extender.address", config.extender.address)?;
    let scraped = PageAddress::metrics(&config.metrics)?;
    let administered = PageAddress::admin(&config.admin)?;
    let second = runtime::Builder::new_current_thread().enable_all().build()?;
    let telemetry = Telemetry::start(&config, tables, second.handle())?;
    let (observer, health) = (Arc::clone(&telemetry.observer), Arc::new(Health::default()));
    let (runtime, busy) = thread_of_calls()?;
    // Signals are handled from here on: without a handler a signal would end the process, or be ignored if it is
    // process 1 of a container.
    let inside = runtime.enter();
    let (hangups, stops) = (signal(SignalKind::hangup())?, Stops::new()?);
    drop(inside);
    print_line(&format!("metrics listening on {}", scraped.listener.local_addr()?));
    print_line(&format!("admin listening on {}", administered.listener.local_addr()?));
    let (gateway, cadences) = (host_name(), Cadences::default());
    let mut assembly = Assembly::new(&config, Arc::clone(&gateway), Arc::clone(&observer), cadences);
    let certificates = Arc::<Certificates>::default();
    let sources = status_sources(file, &config, gateway, &assembly, &certificates, &health);
    let status = Arc::new(GatewayStatus::new(sources));
    telemetry::register_gauges(&observer, &status, &health);
    let pages = AdminState::new(Arc::clone(&observer), Arc::clone(&status), config.admin.hosts.clone());
    let background = Background {
        source: config.nodes.clone(),
        kubeconfig: config.cluster.kubeconfig.clone(),
        table: assembly.table(),
        pods: assembly.pod_feed(),
        requeue: assembly.requeue(),
        override_events: assembly.override_events(),
        certificate_files: assembly.certificate_files(),
        certificates,
        health: Arc::clone(&health),
        metrics_address: scraped,
        admin_address: administered,
        admin: Arc::new(pages),
    };
    let failed = background.start(second)?;
    let beating = Arc::clone(&health);
    let calls = CallServer {
        file: file.to_owned(),
        config,
        extender,
        tls,
        busy,
        assembly,
        telemetry,
        gateway_status: status,
        health,
        failed,
        hangups,
        stops,
    };
    let served = runtime.block_on(async {
        tokio::select! {
            served = calls.run() => served,
            never = beating.beat() => match never {},
        }
    });
    // Not dropped: that waits for file reads, which may hang with their file system.
    runtime.shutdown_background();
    served
}

/// The runtime of the thread that decides calls, which says when it is idle.
fn thread_of_calls() -> io::Result<(Runtime, Busy)> {
    let busy = Busy::default();
    let idle = busy.clone();
    let mut builder = runtime::Builder::new_current_thread();
    Ok((builder.enable_all().on_thread_park(move || idle.set_idle()).build()?, busy))
}

fn status_sources(
    file: &Path,
    config: &Config,
    gateway: Arc<str>,
    assembly: &Assembly,
    certificates: &Arc<Certificates>,
    health: &Arc<Health>,
) -> StatusSources {
    StatusSources {
        gateway,
        file: file.display().to_string(),
        source: config.nodes.clone(),
        table: assembly.table(),
        pods: assembly.pod_table(),
        exempt: assembly.default_exempt().clone(),
        certificates: Arc::clone(certificates),
        health: Arc::clone(health),
    }
}

/// The main thread's part.
struct CallServer {
    file: PathBuf,
    config: Config,
    /// Reserved, and not listened on before calls can be answered.
    extender: TcpSocket,
    tls: Option<Arc<Tls>>,
    /// Of the thread that decides calls.
    busy: Busy,
    assembly: Assembly,
    telemetry: Telemetry,
    gateway_status: Arc<GatewayStatus>,
    health: Arc<Health>,
    /// Why the second thread ended.
    failed: oneshot::Receiver<String>,
    hangups: Signal,
    stops: Stops,
}

/// SIGTERM and SIGINT.
struct Stops {
    terminate: Signal,
    interrupt: Signal,
}

impl Stops {
    fn new() -> io::Result<Self> {
        Ok(Self { terminate: signal(SignalKind::terminate())?, interrupt: signal(SignalKind::interrupt())? })
    }

    async fn next(&mut self) {
        tokio::select! { _ = self.terminate.recv() => {}, _ = self.interrupt.recv() => {} }
    }

    /// Returns at the first signal. The second one ends the process.
    async fn stopped(mut self, health: Arc<Health>) {
        self.next().await;
        tracing::info!("stopping: finishing calls in progress; a second signal stops at once");
        health.stop();
        tokio::spawn(async move {
            self.next().await;
            std::process::exit(1);
        });
    }
}

impl CallServer {
    async fn run(mut self) -> Result<(), ServeError> {
        let served = tokio::select! {
            served = ready(&mut self.assembly, &self.config) => served?,
            failure = &mut self.failed => return Err(ended(failure)),
            () = self.stops.next() => {
                tracing::info!("stopped while starting");
                return Ok(());
            }
        };
        let address = self.config.extender.address;
        let listener = self.extender.listen(BACKLOG).map_err(|source| ServeError::Listen {
            field: "extender.address",
            address,
            source,
        })?;
        let socket = self.config.extender.socket.as_deref().map(listen_at).transpose()?;
        let Telemetry { exporters, observer, sampler } = self.telemetry;
        let door = Arc::new(Door::on_thread(self.busy, served, Arc::clone(&observer)));
        self.gateway_status.open(&door);
        let complete = complete(&self.assembly, &self.health);
        let required = Arc::downgrade(&door);
        self.health
            .required
            .set(move || required.upgrade().map_or_else(Vec::new, |door| door.served.load().required()));
        self.health.accept_calls();
        // After that, so that whoever has read this line sees it at /readyz, too.
        print_line(&format!("extender listening on {}", listener.local_addr()?));
        let reload = Reload::new(
            self.file,
            self.config,
            self.hangups,
            self.assembly,
            Arc::clone(&door),
            sampler,
            self.gateway_status,
        );
        let result = tokio::select! {
            never = complete => match never {},
            () = async {
                let entrance = Entrance { listener, tls: self.tls, socket };
                door::serve(entrance, Arc::clone(&door), self.stops.stopped(self.health)).await;
                // While the connections are still kept.
                door.served.load_full().decider.outcomes_acknowledged(LAST_OUTCOMES).await;
            } => Ok(()),
            failure = &mut self.failed => Err(ended(failure)),
            panicked = reload.follow() => {
                Err(ServeError::Background(format!("the task of a backend's connection ended with {panicked}")))
            }
        };
        observer.finished(LAST_CALLS).await;
        exporters.shutdown(LAST_SPANS).await;
        result
    }
}

/// What the gateway waits for before it is ready, as `/readyz` names it.
const NODES: &str = "nodes";
const PODS: &str = "pods";

/// Marks the lists that are missing as there once they are. Calls that come meanwhile are answered, if only with an error. A
/// Service sends none to a replica that is not ready, and a rollout does not replace one that knows its nodes by it.
fn complete(assembly: &Assembly, health: &Arc<Health>) -> impl Future<Output = Infallible> + use<> {
    let (table, pods) = (assembly.table(), assembly.pods());
    if table.as_ref().is_some_and(|table| !table.is_synced()) {
        health.wait_for(NODES);
    }
    if pods.as_ref().is_some_and(|pods| !pods.is_synced()) {
        health.wait_for(PODS);
    }
    let health = Arc::clone(health);
    async move {
        let nodes = async {
            OptionFuture::from(table.as_ref().map(|table| table.synced())).await;
            health.mark_present(NODES);
        };
        let pods = async {
            OptionFuture::from(pods.as_ref().map(|pods| pods.synced())).await;
            health.mark_present(PODS);
        };
        tokio::join!(nodes, pods);
        pending().await
    }
}

/// Prints the listening addresses for scripts. A closed pipe is ignored.
fn print_line(line: &str) {
    let _ = writeln!(io::stdout(), "{line}");
}

/// How many connections may wait to be accepted: all that the address may have. The system drops what is more, and their
/// callers try again only after a second; it allows at most `net.core.somaxconn`, 4096 by default.
const BACKLOG: u32 = 4096;

/// Takes an address without listening: until then connections are refused at once, which costs a caller nothing, while one
/// that is accepted and not served costs its timeout.
fn reserve(field: &'static str, address: SocketAddr) -> Result<TcpSocket, ServeError> {
    let socket = if address.is_ipv4() { TcpSocket::new_v4() } else { TcpSocket::new_v6() };
    let bound = socket.and_then(|socket| {
        // As for every listener of the standard library: a restart takes the address that closed connections still have.
        socket.set_reuseaddr(true)?;
        socket.bind(address)?;
        Ok(socket)
    });
    bound.map_err(|source| ServeError::Listen { field, address, source })
}

fn listen(field: &'static str, address: SocketAddr) -> Result<Bound, ServeError> {
    let bound = Bound::bind(address).and_then(|bound| bound.set_nonblocking(true).map(|()| bound));
    bound.map_err(|source| ServeError::Listen { field, address, source })
}

/// Listens at a path. A socket without a listener, which an earlier process has left there, is removed; nothing else is.
fn listen_at(path: &Path) -> Result<UnixListener, ServeError> {
    // To connect to what is no socket is refused, too.
    let is_socket = || std::fs::symlink_metadata(path).is_ok_and(|found| found.file_type().is_socket());
    let is_left_over = |error: &io::Error| {
        error.kind() == io::ErrorKind::AddrInUse
            && is_socket()
            && StdUnixStream::connect(path)
                .is_err_and(|error| error.kind() == io::ErrorKind::ConnectionRefused)
    };
    let listening = match UnixListener::bind(path) {
        Err(error) if is_left_over(&error) => {
            std::fs::remove_file(path).and_then(|()| UnixListener::bind(path))
        }
        bound => bound,
    };
    listening.map_err(|source| ServeError::Socket { path: path.to_owned(), source })
}

/// The name of this replica: in a cluster, the pod's name.
fn host_name() -> Arc<str> {
    let name = std::env::var("HOSTNAME").or_else(|_| std::fs::read_to_string("/proc/sys/kernel/hostname"));
    name.map_or_else(|_| "extender-gateway".into(), |name| name.trim().into())
}

/// Waits, for a limited time, until a connection to every backend was attempted and nodes and pods are listed.
async fn ready(assembly: &mut Assembly, config: &Config) -> Result<door::Served, ConnectError> {
    let (table, pods) = (assembly.table(), assembly.pods());
    let nodes = OptionFuture::from(table.as_ref().map(|table| table.synced()));
    let pods = OptionFuture::from(pods.as_ref().map(|pods| pods.synced()));
    let (served, (), ()) = tokio::join!(assembly.serve(config), listed("nodes", nodes), listed("pods", pods));
    served
}

fn ended(failure: Result<String, oneshot::error::RecvError>) -> ServeError {
    ServeError::Background(failure.unwrap_or_else(|_| "the background thread ended unexpectedly".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test]
    async fn a_socket_that_was_left_is_replaced_and_nothing_else() {
        let folder = tempfile::tempdir().unwrap();
        let path = |name: &str| folder.path().join(name);
        let listening = listen_at(&path("socket")).unwrap();
        let refused = |name: &str| listen_at(&path(name)).unwrap_err().to_string();
        assert!(refused("socket").contains("end what listens there"));
        drop(listening);
        listen_at(&path("socket")).unwrap();
        std::fs::write(path("file"), "kept").unwrap();
        assert!(refused("file").contains("for which there is no file"));
        assert_eq!(std::fs::read(path("file")).unwrap(), b"kept");
        assert!(refused("absent/socket").starts_with("extender.socket: cannot listen on "));
    }
}
