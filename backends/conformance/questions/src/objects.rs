//! Random pods and nodes as the cluster would have them, before a declaration selects what is sent. Few different
//! values, those of the operator's args among them, so that policies reach different verdicts.

mod json;

use std::collections::{BTreeMap, BTreeSet};

use extender_policy_api::v1beta1 as api;

use crate::random::Random;

/// Keys and values of which labels and annotations are made.
#[derive(Clone, Debug)]
pub struct Vocabulary {
    pub keys: Vec<String>,
    pub values: Vec<String>,
    /// The values of some keys, which have no others.
    pub own: BTreeMap<String, Vec<String>>,
}

/// Labels and annotations that policies look at often.
const KEYS: [&str; 6] = [
    "app",
    "kubernetes.io/arch",
    "kubernetes.io/hostname",
    "node.kubernetes.io/instance-type",
    "topology.kubernetes.io/zone",
    "zone",
];

const VALUES: [&str; 8] = ["", "a", "amd64", "arm64", "b", "true", "4", "web"];

/// Words that policies look at, too.
const MORE_KEYS: &str = "disk env gpu karpenter.sh/capacity-type kubernetes.io/os node-role.kubernetes.io/control-plane pool \
                         rack role team tenant tier topology.kubernetes.io/rack topology.kubernetes.io/region";

const MORE_VALUES: &str = "0 1 2 batch db dev false gpu infra linux none prod r1 rack-1 spot ssd";

impl Vocabulary {
    /// The words of the handshake, of the operator's args and of the command line, and some of Kubernetes. A value of the
    /// command line that has an equals sign is one of the key before it.
    pub fn new<'a>(keys: impl IntoIterator<Item = &'a str>, args: &[u8], values: &[String]) -> Self {
        let mut all_keys: BTreeSet<_> = KEYS.map(str::to_owned).into_iter().collect();
        all_keys.extend(
            keys.into_iter().map(|key| if key.is_empty() { "key".to_owned() } else { key.to_owned() }),
        );
        let mut all_values: BTreeSet<_> = VALUES.map(str::to_owned).into_iter().collect();
        let mut own: BTreeMap<String, Vec<String>> = BTreeMap::new();
        for value in values {
            match value.split_once('=') {
                Some((key, value)) => own.entry(key.to_owned()).or_default().push(value.to_owned()),
                None => drop(all_values.insert(value.clone())),
            }
        }
        all_keys.extend(own.keys().cloned());
        if let Ok(args) = serde_json::from_slice::<serde_json::Value>(args) {
            words(&args, &mut all_values);
        }
        Self { keys: all_keys.into_iter().collect(), values: all_values.into_iter().collect(), own }
    }

    fn map(&self, random: &mut Random) -> BTreeMap<String, String> {
        let entries = self.keys.iter().filter_map(|key| {
            let values = self.own.get(key).unwrap_or(&self.values);
            let value = (!random.once_in(4)).then(|| random.one_of(values))?;
            Some((key.clone(), value?.clone()))
        });
        entries.collect()
    }

    fn word(&self, random: &mut Random) -> String {
        random.one_of(&self.values).cloned().unwrap_or_default()
    }

    fn key(&self, random: &mut Random) -> String {
        random.one_of(&self.keys).cloned().unwrap_or_default()
    }
}

/// The texts in a JSON value, and its keys.
fn words(value: &serde_json::Value, to: &mut BTreeSet<String>) {
    match value {
        serde_json::Value::String(text) => drop(to.insert(text.clone())),
        serde_json::Value::Array(items) => items.iter().for_each(|item| words(item, to)),
        serde_json::Value::Object(entries) => entries.iter().for_each(|(key, value)| {
            to.insert(key.clone());
            words(value, to);
        }),
        _ => {}
    }
}

/// A node of the cluster.
#[derive(Clone, Debug)]
pub struct Node {
    pub name: String,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    /// Without labels and annotations.
    pub facts: api::NodeFacts,
    pub usage: api::NodeUsage,
    /// What the pods that are nominated to it request.
    pub nominated: api::NodeUsage,
    /// From which counts of pods are made.
    pub seed: u64,
}

/// A pod to be placed, or one that would be evicted.
#[derive(Clone, Debug)]
pub struct Pod {
    pub identity: api::PodIdentity,
    pub labels: BTreeMap<String, String>,
    pub annotations: BTreeMap<String, String>,
    /// Without labels and annotations.
    pub facts: api::PodFacts,
    pub seed: u64,
}

/// The groups of pods on nodes: owners, namespaces, values of labels.
pub const GROUPS: [&str; 4] = ["a", "b", "shop", "web"];

const EFFECTS: [&str; 3] = ["NoSchedule", "PreferNoSchedule", "NoExecute"];

/// Random objects.
#[derive(Clone, Debug)]
pub struct Objects {
    vocabulary: Vocabulary,
    pub random: Random,
    /// The number of the next node.
    next: usize,
}

impl Objects {
    pub fn new(vocabulary: Vocabulary, seed: u64) -> Self {
        Self { vocabulary, random: Random::new(seed), next: 0 }
    }

    /// The words of which objects are made, and more.
    pub fn likely(&self) -> Vocabulary {
        let Vocabulary { mut keys, mut values, own } = self.vocabulary.clone();
        keys.extend(MORE_KEYS.split(' ').map(str::to_owned));
        values.extend(MORE_VALUES.split(' ').map(str::to_owned));
        Vocabulary { keys, values, own }
    }

    pub fn nodes(&mut self, count: usize) -> Vec<Node> {
        (0..count).map(|_| self.node()).collect()
    }

    pub fn node(&mut self) -> Node {
        let number = self.next;
        self.next += 1;
        let (labels, annotations) = (self.map(), self.map());
        let taints = (0..self.random.below(3)).map(|_| self.taint()).collect();
        let ready = if self.random.once_in(5) { "False" } else { "True" };
        let allocatable = self.resources(64_000);
        let facts = api::NodeFacts {
            taints,
            unschedulable: Some(self.random.once_in(8)),
            conditions: BTreeMap::from([("Ready".to_owned(), ready.to_owned())]),
            capacity: Some(allocatable.clone()),
            allocatable: Some(allocatable),
            images: vec![self.image()],
            system_info: Some(self.system_info()),
            addresses: vec![self.address(number)],
            provider_id: format!("acme://zone/{number}"),
            ..api::NodeFacts::default()
        };
        let usage = self.usage();
        // No pod is nominated to most nodes.
        let nominated = if self.random.once_in(3) { self.usage() } else { api::NodeUsage::default() };
        let name = format!("node-{number}");
        Node { name, labels, annotations, facts, usage, nominated, seed: self.random.bits() }
    }

    fn usage(&mut self) -> api::NodeUsage {
        api::NodeUsage { requested: Some(self.resources(32_000)), nonzero: Some(self.nonzero()) }
    }

    pub fn pod(&mut self) -> Pod {
        let number = self.random.below(1 << 30);
        let name = format!("web-{number:x}");
        let owner = (!self.random.once_in(3)).then(|| api::OwnerReference {
            api_version: "apps/v1".to_owned(),
            kind: "ReplicaSet".to_owned(),
            name: "web".to_owned(),
            uid: self.group(),
        });
        let required = self.random.once_in(4).then(|| api::NodeSelector { terms: vec![self.term()] });
        let weight = 1 + i32::try_from(self.random.below(100)).unwrap_or_default();
        let preferred = self.random.once_in(4);
        let preferred =
            preferred.then(|| api::PreferredSchedulingTerm { weight, preference: Some(self.term()) });
        let (namespace, labels, annotations) = (self.group(), self.map(), self.map());
        let facts = api::PodFacts {
            namespace,
            owner,
            priority: Some(i32::try_from(self.random.below(100)).unwrap_or_default() - 50),
            priority_class_name: if self.random.once_in(2) { self.group() } else { String::new() },
            requests: Some(api::Resources { pods: 1, ..self.resources(8_000) }),
            tolerations: (0..self.random.below(3)).map(|_| self.toleration()).collect(),
            node_selector: if self.random.once_in(4) { self.map() } else { BTreeMap::new() },
            volumes: (0..self.random.below(2)).map(|_| self.volume()).collect(),
            scheduler_name: "default-scheduler".to_owned(),
            node_affinity: Some(api::NodeAffinity { required, preferred: preferred.into_iter().collect() }),
            nonzero_requests: Some(self.nonzero()),
            containers: vec![self.container(true), self.container(false)],
            pod_affinity: self.random.once_in(4).then(|| self.pod_affinity()),
            topology_spread: (0..self.random.below(2)).map(|_| self.spread()).collect(),
            resource_claims: (0..self.random.below(2)).map(|_| self.claim()).collect(),
            pod_group_name: if self.random.once_in(4) { self.group() } else { String::new() },
            runtime_class_name: if self.random.once_in(4) { "gvisor" } else { "" }.to_owned(),
            preemption_policy: if self.random.once_in(4) { "Never" } else { "" }.to_owned(),
            service_account_name: "default".to_owned(),
            ..api::PodFacts::default()
        };
        let created_seconds = Some(1_700_000_000 + self.random.amount(1 << 24));
        let (uid, claims) = (format!("uid-{number:x}"), vec![format!("data-{name}")]);
        let identity = api::PodIdentity { uid, claims, name, created_seconds };
        Pod { identity, labels, annotations, facts, seed: self.random.bits() }
    }

    fn map(&mut self) -> BTreeMap<String, String> {
        self.vocabulary.map(&mut self.random)
    }

    fn group(&mut self) -> String {
        self.random.one_of(&GROUPS).copied().unwrap_or_default().to_owned()
    }

    fn taint(&mut self) -> api::Taint {
        let (key, value) = (self.vocabulary.key(&mut self.random), self.vocabulary.word(&mut self.random));
        api::Taint { key, value, effect: self.effect() }
    }

    fn effect(&mut self) -> String {
        self.random.one_of(&EFFECTS).copied().unwrap_or_default().to_owned()
    }

    fn toleration(&mut self) -> api::Toleration {
        let key = if self.random.once_in(4) { String::new() } else { self.vocabulary.key(&mut self.random) };
        let exists = key.is_empty() || self.random.once_in(2);
        let operator = if exists { "Exists" } else { "" }.to_owned();
        let value = if exists { String::new() } else { self.vocabulary.word(&mut self.random) };
        let effect = if self.random.once_in(2) { String::new() } else { self.effect() };
        let toleration_seconds = self.random.once_in(3).then(|| self.random.amount(600));
        api::Toleration { key, operator, value, effect, toleration_seconds }
    }

    fn term(&mut self) -> api::NodeSelectorTerm {
        let operator = ["In", "NotIn", "Exists", "DoesNotExist", "Gt"];
        let operator = self.random.one_of(&operator).copied().unwrap_or_default();
        let values = match operator {
            "In" | "NotIn" => {
                vec![self.vocabulary.word(&mut self.random), self.vocabulary.word(&mut self.random)]
            }
            "Gt" => vec!["2".to_owned()],
            _ => Vec::new(),
        };
        let key = self.vocabulary.key(&mut self.random);
        let requirement = api::NodeSelectorRequirement { key, operator: operator.to_owned(), values };
        api::NodeSelectorTerm { match_expressions: vec![requirement], match_fields: Vec::new() }
    }

    fn volume(&mut self) -> api::Volume {
        let claim = if self.random.once_in(2) { self.group() } else { String::new() };
        let source = if claim.is_empty() { "emptyDir" } else { "persistentVolumeClaim" };
        api::Volume { name: "data".to_owned(), claim, source: source.to_owned(), driver: String::new() }
    }

    fn container(&mut self, init: bool) -> api::Container {
        let protocol = "TCP".to_owned();
        let port = i32::try_from(1 + self.random.below(65_535)).unwrap_or(1);
        let host_ports =
            self.random.once_in(4).then_some(api::HostPort { port, protocol, ip: String::new() });
        api::Container {
            name: if init { "init" } else { "main" }.to_owned(),
            image: format!("registry.acme.io/web:{}", self.random.below(9)),
            init,
            host_ports: host_ports.into_iter().collect(),
        }
    }

    fn selector(&mut self) -> api::LabelSelector {
        let match_expressions = self.term().match_expressions;
        api::LabelSelector { match_labels: self.map(), match_expressions }
    }

    fn pod_affinity(&mut self) -> api::PodAffinity {
        let mut term = || api::PodAffinityTerm {
            selector: Some(self.selector()),
            namespaces: vec![self.group()],
            topology_key: self.vocabulary.key(&mut self.random),
            ..api::PodAffinityTerm::default()
        };
        let preferred = api::WeightedPodAffinityTerm { weight: 50, term: Some(term()) };
        api::PodAffinity {
            required: vec![term()],
            anti_required: vec![term()],
            anti_preferred: vec![preferred],
            ..api::PodAffinity::default()
        }
    }

    fn spread(&mut self) -> api::TopologySpreadConstraint {
        api::TopologySpreadConstraint {
            max_skew: 1,
            topology_key: self.vocabulary.key(&mut self.random),
            when_unsatisfiable: "DoNotSchedule".to_owned(),
            selector: Some(self.selector()),
            ..api::TopologySpreadConstraint::default()
        }
    }

    fn claim(&mut self) -> api::ResourceClaim {
        api::ResourceClaim { name: "gpu".to_owned(), claim: self.group(), template: String::new() }
    }

    fn image(&mut self) -> api::NodeImage {
        let tag = self.random.below(9);
        api::NodeImage {
            names: vec![format!("registry.acme.io/web:{tag}")],
            bytes: self.random.amount(1 << 30),
        }
    }

    fn system_info(&mut self) -> api::SystemInfo {
        let architecture = if self.random.once_in(4) { "arm64" } else { "amd64" }.to_owned();
        api::SystemInfo {
            architecture,
            operating_system: "linux".to_owned(),
            kubelet_version: format!("v1.{}.0", 18 + self.random.below(20)),
            ..api::SystemInfo::default()
        }
    }

    fn address(&mut self, number: usize) -> api::NodeAddress {
        let address = format!("10.{}.{}.{}", number >> 16 & 255, number >> 8 & 255, self.random.below(255));
        api::NodeAddress { r#type: "InternalIP".to_owned(), address }
    }

    fn nonzero(&mut self) -> api::NonZero {
        api::NonZero {
            milli_cpu: 100 + self.random.amount(4_000),
            memory: (1 + self.random.amount(64)) << 27,
        }
    }

    pub fn resources(&mut self, milli_cpu: u32) -> api::Resources {
        resources(&mut self.random, milli_cpu)
    }
}

pub fn resources(random: &mut Random, milli_cpu: u32) -> api::Resources {
    let gpus = random.once_in(2).then(|| ("example.com/gpu".to_owned(), random.amount(9)));
    api::Resources {
        milli_cpu: random.amount(milli_cpu),
        memory: random.amount(512) << 28,
        ephemeral_storage: random.amount(512) << 30,
        pods: random.amount(250),
        others: gpus.into_iter().collect(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_key_with_values_of_its_own_has_no_others() {
        let values = ["rack-2", "hours=1", "hours=8=8"].map(str::to_owned);
        let mut objects = Objects::new(Vocabulary::new(["hours"], b"", &values), 1);
        let nodes = objects.nodes(200);
        let seen = |key: &str| -> BTreeSet<_> {
            nodes.iter().filter_map(|node| node.labels.get(key).map(String::as_str)).collect()
        };
        assert_eq!(seen("hours"), BTreeSet::from(["1", "8=8"]));
        assert!(seen("zone").contains("rack-2") && !seen("zone").contains("1"));
    }
}
