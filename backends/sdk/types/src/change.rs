//! What hooks change: [`pod`] and [`node`] are the changes that a policy returns, [`amounts`] adds up resources,
//! This file: the parts that a hook declares.

mod amounts;
mod node;
mod pod;

use extender_policy_api::{limits::CHANGE_REASON_BYTES, v1beta1 as api};

pub use self::{node::NodeChange, pod::PodChange};

/// A part of pods or nodes that a [`Hook`](crate::Hook) may change.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ChangedPart {
    /// [`PodChange::set_label`] and [`PodChange::remove_label`].
    PodLabels = api::ChangedPart::PodLabels as isize,
    /// [`PodChange::set_node_selector`] and [`PodChange::remove_node_selector`].
    PodNodeSelector = api::ChangedPart::PodNodeSelector as isize,
    /// [`PodChange::set_node_affinity`] and [`PodChange::remove_node_affinity`].
    PodNodeAffinity = api::ChangedPart::PodNodeAffinity as isize,
    /// [`PodChange::add_toleration`] and [`PodChange::remove_toleration`].
    PodTolerations = api::ChangedPart::PodTolerations as isize,
    /// [`PodChange::add_requests`].
    PodRequests = api::ChangedPart::PodRequests as isize,
    /// [`NodeChange::set_label`] and [`NodeChange::remove_label`].
    NodeLabels = api::ChangedPart::NodeLabels as isize,
    /// [`NodeChange::add_taint`] and [`NodeChange::remove_taint`].
    NodeTaints = api::ChangedPart::NodeTaints as isize,
    /// [`NodeChange::add_allocatable`].
    NodeAllocatable = api::ChangedPart::NodeAllocatable as isize,
    /// [`NodeChange::add_usage`] and [`NodeChange::hold`].
    NodeUsage = api::ChangedPart::NodeUsage as isize,
    /// [`PodChange::set_annotation`] and [`PodChange::remove_annotation`].
    PodAnnotations = api::ChangedPart::PodAnnotations as isize,
    /// [`PodChange::pod_affinity`].
    PodAffinity = api::ChangedPart::PodAffinity as isize,
    /// [`PodChange::topology_spread`].
    PodTopologySpread = api::ChangedPart::PodTopologySpread as isize,
}

impl ChangedPart {
    #[doc(hidden)]
    pub fn is_of_pod(self) -> bool {
        match self {
            Self::PodLabels
            | Self::PodNodeSelector
            | Self::PodNodeAffinity
            | Self::PodTolerations
            | Self::PodRequests
            | Self::PodAnnotations
            | Self::PodAffinity
            | Self::PodTopologySpread => true,
            Self::NodeLabels | Self::NodeTaints | Self::NodeAllocatable | Self::NodeUsage => false,
        }
    }

    /// In the contract.
    pub(crate) fn number(self) -> i32 {
        self as i32
    }
}

/// A text of the policy as the contract's reason.
fn reason(text: impl Into<String>) -> String {
    let mut text = text.into();
    text.truncate(text.floor_char_boundary(CHANGE_REASON_BYTES));
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_are_those_of_the_contract() {
        let known = (1..32).filter_map(|number| api::ChangedPart::try_from(number).ok());
        let parts = [
            ChangedPart::PodLabels,
            ChangedPart::PodNodeSelector,
            ChangedPart::PodNodeAffinity,
            ChangedPart::PodTolerations,
            ChangedPart::PodRequests,
            ChangedPart::NodeLabels,
            ChangedPart::NodeTaints,
            ChangedPart::NodeAllocatable,
            ChangedPart::NodeUsage,
            ChangedPart::PodAnnotations,
            ChangedPart::PodAffinity,
            ChangedPart::PodTopologySpread,
        ];
        assert_eq!(known.map(i32::from).collect::<Vec<_>>(), parts.map(ChangedPart::number));
        for part in parts {
            let name = api::ChangedPart::try_from(part.number()).unwrap().as_str_name();
            assert_eq!(part.is_of_pod(), name.starts_with("CHANGED_PART_POD_"), "{name}");
        }
    }

    #[test]
    fn a_long_reason_is_cut() {
        assert_eq!(reason("ä".repeat(200)), "ä".repeat(100));
    }
}
