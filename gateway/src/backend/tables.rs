//! The tables of nodes at one backend: which streams there are, and what calls can rely on.

use std::sync::Arc;

use bytes::Bytes;
use h2::client::SendRequest;
use tokio::task::{AbortHandle, JoinSet};

use super::{
    held::{Held, Holding, Misses, Named},
    info::{Info, NodesView},
    link::{Paths, Task},
    sync::Sync,
};
use crate::{
    cluster::table::{Column, NodeTable},
    observe::Seldom,
};

/// Where the gateway has nodes from.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Source {
    /// A watch or a file.
    Cluster,
    /// Calls brought them.
    Calls,
}

/// What a backend holds, by source and view.
#[derive(Debug, Clone, Default)]
pub struct Tables(Vec<(Source, NodesView, Arc<Held>)>);

impl Tables {
    /// What it holds of the nodes of a source in a view now; `None` for nothing.
    pub fn latest(&self, source: Source, view: &NodesView) -> Option<Arc<Holding>> {
        self.held(source, view)?.latest()
    }

    /// The same for one question; `None` when the question has to bring rows.
    pub fn named(&self, source: Source, view: &NodesView) -> Option<Named> {
        self.held(source, view)?.named()
    }

    fn held(&self, source: Source, view: &NodesView) -> Option<&Arc<Held>> {
        let (.., held) = self.0.iter().find(|(from, known, _)| *from == source && known == view)?;
        Some(held)
    }
}

/// The streams of a connection, which end with it.
#[derive(Debug)]
pub(super) struct Streams<'k> {
    task: &'k Task,
    open: Vec<Open>,
    misses: Arc<Misses>,
    log_limit: Arc<Seldom>,
    running: JoinSet<()>,
}

/// A stream. Its table is not held any more when this is dropped.
#[derive(Debug)]
struct Open {
    source: Source,
    view: NodesView,
    held: Arc<Held>,
    stream: AbortHandle,
}

impl Drop for Open {
    fn drop(&mut self) {
        self.stream.abort();
        // Calls may still have the link of an earlier handshake.
        self.held.set(None);
    }
}

impl<'k> Streams<'k> {
    pub(super) fn new(task: &'k Task) -> Self {
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
    pub(super) fn keep(&mut self, info: &Info, connection: &SendRequest<Bytes>, paths: &Paths) -> Tables {
        let views: Vec<_> = info.views().filter(|_| info.keeps_tables).collect();
        self.open.retain(|open| views.contains(&&open.view));
        for view in views {
            if let Some((table, column)) = self.task.known.table.as_ref().zip(view.column.as_ref()) {
                self.open((Source::Cluster, table, column), view, connection, paths);
            }
            self.open((Source::Calls, &self.task.known.offered, &view.offered), view, connection, paths);
        }
        Tables(
            self.open.iter().map(|open| (open.source, open.view.clone(), Arc::clone(&open.held))).collect(),
        )
    }

    fn open(
        &mut self,
        (source, table, column): (Source, &Arc<NodeTable>, &Column),
        view: &NodesView,
        connection: &SendRequest<Bytes>,
        paths: &Paths,
    ) {
        if self.open.iter().any(|open| open.source == source && open.view == *view) {
            return;
        }
        let held = Arc::new(Held::new(Arc::clone(&self.misses)));
        let sync = Sync {
            backend: self.task.settings.name.to_string(),
            table: Arc::clone(table),
            view: column.clone(),
            described: view.rows.described(),
            held: Arc::clone(&held),
            metrics: Arc::clone(&self.task.metrics),
            log_limit: Arc::clone(&self.log_limit),
        };
        let stream = self.running.spawn(sync.keep(connection.clone(), paths.sync.clone()));
        self.open.push(Open { source, view: view.clone(), held, stream });
    }
}
