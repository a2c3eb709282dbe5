//! Keeps the node table fed from kube-apiserver.
//!
//! Each node goes as its own JSON through [`crate::object::node`], like a node from a call or a file: the
//! typed clients' node is never built. The nodes are listed in pages and then watched; kube's watcher
//! resumes where it was, lists again when it must, and waits longer after each failure. While the apiserver
//! is away the table keeps what it knows.

mod connect;
mod raw_node;
mod standing;

use std::{pin::pin, sync::Arc};

use futures_util::{Stream, StreamExt};
use kube::{
    Api, Client,
    runtime::{WatchStreamExt, watcher, watcher::Event},
};

pub use self::connect::{ConnectError, connect};
use self::{
    raw_node::RawNode,
    standing::{Notice, Standing},
};
use super::table::{NodeTable, Relist};

/// The watch ended, which it never should: nodes would stay as they are for ever. The process has to stop.
#[derive(Debug, thiserror::Error)]
#[error("the watch of nodes ended by itself; the gateway stops rather than decide on nodes that grow old")]
pub struct WatchEnded;

/// Feeds the table for ever. Failures are logged when they begin, change or end, and are never the end; what
/// comes back is a reason to stop the process.
pub async fn watch(table: Arc<NodeTable>, client: Client) -> WatchEnded {
    let mut standing = Standing::default();
    loop {
        // Before the list begins, so that no wish is missed in between.
        let mut raw_wanted = table.raw_wanted();
        let nodes = watcher(Api::<RawNode>::all(client.clone()), watcher::Config::default());
        tokio::select! {
            () = feed(&table, nodes.default_backoff(), &mut standing) => return WatchEnded,
            Ok(()) = raw_wanted.changed() => tracing::debug!("listing nodes again: a backend wants their JSON"),
        }
    }
}

async fn feed(
    table: &NodeTable,
    events: impl Stream<Item = watcher::Result<Event<RawNode>>>,
    standing: &mut Standing,
) {
    let mut events = pin!(events);
    let mut relist = table.relist();
    while let Some(event) = events.next().await {
        let notice = match event {
            Ok(event) => {
                let notice = standing.heard(&event);
                relist = take(table, relist, &event);
                notice
            }
            Err(error) => standing.failed(&error),
        };
        log(notice, table.len());
    }
}

/// Does what the event says; returns the list that is being collected.
fn take(table: &NodeTable, mut relist: Relist, event: &Event<RawNode>) -> Relist {
    match event {
        Event::Init => return table.relist(),
        Event::InitApply(node) => report(node, relist.add(node.json()).err()),
        Event::InitDone => {
            table.replace(relist);
            return table.relist();
        }
        Event::Apply(node) => report(node, table.apply(node.json()).err()),
        Event::Delete(node) => drop(table.remove(node.name())),
    }
    relist
}

/// A node that cannot be read is left as it was known, or left out.
fn report(node: &RawNode, error: Option<crate::object::ObjectError>) {
    if let Some(error) = error {
        tracing::warn!(node = node.name(), %error, "the apiserver sent a node that cannot be read");
    }
}

fn log(notice: Option<Notice>, nodes: usize) {
    match notice {
        Some(Notice::Synced) => tracing::info!(nodes, "the node table is complete; watching nodes"),
        Some(Notice::Recovered) => tracing::info!(nodes, "watching nodes again"),
        Some(Notice::Failed { error, remedy }) => {
            tracing::warn!(nodes, error, "cannot watch nodes; those known stay in use. {remedy}");
        }
        None => {}
    }
}

#[cfg(test)]
mod tests;
