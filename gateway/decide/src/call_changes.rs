//! What hooks have changed in a call, applied to the nodes as backends are told about them.

use std::{collections::BTreeMap, sync::Arc};

use extender_gateway_cluster::held::Held;
use extender_gateway_contract::{change::changed_row, hook::ChangedNodes};
use extender_policy_api::v1beta1::{NodeChange, PodChange};

use super::call_context::EncodedNodes;

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
        let places = self.nodes.iter();
        let places =
            places.flat_map(|(position, changes)| changes.iter().map(|change| (*position, &**change)));
        let added = held.added(places);
        let changed = added.chunk_by(|(one, _), (other, _)| one == other).filter_map(|of_node| {
            let (position, _) = of_node.first()?;
            let at = nodes.index_of(*position)?;
            let row = nodes.rows.row(*nodes.rows.slots().get(at)?);
            let changes = of_node.iter().map(|(_, change)| &**change);
            Some((at, changed_row(row.bytes, &nodes.view.rows, changes)?))
        });
        let changed: Vec<_> = changed.collect();
        if changed.is_empty() { nodes } else { nodes.with_rows(changed) }
    }
}
