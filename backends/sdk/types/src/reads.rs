//! What a verb reads of pods and nodes, declared once. [`key`] is what the policy reads with, [`keys`] collects the
//! keys of one map, [`parts`] are read as a whole, [`pods`] is by what the pods on nodes are counted, [`topology`] by
//! what those in the cluster are, [`layout`] turns the declaration into positions and into the contract's message,
//! [`access`] enforces it, [`values`] checks what comes with a request, [`sent`], [`running`] and [`cluster`] are what
//! the gateway sends.

#[doc(hidden)]
pub mod access;
#[doc(hidden)]
pub mod cluster;
mod key;
pub(crate) mod keys;
#[doc(hidden)]
pub mod layout;
mod parts;
pub mod pods;
#[doc(hidden)]
pub mod running;
pub(crate) mod sent;
pub(crate) mod topology;
#[doc(hidden)]
pub mod values;

use std::sync::Arc;

use extender_policy_api::limits::READ_KEYS;

pub(crate) use self::{key::Map, parts::Part};
pub use self::{
    key::{NodeKey, NodePrefix, PodKey, PodPrefix},
    parts::{NodePart, PodPart},
    pods::{PodsBy, PodsKey},
    topology::TopologyKey,
};
use self::{
    keys::Keys,
    parts::Parts,
    pods::{Counted, Sums},
    topology::{Topologies, Topology},
};

/// What a verb reads of pods and nodes. The gateway sends this and nothing else, so the less a verb reads, the more
/// calls a cached answer serves and the fewer rows of the node table change. [`Reads::everything`] is for policies that cannot
/// know it.
///
/// ```
/// use extender_policy_sdk::{Info, Node, NodeKey, NodePart, Pod, Policy, Reads, Verb, Verdict};
///
/// struct Racks {
///     reads: Reads,
///     rack: NodeKey,
/// }
///
/// impl Racks {
///     fn new() -> Self {
///         let mut reads = Reads::new();
///         let rack = reads.node_label("topology.acme.io/rack");
///         reads.node(NodePart::Taints);
///         Self { reads, rack }
///     }
/// }
///
/// impl Policy for Racks {
///     fn info(&self) -> Info {
///         Info::new("racks", "1.0.0").filters(Verb::per_node().pure().reads(&self.reads))
///     }
///
///     fn filter(&self, _pod: &Pod, node: &Node) -> Verdict {
///         match node.get(&self.rack) {
///             None if node.taints().is_empty() => Verdict::reject("node is in no rack").unresolvable(),
///             _ => Verdict::Accept,
///         }
///     }
/// }
/// ```
///
/// A declared key can be read with what its declaration returned, which is fastest, or as a text:
/// [`Node::get`](crate::Node::get) and [`Node::label`](crate::Node::label) give the same value.
///
/// # What is not declared
///
/// Reading anything else panics, and the panic names it: there is no value that could be mistaken for that of a node
/// without the label. A test with `testing` fails with that text, and so does a call (INTERNAL).
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Reads {
    pod: Declared,
    node: Declared,
}

/// What is read of one kind of object.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
struct Declared {
    /// All facts and labels, which the parts and the labels then have, too.
    everything: bool,
    parts: Parts,
    labels: Keys,
    annotations: Keys,
    /// Of nodes alone: how the pods on them are counted.
    pods: Counted,
    /// Of the pod to be placed alone: how the pods in the cluster that are like it are counted.
    topologies: Topologies,
}

impl Reads {
    /// The most keys and prefixes of one declaration, those of pods and nodes together. A prefix takes the place of
    /// all keys that begin with it.
    pub const MAX_KEYS: usize = READ_KEYS;

    /// Nothing yet: with this a verb knows how many nodes there are, and nothing else.
    pub fn new() -> Self {
        Self::default()
    }

    /// All facts and all labels of pods and nodes, and the names of nodes; also those that a later version of the gateway
    /// knows. For policies that find out at run time what they read, and for tests: each change of a fact is sent, and
    /// a cached answer serves only pods that are equal in all facts. Not included, and to be declared besides: annotations,
    /// [usage](NodePart::Usage), [nominated](NodePart::Nominated) pods, [images](NodePart::Images), JSON, counts of pods, and the
    /// [identity](PodPart::Identity) of the pod. A verb that has no nodes, such as bind, reads everything of the pod.
    ///
    /// ```
    /// use extender_policy_sdk::{NodePart, Reads};
    ///
    /// let mut reads = Reads::everything();
    /// reads.node(NodePart::Usage);
    /// reads.node_annotations("acme.io/");
    /// ```
    pub fn everything() -> Self {
        let mut all = Self::new();
        all.add_everything();
        all
    }

    fn add_everything(&mut self) {
        for (object, parts) in [(&mut self.pod, Parts::of_pods()), (&mut self.node, Parts::of_nodes())] {
            object.everything = true;
            object.parts = object.parts.with_all(parts);
            object.labels.prefix(Map::Labels, "".into());
        }
    }

    /// A label of nodes. Declared twice, it is the same key.
    pub fn node_label(&mut self, key: impl Into<Arc<str>>) -> NodeKey {
        NodeKey(self.node.labels.key(Map::Labels, key.into()))
    }

    /// The labels of nodes whose key begins with this; "" is all of them.
    pub fn node_labels(&mut self, prefix: impl Into<Arc<str>>) -> NodePrefix {
        NodePrefix(self.node.labels.prefix(Map::Labels, prefix.into()))
    }

    /// An annotation of nodes.
    pub fn node_annotation(&mut self, key: impl Into<Arc<str>>) -> NodeKey {
        NodeKey(self.node.annotations.key(Map::Annotations, key.into()))
    }

    /// The annotations of nodes whose key begins with this; "" is all of them.
    pub fn node_annotations(&mut self, prefix: impl Into<Arc<str>>) -> NodePrefix {
        NodePrefix(self.node.annotations.prefix(Map::Annotations, prefix.into()))
    }

    /// A part of nodes.
    pub fn node(&mut self, part: NodePart) -> &mut Self {
        self.node.parts.insert(part);
        self
    }

    /// A label of the pod, and of victims.
    pub fn pod_label(&mut self, key: impl Into<Arc<str>>) -> PodKey {
        PodKey(self.pod.labels.key(Map::Labels, key.into()))
    }

    /// The labels of the pod, and of victims, whose key begins with this; "" is all of them.
    pub fn pod_labels(&mut self, prefix: impl Into<Arc<str>>) -> PodPrefix {
        PodPrefix(self.pod.labels.prefix(Map::Labels, prefix.into()))
    }

    /// An annotation of the pod, and of victims. In a [pure](crate::Verb::pure) verb, one that the pods of a template
    /// share: otherwise no cached answer serves a second pod.
    pub fn pod_annotation(&mut self, key: impl Into<Arc<str>>) -> PodKey {
        PodKey(self.pod.annotations.key(Map::Annotations, key.into()))
    }

    /// The annotations of the pod, and of victims, whose key begins with this; "" is all of them.
    pub fn pod_annotations(&mut self, prefix: impl Into<Arc<str>>) -> PodPrefix {
        PodPrefix(self.pod.annotations.prefix(Map::Annotations, prefix.into()))
    }

    /// A part of the pod, and of victims.
    pub fn pod(&mut self, part: PodPart) -> &mut Self {
        self.pod.parts.insert(part);
        self
    }

    /// The pods on each node, counted by this. Declares the attribute of the pod, too, with which
    /// [`Node::pods_like`](crate::Node::pods_like) finds the pods that are like it. At most 8 different attributes. The
    /// verb needs a gateway that watches pods. It may be [pure](crate::Verb::pure): the answer for a node is then cached until
    /// a pod is added to the node or removed from it. The counts lag behind what kube-scheduler assumes by the time that a Binding needs, usually some
    /// milliseconds: two pods in a row can both see room for one. A gateway that binds asks again before each Binding.
    ///
    /// ```
    /// use extender_policy_sdk::testing::{self, TestNode, TestPod};
    /// use extender_policy_sdk::{Info, Node, Pod, Policy, PodsBy, PodsKey, Reads, Verb, Verdict};
    ///
    /// /// At most 2 pods of an owner on a node.
    /// struct Apart {
    ///     reads: Reads,
    ///     owner: PodsKey,
    /// }
    ///
    /// impl Apart {
    ///     fn new() -> Self {
    ///         let mut reads = Reads::new();
    ///         let owner = reads.pods_by(PodsBy::Owner);
    ///         Self { reads, owner }
    ///     }
    /// }
    ///
    /// impl Policy for Apart {
    ///     fn info(&self) -> Info {
    ///         Info::new("apart", "1.0.0").filters(Verb::per_node().pure().reads(&self.reads))
    ///     }
    ///
    ///     fn filter(&self, pod: &Pod, node: &Node) -> Verdict {
    ///         match node.pods_like(&self.owner, pod) {
    ///             Some(like) if like.at_most() >= 2 => Verdict::reject("node has 2 pods of the owner"),
    ///             _ => Verdict::Accept,
    ///         }
    ///     }
    /// }
    ///
    /// let pod = TestPod::new("shop").owner("web");
    /// let nodes = [TestNode::new("a").running(&pod, 2), TestNode::new("b").running(&pod, 1)];
    /// let refused = testing::filter(Apart::new(), &pod, &nodes);
    /// assert_eq!(refused.unwrap(), [("a".to_owned(), "node has 2 pods of the owner".to_owned())]);
    /// ```
    pub fn pods_by(&mut self, by: PodsBy) -> PodsKey {
        self.counted(by, Sums::Unread)
    }

    /// The same with the sums of the pods' requests, for [`PodCount::requested`](crate::PodCount::requested). The
    /// requests of the pod to be placed are [`PodPart::Requests`], to be declared besides.
    pub fn pods_and_requests_by(&mut self, by: PodsBy) -> PodsKey {
        self.counted(by, Sums::Requests)
    }

    /// The pods in the cluster that are like the pod, added up by the value of a label of nodes, such as
    /// `topology.kubernetes.io/zone`; with an empty topology key, the pods on all nodes of the cluster. Declares the
    /// attribute of the pod and the label of nodes, too. At most 8 different pairs. For filter and score only; the
    /// gateway must watch pods, and know the nodes from more than the calls.
    ///
    /// The counts are those of the whole cluster, also of nodes that are not part of the call, at the moment of the
    /// call. So the answer for a node depends on the pod, the counts that come with it, and that node: the verb is [per
    /// node](crate::Verb::per_node). It may be [pure](crate::Verb::pure), but each change of a count begins a new class
    /// of pods, for which nothing is cached yet. Like those of [`pods_by`](Self::pods_by), the counts lag behind what
    /// kube-scheduler assumes.
    ///
    /// ```
    /// use extender_policy_sdk::testing::{self, TestNode, TestPod};
    /// use extender_policy_sdk::{Info, Node, Pod, Policy, PodsBy, Reads, TopologyKey, Verb, Verdict};
    ///
    /// /// At most 2 pods of an owner in a rack.
    /// struct ApartInRacks {
    ///     reads: Reads,
    ///     racks: TopologyKey,
    /// }
    ///
    /// impl ApartInRacks {
    ///     fn new() -> Self {
    ///         let mut reads = Reads::new();
    ///         let racks = reads.pods_by_topology(PodsBy::Owner, "rack");
    ///         Self { reads, racks }
    ///     }
    /// }
    ///
    /// impl Policy for ApartInRacks {
    ///     fn info(&self) -> Info {
    ///         Info::new("apart", "1.0.0").filters(Verb::per_node().reads(&self.reads))
    ///     }
    ///
    ///     fn filter(&self, pod: &Pod, node: &Node) -> Verdict {
    ///         let Some(racks) = pod.pods_like(&self.racks) else { return Verdict::Accept };
    ///         match racks.of(node) {
    ///             None => Verdict::reject("node is in no rack").unresolvable(),
    ///             Some(like) if like.at_most() >= 2 => Verdict::reject("rack has 2 pods of the owner"),
    ///             Some(_) => Verdict::Accept,
    ///         }
    ///     }
    /// }
    ///
    /// let pod = TestPod::new("shop").owner("web");
    /// let nodes = [
    ///     TestNode::new("a").label("rack", "r1").running(&pod, 2),
    ///     TestNode::new("b").label("rack", "r1"),
    ///     TestNode::new("c").label("rack", "r2").running(&pod, 1),
    /// ];
    /// let refused = testing::filter(ApartInRacks::new(), &pod, &nodes).unwrap();
    /// let refused: Vec<_> = refused.iter().map(|(node, _)| node.as_str()).collect();
    /// assert_eq!(refused, ["a", "b"]);
    /// ```
    pub fn pods_by_topology(&mut self, by: PodsBy, topology_key: impl Into<Arc<str>>) -> TopologyKey {
        self.added_up(Topology { by, key: topology_key.into() }, Sums::Unread)
    }

    /// The same with the sums of the pods' requests, for [`PodCount::requested`](crate::PodCount::requested).
    pub fn pods_and_requests_by_topology(
        &mut self,
        by: PodsBy,
        topology_key: impl Into<Arc<str>>,
    ) -> TopologyKey {
        self.added_up(Topology { by, key: topology_key.into() }, Sums::Requests)
    }

    fn counted(&mut self, by: PodsBy, sums: Sums) -> PodsKey {
        self.attribute(&by);
        self.node.pods.insert(by.clone(), sums);
        PodsKey(by)
    }

    fn added_up(&mut self, topology: Topology, sums: Sums) -> TopologyKey {
        self.attribute(&topology.by);
        let label = (!topology.key.is_empty()).then(|| self.node_label(Arc::clone(&topology.key)));
        self.pod.topologies.insert(topology.clone(), sums, label);
        TopologyKey(topology)
    }

    /// What pods are counted by, of the pod to be placed.
    fn attribute(&mut self, by: &PodsBy) {
        match by {
            PodsBy::Owner => self.pod.parts.insert(PodPart::Owner),
            PodsBy::Namespace => self.pod.parts.insert(PodPart::Namespace),
            PodsBy::Label(key) => {
                self.pod.parts.insert(PodPart::Namespace);
                self.pod.labels.key(Map::Labels, Arc::clone(key));
            }
            PodsBy::PriorityClass => self.pod.parts.insert(PodPart::PriorityClass),
        }
    }

    /// The same and everything else that can be declared besides counts of pods. Neither JSON nor the identity of the pod is
    /// allowed to pure verbs.
    pub(crate) fn and_everything(&self, pure: bool) -> Self {
        let mut all = self.clone();
        all.add_everything();
        all.node_annotations("");
        all.pod_annotations("");
        all.node(NodePart::Usage).node(NodePart::Nominated).node(NodePart::Images);
        if !pure {
            all.node(NodePart::RawJson).pod(PodPart::RawJson).pod(PodPart::Identity);
        }
        all
    }

    /// The same for a verb without nodes, which reads everything of none.
    pub(crate) fn of_pod(&self) -> Self {
        let node = if self.node.everything { Declared::default() } else { self.node.clone() };
        Self { pod: self.pod.clone(), node }
    }
}

#[cfg(test)]
mod tests;
