//! Groups the changes of nodes that a policy returned: the contract wants one entry for each change, not one for each node.
//! The gateway, and policy-conformance, judge what they have.

use std::collections::HashMap;

use extender_policy_api::v1beta1 as api;
use foldhash::fast::RandomState;
use prost::Message;

use super::{counted, question::Question};
use crate::{NodeChange, error::CallError, info::declaration::Terms};

/// The nodes that change, in the order of the first node of each change. No changes at all: no node does, if the hook changes
/// the pod alone.
pub(super) fn of_nodes(
    method: &'static str,
    changes: Vec<NodeChange>,
    question: &Question<'_>,
    terms: &Terms,
) -> Result<Vec<api::NodeChange>, CallError> {
    if changes.is_empty() && terms.changes().iter().all(|part| part.is_of_pod()) {
        return Ok(Vec::new());
    }
    Ok(groups(&counted(method, changes, question)?))
}

/// Equal changes with the positions of their nodes, in the order of their first node.
fn groups(changes: &[NodeChange]) -> Vec<api::NodeChange> {
    let mut groups: Vec<api::NodeChange> = Vec::new();
    // By their bytes: maps are ordered, so equal changes have equal ones.
    let mut known: HashMap<Vec<u8>, usize, RandomState> = HashMap::default();
    let mut encoded = Vec::new();
    for (position, change) in (0..).zip(changes) {
        let Some(change) = change.change() else { continue };
        encoded.clear();
        change.encode_raw(&mut encoded);
        let group = known.get(&encoded).copied().unwrap_or_else(|| {
            known.insert(encoded.clone(), groups.len());
            groups.push(change.clone());
            groups.len() - 1
        });
        groups[group].positions.push(position);
    }
    groups
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn change() -> impl Strategy<Value = NodeChange> {
        let cpu = |milli_cpu| crate::Resources { milli_cpu, ..crate::Resources::default() };
        prop_oneof![
            Just(NodeChange::none()),
            Just(NodeChange::none().reason("for no reason")),
            (0..3_u8).prop_map(|value| NodeChange::none().set_label("zone", value.to_string())),
            (0..3_i64, 0..2_u8).prop_map(move |(amount, reason)| {
                NodeChange::none().add_allocatable(cpu(amount)).reason(format!("reason {reason}"))
            }),
        ]
    }

    /// The changes that the gateway would read from the answer.
    fn read_back(groups: &[api::NodeChange], count: usize) -> Vec<NodeChange> {
        let mut changes = vec![NodeChange::none(); count];
        for group in groups {
            for &position in &group.positions {
                let place = &mut changes[usize::try_from(position).unwrap()];
                assert!(place.is_none(), "position {position} twice");
                *place = NodeChange::of(group);
            }
        }
        changes
    }

    proptest! {
        #[test]
        fn nothing_is_lost_and_no_change_comes_twice(changes in prop::collection::vec(change(), 0..60)) {
            let groups = groups(&changes);
            let none = |change: NodeChange| if change.is_none() { NodeChange::none() } else { change };
            let changed: Vec<_> = changes.into_iter().map(none).collect();
            prop_assert_eq!(read_back(&groups, changed.len()), changed);
            let first: Vec<_> = groups.iter().map(|group| group.positions[0]).collect();
            prop_assert!(first.is_sorted());
            for (at, group) in groups.iter().enumerate() {
                let equal = |other: &api::NodeChange| NodeChange::of(other) == NodeChange::of(group);
                prop_assert!(!groups[..at].iter().any(equal), "{group:?} twice");
            }
        }
    }
}
