//! Fills a node table at a backend and keeps it up to date: the client of `NodeTableService`. One small message is
//! in flight at a time; later changes stay in the table, which has only the latest row of each node: a backend that
//! does not read blocks nothing and costs no memory. Until the backend has everything, and whenever the stream
//! ends, calls carry their nodes.

mod difference;

use std::{convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use extender_gateway_core::{BackendFailure, FailureKind};
use extender_policy_api::v1alpha1::{SyncNodesResponse, TableView};
use h2::client::SendRequest;
use http::Uri;
use prost::Message;
use tokio::time::{Instant, sleep, timeout};

use self::difference::{Difference, SentRows};
use super::{
    containment::contained,
    grpc::{Duplex, RpcError},
    remote_table::{AckedTable, RemoteTable},
};
use crate::{
    cluster::table::{Column, NodeTable, TableChanges},
    observe::{Metrics, RateLimitedLog},
};

/// The full name of the service, as handshakes give it.
pub const SERVICE: &str = "extender.policy.v1alpha1.NodeTableService";

/// At least this long between two updates: nodes that change often go out together, and until then calls bring
/// what is newer.
const PAUSE: Duration = Duration::from_millis(5);
/// How long a backend may take for one message.
const PATIENCE: Duration = Duration::from_secs(10);
/// Pauses before the stream is opened again; each is twice the one before.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(30);

/// A table to be filled.
#[derive(Debug)]
pub struct TableStream {
    /// The backend's name, for the log.
    pub backend: String,
    /// Where its nodes are.
    pub table: Arc<NodeTable>,
    /// In which view.
    pub view: Column,
    /// What that view is to the backend.
    pub described: TableView,
    /// Where calls see what the backend holds.
    pub held: Arc<RemoteTable>,
    /// Where panics are counted.
    pub metrics: Arc<Metrics>,
    /// Limits the log lines of all streams of a connection: each handshake can ask for other ones.
    pub log_limit: Arc<RateLimitedLog>,
}

impl TableStream {
    /// Keeps the table at the backend as long as it is needed.
    pub async fn keep(self, connection: SendRequest<Bytes>, path: Uri) {
        let mut pause = FIRST_RETRY;
        loop {
            let began = Instant::now();
            // A panic ends the stream: calls carry their nodes.
            let Err(ended) = contained(&self.metrics, self.run(&connection, &path)).await;
            self.held.set(None);
            let backend = &self.backend;
            let similar = self.log_limit.turn();
            if ended.is_unimplemented() {
                if let Some(similar) = similar {
                    tracing::warn!(
                        backend,
                        similar,
                        "backend announces {SERVICE} but does not implement it; calls carry their nodes: {ended}"
                    );
                }
                return;
            }
            if began.elapsed() > LONGEST_RETRY {
                pause = FIRST_RETRY;
            }
            if let Some(similar) = similar {
                tracing::info!(
                    backend,
                    similar,
                    "node table stream ended; calls carry their nodes until it is reopened: {ended}"
                );
            }
            sleep(pause).await;
            pause = (pause * 2).min(LONGEST_RETRY);
        }
    }

    async fn run(&self, connection: &SendRequest<Bytes>, path: &Uri) -> Result<Infallible, RpcError> {
        // Taken first, so that no change is missed between a look and the wait.
        let mut changes = self.table.changes();
        while self.table.is_empty() {
            changes.next().await;
        }
        loop {
            self.fill((connection, path), &mut changes).await?;
            self.held.set(None);
        }
    }

    /// Keeps one table filled. Returns when the ids of rows are of another generation, so that another table is needed.
    async fn fill(
        &self,
        (connection, path): (&SendRequest<Bytes>, &Uri),
        changes: &mut TableChanges,
    ) -> Result<(), RpcError> {
        let mut stream = Duplex::open(connection, path).await?;
        let generation = self.table.read().generation();
        let mut sent = SentRows::new(name(), self.described.clone());
        loop {
            let difference = {
                let read = self.table.read();
                if read.generation() != generation {
                    return Ok(());
                }
                sent.difference(&read, self.view.id())
            };
            let Difference { parts, rows } = difference;
            for part in parts {
                let message = sent.message(&part);
                self.send(&mut stream, message, sent.table()).await?;
            }
            self.held.set(Some(AckedTable {
                table: sent.table(),
                applied: sent.version(),
                rows,
                generation,
            }));
            tokio::select! {
                () = changes.next() => {}
                ended = stream.failure() => return Err(ended),
            }
            sleep(PAUSE).await;
        }
    }

    async fn send(
        &self,
        stream: &mut Duplex,
        message: difference::Framed,
        table: u64,
    ) -> Result<(), RpcError> {
        let late = |_| BackendFailure::new(FailureKind::Late, "the backend does not accept the node table");
        let answer = timeout(PATIENCE, stream.exchange(message.bytes)).await.map_err(late)??;
        let malformed =
            |what| BackendFailure::new(FailureKind::Malformed, format!("table {table:016x}: {what}"));
        let SyncNodesResponse { applied } =
            SyncNodesResponse::decode(answer).map_err(|error| malformed(error.to_string()))?;
        if applied == message.version {
            return Ok(());
        }
        Err(malformed(format!("backend acknowledged version {applied}, expected {}", message.version)).into())
    }
}

/// A name that no other table has.
fn name() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    // A hasher's random key is what the standard library has of randomness.
    RandomState::new().hash_one(0_u8)
}
