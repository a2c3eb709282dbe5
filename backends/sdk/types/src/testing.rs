//! What tests of policies ask about: pods, nodes and candidates, and what a gateway sends of them.

use extender_policy_api::v1beta1::{self as api, NodeFacts, PodFacts};

use crate::{
    info::declaration::Terms,
    reads::{cluster::ClusterNode, layout::SentFields, running::Running},
};

/// A node to test a policy with.
#[derive(Clone, Debug)]
#[must_use]
pub struct TestNode {
    #[doc(hidden)]
    pub row: api::NodeRow,
    #[doc(hidden)]
    pub pods: Vec<Running>,
}

impl TestNode {
    /// A node without labels.
    pub fn new(name: impl Into<String>) -> Self {
        Self::from_facts(name, NodeFacts::default())
    }

    /// A node with these facts, which have labels and annotations as `entries`.
    pub fn from_facts(name: impl Into<String>, facts: NodeFacts) -> Self {
        let row = api::NodeRow { name: name.into(), facts: Some(facts), ..api::NodeRow::default() };
        Self { row, pods: Vec::new() }
    }

    /// With the requests of the pods on it, for a verb that declares [`NodePart::Usage`](crate::NodePart::Usage); without, the
    /// usage is unknown.
    pub fn usage(mut self, usage: api::NodeUsage) -> Self {
        self.row.usage = Some(usage);
        self
    }

    /// The same of the pods that are nominated to it, for [`NodePart::Nominated`](crate::NodePart::Nominated).
    pub fn nominated(mut self, requested: api::NodeUsage) -> Self {
        self.row.nominated = Some(requested);
        self
    }

    /// With these allocatable resources, `status.allocatable`. Sums of requests contain the extended resources that the
    /// node reports.
    pub fn allocatable(mut self, resources: api::Resources) -> Self {
        self.row.facts.get_or_insert_default().allocatable = Some(resources);
        self
    }

    /// With a label.
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.row
            .facts
            .get_or_insert_default()
            .labels
            .get_or_insert_default()
            .entries
            .insert(key.into(), value.into());
        self
    }

    /// With an annotation. The gateway sends only those that are declared.
    pub fn annotation(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.row
            .facts
            .get_or_insert_default()
            .annotations
            .get_or_insert_default()
            .entries
            .insert(key.into(), value.into());
        self
    }

    /// With this JSON of the object, for a verb that declares [`NodePart::RawJson`](crate::NodePart::RawJson).
    pub fn raw_json(mut self, json: impl Into<Vec<u8>>) -> Self {
        self.row.raw_json = json.into().into();
        self
    }

    /// With a taint, whose effect is `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub fn taint(
        mut self,
        key: impl Into<String>,
        value: impl Into<String>,
        effect: impl Into<String>,
    ) -> Self {
        let taint = api::Taint { key: key.into(), value: value.into(), effect: effect.into() };
        self.row.facts.get_or_insert_default().taints.push(taint);
        self
    }

    /// With this many pods like this one on it, besides those that are there already. A verb that counts pods gets the
    /// counts that the gateway would send for a cluster of the nodes of the call; the [usage](Self::usage) stays as it
    /// is.
    pub fn running(self, pod: &TestPod, pods: u32) -> Self {
        self.with(Running { pod: pod.pod.clone(), pods, terminating: 0 })
    }

    /// The same with pods that are being deleted.
    pub fn terminating(self, pod: &TestPod, pods: u32) -> Self {
        self.with(Running { pod: pod.pod.clone(), pods, terminating: pods })
    }

    fn with(mut self, pods: Running) -> Self {
        self.pods.push(pods);
        self
    }

    fn in_cluster(&self) -> ClusterNode<'_> {
        ClusterNode { facts: self.row.facts.as_ref(), pods: &self.pods }
    }

    /// What the gateway sends of it to a verb.
    #[doc(hidden)]
    pub fn sent(&self, terms: &Terms) -> api::NodeRow {
        let fields = &terms.reads().node;
        let row = fields.row(&self.row);
        api::NodeRow {
            facts: row.facts.filter(|_| terms.row_parts().has_facts()),
            pod_counts: fields.pod_counts(&self.pods, self.row.facts.as_ref()),
            ..row
        }
    }
}

/// A pod to test a policy with.
#[derive(Clone, Debug)]
#[must_use]
pub struct TestPod {
    #[doc(hidden)]
    pub pod: api::Pod,
    #[doc(hidden)]
    pub call_id: String,
}

impl TestPod {
    /// A pod without labels.
    pub fn new(namespace: impl Into<String>) -> Self {
        PodFacts { namespace: namespace.into(), ..PodFacts::default() }.into()
    }

    /// With a label.
    pub fn label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.facts().labels.get_or_insert_default().entries.insert(key.into(), value.into());
        self
    }

    /// With an annotation. The gateway sends only those that are declared.
    pub fn annotation(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.facts().annotations.get_or_insert_default().entries.insert(key.into(), value.into());
        self
    }

    /// With this JSON of the object, for a verb that declares [`PodPart::RawJson`](crate::PodPart::RawJson).
    pub fn raw_json(mut self, json: impl Into<Vec<u8>>) -> Self {
        self.pod.raw_json = json.into().into();
        self
    }

    /// With a toleration.
    pub fn toleration(mut self, toleration: api::Toleration) -> Self {
        self.facts().tolerations.push(toleration);
        self
    }

    /// With a controller of this UID.
    pub fn owner(mut self, uid: impl Into<String>) -> Self {
        let (api_version, kind, name) = ("apps/v1".into(), "ReplicaSet".into(), "owner".into());
        self.facts().owner = Some(api::OwnerReference { api_version, kind, name, uid: uid.into() });
        self
    }

    /// With a priority class of this name.
    pub fn priority_class(mut self, name: impl Into<String>) -> Self {
        self.facts().priority_class_name = name.into();
        self
    }

    /// With these requests.
    pub fn requests(mut self, requests: api::Resources) -> Self {
        self.facts().requests = Some(requests);
        self
    }

    /// With an affinity to nodes.
    pub fn node_affinity(mut self, affinity: api::NodeAffinity) -> Self {
        self.facts().node_affinity = Some(affinity);
        self
    }

    /// With this name and UID, which `bind` and `observe` tell the policy.
    pub fn identity(mut self, name: impl Into<String>, uid: impl Into<String>) -> Self {
        let identity = self.pod.identity.get_or_insert_default();
        (identity.name, identity.uid) = (name.into(), uid.into());
        self
    }

    /// In calls with this id, which `observe` tells the policy, too. Without it the id is `test`.
    pub fn call_id(mut self, id: impl Into<String>) -> Self {
        self.call_id = id.into();
        self
    }

    /// With this metadata.creationTimestamp, in seconds since 1970.
    pub fn created_seconds(mut self, seconds: i64) -> Self {
        self.pod.identity.get_or_insert_with(unnamed).created_seconds = Some(seconds);
        self
    }

    /// Namespace, name and UID.
    #[doc(hidden)]
    pub fn named(&self) -> [String; 3] {
        let namespace = self.pod.facts.iter().map(|facts| facts.namespace.clone()).collect();
        let api::PodIdentity { name, uid, .. } = self.pod.identity.clone().unwrap_or_else(unnamed);
        [namespace, name, uid]
    }

    /// What the gateway sends of it to a verb, to be placed on one of these nodes.
    #[doc(hidden)]
    pub fn sent(&self, fields: &SentFields, nodes: &[TestNode]) -> api::Pod {
        let cluster: Vec<_> = nodes.iter().map(TestNode::in_cluster).collect();
        let topology_counts = fields.topology_counts(&self.pod, &cluster);
        api::Pod { topology_counts, ..fields.pod(&self.pod) }
    }

    fn facts(&mut self) -> &mut PodFacts {
        self.pod.facts.get_or_insert_default()
    }
}

/// Of a pod that has none where it is needed.
fn unnamed() -> api::PodIdentity {
    api::PodIdentity { name: "pod".to_owned(), uid: "uid".to_owned(), ..api::PodIdentity::default() }
}

impl From<PodFacts> for TestPod {
    /// A pod with these facts, which have labels and annotations as `entries`.
    fn from(facts: PodFacts) -> Self {
        Self { pod: api::Pod { facts: Some(facts), ..api::Pod::default() }, call_id: "test".to_owned() }
    }
}

/// A node on which pods would be evicted.
#[derive(Clone, Debug)]
#[must_use]
pub struct TestCandidate {
    #[doc(hidden)]
    pub node: TestNode,
    #[doc(hidden)]
    pub candidate: api::Candidate,
}

impl TestCandidate {
    /// No pod would be evicted: a placeholder, unless victims follow.
    pub fn new(node: TestNode) -> Self {
        Self { node, candidate: api::Candidate::default() }
    }

    /// With a victim, after the others.
    pub fn victim(self, uid: impl Into<String>, pod: TestPod) -> Self {
        self.with(uid, Some(pod.pod))
    }

    /// With a victim of which only the UID is known.
    pub fn unknown_victim(self, uid: impl Into<String>) -> Self {
        self.with(uid, None)
    }

    /// With this many evictions that violate a `PodDisruptionBudget`.
    pub fn pdb_violations(mut self, count: u32) -> Self {
        self.candidate.pdb_violations = count;
        self
    }

    #[doc(hidden)]
    pub fn uids(&self, kept: &api::KeptCandidate) -> Vec<String> {
        let victims = (0_u32..).zip(&self.candidate.victims);
        let stay = victims.filter(|(at, _)| kept.victims.contains(at)).map(|(_, victim)| &victim.uid);
        stay.chain(&kept.added_uids).cloned().collect()
    }

    /// What the gateway sends of it besides the node.
    #[doc(hidden)]
    pub fn sent(&self, fields: &SentFields) -> api::Candidate {
        let mut candidate = self.candidate.clone();
        candidate.placeholder = candidate.victims.is_empty();
        let pods = candidate.victims.iter_mut().filter_map(|victim| victim.pod.as_mut());
        pods.for_each(|pod| **pod = fields.pod(pod));
        candidate
    }

    fn with(mut self, uid: impl Into<String>, pod: Option<api::Pod>) -> Self {
        self.candidate.victims.push(api::Victim { uid: uid.into(), pod: pod.map(Box::new) });
        self
    }
}
