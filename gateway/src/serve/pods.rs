//! The watch of pods. It begins with the first configuration that needs it, be that at the start or after a
//! reload, and goes on from then on: what is known stays at hand for the next configuration.

use std::{path::Path, sync::Arc};

use tokio::sync::watch;

use crate::cluster::{pods::PodTable, watch as cluster_watch};

/// Who may begin the watch.
#[derive(Debug)]
pub(super) struct PodWatch {
    table: Arc<PodTable>,
    wanted: watch::Sender<bool>,
}

/// Where the watch runs once it is wanted.
#[derive(Debug)]
pub struct PodFeed {
    table: Arc<PodTable>,
    wanted: watch::Receiver<bool>,
}

impl PodWatch {
    /// Not begun.
    pub(super) fn new() -> Self {
        Self { table: Arc::default(), wanted: watch::Sender::new(false) }
    }

    /// The other end.
    pub(super) fn feed(&self) -> PodFeed {
        PodFeed { table: Arc::clone(&self.table), wanted: self.wanted.subscribe() }
    }

    pub(super) fn begin(&self) {
        self.wanted.send_replace(true);
    }

    /// What the watch fills; `None` before it has begun.
    pub(super) fn table(&self) -> Option<Arc<PodTable>> {
        self.wanted.borrow().then(|| Arc::clone(&self.table))
    }
}

impl PodFeed {
    /// Waits until the watch is wanted, and feeds the table for ever; returns what made that impossible.
    pub(super) async fn run(mut self, kubeconfig: Option<&Path>) -> String {
        if self.wanted.wait_for(|wanted| *wanted).await.is_err() {
            // Nobody is left who could want it.
            return std::future::pending().await;
        }
        match cluster_watch::connect(kubeconfig).await {
            Ok(client) => cluster_watch::pods(self.table, client).await.to_string(),
            Err(error) => format!("pods.source Watch: {error}"),
        }
    }
}
