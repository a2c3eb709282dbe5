//! The second thread: the sources of nodes and pods, the metrics and admin addresses, and export to a collector.

use std::{io, net::TcpListener as Bound, path::PathBuf, sync::Arc, thread};

use extender_apiserver::ConnectError;
use kube::Client;
use tokio::{
    runtime::Runtime,
    sync::{OnceCell, oneshot},
    task::spawn_blocking,
};

use super::{pods::PodFeed, telemetry};
use crate::{
    admin::{self, AdminState},
    cluster::{file::NodeFile, table::NodeTable, watch},
    config::NodeSource,
    door::{Address, pages},
    observe::{Health, Metrics, health},
};

/// The tasks of the second thread.
pub(super) struct Background {
    pub(super) source: NodeSource,
    /// The kubeconfig for the apiserver.
    pub(super) kubeconfig: Option<PathBuf>,
    /// The node table, filled from `source`.
    pub(super) table: Option<Arc<NodeTable>>,
    /// The watch of pods, which starts when it is needed.
    pub(super) pods: PodFeed,
    /// The metrics address.
    pub(super) listener: Bound,
    pub(super) metrics: Arc<Metrics>,
    pub(super) health: Arc<Health>,
    /// The admin address and its content.
    pub(super) admin: (Bound, Arc<AdminState>),
}

impl Background {
    /// Starts the thread, which runs this runtime. The receiver gets the failure that ended it, which should never
    /// happen; a dropped sender means a panic.
    pub(super) fn start(self, runtime: Runtime) -> io::Result<oneshot::Receiver<String>> {
        let (tell, failed) = oneshot::channel();
        thread::Builder::new().name("background".to_owned()).spawn(move || {
            let failure = runtime.block_on(self.run());
            // Without a receiver the process is about to end.
            let _ = tell.send(failure);
        })?;
        Ok(failed)
    }

    async fn run(self) -> String {
        let metrics = Arc::clone(&self.metrics);
        let routes = health::routes(self.metrics, self.health);
        let (admin, shown) = self.admin;
        let spans = Arc::clone(&shown.observer);
        let served = pages(self.listener, Address::Metrics, (routes, Arc::clone(&metrics)));
        let administered = pages(admin, Address::Admin, (admin::routes(shown), Arc::clone(&metrics)));
        // One for nodes and pods: each may run a program for its credentials.
        let client = OnceCell::new();
        let connect = async || {
            let connected =
                client.get_or_try_init(|| extender_apiserver::connect(self.kubeconfig.as_deref()));
            connected.await.cloned()
        };
        tokio::select! {
            error = administered => format!("admin server stopped: {error}"),
            never = telemetry::count_spans(spans) => match never {},
            never = telemetry::count_lost_lines(metrics) => match never {},
            failure = feed(self.source, self.table, &connect) => failure,
            failure = self.pods.run(&connect) => failure,
            error = served => format!("metrics server stopped: {error}"),
        }
    }
}

/// Feeds the table indefinitely; returns the error that ended it.
async fn feed(
    source: NodeSource,
    table: Option<Arc<NodeTable>>,
    connect: impl AsyncFn() -> Result<Client, ConnectError>,
) -> String {
    match (source, table) {
        (NodeSource::Watch, Some(table)) => match connect().await {
            Ok(client) => match watch::nodes(table, client).await {},
            Err(error) => format!("nodes.source Watch: {error}"),
        },
        (NodeSource::File { path }, Some(table)) => {
            let target = Arc::clone(&table);
            match spawn_blocking(move || NodeFile::open(path, &target)).await {
                Ok(Ok(file)) => match file.follow(table).await {},
                Ok(Err(error)) => format!("nodes.file: {error}"),
                Err(error) => format!("nodes.file: {error}"),
            }
        }
        _ => std::future::pending().await,
    }
}
