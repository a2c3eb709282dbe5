//! Responses of hooks, checked against the API before their changes are used.

use std::{collections::BTreeMap, sync::Arc};

use bytes::Bytes;
use extender_gateway_core::BackendFailure;
use extender_policy_api::limits::{
    AFFINITY_BYTES, AFFINITY_ENTRIES, CHANGE_ENTRIES, CHANGE_REASON_BYTES, CHANGE_USERS, CHANGE_VALUE_BYTES,
    KEY_BYTES, NODE_ENTRIES, NODE_USERS, RESPONSE_ENTRIES, RESPONSE_USERS, USER_UID_BYTES,
};
use extender_policy_api::v1beta1::{ChangedPart, Hold, NodeChange, NodeUsage, PodChange, Resources};
use prost::Message;

use super::{
    answer::{Answered, Outcome, Reply, check_positions, cut, evaluated, largest_answer},
    change::{ChangedParts, part_in_words, parts_of_node, parts_of_pod},
    protobuf::{count_numbers, decoded, fields, malformed},
};

/// What a hook changes.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct Changes {
    /// The change of the pod.
    pub pod: Option<Arc<PodChange>>,
    /// The changes of nodes, each node at most once.
    pub nodes: Vec<ChangedNodes>,
}

/// Nodes that change alike.
#[derive(Debug, Clone, PartialEq)]
pub struct ChangedNodes {
    /// Their positions in the request.
    pub positions: Vec<u32>,
    /// The change, without positions.
    pub change: Arc<NodeChange>,
}

impl Changes {
    /// The number of nodes that change.
    pub fn changed_nodes(&self) -> usize {
        self.nodes.iter().map(|changed| changed.positions.len()).sum()
    }
}

/// `ChangeResponse`, and the responses of the hooks of v1alpha1.
#[derive(prost::Message)]
struct ChangeBody {
    #[prost(message, optional, tag = "1")]
    result: Option<Outcome>,
    #[prost(message, optional, tag = "2")]
    pod: Option<PodChange>,
    #[prost(message, repeated, tag = "3")]
    nodes: Vec<NodeChange>,
}

/// Reads the response of a hook about `count` nodes, or of `BeforeFilter`, which is about the pod alone: 1.
///
/// # Errors
/// [`Malformed`](extender_gateway_core::FailureKind::Malformed) with the cause: not protobuf, no result, a wrong count, a
/// position that is out of range or changed twice, a change that is not allowed or exceeds the limits.
pub fn changes(
    message: Bytes,
    count: u32,
    allowed: ChangedParts,
) -> Result<Reply<Answered<Changes>>, BackendFailure> {
    check_size(&message, count)?;
    let ChangeBody { result, pod, nodes } = decoded(message)?;
    let Reply::Answered(revision) = evaluated(result, count)? else { return Ok(Reply::Missed) };
    check_positions(nodes.iter().flat_map(|change| &change.positions), count, "changed")?;
    let pod = pod.map(|change| read_pod(change, allowed)).transpose()?;
    let nodes = nodes.into_iter().map(|change| read_nodes(change, allowed)).collect::<Result<Vec<_>, _>>()?;
    check_spread(&nodes, count)?;
    // What has no part changes nothing.
    let is_change = |changed: &ChangedNodes| parts_of_node(&changed.change).next().is_some();
    let nodes = nodes.into_iter().filter(is_change).collect();
    let value = Changes { pod: pod.flatten(), nodes };
    Ok(Reply::Answered(Answered { value, revision }))
}

/// Reads the response of `BeforeFilter`. What it says of nodes is ignored, like every unknown field.
///
/// # Errors
/// As for [`changes`]; also a miss, since there are no nodes.
pub fn pod_change(message: Bytes, allowed: ChangedParts) -> Result<Answered<Changes>, BackendFailure> {
    match changes(message, 1, allowed)? {
        Reply::Answered(Answered { value: Changes { pod, .. }, revision }) => {
            Ok(Answered { value: Changes { pod, nodes: Vec::new() }, revision })
        }
        Reply::Missed => Err(malformed("the response is a miss, and there are no nodes")),
    }
}

fn read_pod(mut change: PodChange, allowed: ChangedParts) -> Result<Option<Arc<PodChange>>, BackendFailure> {
    check_allowed(allowed, parts_of_pod(&change))?;
    check_pod(&change)?;
    change.reason = cut(change.reason, CHANGE_REASON_BYTES);
    let is_change = parts_of_pod(&change).next().is_some();
    Ok(is_change.then(|| Arc::new(change)))
}

fn read_nodes(mut change: NodeChange, allowed: ChangedParts) -> Result<ChangedNodes, BackendFailure> {
    check_allowed(allowed, parts_of_node(&change))?;
    check_node(&change)?;
    change.reason = cut(change.reason, CHANGE_REASON_BYTES);
    let positions = std::mem::take(&mut change.positions);
    Ok(ChangedNodes { positions, change: Arc::new(change) })
}

fn check_allowed(
    allowed: ChangedParts,
    parts: impl Iterator<Item = ChangedPart>,
) -> Result<(), BackendFailure> {
    match allowed.lacks(parts) {
        None => Ok(()),
        Some(part) => Err(malformed(format!(
            "it changes {}, which it does not declare; add that to the hook's changes in the handshake",
            part_in_words(part)
        ))),
    }
}

/// Rejects a response that is larger when decoded than one about `count` nodes can be.
fn check_size(message: &[u8], count: u32) -> Result<(), BackendFailure> {
    const POD: u32 = 2;
    const NODES: u32 = 3;
    let most = RESPONSE_ENTRIES + NODE_ENTRIES * count as usize;
    let most_users = RESPONSE_USERS + NODE_USERS * count as usize;
    let (mut pods, mut entries, mut users, mut changes, mut positions) = (0, 0_usize, 0, 0_usize, 0);
    for field in fields(message) {
        let (field, Some(content)) = field? else { continue };
        entries += match field {
            POD => {
                pods += 1;
                few(entries_of(content, &ENTRIES_OF_POD)?, CHANGE_ENTRIES, "entries")?
            }
            NODES => {
                changes += 1;
                positions += named(content, count)?;
                users += few(entries_of(content, &USERS)?, CHANGE_USERS, "users of holds")?;
                few(entries_of(content, &ENTRIES_OF_NODES)?, CHANGE_ENTRIES, "entries")?
            }
            _ => 0,
        };
        // Two of them would be joined, and so exceed the limits of one.
        if pods > 1 {
            return Err(malformed("the pod is changed twice"));
        }
        if changes > count as usize {
            return Err(malformed(format!("{changes} changes of {count} nodes")));
        }
        if positions > count as usize {
            return Err(malformed(format!("more positions than {count} nodes")));
        }
        if entries > most {
            return Err(malformed(format!("all changes together have more than {most} entries")));
        }
        if users > most_users {
            return Err(malformed(format!("all holds together have more than {most_users} users")));
        }
    }
    Ok(())
}

/// The number of positions that a change names, one at least.
fn named(change: &[u8], count: u32) -> Result<usize, BackendFailure> {
    const POSITIONS: u32 = 1;
    match count_numbers(change, POSITIONS, count as usize)? {
        0 => Err(malformed("a change names no position")),
        named => Ok(named),
    }
}

/// A change is written into the row of each of its nodes: a small response must not become large there.
fn check_spread(changes: &[ChangedNodes], count: u32) -> Result<(), BackendFailure> {
    let written = changes
        .iter()
        .map(|ChangedNodes { positions, change }| change.encoded_len().saturating_mul(positions.len()));
    let (written, most) = (written.fold(0, usize::saturating_add), largest_answer(count));
    if written > most {
        let text = format!("changes of all nodes together have {written} bytes, at most {most} are accepted");
        return Err(malformed(text));
    }
    Ok(())
}

/// What is counted in a message.
enum Entries {
    /// Each occurrence of this field.
    Each(u32),
    /// In messages at this field, what is counted there.
    In(u32, &'static [Entries]),
    /// Each message at this field, and what is counted in it.
    List(u32, &'static [Entries]),
    /// None: what is at this field, which has this name, has limits of its own: [`AFFINITY_BYTES`], and [`AFFINITY_ENTRIES`] of
    /// what is counted there.
    Apart(u32, &'static str, &'static [Entries]),
}

/// `Resources.others`.
const RESOURCES: [Entries; 1] = [Entries::Each(5)];
const ENTRIES_OF_POD: [Entries; 12] = [
    Entries::Each(1),
    Entries::Each(2),
    Entries::Each(3),
    Entries::Each(4),
    Entries::Each(7),
    Entries::Each(8),
    Entries::In(9, &RESOURCES),
    Entries::Apart(5, "node affinity", &NODE_AFFINITY),
    Entries::Each(11),
    Entries::Each(12),
    Entries::Apart(13, "pod affinity", &POD_AFFINITY),
    Entries::Apart(14, "topology spread", &TOPOLOGY_SPREAD),
];
/// `NodeSelectorRequirement.values`.
const VALUES: [Entries; 1] = [Entries::Each(3)];
const NODE_SELECTOR_TERM: [Entries; 2] = [Entries::List(1, &VALUES), Entries::List(2, &VALUES)];
const NODE_AFFINITY: [Entries; 2] = [
    Entries::In(1, &[Entries::List(1, &NODE_SELECTOR_TERM)]),
    Entries::List(2, &[Entries::In(2, &NODE_SELECTOR_TERM)]),
];
const LABEL_SELECTOR: [Entries; 2] = [Entries::Each(1), Entries::List(2, &VALUES)];
const POD_AFFINITY_TERM: [Entries; 5] = [
    Entries::In(1, &LABEL_SELECTOR),
    Entries::Each(2),
    Entries::In(3, &LABEL_SELECTOR),
    Entries::Each(5),
    Entries::Each(6),
];
const WEIGHTED_POD_AFFINITY_TERM: [Entries; 1] = [Entries::In(2, &POD_AFFINITY_TERM)];
const POD_AFFINITY: [Entries; 4] = [
    Entries::List(1, &POD_AFFINITY_TERM),
    Entries::List(2, &WEIGHTED_POD_AFFINITY_TERM),
    Entries::List(3, &POD_AFFINITY_TERM),
    Entries::List(4, &WEIGHTED_POD_AFFINITY_TERM),
];
const TOPOLOGY_SPREAD: [Entries; 1] =
    [Entries::List(1, &[Entries::In(4, &LABEL_SELECTOR), Entries::Each(8)])];
const ENTRIES_OF_NODES: [Entries; 8] = [
    Entries::Each(4),
    Entries::Each(5),
    Entries::Each(6),
    Entries::Each(7),
    Entries::In(2, &RESOURCES),
    Entries::In(3, &[Entries::In(1, &RESOURCES)]),
    Entries::Each(9),
    Entries::In(9, &[Entries::In(1, &RESOURCES)]),
];
/// The users of holds, and the other resources that they use at most.
const USERS: [Entries; 1] =
    [Entries::In(9, &[Entries::Each(2), Entries::In(2, &[Entries::In(2, &RESOURCES)])])];

/// The number of entries of a change.
fn entries_of(change: &[u8], counted: &[Entries]) -> Result<usize, BackendFailure> {
    let mut entries = 0;
    let mut apart = BTreeMap::new();
    for field in fields(change) {
        let (field, Some(content)) = field? else { continue };
        for rule in counted {
            entries += match rule {
                Entries::Each(each) if *each == field => 1,
                Entries::In(at, inner) if *at == field => entries_of(content, inner)?,
                Entries::List(at, inner) if *at == field => 1 + entries_of(content, inner)?,
                Entries::Apart(at, what, inner) if *at == field => {
                    // Several are joined.
                    check_apart(apart.entry(field).or_default(), content, what, inner)?;
                    0
                }
                _ => 0,
            };
        }
    }
    Ok(entries)
}

/// The bytes and entries of what has limits of its own.
#[derive(Default)]
struct Apart {
    bytes: usize,
    entries: usize,
}

fn check_apart(
    before: &mut Apart,
    content: &[u8],
    what: &str,
    counted: &[Entries],
) -> Result<(), BackendFailure> {
    before.bytes += content.len();
    if before.bytes > AFFINITY_BYTES {
        return Err(malformed(format!("a {what} has more than {AFFINITY_BYTES} bytes")));
    }
    before.entries += entries_of(content, counted)?;
    if before.entries > AFFINITY_ENTRIES {
        return Err(malformed(format!(
            "a {what} has {} entries, at most {AFFINITY_ENTRIES} are accepted",
            before.entries
        )));
    }
    Ok(())
}

fn few(counted: usize, most: usize, what: &str) -> Result<usize, BackendFailure> {
    if counted <= most {
        return Ok(counted);
    }
    Err(malformed(format!("a change has more than {most} {what}")))
}

fn check_pod(change: &PodChange) -> Result<(), BackendFailure> {
    let PodChange {
        set_labels, set_node_selector, set_annotations, node_affinity, remove_node_affinity, ..
    } = change;
    if node_affinity.is_some() && *remove_node_affinity {
        return Err(malformed("a change sets and removes the node affinity"));
    }
    let tolerations = change.add_tolerations.iter().chain(&change.remove_tolerations);
    let maps = || [set_labels, set_node_selector, set_annotations].into_iter();
    let keys = [&change.remove_labels, &change.remove_node_selector, &change.remove_annotations].into_iter();
    let keys = keys.flatten().chain(maps().flat_map(BTreeMap::keys));
    check_keys(keys.chain(change.add_requests.iter().flat_map(|added| added.others.keys())))?;
    let values = maps().flat_map(BTreeMap::values);
    let values = values.chain(tolerations.clone().flat_map(|it| [&it.operator, &it.value, &it.effect]));
    check_values(values)?;
    // An empty key of a toleration means every key.
    check_keys(tolerations.map(|it| &it.key).filter(|key| !key.is_empty()))
}

fn check_node(change: &NodeChange) -> Result<(), BackendFailure> {
    let taints = change.add_taints.iter().chain(&change.remove_taints);
    let used = change.add_usage.as_ref().and_then(|NodeUsage { requested, .. }| requested.as_ref());
    let held = change.holds.iter().flat_map(|hold| &hold.resources);
    let amounts = change.add_allocatable.iter().chain(used).chain(held);
    let resources = amounts.flat_map(|Resources { others, .. }| others.keys());
    let keys = change.remove_labels.iter().chain(change.set_labels.keys()).chain(resources);
    check_keys(keys.chain(taints.clone().map(|taint| &taint.key)))?;
    if change.add_taints.iter().any(|taint| taint.effect.is_empty()) {
        return Err(malformed("a change adds a taint without an effect"));
    }
    check_values(change.set_labels.values().chain(taints.flat_map(|taint| [&taint.value, &taint.effect])))?;
    change.holds.iter().try_for_each(check_hold)
}

fn check_hold(hold: &Hold) -> Result<(), BackendFailure> {
    let Some(resources) = &hold.resources else { return Err(malformed("a hold has no resources")) };
    if let Some(user) = hold.users.iter().find(|user| !(1..=USER_UID_BYTES).contains(&user.uid.len())) {
        let bytes = user.uid.len();
        return Err(malformed(format!(
            "the user of a hold has a UID of {bytes} bytes; expected 1 to {USER_UID_BYTES}"
        )));
    }
    let at_most = hold.users.iter().flat_map(|user| &user.at_most);
    if at_most.chain([resources]).any(is_negative) {
        return Err(malformed("a hold has a negative number"));
    }
    Ok(())
}

fn is_negative(resources: &Resources) -> bool {
    let Resources { milli_cpu, memory, ephemeral_storage, pods, others } = resources;
    [milli_cpu, memory, ephemeral_storage, pods].into_iter().chain(others.values()).any(|amount| *amount < 0)
}

fn check_keys<'k>(mut keys: impl Iterator<Item = &'k String>) -> Result<(), BackendFailure> {
    match keys.find(|key| !(1..=KEY_BYTES).contains(&key.len())) {
        None => Ok(()),
        Some(key) if key.is_empty() => Err(malformed("a change has an empty key")),
        Some(key) => Err(malformed(format!(
            "a change has a key of {} bytes, at most {KEY_BYTES} are accepted",
            key.len()
        ))),
    }
}

fn check_values<'v>(mut values: impl Iterator<Item = &'v String>) -> Result<(), BackendFailure> {
    match values.find(|value| value.len() > CHANGE_VALUE_BYTES) {
        None => Ok(()),
        Some(value) => Err(malformed(format!(
            "a change has a value of {} bytes, at most {CHANGE_VALUE_BYTES} are accepted",
            value.len()
        ))),
    }
}

#[cfg(test)]
mod tests;
