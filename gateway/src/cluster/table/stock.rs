//! What the writers of the table know: every node, and its row in every view.
//!
//! Of a node are kept its facts with all annotations, in the contract's encoding: rows of a later view are
//! made from them, and equal facts have equal bytes, so they tell a heartbeat from a change. The JSON is
//! kept only while some view wants it, as a slice of that view's row.

use std::{collections::HashMap, sync::Arc};

use bytes::Bytes;
use extender_policy_api::v1alpha1::NodeFacts;
use prost::Message;

use super::{Change, Column};
use crate::{
    backend::row::{Row, RowView},
    object::{
        ObjectError,
        annotations::AnnotationPrefixes,
        node::{self, ObjectNode},
    },
};

/// A map by node name. Names are shared between the maps.
pub(super) type Names<T> = HashMap<Arc<str>, T, foldhash::fast::RandomState>;

/// A node.
#[derive(Debug)]
pub(super) struct Known {
    facts: Bytes,
    raw: Option<Bytes>,
    /// One for each registered view; `None` where the view wants JSON that was not kept.
    rows: Vec<Option<Bytes>>,
}

impl Known {
    /// A node without rows yet. `raw` is its JSON, where it is to be kept.
    pub(super) fn new(object: &ObjectNode<'_>, raw: Option<&[u8]>) -> Self {
        let facts = object.facts(&AnnotationPrefixes::all()).encode_to_vec().into();
        Self { facts, raw: raw.map(Bytes::copy_from_slice), rows: Vec::new() }
    }

    fn is_same(&self, other: &Self) -> bool {
        self.facts == other.facts && self.raw == other.raw
    }

    /// Adds the row in one more view.
    fn add_row(&mut self, name: &str, view: &RowView) {
        let row = self.encode(name, view);
        if let (true, Some(row), Some(raw)) = (view.wants_raw(), &row, &mut self.raw) {
            // The JSON is the row's end: one copy of it serves both.
            *raw = row.slice(row.len() - raw.len()..);
        }
        self.rows.push(row);
    }

    fn encode(&self, name: &str, view: &RowView) -> Option<Bytes> {
        let raw = if view.wants_raw() { Some(self.raw.as_deref()?) } else { None };
        let facts = view.annotations().map(|annotations| self.facts(annotations));
        let row = Row { name, facts: facts.as_ref(), raw };
        let mut entry = Vec::with_capacity(row.encoded_len());
        row.encode(&mut entry);
        Some(entry.into())
    }

    fn facts(&self, wanted: &AnnotationPrefixes) -> NodeFacts {
        let mut facts = NodeFacts::decode(&*self.facts).expect("the table encoded these facts itself");
        facts.annotations.retain(|key, _| wanted.want(key));
        facts
    }
}

/// The nodes of a list while it arrives, which may take several pages.
#[derive(Debug)]
pub struct Relist {
    keeps_raw: bool,
    nodes: Names<Known>,
}

impl Relist {
    pub(super) fn new(keeps_raw: bool) -> Self {
        Self { keeps_raw, nodes: Names::default() }
    }

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
    nodes: Names<Known>,
}

impl Stock {
    pub(super) fn len(&self) -> usize {
        self.nodes.len()
    }

    pub(super) fn wants_raw(&self) -> bool {
        self.views.iter().any(RowView::wants_raw)
    }

    pub(super) fn place_of(&self, view: &RowView) -> Option<usize> {
        self.views.iter().position(|known| known == view)
    }

    /// Registers a view and encodes its rows; returns its place.
    pub(super) fn add_view(&mut self, view: RowView) -> usize {
        for (name, known) in &mut self.nodes {
            known.add_row(name, &view);
        }
        self.views.push(view);
        self.views.len() - 1
    }

    /// Whether every node has its row in the view at this place.
    pub(super) fn is_complete(&self, place: usize) -> bool {
        self.nodes.values().all(|known| known.rows.get(place).is_some_and(Option::is_some))
    }

    /// Takes a node; returns the name to file it under.
    pub(super) fn put(&mut self, name: &str, mut fresh: Known) -> (Arc<str>, Change) {
        let (name, change) = match self.nodes.get_key_value(name) {
            Some((name, known)) if known.is_same(&fresh) => return (name.clone(), Change::Unchanged),
            Some((name, _)) => (name.clone(), Change::Changed),
            None => (name.into(), Change::Added),
        };
        self.encode(&name, &mut fresh);
        self.nodes.insert(name.clone(), fresh);
        (name, change)
    }

    pub(super) fn remove(&mut self, name: &str) -> Change {
        if self.nodes.remove(name).is_some() { Change::Changed } else { Change::Unchanged }
    }

    /// Takes exactly the nodes of the list. One that is the same as before keeps its rows.
    pub(super) fn replace(&mut self, relist: Relist) -> Change {
        let mut before = std::mem::take(&mut self.nodes);
        let mut change = Change::Unchanged;
        for (name, mut fresh) in relist.nodes {
            let (name, known) = match before.remove_entry(&name) {
                Some((name, known)) if known.is_same(&fresh) => (name, known),
                _ => {
                    change = Change::Changed;
                    self.encode(&name, &mut fresh);
                    (name, fresh)
                }
            };
            self.nodes.insert(name, known);
        }
        if before.is_empty() { change } else { Change::Changed }
    }

    /// The rows of a node, one for each view.
    pub(super) fn rows_of(&self, name: &str) -> Vec<Option<Bytes>> {
        self.nodes.get(name).map_or_else(Vec::new, |known| known.rows.clone())
    }

    /// What calls read of the view at this place.
    pub(super) fn column(&self, place: usize) -> Column {
        let rows = self.nodes.iter();
        rows.filter_map(|(name, known)| Some((name.clone(), known.rows.get(place)?.clone()?))).collect()
    }

    /// What calls read of all views.
    pub(super) fn columns(&self) -> Vec<Column> {
        (0..self.views.len()).map(|place| self.column(place)).collect()
    }

    fn encode(&self, name: &str, known: &mut Known) {
        for view in &self.views {
            known.add_row(name, view);
        }
    }
}
