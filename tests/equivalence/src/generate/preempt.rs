//! Candidates of preemption, and policies about them.

use std::{collections::BTreeSet, ops::RangeInclusive};

use extender_reference::model::{
    Added, Bare, Candidate, Eviction, Failing, Node, OnFailure, Order, Preempt, PreemptRule, Victim,
};
use proptest::{
    collection::vec,
    prelude::*,
    sample::{select, subsequence},
};

use crate::case::{Form, KNOWN, NODES, Pods, RUNNING, victims_on};

pub(super) fn candidates() -> impl Strategy<Value = Vec<Candidate>> {
    let known = subsequence((0..KNOWN).collect::<Vec<_>>(), 1..=6).prop_shuffle();
    let known = prop_oneof![14 => known, 1 => Just(vec![])];
    let unknown = prop_oneof![6 => Just(vec![]), 1 => Just(vec![KNOWN]), 1 => Just(vec![KNOWN + 1, KNOWN])];
    (known, unknown)
        .prop_flat_map(|(known, unknown)| known.into_iter().chain(unknown).map(candidate).collect::<Vec<_>>())
}

fn candidate(node: Node) -> impl Strategy<Value = Candidate> {
    let violations = prop_oneof![9 => 0..=3_i64, 1 => Just(i64::from(u32::MAX) + 7), 1 => Just(i64::MAX)];
    let victims = prop_oneof![7 => victims(node, 1..=4), 1 => Just(Vec::new())];
    (victims, violations).prop_map(move |(victims, violations)| Candidate { node, victims, violations })
}

fn victims(node: Node, how_many: RangeInclusive<usize>) -> impl Strategy<Value = Vec<Victim>> {
    subsequence(victims_on(node).collect::<Vec<_>>(), how_many).prop_shuffle()
}

pub(super) fn form() -> impl Strategy<Value = Form> {
    select(vec![Form::Objects, Form::Uids])
}

pub(super) fn pods() -> impl Strategy<Value = Pods> {
    prop_oneof![2 => Just(Pods::Watched), 1 => Just(Pods::Unknown)]
}

pub(super) fn preempt() -> impl Strategy<Value = Preempt> {
    let on_failure = select(vec![OnFailure::Fail, OnFailure::Ignore]);
    let added = prop_oneof![3 => Just(Added::Allowed), 1 => Just(Added::Refused)];
    let order = select(vec![Order::Offered, Order::Reversed]);
    (on_failure, added, rule(), order, failing()).prop_map(|(on_failure, added, rule, order, failing)| {
        Preempt { on_failure, added, rule, order, failing, blind: BTreeSet::new(), unseen: BTreeSet::new() }
    })
}

/// Sets of candidates are smaller than those of nodes.
fn failing() -> impl Strategy<Value = Failing> {
    prop_oneof![
        7 => Just(Failing::Never),
        3 => Just(Failing::Always),
        3 => (1..=4_usize).prop_map(Failing::Beyond),
    ]
}

fn rule() -> impl Strategy<Value = PreemptRule> {
    prop_oneof![
        8 => per_node(),
        1 => (0..=4_usize).prop_map(|most| PreemptRule::FirstOf { most }),
        1 => (0..=3_i64).prop_map(|most| PreemptRule::Budgets { most }),
    ]
}

/// A policy adds victims or it does not: one that did now and then would mostly fail.
fn per_node() -> impl Strategy<Value = PreemptRule> {
    let kept = prop_oneof![3 => Just(0.9), 2 => Just(0.6), 1 => Just(0.2)];
    let spared = prop_oneof![1 => Just(0.001), 3 => Just(0.25), 1 => Just(0.7)];
    let adds = prop_oneof![3 => Just(0.001), 1 => Just(0.3)];
    let bare = select(vec![Bare::LeftOut, Bare::Kept]);
    (kept, spared, adds, bare).prop_flat_map(|(kept, spared, adds, bare)| {
        let eviction = move |node| prop::option::weighted(kept, eviction(node, (spared, adds)));
        let evictions = (0..NODES).map(eviction).collect::<Vec<_>>();
        evictions.prop_map(move |evictions| PreemptRule::PerNode { evictions, bare })
    })
}

fn eviction(node: Node, (spared, adds): (f64, f64)) -> impl Strategy<Value = Eviction> {
    let spared = vec(prop::bool::weighted(spared), RUNNING);
    let here = victims(node, 1..=2);
    let anywhere = (0..NODES * RUNNING).prop_map(|victim| vec![victim]);
    let added = prop::option::weighted(adds, prop_oneof![6 => here, 1 => anywhere]);
    (spared, added).prop_map(move |(spared, added)| {
        let spared = victims_on(node).zip(spared).filter(|(_, spared)| *spared).map(|(victim, _)| victim);
        Eviction { spared: spared.collect(), added: added.unwrap_or_default() }
    })
}
