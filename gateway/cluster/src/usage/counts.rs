//! The pods on each node, counted by what verbs declare: nothing else is counted, and nothing is kept for it.

use std::{collections::BTreeMap, sync::Arc};

use extender_gateway_object::{counted::CountedBy, pod::ObjectPod};
use extender_policy_api::limits::{COUNTED_VALUE_BYTES, NODE_COUNTS};
use extender_policy_api::v1beta1::{PodCount, PodCounts, Resources};
use foldhash::{HashMap, HashSet};

use super::{PodRequests, Sums};

/// What pods on a node have in common: the namespace where labels are counted, and the value. In the order of the
/// contract.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Shared {
    namespace: Box<str>,
    value: Box<str>,
}

/// What a pod has of what is counted by.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Attributes {
    /// Of each attribute, in their order; `None` if it lacks it.
    shared: Box<[Option<Shared>]>,
    is_terminating: bool,
}

impl Attributes {
    /// What the pod has of these attributes; `None` if it has none of them.
    pub fn of(pod: &ObjectPod<'_>, by: &[CountedBy]) -> Option<Box<Self>> {
        let shared: Box<[_]> = by.iter().map(|by| shared(pod, by)).collect();
        let is_counted = shared.iter().any(Option::is_some);
        is_counted.then(|| Box::new(Self { shared, is_terminating: pod.is_terminating() }))
    }
}

/// A pod in its counts.
#[derive(Debug, Clone, Copy)]
pub(super) struct CountedAs<'p> {
    pub(super) attributes: &'p Attributes,
    pub(super) requests: &'p PodRequests,
}

/// The counts of all nodes.
#[derive(Debug, Default)]
pub(super) struct Counts {
    by: Arc<[CountedBy]>,
    /// Those of the attributes whose counts are in rows. The others are counted for topologies alone.
    in_rows: Arc<[CountedBy]>,
    /// The counts of each node by each attribute. Nodes without counted pods are not in it.
    nodes: HashMap<Arc<str>, Vec<BTreeMap<Shared, Count>>>,
    /// Nodes whose counts may have changed since the previous [`Counts::take_touched`].
    touched: HashSet<Arc<str>>,
    /// The nodes of each count by each attribute.
    places: Vec<HashMap<Shared, HashSet<Arc<str>>>>,
}

/// The pods of one count.
#[derive(Debug, Default, PartialEq)]
pub(super) struct Count {
    pub(super) sums: Sums,
    pub(super) terminating: i64,
}

impl Counts {
    /// Begins to count by these attributes, with no pods. Every node with pods counts as touched.
    pub(super) fn new(by: Arc<[CountedBy]>, nodes: impl Iterator<Item = Arc<str>>) -> Self {
        let places = by.iter().map(|_| HashMap::default()).collect();
        Self { by, touched: nodes.collect(), places, ..Self::default() }
    }

    /// Has rows contain the counts by these attributes, in ascending order. If these are others than before, all nodes
    /// with pods are touched.
    pub(super) fn put_in_rows<'n>(
        &mut self,
        by: Arc<[CountedBy]>,
        nodes: impl Iterator<Item = &'n Arc<str>>,
    ) {
        if self.in_rows != by {
            self.in_rows = by;
            self.touched.extend(nodes.cloned());
        }
    }

    /// By what the pods in rows are counted, in ascending order.
    pub(super) fn in_rows(&self) -> &Arc<[CountedBy]> {
        &self.in_rows
    }

    /// By what pods are counted, in ascending order.
    pub(super) fn by(&self) -> &Arc<[CountedBy]> {
        &self.by
    }

    /// Replaces all counts by those of a list, by the same attributes.
    pub(super) fn replace(&mut self, list: Self) {
        let differ = |node: &&Arc<str>| self.nodes.get(*node) != list.nodes.get(*node);
        let nodes = self.nodes.keys().chain(list.nodes.keys()).filter(differ).cloned();
        let touched: Vec<_> = nodes.collect();
        self.touched.extend(touched);
        (self.nodes, self.places) = (list.nodes, list.places);
    }

    /// Adds a pod on a node with sign 1, or subtracts it with -1.
    pub(super) fn change(&mut self, node: &Arc<str>, pod: CountedAs<'_>, sign: i64) {
        let CountedAs { attributes: Attributes { shared, is_terminating }, requests } = pod;
        self.touched.insert(Arc::clone(node));
        let counts = self.nodes.entry(Arc::clone(node)).or_default();
        counts.resize_with(self.by.len(), BTreeMap::new);
        for ((counts, places), shared) in counts.iter_mut().zip(&mut self.places).zip(shared) {
            let Some(shared) = shared else { continue };
            let count = counts.entry(shared.clone()).or_insert_with(|| {
                places.entry(shared.clone()).or_default().insert(Arc::clone(node));
                Count::default()
            });
            count.sums.change(requests, sign);
            count.terminating += sign * i64::from(*is_terminating);
            if count.sums.fixed.pods == 0 {
                counts.remove(shared);
                leave(places, shared, node);
            }
        }
        if counts.iter().all(BTreeMap::is_empty) {
            self.nodes.remove(node);
        }
    }

    /// Whether there are touched nodes.
    pub(super) fn is_touched(&self) -> bool {
        !self.touched.is_empty()
    }

    /// The nodes whose counts may have changed since the previous call.
    pub(super) fn take_touched(&mut self) -> impl Iterator<Item = Arc<str>> {
        std::mem::take(&mut self.touched).into_iter()
    }

    /// The counts of a node by each attribute that is in rows; empty without counted pods. `reported` are the extended
    /// resources that the node reports.
    pub(super) fn of(&self, node: &str, reported: impl FnOnce(&str) -> Vec<String>) -> Vec<PodCounts> {
        let Some(counts) = self.nodes.get(node).filter(|_| !self.in_rows.is_empty()) else {
            return Vec::new();
        };
        let counts = self.by.iter().zip(counts).filter(|(by, _)| self.in_rows.binary_search(by).is_ok());
        let counts: Vec<_> = counts.map(|(_, counts)| counts).collect();
        // Most pods request no extended resources, and the node need not be read for them.
        let has_others =
            counts.iter().copied().flat_map(BTreeMap::values).any(|count| !count.sums.others.is_empty());
        let reported = if has_others { reported(node) } else { Vec::new() };
        counts.into_iter().map(|counts| message(counts, &reported)).collect()
    }

    /// Whether a pod with these attributes is like this one.
    pub(super) fn is_like(
        &self,
        attributes: Option<&Attributes>,
        pod: &ObjectPod<'_>,
        by: &CountedBy,
    ) -> bool {
        let known = attributes.zip(self.by.binary_search(by).ok());
        let known = known.and_then(|(attributes, place)| attributes.shared.get(place)?.as_ref());
        known.is_some() && known == shared(pod, by).as_ref()
    }

    /// The counts of the pods that are like this one, by node; nothing if the pod lacks the attribute, or if pods are
    /// not counted by it.
    pub(super) fn like(
        &self,
        pod: &ObjectPod<'_>,
        by: &CountedBy,
    ) -> impl Iterator<Item = (&Arc<str>, &Count)> {
        let place = self.by.binary_search(by).ok();
        let wanted = place.zip(shared(pod, by));
        let nodes = wanted.as_ref().and_then(|(place, shared)| self.places.get(*place)?.get(shared));
        nodes.into_iter().flatten().filter_map(move |node| {
            let (place, shared) = wanted.as_ref()?;
            Some((node, self.nodes.get(node)?.get(*place)?.get(shared)?))
        })
    }
}

/// The node has no pods of this count any longer.
fn leave(places: &mut HashMap<Shared, HashSet<Arc<str>>>, shared: &Shared, node: &Arc<str>) {
    let Some(nodes) = places.get_mut(shared) else { return };
    nodes.remove(node);
    if nodes.is_empty() {
        places.remove(shared);
    }
}

/// What a pod has of an attribute.
fn shared(pod: &ObjectPod<'_>, by: &CountedBy) -> Option<Shared> {
    let alone = |value: &str| Shared { namespace: "".into(), value: value.into() };
    match by {
        CountedBy::Owner => pod.controller_uid().map(alone),
        CountedBy::Namespace => Some(alone(pod.namespace())),
        CountedBy::PriorityClassName => {
            Some(pod.priority_class_name()).filter(|it| !it.is_empty()).map(alone)
        }
        CountedBy::Label(key) => {
            let value = pod.label(key)?;
            Some(Shared { namespace: pod.namespace().into(), value: value.into() })
        }
    }
}

/// The counts in the contract's form, within its limits.
fn message(counts: &BTreeMap<Shared, Count>, reported: &[String]) -> PodCounts {
    let is_sent = |(shared, _): &(&Shared, &Count)| {
        shared.value.len() <= COUNTED_VALUE_BYTES && shared.namespace.len() <= COUNTED_VALUE_BYTES
    };
    let mut sent: Vec<_> = counts.iter().filter(is_sent).collect();
    if sent.len() > NODE_COUNTS {
        // Stable, so that of equal counts the first ones are sent.
        sent.sort_by_key(|(_, count)| std::cmp::Reverse(count.sums.fixed.pods));
        sent.truncate(NODE_COUNTS);
        sent.sort_by_key(|(shared, _)| *shared);
    }
    let pods = |count: &Count| count.sums.fixed.pods;
    let all: i64 = counts.values().map(pods).sum();
    let listed: i64 = sent.iter().map(|(_, count)| pods(count)).sum();
    PodCounts {
        counts: sent.into_iter().map(|(shared, count)| count.message(shared, reported)).collect(),
        omitted_pods: number(all - listed),
    }
}

impl Count {
    fn message(&self, Shared { namespace, value }: &Shared, reported: &[String]) -> PodCount {
        let requested = self.sums.usage(reported.iter().map(String::as_str)).requested;
        PodCount {
            namespace: namespace.to_string(),
            value: value.to_string(),
            pods: number(self.sums.fixed.pods),
            terminating: number(self.terminating),
            requested: requested.map(|requested| Resources { pods: 0, ..requested }),
        }
    }
}

pub(super) fn number(pods: i64) -> u32 {
    u32::try_from(pods).unwrap_or(if pods < 0 { 0 } else { u32::MAX })
}
