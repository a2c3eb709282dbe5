//! What the pods on each node have requested.
//!
//! Kept pod by pod as a watch brings them: who is on which node, and what each takes there. Sums per node change
//! by what one pod takes, and are exact: after any events they equal a new sum over all pods.
//! Of a pod nothing else is kept, a hundred bytes or two.
//!
//! A pod that is created with `spec.nodeName` is checked by no scheduler and may request any number of resources
//! that no node has. Their sums are kept, but rows contain few of them ([`MOST_OTHERS`]), and an event costs by the
//! resources of its pod, not by those of the node.

mod taken;

use std::sync::Arc;

use extender_policy_api::v1alpha1::NodeUsage;
use foldhash::{HashMap, HashSet};

use self::taken::{Earlier, Sums, Taken};
use crate::object::pod::ObjectPod;

/// Of how many extended resources that a node does not report its usage tells. More than any cluster has; a row
/// with as many of the longest names stays below 32 KiB.
const MOST_OTHERS: usize = 64;

/// The usage of all nodes. Mirrors what kube-scheduler's cache counts in `NodeInfo`, without the pods that it
/// has assumed and not yet seen bound.
#[derive(Debug, Default)]
pub struct Usage {
    /// By UID, those that count.
    pods: HashMap<Box<str>, UsingPod>,
    /// Nodes with at least one pod.
    nodes: HashMap<Arc<str>, Sums>,
    /// What was last told about nodes that have been touched since then.
    told: HashMap<Arc<str>, Earlier>,
    /// Nodes of which the latest usage that was told leaves resources out.
    crowded: HashSet<Arc<str>>,
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
        let sums = self.nodes.entry(Arc::clone(&node)).or_default();
        touch(&mut self.told, &node, sums, taken.names());
        sums.add(&taken);
        self.pods.insert(pod.uid().into(), UsingPod { node, taken });
    }

    /// Forgets the pod with this UID.
    pub fn remove(&mut self, uid: &str) {
        let Some(UsingPod { node, taken }) = self.pods.remove(uid) else { return };
        let Some(sums) = self.nodes.get_mut(&node) else { return };
        touch(&mut self.told, &node, sums, taken.names());
        sums.subtract(&taken);
        if sums.is_empty() {
            self.nodes.remove(&node);
        }
    }

    /// Takes exactly the pods of this list: whatever is not in it goes.
    pub fn replace(&mut self, list: Self) {
        let none = Sums::default();
        for node in self.nodes.keys().chain(list.nodes.keys()) {
            let before = self.nodes.get(node).unwrap_or(&none);
            let now = list.nodes.get(node).unwrap_or(&none);
            if before != now {
                touch(&mut self.told, node, before, before.other_names().chain(now.other_names()));
            }
        }
        self.pods = list.pods;
        self.nodes = list.nodes;
    }

    /// What the pods on a node have requested; without any, the default. Of more than [`MOST_OTHERS`] extended
    /// resources it contains those that the node reports, which `reported` returns, and so many of the others.
    pub fn of(&self, node: &str, reported: impl FnOnce(&str) -> Vec<String>) -> NodeUsage {
        let Some(sums) = self.nodes.get(node) else { return NodeUsage::default() };
        if sums.others() <= MOST_OTHERS {
            return sums.usage(sums.other_names());
        }
        let reported = reported(node);
        let others = sums.other_names().filter(|name| !reported.iter().any(|reported| reported == name));
        sums.usage(reported.iter().map(String::as_str).chain(others.take(MOST_OTHERS)))
    }

    /// Whether [`Usage::take_changed`] could have something to tell.
    pub fn is_touched(&self) -> bool {
        !self.told.is_empty()
    }

    /// The nodes whose sums are not what this last told of them, in no order, with their usage ([`Usage::of`]). What
    /// it has never told is the default, and so is a node whose last pod has gone.
    pub fn take_changed(&mut self, reported: impl Fn(&str) -> Vec<String>) -> Vec<(Arc<str>, NodeUsage)> {
        let none = Sums::default();
        let mut changed = Vec::new();
        for (node, told) in std::mem::take(&mut self.told) {
            let sums = self.nodes.get(&node).unwrap_or(&none);
            if !told.is_same(sums) {
                let usage = self.of(&node, &reported);
                let shown = usage.requested.as_ref().map_or(0, |requested| requested.others.len());
                log_crowded(&mut self.crowded, &node, sums.others() - shown);
                changed.push((node, usage));
            }
        }
        changed
    }
}

/// Before the sums of these resources of a node change.
fn touch<'n>(
    told: &mut HashMap<Arc<str>, Earlier>,
    node: &Arc<str>,
    sums: &Sums,
    names: impl Iterator<Item = &'n str>,
) {
    let earlier = told.entry(Arc::clone(node)).or_insert_with(|| Earlier::of(sums));
    earlier.remember(sums, names);
}

/// Logs that resources are left out, when that begins.
fn log_crowded(crowded: &mut HashSet<Arc<str>>, node: &Arc<str>, left_out: usize) {
    if left_out == 0 {
        crowded.remove(node);
    } else if crowded.insert(Arc::clone(node)) {
        tracing::warn!(
            node = &**node,
            left_out,
            "the pods on a node request more than {MOST_OTHERS} extended resources that the node does not report;              backends get the usage of {MOST_OTHERS} of them. Look for pods that were created with spec.nodeName"
        );
    }
}

#[cfg(test)]
mod tests;
