//! Fills the node tables at a backend and keeps them up to date: the client of `NodeTableService`. A stream has one
//! small message in flight at a time; later changes stay in the gateway's table, which has only the latest row of
//! each node, so a backend that does not read blocks nothing and costs no memory. Until the backend has everything,
//! and whenever the stream ends, calls carry their nodes.

mod difference;

use std::{convert::Infallible, sync::Arc, time::Duration};

use bytes::Bytes;
use extender_gateway_cluster::table::{Column, NodeTable};
use extender_gateway_contract::{nodes::TableName, protobuf::malformed, row::RowView};
use extender_gateway_core::{BackendFailure, FailureKind};
use extender_gateway_observe::Metrics;
use extender_gateway_pace::{backoff::Backoff, rate_limited_log::RateLimitedLog};
use extender_policy_api::v1beta1::SyncNodesResponse;
use prost::Message;
use tokio::{
    sync::watch,
    task::{AbortHandle, JoinSet},
    time::{Instant, sleep, timeout},
};

use self::difference::{Difference, SentRows};
use super::{
    containment::contained,
    grpc::{Duplex, RpcError},
    info::{ApiVersion, ClusterTables, Info, NODE_TABLE_SERVICE, NodesView},
    remote_table::{AckedTable, MissBreaker, RemoteTable, RemoteTables, TableSource},
    session::{Connection, SessionTask},
};

/// The least time between two updates, so that changes are batched; until then calls carry newer rows.
const PAUSE: Duration = Duration::from_millis(5);
/// The timeout of one message.
const MESSAGE_TIMEOUT: Duration = Duration::from_secs(10);
/// The pauses before the stream is opened again.
const FIRST_RETRY: Duration = Duration::from_secs(1);
const LONGEST_RETRY: Duration = Duration::from_secs(30);

/// The streams of a connection, which end with it.
#[derive(Debug)]
pub(super) struct Streams {
    /// The backend's name, for the log.
    backend: String,
    connection: Arc<Connection>,
    /// The sources of facts about nodes.
    tables: ClusterTables,
    /// Where panics are counted.
    metrics: Arc<Metrics>,
    misses: Arc<MissBreaker>,
    log_limit: Arc<RateLimitedLog>,
    open: Vec<OpenStream>,
    running: JoinSet<()>,
}

/// A stream. When it is dropped, calls stop using its table.
#[derive(Debug)]
struct OpenStream {
    source: TableSource,
    view: NodesView,
    acked: Arc<RemoteTable>,
    task: AbortHandle,
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.task.abort();
        // Calls may still use the session of an earlier handshake.
        self.acked.set(None);
    }
}

impl Streams {
    pub(super) fn new(task: &SessionTask, connection: Arc<Connection>) -> Self {
        Self {
            backend: task.settings.name.to_string(),
            connection,
            tables: task.tables.clone(),
            metrics: Arc::clone(&task.metrics),
            misses: Arc::default(),
            log_limit: Arc::default(),
            open: Vec::new(),
            running: JoinSet::new(),
        }
    }

    /// Makes sure that exactly the views in a handshake have a stream. Existing streams continue.
    pub(super) fn keep(&mut self, info: &Info) -> RemoteTables {
        let views: Vec<_> = info.views().filter(|_| info.keeps_tables).collect();
        self.open.retain(|open| views.contains(&&open.view));
        for view in views {
            let ClusterTables { table, offered, .. } = self.tables.clone();
            if let Some((table, column)) = table.zip(view.column.as_ref()) {
                self.open(TableSource::Cluster, view, table, column);
            }
            self.open(TableSource::Calls, view, offered, &view.offered);
        }
        let tables = self.open.iter().map(|open| (open.source, open.view.clone(), Arc::clone(&open.acked)));
        RemoteTables(tables.collect())
    }

    fn open(&mut self, source: TableSource, view: &NodesView, table: Arc<NodeTable>, column: &Column) {
        if self.open.iter().any(|open| open.source == source && open.view == *view) {
            return;
        }
        let acked = Arc::new(RemoteTable::new(Arc::clone(&self.misses)));
        let stream = TableStream {
            backend: self.backend.clone(),
            connection: Arc::clone(&self.connection),
            table,
            view: column.clone(),
            rows: view.rows.clone(),
            acked: Arc::clone(&acked),
            metrics: Arc::clone(&self.metrics),
            log_limit: Arc::clone(&self.log_limit),
        };
        let task = self.running.spawn(stream.keep());
        self.open.push(OpenStream { source, view: view.clone(), acked, task });
    }
}

/// One stream, which fills one table at a backend.
struct TableStream {
    /// The backend's name, for the log.
    backend: String,
    connection: Arc<Connection>,
    /// The source of its nodes.
    table: Arc<NodeTable>,
    /// The column of the view.
    view: Column,
    /// What its rows contain.
    rows: RowView,
    /// What the backend has, for calls.
    acked: Arc<RemoteTable>,
    /// Where panics are counted.
    metrics: Arc<Metrics>,
    /// Limits the log lines of all streams of a connection: each handshake can request other streams.
    log_limit: Arc<RateLimitedLog>,
}

impl TableStream {
    /// Keeps the table at the backend as long as it is needed.
    async fn keep(self) {
        let mut retries = Backoff::new(FIRST_RETRY, LONGEST_RETRY);
        loop {
            let began = Instant::now();
            // A panic ends the stream: calls carry their nodes.
            let Err(ended) = contained(&self.metrics, self.run()).await;
            self.acked.set(None);
            let backend = &self.backend;
            let similar = self.log_limit.permit();
            if ended.is_unimplemented() {
                if let Some(similar) = similar {
                    tracing::warn!(
                        backend,
                        similar,
                        "backend announces {NODE_TABLE_SERVICE} but does not implement it; calls carry their nodes: {ended}"
                    );
                }
                return;
            }
            if began.elapsed() > LONGEST_RETRY {
                retries.reset();
            }
            if let Some(similar) = similar {
                tracing::info!(
                    backend,
                    similar,
                    "node table stream ended; calls carry their nodes until it is reopened: {ended}"
                );
            }
            sleep(retries.next_pause()).await;
        }
    }

    async fn run(&self) -> Result<Infallible, RpcError> {
        // Taken first, so that no change is missed between reading and waiting.
        let mut changes = self.table.changes();
        while self.table.is_empty() && changes.changed().await.is_ok() {}
        loop {
            self.fill(&mut changes).await?;
            self.acked.set(None);
        }
    }

    /// Keeps one table filled. Returns when the generation of row ids changes, which requires a new table.
    async fn fill(&self, changes: &mut watch::Receiver<()>) -> Result<(), RpcError> {
        let mut stream = Duplex::open(&self.connection.requests, &self.connection.paths.sync).await?;
        let generation = self.table.read().generation();
        let mut sent = SentRows::new(unique_name(self.connection.api), self.rows.clone());
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
                send(&mut stream, message, &sent).await?;
            }
            self.acked.set(Some(AckedTable { table: sent.table, applied: sent.version, rows, generation }));
            tokio::select! {
                _ = changes.changed() => {}
                ended = stream.failure() => return Err(ended),
            }
            sleep(PAUSE).await;
        }
    }
}

/// Sends a message and waits until the backend has acknowledged its version, which is the latest in `sent`.
async fn send(stream: &mut Duplex, message: Bytes, sent: &SentRows) -> Result<(), RpcError> {
    let late = |_| BackendFailure::new(FailureKind::Late, "the backend does not accept the node table");
    let answer = timeout(MESSAGE_TIMEOUT, stream.exchange(message)).await.map_err(late)??;
    let SentRows { table, version, .. } = sent;
    let malformed = |what: String| malformed(format!("table {}: {what}", table.text()));
    let SyncNodesResponse { applied } =
        SyncNodesResponse::decode(answer).map_err(|error| malformed(error.to_string()))?;
    if applied == *version {
        return Ok(());
    }
    Err(malformed(format!("backend acknowledged version {applied}, expected {version}")).into())
}

/// A unique table name.
fn unique_name(api: ApiVersion) -> TableName {
    use std::hash::{BuildHasher, RandomState};
    // The random key of a hasher is the standard library's source of randomness.
    TableName { number: RandomState::new().hash_one(0_u8), api }
}
