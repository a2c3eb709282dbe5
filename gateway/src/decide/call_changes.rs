//! What hooks have changed in a call, applied to the nodes as backends are told about them.

use std::{borrow::Cow, collections::BTreeMap, sync::Arc};

use extender_policy_api::v1alpha1::{NodeChange, PodChange};

use super::call_context::EncodedNodes;
use crate::{
    cluster::pods::PodTable,
    contract::{
        change::{changed_row, parts_of_node, with_holds_added},
        hook::{ChangedNodes, Changes},
    },
    wire::Request,
};

/// What holds of a call are about.
#[derive(Debug, Clone, Copy)]
pub(super) struct Held<'c> {
    pub(super) request: &'c Request,
    /// `None` if pods are not watched: then usage is in no row.
    pub(super) pods: Option<&'c PodTable>,
    /// The number of the change of pods as of which usage is.
    pub(super) number: u64,
}

impl Held<'_> {
    /// A change of the node at this position, with what it holds there.
    fn added(self, position: u32, change: &NodeChange) -> Cow<'_, NodeChange> {
        match self.pods.filter(|_| !change.holds.is_empty()) {
            Some(pods) => {
                let node = self.request.names.name(position);
                with_holds_added(change, pods.requests_on(node, self.number))
            }
            None => with_holds_added(change, |_| None),
        }
    }

    /// These changes with what they hold, for the record. Positions are those in the call.
    pub(super) fn in_words(self, changes: Changes) -> Changes {
        let mut nodes = Vec::with_capacity(changes.nodes.len());
        for changed in changes.nodes {
            if changed.change.holds.is_empty() {
                nodes.push(changed);
                continue;
            }
            let added =
                changed.positions.iter().map(|at| (*at, self.added(*at, &changed.change).into_owned()));
            for (position, change) in added.filter(|(_, change)| parts_of_node(change).next().is_some()) {
                nodes.push(ChangedNodes { positions: vec![position], change: Arc::new(change) });
            }
        }
        Changes { nodes, ..changes }
    }
}

/// The changes of a call, in the order in which they were made.
#[derive(Debug, Default)]
pub(super) struct CallChanges {
    pub(super) pod: Vec<Arc<PodChange>>,
    /// By position in the call.
    nodes: BTreeMap<u32, Vec<Arc<NodeChange>>>,
}

impl CallChanges {
    /// Adds changes of nodes by their positions in the call.
    pub(super) fn add_nodes(&mut self, changes: &[ChangedNodes]) {
        for ChangedNodes { positions, change } in changes {
            for position in positions {
                self.nodes.entry(*position).or_default().push(Arc::clone(change));
            }
        }
    }

    /// The nodes with these changes, as far as their view shows them. Rows that change are those of this call alone: they
    /// are in no table, and answers about them are not cached.
    pub(super) fn applied_to(&self, nodes: EncodedNodes, held: Held<'_>) -> EncodedNodes {
        if self.nodes.is_empty() || nodes.view.rows.facts().is_none() {
            return nodes;
        }
        let changed = self.nodes.iter().filter_map(|(position, changes)| {
            let at = nodes.index_of(*position)?;
            let row = nodes.rows.row(*nodes.rows.slots().get(at)?);
            let added: Vec<_> = changes.iter().map(|change| held.added(*position, change)).collect();
            let changed = changed_row(row.bytes, &nodes.view.rows, added.iter().map(|change| &**change))?;
            Some((at, changed))
        });
        let changed: Vec<_> = changed.collect();
        if changed.is_empty() { nodes } else { nodes.with_rows(changed) }
    }
}
