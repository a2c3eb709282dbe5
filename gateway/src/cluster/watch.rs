//! Keeps the node table and the pod table up to date from kube-apiserver.
//!
//! Each object goes as its own JSON through [`crate::object`], like one from a call or a file: typed objects are never
//! built. They are listed in pages and then watched. While the apiserver is unavailable the tables keep what they know.

mod backoff;
mod lines;
mod sink;
mod state;
mod watcher;

use std::{convert::Infallible, sync::Arc};

use kube::Client;

use self::{backoff::Backoff, watcher::Watcher};
use super::{pods::PodTable, table::NodeTable};

/// Keeps the node table up to date. Failures are logged when they begin, change or end.
pub async fn nodes(table: Arc<NodeTable>, client: Client) -> Infallible {
    watch_nodes(&table, client, Backoff::default()).await
}

/// Keeps the pod table up to date, like [`nodes`].
pub async fn pods(table: Arc<PodTable>, client: Client) -> Infallible {
    Watcher::new(&*table, client, Backoff::default()).run().await
}

async fn watch_nodes(table: &NodeTable, client: Client, backoff: Backoff) -> Infallible {
    // Before the first list begins, so that no wish is missed.
    let mut raw_wanted = table.raw_wanted();
    let mut watcher = Watcher::new(table, client, backoff);
    loop {
        tokio::select! {
            never = watcher.run() => return never,
            Ok(()) = raw_wanted.changed() => tracing::debug!("listing nodes again: a backend requests their JSON"),
        }
        watcher.list_again();
    }
}

#[cfg(test)]
mod tests;
