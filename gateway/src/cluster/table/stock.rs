//! What the writers of the table know: every node, and its row in every view.
//!
//! Of a node are kept its facts with all annotations, in the contract's encoding: rows of a later view are
//! made from them, and equal facts have equal bytes, so they tell a heartbeat from a change. The JSON is
//! kept only while something wants it, as a slice of the row of a view that does.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use extender_policy_api::v1alpha1::{NodeFacts, NodeUsage};
use prost::Message;

use super::{
    Change, Row,
    front::{Front, Slot},
    log::Log,
};
use crate::{
    backend::row::{self, RowView},
    object::{
        ObjectError,
        annotations::AnnotationPrefixes,
        node::{self, ObjectNode},
    },
};

/// A map by node name. Names are shared between the maps.
pub(super) type Names<T> = HashMap<Arc<str>, T, foldhash::fast::RandomState>;

/// What is known of a node.
#[derive(Debug)]
pub(super) struct Known {
    /// `None` where the name is all that is known.
    facts: Option<Bytes>,
    raw: Option<Bytes>,
}

impl Known {
    /// `raw` is its JSON, where it is to be kept.
    pub(super) fn new(object: &ObjectNode<'_>, raw: Option<&[u8]>) -> Self {
        let facts = object.facts(&AnnotationPrefixes::all()).encode_to_vec().into();
        Self { facts: Some(facts), raw: raw.map(Bytes::copy_from_slice) }
    }

    /// A node of which nothing but the name is known.
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
        let raw = if view.wants_raw() { Some(self.raw.as_deref()?) } else { None };
        let facts = match view.annotations() {
            Some(annotations) => Some(self.facts(annotations)?),
            None => None,
        };
        let usage = if view.wants_usage() { Some(usage.of(name)?) } else { None };
        let row = row::Row { name, facts: facts.as_ref(), raw, usage: usage.as_ref() };
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
    by_node: Names<NodeUsage>,
}

impl Usages {
    fn of(&self, node: &str) -> Option<NodeUsage> {
        self.are_known.then(|| self.by_node.get(node).cloned().unwrap_or_default())
    }
}

/// A node with its place.
#[derive(Debug)]
struct Placed {
    known: Known,
    at: u32,
    slot: Slot,
}

impl Placed {
    fn json_bytes(&self) -> usize {
        self.known.json_bytes()
    }
}

/// The nodes of a list while it arrives, which may take several pages.
#[derive(Debug)]
pub struct Relist {
    keeps_raw: bool,
    nodes: Names<Known>,
}

impl Relist {
    /// Adds a node; of two with one name the later counts, and `Changed` says so.
    pub fn add(&mut self, json: &[u8]) -> Result<Change, ObjectError> {
        let object = node::parse(json)?;
        let known = Known::new(&object, self.keeps_raw.then_some(json));
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

/// All nodes, and the views that are registered.
#[derive(Debug, Default)]
pub(super) struct Stock {
    views: Vec<RowView>,
    nodes: Names<Placed>,
    usages: Usages,
    /// Whether the JSON is kept whatever the views want.
    keeps_json: bool,
    /// Slots below `slots` that are nobody's.
    free: Vec<u32>,
    slots: u32,
    /// The latest id that was given.
    id: u32,
    /// Of the latest change.
    version: u64,
    /// Of all JSON that is kept.
    json_bytes: usize,
}

impl Stock {
    /// Keeps every node's JSON. Its versions are others than those of a table without: what is remembered goes by
    /// slot and version alone, whichever table they are of.
    pub(super) fn with_json() -> Self {
        Self { keeps_json: true, version: 1 << 63, ..Self::default() }
    }

    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn wants_raw(&self) -> bool {
        self.keeps_json || self.views.iter().any(RowView::wants_raw)
    }

    pub(super) fn relist(&self) -> Relist {
        Relist { keeps_raw: self.wants_raw(), nodes: Names::default() }
    }

    pub(super) fn place_of(&self, view: &RowView) -> Option<usize> {
        self.views.iter().position(|known| known == view)
    }

    /// Whether the node is known by exactly this JSON.
    pub(super) fn is_known_as(&self, name: &str, json: &[u8]) -> bool {
        self.nodes.get(name).is_some_and(|placed| placed.known.raw.as_deref() == Some(json))
    }

    pub(super) fn knows(&self, name: &str) -> bool {
        self.nodes.contains_key(name)
    }

    /// Registers a view and encodes its rows; returns its place.
    pub(super) fn add_view(&mut self, view: RowView) -> usize {
        self.version += 1;
        for (name, placed) in &mut self.nodes {
            let row = placed.known.row(name, &view, &self.usages);
            placed.slot.rows.push(row.map(|bytes| Row { bytes, version: self.version }));
        }
        self.views.push(view);
        self.views.len() - 1
    }

    /// Whether every node has its row in the view at this place.
    pub(super) fn is_complete(&self, place: usize) -> bool {
        self.nodes.values().all(|placed| placed.slot.rows.get(place).is_some_and(Option::is_some))
    }

    /// Takes a node; returns the name to file it under.
    pub(super) fn put(&mut self, name: &str, fresh: Known) -> (Arc<str>, Change) {
        match self.nodes.get_key_value(name) {
            Some((name, placed)) if placed.known.is_same(&fresh) => (name.clone(), Change::Unchanged),
            Some((name, _)) => (self.place(name.clone(), fresh), Change::Changed),
            None => (self.place(name.into(), fresh), Change::Added),
        }
    }

    fn place(&mut self, name: Arc<str>, known: Known) -> Arc<str> {
        self.version += 1;
        let before = self.nodes.remove(&name);
        self.json_bytes -= before.as_ref().map_or(0, Placed::json_bytes);
        self.json_bytes += known.json_bytes();
        let placed = self.placed(&name, known, before);
        self.nodes.insert(name.clone(), placed);
        name
    }

    /// The node with its rows, at its place or a new one. A row whose bytes stay keeps its version.
    fn placed(&mut self, name: &str, mut known: Known, before: Option<Placed>) -> Placed {
        let (at, mut slot) = match before {
            Some(Placed { at, slot, .. }) => (at, slot),
            None => self.new_slot(),
        };
        slot.rows.resize_with(self.views.len(), || None);
        for (view, row) in self.views.iter().zip(&mut slot.rows) {
            let fresh = known.row(name, view, &self.usages);
            if row.as_ref().map(|row| &row.bytes) != fresh.as_ref() {
                *row = fresh.map(|bytes| Row { bytes, version: self.version });
            }
        }
        Placed { known, at, slot }
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
        self.usages.by_node.extend(changed.iter().cloned());
        // Nodes without pods are not remembered for ever.
        let nothing = NodeUsage::default();
        self.usages.by_node.retain(|_, usage| *usage != nothing);
        if !self.views.iter().any(RowView::wants_usage) {
            return Vec::new();
        }
        self.version += 1;
        names.into_iter().filter(|name| self.renew_usage(name)).collect()
    }

    /// Writes anew the rows of a node that say what is used; false when it has none.
    fn renew_usage(&mut self, name: &Arc<str>) -> bool {
        let Some(placed) = self.nodes.get_mut(name) else { return false };
        for (view, row) in self.views.iter().zip(&mut placed.slot.rows).filter(|(view, _)| view.wants_usage())
        {
            let fresh = placed.known.row(name, view, &self.usages);
            if row.as_ref().map(|row| &row.bytes) != fresh.as_ref() {
                *row = fresh.map(|bytes| Row { bytes, version: self.version });
            }
        }
        true
    }

    fn new_slot(&mut self) -> (u32, Slot) {
        self.id += 1;
        let at = self.free.pop().unwrap_or_else(|| {
            self.slots += 1;
            self.slots - 1
        });
        (at, Slot { id: self.id, rows: Vec::new() })
    }

    pub(super) fn remove(&mut self, name: &str) -> Change {
        let Some(gone) = self.nodes.remove(name) else { return Change::Unchanged };
        self.version += 1;
        self.json_bytes -= gone.json_bytes();
        self.free.push(gone.at);
        Change::Changed
    }

    /// Takes exactly the nodes of the list. One that is the same as before keeps its rows.
    pub(super) fn replace(&mut self, relist: Relist) -> Change {
        self.version += 1;
        let mut before = std::mem::take(&mut self.nodes);
        let mut change = Change::Unchanged;
        for (name, fresh) in relist.nodes {
            let (name, placed) = match before.remove_entry(&name) {
                Some((name, placed)) if placed.known.is_same(&fresh) => (name, placed),
                other => {
                    change = Change::Changed;
                    let placed = self.placed(&name, fresh, other.map(|(_, placed)| placed));
                    (name, placed)
                }
            };
            self.nodes.insert(name, placed);
        }
        self.free.extend(before.values().map(|placed| placed.at));
        self.json_bytes = self.nodes.values().map(Placed::json_bytes).sum();
        if before.is_empty() { change } else { Change::Changed }
    }

    /// Forgets all nodes. Slots are used again, versions and ids are not.
    pub(super) fn clear(&mut self) {
        self.version += 1;
        self.free.extend(self.nodes.drain().map(|(_, placed)| placed.at));
        self.json_bytes = 0;
    }

    /// Bytes of all JSON that is kept.
    pub(super) fn json_bytes(&self) -> usize {
        self.json_bytes
    }

    /// The node's place and rows.
    pub(super) fn slot_of(&self, name: &str) -> Option<(u32, Slot)> {
        self.nodes.get(name).map(|placed| (placed.at, placed.slot.clone()))
    }

    /// Of the latest change.
    pub(super) fn version(&self) -> u64 {
        self.version
    }

    /// What calls read.
    pub(super) fn front(&self) -> Front {
        let mut front = Front { version: self.version, ..Front::default() };
        for (name, placed) in &self.nodes {
            front.put(name, placed.at, placed.slot.clone());
        }
        // Slots that are not in it any more would be missing there.
        front.log = Log::begin(self.version);
        front
    }
}
