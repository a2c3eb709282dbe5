//! What a hook changes about the pod.

use extender_policy_api::v1beta1 as api;

use super::{ChangedPart, amounts, reason};
use crate::{NodeAffinity, PodAffinity, Resources, Toleration, TopologySpreadConstraint};

/// What a hook changes about the pod of a call, as those after it are told of it. kube-scheduler and the cluster do not
/// see the change.
///
/// ```
/// use extender_policy_sdk::{PodChange, Resources};
///
/// let change = PodChange::none()
///     .set_node_selector("pool", "batch")
///     .add_requests(Resources { milli_cpu: 100, ..Resources::default() })
///     .reason("batch pods run beside an agent");
/// assert!(!change.is_none());
/// ```
///
/// What is removed is removed before something is added. The limits of the policy API hold for entries, keys and values.
#[derive(Clone, Debug, Default, PartialEq)]
#[must_use]
pub struct PodChange {
    message: api::PodChange,
}

impl PodChange {
    /// The pod stays as it is.
    pub fn none() -> Self {
        Self::default()
    }

    /// Adds or replaces a label.
    pub fn set_label(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.message.set_labels.insert(key.into(), value.into());
        self
    }

    /// Removes the label, if the pod has it.
    pub fn remove_label(mut self, key: impl Into<String>) -> Self {
        self.message.remove_labels.push(key.into());
        self
    }

    /// Adds or replaces an annotation.
    pub fn set_annotation(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.message.set_annotations.insert(key.into(), value.into());
        self
    }

    /// Removes the annotation, if the pod has it.
    pub fn remove_annotation(mut self, key: impl Into<String>) -> Self {
        self.message.remove_annotations.push(key.into());
        self
    }

    /// Adds or replaces an entry of the node selector.
    pub fn set_node_selector(mut self, key: impl Into<String>, value: impl Into<String>) -> Self {
        self.message.set_node_selector.insert(key.into(), value.into());
        self
    }

    /// Removes the entry of the node selector, if the pod has it.
    pub fn remove_node_selector(mut self, key: impl Into<String>) -> Self {
        self.message.remove_node_selector.push(key.into());
        self
    }

    /// Replaces the node affinity.
    pub fn set_node_affinity(mut self, affinity: NodeAffinity) -> Self {
        self.message.node_affinity = Some(affinity);
        self.message.remove_node_affinity = false;
        self
    }

    /// Removes the node affinity.
    pub fn remove_node_affinity(mut self) -> Self {
        self.message.node_affinity = None;
        self.message.remove_node_affinity = true;
        self
    }

    /// Replaces the pod affinity and anti-affinity; one without terms removes them.
    pub fn pod_affinity(mut self, affinity: PodAffinity) -> Self {
        self.message.pod_affinity = Some(affinity);
        self
    }

    /// Replaces all topology spread constraints; none removes them.
    pub fn topology_spread(
        mut self,
        constraints: impl IntoIterator<Item = TopologySpreadConstraint>,
    ) -> Self {
        let constraints = constraints.into_iter().collect();
        self.message.topology_spread = Some(api::TopologySpread { constraints });
        self
    }

    /// Adds a toleration behind the pod's.
    pub fn add_toleration(mut self, toleration: Toleration) -> Self {
        self.message.add_tolerations.push(toleration);
        self
    }

    /// Removes the tolerations that are equal to this one in all fields.
    pub fn remove_toleration(mut self, toleration: Toleration) -> Self {
        self.message.remove_tolerations.push(toleration);
        self
    }

    /// Adds to [`Pod::requests`](crate::Pod::requests), and CPU and memory to
    /// [`Pod::nonzero_requests`](crate::Pod::nonzero_requests). Amounts may be negative; the sum with the pod's is at least
    /// 0.
    pub fn add_requests(mut self, added: Resources) -> Self {
        self.message.add_requests = amounts::resources(self.message.add_requests, added);
        self
    }

    /// Why, for people: `explain` and the gateway's decision log show it. At most 200 bytes are kept.
    pub fn reason(mut self, text: impl Into<String>) -> Self {
        self.message.reason = reason(text);
        self
    }

    /// Whether it changes nothing.
    pub fn is_none(&self) -> bool {
        self.parts().next().is_none()
    }

    /// The parts that change.
    #[doc(hidden)]
    pub fn parts(&self) -> impl Iterator<Item = ChangedPart> {
        let api::PodChange {
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
        } = &self.message;
        let parts = [
            (ChangedPart::PodLabels, !set_labels.is_empty() || !remove_labels.is_empty()),
            (ChangedPart::PodNodeSelector, !set_node_selector.is_empty() || !remove_node_selector.is_empty()),
            (ChangedPart::PodNodeAffinity, node_affinity.is_some() || *remove_node_affinity),
            (ChangedPart::PodTolerations, !add_tolerations.is_empty() || !remove_tolerations.is_empty()),
            (ChangedPart::PodRequests, add_requests.is_some()),
            (ChangedPart::PodAnnotations, !set_annotations.is_empty() || !remove_annotations.is_empty()),
            (ChangedPart::PodAffinity, pod_affinity.is_some()),
            (ChangedPart::PodTopologySpread, topology_spread.is_some()),
        ];
        parts.into_iter().filter(|(_, changes)| *changes).map(|(part, _)| part)
    }

    /// For an answer; `None` if it changes nothing.
    #[doc(hidden)]
    pub fn into_message(self) -> Option<api::PodChange> {
        (!self.is_none()).then_some(self.message)
    }

    /// As an answer contains it.
    #[doc(hidden)]
    pub fn of(message: Option<api::PodChange>) -> Self {
        Self { message: message.unwrap_or_default() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_change_is_as_it_was_built() {
        let toleration = |key: &str| Toleration { key: key.into(), ..Toleration::default() };
        let cpu = |milli_cpu| Resources { milli_cpu, ..Resources::default() };
        let change = PodChange::none()
            .set_label("a", "1")
            .set_label("a", "2")
            .remove_label("b")
            .set_node_selector("c", "3")
            .remove_node_selector("d")
            .remove_node_affinity()
            .add_toleration(toleration("e"))
            .remove_toleration(toleration("f"))
            .add_requests(cpu(-5))
            .add_requests(cpu(7))
            .set_annotation("g", "4")
            .remove_annotation("h")
            .pod_affinity(PodAffinity::default())
            .topology_spread([TopologySpreadConstraint::default()])
            .reason("why");
        assert_eq!(change.parts().filter(|part| part.is_of_pod()).count(), 8);
        let expected = api::PodChange {
            set_labels: [("a".to_owned(), "2".to_owned())].into(),
            remove_labels: vec!["b".to_owned()],
            set_node_selector: [("c".to_owned(), "3".to_owned())].into(),
            remove_node_selector: vec!["d".to_owned()],
            node_affinity: None,
            remove_node_affinity: true,
            add_tolerations: vec![toleration("e")],
            remove_tolerations: vec![toleration("f")],
            add_requests: Some(cpu(2)),
            reason: "why".to_owned(),
            set_annotations: [("g".to_owned(), "4".to_owned())].into(),
            remove_annotations: vec!["h".to_owned()],
            pod_affinity: Some(PodAffinity::default()),
            topology_spread: Some(api::TopologySpread {
                constraints: vec![TopologySpreadConstraint::default()],
            }),
        };
        assert_eq!(change.into_message(), Some(expected));
    }

    #[test]
    fn the_last_word_about_the_node_affinity_counts() {
        let set = PodChange::none().remove_node_affinity().set_node_affinity(NodeAffinity::default());
        assert_eq!((set.message.node_affinity.is_some(), set.message.remove_node_affinity), (true, false));
        let removed = set.remove_node_affinity();
        assert_eq!(
            (removed.message.node_affinity.is_some(), removed.message.remove_node_affinity),
            (false, true)
        );
    }

    #[test]
    fn what_changes_nothing_is_none() {
        let nothing = PodChange::none().add_requests(Resources::default()).reason("for no reason");
        assert!(nothing.is_none());
        assert_eq!(nothing.into_message(), None);
        assert!(!PodChange::none().topology_spread([]).is_none(), "it removes those of the pod");
    }
}
