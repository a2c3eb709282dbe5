//! The second thread: where nodes and pods come from, and the metrics address.

use std::{
    io,
    net::TcpListener as Bound,
    path::{Path, PathBuf},
    sync::Arc,
    thread,
};

use tokio::{net::TcpListener, runtime, sync::oneshot};

use super::pods::PodFeed;
use crate::{
    cluster::{file::NodeFile, table::NodeTable, watch},
    config::NodeSource,
    observe::{Health, Metrics, health},
};

/// What lives beside the calls.
pub(super) struct Background {
    pub(super) source: NodeSource,
    /// How the apiserver is reached.
    pub(super) kubeconfig: Option<PathBuf>,
    /// Filled from `source`.
    pub(super) table: Option<Arc<NodeTable>>,
    /// The watch of pods, as soon as it is wanted.
    pub(super) pods: PodFeed,
    /// The metrics address.
    pub(super) listener: Bound,
    pub(super) metrics: Arc<Metrics>,
    pub(super) health: Arc<Health>,
}

impl Background {
    /// Starts the thread. The receiver gets the failure that ended it; it should never get any, and a
    /// sender that is gone without a word means a panic.
    pub(super) fn start(self) -> io::Result<oneshot::Receiver<String>> {
        let runtime = runtime::Builder::new_current_thread().enable_all().build()?;
        let (tell, failed) = oneshot::channel();
        thread::Builder::new().name("background".to_owned()).spawn(move || {
            let failure = runtime.block_on(self.run());
            // Nobody listens any more when the process is about to end anyway.
            let _ = tell.send(failure);
        })?;
        Ok(failed)
    }

    async fn run(self) -> String {
        let routes = health::routes(self.metrics, self.health);
        let served = async {
            let listener = TcpListener::from_std(self.listener)?;
            axum::serve(listener, routes).await
        };
        tokio::select! {
            failure = feed(self.source, self.table, self.kubeconfig.as_deref()) => failure,
            failure = self.pods.run(self.kubeconfig.as_deref()) => failure,
            ended = served => format!("the metrics address ended: {:?}", ended.err()),
        }
    }
}

/// Feeds the table for ever; returns what made that impossible.
async fn feed(source: NodeSource, table: Option<Arc<NodeTable>>, kubeconfig: Option<&Path>) -> String {
    match (source, table) {
        (NodeSource::Watch, Some(table)) => match watch::connect(kubeconfig).await {
            Ok(client) => watch::nodes(table, client).await.to_string(),
            Err(error) => format!("nodes.source Watch: {error}"),
        },
        (NodeSource::File { path }, Some(table)) => match NodeFile::open(path, &table) {
            Ok(file) => match file.follow(table).await {},
            Err(error) => format!("nodes.file: {error}"),
        },
        _ => std::future::pending().await,
    }
}
