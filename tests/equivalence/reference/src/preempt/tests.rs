use std::collections::BTreeSet;

use super::*;
use crate::model::{
    Bare, Eviction, Failing, Filter, FilterRule, Interest, Mode, Order, PreemptRule, Preemption, Prefix,
};

const PLAIN: Differences = Differences { prefix: Prefix::None, exempt: BTreeSet::new() };

/// Two pods on each of two nodes.
const RUNNING: [Running; 4] = [
    Running { node: 0, priority: 1 },
    Running { node: 0, priority: 2 },
    Running { node: 1, priority: 1 },
    Running { node: 1, priority: 5 },
];

fn filter(on_failure: OnFailure) -> Filter {
    Filter {
        on_failure,
        preemption: Preemption::Ignored,
        rule: FilterRule::PerNode(vec![None; 2]),
        failing: Failing::Never,
        blind: BTreeSet::new(),
    }
}

/// It filters and preempts under the same policy, as an entry of kube-scheduler's configuration does.
fn extender(on_failure: OnFailure, rule: PreemptRule, failing: Failing) -> Extender {
    let preempt = Preempt {
        on_failure,
        added: Added::Allowed,
        rule,
        order: Order::Reversed,
        failing,
        blind: BTreeSet::new(),
        unseen: BTreeSet::new(),
    };
    Extender {
        name: "e".into(),
        mode: Mode::Enforce,
        interest: Interest::default(),
        filter: Some(filter(on_failure)),
        score: None,
        preempt: Some(preempt),
    }
}

fn sparing(victims: &[Victim]) -> PreemptRule {
    let eviction = Eviction { spared: victims.iter().copied().collect(), added: Vec::new() };
    PreemptRule::PerNode { evictions: vec![Some(eviction); 2], bare: Bare::Kept }
}

fn adding(victim: Victim) -> PreemptRule {
    let eviction = Eviction { spared: BTreeSet::new(), added: vec![victim] };
    PreemptRule::PerNode { evictions: vec![Some(eviction), None], bare: Bare::LeftOut }
}

fn candidate(node: Node, victims: &[Victim]) -> Candidate {
    Candidate { node, victims: victims.to_vec(), violations: 7 }
}

fn asked(extenders: &[Extender], candidates: &[Candidate]) -> Preempted {
    let pod = Pod { priority: 5, ..Pod::default() };
    preempt(extenders, (&pod, &PLAIN), Room { candidates, running: &RUNNING })
}

#[test]
fn each_is_asked_about_what_the_earlier_ones_left_in_the_order_of_the_call() {
    let extenders = [
        extender(OnFailure::Ignore, sparing(&[0]), Failing::Never),
        extender(OnFailure::Fail, PreemptRule::FirstOf { most: 1 }, Failing::Never),
    ];
    let preempted = asked(&extenders, &[candidate(0, &[1, 0]), candidate(1, &[3, 2])]);
    assert_eq!(preempted.asked[1], (0, vec![candidate(0, &[1, 0])]));
    assert_eq!(preempted.ending, Ending::Left(vec![candidate(0, &[1])]));
    assert_eq!(preempted.changes, [1, 0]);
}

#[test]
fn nobody_is_asked_behind_the_last_candidate() {
    let none = extender(OnFailure::Fail, PreemptRule::FirstOf { most: 0 }, Failing::Never);
    let failing = extender(OnFailure::Fail, sparing(&[]), Failing::Always);
    let preempted = asked(&[none, failing.clone()], &[candidate(0, &[0])]);
    assert_eq!(preempted.ending, Ending::Left(vec![]));
    assert_eq!(asked(&[failing], &[candidate(0, &[0])]).ending, Ending::Failed(0));
}

#[test]
fn a_node_without_victims_is_a_failure_or_falls() {
    let candidates = [candidate(0, &[0]), candidate(1, &[2])];
    for (on_failure, ending, failures) in [
        (OnFailure::Fail, Ending::Failed(0), vec![(0, Failure::NoVictims(0))]),
        (OnFailure::Ignore, Ending::Left(vec![candidate(1, &[2])]), vec![]),
    ] {
        let preempted = asked(&[extender(on_failure, sparing(&[0]), Failing::Never)], &candidates);
        assert_eq!((preempted.ending, preempted.failures), (ending, failures));
    }
}

#[test]
fn a_placeholder_stays_for_the_next_extender() {
    let candidates = [candidate(0, &[]), candidate(1, &[2])];
    let extenders = [
        extender(OnFailure::Fail, sparing(&[]), Failing::Never),
        extender(OnFailure::Ignore, adding(1), Failing::Never),
    ];
    let preempted = asked(&extenders, &candidates);
    assert_eq!(preempted.asked[1].1, candidates);
    assert_eq!(preempted.ending, Ending::Left(vec![candidate(0, &[1])]));
}

#[test]
fn victims_are_added_that_are_there_and_matter_less() {
    let added = |victim, candidates: &[Candidate]| {
        asked(&[extender(OnFailure::Ignore, adding(victim), Failing::Never)], candidates)
    };
    let offered = [candidate(0, &[0])];
    assert_eq!(added(1, &offered).ending, Ending::Left(vec![candidate(0, &[0, 1])]));
    for victim in [0, 2, 3] {
        let preempted = added(victim, &offered);
        assert_eq!(preempted.failures, [(0, Failure::Stranger(victim))]);
        assert_eq!(preempted.ending, Ending::Left(offered.to_vec()));
    }
    let mut refused = extender(OnFailure::Fail, adding(1), Failing::Never);
    refused.preempt.as_mut().expect("it preempts").added = Added::Refused;
    assert_eq!(asked(&[refused], &offered).ending, Ending::Failed(0));
}

#[test]
fn unknown_nodes_fall_and_alone_are_an_error() {
    let mut blind = extender(OnFailure::Ignore, sparing(&[]), Failing::Never);
    blind.preempt.as_mut().expect("it preempts").blind = BTreeSet::from([1]);
    let blind = [blind];
    let both = [candidate(0, &[0]), candidate(1, &[2])];
    assert_eq!(asked(&blind, &both).ending, Ending::Left(vec![candidate(0, &[0])]));
    assert_eq!(asked(&blind, &both[1..]).ending, Ending::NotYetKnown(1));
}
