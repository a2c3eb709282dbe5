//! The pod of a call that counts on a node already: an earlier attempt to bind it had an uncertain end. No pod takes room from
//! itself, so the call is told about that node as if the pod were not there.

use bytes::Bytes;
use extender_gateway_backend::info::ClusterTables;
use extender_gateway_cluster::{table::row_with_pods, usage::UsageChange};
use extender_gateway_contract::row::RowView;

use super::call_context::EncodedNodes;

/// The node on which the pod of a call counts, without the pod.
#[derive(Debug)]
pub(super) struct OwnPod(UsageChange);

impl OwnPod {
    /// `None` for nearly all pods.
    pub(super) fn find(tables: &ClusterTables, uid: &str) -> Option<Self> {
        tables.pods.as_ref()?.without(uid, tables.node_tables()).map(Self)
    }

    /// The nodes without the pod. The row that changes is in no table, and answers about it are not cached. `names` are those of
    /// all nodes of the call.
    pub(super) fn left_out_of<'n>(
        &self,
        nodes: EncodedNodes,
        names: impl Iterator<Item = &'n str>,
    ) -> EncodedNodes {
        let here = (0..).zip(names).find(|(_, name)| self.is_on(name));
        let Some((at, name)) = here.and_then(|(position, name)| Some((nodes.index_of(position)?, name)))
        else {
            return nodes;
        };
        let row = nodes.rows.row(nodes.rows.slots()[at]).bytes;
        match self.row(row, name, &nodes.view.rows) {
            Some(row) => nodes.with_rows(vec![(at, row)]),
            None => nodes,
        }
    }

    /// The row of this node without the pod; `None` if that changes nothing.
    pub(super) fn row(&self, entry: &Bytes, name: &str, view: &RowView) -> Option<Bytes> {
        let is_shown = view.depends_on_pods() && self.is_on(name);
        is_shown.then(|| row_with_pods(entry, name, view, &self.0)).filter(|row| row != entry)
    }

    fn is_on(&self, node: &str) -> bool {
        self.0.nodes.iter().any(|(name, _)| &**name == node)
    }
}
