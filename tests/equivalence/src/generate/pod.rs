//! Pods, and the pods for which a backend is called.

use std::{
    collections::{BTreeMap, BTreeSet},
    ops::RangeInclusive,
};

use extender_reference::model::{Container, Interest, Namespaces, Operator, Place, Pod, Requirement};
use proptest::{collection::vec, prelude::*, sample::select};

const RESOURCES: [&str; 3] = ["example.com/gpu", "example.com/fpga", "example.org/licence"];

pub(super) fn pod() -> impl Strategy<Value = Pod> {
    let priority = prop_oneof![4 => 0..=8_i32, 1 => Just(i32::MAX)];
    let containers = vec(container(), 1..=3);
    (namespace(), labels(0..=2), priority, containers, owner(), priority_class()).prop_map(
        |(namespace, labels, priority, containers, owner, priority_class)| Pod {
            namespace,
            labels,
            priority,
            containers,
            owner,
            priority_class,
        },
    )
}

pub(super) fn namespace() -> impl Strategy<Value = String> {
    words(&["shop", "batch", "search"])
}

pub(super) fn interest() -> impl Strategy<Value = Interest> {
    let resources = prop_oneof![9 => Just(BTreeSet::new()), 1 => resources(1..=2)];
    let labels = prop_oneof![8 => Just(BTreeMap::new()), 1 => labels(1..=2)];
    let selector = prop_oneof![9 => Just(vec![]), 1 => vec(requirement(), 1..=2)];
    (resources, namespaces(), labels, selector).prop_map(|(resources, namespaces, labels, selector)| {
        Interest { resources, namespaces, labels, selector }
    })
}

fn namespaces() -> impl Strategy<Value = Namespaces> {
    let some = || vec(namespace(), 1..=2).prop_map(BTreeSet::from_iter);
    prop_oneof![
        14 => Just(Namespaces::All),
        1 => some().prop_map(Namespaces::Only),
        1 => some().prop_map(Namespaces::Except),
    ]
}

fn requirement() -> impl Strategy<Value = Requirement> {
    let operator = select(vec![Operator::In, Operator::NotIn, Operator::Exists, Operator::DoesNotExist]);
    (key(), operator, vec(value(), 1..=2)).prop_map(|(key, operator, values)| {
        let compared = matches!(operator, Operator::In | Operator::NotIn);
        let values = values.into_iter().filter(|_| compared).collect();
        Requirement { key, operator, values }
    })
}

pub(super) fn owner() -> impl Strategy<Value = Option<String>> {
    prop::option::weighted(0.8, words(&["set-a", "set-b"]))
}

pub(super) fn priority_class() -> impl Strategy<Value = Option<String>> {
    prop::option::weighted(0.8, words(&["high", "low"]))
}

fn container() -> impl Strategy<Value = Container> {
    let place = prop_oneof![3 => Just(Place::Main), 1 => Just(Place::Init)];
    (place, amounts(), amounts()).prop_map(|(place, requests, limits)| Container { place, requests, limits })
}

fn amounts() -> impl Strategy<Value = BTreeMap<String, u32>> {
    vec((words(&RESOURCES), 0_u32..=2), 0..=1).prop_map(BTreeMap::from_iter)
}

fn resources(how_many: RangeInclusive<usize>) -> impl Strategy<Value = BTreeSet<String>> {
    vec(words(&RESOURCES), how_many).prop_map(BTreeSet::from_iter)
}

pub(super) fn labels(how_many: RangeInclusive<usize>) -> impl Strategy<Value = BTreeMap<String, String>> {
    vec((key(), value()), how_many).prop_map(BTreeMap::from_iter)
}

fn key() -> impl Strategy<Value = String> {
    words(&["tier", "team"])
}

fn value() -> impl Strategy<Value = String> {
    words(&["a", "b", ""])
}

fn words(words: &[&str]) -> impl Strategy<Value = String> + use<> {
    select(words.iter().map(|&word| word.to_owned()).collect::<Vec<_>>())
}
