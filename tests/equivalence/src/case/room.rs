//! The pods that run in the cluster, and which of them kube-scheduler would evict.
//!
//! Each node has the same few pods, distinguished by their place: their priorities are those of [`PRIORITIES`].

use std::collections::BTreeSet;

use extender_reference::model::{Added, Node, Running, Victim};
use serde::{Deserialize, Serialize};

use super::{Backend, Case, NODES, Reads, Source, View, settle::settle_failure};

/// The priorities of the pods on each node.
const PRIORITIES: [i32; 6] = [-3, 0, 0, 4, 8, 2];

/// How many pods run on each node.
pub const RUNNING: usize = PRIORITIES.len();

/// The place of the pod on each node that the gateway does not know.
pub const UNSEEN: usize = RUNNING - 1;

/// The form in which kube-scheduler sends victims.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
pub enum Form {
    /// With pods in full: `NodeNameToVictims`.
    Objects,
    /// By UID: `NodeNameToMetaVictims`.
    Uids,
}

/// Whether the gateway knows the running pods.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Pods {
    /// Yes, all but one on each node.
    Watched,
    /// No.
    Unknown,
}

/// The pods that run.
pub fn running() -> Vec<Running> {
    let on = |node| PRIORITIES.map(|priority| Running { node, priority });
    (0..NODES).flat_map(on).collect()
}

/// The pods that run on a node.
pub fn victims_on(node: Node) -> impl Iterator<Item = Victim> {
    node * RUNNING..(node + 1) * RUNNING
}

/// The node of a pod.
pub fn node_of(victim: Victim) -> Node {
    victim / RUNNING
}

/// The pods that the gateway does not know.
pub(super) fn unseen() -> BTreeSet<Victim> {
    (0..NODES * RUNNING).filter(|victim| victim % RUNNING == UNSEEN).collect()
}

impl Case {
    /// kube-scheduler offers each node once, with pods that run there, each once, or, after 1.37, as a placeholder without any.
    pub(super) fn settle_room(&mut self) {
        let (mut nodes, source) = (BTreeSet::new(), self.source);
        self.candidates.retain_mut(|candidate| {
            let (mut victims, is_placeholder) = (BTreeSet::new(), candidate.victims.is_empty());
            candidate.victims.retain(|victim| node_of(*victim) == candidate.node && victims.insert(*victim));
            let is_there = source == Source::File || candidate.node < super::KNOWN;
            is_there && (is_placeholder || !candidate.victims.is_empty()) && nodes.insert(candidate.node)
        });
    }
}

impl Backend {
    /// Preempt calls carry no nodes, so facts about them come only from a table; and added victims are checked
    /// against pods that the gateway knows.
    pub(super) fn settle_preempt(&mut self, source: Source, pods: Pods) {
        let Some(preempt) = &mut self.extender.preempt else { return };
        if source != Source::File {
            self.preempt.view = View::Name;
        }
        // Victims are told apart by their labels.
        if self.preempt.reads != Reads::Everything {
            self.preempt.reads = Reads::Class;
        }
        if pods == Pods::Unknown {
            preempt.added = Added::Refused;
        }
        settle_failure(&mut preempt.failing, &mut self.preempt, self.reach);
    }
}
