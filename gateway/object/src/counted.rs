//! How a verb has pods counted: on each node, and over a topology.

use extender_policy_api::v1beta1::{PodCountBy, PodCountReads, TopologyCountReads};

/// By what pods are counted. Mirrors `PodCountBy`, whose order it has.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub enum CountedBy {
    /// The UID of the controller.
    Owner,
    /// `metadata.namespace`.
    Namespace,
    /// The namespace and the value of the label with this key.
    Label(Box<str>),
    /// `spec.priorityClassName`.
    PriorityClassName,
}

impl CountedBy {
    /// What a verb declares; `None` if this version does not know it, if it is a label without a key, or if another
    /// attribute has one.
    pub fn declared(by: i32, label: &str) -> Option<Self> {
        match (PodCountBy::try_from(by).ok()?, label) {
            (PodCountBy::Owner, "") => Some(Self::Owner),
            (PodCountBy::Namespace, "") => Some(Self::Namespace),
            (PodCountBy::PriorityClassName, "") => Some(Self::PriorityClassName),
            (PodCountBy::Label, key) if !key.is_empty() => Some(Self::Label(key.into())),
            _ => None,
        }
    }

    fn words(&self) -> String {
        match self {
            Self::Owner => "pods by owner".to_owned(),
            Self::Namespace => "pods by namespace".to_owned(),
            Self::Label(key) => format!("pods by label {key}"),
            Self::PriorityClassName => "pods by priority class name".to_owned(),
        }
    }
}

fn with_requests(requests: bool) -> &'static str {
    if requests { " with requests" } else { "" }
}

/// The counts of the pods on a node in a view.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub struct PodCountView {
    /// By what they are counted.
    pub by: CountedBy,
    /// Whether the sums of their requests are included.
    pub requests: bool,
}

impl PodCountView {
    /// What a verb declares, which the handshake's reader has checked.
    pub fn declared(reads: &[PodCountReads]) -> Vec<Self> {
        let view = |PodCountReads { by, label, requests }: &PodCountReads| {
            Some(Self { by: CountedBy::declared(*by, label)?, requests: *requests })
        };
        reads.iter().filter_map(view).collect()
    }

    /// What it contains in words, such as `pods by owner with requests`.
    pub fn words(&self) -> String {
        self.by.words() + with_requests(self.requests)
    }

    /// The declaration.
    pub fn reads(&self) -> PodCountReads {
        let (by, label) = match &self.by {
            CountedBy::Owner => (PodCountBy::Owner, ""),
            CountedBy::Namespace => (PodCountBy::Namespace, ""),
            CountedBy::Label(key) => (PodCountBy::Label, &**key),
            CountedBy::PriorityClassName => (PodCountBy::PriorityClassName, ""),
        };
        PodCountReads { by: by.into(), label: label.to_owned(), requests: self.requests }
    }
}

/// The counts of the pods in the cluster that are like the pod of a call, in a view.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TopologyCountView {
    /// What they have in common with the pod.
    pub by: CountedBy,
    /// The key of the label of nodes by whose values they are added up; empty for all nodes together.
    pub topology_key: Box<str>,
    /// Whether the sums of their requests are included.
    pub requests: bool,
}

impl TopologyCountView {
    /// What a verb declares, which the handshake's reader has checked.
    pub fn declared(reads: &[TopologyCountReads]) -> Vec<Self> {
        let view = |TopologyCountReads { by, label, topology_key, requests }: &TopologyCountReads| {
            let by = CountedBy::declared(*by, label)?;
            Some(Self { by, topology_key: topology_key.as_str().into(), requests: *requests })
        };
        reads.iter().filter_map(view).collect()
    }

    /// What it contains in words, such as `pods by owner in topology.kubernetes.io/zone`.
    pub fn words(&self) -> String {
        let place = match &*self.topology_key {
            "" => "the cluster",
            key => key,
        };
        format!("{} in {place}{}", self.by.words(), with_requests(self.requests))
    }
}
