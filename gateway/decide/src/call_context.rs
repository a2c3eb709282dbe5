//! The pod and nodes of one call, encoded once for each view in use.

use std::{
    borrow::Cow,
    sync::{Arc, OnceLock},
    time::Duration,
};

use bytes::Bytes;
use extender_gateway_backend::{
    Backend,
    endpoints::Caller,
    info::{ClusterTables, Info, NodesView, VerbPlan},
    remote_table::TableSource,
    session::Session,
};
use extender_gateway_cluster::{
    held::Held,
    table::{Column, Found, NodeRow, NodeRows, NodeSlots, ViewId},
};
use extender_gateway_contract::{
    api::ApiVersion,
    hook::Changes,
    nodes::{NodesField, Rows},
    pod::{PodView, pod_field},
    row::RowView,
};
use extender_gateway_core::{
    BackendFailure, FailureKind, PolicyVerb,
    filter::{Asked, NotSent},
};
use extender_gateway_record::{CallRecord, HoldUsers, Recorder};
use extender_gateway_wire::{Offer, Request};
use extender_otlp::TraceContext;
use extender_policy_api::v1beta1::Purpose;
use tokio::time::{Instant, timeout_at};

use super::{Call, CallError, DeciderSettings, asker::Asker, call_changes::CallChanges, own_pod::OwnPod};

/// The most that is kept of nodes that calls brought, in bytes.
const MOST_OFFERED_BYTES: usize = 256 << 20;
const MOST_OFFERED_NODES: usize = 200_000;

/// If the nodes together are too large for a request, those that alone exceed this fraction of it are left out.
pub(super) const LARGE_PART: usize = 8;

/// The pod and the nodes of a call, in the views that were needed so far.
#[derive(Debug)]
pub(super) struct CallContext<'c> {
    pub(super) call: Call<'c>,
    pub(super) id: String,
    /// The span of the decision, if tracing is enabled.
    pub(super) trace: Option<TraceContext>,
    /// Records the calls to backends.
    pub(super) recorder: Recorder,
    /// When the decision is due.
    pub(super) deadline: Instant,
    pub(super) purpose: Purpose,
    tables: &'c ClusterTables,
    /// Until when the call waits for unknown nodes, for all backends together.
    wait_until: Instant,
    /// Whether requests name nodes by their ids in the backends' tables.
    by_ids: bool,
    pub(super) encodings: Encodings,
}

/// What is encoded so far, and what it depends on.
#[derive(Debug, Default)]
pub(super) struct Encodings {
    /// The nodes' slots in the table that a watch or file fills.
    slots: Option<NodeSlots>,
    /// The version of the table of nodes from calls after this call's nodes were added, and the positions of those that
    /// cannot be read; `None` before.
    imported: Option<(u64, Vec<u32>)>,
    pods: Vec<(PodView, Bytes)>,
    nodes: Vec<EncodedNodes>,
    /// What hooks have changed so far.
    changes: CallChanges,
    /// Where the pod counts already.
    own: Option<OwnPod>,
}

/// The nodes in one view.
#[derive(Debug)]
pub(super) struct EncodedNodes {
    pub(super) view: NodesView,
    left_out: LeftOut,
    /// The rows of the nodes that are available, in the order of the call.
    pub(super) rows: NodeRows,
    /// The source of the rows.
    pub(super) source: TableSource,
    /// The number of the state that they are of; 0 if the call brings it.
    pub(super) snapshot: u64,
    /// The positions of the nodes with rows, ascending; `None` for all.
    pub(super) known: Option<Vec<u32>>,
    /// The positions of the other nodes, ascending.
    pub(super) unknown: Vec<u32>,
    /// The same by their causes.
    not_sent: NotSent,
    /// All rows as a field of a request.
    all: OnceLock<NodesField>,
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

impl EncodedNodes {
    /// With other rows at these indexes, which are in no table.
    pub(super) fn with_rows(self, changed: Vec<(usize, Bytes)>) -> Self {
        Self { rows: self.rows.clone().replaced(changed), snapshot: 0, all: OnceLock::new(), ..self }
    }

    /// The rows that a look-up in the table of a source has found.
    fn new(view: NodesView, source: TableSource, rows: NodeRows, unknown: Vec<u32>) -> Self {
        let known = (!unknown.is_empty()).then(|| {
            positions(rows.len() + unknown.len())
                .filter(|node| unknown.binary_search(node).is_err())
                .collect()
        });
        Self {
            view,
            left_out: LeftOut::None,
            rows,
            source,
            snapshot: 0,
            known,
            unknown,
            not_sent: NotSent::default(),
            all: OnceLock::new(),
        }
    }

    /// The same without the large nodes; `None` if this leaves out none or all of them.
    fn without(&self, is_large: impl Fn(&NodeRow<'_>) -> bool, left_out: LeftOut) -> Option<Self> {
        let large = self.rows.iter().filter(|row| is_large(row)).count();
        if large == 0 || large == self.rows.len() {
            return None;
        }
        let known = self.known.clone().unwrap_or_else(|| positions(self.rows.len()).collect());
        let (large, small): (Vec<_>, Vec<_>) =
            known.into_iter().zip(self.rows.iter()).partition(|(_, row)| is_large(row));
        let oversize: Vec<u32> = large.into_iter().map(|(node, _)| node).collect();
        let rows = self.rows.only(small.into_iter().map(|(_, row)| row.slot).collect());
        let mut unknown = [self.unknown.as_slice(), &oversize].concat();
        unknown.sort_unstable();
        let not_sent = NotSent { oversize, ..self.not_sent.clone() };
        let small = Self::new(self.view.clone(), self.source, rows, unknown);
        Some(Self { left_out, snapshot: self.snapshot, not_sent, ..small })
    }

    /// The number of these nodes.
    pub(super) fn count(&self, nodes: &Asked) -> usize {
        match nodes {
            Asked::All => self.rows.len(),
            Asked::Some(nodes) => nodes.len(),
        }
    }

    /// The slots of the rows of these nodes, in their order.
    pub(super) fn slots(&self, nodes: &Asked) -> Cow<'_, [u32]> {
        match nodes {
            Asked::All => Cow::Borrowed(self.rows.slots()),
            Asked::Some(nodes) => nodes.iter().map(|node| self.rows.slots()[self.index(*node)]).collect(),
        }
    }

    /// The index of the row of a node; `None` if it has none.
    pub(super) fn index_of(&self, node: u32) -> Option<usize> {
        match &self.known {
            None => Some(node as usize),
            Some(known) => known.binary_search(&node).ok(),
        }
    }

    /// The index of the row of a node that has one.
    fn index(&self, node: u32) -> usize {
        self.index_of(node).expect("nodes without rows are never sent")
    }

    /// The field with the rows in these slots. That with all rows is encoded once for all backends.
    pub(super) fn field(&self, slots: &[u32]) -> NodesField {
        if slots.len() == self.rows.len() {
            return self.all.get_or_init(|| encoded(self.rows.iter(), self.view.rows.api())).clone();
        }
        encoded(self.rows.rows(slots), self.view.rows.api())
    }
}

fn positions(nodes: usize) -> std::ops::Range<u32> {
    0..u32::try_from(nodes).expect("a body below 4 GiB has fewer nodes")
}

fn total<'r>(rows: impl Iterator<Item = NodeRow<'r>>) -> usize {
    rows.map(|row| row.bytes.len()).sum()
}

fn encoded<'r>(rows: impl Iterator<Item = NodeRow<'r>> + Clone, api: ApiVersion) -> NodesField {
    let mut field = Rows::with_capacity(total(rows.clone()));
    for row in rows {
        field.push(row.bytes);
    }
    field.finish(api)
}

/// How to call a backend in a call.
pub(super) struct Ready {
    pub(super) session: Arc<Session>,
    /// The indexes of its views in the [`CallContext`].
    pod: usize,
    nodes: usize,
}

impl Ready {
    /// Whether another session would be sent exactly the same.
    pub(super) fn fits(&self, verb: PolicyVerb, other: &Session, encoded: &EncodedNodes) -> bool {
        // Equal handshakes share a cache. What follows from another one, such as the range of scores, would not fit.
        Arc::ptr_eq(&self.session.cache, &other.cache)
            && encoded.left_out != LeftOut::ForOne
            && views(verb, &self.session) == views(verb, other)
    }
}

fn views(verb: PolicyVerb, session: &Session) -> Option<(&PodView, &NodesView)> {
    session.info.about_nodes(verb).ok().map(|plan| (&plan.pod, &plan.nodes))
}

/// How a backend can be called, or why it is unavailable.
pub(super) type Readiness = Result<Ready, BackendFailure>;

impl<'c> CallContext<'c> {
    /// The context of a call with nothing encoded yet.
    pub(super) fn new(settings: &'c DeciderSettings, call: Call<'c>, record: &CallRecord) -> Self {
        let own = OwnPod::find(&settings.tables, call.pod.uid());
        Self::with(settings, call, record, Encodings { own, ..Encodings::default() })
    }

    fn with(
        settings: &'c DeciderSettings,
        call: Call<'c>,
        record: &CallRecord,
        encodings: Encodings,
    ) -> Self {
        Self {
            call,
            id: record.id.clone(),
            trace: record.trace,
            recorder: record.recorder.clone(),
            deadline: call.began + settings.timeouts.decision,
            purpose: settings.purpose.of_calls(),
            tables: &settings.tables,
            wait_until: settings.unknown_nodes_deadline(call.began),
            by_ids: true,
            encodings,
        }
    }

    /// The context of the same call for shadow requests: they wait for no node, and carry the rows of all nodes.
    pub(super) fn in_shadow(
        settings: &'c DeciderSettings,
        call: Call<'c>,
        record: &CallRecord,
        encodings: Encodings,
    ) -> Self {
        let wait_until = Instant::now();
        Self { wait_until, by_ids: false, ..Self::with(settings, call, record, encodings) }
    }

    /// Asks a backend, which has this time, in this call.
    pub(super) fn asker<'a>(&self, backend: &'a Backend, verb: PolicyVerb, timeout: Duration) -> Asker<'a>
    where
        'c: 'a,
    {
        let Self { call: Call { pod, flow, .. }, purpose, deadline, .. } = *self;
        let caller = Caller { verb, pod: pod.uid() };
        Asker { backend, caller, flow, purpose, timeout, deadline: Some(deadline) }
    }

    /// The nodes that a backend is not sent. Logs those that are too large.
    pub(super) fn not_sent(&self, backend: &Backend, ready: &Readiness) -> NotSent {
        let Ok(ready) = ready else { return NotSent::default() };
        let not_sent = &self.nodes(ready).not_sent;
        if let [first, ..] = not_sent.oversize[..] {
            backend.log_oversize(not_sent.oversize.len(), self.call.request.names.name(first));
        }
        not_sent.clone()
    }

    pub(super) fn pod(&self, ready: &Ready) -> &Bytes {
        &self.encodings.pods[ready.pod].1
    }

    pub(super) fn nodes(&self, ready: &Ready) -> &EncodedNodes {
        &self.encodings.nodes[ready.nodes]
    }

    /// Encodes the pod and nodes in the backend's views. Returns how it can be called, or why it is unavailable.
    ///
    /// # Errors
    /// The nodes of the request are too large together.
    pub(super) async fn ready(
        &mut self,
        verb: PolicyVerb,
        backend: &Backend,
    ) -> Result<Readiness, CallError> {
        let caller = Caller { verb, pod: self.call.pod.uid() };
        let session = match backend.session(caller) {
            Ok(session) => session,
            Err(failure) => return Ok(Err(failure)),
        };
        let plan = match self.plan(verb, &session.info) {
            Ok(plan) => plan,
            Err(failure) => return Ok(Err(failure)),
        };
        let nodes = self.encode_nodes(&plan.nodes).await?;
        // Last, so that the counts in it are the latest.
        let pod = match self.encode_pod(&plan.pod) {
            Ok(pod) => pod,
            Err(failure) => return Ok(Err(failure)),
        };
        let nodes = self.without_oversize(nodes, &session);
        Ok(Ok(Ready { session, pod, nodes }))
    }

    /// Changes what is told from now on. Positions are those in the call. What was [ready](Self::ready) before is not any
    /// more.
    pub(super) fn change(&mut self, changes: &Changes) {
        if let Some(change) = &changes.pod {
            self.encodings.changes.pod.push(Arc::clone(change));
            self.encodings.pods.clear();
        }
        if !changes.nodes.is_empty() {
            self.encodings.changes.add_nodes(&changes.nodes);
            // Looked up again in the same state as far as they are needed, and then with all changes.
            self.encodings.nodes.clear();
        }
    }

    /// Encodes the pod in a view. Returns it, or why it cannot be told.
    pub(super) fn pod_in(&mut self, view: &PodView) -> Result<Bytes, BackendFailure> {
        let place = self.encode_pod(view)?;
        Ok(self.encodings.pods[place].1.clone())
    }

    /// The backend's plan, if there are facts for its view of nodes.
    fn plan<'i>(&self, verb: PolicyVerb, info: &'i Info) -> Result<&'i VerbPlan, BackendFailure> {
        let plan = info.about_nodes(verb)?;
        let from_table = self.tables.table.is_some() && plan.nodes.column.is_some();
        let names_alone = matches!(self.call.request.offer, Offer::Names);
        if !plan.nodes.rows.is_bare() && names_alone && !from_table {
            return Err(BackendFailure::new(
                FailureKind::Unsuitable,
                "needs facts about nodes, but the request contains only names: set nodes.source: Watch, or nodeCacheCapable: false in \
                 kube-scheduler's configuration",
            ));
        }
        Ok(plan)
    }

    fn encode_pod(&mut self, view: &PodView) -> Result<usize, BackendFailure> {
        if let Some(place) = self.encodings.pods.iter().position(|(known, _)| known == view) {
            return Ok(place);
        }
        let counts = self.tables.topology_counts(self.call.pod, &view.topology)?;
        let field =
            pod_field(self.call.pod, &self.call.request.pod(), view, counts, &self.encodings.changes.pod);
        self.encodings.pods.push((view.clone(), field));
        Ok(self.encodings.pods.len() - 1)
    }

    async fn encode_nodes(&mut self, view: &NodesView) -> Result<usize, CallError> {
        let is_same = |known: &EncodedNodes| known.view == *view && known.left_out == LeftOut::None;
        if let Some(place) = self.encodings.nodes.iter().position(is_same) {
            return Ok(place);
        }
        let (found, source) = self.look_up(view).await?;
        self.add_nodes(view.clone(), found, source);
        Ok(self.encodings.nodes.len() - 1)
    }

    fn add_nodes(&mut self, view: NodesView, found: Found, source: TableSource) {
        let Found { rows, unknown, unreadable, deleted, version, pods_number } = found;
        let table = self.tables.table.as_ref().filter(|_| source == TableSource::Cluster);
        let snapshot = match table.filter(|_| !view.rows.is_bare()) {
            Some(table) => table.snapshot_number(version),
            None => 0,
        };
        let may_come =
            |node: &u32| unreadable.binary_search(node).is_err() && deleted.binary_search(node).is_err();
        let new = unknown.iter().copied().filter(may_come).collect();
        let not_sent = NotSent { unknown: new, unreadable, deleted, oversize: Vec::new() };
        let encoded = EncodedNodes { snapshot, not_sent, ..EncodedNodes::new(view, source, rows, unknown) };
        let encoded = match &self.encodings.own {
            None => encoded,
            Some(own) => own.left_out_of(encoded, names(self.call.request)),
        };
        let own = self.encodings.own.as_ref().map(|_| self.call.pod.uid());
        let pods = self.tables.pods.as_deref();
        let held = Held { request: self.call.request, pods, number: pods_number, own };
        let applied = self.encodings.changes.applied_to(encoded, held);
        self.encodings.nodes.push(applied);
    }

    /// Where the record looks up what is left of the room that hooks hold.
    pub(super) fn hold_users(&self) -> HoldUsers {
        HoldUsers { pods: self.tables.pods.clone(), without_own: self.encodings.own.is_some() }
    }

    /// Looks the nodes up in the views of all these backends at once, so that they are told about the same state. The only
    /// view of several backends is looked up when it is needed.
    pub(super) async fn look_up_together<'b>(
        &mut self,
        verb: PolicyVerb,
        backends: impl Iterator<Item = &'b Backend>,
    ) {
        // What hooks were told is of an earlier state.
        self.encodings.nodes.clear();
        let (Offer::Names, Some(table)) = (&self.call.request.offer, &self.tables.table) else { return };
        let views = different_views(verb, backends);
        let ids: Vec<ViewId> = views.iter().filter_map(|view| view.column.as_ref()).map(Column::id).collect();
        if ids.is_empty() {
            return;
        }
        let all = table
            .rows_together(names(self.call.request), &ids, &mut self.encodings.slots, self.wait_until)
            .await;
        for (view, found) in views.into_iter().zip(all) {
            self.add_nodes(view, found, TableSource::Cluster);
        }
    }

    async fn look_up(&mut self, view: &NodesView) -> Result<(Found, TableSource), CallError> {
        let request = self.call.request;
        if let (Offer::Names, Some(table), Some(column)) = (&request.offer, &self.tables.table, &view.column)
        {
            let found = if view.rows.is_bare() {
                let found = table.look_up(names(request), column.id(), &mut self.encodings.slots);
                with_bare_rows(found, &view.rows, names(request))
            } else {
                table.rows(names(request), column.id(), &mut self.encodings.slots, self.wait_until).await
            };
            return Ok((found, TableSource::Cluster));
        }
        let mut changes = self.tables.offered.changes();
        loop {
            let found = self.import(view.offered.id())?;
            // All nodes are known, but the resources that pods have requested may be missing. Other calls may bring
            // other states in the meantime, so this call brings its own nodes again.
            let is_missing = found.unknown.len() > found.unreadable.len();
            if !is_missing || timeout_at(self.wait_until, changes.changed()).await.is_err() {
                return Ok((found, TableSource::Calls));
            }
        }
    }

    /// The rows of the nodes as this call brings them.
    fn import(&mut self, view: ViewId) -> Result<Found, CallError> {
        let (request, offered) = (self.call.request, &self.tables.offered);
        match &self.encodings.imported {
            None => offered.limit(MOST_OFFERED_BYTES, MOST_OFFERED_NODES),
            Some((version, unreadable)) => {
                let found = offered.look_up(names(request), view, &mut None);
                if found.version == *version && found.unknown == *unreadable {
                    return Ok(Found { unreadable: unreadable.clone(), ..found });
                }
            }
        }
        let found = offered.import(names(request), |node| request.object(node), view);
        let found = found.map_err(|(node, error)| {
            CallError::Request(format!("node {}: {error}", request.names.name(node)))
        })?;
        self.encodings.imported = Some((found.version, found.unreadable.clone()));
        Ok(found)
    }

    /// The index of the nodes at `place` without those that are too large for the backend. One node must not
    /// prevent a call for the others. If all are too large, the call fails, and the failure policy applies.
    fn without_oversize(&mut self, place: usize, session: &Session) -> usize {
        let nodes = &self.encodings.nodes[place];
        let most = session.info.most_request_bytes;
        if nodes.rows.most_bytes() <= most {
            return place;
        }
        let held = if self.by_ids { session.tables.latest(nodes.source, &nodes.view) } else { None };
        // The backend has accepted the rows in its table, and they are not sent again.
        let is_sent = |row: &NodeRow<'_>| held.as_ref().is_none_or(|held| !held.has(*row));
        if total(nodes.rows.iter().filter(is_sent)) <= most {
            return place;
        }
        let largest = most / LARGE_PART;
        let left_out = if held.is_some() { LeftOut::ForOne } else { LeftOut::Above(largest) };
        let is_same = |known: &EncodedNodes| known.view == nodes.view && known.left_out == left_out;
        if held.is_none()
            && let Some(known) = self.encodings.nodes.iter().position(is_same)
        {
            return known;
        }
        let is_large = |row: &NodeRow<'_>| row.bytes.len() > largest && is_sent(row);
        let Some(small) = nodes.without(is_large, left_out) else { return place };
        self.encodings.nodes.push(small);
        self.encodings.nodes.len() - 1
    }

    /// Which of the rows in these slots are still the current rows of their nodes; `None` if all of them.
    pub(super) fn current(&self, slots: &[u32], nodes: &EncodedNodes) -> Option<Vec<bool>> {
        let (table, column) = match nodes.source {
            TableSource::Cluster => (self.tables.table.as_ref(), nodes.view.column.as_ref()),
            TableSource::Calls => (Some(&self.tables.offered), Some(&nodes.view.offered)),
        };
        match table.zip(column) {
            Some((table, column)) => table.current(&nodes.rows, slots, column.id()),
            None => Some(vec![false; slots.len()]),
        }
    }
}

/// The views with rows of these backends; none if all of them have the same one: that is the most frequent case, and costs
/// nothing.
fn different_views<'b>(verb: PolicyVerb, backends: impl Iterator<Item = &'b Backend>) -> Vec<NodesView> {
    let (mut views, mut first) = (Vec::new(), None::<Arc<Session>>);
    for session in backends.filter_map(|backend| backend.any_session().ok()) {
        let Some(view) = view_with_rows(verb, &session) else { continue };
        let Some(known) = first.as_deref().and_then(|session| view_with_rows(verb, session)) else {
            first = Some(session);
            continue;
        };
        if views.is_empty() && view != known {
            views.push(known.clone());
        }
        if !views.is_empty() && !views.contains(view) {
            views.push(view.clone());
        }
    }
    views
}

/// The view of nodes, if it has rows in the table of a source.
fn view_with_rows(verb: PolicyVerb, session: &Session) -> Option<&NodesView> {
    let (_, view) = views(verb, session)?;
    (!view.rows.is_bare() && view.column.is_some()).then_some(view)
}

fn names(request: &Request) -> impl ExactSizeIterator<Item = &str> + Clone {
    (0..request.names.count()).map(|node| request.names.name(node))
}

/// Adds rows for the unknown nodes: the view has at most their names.
fn with_bare_rows<'n>(mut found: Found, view: &RowView, names: impl Iterator<Item = &'n str>) -> Found {
    if found.unknown.is_empty() {
        return found;
    }
    let unknown = std::mem::take(&mut found.unknown);
    let names: Vec<&str> = names.collect();
    let alone = unknown.iter().map(|position| view.bare_row(names[*position as usize])).collect();
    found.rows = found.rows.with_rows(&unknown, alone);
    found
}
