//! The node tables at one backend: its streams, and the state that calls can rely on.

use std::sync::Arc;

use bytes::Bytes;
use h2::client::SendRequest;
use http::Uri;
use tokio::task::{AbortHandle, JoinSet};

use super::{
    info::{ClusterTables, Info, NodesView},
    remote_table::{AckedTable, MissBreaker, RemoteTable, TableReference},
    sync::TableStream,
};
use crate::{
    cluster::table::{Column, NodeTable},
    observe::{Metrics, RateLimitedLog},
};

/// The source of nodes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableSource {
    /// A watch or a file.
    Cluster,
    /// Calls brought them.
    Calls,
}

/// The tables at a backend, by source and view.
#[derive(Debug, Clone, Default)]
pub struct RemoteTables(Vec<(TableSource, NodesView, Arc<RemoteTable>)>);

impl RemoteTables {
    /// Its current state for the nodes of a source in a view; `None` if it has none.
    pub fn latest(&self, source: TableSource, view: &NodesView) -> Option<Arc<AckedTable>> {
        self.held(source, view)?.acked()
    }

    /// The same for one request; `None` if the request must carry rows.
    pub fn named(&self, source: TableSource, view: &NodesView) -> Option<TableReference> {
        self.held(source, view)?.reference()
    }

    fn held(&self, source: TableSource, view: &NodesView) -> Option<&Arc<RemoteTable>> {
        let (.., held) = self.0.iter().find(|(from, known, _)| *from == source && known == view)?;
        Some(held)
    }
}

/// The common data of a connection's streams.
#[derive(Debug)]
pub(super) struct StreamContext {
    /// The backend's name, for the log.
    pub(super) backend: String,
    /// The sources of facts about nodes.
    pub(super) tables: ClusterTables,
    /// Where panics are counted.
    pub(super) metrics: Arc<Metrics>,
    pub(super) connection: SendRequest<Bytes>,
    /// The URI of `SyncNodes`.
    pub(super) path: Uri,
}

/// The streams of a connection, which end with it.
#[derive(Debug)]
pub(super) struct Streams {
    context: StreamContext,
    open: Vec<OpenStream>,
    misses: Arc<MissBreaker>,
    log_limit: Arc<RateLimitedLog>,
    running: JoinSet<()>,
}

/// A stream. When it is dropped, calls stop using its table.
#[derive(Debug)]
struct OpenStream {
    source: TableSource,
    view: NodesView,
    held: Arc<RemoteTable>,
    stream: AbortHandle,
}

/// A view in the gateway's table of a source.
struct ViewOfTable<'v> {
    table: Arc<NodeTable>,
    column: &'v Column,
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.stream.abort();
        // Calls may still use the session of an earlier handshake.
        self.held.set(None);
    }
}

impl Streams {
    pub(super) fn new(context: StreamContext) -> Self {
        Self {
            context,
            open: Vec::new(),
            misses: Arc::default(),
            log_limit: Arc::default(),
            running: JoinSet::new(),
        }
    }

    /// Makes sure that exactly the views in a handshake have a stream. Existing streams continue.
    pub(super) fn keep(&mut self, info: &Info) -> RemoteTables {
        let views: Vec<_> = info.views().filter(|_| info.keeps_tables).collect();
        self.open.retain(|open| views.contains(&&open.view));
        for view in views {
            let ClusterTables { table, offered, .. } = self.context.tables.clone();
            if let Some((table, column)) = table.zip(view.column.as_ref()) {
                self.open(TableSource::Cluster, view, ViewOfTable { table, column });
            }
            self.open(TableSource::Calls, view, ViewOfTable { table: offered, column: &view.offered });
        }
        RemoteTables(
            self.open.iter().map(|open| (open.source, open.view.clone(), Arc::clone(&open.held))).collect(),
        )
    }

    fn open(&mut self, source: TableSource, view: &NodesView, rows: ViewOfTable<'_>) {
        if self.open.iter().any(|open| open.source == source && open.view == *view) {
            return;
        }
        let held = Arc::new(RemoteTable::new(Arc::clone(&self.misses)));
        let StreamContext { backend, metrics, connection, path, .. } = &self.context;
        let sync = TableStream {
            backend: backend.clone(),
            table: rows.table,
            view: rows.column.clone(),
            described: view.rows.described(),
            held: Arc::clone(&held),
            metrics: Arc::clone(metrics),
            log_limit: Arc::clone(&self.log_limit),
        };
        let stream = self.running.spawn(sync.keep(connection.clone(), path.clone()));
        self.open.push(OpenStream { source, view: view.clone(), held, stream });
    }
}
