//! Random pods and nodes with few different names, so that rules meet them. Everything that a policy can read differs
//! between two of them: a policy that gives the same answers with and without its declaration reads nothing else, and
//! so gives two pods or nodes that agree in what is declared the same answer.

use std::collections::BTreeMap;

use extender_policy_sdk::{
    Container, NodeAddress, NodeAffinity, NodeImage, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm,
    NodeUsage, NonZero, OwnerReference, PodAffinity, PodAffinityTerm, PreferredSchedulingTerm, ResourceClaim,
    Resources, SystemInfo, Taint, Toleration, TopologySpreadConstraint, Volume,
    testing::{MapValues, NodeFacts, PodFacts, TestNode, TestPod},
};
use proptest::{collection::vec, option, prelude::*};

/// A key of a label or of an annotation, or a name.
pub(crate) fn key() -> impl Strategy<Value = String> {
    "[a-f]"
}

/// A value of a label, sometimes a number.
pub(crate) fn value() -> impl Strategy<Value = String> {
    "[a-c1-3]?"
}

fn map() -> impl Strategy<Value = BTreeMap<String, String>> {
    prop::collection::btree_map(key(), value(), 0..5)
}

fn entries(entries: BTreeMap<String, String>) -> MapValues {
    MapValues { entries, ..MapValues::default() }
}

pub(crate) fn resources() -> impl Strategy<Value = Resources> {
    let scalar = prop_oneof![Just("example.com/gpu"), Just("hugepages-2Mi")];
    let others = prop::collection::btree_map(scalar.prop_map(str::to_owned), 0..4_i64, 0..3);
    (0..9_i64, 0..9_i64, 0..9_i64, 0..4_i64, others).prop_map(
        |(milli_cpu, memory, ephemeral_storage, pods, others)| Resources {
            milli_cpu,
            memory,
            ephemeral_storage,
            pods,
            others,
        },
    )
}

fn nonzero() -> impl Strategy<Value = NonZero> {
    (0..9_i64, 0..9_i64).prop_map(|(milli_cpu, memory)| NonZero { milli_cpu, memory })
}

fn term() -> impl Strategy<Value = NodeSelectorTerm> {
    let operator = prop_oneof![Just("In"), Just("NotIn"), Just("Exists"), Just("DoesNotExist"), Just("Gt")];
    let requirement = (key(), operator, vec(value(), 0..3));
    let requirement = requirement.prop_map(|(key, operator, values)| NodeSelectorRequirement {
        key,
        operator: operator.to_owned(),
        values,
    });
    let named = ("[a-c]", prop_oneof![Just("In"), Just("NotIn")]).prop_map(|(name, operator)| {
        let key = "metadata.name".to_owned();
        NodeSelectorRequirement { key, operator: operator.to_owned(), values: vec![name] }
    });
    (vec(requirement, 0..3), vec(named, 0..2))
        .prop_map(|(match_expressions, match_fields)| NodeSelectorTerm { match_expressions, match_fields })
}

fn affinity() -> impl Strategy<Value = NodeAffinity> {
    let preferred =
        (0..5, term()).prop_map(|(weight, term)| PreferredSchedulingTerm { weight, preference: Some(term) });
    let required = option::of(vec(term(), 0..3).prop_map(|terms| NodeSelector { terms }));
    (required, vec(preferred, 0..3)).prop_map(|(required, preferred)| NodeAffinity { required, preferred })
}

/// The parts of a pod that belong to its template.
fn template() -> impl Strategy<Value = PodFacts> {
    let owner = (key(), key());
    let owner = owner.prop_map(|(name, uid)| OwnerReference { name, uid, ..OwnerReference::default() });
    let toleration = key().prop_map(|key| Toleration { key, ..Toleration::default() });
    let volume = key().prop_map(|name| Volume { claim: name.clone(), name, ..Volume::default() });
    let facts = (option::of(owner), vec(toleration, 0..2), vec(volume, 0..2), key(), key(), 0..3, others());
    facts.prop_map(|(owner, tolerations, volumes, scheduler_name, priority_class_name, priority, others)| {
        PodFacts {
            owner,
            tolerations,
            volumes,
            scheduler_name,
            priority_class_name,
            priority: Some(priority),
            ..others
        }
    })
}

/// The other parts of a template: lists and names.
fn others() -> impl Strategy<Value = PodFacts> {
    let container = key().prop_map(|name| Container { name, ..Container::default() });
    let term = key().prop_map(|topology_key| PodAffinityTerm { topology_key, ..PodAffinityTerm::default() });
    let affinity = vec(term, 0..2).prop_map(|required| PodAffinity { required, ..PodAffinity::default() });
    let spread = key().prop_map(|topology_key| TopologySpreadConstraint {
        topology_key,
        ..TopologySpreadConstraint::default()
    });
    let claim = key().prop_map(|name| ResourceClaim { name, ..ResourceClaim::default() });
    let lists = (vec(container, 0..2), option::of(affinity), vec(spread, 0..2), vec(claim, 0..2));
    (lists, (key(), key(), key(), key())).prop_map(|(lists, names)| {
        let (containers, pod_affinity, topology_spread, resource_claims) = lists;
        let (pod_group_name, runtime_class_name, preemption_policy, service_account_name) = names;
        PodFacts {
            containers,
            pod_affinity,
            topology_spread,
            resource_claims,
            pod_group_name,
            runtime_class_name,
            preemption_policy,
            service_account_name,
            ..PodFacts::default()
        }
    })
}

/// A pod of one of three namespaces.
pub(crate) fn pod() -> impl Strategy<Value = TestPod> {
    pod_in("[x-z]")
}

/// A pod of a namespace that matches this.
pub(crate) fn pod_in(namespace: &'static str) -> impl Strategy<Value = TestPod> {
    let maps = (map(), map(), prop::collection::btree_map(key(), value(), 0..2));
    let amounts = (option::of(resources()), option::of(nonzero()));
    (namespace, maps, amounts, option::of(affinity()), template()).prop_map(
        |(
            namespace,
            (labels, annotations, node_selector),
            (requests, nonzero_requests),
            node_affinity,
            facts,
        )| {
            PodFacts {
                namespace,
                labels: Some(entries(labels)),
                annotations: Some(entries(annotations)),
                node_selector,
                requests,
                nonzero_requests,
                node_affinity,
                ..facts
            }
            .into()
        },
    )
}

/// What the kubelet and the cloud report of a node.
fn machine() -> impl Strategy<Value = NodeFacts> {
    let image = key().prop_map(|name| NodeImage { names: vec![name], bytes: 0 });
    let info = key().prop_map(|architecture| SystemInfo { architecture, ..SystemInfo::default() });
    let address = key().prop_map(|address| NodeAddress { address, ..NodeAddress::default() });
    (vec(image, 0..2), option::of(info), vec(address, 0..2), key()).prop_map(
        |(images, system_info, addresses, provider_id)| NodeFacts {
            images,
            system_info,
            addresses,
            provider_id,
            ..NodeFacts::default()
        },
    )
}

fn node() -> impl Strategy<Value = TestNode> {
    let taint = key().prop_map(|key| Taint { key, ..Taint::default() });
    let amounts = (option::of(resources()), option::of(resources()));
    let usage = (option::of(resources()), option::of(nonzero()))
        .prop_map(|(requested, nonzero)| NodeUsage { requested, nonzero });
    let used = (option::of(usage), vec((pod(), 0..3_u32, 0..2_u32), 0..3));
    ("[a-c]", (map(), map(), map()), vec(taint, 0..2), any::<bool>(), amounts, used, machine()).prop_map(
        |(
            name,
            (labels, annotations, conditions),
            taints,
            unschedulable,
            (capacity, allocatable),
            (usage, pods),
            machine,
        )| {
            let facts = NodeFacts {
                labels: Some(entries(labels)),
                annotations: Some(entries(annotations)),
                conditions,
                taints,
                unschedulable: Some(unschedulable),
                capacity,
                allocatable,
                ..machine
            };
            let node = TestNode::from_facts(name, facts);
            let node = usage.into_iter().fold(node, TestNode::usage);
            pods.iter().fold(node, |node, (pod, running, terminating)| {
                node.running(pod, *running).terminating(pod, *terminating)
            })
        },
    )
}

/// At least one node.
pub(crate) fn nodes() -> impl Strategy<Value = Vec<TestNode>> {
    vec(node(), 1..5)
}
