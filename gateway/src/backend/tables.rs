//! The tables of nodes at one backend: which streams there are, and what calls can rely on.

use std::{convert::Infallible, future::pending, panic::resume_unwind, sync::Arc};

use bytes::Bytes;
use h2::client::SendRequest;
use tokio::task::JoinSet;

use super::{
    held::{Held, Holding},
    info::{Info, Known, NodesView},
    link::Paths,
    sync::Sync,
};
use crate::{cluster::table::NodeTable, config};

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
        let (.., held) = self.0.iter().find(|(from, known, _)| *from == source && known == view)?;
        held.latest()
    }
}

/// The streams of a connection, which end with it.
#[derive(Debug)]
pub(super) struct Streams<'k> {
    known: &'k Known,
    settings: &'k config::Backend,
    tables: Tables,
    running: JoinSet<()>,
}

impl<'k> Streams<'k> {
    pub(super) fn new(known: &'k Known, settings: &'k config::Backend) -> Self {
        Self { known, settings, tables: Tables::default(), running: JoinSet::new() }
    }

    /// Makes sure that there is a stream for each view that a handshake asks for. One that is there goes on.
    pub(super) fn keep(&mut self, info: &Info, connection: &SendRequest<Bytes>, paths: &Paths) -> Tables {
        if info.keeps_tables {
            for view in info.views(self.settings) {
                if let Some(table) = &self.known.table {
                    self.open((Source::Cluster, table), view, connection, paths);
                }
                self.open((Source::Calls, &self.known.offered), view, connection, paths);
            }
        }
        self.tables.clone()
    }

    fn open(
        &mut self,
        (source, table): (Source, &Arc<NodeTable>),
        view: &NodesView,
        connection: &SendRequest<Bytes>,
        paths: &Paths,
    ) {
        let column = match source {
            Source::Cluster => view.column,
            Source::Calls => Some(view.offered),
        };
        let there = self.tables.0.iter().any(|(from, known, _)| *from == source && known == view);
        let Some(column) = column.filter(|_| !there) else { return };
        let held = Arc::new(Held::default());
        let sync = Sync {
            backend: self.settings.name.to_string(),
            table: Arc::clone(table),
            view: column,
            described: view.rows.described(),
            held: Arc::clone(&held),
        };
        self.running.spawn(sync.keep(connection.clone(), paths.sync.clone()));
        self.tables.0.push((source, view.clone(), held));
    }
}

impl Streams<'_> {
    /// Waits until a stream's task panics, which should never happen, and passes that on.
    pub(super) async fn panicked(&mut self) -> Infallible {
        loop {
            match self.running.join_next().await {
                Some(Err(ended)) if ended.is_panic() => resume_unwind(ended.into_panic()),
                Some(_) => {}
                None => pending().await,
            }
        }
    }
}

impl Drop for Streams<'_> {
    fn drop(&mut self) {
        for (.., held) in &self.tables.0 {
            held.set(None);
        }
    }
}
