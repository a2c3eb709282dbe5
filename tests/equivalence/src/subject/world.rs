//! The nodes of the cluster in a gateway's table.

use std::sync::{Arc, Mutex, PoisonError};

use extender_gateway::{
    cluster::table::NodeTable,
    contract::row::{RowFields, RowView},
};
use extender_reference::model::Node;

use super::objects;
use crate::case::{KNOWN, World};

/// A gateway's table; `None` without one.
#[derive(Debug, Clone)]
pub(super) struct Cluster(Option<Arc<NodeTable>>);

impl Cluster {
    pub(super) fn new(table: Option<Arc<NodeTable>>) -> Self {
        if let Some(table) = &table {
            // From the beginning, so that no node has to be sent again for the first view with JSON.
            std::mem::forget(table.register(RowView::FactsAndRaw(RowFields::default())));
        }
        Self(table)
    }

    /// All nodes in their current state, as a source lists them.
    pub(super) fn list(&self, world: &World) {
        let Some(table) = &self.0 else { return };
        let mut relist = table.relist();
        for node in 0..KNOWN {
            relist.add(objects::known_node(node, world).as_bytes()).expect("it is a node");
        }
        table.replace(relist);
    }

    /// Updates these nodes to their current state.
    pub(super) fn apply<'n>(&self, nodes: impl IntoIterator<Item = &'n Node>, world: &World) {
        let Some(table) = &self.0 else { return };
        for node in nodes {
            table.apply(objects::known_node(*node, world).as_bytes()).expect("it is a node");
        }
    }

    /// Deletes these nodes, and creates them again in this order.
    pub(super) fn replace(&self, nodes: &[Node], world: &World) {
        let Some(table) = &self.0 else { return };
        for node in nodes {
            table.remove(&objects::name(*node));
        }
        self.apply(nodes, world);
    }

    /// The version of the table; `None` without one.
    pub(super) fn version(&self) -> Option<u64> {
        self.0.as_ref().map(|table| table.read().version())
    }
}

/// Rows that change when the first backend is called.
#[derive(Debug, Default)]
pub(super) struct Shock(Mutex<Option<(Cluster, Vec<Node>, World)>>);

impl Shock {
    pub(super) fn prepare(&self, cluster: &Cluster, nodes: impl IntoIterator<Item = Node>, world: &World) {
        *self.lock() = Some((cluster.clone(), nodes.into_iter().collect(), world.clone()));
    }

    /// Now, unless it has happened already.
    pub(super) fn strike(&self) {
        let prepared = self.lock().take();
        if let Some((cluster, nodes, world)) = prepared {
            cluster.apply(&nodes, &world);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<(Cluster, Vec<Node>, World)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
