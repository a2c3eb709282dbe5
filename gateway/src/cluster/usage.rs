//! What the pods on each node have requested.
//!
//! Kept pod by pod as a watch brings them: who is on which node, and what each takes there. Sums per node change
//! by what one pod takes, and are exact: after any events they are what adding up the pods anew would give.
//! Of a pod nothing else is kept, a hundred bytes or two.

mod taken;

use std::sync::Arc;

use extender_policy_api::v1alpha1::NodeUsage;
use foldhash::HashMap;

use self::taken::{Sums, Taken};
use crate::object::pod::ObjectPod;

/// The usage of all nodes. Mirrors what kube-scheduler's cache counts in `NodeInfo`, without the pods that it
/// has assumed and not yet seen bound.
#[derive(Debug, Default)]
pub struct Usage {
    /// By UID, those that count.
    pods: HashMap<Box<str>, UsingPod>,
    /// Nodes with at least one pod.
    nodes: HashMap<Arc<str>, Sums>,
    /// What was last told about nodes that have been touched since then.
    told: HashMap<Arc<str>, NodeUsage>,
}

/// A pod on a node.
#[derive(Debug, PartialEq, Eq)]
struct UsingPod {
    node: Arc<str>,
    taken: Taken,
}

impl Usage {
    /// No pods.
    pub fn new() -> Self {
        Self::default()
    }

    /// Takes a pod as it is now. It counts when it is on a node and has not ended, and, as with kube-scheduler,
    /// only with a UID.
    pub fn apply(&mut self, pod: &ObjectPod<'_>) {
        if pod.node_name().is_empty() || pod.uid().is_empty() || pod.has_ended() {
            return self.remove(pod.uid());
        }
        let (node, taken) = (pod.node_name(), Taken::new(pod.share()));
        let known = self.pods.get(pod.uid());
        // Most events are about something else.
        if known.is_some_and(|held| *held.node == *node && held.taken == taken) {
            return;
        }
        self.remove(pod.uid());
        let node = self.nodes.get_key_value(node).map_or_else(|| node.into(), |(name, _)| Arc::clone(name));
        self.touch(&node);
        self.nodes.entry(Arc::clone(&node)).or_default().add(&taken);
        self.pods.insert(pod.uid().into(), UsingPod { node, taken });
    }

    /// Forgets the pod with this UID.
    pub fn remove(&mut self, uid: &str) {
        let Some(UsingPod { node, taken }) = self.pods.remove(uid) else { return };
        self.touch(&node);
        let Some(sums) = self.nodes.get_mut(&node) else { return };
        sums.subtract(&taken);
        if sums.is_empty() {
            self.nodes.remove(&node);
        }
    }

    /// Takes exactly the pods of this list: whatever is not in it goes.
    pub fn replace(&mut self, list: Self) {
        let nodes = self.nodes.keys().chain(list.nodes.keys());
        let changed = nodes.filter(|node| self.nodes.get(*node) != list.nodes.get(*node)).cloned();
        for node in changed.collect::<Vec<_>>() {
            self.touch(&node);
        }
        self.pods = list.pods;
        self.nodes = list.nodes;
    }

    /// What the pods on a node have requested; without any, the default.
    pub fn of(&self, node: &str) -> NodeUsage {
        self.nodes.get(node).map_or_else(NodeUsage::default, Sums::usage)
    }

    /// Whether [`Usage::take_changed`] could have something to tell.
    pub fn is_touched(&self) -> bool {
        !self.told.is_empty()
    }

    /// The nodes whose usage is not what this last told of them, in no order. What it has never told is the
    /// default, and so is a node whose last pod has gone.
    pub fn take_changed(&mut self) -> Vec<(Arc<str>, NodeUsage)> {
        let touched = std::mem::take(&mut self.told).into_iter();
        let changed = touched.filter_map(|(node, told)| {
            let usage = self.of(&node);
            (usage != told).then_some((node, usage))
        });
        changed.collect()
    }

    /// Before a node's sums change.
    fn touch(&mut self, node: &Arc<str>) {
        if !self.told.contains_key(node) {
            self.told.insert(Arc::clone(node), self.of(node));
        }
    }
}

#[cfg(test)]
mod tests;
