//! Runs the gateway from its configuration to its end.
//!
//! Calls are decided on the main thread, by a runtime of its own: no wake-up crosses threads on the
//! way of a call, and the only lock that it shares is the node table's. What may take long beside it, the watch of nodes and the metrics
//! address, lives on a second thread (`background`). A task of either that ends before it should stops the
//! process: the gateway never lives on half dead.

mod background;

use std::{
    convert::Infallible,
    io,
    net::{SocketAddr, TcpListener as Bound},
    sync::Arc,
    time::Duration,
};

use tokio::{
    net::TcpListener,
    runtime,
    signal::unix::{SignalKind, signal},
    sync::oneshot,
    task::JoinSet,
    time::timeout,
};

use self::background::Background;
use crate::{
    backend::{Backend, info::Known, link},
    cluster::table::NodeTable,
    config::{self, Config, NodeSource},
    decide::{Decider, Terms},
    door::{self, Door},
    observe::{Health, Metrics},
};

/// How long the first list of nodes and the first attempts to connect to backends may hold up the start.
/// After that the gateway serves with what it has, and says so.
const START: Duration = Duration::from_secs(10);

/// Why the gateway could not start, or stopped.
#[derive(Debug, thiserror::Error)]
pub enum ServeError {
    /// An address of the configuration cannot be listened on.
    #[error("{field}: cannot listen on {address}: {source}; choose an address that is free on this machine")]
    Listen {
        /// Where it stands in the configuration.
        field: &'static str,
        /// The address.
        address: SocketAddr,
        /// What the system says.
        source: io::Error,
    },
    /// The system refused something that every process needs.
    #[error("cannot start: {0}")]
    System(#[from] io::Error),
    /// A source of nodes failed for good, or a task ended that should not.
    #[error("{0}")]
    Background(String),
}

/// Serves until SIGTERM or SIGINT, then finishes the calls that are under way.
pub fn run(config: Config) -> Result<(), ServeError> {
    // kube's client and ours use the same provider; a second installation finds it in place.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let extender = listen("extender.address", config.extender.address)?;
    let observed = listen("metrics.address", config.metrics.address)?;
    let metrics = Arc::new(Metrics::new());
    let health = Arc::new(Health::default());
    let table = match config.nodes {
        NodeSource::Watch { .. } | NodeSource::File { .. } => Some(Arc::new(NodeTable::new())),
        NodeSource::Request | NodeSource::NamesOnly => None,
    };
    println!("metrics listening on {}", observed.local_addr()?);
    let background = Background {
        source: config.nodes.clone(),
        table: table.clone(),
        listener: observed,
        metrics: Arc::clone(&metrics),
        health: Arc::clone(&health),
    };
    let failed = background.start()?;
    let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
    runtime.block_on(calls(config, Parts { extender, table, metrics, health, failed }))
}

struct Parts {
    extender: Bound,
    table: Option<Arc<NodeTable>>,
    metrics: Arc<Metrics>,
    health: Arc<Health>,
    failed: oneshot::Receiver<String>,
}

async fn calls(config: Config, parts: Parts) -> Result<(), ServeError> {
    let Parts { extender, table, metrics, health, mut failed } = parts;
    let known = Known { source: config.nodes.clone(), table: table.clone() };
    let mut links = JoinSet::new();
    let order = config.effective_order().into_iter();
    let backends = order.map(|at| connect(&config.backends[at], &known, &mut links)).collect();
    let terms = Terms {
        known,
        budget: config.decision_timeout,
        prefix: config.reason_prefix,
        metrics: Arc::clone(&metrics),
    };
    let decider = Decider::new(backends, terms);
    tokio::select! {
        () = ready(&decider, table.as_deref()) => {}
        failure = &mut failed => return Err(ended(failure)),
    }
    let listener = TcpListener::from_std(extender)?;
    println!("extender listening on {}", listener.local_addr()?);
    health.ready();
    let door = Arc::new(Door { decider, metrics, most: config.extender.max_request_bytes });
    let stop = stopped(&health)?;
    tokio::select! {
        () = door::serve(listener, door, stop) => Ok(()),
        failure = &mut failed => Err(ended(failure)),
        Some(link) = links.join_next() => Err(ServeError::Background(match link {
            Ok(never) => match never {},
            Err(panicked) => format!("the connection to a backend ended with {panicked}"),
        })),
    }
}

fn listen(field: &'static str, address: SocketAddr) -> Result<Bound, ServeError> {
    let bound = Bound::bind(address).and_then(|bound| bound.set_nonblocking(true).map(|()| bound));
    bound.map_err(|source| ServeError::Listen { field, address, source })
}

fn connect(settings: &config::Backend, known: &Known, links: &mut JoinSet<Infallible>) -> Arc<Backend> {
    let (backend, publisher) = Backend::new(settings.clone());
    let task = link::Task { settings: settings.clone(), known: known.clone(), gateway: host_name() };
    links.spawn(link::keep(task, publisher));
    backend
}

/// The name of this replica: in a cluster, the pod's.
fn host_name() -> Arc<str> {
    let name = std::env::var("HOSTNAME").or_else(|_| std::fs::read_to_string("/proc/sys/kernel/hostname"));
    name.map_or_else(|_| "extender-gateway".into(), |name| name.trim().into())
}

/// Waits, not for ever, until the nodes are there and every backend has been tried.
async fn ready(decider: &Decider, table: Option<&NodeTable>) {
    let everything = async {
        decider.tried_all().await;
        if let Some(table) = table {
            table.synced().await;
        }
    };
    if timeout(START, everything).await.is_err() {
        tracing::warn!("nodes or backends are not there after {START:?}; serving without what is missing");
    }
}

/// Ends at the first SIGTERM or SIGINT. The second one ends the process.
fn stopped(health: &Arc<Health>) -> Result<impl Future<Output = ()> + use<>, ServeError> {
    let mut terminate = signal(SignalKind::terminate())?;
    let mut interrupt = signal(SignalKind::interrupt())?;
    let health = Arc::clone(health);
    Ok(async move {
        let mut wait = async || {
            tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
        };
        wait().await;
        tracing::info!("stopping: calls that are under way are finished; a second signal ends at once");
        health.stopping();
        tokio::spawn(async move {
            tokio::select! { _ = terminate.recv() => {}, _ = interrupt.recv() => {} }
            std::process::exit(1);
        });
    })
}

fn ended(failure: Result<String, oneshot::error::RecvError>) -> ServeError {
    ServeError::Background(failure.unwrap_or_else(|_| "the background thread ended unexpectedly".to_owned()))
}
