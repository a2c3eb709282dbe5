//! What a hook changes about a node.

use std::sync::Arc;

use extender_policy_api::v1beta1 as api;

use super::{ChangedPart, amounts, reason};
use crate::{HoldUser, NodeUsage, Resources, Taint};

/// What a hook changes about a node, as those after it are told of it. kube-scheduler and the cluster do not see the
/// change.
///
/// ```
/// use extender_policy_sdk::{NodeChange, Resources};
///
/// let change = NodeChange::none()
///     .add_allocatable(Resources { milli_cpu: -500, ..Resources::default() })
///     .add_taint("example.com/busy", "", "PreferNoSchedule")
///     .reason("an agent will start here");
/// assert!(!change.is_none());
/// ```
///
/// What is removed is removed before something is added. A clone costs a counter: build a change once for
/// all nodes that change alike. The limits of the policy API hold for a change and for all of a call together, where a
/// change of several nodes counts once.
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use]
pub struct NodeChange {
    /// Without positions; most nodes do not change.
    message: Option<Arc<api::NodeChange>>,
}

impl NodeChange {
    /// The node stays as it is.
    pub fn none() -> Self {
        Self::default()
    }

    /// Adds to [`Node::allocatable`](crate::Node::allocatable), if the node reports some. Amounts may be negative; the sum
    /// with the node's is at least 0.
    pub fn add_allocatable(self, added: Resources) -> Self {
        self.with(|change| {
            change.add_allocatable = amounts::resources(change.add_allocatable.take(), added);
        })
    }

    /// Adds to [`Node::usage`](crate::Node::usage). Amounts may be negative; the sum with the node's is at least 0.
    pub fn add_usage(self, added: NodeUsage) -> Self {
        self.with(|change| change.add_usage = amounts::usage(change.add_usage.take(), added))
    }

    /// Keeps room for pods: adds to [`Node::usage`](crate::Node::usage) what its users do not use there. The gateway does
    /// that with the usage of which it tells: when a user ends, its usage goes and what is kept for the next one comes at
    /// the same time, whenever this hook was called. A change of [`ChangedPart::NodeUsage`].
    ///
    /// ```
    /// use extender_policy_sdk::{HoldUser, NodeChange, Resources};
    ///
    /// let four = Resources { milli_cpu: 4_000, ..Resources::default() };
    /// let user = HoldUser { uid: "8a6f".to_owned(), at_most: None };
    /// assert!(!NodeChange::none().hold(four, [user]).is_none());
    /// ```
    ///
    /// No number is negative; `pods` is kept as long as something else is. Leave out
    /// users that are beyond the limits of the policy API, and more is kept.
    pub fn hold(self, resources: Resources, users: impl IntoIterator<Item = HoldUser>) -> Self {
        let hold = api::Hold { resources: Some(resources), users: users.into_iter().collect() };
        self.with(|change| change.holds.push(hold))
    }

    /// Adds or replaces a label.
    pub fn set_label(self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.with(|change| drop(change.set_labels.insert(key.into(), value.into())))
    }

    /// Removes the label, if the node has it.
    pub fn remove_label(self, key: impl Into<String>) -> Self {
        self.with(|change| change.remove_labels.push(key.into()))
    }

    /// Adds a taint behind the node's, whose effect is `NoSchedule`, `PreferNoSchedule` or `NoExecute`.
    pub fn add_taint(
        self,
        key: impl Into<String>,
        value: impl Into<String>,
        effect: impl Into<String>,
    ) -> Self {
        self.with(|change| change.add_taints.push(taint(key, value, effect)))
    }

    /// Removes the taints of this key and, unless they are empty, this value and this effect.
    pub fn remove_taint(
        self,
        key: impl Into<String>,
        value: impl Into<String>,
        effect: impl Into<String>,
    ) -> Self {
        self.with(|change| change.remove_taints.push(taint(key, value, effect)))
    }

    /// Why, for people: `explain` and the gateway's decision log show it. At most 200 bytes are kept.
    pub fn reason(self, text: impl Into<String>) -> Self {
        self.with(|change| change.reason = reason(text))
    }

    /// Whether it changes nothing.
    pub fn is_none(&self) -> bool {
        self.change().is_none()
    }

    /// What changes, without positions; `None` if nothing does.
    #[doc(hidden)]
    pub fn change(&self) -> Option<&api::NodeChange> {
        self.message.as_deref().filter(|_| self.parts().next().is_some())
    }

    /// The parts that change.
    #[doc(hidden)]
    pub fn parts(&self) -> impl Iterator<Item = ChangedPart> {
        self.message.as_deref().into_iter().flat_map(parts)
    }

    /// As an answer contains it.
    #[doc(hidden)]
    pub fn of(message: &api::NodeChange) -> Self {
        let message = api::NodeChange { positions: Vec::new(), ..message.clone() };
        Self { message: Some(Arc::new(message)) }
    }

    fn with(mut self, change: impl FnOnce(&mut api::NodeChange)) -> Self {
        change(Arc::make_mut(self.message.get_or_insert_default()));
        self
    }
}

/// The parts that change.
fn parts(change: &api::NodeChange) -> impl Iterator<Item = ChangedPart> {
    let api::NodeChange {
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
    let parts = [
        (ChangedPart::NodeLabels, !set_labels.is_empty() || !remove_labels.is_empty()),
        (ChangedPart::NodeTaints, !add_taints.is_empty() || !remove_taints.is_empty()),
        (ChangedPart::NodeAllocatable, add_allocatable.is_some()),
        (ChangedPart::NodeUsage, add_usage.is_some() || !holds.is_empty()),
    ];
    parts.into_iter().filter(|(_, changes)| *changes).map(|(part, _)| part)
}

fn taint(key: impl Into<String>, value: impl Into<String>, effect: impl Into<String>) -> Taint {
    Taint { key: key.into(), value: value.into(), effect: effect.into() }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_as_it_was_built() {
        let cpu = |milli_cpu| Resources { milli_cpu, ..Resources::default() };
        let usage = |milli_cpu| NodeUsage { requested: Some(cpu(milli_cpu)), nonzero: None };
        let built = NodeChange::none()
            .add_allocatable(cpu(1))
            .add_allocatable(cpu(2))
            .add_usage(usage(-3))
            .add_usage(usage(-4))
            .set_label("a", "1")
            .remove_label("b")
            .add_taint("c", "2", "NoSchedule")
            .remove_taint("d", "", "")
            .hold(cpu(5), [HoldUser { uid: "u".to_owned(), at_most: None }])
            .reason("why");
        let expected = api::NodeChange {
            positions: Vec::new(),
            add_allocatable: Some(cpu(3)),
            add_usage: Some(usage(-7)),
            set_labels: [("a".to_owned(), "1".to_owned())].into(),
            remove_labels: vec!["b".to_owned()],
            add_taints: vec![taint("c", "2", "NoSchedule")],
            remove_taints: vec![taint("d", "", "")],
            reason: "why".to_owned(),
            holds: vec![api::Hold {
                resources: Some(cpu(5)),
                users: vec![HoldUser { uid: "u".to_owned(), at_most: None }],
            }],
        };
        assert_eq!(built.change(), Some(&expected));
        assert_eq!(parts(&expected).filter(|part| !part.is_of_pod()).count(), 4);
    }

    #[test]
    fn what_changes_nothing_is_none() {
        assert!(NodeChange::none().is_none());
        assert!(!NodeChange::none().hold(Resources::default(), []).is_none());
        assert!(NodeChange::none().add_allocatable(Resources::default()).reason("for no reason").is_none());
    }

    #[test]
    fn a_clone_changes_on_its_own() {
        let one = NodeChange::none().set_label("a", "1");
        let other = one.clone().set_label("a", "2");
        assert_ne!(one, other);
        assert_eq!(one, NodeChange::none().set_label("a", "1"));
    }
}
