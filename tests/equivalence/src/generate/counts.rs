//! Pods that are counted, and the verbs that count them.
//!
//! The strategies are boxed: a case's is one value, and a test's stack is small.

use std::{collections::BTreeMap, ops::RangeInclusive};

use extender_reference::model::{BoundPod, Container, Life, Node, Place, Pod};
use proptest::{array::uniform4, collection::vec, prelude::*, sample::select};

use super::pod;
use crate::case::{Counting, Counts, DISK, Feed, KNOWN, MOST_BOUND, PodEvent, PodNews};

/// The pods of a case. The first nodes have several.
pub(super) fn bound() -> BoxedStrategy<Vec<BoundPod>> {
    let node = prop_oneof![2 => 0..3_usize, 1 => 0..KNOWN];
    let bound = (node, life(), template());
    let bound = bound.prop_map(|(node, life, pod): (Node, Life, Pod)| BoundPod { node, life, pod });
    vec(bound, 0..=MOST_BOUND).boxed()
}

fn life() -> impl Strategy<Value = Life> {
    prop_oneof![
        2 => Just(Life::Absent),
        2 => Just(Life::Pending),
        6 => Just(Life::Running),
        2 => Just(Life::Terminating),
        1 => Just(Life::Succeeded),
        1 => Just(Life::Failed),
    ]
}

fn template() -> impl Strategy<Value = Pod> {
    let containers = vec(container(), 0..=3);
    (pod::namespace(), labels(), containers, pod::owner(), pod::priority_class()).prop_map(
        |(namespace, labels, containers, owner, priority_class)| Pod {
            namespace,
            labels,
            priority: 0,
            containers,
            owner,
            priority_class,
        },
    )
}

fn labels() -> impl Strategy<Value = BTreeMap<String, String>> {
    pod::labels(0..=2)
}

fn container() -> impl Strategy<Value = Container> {
    let place = prop_oneof![3 => Just(Place::Main), 1 => Just(Place::Init)];
    let requests = vec((select(vec!["cpu", "memory", DISK]), 0..=3_u32), 0..=3);
    (place, requests).prop_map(|(place, requests)| {
        let requests = requests.into_iter().map(|(resource, amount)| (resource.to_owned(), amount));
        Container { place, requests: requests.collect(), limits: BTreeMap::new() }
    })
}

/// Counts by something in every second verb.
pub(super) fn counts() -> BoxedStrategy<Counts> {
    let some = (by_attribute(), by_attribute(), by_attribute())
        .prop_map(|(on_nodes, in_cluster, in_zones)| Counts { on_nodes, in_cluster, in_zones });
    prop_oneof![1 => Just(Counts::default()), 1 => some].boxed()
}

fn by_attribute() -> impl Strategy<Value = [Counting; 4]> {
    let counting = prop_oneof![
        5 => Just(Counting::None),
        2 => Just(Counting::Pods),
        1 => Just(Counting::PodsAndRequests),
    ];
    prop_oneof![2 => Just([Counting::None; 4]), 3 => uniform4(counting)]
}

/// What happens to pods around the calls about one.
pub(super) fn news() -> BoxedStrategy<PodNews> {
    let before_by = prop_oneof![4 => Just(Feed::Watch), 1 => Just(Feed::List)];
    let before = prop_oneof![1 => events(0..=0), 1 => events(1..=4)];
    let during = prop_oneof![5 => events(0..=0), 1 => events(1..=2)];
    let between = prop_oneof![2 => events(0..=0), 1 => events(1..=2)];
    let news = (before, before_by, during, between);
    news.prop_map(|(before, before_by, during, between)| PodNews { before, before_by, during, between })
        .boxed()
}

fn events(how_many: RangeInclusive<usize>) -> impl Strategy<Value = Vec<PodEvent>> {
    let labels = prop::option::weighted(0.3, labels());
    let event =
        (0..MOST_BOUND, life(), labels).prop_map(|(pod, life, labels)| PodEvent { pod, life, labels });
    vec(event, how_many)
}
