//! The pods in the cluster that are like the pod to be placed, by topology. The request was checked when it arrived:
//! domains are in ascending order of their values, so a domain is found by binary search.

use extender_policy_api::v1alpha1::{DomainCount, TopologyCounts};

use crate::{
    Node, PodCount, PodsLike,
    reads::{pods::Attribute, topology::SentTopology},
};

/// The pods in the cluster that are like the pod to be placed, added up by the value of a label of nodes: one domain for
/// each value. Without a topology key, the cluster is one domain, with an empty value.
#[derive(Clone, Copy, Debug)]
pub struct Domains<'a> {
    counted: &'a SentTopology,
    /// That of the pod to be placed.
    attribute: Attribute<'a>,
    counts: &'a TopologyCounts,
    /// The most pods in a domain that is not listed.
    unlisted: u32,
}

impl<'a> Domains<'a> {
    pub(super) fn new(
        counted: &'a SentTopology,
        attribute: Attribute<'a>,
        counts: &'a TopologyCounts,
    ) -> Self {
        Self { counted, attribute, counts, unlisted: unlisted(counts) }
    }

    /// The pods in the domain of this node, on all its nodes. `None` if the node lacks the label, and so is in no domain.
    #[track_caller]
    pub fn of(&self, node: &Node<'_>) -> Option<PodsLike<'a>> {
        match &self.counted.label {
            Some(label) => node.get(label).map(|value| self.at(value)),
            None => Some(self.at("")),
        }
    }

    /// The domains with at least one such pod, in ascending order of their values, the values of the label. Not those of
    /// [`omitted_pods`](Self::omitted_pods). The namespace and the value of a count are those of the pods.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&'a str, PodCount<'a>)> + use<'a> {
        let Self { counted, attribute, counts, .. } = *self;
        let count = move |domain: &'a DomainCount| PodCount::in_domain(counted, attribute, domain);
        counts.domains.iter().map(move |domain| (&*domain.value, count(domain)))
    }

    /// How many pods are in domains that are left out. The gateway sends at most 4,096 domains, those with the most pods:
    /// usually 0.
    pub fn omitted_pods(&self) -> u32 {
        self.counts.omitted_pods
    }

    fn at(&self, value: &str) -> PodsLike<'a> {
        let found = self.counts.domains.binary_search_by(|domain| domain.value.as_str().cmp(value));
        match (found, self.unlisted) {
            (Ok(position), _) => {
                let domain = &self.counts.domains[position];
                PodsLike::Counted(PodCount::in_domain(self.counted, self.attribute, domain))
            }
            (Err(_), 0) => PodsLike::Counted(PodCount::none_in_domain(self.counted, self.attribute)),
            (Err(_), pods) => PodsLike::AtMost(pods),
        }
    }
}

/// The gateway leaves out the domains with the fewest pods.
fn unlisted(counts: &TopologyCounts) -> u32 {
    match counts.omitted_pods {
        0 => 0,
        omitted => counts.domains.iter().map(|domain| domain.pods).fold(omitted, u32::min),
    }
}
