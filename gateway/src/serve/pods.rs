//! The watch of pods. It starts with the first configuration that needs it, at the start or after a reload, and
//! continues from then on: its data stays available for later configurations.

use std::{convert::Infallible, sync::Arc, time::Duration};

use extender_apiserver::ConnectError;
use kube::Client;
use tokio::{sync::watch, time::sleep};

use crate::cluster::{pods::PodTable, table::NodeTable, watch as cluster_watch};

/// The minimum time between two updates of usage: many pods may be bound at once.
const PAUSE: Duration = Duration::from_millis(5);

/// Starts the watch.
#[derive(Debug)]
pub(super) struct PodWatch {
    table: Arc<PodTable>,
    wanted: watch::Sender<bool>,
}

/// Runs the watch once it is needed.
#[derive(Debug)]
pub struct PodFeed {
    table: Arc<PodTable>,
    /// Receives the usage of each node.
    nodes: Vec<Arc<NodeTable>>,
    wanted: watch::Receiver<bool>,
}

impl PodWatch {
    /// A watch that has not started.
    pub(super) fn new() -> Self {
        Self { table: Arc::default(), wanted: watch::Sender::new(false) }
    }

    /// The feed of this watch.
    pub(super) fn feed(&self, nodes: Vec<Arc<NodeTable>>) -> PodFeed {
        PodFeed { table: Arc::clone(&self.table), nodes, wanted: self.wanted.subscribe() }
    }

    pub(super) fn begin(&self) {
        self.wanted.send_replace(true);
    }

    /// The table that the watch fills now or later.
    pub(super) fn any(&self) -> Arc<PodTable> {
        Arc::clone(&self.table)
    }

    /// The table that the watch fills; `None` before it has started.
    pub(super) fn table(&self) -> Option<Arc<PodTable>> {
        self.wanted.borrow().then(|| Arc::clone(&self.table))
    }
}

impl PodFeed {
    /// Waits until the watch is needed, and feeds the table indefinitely; returns the error that ended it.
    pub(super) async fn run(mut self, connect: impl AsyncFn() -> Result<Client, ConnectError>) -> String {
        if self.wanted.wait_for(|wanted| *wanted).await.is_err() {
            // It can no longer be requested.
            return std::future::pending().await;
        }
        match connect().await {
            Ok(client) => {
                let usage = tell_usage(Arc::clone(&self.table), self.nodes);
                tokio::select! {
                    never = cluster_watch::pods(self.table, client) => match never {},
                    never = usage => match never {},
                }
            }
            Err(error) => format!("pods.source Watch: {error}"),
        }
    }
}

/// Passes the resources that pods have requested to the node tables.
async fn tell_usage(pods: Arc<PodTable>, nodes: Vec<Arc<NodeTable>>) -> Infallible {
    pods.synced().await;
    // All usage, since after the first update unnamed nodes count as empty.
    let reported =
        |node: &str| nodes.iter().find_map(|table| table.reported_resources(node)).unwrap_or_default();
    let mut changed = pods.changed_usage_so_far(reported);
    loop {
        for table in &nodes {
            table.apply_usage(&changed);
        }
        sleep(PAUSE).await;
        changed = pods.changed_usage(reported).await;
    }
}
