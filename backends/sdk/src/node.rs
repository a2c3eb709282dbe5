//! Nodes as a policy sees them: borrowed views over the request, nothing is copied for a node.

use extender_policy_api::v1alpha1::{NodeFacts, NodeRow, Resources, Taint};

/// The nodes of one call, in the order of the request.
#[derive(Clone, Copy, Debug)]
pub struct Nodes<'a> {
    rows: &'a [NodeRow],
}

impl<'a> Nodes<'a> {
    pub(crate) fn new(rows: &'a [NodeRow]) -> Self {
        Self { rows }
    }

    /// Each node in turn.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Node<'a>> + use<'a> {
        self.rows.iter().map(Node::new)
    }

    /// How many there are; never 0 in a call.
    pub fn len(&self) -> usize {
        self.rows.len()
    }

    /// Whether there are none.
    pub fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }
}

/// One node. What it knows besides its name depends on the [`View`](crate::View) that the policy asked
/// for: with [`View::Name`](crate::View::Name) there are no labels, taints or amounts.
#[derive(Clone, Copy, Debug)]
pub struct Node<'a> {
    row: &'a NodeRow,
}

impl<'a> Node<'a> {
    /// A view of a row of the contract.
    pub fn new(row: &'a NodeRow) -> Self {
        Self { row }
    }

    /// metadata.name.
    pub fn name(&self) -> &'a str {
        &self.row.name
    }

    /// The value of a label; `None` when the node does not have it.
    pub fn label(&self, key: &str) -> Option<&'a str> {
        self.facts()?.labels.get(key).map(String::as_str)
    }

    /// All labels, by key.
    pub fn labels(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        self.facts().into_iter().flat_map(|facts| &facts.labels).map(|(key, value)| (&**key, &**value))
    }

    /// The value of an annotation, if [`Info::annotations`](crate::Info::annotations) asks for its prefix.
    pub fn annotation(&self, key: &str) -> Option<&'a str> {
        self.facts()?.annotations.get(key).map(String::as_str)
    }

    /// spec.taints, in order.
    pub fn taints(&self) -> &'a [Taint] {
        self.facts().map_or(&[], |facts| &facts.taints)
    }

    /// spec.unschedulable: whether the node is cordoned.
    pub fn is_unschedulable(&self) -> bool {
        self.facts().is_some_and(|facts| facts.unschedulable)
    }

    /// The status of a condition: "True", "False" or "Unknown"; `None` when it is not reported.
    pub fn condition(&self, kind: &str) -> Option<&'a str> {
        self.facts()?.conditions.get(kind).map(String::as_str)
    }

    /// status.capacity; `None` while it is not reported.
    pub fn capacity(&self) -> Option<&'a Resources> {
        self.facts()?.capacity.as_ref()
    }

    /// status.allocatable, what pods may request in all; `None` while it is not reported.
    pub fn allocatable(&self) -> Option<&'a Resources> {
        self.facts()?.allocatable.as_ref()
    }

    /// The object's JSON, unchanged; `None` unless the policy asked for
    /// [`View::FactsAndRaw`](crate::View::FactsAndRaw).
    pub fn raw_json(&self) -> Option<&'a [u8]> {
        Some(&*self.row.raw_json).filter(|raw| !raw.is_empty())
    }

    fn facts(self) -> Option<&'a NodeFacts> {
        self.row.facts.as_ref()
    }
}
