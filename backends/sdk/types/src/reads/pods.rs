//! By what the pods on each node are counted, as it is declared and as it is sent: the contract wants each attribute
//! once, in ascending order.

use std::{collections::BTreeMap, fmt, sync::Arc};

use extender_policy_api::v1beta1 as api;

use crate::Pod;

/// An attribute of pods by which the pods on each node are counted. Pods without it are not counted.
// The variants are in the order of the contract's numbers, so that this is the order in which they are sent.
#[derive(Clone, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum PodsBy {
    /// The UID of the owner that is the controller, such as a `ReplicaSet`.
    Owner,
    /// metadata.namespace.
    Namespace,
    /// The namespace and the value of the label with this key: equal values in two namespaces are counted apart.
    Label(Arc<str>),
    /// spec.priorityClassName.
    PriorityClass,
}

/// A declared count of the pods on each node, from [`Reads::pods_by`](crate::Reads::pods_by) or
/// [`Reads::pods_and_requests_by`](crate::Reads::pods_and_requests_by): what
/// [`Node::pods_like`](crate::Node::pods_like) and [`Node::pod_counts`](crate::Node::pod_counts) read. A clone costs at
/// most a counter.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct PodsKey(pub(crate) PodsBy);

/// Whether the requests of the counted pods are read, too.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Sums {
    Unread,
    Requests,
}

/// As declared.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Counted(BTreeMap<PodsBy, Sums>);

/// One count as sent.
#[derive(Debug, PartialEq)]
pub(crate) struct SentCount {
    pub(crate) by: PodsBy,
    pub(crate) sums: Sums,
    /// Among the counts of a row.
    pub(crate) position: usize,
}

/// What a pod has of an attribute.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Attribute<'p> {
    /// Empty unless pods are counted by a label.
    pub(crate) namespace: &'p str,
    pub(crate) value: &'p str,
}

impl PodsBy {
    /// [`PodsBy::Label`] with this key.
    pub fn label(key: impl Into<Arc<str>>) -> Self {
        Self::Label(key.into())
    }

    /// What the pod has of it, if it has it.
    #[track_caller]
    pub(crate) fn of<'p>(&self, pod: &Pod<'p>) -> Option<Attribute<'p>> {
        let attribute = match self {
            Self::Owner => Attribute::of(&pod.owner()?.uid),
            Self::Namespace => Attribute::of(pod.namespace()),
            // The value of a label may be empty.
            Self::Label(key) => {
                return Some(Attribute { namespace: pod.namespace(), value: pod.label(key)? });
            }
            Self::PriorityClass => Attribute::of(pod.priority_class()?),
        };
        Some(attribute).filter(|attribute| !attribute.value.is_empty())
    }

    /// The key of the label; `None` for other attributes.
    pub(super) fn key(&self) -> Option<&Arc<str>> {
        match self {
            Self::Label(key) => Some(key),
            Self::Owner | Self::Namespace | Self::PriorityClass => None,
        }
    }

    pub(super) fn message(&self, sums: Sums) -> api::PodCountReads {
        let label = self.key().map(|key| key.as_ref().to_owned()).unwrap_or_default();
        api::PodCountReads { by: self.number(), label, requests: sums == Sums::Requests }
    }

    fn number(&self) -> i32 {
        let number = match self {
            Self::Owner => api::PodCountBy::Owner,
            Self::Namespace => api::PodCountBy::Namespace,
            Self::Label(_) => api::PodCountBy::Label,
            Self::PriorityClass => api::PodCountBy::PriorityClassName,
        };
        number.into()
    }
}

impl fmt::Display for PodsBy {
    /// As a policy writes it; a long key is cut.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Label(key) => write!(f, "PodsBy::label({:?})", &key[..key.floor_char_boundary(64)]),
            Self::Owner | Self::Namespace | Self::PriorityClass => write!(f, "PodsBy::{self:?}"),
        }
    }
}

impl<'p> Attribute<'p> {
    fn of(value: &'p str) -> Self {
        Self { namespace: "", value }
    }
}

impl Counted {
    /// Twice the same is one count, with the requests if one of the two has them.
    pub(super) fn insert(&mut self, by: PodsBy, sums: Sums) {
        let declared = self.0.entry(by).or_insert(sums);
        *declared = sums.max(*declared);
    }

    pub(super) fn sent(&self) -> Box<[SentCount]> {
        let sent = self.0.iter().enumerate();
        sent.map(|(position, (by, sums))| SentCount { by: by.clone(), sums: *sums, position }).collect()
    }
}

impl SentCount {
    pub(super) fn message(&self) -> api::PodCountReads {
        let Self { by, sums, position: _ } = self;
        by.message(*sums)
    }
}
