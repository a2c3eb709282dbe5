//! The values of the labels by which pods are added up over a topology: a call looks up those of thousands of nodes.

use std::{
    collections::{BTreeMap, BTreeSet},
    sync::Arc,
};

use super::{entry::NodeEntry, entry::NodeNames};

/// The values of the followed labels of all nodes.
#[derive(Debug, Default)]
pub struct NodeLabels {
    /// By key, then by node. Nodes without the label are not in it.
    values: BTreeMap<Box<str>, NodeNames<Box<str>>>,
}

impl NodeLabels {
    /// The value of the label with this key of each node that has it; `None` if the label is not followed.
    pub fn of(&self, key: &str) -> Option<&NodeNames<Box<str>>> {
        self.values.get(key)
    }

    /// Whether exactly these labels are followed.
    pub(super) fn follows(&self, keys: &BTreeSet<&str>) -> bool {
        self.values.keys().map(|key| &**key).eq(keys.iter().copied())
    }

    /// Follows exactly these labels. Takes their values from these nodes, which are all.
    pub(super) fn follow<'n>(
        &mut self,
        keys: &BTreeSet<&str>,
        nodes: impl Iterator<Item = (&'n Arc<str>, &'n NodeEntry)>,
    ) {
        self.values = keys.iter().map(|key| (Box::from(*key), NodeNames::default())).collect();
        if !self.values.is_empty() {
            nodes.for_each(|(name, entry)| self.set(name, entry));
        }
    }

    /// The same labels, with the values of these nodes, which are all.
    pub(super) fn replace<'n>(&mut self, nodes: impl Iterator<Item = (&'n Arc<str>, &'n NodeEntry)>) {
        self.values.values_mut().for_each(NodeNames::clear);
        if !self.values.is_empty() {
            nodes.for_each(|(name, entry)| self.set(name, entry));
        }
    }

    pub(super) fn set(&mut self, name: &Arc<str>, entry: &NodeEntry) {
        for (key, values) in &mut self.values {
            match entry.label(key) {
                Some(value) => drop(values.insert(Arc::clone(name), value.into())),
                None => drop(values.remove(name)),
            }
        }
    }

    pub(super) fn remove(&mut self, name: &str) {
        for values in self.values.values_mut() {
            values.remove(name);
        }
    }
}
