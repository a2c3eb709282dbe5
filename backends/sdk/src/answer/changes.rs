//! Checks the changes that a policy returned, and groups those of nodes: the contract wants one entry for each change,
//! not one for each node.

use std::collections::{BTreeSet, HashMap};

use extender_policy_api::v1alpha1 as api;
use foldhash::fast::RandomState;
use prost::Message;

use super::{counted, question::Question};
use crate::{
    Change, NodeChange, PodChange,
    change::limits::{self, Counted, WrongChange},
    error::CallError,
    info::{declaration::Terms, hook::Before},
};

/// The checks of one answer.
pub(super) struct Check<'a> {
    method: &'static str,
    declared: &'a BTreeSet<Change>,
    /// Of all changes so far.
    counted: Counted,
}

impl<'a> Check<'a> {
    /// Of an answer of this hook.
    pub(super) fn of(before: Before, terms: &'a Terms) -> Self {
        Self { method: before.name(), declared: terms.changes(), counted: Counted::default() }
    }

    /// The change of the pod, if there is one.
    pub(super) fn pod(&mut self, change: PodChange) -> Result<Option<api::PodChange>, CallError> {
        let checked = limits::check_pod(&change, self.declared);
        self.counted.entries += checked.map_err(|source| self.wrong(source))?;
        Ok(change.into_message())
    }

    /// The nodes that change, in the order of the first node of each change.
    pub(super) fn nodes(
        &mut self,
        changes: Vec<NodeChange>,
        question: &Question<'_>,
    ) -> Result<Vec<api::NodeChange>, CallError> {
        if changes.is_empty() && self.declared.iter().all(|part| part.is_of_pod()) {
            return Ok(Vec::new());
        }
        let groups = groups(&counted(self.method, changes, question)?);
        for change in &groups {
            let checked = limits::check_node(change, self.declared);
            let Counted { entries, users } = checked.map_err(|source| {
                let position = change.positions.first().copied().unwrap_or_default();
                CallError::WrongNodeChange { method: self.method, position, source }
            })?;
            self.counted.entries += entries;
            self.counted.users += users;
        }
        Ok(groups)
    }

    /// Checks the size of the whole answer, about the pod alone or this many nodes.
    pub(super) fn size(self, answer: &impl Message, nodes: Option<u32>) -> Result<(), CallError> {
        let (most, most_bytes) = match nodes {
            None => (usize::MAX, 128 << 10),
            Some(nodes) => (4096 + 4 * len(nodes), (64 << 10) + (len(nodes) << 10)),
        };
        let Counted { entries, users } = self.counted;
        if entries > most {
            return Err(self.wrong(WrongChange::AllEntries { entries, most }));
        }
        limits::check_users(users, nodes.map_or(0, len)).map_err(|source| self.wrong(source))?;
        let bytes = answer.encoded_len();
        if bytes > most_bytes {
            return Err(self.wrong(WrongChange::Bytes { bytes, most: most_bytes }));
        }
        Ok(())
    }

    fn wrong(&self, source: WrongChange) -> CallError {
        CallError::WrongChange { method: self.method, source }
    }
}

/// A number of nodes that are in memory.
fn len(nodes: u32) -> usize {
    usize::try_from(nodes).unwrap_or(usize::MAX >> 10)
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
