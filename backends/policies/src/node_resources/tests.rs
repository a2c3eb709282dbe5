//! The policy as the gateway would see it, through the SDK's own answers.

use extender_policy_api::v1beta1::{self as api, Effects};
use extender_policy_sdk::{
    NodeUsage, NonZero,
    testing::{self, NodeFacts, PodFacts, TestNode, TestPod},
};

use proptest::prelude::*;

use super::*;
use crate::arbitrary;

fn policy(args: &str) -> NodeResources {
    NodeResources::new("node-resources", &Args::new(args.as_bytes()).unwrap()).unwrap()
}

fn cpu(milli_cpu: i64) -> Resources {
    Resources { milli_cpu, pods: 9, ..Resources::default() }
}

/// Of one CPU.
fn node(name: &str) -> TestNode {
    TestNode::from_facts(name, NodeFacts { allocatable: Some(cpu(1000)), ..NodeFacts::default() })
}

fn used(milli_cpu: i64) -> NodeUsage {
    let requested = Resources { pods: 1, ..cpu(milli_cpu) };
    NodeUsage { requested: Some(requested), nonzero: Some(NonZero { milli_cpu, memory: 0 }) }
}

fn nodes() -> [TestNode; 4] {
    [
        node("half").usage(used(500)),
        node("empty").usage(NodeUsage::default()),
        node("full").usage(used(1000)),
        node("unknown"),
    ]
}

fn pod(milli_cpu: i64) -> TestPod {
    let nonzero = NonZero { milli_cpu: milli_cpu.max(100), memory: 0 };
    PodFacts { requests: Some(cpu(milli_cpu)), nonzero_requests: Some(nonzero), ..PodFacts::default() }.into()
}

#[test]
fn nodes_without_room_and_nodes_of_unknown_usage_are_refused() {
    let refused = testing::filter(policy(""), &pod(600), &nodes()).unwrap();
    let refused: Vec<_> = refused.iter().map(|(node, reason)| (&**node, &**reason)).collect();
    let unknown = ("unknown", "what is requested on the node is not known");
    assert_eq!(refused, [("half", "Insufficient cpu"), ("full", "Insufficient cpu"), unknown]);
}

#[test]
fn the_strategy_of_the_args_scores() {
    let scores = |args, asked| testing::score(policy(args), &pod(asked), &nodes()).unwrap();
    let most = r#"{"scoringStrategy": {"type": "MostAllocated", "resources": [{"name": "cpu"}]}}"#;
    assert_eq!(scores("", 100), [40, 90, 0, 0]);
    assert_eq!(scores(most, 0), [60, 10, 100, 0]);
    let balanced = r#"{"scoringStrategy": {"type": "BalancedAllocation"}}"#;
    assert_eq!((scores(balanced, 0), scores(balanced, 1)), (vec![0; 4], vec![75, 75, 75, 0]));
}

#[test]
fn the_handshake_promises_a_function_of_allocatable_and_usage() {
    let verbs = testing::info(policy("")).unwrap().verbs;
    assert_eq!(verbs.len(), 2);
    let parts = [api::NodePart::Allocatable, api::NodePart::Usage].map(i32::from);
    for verb in &verbs {
        assert_eq!(verb.effects(), Effects::Pure);
        assert_eq!(verb.reads.clone().unwrap().node.unwrap().parts, parts);
    }
    assert_eq!((verbs[1].score_min, verbs[1].score_max), (Some(0), Some(100)));
}

#[test]
fn a_node_that_reports_nothing_has_nothing() {
    let bare = [TestNode::new("bare").usage(NodeUsage::default())];
    let refused = testing::filter(policy(""), &pod(1), &bare).unwrap();
    assert_eq!(refused, [("bare".to_owned(), "Too many pods, Insufficient cpu".to_owned())]);
    assert_eq!(testing::score(policy(""), &pod(1), &bare).unwrap(), [0]);
}

proptest! {
    #[test]
    fn what_is_not_declared_changes_no_answer(
        strategy in prop::sample::select(&["LeastAllocated", "MostAllocated", "BalancedAllocation"][..]),
        pod in arbitrary::pod(),
        nodes in arbitrary::nodes(),
    ) {
        let resources = r#"[{"name": "cpu"}, {"name": "memory"}, {"name": "example.com/gpu"}]"#;
        let args = format!(r#"{{"scoringStrategy": {{"type": "{strategy}", "resources": {resources}}}}}"#);
        let everything = || testing::everything(policy(&args));
        let refused = testing::filter(policy(&args), &pod, &nodes);
        prop_assert!(refused.is_ok(), "{refused:?}");
        prop_assert_eq!(refused, testing::filter(everything(), &pod, &nodes));
        let scores = testing::score(policy(&args), &pod, &nodes);
        prop_assert!(scores.is_ok(), "{scores:?}");
        prop_assert_eq!(scores, testing::score(everything(), &pod, &nodes));
    }
}
