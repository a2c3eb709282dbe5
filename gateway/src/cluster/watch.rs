//! Keeps the node table and the pod table fed from kube-apiserver.
//!
//! Each object goes as its own JSON through [`crate::object`], like one from a call or a file: the typed
//! clients' objects are never built. They are listed in pages and then watched; kube's watcher resumes where it
//! was, lists again when it must, and waits longer after each failure. While the apiserver is away the tables
//! keep what they know.

mod connect;
mod raw_object;
mod sink;
mod state;

use std::sync::Arc;

use k8s_openapi::api::core::v1::{Node, Pod};
use kube::{
    Api, Client,
    runtime::{WatchStreamExt, watcher},
};

pub use self::connect::{ConnectError, check, connect};
use self::{raw_object::RawObject, sink::feed, state::WatchState};
use super::{pods::PodTable, table::NodeTable};

/// A watch ended, which it never should: what it watches would stay as it is for ever. The process has to stop.
#[derive(Debug, thiserror::Error)]
#[error("the watch of {0} ended by itself; the gateway stops rather than decide on {0} that grow old")]
pub struct WatchEnded(&'static str);

/// Feeds the node table for ever. Failures are logged when they begin, change or end, and are never the end;
/// what comes back is a reason to stop the process.
pub async fn nodes(table: Arc<NodeTable>, client: Client) -> WatchEnded {
    let mut standing = WatchState::default();
    loop {
        // Before the list begins, so that no wish is missed in between.
        let mut raw_wanted = table.raw_wanted();
        let nodes = watcher(Api::<RawObject<Node>>::all(client.clone()), config());
        tokio::select! {
            () = feed(&*table, nodes.default_backoff(), &mut standing) => return WatchEnded("nodes"),
            Ok(()) = raw_wanted.changed() => tracing::debug!("listing nodes again: a backend wants their JSON"),
        }
    }
}

/// Feeds the pod table for ever, like [`nodes`].
pub async fn pods(table: Arc<PodTable>, client: Client) -> WatchEnded {
    let living = config().fields(LIVING);
    let pods = watcher(Api::<RawObject<Pod>>::all(client), living);
    feed(&*table, pods.default_backoff(), &mut WatchState::default()).await;
    WatchEnded("pods")
}

/// How long the apiserver holds a watch open, in seconds. It ends one with a bookmark, from which the next goes on;
/// where even that end does not come, the connection is dead.
const WATCH: u32 = 60;

fn config() -> watcher::Config {
    watcher::Config::default().timeout(WATCH)
}

/// Pods that have ended hold no room and are not evicted. Mirrors `newPodInformer` of kube-scheduler.
const LIVING: &str = "status.phase!=Succeeded,status.phase!=Failed";

#[cfg(test)]
mod tests;
