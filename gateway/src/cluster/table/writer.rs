//! What the writers of the table know: every node, and its row in every view.
//!
//! Of a node are kept its facts with all annotations, in the contract's encoding: rows of a later view are
//! made from them, and equal facts have equal bytes, so they tell a heartbeat from a change. The JSON is
//! kept only while something wants it, as a slice of the row of a view that does.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
};

use bytes::Bytes;
use extender_policy_api::v1alpha1::{NodeFacts, NodeUsage};
use prost::Message;

use super::{
    Change, Column, RowState, ViewId,
    ids::{RowIdKind, RowIds},
    log::ChangeLog,
    snapshot::{TableSlot, TableSnapshot},
};
use crate::{
    contract::row::{self, RowView},
    object::{
        ObjectError,
        annotations::AnnotationPrefixes,
        node::{self, ObjectNode},
    },
};

/// A map by node name. Names are shared between the maps.
pub(super) type NodeNames<T> = HashMap<Arc<str>, T, foldhash::fast::RandomState>;

/// What is known of a node.
#[derive(Debug)]
pub(super) struct NodeEntry {
    /// `None` where the name is all that is known.
    facts: Option<Bytes>,
    raw: Option<Bytes>,
}

impl NodeEntry {
    /// `raw` is its JSON, where it is to be kept.
    pub(super) fn new(object: &ObjectNode<'_>, raw: Option<&[u8]>) -> Self {
        let facts = object.facts(&AnnotationPrefixes::all()).encode_to_vec().into();
        Self { facts: Some(facts), raw: raw.map(Bytes::copy_from_slice) }
    }

    /// A node of which only the name is known.
    pub(super) fn name_alone() -> Self {
        Self { facts: None, raw: None }
    }

    fn json_bytes(&self) -> usize {
        self.raw.as_ref().map_or(0, Bytes::len)
    }

    fn is_same(&self, other: &Self) -> bool {
        self.facts == other.facts && self.raw == other.raw
    }

    /// The row in a view; `None` where the view wants what is not known.
    fn row(&mut self, name: &str, view: &RowView, usage: &Usages) -> Option<Bytes> {
        let usage = if view.wants_usage() { Some(usage.of(name)?) } else { None };
        let raw = if view.wants_raw() { Some(self.raw.as_deref()?) } else { None };
        let facts = match view.annotations() {
            Some(annotations) => Some(self.facts(annotations)?),
            None => None,
        };
        let row = row::RowMessage { name, facts: facts.as_ref(), raw, usage: usage.as_ref() };
        let behind = row.behind_the_json();
        let mut entry = Vec::with_capacity(row.encoded_len());
        row.encode(&mut entry);
        let entry = Bytes::from(entry);
        if let (true, Some(raw)) = (view.wants_raw(), &mut self.raw) {
            // One copy of it serves both.
            let end = entry.len() - behind;
            *raw = entry.slice(end - raw.len()..end);
        }
        Some(entry)
    }

    fn facts(&self, wanted: &AnnotationPrefixes) -> Option<NodeFacts> {
        let mut facts =
            NodeFacts::decode(&**self.facts.as_ref()?).expect("the table encoded these facts itself");
        facts.annotations.retain(|key, _| wanted.want(key));
        Some(facts)
    }
}

/// What the pods on each node have requested.
#[derive(Debug, Default)]
struct Usages {
    /// Whether nodes that are not here have no pods, rather than are not heard of.
    are_known: bool,
    by_node: NodeNames<NodeUsage>,
}

impl Usages {
    fn of(&self, node: &str) -> Option<NodeUsage> {
        self.are_known.then(|| self.by_node.get(node).cloned().unwrap_or_default())
    }
}

/// A node with its place.
#[derive(Debug)]
struct SlottedEntry {
    entry: NodeEntry,
    position: u32,
    slot: TableSlot,
}

impl SlottedEntry {
    /// Whether it has no row in a view.
    fn lacks(&self, view: ViewId) -> bool {
        self.slot.get(view.0).is_none_or(Option::is_none)
    }

    fn json_bytes(&self) -> usize {
        self.entry.json_bytes()
    }
}

/// The nodes of a list while it arrives, which may take several pages.
#[derive(Debug)]
pub struct NodeRelist {
    keeps_raw: bool,
    nodes: NodeNames<NodeEntry>,
}

impl NodeRelist {
    /// Adds a node; of two with one name the later counts, and `Changed` says so.
    pub fn add(&mut self, json: &[u8]) -> Result<Change, ObjectError> {
        let object = node::parse(json)?;
        let known = NodeEntry::new(&object, self.keeps_raw.then_some(json));
        let before = self.nodes.insert(object.name().into(), known);
        Ok(if before.is_some() { Change::Changed } else { Change::Added })
    }

    /// How many nodes it holds.
    pub fn len(&self) -> usize {
        self.nodes.len()
    }

    /// Whether it holds none.
    pub fn is_empty(&self) -> bool {
        self.nodes.is_empty()
    }
}

/// What a list has changed.
#[derive(Debug)]
pub(super) struct Replaced {
    pub(super) change: Change,
    /// The nodes that are not in it.
    pub(super) gone: Vec<Arc<str>>,
}

/// A view of which rows are kept while something holds it.
#[derive(Debug)]
struct Registered {
    view: RowView,
    holders: Weak<()>,
}

/// What a row is written with.
#[derive(Debug)]
struct Pen<'p> {
    ids: &'p mut RowIds,
    meaning: RowIdKind,
    /// Of the rows that it writes.
    version: u64,
}

impl Pen<'_> {
    /// Puts these bytes in place of a row's. A row whose bytes stay is left as it is.
    fn write(&mut self, row: &mut Option<RowState>, bytes: Option<Bytes>) {
        if row.as_ref().map(|row| &row.bytes) == bytes.as_ref() {
            return;
        }
        let kept = row.as_ref().and_then(|row| row.id).filter(|_| self.meaning == RowIdKind::Node);
        *row = bytes.map(|bytes| {
            let id = kept.unwrap_or_else(|| self.ids.next());
            RowState { bytes, version: self.version, id: Some(id) }
        });
    }
}

/// All nodes, and the views that are registered.
#[derive(Debug, Default)]
pub(super) struct TableWriter {
    /// By place in a slot; `None` where the place is free.
    views: Vec<Option<Registered>>,
    nodes: NodeNames<SlottedEntry>,
    usages: Usages,
    /// What ids stand for. Where calls bring the nodes it is one row, and all JSON is kept.
    meaning: RowIdKind,
    /// Slots below `slots` that no node has.
    free: Vec<u32>,
    slots: u32,
    ids: RowIds,
    /// Of the latest change.
    version: u64,
    /// Of all JSON that is kept.
    json_bytes: usize,
}

impl TableWriter {
    /// For nodes that calls bring: keeps every node's JSON. Its versions are others than those of a table without: what
    /// is remembered goes by slot and version alone, whichever table they are of.
    pub(super) fn of_calls() -> Self {
        Self { meaning: RowIdKind::Row, version: 1 << 63, ..Self::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn wants_raw(&self) -> bool {
        self.meaning == RowIdKind::Row || self.views().any(|(_, view)| view.wants_raw())
    }

    pub(super) fn relist(&self) -> NodeRelist {
        NodeRelist { keeps_raw: self.wants_raw(), nodes: NodeNames::default() }
    }

    pub(super) fn contains(&self, name: &str) -> bool {
        self.nodes.contains_key(name)
    }

    /// The registered views with their places.
    fn views(&self) -> impl Iterator<Item = (usize, &RowView)> {
        let registered = self.views.iter().enumerate();
        registered.filter_map(|(place, known)| Some((place, &known.as_ref()?.view)))
    }

    /// How many views are registered.
    pub(super) fn columns(&self) -> usize {
        self.views().count()
    }

    /// Takes a node of a call, of which nothing but the name may be said, with its row in a view; returns the name to
    /// file it under, unless all of that is known.
    pub(super) fn import(
        &mut self,
        (name, json): (&str, Option<&[u8]>),
        view: ViewId,
    ) -> Result<Option<Arc<str>>, ObjectError> {
        let known = self.nodes.get(name);
        let is_same =
            |placed: &&SlottedEntry| json.is_none_or(|json| placed.entry.raw.as_deref() == Some(json));
        if let Some(placed) = known.filter(is_same) {
            return Ok(if placed.lacks(view) { self.fill(name, view) } else { None });
        }
        let fresh = match json {
            Some(json) => NodeEntry::new(&node::offered(json)?, Some(json)),
            None => NodeEntry::name_alone(),
        };
        Ok(Some(self.put(name, fresh).0))
    }

    /// Registers a view, without rows yet, or finds it.
    pub(super) fn register(&mut self, view: RowView) -> Column {
        let known = self.views().find(|(_, known)| **known == view).map(|(place, _)| place);
        let place = known.or_else(|| self.views.iter().position(Option::is_none)).unwrap_or_else(|| {
            self.views.push(None);
            self.views.len() - 1
        });
        let known = self.views[place].as_ref().and_then(|known| known.holders.upgrade());
        let held = known.unwrap_or_default();
        self.views[place] = Some(Registered { view, holders: Arc::downgrade(&held) });
        Column { id: ViewId(place), held }
    }

    /// Drops the rows of views that are no longer in use; false if there are none.
    pub(super) fn drop_unheld(&mut self) -> bool {
        let unheld = |known: &Option<Registered>| {
            known.as_ref().is_some_and(|known| known.holders.strong_count() == 0)
        };
        if !self.views.iter().any(unheld) {
            return false;
        }
        let places: Vec<usize> = (0..self.views.len()).filter(|place| unheld(&self.views[*place])).collect();
        for place in &places {
            self.views[*place] = None;
        }
        let wants_raw = self.wants_raw();
        for placed in self.nodes.values_mut() {
            for place in &places {
                placed.slot.get_mut(*place).map(Option::take);
            }
            if !wants_raw {
                self.json_bytes -= placed.json_bytes();
                placed.entry.raw = None;
            }
        }
        self.version += 1;
        true
    }

    /// The nodes that have no row in a view, whether or not what it wants of them is known.
    pub(super) fn without_row(&self, view: ViewId) -> Vec<Arc<str>> {
        self.nodes.iter().filter(|(_, placed)| placed.lacks(view)).map(|(name, _)| Arc::clone(name)).collect()
    }

    /// Writes the row of a node that has none in a view; returns the name to file it under, if there is a row now.
    pub(super) fn fill(&mut self, name: &str, view: ViewId) -> Option<Arc<str>> {
        self.make_room_for_ids(1);
        self.version += 1;
        let known = self.views.get(view.0)?.as_ref()?;
        let name = Arc::clone(self.nodes.get_key_value(name)?.0);
        let placed = self.nodes.get_mut(&name)?;
        if placed.slot.len() <= view.0 {
            placed.slot.resize_with(view.0 + 1, || None);
        }
        let mut pen = Pen { ids: &mut self.ids, meaning: self.meaning, version: self.version };
        let row = &mut placed.slot[view.0];
        pen.write(row, placed.entry.row(&name, &known.view, &self.usages));
        row.is_some().then_some(name)
    }

    /// Makes room for the ids of the rows of so many nodes. Where there is none, all rows get ids of the next
    /// generation.
    pub(super) fn make_room_for_ids(&mut self, nodes: usize) {
        if self.ids.have(nodes.saturating_mul(self.views.len())) {
            return;
        }
        self.version += 1;
        self.ids.begin_generation();
        for row in self.nodes.values_mut().flat_map(|placed| placed.slot.iter_mut().flatten()) {
            row.id = Some(self.ids.next());
        }
    }

    /// Of the ids of all rows.
    pub(super) fn generation(&self) -> u32 {
        self.ids.generation()
    }

    #[cfg(test)]
    pub(super) fn skip_ids_to(&mut self, number: u32) {
        self.ids.skip_to(number);
    }

    /// Whether every node has its row in the view.
    pub(super) fn is_complete(&self, view: ViewId) -> bool {
        !self.nodes.values().any(|placed| placed.lacks(view))
    }

    /// Takes a node; returns the name to file it under.
    pub(super) fn put(&mut self, name: &str, fresh: NodeEntry) -> (Arc<str>, Change) {
        match self.nodes.get_key_value(name) {
            Some((name, placed)) if placed.entry.is_same(&fresh) => (name.clone(), Change::Unchanged),
            Some((name, _)) => (self.place(name.clone(), fresh), Change::Changed),
            None => (self.place(name.into(), fresh), Change::Added),
        }
    }

    fn place(&mut self, name: Arc<str>, known: NodeEntry) -> Arc<str> {
        self.make_room_for_ids(1);
        self.version += 1;
        let before = self.nodes.remove(&name);
        self.json_bytes -= before.as_ref().map_or(0, SlottedEntry::json_bytes);
        self.json_bytes += known.json_bytes();
        let placed = self.placed(&name, known, before);
        self.nodes.insert(name.clone(), placed);
        name
    }

    /// The node with its rows, at its place or a new one. A row whose bytes stay keeps its version.
    fn placed(&mut self, name: &str, mut known: NodeEntry, before: Option<SlottedEntry>) -> SlottedEntry {
        let (at, mut slot) = match before {
            Some(SlottedEntry { position: at, slot, .. }) => (at, slot),
            None => self.new_slot(),
        };
        slot.resize_with(self.views.len(), || None);
        let mut pen = Pen { ids: &mut self.ids, meaning: self.meaning, version: self.version };
        for (view, row) in self.views.iter().zip(&mut slot) {
            let Some(Registered { view, .. }) = view else { continue };
            pen.write(row, known.row(name, view, &self.usages));
        }
        SlottedEntry { entry: known, position: at, slot }
    }

    /// Takes what pods have requested on these nodes; of all others it is known from now on. Returns the nodes that
    /// have other rows now.
    pub(super) fn use_up(&mut self, changed: &[(Arc<str>, NodeUsage)]) -> Vec<Arc<str>> {
        let first = !std::mem::replace(&mut self.usages.are_known, true);
        let names: Vec<Arc<str>> = if first {
            self.nodes.keys().cloned().collect()
        } else {
            changed.iter().map(|(name, _)| name.clone()).collect()
        };
        for (name, usage) in changed {
            // Nodes without pods are dropped eventually.
            if *usage == NodeUsage::default() {
                self.usages.by_node.remove(name);
            } else {
                self.usages.by_node.insert(Arc::clone(name), usage.clone());
            }
        }
        if !self.views().any(|(_, view)| view.wants_usage()) {
            return Vec::new();
        }
        self.make_room_for_ids(names.len());
        self.version += 1;
        names.into_iter().filter(|name| self.renew_usage(name)).collect()
    }

    /// Rewrites the rows of a node that contain usage; false if it has none.
    fn renew_usage(&mut self, name: &Arc<str>) -> bool {
        let Some(placed) = self.nodes.get_mut(name) else { return false };
        let mut pen = Pen { ids: &mut self.ids, meaning: self.meaning, version: self.version };
        for (view, row) in self.views.iter().zip(&mut placed.slot) {
            let Some(Registered { view, .. }) = view else { continue };
            if view.wants_usage() {
                pen.write(row, placed.entry.row(name, view, &self.usages));
            }
        }
        true
    }

    /// The extended resources that a node reports; `None` where it is not known.
    pub(super) fn reported_resources(&self, name: &str) -> Option<Vec<String>> {
        let facts = self.nodes.get(name)?.entry.facts(&AnnotationPrefixes::default())?;
        let reported = [facts.allocatable, facts.capacity].into_iter().flatten();
        Some(reported.flat_map(|reported| reported.others.into_keys()).collect())
    }

    fn new_slot(&mut self) -> (u32, TableSlot) {
        let at = self.free.pop().unwrap_or_else(|| {
            self.slots += 1;
            self.slots - 1
        });
        (at, TableSlot::new())
    }

    pub(super) fn remove(&mut self, name: &str) -> Change {
        let Some(gone) = self.nodes.remove(name) else { return Change::Unchanged };
        self.version += 1;
        self.json_bytes -= gone.json_bytes();
        self.free.push(gone.position);
        Change::Changed
    }

    /// Takes exactly the nodes of the list. One that is the same as before keeps its rows.
    pub(super) fn replace(&mut self, relist: NodeRelist) -> Replaced {
        let generation = self.generation();
        self.make_room_for_ids(relist.len());
        self.version += 1;
        let mut before = std::mem::take(&mut self.nodes);
        let mut change = if generation == self.generation() { Change::Unchanged } else { Change::Changed };
        for (name, fresh) in relist.nodes {
            let (name, placed) = match before.remove_entry(&name) {
                Some((name, placed)) if placed.entry.is_same(&fresh) => (name, placed),
                other => {
                    change = Change::Changed;
                    let placed = self.placed(&name, fresh, other.map(|(_, placed)| placed));
                    (name, placed)
                }
            };
            self.nodes.insert(name, placed);
        }
        self.free.extend(before.values().map(|placed| placed.position));
        self.json_bytes = self.nodes.values().map(SlottedEntry::json_bytes).sum();
        let change = if before.is_empty() { change } else { Change::Changed };
        Replaced { change, gone: before.into_keys().collect() }
    }

    /// Forgets all nodes. Slots are used again, versions and ids are not.
    pub(super) fn clear(&mut self) {
        self.version += 1;
        self.free.extend(self.nodes.drain().map(|(_, placed)| placed.position));
        self.json_bytes = 0;
    }

    /// Bytes of all JSON that is kept.
    pub(super) fn json_bytes(&self) -> usize {
        self.json_bytes
    }

    /// The node's place and rows.
    pub(super) fn slot_of(&self, name: &str) -> Option<(u32, TableSlot)> {
        self.nodes.get(name).map(|placed| (placed.position, placed.slot.clone()))
    }

    /// Of the latest change.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// What calls read.
    pub(super) fn snapshot(&self) -> TableSnapshot {
        let mut snapshot = TableSnapshot {
            version: self.version,
            generation: self.generation(),
            ..TableSnapshot::default()
        };
        for (name, placed) in &self.nodes {
            snapshot.put(name, placed.position, placed.slot.clone());
        }
        // Slots that have left it would be missing there.
        snapshot.log = ChangeLog::begin(self.version);
        snapshot
    }
}
