//! The nodes and pods of the cluster in a gateway's tables.

use std::sync::{Arc, Mutex, PoisonError};

use extender_gateway_cluster::{pods::PodTable, table::NodeTable};
use extender_gateway_contract::row::{RowFields, RowView};
use extender_reference::model::Node;

use super::objects;
use crate::case::{KNOWN, MOST_BOUND, PodEvent, Round, World};

/// A gateway's tables.
#[derive(Debug, Clone)]
pub(super) struct Cluster {
    /// `None` if nodes come with calls or not at all.
    table: Option<Arc<NodeTable>>,
    /// The nodes that calls bring.
    offered: Arc<NodeTable>,
    /// `None` if the gateway watches no pods.
    pods: Option<Arc<PodTable>>,
}

impl Cluster {
    pub(super) fn new(
        table: Option<Arc<NodeTable>>,
        offered: Arc<NodeTable>,
        pods: Option<Arc<PodTable>>,
    ) -> Self {
        if let Some(table) = &table {
            // From the beginning, so that no node has to be sent again for the first view with JSON.
            std::mem::forget(table.register(RowView::FactsAndRaw(RowFields::default())));
        }
        Self { table, offered, pods }
    }

    /// All nodes in their current state, as a source lists them.
    pub(super) fn list(&self, world: &World) {
        if let Some(table) = &self.table {
            let mut relist = table.relist();
            for node in 0..KNOWN {
                relist.add(objects::known_node(node, world).as_bytes()).expect("it is a node");
            }
            table.replace(relist);
        }
    }

    /// All pods in their current state, as a source lists them.
    pub(super) fn list_pods(&self, world: &World) {
        let Some(pods) = &self.pods else { return };
        let mut relist = pods.relist();
        for pod in objects::watched_pods().chain(objects::bound_pods(world)) {
            relist.add(pod.to_string().as_bytes()).expect("it is a pod");
        }
        pods.replace(relist);
        self.pass_on();
    }

    /// Updates the pods of these events to their current state.
    pub(super) fn happen(&self, events: &[PodEvent], world: &World) {
        self.update_pods(events.iter().map(|event| event.pod), world);
    }

    /// Replaces the pods of another case. Faster than a list, which contains the pods of preemption, too.
    pub(super) fn replace_pods(&self, world: &World) {
        self.update_pods(0..MOST_BOUND, world);
    }

    fn update_pods(&self, places: impl IntoIterator<Item = usize>, world: &World) {
        let Some(pods) = &self.pods else { return };
        for place in places {
            match world.pods.get(place).and_then(|bound| objects::bound_pod(place, bound)) {
                Some(object) => pods.apply(object.to_string().as_bytes()).expect("it is a pod"),
                None => pods.remove(&objects::bound_uid(place)),
            }
        }
        self.pass_on();
    }

    /// Counts pods as views want it, and passes changes to the rows of nodes, indefinitely, as the gateway does in the
    /// background.
    pub(super) async fn follow_pods(self) {
        let Some(pods) = &self.pods else { return };
        loop {
            pods.follow_views(self.node_tables());
            self.pass_on();
            pods.usage_changed().await;
        }
    }

    /// Passes changes of pods to the rows of nodes.
    fn pass_on(&self) {
        if let Some(pods) = &self.pods {
            pods.pass_on(self.node_tables());
        }
    }

    fn node_tables(&self) -> impl Iterator<Item = &NodeTable> + Clone {
        self.table.iter().chain([&self.offered]).map(|table| &**table)
    }

    /// Updates these nodes to their current state.
    pub(super) fn apply<'n>(&self, nodes: impl IntoIterator<Item = &'n Node>, world: &World) {
        let Some(table) = &self.table else { return };
        for node in nodes {
            table.apply(objects::known_node(*node, world).as_bytes()).expect("it is a node");
        }
    }

    /// Deletes these nodes, and creates them again in this order.
    pub(super) fn replace(&self, nodes: &[Node], world: &World) {
        let Some(table) = &self.table else { return };
        for node in nodes {
            table.remove(&objects::name(*node));
        }
        self.apply(nodes, world);
    }

    /// The version of the table; `None` without one.
    pub(super) fn version(&self) -> Option<u64> {
        self.table.as_ref().map(|table| table.read().version())
    }
}

/// Rows and pods that change when the first backend in Enforce is called.
#[derive(Debug, Default)]
pub(super) struct Shock(Mutex<Option<Prepared>>);

#[derive(Debug)]
struct Prepared {
    cluster: Cluster,
    nodes: Vec<Node>,
    events: Vec<PodEvent>,
    /// After the change.
    world: World,
}

impl Shock {
    pub(super) fn prepare(&self, cluster: &Cluster, round: &Round, world: &World) {
        *self.lock() = Some(Prepared {
            cluster: cluster.clone(),
            nodes: round.during.iter().copied().collect(),
            events: round.news.during.clone(),
            world: world.clone(),
        });
    }

    /// Now, unless it has happened already.
    pub(super) fn strike(&self) {
        let prepared = self.lock().take();
        if let Some(Prepared { cluster, nodes, events, world }) = prepared {
            cluster.apply(&nodes, &world);
            cluster.happen(&events, &world);
        }
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<Prepared>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
