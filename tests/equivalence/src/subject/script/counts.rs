//! Counts of pods as they are declared, and as requests have them.

use extender_policy_api::v1beta1::{
    DomainCount, NodeRow, PodCount, PodCountBy, PodCountReads, Resources, TopologyCountReads, TopologyCounts,
};
use extender_reference::{
    counts::{Count, Requested},
    model::CountedBy,
};

use super::objects;
use crate::case::{Counting, Counts, Topology, offset};

/// The declaration of counts on nodes.
pub(super) fn on_nodes(counts: &Counts) -> Vec<PodCountReads> {
    let declared = counts.on_nodes().map(|(by, counting)| {
        let (by, label) = attribute(by);
        PodCountReads { by: by.into(), label: label.to_owned(), requests: has_requests(counting) }
    });
    declared.collect()
}

/// The declaration of counts over topologies.
pub(super) fn over_topologies(counts: &Counts) -> Vec<TopologyCountReads> {
    let declared = counts.over_topologies().map(|(by, topology, counting)| {
        let (by, label) = attribute(by);
        let topology_key = match topology {
            Topology::Cluster => "",
            Topology::Zone => objects::ZONE,
        };
        TopologyCountReads {
            by: by.into(),
            label: label.to_owned(),
            topology_key: topology_key.to_owned(),
            requests: has_requests(counting),
        }
    });
    declared.collect()
}

fn attribute(by: CountedBy) -> (PodCountBy, &'static str) {
    match by {
        CountedBy::Owner => (PodCountBy::Owner, ""),
        CountedBy::Namespace => (PodCountBy::Namespace, ""),
        CountedBy::Label(key) => (PodCountBy::Label, key),
        CountedBy::PriorityClass => (PodCountBy::PriorityClassName, ""),
    }
}

fn has_requests(counting: Counting) -> bool {
    counting == Counting::PodsAndRequests
}

/// The offset in the tables for the counts of a row, which are exactly those that are declared.
pub(super) fn of_row(row: &NodeRow, counts: &Counts) -> Result<usize, String> {
    let declared: Vec<_> = counts.on_nodes().map(|(_, counting)| counting).collect();
    if row.pod_counts.len() != declared.len() {
        return Err(format!("{} counts of pods, and {} are declared", row.pod_counts.len(), declared.len()));
    }
    let read = row.pod_counts.iter().zip(declared).map(|(counts, counting)| {
        complete(counts.omitted_pods)?;
        counts.counts.iter().map(|count| on_node(count, counting)).collect()
    });
    Ok(offset(&read.collect::<Result<Vec<_>, String>>()?))
}

/// The same for the counts of the pods that are like a pod.
pub(super) fn of_pod(told: &[TopologyCounts], counts: &Counts) -> Result<usize, String> {
    let declared: Vec<_> = counts.over_topologies().map(|(.., counting)| counting).collect();
    if told.len() != declared.len() {
        return Err(format!("{} topology counts, and {} are declared", told.len(), declared.len()));
    }
    let read = told.iter().zip(declared).map(|(counts, counting)| {
        complete(counts.omitted_pods)?;
        counts.domains.iter().map(|domain| in_domain(domain, counting)).collect()
    });
    Ok(offset(&read.collect::<Result<Vec<_>, String>>()?))
}

/// There are never so many pods that some are left out.
fn complete(omitted: u32) -> Result<(), String> {
    if omitted > 0 { Err(format!("{omitted} pods are left out")) } else { Ok(()) }
}

fn on_node(count: &PodCount, counting: Counting) -> Result<Count, String> {
    let PodCount { namespace, value, pods, terminating, requested: told } = count.clone();
    Ok(Count { namespace, value, pods, terminating, requested: requested(told, counting)? })
}

fn in_domain(domain: &DomainCount, counting: Counting) -> Result<Count, String> {
    let DomainCount { value, pods, terminating, requested: told } = domain.clone();
    let requested = requested(told, counting)?;
    Ok(Count { namespace: String::new(), value, pods, terminating, requested })
}

/// The requests, if they are declared.
fn requested(told: Option<Resources>, counting: Counting) -> Result<Option<Requested>, String> {
    if !has_requests(counting) {
        return told.map_or(Ok(None), |told| Err(format!("{told:?} in counts without requests")));
    }
    let Resources { milli_cpu, memory, ephemeral_storage, pods, others } = told.unwrap_or_default();
    if (ephemeral_storage, pods) != (0, 0) {
        return Err(format!("requests of {ephemeral_storage} bytes of storage and {pods} pods"));
    }
    Ok(Some(Requested { milli_cpu, memory, others }))
}
