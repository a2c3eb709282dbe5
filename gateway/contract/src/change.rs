//! What hooks change, applied to pods and nodes as a backend is told about them: a change of something that a view does not
//! contain changes nothing in it.

mod hold;
mod words;

use std::collections::BTreeMap;

use bytes::Bytes;
use extender_policy_api::v1beta1::{
    ChangedPart, MapValues, NodeChange, NodeFacts, NodePart, NodeRow, NodeUsage, NonZero, PodAffinity,
    PodChange, PodFacts, PodPart, Resources, Taint,
};

pub use self::{
    hold::{UserRequests, with_holds_added},
    words::{node_in_words, pod_in_words},
};
use extender_gateway_object::view::{MapView, PodFactsView, Selected};

use super::row::{RowView, decoded, encoded};

/// The parts that a hook declares as changeable.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub struct ChangedParts(u32);

impl ChangedParts {
    /// These parts.
    pub fn new(parts: impl IntoIterator<Item = ChangedPart>) -> Self {
        Self(parts.into_iter().fold(0, |parts, part| parts | 1 << part as i32))
    }

    /// Whether this part is among them.
    pub fn has(self, part: ChangedPart) -> bool {
        self.0 & 1 << part as i32 != 0
    }

    /// The first of these parts that is not among them.
    pub fn lacks(self, mut parts: impl Iterator<Item = ChangedPart>) -> Option<ChangedPart> {
        parts.find(|part| !self.has(*part))
    }
}

/// A part in words, such as `node taints`.
pub fn part_in_words(part: ChangedPart) -> String {
    let name = part.as_str_name();
    name.strip_prefix("CHANGED_PART_").unwrap_or(name).to_ascii_lowercase().replace('_', " ")
}

/// Whether a part is one of the pod.
pub fn is_of_pod(part: ChangedPart) -> bool {
    match part {
        ChangedPart::PodLabels
        | ChangedPart::PodNodeSelector
        | ChangedPart::PodNodeAffinity
        | ChangedPart::PodTolerations
        | ChangedPart::PodRequests
        | ChangedPart::PodAnnotations
        | ChangedPart::PodAffinity
        | ChangedPart::PodTopologySpread => true,
        ChangedPart::Unspecified
        | ChangedPart::NodeLabels
        | ChangedPart::NodeTaints
        | ChangedPart::NodeAllocatable
        | ChangedPart::NodeUsage => false,
    }
}

/// What a change of a pod is about.
pub fn parts_of_pod(change: &PodChange) -> impl Iterator<Item = ChangedPart> {
    let PodChange {
        set_labels,
        remove_labels,
        set_node_selector,
        remove_node_selector,
        node_affinity,
        remove_node_affinity,
        add_tolerations,
        remove_tolerations,
        add_requests,
        reason: _,
        set_annotations,
        remove_annotations,
        pod_affinity,
        topology_spread,
    } = change;
    changed([
        (ChangedPart::PodLabels, !set_labels.is_empty() || !remove_labels.is_empty()),
        (ChangedPart::PodNodeSelector, !set_node_selector.is_empty() || !remove_node_selector.is_empty()),
        (ChangedPart::PodNodeAffinity, node_affinity.is_some() || *remove_node_affinity),
        (ChangedPart::PodTolerations, !add_tolerations.is_empty() || !remove_tolerations.is_empty()),
        (ChangedPart::PodRequests, add_requests.is_some()),
        (ChangedPart::PodAnnotations, !set_annotations.is_empty() || !remove_annotations.is_empty()),
        (ChangedPart::PodAffinity, pod_affinity.is_some()),
        (ChangedPart::PodTopologySpread, topology_spread.is_some()),
    ])
}

/// What a change of nodes is about.
pub fn parts_of_node(change: &NodeChange) -> impl Iterator<Item = ChangedPart> {
    let NodeChange {
        positions: _,
        add_allocatable,
        add_usage,
        set_labels,
        remove_labels,
        add_taints,
        remove_taints,
        reason: _,
        holds,
    } = change;
    changed([
        (ChangedPart::NodeLabels, !set_labels.is_empty() || !remove_labels.is_empty()),
        (ChangedPart::NodeTaints, !add_taints.is_empty() || !remove_taints.is_empty()),
        (ChangedPart::NodeAllocatable, add_allocatable.is_some()),
        (ChangedPart::NodeUsage, add_usage.is_some() || !holds.is_empty()),
    ])
}

fn changed<const N: usize>(parts: [(ChangedPart, bool); N]) -> impl Iterator<Item = ChangedPart> {
    parts.into_iter().filter(|(_, is_changed)| *is_changed).map(|(part, _)| part)
}

/// Changes the facts about a pod in a view.
pub fn change_pod(facts: &mut PodFacts, view: &PodFactsView, change: &PodChange) {
    change_map(&mut facts.labels, &view.labels, &change.set_labels, &change.remove_labels);
    let (set, removed) = (&change.set_annotations, &change.remove_annotations);
    change_map(&mut facts.annotations, &view.annotations, set, removed);
    if view.has(PodPart::NodeSelector) {
        change.remove_node_selector.iter().for_each(|key| drop(facts.node_selector.remove(key)));
        facts.node_selector.extend(change.set_node_selector.clone());
    }
    if view.has(PodPart::NodeAffinity) && (change.remove_node_affinity || change.node_affinity.is_some()) {
        facts.node_affinity.clone_from(&change.node_affinity);
    }
    if view.has(PodPart::Tolerations) {
        facts.tolerations.retain(|toleration| !change.remove_tolerations.contains(toleration));
        facts.tolerations.extend_from_slice(&change.add_tolerations);
    }
    if let Some(affinity) = change.pod_affinity.as_ref().filter(|_| view.has(PodPart::PodAffinity)) {
        // Without terms, as in objects.
        facts.pod_affinity = Some(affinity.clone()).filter(|affinity| *affinity != PodAffinity::default());
    }
    if let Some(spread) = change.topology_spread.as_ref().filter(|_| view.has(PodPart::TopologySpread)) {
        facts.topology_spread.clone_from(&spread.constraints);
    }
    if let Some(added) = &change.add_requests {
        facts.requests.iter_mut().for_each(|requests| add(requests, added));
        let added = NonZero { milli_cpu: added.milli_cpu, memory: added.memory };
        facts.nonzero_requests.iter_mut().for_each(|requests| add_nonzero(requests, &added));
    }
}

/// The row of a node after these changes, one after the other; `None` if the view does not show them. `entry` is the row as
/// the gateway encoded it. The holds of the changes are [added](with_holds_added) already.
///
/// # Panics
/// `entry` is not the gateway's own encoding.
pub fn changed_row<'c>(
    entry: &Bytes,
    view: &RowView,
    changes: impl Iterator<Item = &'c NodeChange>,
) -> Option<Bytes> {
    let mut row = decoded(entry);
    for change in changes {
        change_row(&mut row, view, change);
    }
    let encoded = encoded(&row);
    // Equal rows have equal bytes.
    (encoded != *entry).then_some(encoded)
}

fn change_row(row: &mut NodeRow, view: &RowView, change: &NodeChange) {
    if let (Some(facts), Some(view)) = (&mut row.facts, view.facts()) {
        change_facts(facts, &view.labels, change);
        if view.has(NodePart::Taints) {
            facts.taints.retain(|taint| !change.remove_taints.iter().any(|removed| is_meant(removed, taint)));
            facts.taints.extend_from_slice(&change.add_taints);
        }
    }
    if let Some((usage, added)) = row.usage.as_mut().zip(change.add_usage.as_ref()) {
        add_usage(usage, added);
    }
}

fn change_facts(facts: &mut NodeFacts, view: &MapView, change: &NodeChange) {
    change_map(&mut facts.labels, view, &change.set_labels, &change.remove_labels);
    let allocatable = &mut facts.allocatable;
    // Absent: the node has not reported any, or the view has none.
    if let Some((allocatable, added)) = allocatable.as_mut().zip(change.add_allocatable.as_ref()) {
        add(allocatable, added);
    }
}

/// Whether a taint is one of those that a change removes.
fn is_meant(removed: &Taint, taint: &Taint) -> bool {
    let is_same = |removed: &str, here: &str| removed.is_empty() || removed == here;
    removed.key == taint.key
        && is_same(&removed.value, &taint.value)
        && is_same(&removed.effect, &taint.effect)
}

fn add_usage(usage: &mut NodeUsage, added: &NodeUsage) {
    if let Some(added) = &added.requested {
        add(usage.requested.get_or_insert_default(), added);
    }
    if let Some(added) = &added.nonzero {
        add_nonzero(usage.nonzero.get_or_insert_default(), added);
    }
}

fn add_nonzero(amounts: &mut NonZero, added: &NonZero) {
    amounts.milli_cpu = sum(amounts.milli_cpu, added.milli_cpu);
    amounts.memory = sum(amounts.memory, added.memory);
}

fn add(amounts: &mut Resources, added: &Resources) {
    let Resources { milli_cpu, memory, ephemeral_storage, pods, others } = added;
    amounts.milli_cpu = sum(amounts.milli_cpu, *milli_cpu);
    amounts.memory = sum(amounts.memory, *memory);
    amounts.ephemeral_storage = sum(amounts.ephemeral_storage, *ephemeral_storage);
    amounts.pods = sum(amounts.pods, *pods);
    for (name, added) in others {
        let amount = amounts.others.entry(name.clone()).or_default();
        *amount = sum(*amount, *added);
    }
}

fn sum(amount: i64, added: i64) -> i64 {
    amount.saturating_add(added).max(0)
}

/// Changes the labels or annotations of an object in a view.
fn change_map(
    map: &mut Option<MapValues>,
    view: &MapView,
    set: &BTreeMap<String, String>,
    removed: &[String],
) {
    let mut changed = map.take().unwrap_or_default();
    let MapValues { values, absent, entries } = &mut changed;
    for key in removed {
        match view.find(key) {
            Some(Selected::Entry) => drop(entries.remove(key)),
            Some(Selected::Value(place)) => {
                values[place].clear();
                let place = number(place);
                if let Err(at) = absent.binary_search(&place) {
                    absent.insert(at, place);
                }
            }
            None => {}
        }
    }
    for (key, value) in set {
        match view.find(key) {
            Some(Selected::Entry) => drop(entries.insert(key.clone(), value.clone())),
            Some(Selected::Value(place)) => {
                values[place].clone_from(value);
                absent.retain(|absent| *absent != number(place));
            }
            None => {}
        }
    }
    *map = (changed != MapValues::default()).then_some(changed);
}

fn number(place: usize) -> u32 {
    u32::try_from(place).expect("a view has at most 1,000 keys")
}

#[cfg(test)]
mod tests;
