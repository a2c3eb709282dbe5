//! The tables of nodes at one backend: which streams there are, and what calls can rely on.

use std::sync::Arc;

use bytes::Bytes;
use h2::client::SendRequest;
use tokio::task::{AbortHandle, JoinSet};

use super::{
    info::{Info, NodesView},
    remote_table::{AckedTable, MissBreaker, RemoteTable, TableReference},
    session::{Paths, SessionTask},
    sync::TableStream,
};
use crate::{
    cluster::table::{Column, NodeTable},
    observe::RateLimitedLog,
};

/// Where the gateway has nodes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum TableSource {
    /// A watch or a file.
    Cluster,
    /// Calls brought them.
    Calls,
}

/// What a backend holds, by source and view.
#[derive(Debug, Clone, Default)]
pub struct RemoteTables(Vec<(TableSource, NodesView, Arc<RemoteTable>)>);

impl RemoteTables {
    /// What it holds of the nodes of a source in a view now; `None` for nothing.
    pub fn latest(&self, source: TableSource, view: &NodesView) -> Option<Arc<AckedTable>> {
        self.held(source, view)?.acked()
    }

    /// The same for one question; `None` when the question has to bring rows.
    pub fn named(&self, source: TableSource, view: &NodesView) -> Option<TableReference> {
        self.held(source, view)?.reference()
    }

    fn held(&self, source: TableSource, view: &NodesView) -> Option<&Arc<RemoteTable>> {
        let (.., held) = self.0.iter().find(|(from, known, _)| *from == source && known == view)?;
        Some(held)
    }
}

/// The streams of a connection, which end with it.
#[derive(Debug)]
pub(super) struct Streams<'k> {
    task: &'k SessionTask,
    open: Vec<OpenStream>,
    misses: Arc<MissBreaker>,
    log_limit: Arc<RateLimitedLog>,
    running: JoinSet<()>,
}

/// A stream. Its table is not held any more when this is dropped.
#[derive(Debug)]
struct OpenStream {
    source: TableSource,
    view: NodesView,
    held: Arc<RemoteTable>,
    stream: AbortHandle,
}

impl Drop for OpenStream {
    fn drop(&mut self) {
        self.stream.abort();
        // Calls may still have the session of an earlier handshake.
        self.held.set(None);
    }
}

impl<'k> Streams<'k> {
    pub(super) fn new(task: &'k SessionTask) -> Self {
        Self {
            task,
            open: Vec::new(),
            misses: Arc::default(),
            log_limit: Arc::default(),
            running: JoinSet::new(),
        }
    }

    /// Makes sure that there is a stream for each view that a handshake asks for, and none for another. One that is
    /// there goes on.
    pub(super) fn keep(
        &mut self,
        info: &Info,
        connection: &SendRequest<Bytes>,
        paths: &Paths,
    ) -> RemoteTables {
        let views: Vec<_> = info.views().filter(|_| info.keeps_tables).collect();
        self.open.retain(|open| views.contains(&&open.view));
        for view in views {
            if let Some((table, column)) = self.task.tables.table.as_ref().zip(view.column.as_ref()) {
                self.open((TableSource::Cluster, table, column), view, connection, paths);
            }
            self.open(
                (TableSource::Calls, &self.task.tables.offered, &view.offered),
                view,
                connection,
                paths,
            );
        }
        RemoteTables(
            self.open.iter().map(|open| (open.source, open.view.clone(), Arc::clone(&open.held))).collect(),
        )
    }

    fn open(
        &mut self,
        (source, table, column): (TableSource, &Arc<NodeTable>, &Column),
        view: &NodesView,
        connection: &SendRequest<Bytes>,
        paths: &Paths,
    ) {
        if self.open.iter().any(|open| open.source == source && open.view == *view) {
            return;
        }
        let held = Arc::new(RemoteTable::new(Arc::clone(&self.misses)));
        let sync = TableStream {
            backend: self.task.settings.name.to_string(),
            table: Arc::clone(table),
            view: column.clone(),
            described: view.rows.described(),
            held: Arc::clone(&held),
            metrics: Arc::clone(&self.task.metrics),
            log_limit: Arc::clone(&self.log_limit),
        };
        let stream = self.running.spawn(sync.keep(connection.clone(), paths.sync.clone()));
        self.open.push(OpenStream { source, view: view.clone(), held, stream });
    }
}
