//! Nodes as a policy sees them: borrowed views over the request, which stays encoded. [`row`] is one node of it,
//! [`shape`] validates it on arrival, [`facts`] reads fields of it, [`labels`] the labels of a stored row.

mod facts;
mod labels;
pub(crate) mod row;
mod shape;

use std::fmt;

use extender_policy_api::v1alpha1::{NodeUsage, Resources, Taint};

use self::{
    facts::{Facts, Map, Whole},
    row::Row,
};

/// The nodes of one call, in the order of the request.
#[derive(Clone, Copy)]
pub struct Nodes<'a> {
    rows: &'a [&'a Row<'a>],
}

impl<'a> Nodes<'a> {
    pub(crate) fn new(rows: &'a [&'a Row<'a>]) -> Self {
        Self { rows }
    }

    /// Each node in turn.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = Node<'a>> + use<'a> {
        self.rows.iter().map(|row| Node { row })
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

impl fmt::Debug for Nodes<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_list().entries(self.iter()).finish()
    }
}

/// One node. Which fields it has besides its name depends on the [`View`](crate::View) that the policy requested:
/// with [`View::Name`](crate::View::Name) there are no labels, taints or amounts.
///
/// Fields are read from the encoded request, or from the table of nodes, where labels are stored for lookup: no
/// memory is allocated for a label. Only taints, amounts and usage are decoded, once, at their first use.
#[derive(Clone, Copy)]
pub struct Node<'a> {
    row: &'a Row<'a>,
}

impl<'a> Node<'a> {
    /// metadata.name.
    pub fn name(&self) -> &'a str {
        self.row.name()
    }

    /// The value of a label; `None` when the node does not have it.
    pub fn label(&self, key: &str) -> Option<&'a str> {
        self.row.label(key)
    }

    /// All labels, by key.
    pub fn labels(&self) -> impl Iterator<Item = (&'a str, &'a str)> + use<'a> {
        self.facts().into_iter().flat_map(|facts| facts.entries(Map::Labels))
    }

    /// The value of an annotation, if [`Info::annotations`](crate::Info::annotations) asks for its prefix.
    pub fn annotation(&self, key: &str) -> Option<&'a str> {
        self.facts()?.at(Map::Annotations, key)
    }

    /// spec.taints, in order.
    pub fn taints(&self) -> &'a [Taint] {
        self.whole().map_or(&[], |whole| &whole.taints)
    }

    /// spec.unschedulable: whether the node is cordoned.
    pub fn is_unschedulable(&self) -> bool {
        self.facts().is_some_and(Facts::is_unschedulable)
    }

    /// The status of a condition: "True", "False" or "Unknown"; `None` when it is not reported.
    pub fn condition(&self, kind: &str) -> Option<&'a str> {
        self.facts()?.at(Map::Conditions, kind)
    }

    /// status.capacity; `None` while it is not reported.
    pub fn capacity(&self) -> Option<&'a Resources> {
        self.whole()?.capacity.as_ref()
    }

    /// status.allocatable, the total that pods may request; `None` while it is not reported.
    pub fn allocatable(&self) -> Option<&'a Resources> {
        self.whole()?.allocatable.as_ref()
    }

    /// What the pods on the node have requested; `None` when it is not known, and unless the policy asked for
    /// it with [`Verb::usage`](crate::Verb::usage). It lags behind what kube-scheduler assumes, usually by some
    /// milliseconds: no basis for an exclusive allocation.
    pub fn usage(&self) -> Option<&'a NodeUsage> {
        self.row.usage()
    }

    /// The object's JSON, unchanged; `None` unless the policy asked for
    /// [`View::FactsAndRaw`](crate::View::FactsAndRaw).
    pub fn raw_json(&self) -> Option<&'a [u8]> {
        Some(self.row.raw_json()).filter(|raw| !raw.is_empty())
    }

    fn facts(self) -> Option<Facts<'a>> {
        self.row.facts()
    }

    fn whole(self) -> Option<&'a Whole> {
        self.row.whole()
    }
}

impl fmt::Debug for Node<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Node").field("name", &self.name()).finish_non_exhaustive()
    }
}

#[cfg(test)]
mod tests;
