//! What a constraint counts: pods that have something in common, in the domains of a topology.

use std::sync::Arc;

use extender_policy_sdk::{Domains, Node, NodeKey, Pod, PodsBy, PodsLike, Reads, TopologyKey};

/// Whether the requests of the pods are added up, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sums {
    Unread,
    Requests,
}

/// Domains, and the pods that are counted in them.
#[derive(Debug)]
pub(super) struct Topology {
    counts: TopologyKey,
    /// `None` for the whole cluster.
    label: Option<Label>,
    /// Such as "of this owner".
    alike: String,
}

#[derive(Debug)]
struct Label {
    key: Arc<str>,
    value: NodeKey,
}

impl Topology {
    /// Of the label of nodes with this key; with an empty key, of the whole cluster. Declares what it reads.
    pub(super) fn new(key: &str, by: PodsBy, sums: Sums, reads: &mut Reads) -> Self {
        let alike = match &by {
            PodsBy::Owner => "of this owner".to_owned(),
            PodsBy::Namespace => "of this namespace".to_owned(),
            PodsBy::PriorityClass => "of this priority class".to_owned(),
            PodsBy::Label(key) => format!("with the same {key}"),
        };
        let key: Arc<str> = key.into();
        let counts = match sums {
            Sums::Unread => reads.pods_by_topology(by, Arc::clone(&key)),
            Sums::Requests => reads.pods_and_requests_by_topology(by, Arc::clone(&key)),
        };
        let label = (!key.is_empty()).then(|| Label { value: reads.node_label(Arc::clone(&key)), key });
        Self { counts, label, alike }
    }

    /// The pods that are like this one; `None` if it has nothing in common with others.
    pub(super) fn domains<'a>(&self, pod: &Pod<'a>) -> Option<Domains<'a>> {
        pod.pods_like(&self.counts)
    }

    /// The value of the node's label, empty in the whole cluster; `None` if the node lacks the label.
    pub(super) fn domain_of<'a>(&self, node: &Node<'a>) -> Option<&'a str> {
        self.label.as_ref().map_or(Some(""), |label| node.get(&label.value))
    }

    /// The counted pods, such as "pods of this owner".
    pub(super) fn alike(&self, pods: u32) -> String {
        format!("{} {}", if pods == 1 { "pod" } else { "pods" }, self.alike)
    }

    /// A domain in a text, such as "rack r1".
    pub(super) fn domain(&self, value: &str) -> String {
        match &self.label {
            Some(Label { key, .. }) => {
                let name = key.rsplit_once('/').map_or(&**key, |(_, name)| name);
                if value.is_empty() { format!("{name} \"\"") } else { format!("{name} {value}") }
            }
            None => "the cluster".to_owned(),
        }
    }

    /// The reason for a node without the label.
    pub(super) fn missing(&self) -> String {
        let key = self.label.as_ref().map_or("", |label| &label.key);
        format!("node has no label {key}, by which {} are limited", self.alike(0))
    }
}

/// The pods that are not being deleted, at most: `PodTopologySpread` does not count the others either.
pub(super) fn staying(like: &PodsLike<'_>) -> u32 {
    like.counted().map_or(like.at_most(), |count| count.pods().saturating_sub(count.terminating()))
}
