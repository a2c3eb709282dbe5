//! The pods that are nominated to nodes (`status.nominatedNodeName`) and are on none: for these kube-scheduler keeps the
//! room that preemption makes.

use std::sync::Arc;

use extender_gateway_object::pod::ObjectPod;
use extender_policy_api::v1beta1::NodeUsage;
use foldhash::{HashMap, HashSet};

use super::{PodRequests, Sums};

/// The nominations of pods that the source has on no node. Few: each of these pods has waited for a preemption.
#[derive(Debug, Default)]
pub(super) struct Nominated {
    /// Those that count, by the UID of the pod.
    waiting: HashMap<Box<str>, Nomination>,
    /// Those of pods that count in the usage of a node instead, because the gateway is binding them. Nothing else has them if
    /// that fails.
    placed: HashMap<Box<str>, Nomination>,
    /// The nodes with a pod that counts.
    nodes: HashMap<Arc<str>, Sums>,
    /// The nodes whose sums may have changed since the previous [`Nominated::take_changed`].
    touched: HashSet<Arc<str>>,
}

#[derive(Debug, Clone, PartialEq)]
struct Nomination {
    node: Arc<str>,
    requests: PodRequests,
}

impl Nominated {
    /// Sets the nomination of a pod, which may have none. [`Nominated::place`] follows if the pod counts in the usage of a node.
    pub(super) fn set(&mut self, pod: &ObjectPod<'_>) {
        let node = if pod.node_name().is_empty() { pod.nominated_node_name() } else { "" };
        let nomination = (!node.is_empty())
            .then(|| Nomination { node: node.into(), requests: PodRequests::new(pod.share()) });
        // A pod that waits has many events.
        if self.get(pod.uid()) != nomination.as_ref() {
            self.remove(pod.uid());
            if let Some(nomination) = nomination {
                self.add(pod.uid().into(), nomination);
            }
        }
    }

    /// The pod with this UID does not exist any more, or has ended.
    pub(super) fn remove(&mut self, uid: &str) {
        self.place(uid);
        self.placed.remove(uid);
    }

    /// The pod with this UID counts in the usage of a node from now on.
    pub(super) fn place(&mut self, uid: &str) {
        if let Some((uid, nomination)) = self.waiting.remove_entry(uid) {
            self.count(&nomination, -1);
            self.placed.insert(uid, nomination);
        }
    }

    /// The pod with this UID does not count in the usage of a node any more.
    pub(super) fn displace(&mut self, uid: &str) {
        if let Some((uid, nomination)) = self.placed.remove_entry(uid) {
            self.add(uid, nomination);
        }
    }

    /// Adds the nomination of this pod to a list.
    pub(super) fn keep(&self, list: &mut Self, uid: &str) {
        if let Some(nomination) = self.get(uid) {
            list.add(uid.into(), nomination.clone());
        }
    }

    /// Replaces all nominations by those of the list.
    pub(super) fn replace(&mut self, list: Self) {
        let before = std::mem::replace(self, list);
        self.touched.extend(before.nodes.into_keys().chain(before.touched));
    }

    /// Whether [`Nominated::take_changed`] returns nodes.
    pub(super) fn is_touched(&self) -> bool {
        !self.touched.is_empty()
    }

    /// The nodes whose sums may have changed since the previous call. `reported` returns the extended resources that a node
    /// reports.
    pub(super) fn take_changed(
        &mut self,
        reported: impl Fn(&str) -> Vec<String>,
    ) -> Vec<(Arc<str>, NodeUsage)> {
        let touched = std::mem::take(&mut self.touched).into_iter();
        touched.map(|node| (Arc::clone(&node), self.of(&node, &reported))).collect()
    }

    /// The sums of a node; the default without pods.
    pub(super) fn of(&self, node: &str, reported: impl Fn(&str) -> Vec<String>) -> NodeUsage {
        self.nodes.get(node).map_or_else(NodeUsage::default, |sums| sums.shown(|| reported(node)))
    }

    fn get(&self, uid: &str) -> Option<&Nomination> {
        self.waiting.get(uid).or_else(|| self.placed.get(uid))
    }

    fn add(&mut self, uid: Box<str>, nomination: Nomination) {
        self.count(&nomination, 1);
        self.waiting.insert(uid, nomination);
    }

    fn count(&mut self, Nomination { node, requests }: &Nomination, sign: i64) {
        let sums = self.nodes.entry(Arc::clone(node)).or_default();
        sums.change(requests, sign);
        if sums.fixed.pods == 0 {
            self.nodes.remove(node);
        }
        self.touched.insert(Arc::clone(node));
    }
}
