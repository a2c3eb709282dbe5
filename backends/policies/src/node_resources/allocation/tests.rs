//! Scores of one node. Random ones are compared with the real plugins in tests/kube/policies.

use super::*;
use crate::node_resources::shape::Point;

const GPU: &str = "example.com/gpu";

fn strategy(aim: Aim, resources: &[(&str, i64)]) -> Strategy {
    let weighted =
        |&(name, weight): &(&str, i64)| Weighted { resource: Resource::named(name).unwrap(), weight };
    Strategy { aim, resources: resources.iter().map(weighted).collect() }
}

fn amounts(milli_cpu: i64, memory: i64, gpus: i64) -> Resources {
    Resources { milli_cpu, memory, others: [(GPU.to_owned(), gpus)].into(), ..Resources::default() }
}

/// For a pod with these requests; its non-zero requests are 100 and 200 more.
fn score(strategy: &Strategy, asked: &Resources, allocatable: &Resources, used: &Resources) -> i32 {
    let nonzero =
        |amounts: &Resources| NonZero { milli_cpu: amounts.milli_cpu + 100, memory: amounts.memory + 200 };
    let usage = NodeUsage { requested: Some(used.clone()), nonzero: Some(nonzero(used)) };
    strategy.question(asked, &nonzero(asked)).score_with(allocatable, &usage)
}

fn rising() -> Aim {
    let points = [(0, 0), (100, 100)].map(|(utilization, score)| Point { utilization, score });
    Aim::RequestedToCapacityRatio(Shape::through(points.into()).unwrap())
}

#[test]
fn each_strategy_scores_as_its_plugin() {
    let (node, used, asked) = (amounts(1000, 4000, 4), amounts(100, 1000, 1), amounts(200, 600, 1));
    // With both defaults twice: CPU is half used, memory too; GPUs are half used.
    for (aim, resources, expected) in [
        (Aim::LeastAllocated, &[("cpu", 1), ("memory", 1)][..], 50),
        (Aim::LeastAllocated, &[("cpu", 1), ("memory", 3), (GPU, 2)], 50),
        (Aim::MostAllocated, &[("cpu", 1)], 50),
        (Aim::MostAllocated, &[("ephemeral-storage", 1)], 0),
        (rising(), &[("cpu", 1), ("memory", 1)], 50),
        // 0.3 and 0.4 with the pod, 0.1 and 0.25 without: 50 + (50 + 95 - 92) / 2.
        (Aim::BalancedAllocation, &[("cpu", 1), ("memory", 1)], 76),
        (Aim::BalancedAllocation, &[("cpu", 1)], 75),
    ] {
        let strategy = strategy(aim, resources);
        assert_eq!(score(&strategy, &asked, &node, &used), expected, "{strategy:?}");
    }
}

#[test]
fn means_are_rounded_down_and_ratios_to_the_nearest() {
    let (node, used, asked) = (amounts(1000, 10_000, 0), amounts(0, 0, 0), amounts(300, 4700, 0));
    // 0.5 and 0.51 are used.
    for (aim, weight, expected) in
        [(Aim::MostAllocated, 1, 50), (Aim::LeastAllocated, 1, 49), (rising(), 1, 51), (rising(), 2, 50)]
    {
        let strategy = strategy(aim, &[("cpu", weight), ("memory", 1)]);
        assert_eq!(score(&strategy, &asked, &node, &used), expected, "{strategy:?}");
    }
}

#[test]
fn what_a_pod_does_not_request_or_a_node_does_not_have_does_not_count() {
    let both = |aim| strategy(aim, &[("cpu", 1), (GPU, 100)]);
    let (used, nothing) = (amounts(0, 0, 3), amounts(0, 0, 0));
    assert_eq!(score(&both(Aim::MostAllocated), &nothing, &amounts(1000, 0, 4), &used), 20);
    assert_eq!(score(&both(Aim::MostAllocated), &amounts(0, 0, 1), &amounts(1000, 0, 0), &used), 20);
    assert_eq!(score(&both(Aim::MostAllocated), &amounts(0, 0, 1), &amounts(1000, 0, 4), &used), 99);
    // No resource is left to be scored.
    assert_eq!(score(&both(Aim::LeastAllocated), &nothing, &nothing, &nothing), 0);
    assert_eq!(score(&both(Aim::BalancedAllocation), &amounts(1, 0, 0), &nothing, &nothing), 75);
}

#[test]
fn a_pod_that_requests_nothing_is_not_balanced() {
    let balanced = strategy(Aim::BalancedAllocation, &[("cpu", 1), ("memory", 1), (GPU, 1)]);
    let node = amounts(1000, 1000, 4);
    assert_eq!(score(&balanced, &amounts(0, 0, 0), &node, &amounts(100, 0, 0)), 0);
    assert_ne!(score(&balanced, &amounts(0, 0, 1), &node, &amounts(100, 0, 0)), 0);
}

#[test]
fn more_can_be_requested_than_there_is() {
    let (node, used) = (amounts(100, 0, 0), amounts(500, 0, 0));
    for (aim, expected) in [(Aim::LeastAllocated, 0), (Aim::MostAllocated, 100), (rising(), 100)] {
        assert_eq!(score(&strategy(aim, &[("cpu", 1)]), &amounts(1, 0, 0), &node, &used), expected);
    }
}

#[test]
fn the_largest_amounts_overflow_nothing() {
    let most = amounts(i64::MAX - 100, i64::MAX - 200, i64::MAX);
    for aim in [Aim::LeastAllocated, Aim::MostAllocated, rising(), Aim::BalancedAllocation] {
        let strategy = strategy(aim, &[("cpu", 100), ("memory", 100), (GPU, 100)]);
        assert!((0..=100).contains(&score(&strategy, &most, &most, &most)), "{strategy:?}");
    }
}
