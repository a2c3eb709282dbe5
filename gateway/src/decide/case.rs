//! What one call is about, encoded once for each view that some backend wants.

use std::time::Duration;

use bytes::Bytes;
use extender_gateway_core::{BackendFailure, FailureKind, filter::Asked};
use tokio::time::{Instant, timeout_at};

use super::{Call, CallError};
use crate::{
    backend::{
        info::{NodesView, PodView},
        question::{Encoded, Nodes, Rows, pod_field},
        row::{self, RowView},
    },
    cluster::table::{NodeTable, ViewId},
    object,
    wire::Offer,
};

/// How long a call waits for nodes that kube-scheduler knows and the watch does not yet: it is usually
/// milliseconds behind.
const GRACE: Duration = Duration::from_millis(100);

/// A guess of a row's size, for the first reservation of memory.
pub(super) const ROW_GUESS: usize = 64;

/// The pod and the nodes of a call, in the views that were asked for so far.
#[derive(Debug)]
pub(super) struct Case<'c> {
    call: Call<'c>,
    pub(super) id: String,
    table: Option<&'c NodeTable>,
    /// Until when the call waits for unknown nodes. Once for all backends.
    patience: Instant,
    pods: Vec<(PodView, Bytes)>,
    nodes: Vec<(RowView, Told)>,
}

/// Nodes in one view.
#[derive(Debug)]
pub(super) struct Told {
    encoded: Encoded,
    /// The nodes that could be told, ascending; `None` for all.
    known: Option<Vec<u32>>,
    /// The others, ascending.
    pub(super) unknown: Vec<u32>,
}

impl Told {
    /// The question's part of the nodes: all that could be told, or some of these.
    pub(super) fn part(&self, asked: &Asked) -> Nodes {
        let Asked::Some(nodes) = asked else { return self.encoded.all.clone() };
        let rank = |node: &u32| match &self.known {
            None => *node as usize,
            Some(known) => {
                known.binary_search(node).expect("nobody is asked about nodes that cannot be told")
            }
        };
        let nodes: Vec<usize> = nodes.iter().map(rank).collect();
        if nodes.len() == self.encoded.all.count as usize {
            return self.encoded.all.clone();
        }
        self.encoded.part(nodes.into_iter())
    }

    /// The nodes that could be told; `None` for all.
    pub(super) fn known(&self) -> Option<Vec<u32>> {
        self.known.clone()
    }

    /// All that could be told.
    pub(super) fn all(&self) -> &Nodes {
        &self.encoded.all
    }

    /// How many could be told.
    pub(super) fn count(&self) -> u32 {
        self.encoded.all.count
    }
}

/// The places of a backend's views in a [`Case`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Views {
    pod: usize,
    nodes: usize,
}

impl<'c> Case<'c> {
    /// A call that has to be decided within `budget` from its beginning.
    pub(super) fn new(
        call: Call<'c>,
        id: String,
        (table, budget): (Option<&'c NodeTable>, Duration),
    ) -> Self {
        let patience = patience(Instant::now(), call.began, budget);
        Self { call, id, table, patience, pods: Vec::new(), nodes: Vec::new() }
    }

    pub(super) fn pod(&self, views: Views) -> &Bytes {
        &self.pods[views.pod].1
    }

    pub(super) fn nodes(&self, views: Views) -> &Told {
        &self.nodes[views.nodes].1
    }

    /// Makes sure that pod and nodes are there in these views.
    ///
    /// # Errors
    /// The outer: the request holds a node that cannot be read. The inner: there is nothing that could be
    /// told to this backend.
    pub(super) async fn tell(
        &mut self,
        pod: &PodView,
        nodes: &NodesView,
    ) -> Result<Result<Views, BackendFailure>, CallError> {
        let known = self.nodes.iter().position(|(view, _)| *view == nodes.rows);
        let nodes = match known {
            Some(place) => place,
            None => match self.tell_nodes(nodes).await? {
                Err(failure) => return Ok(Err(failure)),
                Ok(told) => {
                    self.nodes.push((nodes.rows.clone(), told));
                    self.nodes.len() - 1
                }
            },
        };
        Ok(Ok(Views { pod: self.tell_pod(pod), nodes }))
    }

    fn tell_pod(&mut self, view: &PodView) -> usize {
        if let Some(place) = self.pods.iter().position(|(known, _)| known == view) {
            return place;
        }
        let field = pod_field(self.call.pod, view, &self.call.request.pod());
        self.pods.push((view.clone(), field));
        self.pods.len() - 1
    }

    async fn tell_nodes(&self, view: &NodesView) -> Result<Result<Told, BackendFailure>, CallError> {
        if view.rows == RowView::Name {
            return Ok(Ok(self.by_name()));
        }
        if let Offer::Objects(_) = self.call.request.offer {
            return self.read_from_request(&view.rows).map(Ok);
        }
        match (self.table, view.column) {
            (Some(table), Some(column)) => Ok(Ok(self.read_from_table(table, column).await)),
            _ => Ok(Err(no_facts())),
        }
    }

    fn by_name(&self) -> Told {
        let names = &self.call.request.names;
        let mut rows = Rows::with_capacity(names.count() as usize, ROW_GUESS);
        for node in 0..names.count() {
            rows.push(|out| row::encode_name(names.name(node), out));
        }
        Told { encoded: rows.finish(), known: None, unknown: Vec::new() }
    }

    fn read_from_request(&self, view: &RowView) -> Result<Told, CallError> {
        let names = &self.call.request.names;
        let mut rows = Rows::with_capacity(names.count() as usize, ROW_GUESS);
        for node in 0..names.count() {
            let json = self.call.request.object(node).expect("a request with objects has one for each name");
            let object =
                object::node::parse(&json).map_err(|error| CallError::node(names.name(node), &error))?;
            rows.push(|out| row::encode_object(view, &object, &json, out));
        }
        Ok(Told { encoded: rows.finish(), known: None, unknown: Vec::new() })
    }

    /// Rows of the table; waits a moment for those that are not there.
    async fn read_from_table(&self, table: &NodeTable, column: ViewId) -> Told {
        // Taken first, so that a change between a look and the wait is not missed.
        let mut changes = table.changes();
        let told = self.look_up(table, column);
        if told.unknown.is_empty() {
            return told;
        }
        while timeout_at(self.patience, changes.next()).await.is_ok() {
            if self.all_known(&told.unknown, table, column) {
                break;
            }
        }
        self.look_up(table, column)
    }

    fn all_known(&self, nodes: &[u32], table: &NodeTable, column: ViewId) -> bool {
        let read = table.read();
        nodes.iter().all(|&node| read.entry(self.call.request.names.name(node), column).is_some())
    }

    fn look_up(&self, table: &NodeTable, column: ViewId) -> Told {
        let names = &self.call.request.names;
        let mut unknown = Vec::new();
        let read = table.read();
        let first = read.entry(names.name(0), column).map_or(ROW_GUESS, <[u8]>::len);
        let mut rows = Rows::with_capacity(names.count() as usize, first + first / 8);
        for node in 0..names.count() {
            match read.entry(names.name(node), column) {
                Some(row) => rows.push(|out| out.extend_from_slice(row)),
                None => unknown.push(node),
            }
        }
        let known = (!unknown.is_empty())
            .then(|| (0..names.count()).filter(|node| unknown.binary_search(node).is_err()).collect());
        Told { encoded: rows.finish(), known, unknown }
    }
}

fn no_facts() -> BackendFailure {
    BackendFailure::new(
        FailureKind::Unsuitable,
        "wants facts about nodes, and the request has names alone: set nodes.source to Watch, or \
         nodeCacheCapable to false in kube-scheduler's configuration",
    )
}

/// Until when a call waits for unknown nodes: the backends need time, too.
pub(super) fn patience(now: Instant, began: Instant, budget: Duration) -> Instant {
    (now + GRACE).min(began + budget / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_unknown_nodes_leaves_the_backends_half_of_the_budget() {
        let began = Instant::now();
        let read = began + Duration::from_millis(10);
        for (budget, waits) in [(1000, 110), (220, 110), (100, 50), (10, 5)] {
            let until = patience(read, began, Duration::from_millis(budget));
            assert_eq!(until, began + Duration::from_millis(waits), "{budget} ms");
        }
    }
}
