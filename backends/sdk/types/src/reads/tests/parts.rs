//! Each part of a pod and of a node, declared alone.

use std::{
    collections::BTreeSet,
    panic::{AssertUnwindSafe, catch_unwind},
};

use super::*;
use crate::{Node, Nodes, Pod, node::row::Row};

type ReadPod = fn(&Pod<'_>) -> String;
type ReadNode = fn(&Node<'_>) -> String;

const OF_PODS: [(PodPart, ReadPod); 21] = [
    (PodPart::Identity, |pod| format!("{:?}", (pod.name(), pod.uid(), pod.created_seconds()))),
    (PodPart::Namespace, |pod| pod.namespace().to_owned()),
    (PodPart::Owner, |pod| format!("{:?}", pod.owner())),
    (PodPart::Priority, |pod| pod.priority().to_string()),
    (PodPart::PriorityClass, |pod| format!("{:?}", pod.priority_class())),
    (PodPart::Requests, |pod| format!("{:?}", pod.requests())),
    (PodPart::Tolerations, |pod| format!("{:?}", pod.tolerations())),
    (PodPart::NodeSelector, |pod| format!("{:?}", pod.node_selector("a"))),
    (PodPart::Volumes, |pod| format!("{:?}", pod.volumes())),
    (PodPart::NodeAffinity, |pod| format!("{:?}", pod.node_affinity())),
    (PodPart::NonzeroRequests, |pod| format!("{:?}", pod.nonzero_requests())),
    (PodPart::SchedulerName, |pod| format!("{:?}", pod.scheduler_name())),
    (PodPart::RawJson, |pod| format!("{:?}", pod.raw_json())),
    (PodPart::Containers, |pod| format!("{:?}", pod.containers())),
    (PodPart::PodAffinity, |pod| format!("{:?}", pod.pod_affinity())),
    (PodPart::TopologySpread, |pod| format!("{:?}", pod.topology_spread())),
    (PodPart::ResourceClaims, |pod| format!("{:?}", pod.resource_claims())),
    (PodPart::PodGroup, |pod| format!("{:?}", pod.pod_group())),
    (PodPart::RuntimeClass, |pod| format!("{:?}", pod.runtime_class())),
    (PodPart::PreemptionPolicy, |pod| format!("{:?}", pod.preemption_policy())),
    (PodPart::ServiceAccount, |pod| format!("{:?}", pod.service_account())),
];

const OF_NODES: [(NodePart, ReadNode); 13] = [
    (NodePart::Taints, |node| format!("{:?}", node.taints())),
    (NodePart::Unschedulable, |node| node.is_unschedulable().to_string()),
    (NodePart::Conditions, |node| format!("{:?}", node.condition("a"))),
    (NodePart::Capacity, |node| format!("{:?}", node.capacity())),
    (NodePart::Allocatable, |node| format!("{:?}", node.allocatable())),
    (NodePart::Name, |node| node.name().to_owned()),
    (NodePart::Usage, |node| format!("{:?}", node.usage())),
    (NodePart::Nominated, |node| format!("{:?}", node.nominated())),
    (NodePart::RawJson, |node| format!("{:?}", node.raw_json())),
    (NodePart::Images, |node| format!("{:?}", node.images())),
    (NodePart::SystemInfo, |node| format!("{:?}", node.system_info())),
    (NodePart::Addresses, |node| format!("{:?}", node.addresses())),
    (NodePart::ProviderId, |node| format!("{:?}", node.provider_id())),
];

fn a() -> String {
    "a".to_owned()
}

fn amounts() -> api::Resources {
    api::Resources { milli_cpu: 1, ..api::Resources::default() }
}

/// With something in each part.
fn whole_pod() -> api::Pod {
    let facts = api::PodFacts {
        namespace: a(),
        owner: Some(api::OwnerReference::default()),
        priority: Some(7),
        priority_class_name: a(),
        requests: Some(amounts()),
        nonzero_requests: Some(api::NonZero { milli_cpu: 1, memory: 1 }),
        tolerations: vec![api::Toleration::default()],
        node_selector: [(a(), a())].into(),
        node_affinity: Some(api::NodeAffinity::default()),
        volumes: vec![api::Volume { source: a(), driver: a(), ..api::Volume::default() }],
        scheduler_name: a(),
        containers: vec![api::Container::default()],
        pod_affinity: Some(api::PodAffinity::default()),
        topology_spread: vec![api::TopologySpreadConstraint::default()],
        resource_claims: vec![api::ResourceClaim::default()],
        pod_group_name: a(),
        runtime_class_name: a(),
        preemption_policy: a(),
        service_account_name: a(),
        labels: None,
        annotations: None,
    };
    let identity = Some(api::PodIdentity { created_seconds: Some(0), ..api::PodIdentity::default() });
    api::Pod { identity, facts: Some(facts), raw_json: "{}".into(), topology_counts: vec![] }
}

/// With something in each part.
fn whole_node() -> api::NodeRow {
    let facts = api::NodeFacts {
        taints: vec![api::Taint::default()],
        unschedulable: Some(true),
        conditions: [(a(), a())].into(),
        capacity: Some(amounts()),
        allocatable: Some(amounts()),
        images: vec![api::NodeImage::default()],
        system_info: Some(api::SystemInfo::default()),
        addresses: vec![api::NodeAddress::default()],
        provider_id: a(),
        labels: None,
        annotations: None,
    };
    let usage = Some(api::NodeUsage::default());
    let (facts, raw_json, nominated) = (Some(facts), "{}".into(), usage.clone());
    api::NodeRow { name: a(), facts, raw_json, usage, nominated, pod_counts: vec![] }
}

/// What is read, or the text of the panic.
fn outcome(read: impl FnOnce() -> String) -> Result<String, String> {
    catch_unwind(AssertUnwindSafe(read)).map_err(|error| *error.downcast::<String>().unwrap())
}

/// A declared part is read and is not what an object without it has; of every other part the text says how it is declared.
fn check<P: Part + PartialEq>(
    declared: P,
    part: P,
    whole: Result<String, String>,
    bare: Result<String, String>,
) {
    if part == declared {
        assert_ne!(whole.unwrap(), bare.unwrap(), "{part:?}");
    } else {
        let error = whole.unwrap_err();
        assert!(error.ends_with(&format!("({}::{part:?})", P::TYPE)), "{error}");
    }
}

#[test]
fn a_part_of_the_pod_is_read_where_it_is_declared_and_nowhere_else() {
    let known = (1..32).filter(|number| api::PodPart::try_from(*number).is_ok());
    assert_eq!(known.collect::<BTreeSet<_>>(), OF_PODS.map(|(part, _)| part as i32).into());
    let bare = api::Pod { facts: Some(api::PodFacts::default()), ..api::Pod::default() };
    for (declared, _) in OF_PODS {
        let mut reads = Reads::new();
        reads.pod(declared);
        let fields = Layout::new(&reads).pod;
        for (part, read) in OF_PODS {
            let read = |pod| outcome(|| read(&Pod::new(&fields.pod(pod), Access::to(&fields)).unwrap()));
            check(declared, part, read(&whole_pod()), read(&bare));
        }
    }
}

#[test]
fn a_part_of_nodes_is_read_where_it_is_declared_and_nowhere_else() {
    let known = (1..32).filter(|number| api::NodePart::try_from(*number).is_ok());
    assert_eq!(known.collect::<BTreeSet<_>>(), OF_NODES.map(|(part, _)| part as i32).into());
    let bare = api::NodeRow { facts: Some(api::NodeFacts::default()), ..api::NodeRow::default() };
    for (declared, _) in OF_NODES {
        let mut reads = Reads::new();
        reads.node(declared);
        let fields = Layout::new(&reads).node;
        for (part, read) in OF_NODES {
            let read = |row: &api::NodeRow| {
                let encoded = fields.row(row).encode_to_vec();
                let rows = [Row::read(&encoded).unwrap()];
                let rows = rows.each_ref().map(Row::as_ref);
                outcome(|| read(&Nodes::new(&rows, Access::to(&fields)).iter().next().unwrap()))
            };
            check(declared, part, read(&whole_node()), read(&bare));
        }
    }
}
