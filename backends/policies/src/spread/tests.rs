//! The policy as the gateway would see it, through the SDK's own answers.

use extender_policy_api::v1beta1::Effects;
use extender_policy_sdk::{
    Resources,
    testing::{self, TestNode, TestPod},
};
use proptest::prelude::*;

use super::*;
use crate::arbitrary;

const RACKS: &str = r#"{"constraints": [
    {"topologyKey": "topology.acme.io/rack", "maxPods": 2, "whenUnsatisfiable": "DoNotSchedule", "by": "Owner"}]}"#;
const SOFT: &str = r#"{"constraints": [
    {"topologyKey": "topology.acme.io/rack", "whenUnsatisfiable": "ScheduleAnyway", "by": "Owner"},
    {"topologyKey": "zone", "whenUnsatisfiable": "ScheduleAnyway", "by": {"label": "app"}}]}"#;

fn policy(args: &str) -> Spread {
    Spread::new("spread", &Args::new(args.as_bytes()).unwrap()).unwrap()
}

fn hard(fields: &str) -> Spread {
    policy(&format!(r#"{{"constraints": [{{"whenUnsatisfiable": "DoNotSchedule", {fields}}}]}}"#))
}

fn node(name: &str, rack: &str) -> TestNode {
    TestNode::new(name).label("topology.acme.io/rack", rack)
}

fn web() -> TestPod {
    TestPod::new("shop").owner("web").label("app", "web").priority_class("high")
}

/// Rack r1 has two nodes and two pods, r2 one and one that is being deleted, r3 none; one node is in no rack.
fn nodes() -> [TestNode; 5] {
    [
        node("a", "r1").running(&web(), 1),
        node("b", "r1").running(&web(), 1).running(&TestPod::new("shop").owner("db"), 5),
        node("c", "r2").running(&web(), 1).terminating(&web(), 1),
        node("d", "r3"),
        TestNode::new("e"),
    ]
}

fn refused(policy: Spread, pod: &TestPod, nodes: &[TestNode]) -> Vec<(String, String)> {
    testing::filter(policy, pod, nodes).unwrap()
}

fn reasons(policy: Spread, pod: &TestPod, nodes: &[TestNode]) -> Vec<String> {
    refused(policy, pod, nodes).into_iter().map(|(_, reason)| reason).collect()
}

#[test]
fn a_domain_that_has_reached_the_limit_is_refused_and_so_is_a_node_in_none() {
    let full = "rack r1 has 2 pods of this owner; at most 2 are allowed";
    let missing = "node has no label topology.acme.io/rack, by which pods of this owner are limited";
    let expected = [("a", full), ("b", full), ("e", missing)];
    let expected = expected.map(|(node, reason)| (node.to_owned(), reason.to_owned()));
    assert_eq!(refused(policy(RACKS), &web(), &nodes()), expected);
}

#[test]
fn a_pod_that_has_nothing_in_common_is_not_limited() {
    assert_eq!(refused(policy(RACKS), &TestPod::new("shop"), &nodes()), []);
}

#[test]
fn reasons_say_what_the_pods_have_in_common() {
    for (fields, expected) in [
        (
            r#""topologyKey": "topology.acme.io/rack", "by": "Owner", "maxPods": 1"#,
            "rack r2 has 1 pod of this owner; at most 1 is allowed",
        ),
        (
            r#""topologyKey": "topology.acme.io/rack", "by": "Namespace", "maxPods": 1"#,
            "rack r2 has 1 pod of this namespace; at most 1 is allowed",
        ),
        (
            r#""topologyKey": "topology.acme.io/rack", "by": "PriorityClass", "maxPods": 1"#,
            "rack r2 has 1 pod of this priority class; at most 1 is allowed",
        ),
        (
            r#""topologyKey": "topology.acme.io/rack", "by": {"label": "app"}, "maxPods": 1"#,
            "rack r2 has 1 pod with the same app; at most 1 is allowed",
        ),
        (
            r#""topologyKey": "", "by": "Owner", "maxPods": 3"#,
            "the cluster has 3 pods of this owner; at most 3 are allowed",
        ),
    ] {
        assert!(
            reasons(hard(fields), &web(), &nodes()).iter().any(|reason| reason == expected),
            "{expected}"
        );
    }
}

#[test]
fn the_whole_cluster_has_no_label_that_a_node_could_lack() {
    let most = |pods| hard(&format!(r#""topologyKey": "", "by": "Owner", "maxPods": {pods}"#));
    assert_eq!(refused(most(3), &web(), &nodes()).len(), 5);
    assert_eq!(refused(most(4), &web(), &nodes()), []);
}

#[test]
fn the_first_constraint_that_a_node_exceeds_is_its_reason() {
    let args = r#"{"constraints": [
        {"topologyKey": "topology.acme.io/rack", "maxPods": 1, "whenUnsatisfiable": "DoNotSchedule", "by": "Owner"},
        {"topologyKey": "", "maxPods": 3, "whenUnsatisfiable": "DoNotSchedule", "by": "Owner"}]}"#;
    let reasons = reasons(policy(args), &web(), &nodes());
    assert_eq!(reasons[2], "rack r2 has 1 pod of this owner; at most 1 is allowed");
    assert_eq!(reasons[3], "the cluster has 3 pods of this owner; at most 3 are allowed");
}

/// The gateway sends the 4,096 domains with the most pods.
#[test]
fn a_domain_whose_count_is_left_out_could_be_full() {
    let mut nodes: Vec<_> = (0..4_097).map(|n| node("n", &format!("r{n:04}")).running(&web(), 2)).collect();
    nodes.push(node("n", "empty"));
    let reasons = reasons(policy(RACKS), &web(), &nodes);
    assert_eq!(reasons.len(), 4_098);
    assert_eq!(reasons[4_097], "rack empty has up to 2 pods of this owner; at most 2 are allowed");
}

#[test]
fn what_the_pods_of_a_domain_request_is_limited_together() {
    let gpus = |gpus: i64, milli_cpu: i64| {
        let others = [("example.com/gpu".to_owned(), gpus)].into();
        TestPod::new("shop").requests(Resources { milli_cpu, others, ..Resources::default() })
    };
    let nodes = [TestNode::new("a").running(&gpus(3, 500), 2), TestNode::new("b")];
    let tenant =
        || hard(r#""topologyKey": "", "by": "Namespace", "maxRequests": {"cpu": 2, "example.com/gpu": 8}"#);
    let told = |pod: &TestPod| reasons(tenant(), pod, &nodes);
    assert_eq!(told(&gpus(2, 1_000)), [""; 0]);
    let gpu = "pods of this namespace may request at most 8 example.com/gpu in the cluster";
    assert_eq!(told(&gpus(3, 1_000)), [gpu; 2]);
    let cpu = "pods of this namespace may request at most 2 cpu in the cluster";
    assert_eq!(told(&gpus(0, 1_001)), [cpu; 2]);
    // A pod that requests nothing of a resource does not make its shortage worse.
    assert_eq!(told(&gpus(0, 0)), [""; 0]);
    assert_eq!(reasons(tenant(), &TestPod::new("bank").requests(Resources::default()), &nodes), [""; 0]);
}

#[test]
fn domains_with_fewer_pods_are_preferred_and_nodes_in_none_are_last() {
    let racks = r#"{"constraints": [
        {"topologyKey": "topology.acme.io/rack", "whenUnsatisfiable": "ScheduleAnyway", "by": "Owner"}]}"#;
    assert_eq!(testing::score(policy(racks), &web(), &nodes()).unwrap(), [2, 2, 1, 0, 3]);
    assert_eq!(testing::score(policy(racks), &TestPod::new("shop"), &nodes()).unwrap(), [0; 5]);
    let zoned = nodes().map(|node| node.label("zone", "z"));
    assert_eq!(testing::score(policy(SOFT), &web(), &zoned).unwrap(), [5, 5, 4, 3, 7]);
}

#[test]
fn the_handshake_has_the_verbs_of_the_constraints() {
    let verbs = |args| {
        let verbs = testing::info(policy(args)).unwrap().verbs;
        assert!(verbs.iter().all(|verb| verb.effects() == Effects::Pure));
        verbs.into_iter().map(|verb| verb.verb().as_str_name()).collect::<Vec<_>>()
    };
    assert_eq!(verbs(RACKS), ["VERB_FILTER"]);
    assert_eq!(verbs(SOFT), ["VERB_SCORE"]);
    assert_eq!(verbs(BOTH), ["VERB_FILTER", "VERB_SCORE"]);
}

/// Of labels that [`arbitrary`] nodes and pods have.
const BOTH: &str = r#"{"constraints": [
    {"topologyKey": "a", "maxPods": 2, "whenUnsatisfiable": "DoNotSchedule", "by": "Owner"},
    {"topologyKey": "b", "maxPods": 1, "whenUnsatisfiable": "DoNotSchedule", "by": {"label": "c"}},
    {"topologyKey": "", "maxPods": 4, "maxRequests": {"example.com/gpu": 5, "cpu": 1},
     "whenUnsatisfiable": "DoNotSchedule", "by": "Namespace"},
    {"topologyKey": "d", "whenUnsatisfiable": "ScheduleAnyway", "by": "PriorityClass"},
    {"topologyKey": "a", "whenUnsatisfiable": "ScheduleAnyway", "by": {"label": "e"}}]}"#;

proptest! {
    #[test]
    fn what_is_not_declared_changes_no_answer(pod in arbitrary::pod(), nodes in arbitrary::nodes()) {
        let everything = || testing::everything(policy(BOTH));
        let refused = testing::filter(policy(BOTH), &pod, &nodes);
        prop_assert!(refused.is_ok(), "{refused:?}");
        prop_assert_eq!(refused, testing::filter(everything(), &pod, &nodes));
        let scores = testing::score(policy(BOTH), &pod, &nodes);
        prop_assert!(scores.is_ok(), "{scores:?}");
        prop_assert_eq!(scores, testing::score(everything(), &pod, &nodes));
    }
}
