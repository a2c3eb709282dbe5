//! What hooks have changed in a call, applied to the nodes as backends are told about them.

use std::{borrow::Cow, cell::LazyCell, collections::BTreeMap, sync::Arc};

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
    /// The UID of the pod of the call if [`OwnPod`](super::own_pod::OwnPod) takes it out of the rows: it uses nothing there.
    pub(super) own: Option<&'c str>,
}

impl Held<'_> {
    /// Changes of the nodes at these positions, with what they hold there. What users use is looked up in one state.
    fn added<'n>(
        self,
        changes: impl Iterator<Item = (u32, &'n NodeChange)>,
    ) -> Vec<(u32, Cow<'n, NodeChange>)> {
        // Most changes hold nothing, and take no lock.
        let requests = LazyCell::new(|| self.pods.map(|pods| pods.requests(self.number)));
        let added = |(position, change)| {
            let used = |uid: &str| {
                let requests = requests.as_ref().filter(|_| self.own != Some(uid))?;
                requests(self.request.names.name(position), uid)
            };
            (position, with_holds_added(change, used))
        };
        changes.map(added).collect()
    }

    /// These changes with what they hold, for the record. Positions are those in the call.
    pub(super) fn in_words(self, changes: Changes) -> Changes {
        let (holding, mut nodes): (Vec<_>, Vec<_>) =
            changes.nodes.into_iter().partition(|changed| !changed.change.holds.is_empty());
        let places = holding
            .iter()
            .flat_map(|changed| changed.positions.iter().map(|position| (*position, &*changed.change)));
        let added =
            self.added(places).into_iter().filter(|(_, change)| parts_of_node(change).next().is_some());
        nodes.extend(added.map(|(position, change)| ChangedNodes {
            positions: vec![position],
            change: Arc::new(change.into_owned()),
        }));
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

#[cfg(test)]
mod tests {
    use bytes::Bytes;
    use extender_policy_api::v1alpha1::{Hold, HoldUser, Resources};
    use serde_json::json;

    use super::*;

    #[test]
    fn a_pod_that_is_taken_out_of_a_row_is_taken_off_no_hold() {
        let pod = json!({
            "metadata": {"name": "p", "namespace": "shop", "uid": "u"},
            "spec": {"nodeName": "a", "containers": [{"name": "c", "resources": {"requests": {"cpu": "3"}}}]},
        });
        let json = Bytes::from(pod.to_string());
        let (pods, request) = (PodTable::new(), Request::about(&json, "a").unwrap());
        pods.apply(&json).unwrap();
        let users = vec![HoldUser { uid: "u".to_owned(), at_most: None }];
        let resources = Some(Resources { milli_cpu: 4_000, pods: 1, ..Resources::default() });
        let change = NodeChange {
            positions: vec![0],
            holds: vec![Hold { resources, users }],
            ..NodeChange::default()
        };
        for (own, held) in [(None, 1_000), (Some("other"), 1_000), (Some("u"), 4_000)] {
            let of_call = Held { request: &request, pods: Some(&pods), number: u64::MAX, own };
            let [(0, added)] = &of_call.added([(0, &change)].into_iter())[..] else { panic!("one node") };
            let requested = added.add_usage.clone().and_then(|usage| usage.requested).unwrap();
            assert_eq!(requested.milli_cpu, held, "{own:?}");
        }
    }
}
