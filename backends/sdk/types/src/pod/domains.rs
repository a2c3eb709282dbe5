//! The pods in the cluster that are like the pod to be placed, by topology. The request was checked when it arrived:
//! domains are in ascending order of their values, so a domain is found by binary search.

use extender_policy_api::v1beta1::{DomainCount, TopologyCounts};

use crate::{
    Node, PodCount, PodsLike,
    reads::{pods::Attribute, topology::SentTopology},
};

/// The pods in the cluster that are like the pod to be placed, added up by the value of a label of nodes: one domain
/// for each value. Without a topology key, the cluster is one domain, with an empty value.
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

    /// The pods in the domain of this node, on all its nodes. `None` if the node lacks the label, and so is in no
    /// domain.
    #[track_caller]
    pub fn of(&self, node: &Node<'_>) -> Option<PodsLike<'a>> {
        match &self.counted.label {
            Some(label) => node.get(label).map(|value| self.at(value)),
            None => Some(self.at("")),
        }
    }

    /// The domains with at least one such pod, in ascending order of their values, the values of the label. Not those
    /// of [`omitted_pods`](Self::omitted_pods). The namespace and the value of a count are those of the pods.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = (&'a str, PodCount<'a>)> + use<'a> {
        let Self { counted, attribute, counts, .. } = *self;
        let count = move |domain: &'a DomainCount| PodCount::in_domain(counted, attribute, domain);
        counts.domains.iter().map(move |domain| (&*domain.value, count(domain)))
    }

    /// How many pods are in domains that are left out. The gateway sends at most 4,096 domains, those with the most
    /// pods: usually 0.
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

#[cfg(test)]
mod tests {
    use allocation_counter::measure;
    use extender_policy_api::v1beta1 as api;
    use proptest::prelude::*;
    use prost::Message as _;

    use crate::{
        Nodes, Pod, PodsBy, Reads, TopologyKey,
        node::row::Row,
        reads::{access::Access, layout::Layout},
    };

    /// By owner and zone, the only things that are read.
    fn layout() -> (Layout, TopologyKey) {
        let mut reads = Reads::new();
        let zones = reads.pods_by_topology(PodsBy::Owner, "zone");
        (Layout::new(&reads), zones)
    }

    fn domain(value: &str, pods: u32) -> api::DomainCount {
        api::DomainCount { value: value.to_owned(), pods, ..api::DomainCount::default() }
    }

    fn pod(domains: Vec<api::DomainCount>, omitted_pods: u32) -> api::Pod {
        let owner = Some(api::OwnerReference { uid: "u1".into(), ..api::OwnerReference::default() });
        let facts = Some(api::PodFacts { owner, ..api::PodFacts::default() });
        let topology_counts = vec![api::TopologyCounts { domains, omitted_pods }];
        api::Pod { facts, topology_counts, ..api::Pod::default() }
    }

    fn node(zone: Option<&str>) -> Vec<u8> {
        let values = vec![zone.unwrap_or_default().to_owned()];
        let absent = zone.is_none().then_some(0).into_iter().collect();
        let labels = Some(api::MapValues { values, absent, ..api::MapValues::default() });
        let facts = Some(api::NodeFacts { labels, ..api::NodeFacts::default() });
        api::NodeRow { name: "n".into(), facts, ..api::NodeRow::default() }.encode_to_vec()
    }

    #[test]
    fn a_domain_is_looked_up_without_memory() {
        let (layout, zones) = layout();
        let names: Vec<_> = (0..4_096).map(|number| format!("zone-{number:04}")).collect();
        let pod = pod(names.iter().map(|name| domain(name, 2)).collect(), 3);
        let pod = Pod::new(&pod, Access::to(&layout.pod)).unwrap();
        let encoded: Vec<_> =
            names.iter().map(|name| node(Some(name))).chain([node(Some("z")), node(None)]).collect();
        let rows: Vec<_> = encoded.iter().map(|row| Row::read(row).unwrap()).collect();
        let rows: Vec<_> = rows.iter().map(Row::as_ref).collect();
        let nodes = Nodes::new(&rows, Access::to(&layout.node));
        let mut most = 0;
        let cost = measure(|| {
            let domains = pod.pods_like(&zones).unwrap();
            most = nodes.iter().filter_map(|node| domains.of(&node)).map(|like| like.at_most()).sum();
        });
        assert_eq!((most, cost.count_total), (2 * 4_096 + 2, 0));
    }

    proptest! {
        #[test]
        fn a_domain_is_what_is_listed_for_its_value(
            counts in prop::collection::btree_map("[a-c]{0,2}", 1..5_u32, 0..6),
            omitted in 0..4_u32,
            zone in prop::option::of("[a-c]{0,2}"),
        ) {
            let (layout, zones) = layout();
            let pod = pod(counts.iter().map(|(value, pods)| domain(value, *pods)).collect(), omitted);
            let pod = Pod::new(&pod, Access::to(&layout.pod)).unwrap();
            let row = node(zone.as_deref());
            let row = Row::read(&row).unwrap();
            let rows = [row.as_ref()];
            let node = Nodes::new(&rows, Access::to(&layout.node)).iter().next().unwrap();
            let domains = pod.pods_like(&zones).unwrap();
            let like = domains.of(&node).map(|like| (like.at_least(), like.at_most()));
            let fewest = counts.values().min().map_or(omitted, |fewest| omitted.min(*fewest));
            let listed = |zone: String| counts.get(&zone).map_or((0, fewest), |pods| (*pods, *pods));
            prop_assert_eq!(like, zone.map(listed));
            let all: Vec<_> = domains.iter().map(|(value, count)| (value.to_owned(), count.pods())).collect();
            prop_assert_eq!(all, counts.into_iter().collect::<Vec<_>>());
        }
    }
}
