//! The parts of a pod or a node that are read as a whole: everything besides labels and annotations.

use extender_policy_api::v1beta1 as api;

/// Parts by their numbers in the contract, which are below 32.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Parts(u32);

impl Parts {
    pub(super) fn insert(&mut self, part: impl Part) {
        self.0 |= 1 << part.number();
    }

    /// Those of nodes that `everything` includes.
    pub(super) fn of_nodes() -> Self {
        use api::NodePart::{Images, Nominated, RawJson, Unspecified, Usage};
        Self::which(|number| {
            let part = api::NodePart::try_from(number);
            part.is_ok_and(|part| !matches!(part, Unspecified | Usage | Nominated | RawJson | Images))
        })
    }

    /// Those of pods that `everything` includes.
    pub(super) fn of_pods() -> Self {
        use api::PodPart::{Identity, RawJson, Unspecified};
        Self::which(|number| {
            let part = api::PodPart::try_from(number);
            part.is_ok_and(|part| !matches!(part, Unspecified | Identity | RawJson))
        })
    }

    fn which(is_one: impl Fn(i32) -> bool) -> Self {
        Self((0..32).filter(|number| is_one(*number)).fold(0, |parts, number| parts | 1 << number))
    }

    /// These and the others.
    pub(super) fn with_all(self, Self(others): Self) -> Self {
        Self(self.0 | others)
    }

    /// All of these but the others.
    pub(super) fn without_all(self, Self(others): Self) -> Self {
        Self(self.0 & !others)
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
    /// [`Node::usage`](crate::Node::usage): what the pods on each node have requested. Needs a gateway that watches pods. A
    /// [pure](crate::Verb::pure) verb may read it; the answer for a node is then cached until a pod is added to the node or
    /// removed from it.
    Usage = api::NodePart::Usage as isize,
    /// [`Node::nominated`](crate::Node::nominated): what the pods that wait for room on each node after preemption request. As
    /// for [`Usage`](Self::Usage), a gateway that watches pods is needed.
    Nominated = api::NodePart::Nominated as isize,
    /// [`Node::raw_json`](crate::Node::raw_json), several kilobytes for each node. Not for a [pure](crate::Verb::pure) verb.
    RawJson = api::NodePart::RawJson as isize,
    /// [`Node::images`](crate::Node::images), some kilobytes for each node.
    Images = api::NodePart::Images as isize,
    /// [`Node::system_info`](crate::Node::system_info).
    SystemInfo = api::NodePart::SystemInfo as isize,
    /// [`Node::addresses`](crate::Node::addresses).
    Addresses = api::NodePart::Addresses as isize,
    /// [`Node::provider_id`](crate::Node::provider_id).
    ProviderId = api::NodePart::ProviderId as isize,
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
    /// [`Pod::name`](crate::Pod::name), [`Pod::uid`](crate::Pod::uid), [`Pod::created_seconds`](crate::Pod::created_seconds),
    /// and the claims whose name is derived from the pod's. Not for a [pure](crate::Verb::pure) verb.
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
    /// [`Pod::raw_json`](crate::Pod::raw_json), for fields that its facts omit. Not for a [pure](crate::Verb::pure) verb.
    RawJson = api::PodPart::RawJson as isize,
    /// [`Pod::containers`](crate::Pod::containers).
    Containers = api::PodPart::Containers as isize,
    /// [`Pod::pod_affinity`](crate::Pod::pod_affinity).
    PodAffinity = api::PodPart::PodAffinity as isize,
    /// [`Pod::topology_spread`](crate::Pod::topology_spread).
    TopologySpread = api::PodPart::TopologySpread as isize,
    /// [`Pod::resource_claims`](crate::Pod::resource_claims).
    ResourceClaims = api::PodPart::ResourceClaims as isize,
    /// [`Pod::pod_group`](crate::Pod::pod_group).
    PodGroup = api::PodPart::PodGroupName as isize,
    /// [`Pod::runtime_class`](crate::Pod::runtime_class).
    RuntimeClass = api::PodPart::RuntimeClassName as isize,
    /// [`Pod::preemption_policy`](crate::Pod::preemption_policy).
    PreemptionPolicy = api::PodPart::PreemptionPolicy as isize,
    /// [`Pod::service_account`](crate::Pod::service_account).
    ServiceAccount = api::PodPart::ServiceAccountName as isize,
}

impl Part for PodPart {
    const TYPE: &str = "PodPart";

    fn number(self) -> i32 {
        self as i32
    }
}
