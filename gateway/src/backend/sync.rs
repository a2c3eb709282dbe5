//! Fills a node table at a backend and keeps it up to date: the client of `NodeTableService`. One small message is
//! in flight at a time; later changes stay in the gateway's table, which has only the latest row of each node, so a
//! backend that does not read blocks nothing and costs no memory. Until the backend has everything, and whenever
//! the stream ends, calls carry their nodes.

mod difference;

use std::{convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use extender_gateway_core::{BackendFailure, FailureKind};
use extender_policy_api::v1alpha1::{SyncNodesResponse, TableView};
use h2::client::SendRequest;
use http::Uri;
use prost::Message;
use tokio::{
    sync::watch,
    time::{Instant, sleep, timeout},
};

use self::difference::{Difference, SentRows};
use super::{
    containment::contained,
    grpc::{Duplex, RpcError},
    remote_table::{AckedTable, RemoteTable},
};
use crate::{
    cluster::table::{Column, NodeTable},
    observe::{Metrics, RateLimitedLog},
};

/// The full name of the service, as in handshakes.
pub const SERVICE: &str = "extender.policy.v1alpha1.NodeTableService";

/// The least time between two updates, so that changes are batched; until then calls carry newer rows.
const PAUSE: Duration = Duration::from_millis(5);
/// The timeout of one message.
const PATIENCE: Duration = Duration::from_secs(10);
/// The first pause before the stream is opened again; each pause is twice the one before.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(30);

/// One stream, which fills one table at a backend.
#[derive(Debug)]
pub struct TableStream {
    /// The backend's name, for the log.
    pub backend: String,
    /// The source of its nodes.
    pub table: Arc<NodeTable>,
    /// The column of the view.
    pub view: Column,
    /// The view as `SyncNodesRequest` describes it.
    pub described: TableView,
    /// What the backend has, for calls.
    pub held: Arc<RemoteTable>,
    /// Where panics are counted.
    pub metrics: Arc<Metrics>,
    /// Limits the log lines of all streams of a connection: each handshake can request other streams.
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
        // Taken first, so that no change is missed between reading and waiting.
        let mut changes = self.table.changes();
        while self.table.is_empty() && changes.changed().await.is_ok() {}
        loop {
            self.fill((connection, path), &mut changes).await?;
            self.held.set(None);
        }
    }

    /// Keeps one table filled. Returns when the generation of row ids changes, which requires a new table.
    async fn fill(
        &self,
        (connection, path): (&SendRequest<Bytes>, &Uri),
        changes: &mut watch::Receiver<()>,
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
                _ = changes.changed() => {}
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

/// A unique table name.
fn name() -> u64 {
    use std::hash::{BuildHasher, RandomState};
    // The random key of a hasher is the standard library's source of randomness.
    RandomState::new().hash_one(0_u8)
}
