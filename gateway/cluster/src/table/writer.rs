//! The state of the table's writers: every node with its row in every registered view, from which a snapshot for
//! calls is made.

use std::sync::{Arc, Weak};

use extender_gateway_contract::row::RowView;
use extender_gateway_object::{ObjectError, counted::CountedBy, node};

use super::{
    Column, NodeRelist, ViewId,
    entry::{KnownPods, NodeEntry, NodeNames},
    rows::RowWriter,
    snapshot::{ChangeLog, TableSlot, TableSnapshot},
};

use crate::usage::UsageChange;
use bytes::Bytes;
use extender_policy_api::v1beta1::{NodeFacts, NodeUsage};

/// The number of nodes whose rows are in one piece of memory.
const PACKED_AT_ONCE: usize = 32;

/// A view, whose rows are kept while a column exists.
#[derive(Debug)]
struct Registered {
    view: RowView,
    column: Weak<ViewId>,
}

/// A node with its rows.
#[derive(Debug)]
pub(super) struct SlottedNode {
    entry: NodeEntry,
    position: u32,
    slot: TableSlot,
}

impl SlottedNode {
    fn has_row(&self, view: ViewId) -> bool {
        self.slot.get(view.0).is_some_and(Option::is_some)
    }
}

/// All nodes and registered views.
#[derive(Debug, Default)]
pub(super) struct TableWriter {
    /// By position in a slot; `None` where the position is free.
    views: Vec<Option<Registered>>,
    pub(super) nodes: NodeNames<SlottedNode>,
    /// The pods on nodes; `None` until pods are known.
    pods: Option<KnownPods>,
    /// The number of the latest change of pods; 0 before the first.
    pub(super) pods_number: u64,
    pub(super) rows: RowWriter,
    /// The slots below the highest one that have no node.
    free_slots: Vec<u32>,
    /// Bytes of all JSON that is kept.
    pub(super) raw_bytes: usize,
}

impl TableWriter {
    /// For nodes that calls send: keeps the JSON of every node. Its versions differ from those of other tables, because
    /// cached answers are identified by slot and version alone.
    pub(super) fn of_calls() -> Self {
        let rows = RowWriter { id_per_row: true, version: 1 << 63, ..RowWriter::default() };
        Self { rows, ..Self::default() }
    }

    /// The registered views.
    pub(super) fn views(&self) -> impl Iterator<Item = &RowView> {
        self.views.iter().flatten().map(|known| &known.view)
    }

    pub(super) fn wants_raw(&self) -> bool {
        self.rows.id_per_row || self.views().any(RowView::needs_json)
    }

    pub(super) fn relist(&self) -> NodeRelist {
        NodeRelist { keeps_raw: self.wants_raw(), nodes: NodeNames::default() }
    }

    /// The column of a view, which is registered without rows if it is new.
    pub(super) fn register(&mut self, view: RowView) -> Column {
        let mut known = self.views.iter().flatten().filter(|known| known.view == view);
        if let Some(column) = known.find_map(|known| known.column.upgrade()) {
            return Column(column);
        }
        let position = self.views.iter().position(Option::is_none).unwrap_or_else(|| {
            self.views.push(None);
            self.views.len() - 1
        });
        let column = Arc::new(ViewId(position));
        self.views[position] = Some(Registered { view, column: Arc::downgrade(&column) });
        Column(column)
    }

    /// Drops the rows of views without columns; false if there are no such views.
    pub(super) fn drop_unused_views(&mut self) -> bool {
        let unused = |view: &mut Option<Registered>| view.take_if(|known| known.column.strong_count() == 0);
        let views = self.views.iter_mut().enumerate();
        let dropped: Vec<_> = views.filter_map(|(position, view)| unused(view).map(|_| position)).collect();
        if dropped.is_empty() {
            return false;
        }
        let wants_raw = self.wants_raw();
        for node in self.nodes.values_mut() {
            for position in &dropped {
                node.slot.get_mut(*position).map(Option::take);
            }
            if !wants_raw {
                node.entry.raw = None;
            }
        }
        if !wants_raw {
            self.raw_bytes = 0;
        }
        self.rows.version += 1;
        true
    }

    /// Whether every node has its row in a view.
    pub(super) fn is_complete(&self, view: ViewId) -> bool {
        self.nodes.values().all(|node| node.has_row(view))
    }

    /// The nodes without a row in a view, whether or not the row can be written.
    pub(super) fn without_row(&self, view: ViewId) -> Vec<Arc<str>> {
        self.names_by_slot(|node| !node.has_row(view))
    }

    /// The names of the selected nodes in the order of their slots, in which rows are written next to each other.
    fn names_by_slot(&self, select: impl Fn(&SlottedNode) -> bool) -> Vec<Arc<str>> {
        let mut selected: Vec<_> = self.nodes.iter().filter(|(_, node)| select(node)).collect();
        selected.sort_unstable_by_key(|(_, node)| node.position);
        selected.into_iter().map(|(name, _)| Arc::clone(name)).collect()
    }

    /// Writes the rows of nodes that have none in a view. Returns the names of those that got one. Several backends may
    /// share a view and fill it at the same time: existing rows are kept.
    pub(super) fn fill(&mut self, names: &[Arc<str>], view: ViewId) -> Vec<Arc<str>> {
        let lacks_row = |name: &str| self.nodes.get(name).is_some_and(|node| !node.has_row(view));
        let mut missing: Vec<_> = names.iter().filter(|name| lacks_row(name)).cloned().collect();
        if missing.is_empty() {
            return missing;
        }
        self.begin_change(missing.len());
        for name in &missing {
            self.write_rows(name, |position, _| position == view.0);
        }
        missing.retain(|name| self.nodes.get(name).is_some_and(|node| node.has_row(view)));
        missing
    }

    /// Puts the rows of these nodes in a view into one piece of memory: a request copies the rows of thousands of nodes,
    /// which are then next to each other. A piece is kept as long as one of its rows is, so rows
    /// that change one by one leave at most as much behind as all rows took when they were packed.
    pub(super) fn pack(&mut self, names: &[Arc<str>], view: ViewId) {
        if self.views.get(view.0).and_then(Option::as_ref).is_none_or(|known| known.view.wants_raw()) {
            return;
        }
        let mut packed = Vec::new();
        for row in names.iter().filter_map(|name| self.nodes.get(name)?.slot.get(view.0)?.as_ref()) {
            packed.extend_from_slice(&row.bytes);
        }
        let mut packed = Bytes::from(packed);
        for name in names {
            let row = self.nodes.get_mut(name).and_then(|node| node.slot.get_mut(view.0)?.as_mut());
            if let Some(row) = row {
                row.bytes = packed.split_to(row.bytes.len());
            }
        }
    }

    /// Sets a node. Returns its name if the node has changed.
    pub(super) fn put(&mut self, name: &str, entry: NodeEntry) -> Option<Arc<str>> {
        let name = match self.nodes.get_key_value(name) {
            Some((_, node)) if node.entry == entry => return None,
            Some((name, _)) => Arc::clone(name),
            None => name.into(),
        };
        self.begin_change(1);
        self.set(&name, entry);
        Some(name)
    }

    /// Sets a node of a call, perhaps without JSON, and writes its row in a view. Returns its name unless the node and
    /// the row were known.
    pub(super) fn import(
        &mut self,
        name: &str,
        json: Option<&[u8]>,
        view: ViewId,
    ) -> Result<Option<Arc<str>>, ObjectError> {
        let is_same = |node: &SlottedNode| json.is_none_or(|json| node.entry.raw.as_deref() == Some(json));
        if let Some((known, node)) = self.nodes.get_key_value(name).filter(|(_, node)| is_same(node)) {
            if node.has_row(view) {
                return Ok(None);
            }
            let missing = [Arc::clone(known)];
            return Ok(self.fill(&missing, view).pop());
        }
        let entry = match json {
            Some(json) => NodeEntry::new(&node::offered(json)?, Some(json)),
            None => NodeEntry::default(),
        };
        Ok(self.put(name, entry))
    }

    /// Sets the usage of these nodes. The first call makes the usage of all nodes known. Returns the nodes with rows that
    /// have changed.
    pub(super) fn apply_usage(&mut self, change: &UsageChange) -> Vec<Arc<str>> {
        let all = self.pods.get_or_insert_default().apply(change);
        self.pods_number = change.number;
        if !self.views().any(RowView::depends_on_pods) {
            return Vec::new();
        }
        let mut names: Vec<_> = if all {
            self.nodes.keys().cloned().collect()
        } else {
            let nodes = change.nodes.iter().map(|(name, _)| name);
            nodes.chain(change.nominated.iter().map(|(name, _)| name)).cloned().collect()
        };
        if names.is_empty() {
            return names;
        }
        self.begin_change(names.len());
        names.retain(|name| self.write_rows(name, |_, view| view.depends_on_pods()));
        names
    }

    /// By what the views count pods.
    pub(super) fn counted_by(&self) -> impl Iterator<Item = &CountedBy> {
        self.views().flat_map(RowView::pod_counts).map(|counts| &counts.by)
    }

    /// The facts about a node, and the requests of the pods on it; `None` if there is no such node.
    pub(super) fn known(&self, name: &str) -> Option<(Option<NodeFacts>, Option<NodeUsage>)> {
        let facts = self.nodes.get(name)?.entry.facts();
        Some((facts, self.pods.as_ref().map(|pods| pods.usage(name))))
    }

    /// The extended resources that a node reports; `None` if its facts are unknown.
    pub(super) fn reported_resources(&self, name: &str) -> Option<Vec<String>> {
        let facts = self.nodes.get(name)?.entry.facts()?;
        let reported = [facts.allocatable, facts.capacity].into_iter().flatten();
        Some(reported.flat_map(|reported| reported.others.into_keys()).collect())
    }

    /// Removes a node; false if it is unknown.
    pub(super) fn remove(&mut self, name: &str) -> bool {
        let is_known = self.nodes.contains_key(name);
        if is_known {
            self.rows.version += 1;
            self.delete(name);
        }
        is_known
    }

    /// Replaces all nodes by those of the list; unchanged ones keep their rows. Returns the removed nodes, or `None` if
    /// nothing has changed.
    pub(super) fn replace(&mut self, relist: NodeRelist) -> Option<Vec<Arc<str>>> {
        let generation = self.rows.generation;
        self.begin_change(relist.nodes.len());
        let mut is_changed = generation != self.rows.generation;
        let gone = self.nodes.keys().filter(|name| !relist.nodes.contains_key(*name));
        let gone: Vec<_> = gone.cloned().collect();
        for name in &gone {
            self.delete(name);
        }
        // The lowest one is taken first.
        self.free_slots.sort_unstable_by(|one, other| other.cmp(one));
        // By name, as kube-apiserver lists them and kube-scheduler names them within a zone: the rows of a call are then
        // next to each other, here and in the tables of backends.
        let mut listed: Vec<_> = relist.nodes.into_iter().collect();
        listed.sort_unstable_by(|(one, _), (other, _)| one.cmp(other));
        for (name, entry) in listed {
            if self.nodes.get(&name).is_none_or(|node| node.entry != entry) {
                self.set(&name, entry);
                is_changed = true;
            }
        }
        if !is_changed && gone.is_empty() {
            return None;
        }
        // The unchanged rows too: a piece of which a few are left would be kept for them.
        for names in self.names_by_slot(|_| true).chunks(PACKED_AT_ONCE) {
            (0..self.views.len()).for_each(|view| self.pack(names, ViewId(view)));
        }
        Some(gone)
    }

    /// Removes all nodes. Slots are reused; versions and ids are not.
    pub(super) fn clear(&mut self) {
        self.rows.version += 1;
        self.nodes.clear();
        self.free_slots.clear();
        self.raw_bytes = 0;
    }

    /// What is known about each node.
    pub(super) fn entries(&self) -> impl Iterator<Item = (&Arc<str>, &NodeEntry)> {
        self.nodes.iter().map(|(name, node)| (name, &node.entry))
    }

    /// What is known about a node; `None` if it is unknown.
    pub(super) fn entry(&self, name: &str) -> Option<&NodeEntry> {
        self.nodes.get(name).map(|node| &node.entry)
    }

    /// The position and rows of a node.
    pub(super) fn slot_of(&self, name: &str) -> Option<(u32, &TableSlot)> {
        self.nodes.get(name).map(|node| (node.position, &node.slot))
    }

    /// The table as calls read it.
    pub(super) fn snapshot(&self) -> TableSnapshot {
        let mut snapshot = TableSnapshot::new(self.rows.version, self.rows.generation);
        for (name, node) in &self.nodes {
            snapshot.put(name, node.position, &node.slot);
        }
        // Without the slots that have lost their nodes, the log would be incomplete.
        snapshot.log = ChangeLog::begin(self.rows.version);
        snapshot
    }

    /// Begins the next version, which may write all rows of this many nodes. If there are not enough ids for them, all
    /// rows get ids of the next generation, in a version of their own.
    fn begin_change(&mut self, nodes: usize) {
        self.rows.version += 1;
        if self.rows.has_ids(nodes.saturating_mul(self.views.len())) {
            return;
        }
        self.rows.begin_generation();
        for row in self.nodes.values_mut().flat_map(|node| node.slot.iter_mut().flatten()) {
            row.id = self.rows.next_id();
        }
        self.rows.version += 1;
    }

    fn set(&mut self, name: &Arc<str>, entry: NodeEntry) {
        self.raw_bytes += entry.raw_len();
        if let Some(node) = self.nodes.get_mut(name) {
            self.raw_bytes -= node.entry.raw_len();
            node.entry = entry;
        } else {
            // Without a free slot, the nodes have all slots below their number.
            let position = self.free_slots.pop().unwrap_or_else(|| {
                u32::try_from(self.nodes.len()).expect("the number of a slot has 32 bits")
            });
            let node = SlottedNode { entry, position, slot: TableSlot::new() };
            self.nodes.insert(Arc::clone(name), node);
        }
        self.write_rows(name, |_, _| true);
    }

    fn delete(&mut self, name: &str) {
        let Some(node) = self.nodes.remove(name) else { return };
        self.raw_bytes -= node.entry.raw_len();
        self.free_slots.push(node.position);
    }

    /// Writes the rows of a node in the selected views. Returns whether any has changed.
    fn write_rows(&mut self, name: &str, select: impl Fn(usize, &RowView) -> bool) -> bool {
        let Some(node) = self.nodes.get_mut(name) else { return false };
        node.slot.resize_with(self.views.len(), || None);
        let mut is_changed = false;
        for ((position, registered), row) in self.views.iter().enumerate().zip(&mut node.slot) {
            if let Some(Registered { view, .. }) = registered
                && select(position, view)
            {
                is_changed |= self.rows.write(row, node.entry.row(name, view, self.pods.as_ref()));
            }
        }
        is_changed
    }
}
