//! The pod and nodes of one call, encoded once for each view in use.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use extender_gateway_core::{BackendFailure, FailureKind, filter::Asked};
use extender_otlp::TraceContext;
use tokio::time::{Instant, timeout_at};

use super::{Call, CallError};
use crate::{
    backend::{
        Backend,
        info::{ClusterTables, NodesView, Plan},
        remote_table::TableSource,
        session::Session,
    },
    cluster::table::{Column, Found, NodeRow, NodeRows, ViewId},
    contract::{
        nodes::{NodesField, Rows},
        pod::{PodView, pod_field},
        row::{self, RowView},
    },
    record::{CallRecord, Recorder},
    wire::Offer,
};

/// The most that is kept of nodes that calls brought, in bytes.
const MOST_OFFERED_BYTES: usize = 256 << 20;
const MOST_OFFERED_NODES: usize = 200_000;

/// The pod and the nodes of a call, in the views that were needed so far.
#[derive(Debug)]
pub(super) struct CallContext<'c> {
    call: Call<'c>,
    pub(super) id: String,
    /// The span of the decision, if tracing is enabled.
    pub(super) trace: Option<TraceContext>,
    /// Records the calls to backends.
    pub(super) recorder: Recorder,
    known: &'c ClusterTables,
    /// Until when the call waits for unknown nodes, for all backends together.
    patience: Instant,
    /// The version of the table of nodes from calls after this call's nodes were added; `None` before.
    brought: Option<u64>,
    pods: Vec<(PodView, Bytes)>,
    nodes: Vec<NodesInView>,
    /// Whether requests name nodes by their ids in the backends' tables.
    by_ids: bool,
}

/// The nodes in one view.
#[derive(Debug)]
struct NodesInView {
    view: NodesView,
    told: EncodedNodes,
    /// Which nodes are left out.
    left_out: LeftOut,
}

/// Which nodes are left out of requests because they are too large.
#[derive(Debug, PartialEq, Eq)]
enum LeftOut {
    None,
    /// Those larger than this, in bytes.
    Above(usize),
    /// The large ones that one backend does not have in its table yet.
    ForOne,
}

/// Nodes in one view.
#[derive(Debug)]
pub(super) struct EncodedNodes {
    /// The rows of the nodes that are available, in the order of the call.
    lines: NodeRows,
    /// The source of the rows.
    pub(super) source: TableSource,
    /// The version of that table at the lookup.
    version: u64,
    /// The positions of these nodes, ascending; `None` for all.
    known: Option<Vec<u32>>,
    /// The positions of the other nodes, ascending.
    pub(super) unknown: Vec<u32>,
    /// Those of the unknown nodes that were deleted, ascending.
    pub(super) deleted: Vec<u32>,
    /// Those of the unknown nodes that are too large for a request, ascending.
    pub(super) oversize: Vec<u32>,
    /// Bytes of all rows.
    bytes: OnceLock<usize>,
    /// All rows as a field of a request.
    all: OnceLock<NodesField>,
}

/// If the nodes together are too large for a request, those that alone exceed this fraction of it are left out.
pub(super) const LARGE_PART: usize = 8;

impl EncodedNodes {
    /// The result of a lookup in the table of a source.
    fn of(found: Found, source: TableSource) -> Self {
        let Found { rows: lines, unknown, deleted, version } = found;
        let count = number(lines.len() + unknown.len());
        let known = (!unknown.is_empty())
            .then(|| (0..count).filter(|node| unknown.binary_search(node).is_err()).collect());
        let (bytes, all, oversize) = (OnceLock::new(), OnceLock::new(), Vec::new());
        Self { lines, source, version, known, unknown, deleted, oversize, bytes, all }
    }

    fn bytes(&self) -> usize {
        *self.bytes.get_or_init(|| total(self.lines.iter()))
    }

    /// The same without the large nodes; `None` if this leaves out none or all of them.
    fn without(&self, is_large: impl Fn(&NodeRow) -> bool) -> Option<Self> {
        let large = self.lines.iter().filter(|line| is_large(line)).count();
        if large == 0 || large == self.lines.len() {
            return None;
        }
        let known = self.known.clone().unwrap_or_else(|| (0..number(self.lines.len())).collect());
        let told = known.into_iter().zip(self.lines.iter());
        let (large, small): (Vec<_>, Vec<_>) = told.partition(|(_, line)| is_large(line));
        let oversize: Vec<u32> = large.into_iter().map(|(node, _)| node).collect();
        let (known, lines): (Vec<_>, Vec<_>) =
            small.into_iter().map(|(node, line)| (node, line.clone())).unzip();
        let mut unknown = [self.unknown.as_slice(), &oversize].concat();
        unknown.sort_unstable();
        Some(Self {
            lines: lines.into(),
            source: self.source,
            version: self.version,
            known: Some(known),
            unknown,
            deleted: self.deleted.clone(),
            oversize,
            bytes: OnceLock::new(),
            all: OnceLock::new(),
        })
    }

    /// The rows of these nodes, in their order.
    pub(super) fn lines(&self, asked: &Asked) -> Vec<&NodeRow> {
        let line = |node: &u32| match &self.known {
            None => self.lines.at(*node as usize),
            Some(known) => {
                let rank = known.binary_search(node);
                self.lines.at(rank.expect("nodes without rows are never sent"))
            }
        };
        match asked {
            Asked::All => self.lines.iter().collect(),
            Asked::Some(nodes) => nodes.iter().map(line).collect(),
        }
    }

    /// The positions of the nodes with rows; `None` for all.
    pub(super) fn known(&self) -> Option<Vec<u32>> {
        self.known.clone()
    }

    /// The field with all rows. Encoded once for all backends.
    pub(super) fn all(&self) -> NodesField {
        self.all.get_or_init(|| encoded(self.lines.iter(), self.bytes())).clone()
    }

    /// The field with these rows.
    pub(super) fn part(&self, lines: &[&NodeRow]) -> NodesField {
        if lines.len() == self.lines.len() {
            return self.all();
        }
        encoded(lines.iter().copied(), total(lines.iter().copied()))
    }
}

fn number(nodes: usize) -> u32 {
    u32::try_from(nodes).expect("a body below 4 GiB has fewer nodes")
}

fn total<'l>(lines: impl Iterator<Item = &'l NodeRow>) -> usize {
    lines.map(|line| line.state.bytes.len()).sum()
}

fn encoded<'l>(lines: impl Iterator<Item = &'l NodeRow>, bytes: usize) -> NodesField {
    let mut rows = Rows::with_capacity(bytes);
    for line in lines {
        rows.push(&line.state.bytes);
    }
    rows.finish()
}

/// The indexes of a backend's views in a [`CallContext`].
#[derive(Debug, Clone, Copy)]
pub(super) struct Views {
    pod: usize,
    nodes: usize,
}

/// How to call a backend in a call.
pub(super) struct Ready {
    pub(super) session: Arc<Session>,
    pub(super) views: Views,
}

/// How a backend can be called, or why it is unavailable.
pub(super) type Readiness = Result<Ready, BackendFailure>;

/// Why pod and nodes cannot be encoded for a backend.
enum Unready {
    /// This backend is unavailable; its failure policy applies.
    Backend(BackendFailure),
    /// The request contains a node that cannot be parsed, which ends the call.
    Call(CallError),
}

impl From<BackendFailure> for Unready {
    fn from(failure: BackendFailure) -> Self {
        Self::Backend(failure)
    }
}

impl From<CallError> for Unready {
    fn from(error: CallError) -> Self {
        Self::Call(error)
    }
}

impl<'c> CallContext<'c> {
    /// Creates the context of a call that waits for unknown nodes until `patience`.
    pub(super) fn new(
        call: Call<'c>,
        record: &CallRecord,
        known: &'c ClusterTables,
        patience: Instant,
    ) -> Self {
        let (id, trace, recorder) = (record.id.clone(), record.trace, record.recorder.clone());
        Self {
            call,
            id,
            trace,
            recorder,
            known,
            patience,
            brought: None,
            pods: Vec::new(),
            nodes: Vec::new(),
            by_ids: true,
        }
    }

    pub(super) fn pod(&self, views: Views) -> &Bytes {
        &self.pods[views.pod].1
    }

    pub(super) fn name(&self, node: u32) -> &str {
        self.call.request.names.name(node)
    }

    pub(super) fn nodes(&self, views: Views) -> &EncodedNodes {
        &self.nodes[views.nodes].told
    }

    /// Encodes the pod and nodes in the backend's views. Returns how it can be called, or why it is unavailable.
    ///
    /// # Errors
    /// The request contains a node that cannot be parsed.
    pub(super) async fn ready<P: Plan>(&mut self, backend: &Backend) -> Result<Readiness, CallError> {
        match self.encode::<P>(backend).await {
            Ok(ready) => Ok(Ok(ready)),
            Err(Unready::Backend(failure)) => Ok(Err(failure)),
            Err(Unready::Call(error)) => Err(error),
        }
    }

    async fn encode<P: Plan>(&mut self, backend: &Backend) -> Result<Ready, Unready> {
        let session = backend.session()?;
        let plan = P::of(&session.info).as_ref().map_err(Clone::clone)?.common();
        let mut views = self.encode_views(&plan.pod, &plan.nodes).await?;
        views.nodes = self.that_fit(views.nodes, &session);
        Ok(Ready { session, views })
    }

    /// Switches to shadow requests: they wait for no node, and carry the rows of all nodes.
    pub(super) fn decided(&mut self) {
        self.patience = Instant::now();
        self.by_ids = false;
    }

    /// Makes sure that pod and nodes are encoded in these views.
    async fn encode_views(&mut self, pod: &PodView, nodes: &NodesView) -> Result<Views, Unready> {
        let known =
            self.nodes.iter().position(|known| known.view == *nodes && known.left_out == LeftOut::None);
        let nodes = if let Some(place) = known {
            place
        } else {
            let told = self.encode_nodes(nodes).await?;
            self.nodes.push(NodesInView { view: nodes.clone(), told, left_out: LeftOut::None });
            self.nodes.len() - 1
        };
        Ok(Views { pod: self.encode_pod(pod), nodes })
    }

    /// The index of the nodes at `place` without those that are too large for the backend. One node must not
    /// prevent a call for the others. If all are too large, the call fails, and the failure policy applies.
    fn that_fit(&mut self, place: usize, session: &Session) -> usize {
        let NodesInView { view, told, .. } = &self.nodes[place];
        let most = session.info.most_request_bytes;
        if told.bytes() <= most {
            return place;
        }
        let held = if self.by_ids { session.tables.latest(told.source, view) } else { None };
        // The backend has accepted the rows in its table, and they are not sent again.
        let is_sent = |row: &NodeRow| held.as_ref().is_none_or(|held| !held.has(&row.state));
        if total(told.lines.iter().filter(|row| is_sent(row))) <= most {
            return place;
        }
        let largest = most / LARGE_PART;
        let left_out = if held.is_some() { LeftOut::ForOne } else { LeftOut::Above(largest) };
        let is_same = |known: &NodesInView| known.view == *view && known.left_out == left_out;
        if let (LeftOut::Above(_), Some(known)) = (&left_out, self.nodes.iter().position(is_same)) {
            return known;
        }
        let is_large = |row: &NodeRow| row.state.bytes.len() > largest && is_sent(row);
        let Some(told) = told.without(is_large) else { return place };
        self.nodes.push(NodesInView { view: view.clone(), told, left_out });
        self.nodes.len() - 1
    }

    /// Which of these rows are still the current rows of their nodes in that view.
    pub(super) fn are_current(&self, lines: &[&NodeRow], view: &NodesView, told: &EncodedNodes) -> Vec<bool> {
        let (table, column) = match told.source {
            TableSource::Cluster => (self.known.table.as_ref(), view.column.as_ref()),
            TableSource::Calls => (Some(&self.known.offered), Some(&view.offered)),
        };
        let Some((table, column)) = table.zip(column.map(Column::id)) else {
            return vec![false; lines.len()];
        };
        let read = table.read();
        let unchanged = read.version() == told.version;
        let current =
            |line: &&NodeRow| if unchanged { line.state.is_kept() } else { read.is_current(line, column) };
        lines.iter().map(current).collect()
    }

    fn encode_pod(&mut self, view: &PodView) -> usize {
        if let Some(place) = self.pods.iter().position(|(known, _)| known == view) {
            return place;
        }
        let field = pod_field(self.call.pod, view, &self.call.request.pod());
        self.pods.push((view.clone(), field));
        self.pods.len() - 1
    }

    async fn encode_nodes(&mut self, view: &NodesView) -> Result<EncodedNodes, Unready> {
        let names_alone = view.rows == RowView::Name;
        let request = self.call.request;
        let names = (0..request.names.count()).map(|node| request.names.name(node));
        let column = view.column.as_ref().map(Column::id);
        match (&request.offer, &self.known.table, column) {
            (Offer::Names, Some(table), Some(column)) if names_alone => {
                let found = table.look_up(names.clone(), column);
                Ok(EncodedNodes::of(with_strangers(found, names), TableSource::Cluster))
            }
            (Offer::Names, Some(table), Some(column)) => {
                Ok(EncodedNodes::of(table.rows(names, column, self.patience).await, TableSource::Cluster))
            }
            (Offer::Names, _, _) if !names_alone => Err(no_facts().into()),
            _ => {
                let mut changes = self.known.offered.changes();
                loop {
                    let found = self.import(view.offered.id())?;
                    // All nodes are known, but the resources that pods have requested may be missing. Other calls
                    // may bring other states in the meantime, so this call brings its own nodes again.
                    let is_all = found.unknown.is_empty();
                    if is_all || timeout_at(self.patience, changes.changed()).await.is_err() {
                        return Ok(EncodedNodes::of(found, TableSource::Calls));
                    }
                }
            }
        }
    }

    /// The rows of the nodes as this call brings them.
    fn import(&mut self, view: ViewId) -> Result<Found, CallError> {
        let (request, offered) = (self.call.request, &self.known.offered);
        let names = (0..request.names.count()).map(|node| request.names.name(node));
        match self.brought {
            None => offered.limit(MOST_OFFERED_BYTES, MOST_OFFERED_NODES),
            Some(version) => {
                let found = offered.look_up(names.clone(), view);
                if found.version == version && found.unknown.is_empty() {
                    return Ok(found);
                }
            }
        }
        let unreadable = |(node, error)| CallError::node(request.names.name(node), &error);
        let found = offered.import(names, |node| request.object(node), view).map_err(unreadable)?;
        self.brought = Some(found.version);
        Ok(found)
    }
}

/// Adds rows for the unknown nodes: the view contains only names.
fn with_strangers<'n>(found: Found, names: impl Iterator<Item = &'n str>) -> Found {
    if found.unknown.is_empty() {
        return found;
    }
    let Found { rows: known, unknown, deleted, version } = found;
    let (mut known, mut unknown) = (known.iter().cloned(), unknown.into_iter().peekable());
    let line = |(place, name)| match unknown.next_if_eq(&place) {
        Some(_) => Some(NodeRow::unkept(row::name_alone(name))),
        None => known.next(),
    };
    let lines: Vec<NodeRow> = (0..).zip(names).filter_map(line).collect();
    Found { rows: lines.into(), unknown: Vec::new(), deleted, version }
}

fn no_facts() -> BackendFailure {
    BackendFailure::new(
        FailureKind::Unsuitable,
        "needs facts about nodes, but the request contains only names: set nodes.source: Watch, or nodeCacheCapable: false in kube-scheduler's \
         configuration",
    )
}

/// Until when a call waits for unknown nodes, at most `grace`: the backends need time, too.
pub(super) fn unknown_nodes_deadline(
    now: Instant,
    grace: Duration,
    began: Instant,
    budget: Duration,
) -> Instant {
    (now + grace).min(began + budget / 2)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waiting_for_unknown_nodes_leaves_the_backends_half_of_the_budget() {
        let began = Instant::now();
        let read = began + Duration::from_millis(10);
        for (budget, waits) in [(1000, 110), (220, 110), (100, 50), (10, 5)] {
            let until = unknown_nodes_deadline(
                read,
                Duration::from_millis(100),
                began,
                Duration::from_millis(budget),
            );
            assert_eq!(until, began + Duration::from_millis(waits), "{budget} ms");
        }
    }
}
