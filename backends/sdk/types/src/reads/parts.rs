//! The parts of a pod or a node that are read as a whole: everything besides labels and annotations.

use extender_policy_api::v1beta1 as api;

/// Parts by their numbers in the contract, which are below 32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Parts(u32);

impl Parts {
    pub(super) fn insert(&mut self, part: impl Part) {
        self.0 |= 1 << part.number();
    }

    /// All parts of nodes.
    pub(super) fn of_nodes() -> Self {
        Self::known(|number| api::NodePart::try_from(number).is_ok())
    }

    /// All parts of pods but their identity.
    pub(super) fn of_pods() -> Self {
        let Self(all) = Self::known(|number| api::PodPart::try_from(number).is_ok());
        Self(all).without(PodPart::Identity)
    }

    /// All of these but one.
    pub(super) fn without(self, part: impl Part) -> Self {
        Self(self.0 & !(1 << part.number()))
    }

    fn known(is_known: impl Fn(i32) -> bool) -> Self {
        Self((1..32).filter(|number| is_known(*number)).fold(0, |parts, number| parts | 1 << number))
    }

    pub(super) fn contains(self, part: impl Part) -> bool {
        self.0 & 1 << part.number() != 0
    }

    /// In ascending order.
    pub(super) fn numbers(self) -> impl Iterator<Item = i32> {
        (0..32).filter(move |number| self.0 & 1 << number != 0)
    }
}

/// A part of a pod or of a node.
pub(crate) trait Part: Copy + std::fmt::Debug {
    /// The name of the type.
    const TYPE: &str;

    fn number(self) -> i32;
}

/// A part of a node besides labels and annotations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum NodePart {
    /// [`Node::name`](crate::Node::name).
    Name = api::NodePart::Name as isize,
    /// [`Node::taints`](crate::Node::taints).
    Taints = api::NodePart::Taints as isize,
    /// [`Node::is_unschedulable`](crate::Node::is_unschedulable).
    Unschedulable = api::NodePart::Unschedulable as isize,
    /// [`Node::condition`](crate::Node::condition).
    Conditions = api::NodePart::Conditions as isize,
    /// [`Node::capacity`](crate::Node::capacity).
    Capacity = api::NodePart::Capacity as isize,
    /// [`Node::allocatable`](crate::Node::allocatable).
    Allocatable = api::NodePart::Allocatable as isize,
}

impl Part for NodePart {
    const TYPE: &str = "NodePart";

    fn number(self) -> i32 {
        self as i32
    }
}

/// A part of a pod besides labels and annotations.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PodPart {
    /// [`Pod::name`](crate::Pod::name), [`Pod::uid`](crate::Pod::uid), and the claims whose name is derived from the
    /// pod's. Not for a [pure](crate::Verb::pure) verb.
    Identity = api::PodPart::Identity as isize,
    /// [`Pod::namespace`](crate::Pod::namespace).
    Namespace = api::PodPart::Namespace as isize,
    /// [`Pod::owner`](crate::Pod::owner).
    Owner = api::PodPart::Owner as isize,
    /// [`Pod::priority`](crate::Pod::priority).
    Priority = api::PodPart::Priority as isize,
    /// [`Pod::priority_class`](crate::Pod::priority_class).
    PriorityClass = api::PodPart::PriorityClassName as isize,
    /// [`Pod::requests`](crate::Pod::requests).
    Requests = api::PodPart::Requests as isize,
    /// [`Pod::nonzero_requests`](crate::Pod::nonzero_requests).
    NonzeroRequests = api::PodPart::NonzeroRequests as isize,
    /// [`Pod::tolerations`](crate::Pod::tolerations) and [`Pod::tolerates`](crate::Pod::tolerates).
    Tolerations = api::PodPart::Tolerations as isize,
    /// [`Pod::node_selector`](crate::Pod::node_selector) and [`Pod::node_selectors`](crate::Pod::node_selectors).
    NodeSelector = api::PodPart::NodeSelector as isize,
    /// [`Pod::node_affinity`](crate::Pod::node_affinity).
    NodeAffinity = api::PodPart::NodeAffinity as isize,
    /// [`Pod::volumes`](crate::Pod::volumes) and, with [`Identity`](Self::Identity),
    /// [`Pod::claims`](crate::Pod::claims).
    Volumes = api::PodPart::Volumes as isize,
    /// [`Pod::scheduler_name`](crate::Pod::scheduler_name).
    SchedulerName = api::PodPart::SchedulerName as isize,
}

impl Part for PodPart {
    const TYPE: &str = "PodPart";

    fn number(self) -> i32 {
        self as i32
    }
}
