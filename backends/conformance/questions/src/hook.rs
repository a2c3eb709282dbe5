//! What hooks change: which parts of pods and nodes, and within which limits.

mod limits;

use std::fmt::Debug;

use extender_policy_api::v1beta1::{self as api, ChangedPart};

pub use self::limits::check as check_limits;

/// A change of a pod or a node, for people.
pub fn shown<C: Debug>(change: Option<&C>) -> String {
    change.map_or_else(|| "unchanged".to_owned(), |change| format!("changed by {change:?}"))
}

/// Whether a part is one of the pod; the others are parts of nodes.
pub fn is_of_pod(part: ChangedPart) -> bool {
    matches!(
        part,
        ChangedPart::PodLabels
            | ChangedPart::PodNodeSelector
            | ChangedPart::PodNodeAffinity
            | ChangedPart::PodTolerations
            | ChangedPart::PodRequests
            | ChangedPart::PodAnnotations
            | ChangedPart::PodAffinity
            | ChangedPart::PodTopologySpread
    )
}

/// The parts that the response of a hook changes.
pub fn changed_parts(response: &api::ChangeResponse) -> impl Iterator<Item = ChangedPart> {
    response.pod.iter().flat_map(parts_of_pod).chain(response.nodes.iter().flat_map(parts_of_node))
}

fn parts_of_pod(change: &api::PodChange) -> impl Iterator<Item = ChangedPart> + use<> {
    let annotations = !change.set_annotations.is_empty() || !change.remove_annotations.is_empty();
    let selector = !change.set_node_selector.is_empty() || !change.remove_node_selector.is_empty();
    changed([
        (ChangedPart::PodLabels, !change.set_labels.is_empty() || !change.remove_labels.is_empty()),
        (ChangedPart::PodNodeSelector, selector),
        (ChangedPart::PodNodeAffinity, change.node_affinity.is_some() || change.remove_node_affinity),
        (
            ChangedPart::PodTolerations,
            !change.add_tolerations.is_empty() || !change.remove_tolerations.is_empty(),
        ),
        (ChangedPart::PodRequests, change.add_requests.is_some()),
        (ChangedPart::PodAnnotations, annotations),
        (ChangedPart::PodAffinity, change.pod_affinity.is_some()),
        (ChangedPart::PodTopologySpread, change.topology_spread.is_some()),
    ])
}

fn parts_of_node(change: &api::NodeChange) -> impl Iterator<Item = ChangedPart> + use<> {
    changed([
        (ChangedPart::NodeLabels, !change.set_labels.is_empty() || !change.remove_labels.is_empty()),
        (ChangedPart::NodeTaints, !change.add_taints.is_empty() || !change.remove_taints.is_empty()),
        (ChangedPart::NodeAllocatable, change.add_allocatable.is_some()),
        (ChangedPart::NodeUsage, change.add_usage.is_some() || !change.holds.is_empty()),
    ])
}

fn changed<const N: usize>(parts: [(ChangedPart, bool); N]) -> impl Iterator<Item = ChangedPart> {
    parts.into_iter().filter(|(_, is_changed)| *is_changed).map(|(part, _)| part)
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn each_field_belongs_to_a_part() {
        let key = || vec!["key".to_owned()];
        let pod = api::PodChange {
            remove_labels: key(),
            remove_node_selector: key(),
            remove_node_affinity: true,
            remove_tolerations: vec![api::Toleration::default()],
            add_requests: Some(api::Resources::default()),
            remove_annotations: key(),
            pod_affinity: Some(api::PodAffinity::default()),
            topology_spread: Some(api::TopologySpread::default()),
            ..api::PodChange::default()
        };
        let node = api::NodeChange {
            remove_labels: key(),
            remove_taints: vec![api::Taint::default()],
            add_allocatable: Some(api::Resources::default()),
            add_usage: Some(api::NodeUsage::default()),
            ..api::NodeChange::default()
        };
        let holding = api::NodeChange { holds: vec![api::Hold::default()], ..api::NodeChange::default() };
        assert!(parts_of_node(&holding).eq([ChangedPart::NodeUsage]));
        let response = api::ChangeResponse { pod: Some(pod), nodes: vec![node], result: None };
        let parts: BTreeSet<_> = changed_parts(&response).map(i32::from).collect();
        assert!(parts.into_iter().eq(1..=12));
        let reasons = api::ChangeResponse {
            pod: Some(api::PodChange { reason: "why".to_owned(), ..api::PodChange::default() }),
            nodes: vec![api::NodeChange { reason: "why".to_owned(), ..api::NodeChange::default() }],
            result: None,
        };
        assert_eq!(changed_parts(&reasons).next(), None);
    }
}
