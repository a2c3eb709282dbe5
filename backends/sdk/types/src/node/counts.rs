//! The counts of the pods on a node as a policy sees them. They stay encoded, in the [shape] that was
//! checked when the request arrived: counts are in ascending order, so a look-up passes over those before the wanted
//! one and decodes nothing of them.

use extender_policy_api::v1beta1::{DomainCount, Resources};
use prost::Message;

use super::{
    facts::{CHECKED, text},
    shape,
};
use crate::{
    PodsBy,
    reads::{
        access,
        pods::{Attribute, SentCount, Sums},
        topology::SentTopology,
    },
    wire::{Field, FieldValue, Fields},
};

/// The number of `NodeRow.pod_counts`.
const POD_COUNTS: u8 = 5;

/// The numbers of `PodCounts.counts` and `PodCounts.omitted_pods`.
const COUNTS: u8 = 1;
const OMITTED_PODS: u32 = 2;

/// Pods on a node, or in a domain of the cluster, with one owner, one namespace, one value of a label, or one priority
/// class.
#[derive(Clone, Copy, Debug)]
pub struct PodCount<'a> {
    counted: CountedIn<'a>,
    attribute: Attribute<'a>,
    pods: u32,
    terminating: u32,
}

/// Where pods are counted, and the sums of their requests.
#[derive(Clone, Copy, Debug)]
enum CountedIn<'a> {
    /// On a node. The sums are encoded.
    OnNode { declared: &'a SentCount, requested: &'a [u8] },
    /// In a domain of the cluster.
    InDomain { declared: &'a SentTopology, requested: Option<&'a Resources> },
}

/// How many pods on a node, or in a domain of the cluster, are like a pod. Of a node with pods of very many owners, or
/// very many values of a label, the gateway leaves out some counts, and so it does of very many domains; the number is
/// then known only within bounds. A limit takes [`at_most`](Self::at_most), a requirement takes
/// [`at_least`](Self::at_least): neither then takes an unknown number for 0.
#[derive(Clone, Copy, Debug)]
pub enum PodsLike<'a> {
    /// Exactly these, possibly none.
    Counted(PodCount<'a>),
    /// The count is left out: any number of pods up to this one. See [`Node::omitted_pods`](crate::Node::omitted_pods)
    /// and [`Domains::omitted_pods`](crate::Domains::omitted_pods).
    AtMost(u32),
}

/// A `PodCounts` of the usual shape.
#[derive(Clone, Copy, Debug)]
pub(super) struct CountList<'a> {
    encoded: &'a [u8],
}

impl<'a> PodCount<'a> {
    /// The pods' namespace; `None` if they are counted by owner or priority class.
    pub fn namespace(&self) -> Option<&'a str> {
        match self.counted.by() {
            PodsBy::Label(_) => Some(self.attribute.namespace),
            PodsBy::Namespace => Some(self.attribute.value),
            PodsBy::Owner | PodsBy::PriorityClass => None,
        }
    }

    /// The owner's UID, the namespace, the label's value, or the name of the priority class.
    pub fn value(&self) -> &'a str {
        self.attribute.value
    }

    /// How many pods, with those that are being deleted.
    pub fn pods(&self) -> u32 {
        self.pods
    }

    /// How many of them are being deleted (metadata.deletionTimestamp). kube-scheduler does not count these for
    /// topology spread constraints.
    pub fn terminating(&self) -> u32 {
        self.terminating
    }

    /// The sums of what the pods need, with those that are being deleted, in the units of
    /// [`Pod::requests`](crate::Pod::requests). `pods` is 0. Of extended resources, those on a node are the ones that
    /// the node reports in its status, and those in a domain the ones that the pod to be placed requests: others are
    /// left out and read as 0. Decoded with each call.
    ///
    /// # Panics
    ///
    /// Unless the count is declared with [`Reads::pods_and_requests_by`](crate::Reads::pods_and_requests_by) or
    /// [`Reads::pods_and_requests_by_topology`](crate::Reads::pods_and_requests_by_topology).
    #[track_caller]
    pub fn requested(&self) -> Resources {
        match self.counted {
            CountedIn::OnNode { declared: SentCount { by, sums: Sums::Unread, .. }, .. } => {
                access::undeclared_requests(by)
            }
            CountedIn::InDomain { declared: SentTopology { topology, sums: Sums::Unread, .. }, .. } => {
                access::undeclared_topology_requests(topology)
            }
            CountedIn::OnNode { requested, .. } => Resources::decode(requested).expect(CHECKED),
            CountedIn::InDomain { requested, .. } => requested.cloned().unwrap_or_default(),
        }
    }

    /// The pods in a domain of the cluster.
    pub(crate) fn in_domain(
        declared: &'a SentTopology,
        attribute: Attribute<'a>,
        domain: &'a DomainCount,
    ) -> Self {
        let DomainCount { value: _, pods, terminating, requested } = domain;
        let counted = CountedIn::InDomain { declared, requested: requested.as_ref() };
        Self { counted, attribute, pods: *pods, terminating: *terminating }
    }

    /// No pods in a domain of the cluster.
    pub(crate) fn none_in_domain(declared: &'a SentTopology, attribute: Attribute<'a>) -> Self {
        let counted = CountedIn::InDomain { declared, requested: None };
        Self { counted, attribute, pods: 0, terminating: 0 }
    }

    fn none(declared: &'a SentCount, attribute: Attribute<'a>) -> Self {
        let counted = CountedIn::OnNode { declared, requested: &[] };
        Self { counted, attribute, pods: 0, terminating: 0 }
    }

    /// From an encoded `PodCount`.
    fn read(declared: &'a SentCount, encoded: &'a [u8]) -> Self {
        let [namespace, value] = shape::first_texts(encoded).map(text);
        let mut count = Self::none(declared, Attribute { namespace, value });
        for field in Fields::of(encoded) {
            match field.expect(CHECKED) {
                Field { tag: 3, value: FieldValue::Number(pods) } => count.pods = number(pods),
                Field { tag: 4, value: FieldValue::Number(pods) } => count.terminating = number(pods),
                Field { tag: 5, value: FieldValue::Slice(requested) } => {
                    count.counted = CountedIn::OnNode { declared, requested };
                }
                _ => {}
            }
        }
        count
    }
}

impl<'a> CountedIn<'a> {
    fn by(self) -> &'a PodsBy {
        match self {
            Self::OnNode { declared, .. } => &declared.by,
            Self::InDomain { declared, .. } => &declared.topology.by,
        }
    }
}

impl<'a> PodsLike<'a> {
    /// The most pods that there can be, with those that are being deleted.
    pub fn at_most(&self) -> u32 {
        match self {
            Self::Counted(count) => count.pods(),
            Self::AtMost(pods) => *pods,
        }
    }

    /// The fewest pods that there can be, with those that are being deleted.
    pub fn at_least(&self) -> u32 {
        self.counted().map_or(0, |count| count.pods())
    }

    /// The count; `None` if it is left out.
    pub fn counted(&self) -> Option<PodCount<'a>> {
        match self {
            Self::Counted(count) => Some(*count),
            Self::AtMost(_) => None,
        }
    }
}

impl<'a> CountList<'a> {
    /// Each count in turn.
    pub(super) fn counts(self, counted: &'a SentCount) -> impl Iterator<Item = PodCount<'a>> + use<'a> {
        self.entries().map(|entry| PodCount::read(counted, entry))
    }

    /// The pods with this attribute.
    pub(super) fn like<'c>(self, counted: &'c SentCount, attribute: Attribute<'c>) -> PodsLike<'c>
    where
        'a: 'c,
    {
        if let Some(entry) = self.find(attribute) {
            return PodsLike::Counted(PodCount::read(counted, entry));
        }
        match self.omitted_pods() {
            0 => PodsLike::Counted(PodCount::none(counted, attribute)),
            omitted => PodsLike::AtMost(omitted),
        }
    }

    pub(super) fn omitted_pods(self) -> u32 {
        let mut fields = Fields::of(self.encoded);
        while fields.next_slice_of(COUNTS).is_some() {}
        match fields.next() {
            Some(Ok(Field { tag: OMITTED_PODS, value: FieldValue::Number(pods) })) => number(pods),
            _ => 0,
        }
    }

    fn find(self, wanted: Attribute<'_>) -> Option<&'a [u8]> {
        let wanted = [wanted.namespace.as_bytes(), wanted.value.as_bytes()];
        let order = |entry| shape::order(shape::first_texts(entry), wanted);
        self.entries().find(|entry| order(entry).is_ge()).filter(|entry| order(entry).is_eq())
    }

    fn entries(self) -> impl Iterator<Item = &'a [u8]> + use<'a> {
        slices(self.encoded, COUNTS)
    }
}

/// The part of a row of the usual shape that begins with its counts: fields are in ascending order, and others follow.
pub(super) fn rest(row: &[u8]) -> &[u8] {
    let mut fields = Fields::of(row);
    loop {
        let rest = fields.rest();
        if !matches!(fields.next(), Some(Ok(field)) if field.tag < POD_COUNTS.into()) {
            return rest;
        }
    }
}

/// The counts in that part, one list for each attribute that is declared.
pub(super) fn lists(pod_counts: &[u8]) -> impl Iterator<Item = CountList<'_>> {
    slices(pod_counts, POD_COUNTS).map(|encoded| CountList { encoded })
}

/// The messages in the fields of this number, which come first.
fn slices(message: &[u8], tag: u8) -> impl Iterator<Item = &[u8]> {
    let mut fields = Fields::of(message);
    std::iter::from_fn(move || fields.next_slice_of(tag).map(|slice| slice.expect(CHECKED)))
}

/// A checked number of 32 bits.
fn number(number: u64) -> u32 {
    u32::try_from(number).expect(CHECKED)
}
