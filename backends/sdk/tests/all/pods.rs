//! Policies that read counts of the pods on nodes: what tests of them are sent.

use extender_policy_api::v1beta1::NodeFacts;
use extender_policy_sdk::{
    Info, Node, Pod, PodsBy, PodsKey, Policy, Reads, Resources, Verb, Verdict,
    testing::{self, TestNode, TestPod},
};

use crate::web;

/// Refuses each node, and says what it knows of the pods on it that are like the pod.
struct Siblings {
    reads: Reads,
    key: PodsKey,
}

impl Siblings {
    fn by(by: PodsBy) -> Self {
        let mut reads = Reads::new();
        // Others before and after it.
        reads.pods_and_requests_by(PodsBy::Owner);
        let key = reads.pods_and_requests_by(by);
        reads.pods_by(PodsBy::label("zzz"));
        Self { reads, key }
    }
}

impl Policy for Siblings {
    fn info(&self) -> Info {
        Info::new("siblings", "1").filters(Verb::per_node().pure().reads(&self.reads))
    }

    fn filter(&self, pod: &Pod<'_>, node: &Node<'_>) -> Verdict {
        Verdict::reject(match node.pods_like(&self.key, pod) {
            None => "none are like it".to_owned(),
            Some(like) => match like.counted() {
                None => format!("{} to {}", like.at_least(), like.at_most()),
                Some(count) => {
                    let Resources { milli_cpu, others, .. } = count.requested();
                    let (namespace, value) = (count.namespace().unwrap_or("-"), count.value());
                    let (pods, terminating) = (count.pods(), count.terminating());
                    format!(
                        "{namespace} {value:?}: {pods}, {terminating} terminating, {milli_cpu}m {others:?}"
                    )
                }
            },
        })
    }
}

fn reason(policy: impl Policy, pod: &TestPod, node: &TestNode) -> String {
    let mut refused = testing::filter(policy, pod, std::slice::from_ref(node)).unwrap();
    refused.remove(0).1
}

/// With pods of which some are like [`web`].
fn busy() -> TestNode {
    let gpus = [("example.com/gpu".to_owned(), 1), ("example.com/other".to_owned(), 1)].into();
    let requests = Resources { milli_cpu: 100, pods: 7, others: gpus, ..Resources::default() };
    let reported = Resources { others: [("example.com/gpu".to_owned(), 8)].into(), ..Resources::default() };
    let facts = NodeFacts { allocatable: Some(reported), ..NodeFacts::default() };
    TestNode::from_facts("busy", facts)
        .running(&web().requests(requests), 3)
        .terminating(&TestPod::new("shop").label("app", "web"), 2)
        .running(&TestPod::new("bank").label("app", "web").owner("u0").priority_class("low"), 4)
        .running(&TestPod::new("shop").label("app", ""), 1)
        .running(&TestPod::new("bank").owner("u2"), 0)
}

#[test]
fn pods_are_counted_by_each_attribute() {
    let gpus = r#"300m {"example.com/gpu": 3}"#;
    for (by, expected) in [
        (PodsBy::Owner, format!("- \"u1\": 3, 0 terminating, {gpus}")),
        (PodsBy::Namespace, format!("shop \"shop\": 6, 2 terminating, {gpus}")),
        (PodsBy::label("app"), format!("shop \"web\": 5, 2 terminating, {gpus}")),
        (PodsBy::PriorityClass, format!("- \"high\": 3, 0 terminating, {gpus}")),
    ] {
        assert_eq!(reason(Siblings::by(by), &web(), &busy()), expected);
    }
}

#[test]
fn pods_that_are_not_there_are_none_and_pods_without_the_attribute_have_no_siblings() {
    let other = TestPod::new("mill").label("app", "db").owner("u9").priority_class("none");
    let bare = TestPod::new("mill");
    for (by, none) in [
        (PodsBy::Owner, "- \"u9\": 0, 0 terminating, 0m {}"),
        (PodsBy::Namespace, "mill \"mill\": 0, 0 terminating, 0m {}"),
        (PodsBy::label("app"), "mill \"db\": 0, 0 terminating, 0m {}"),
        (PodsBy::PriorityClass, "- \"none\": 0, 0 terminating, 0m {}"),
    ] {
        assert_eq!(reason(Siblings::by(by.clone()), &other, &busy()), none);
        let lacks = if by == PodsBy::Namespace { none } else { "none are like it" };
        assert_eq!(reason(Siblings::by(by), &bare, &busy()), lacks);
    }
    let empty = TestPod::new("shop").label("app", "");
    let counted = "shop \"\": 1, 0 terminating, 0m {}";
    assert_eq!(reason(Siblings::by(PodsBy::label("app")), &empty, &busy()), counted);
}

#[test]
fn a_count_that_is_left_out_is_not_0() {
    let crowd = (0..513).fold(busy(), |node, number| {
        node.running(
            &TestPod::new("crowd").label("app", format!("{number:03}")),
            1 + u32::from(number == 512),
        )
    });
    let app = |value: &str| TestPod::new("crowd").label("app", value);
    let told = |pod: &TestPod| reason(Siblings::by(PodsBy::label("app")), pod, &crowd);
    // Of 516 counts, those of the most pods are sent: four of one pod are left out.
    assert_eq!(told(&web()), "shop \"web\": 5, 2 terminating, 300m {\"example.com/gpu\": 3}");
    assert_eq!(told(&app("512")), "crowd \"512\": 2, 0 terminating, 0m {}");
    assert_eq!(told(&app("absent")), "0 to 4");
    let long = TestNode::new("n").running(&app(&"v".repeat(254)), 2).running(&app("v"), 1);
    let told = |pod: &TestPod| reason(Siblings::by(PodsBy::label("app")), pod, &long);
    assert_eq!(told(&app(&"v".repeat(254))), "0 to 2");
    assert_eq!(told(&app("v")), "crowd \"v\": 1, 0 terminating, 0m {}");
}

/// Refuses each node with the counts of its pods.
struct All {
    reads: Reads,
    key: PodsKey,
}

impl Policy for All {
    fn info(&self) -> Info {
        Info::new("all", "1").filters(Verb::per_node().reads(&self.reads))
    }

    fn filter(&self, pod: &Pod<'_>, node: &Node<'_>) -> Verdict {
        if pod.label("curious").is_some() {
            let memory: i64 = node.pod_counts(&self.key).map(|count| count.requested().memory).sum();
            return Verdict::reject(memory.to_string());
        }
        let count = node.pod_counts(&self.key).map(|count| {
            let namespace = count.namespace().unwrap_or_default();
            format!("{namespace}/{}={}-{}", count.value(), count.pods(), count.terminating())
        });
        let (counts, omitted) = (count.collect::<Vec<_>>().join(" "), node.omitted_pods(&self.key));
        Verdict::reject(format!("{counts}, {omitted} omitted"))
    }
}

fn all() -> All {
    let mut reads = Reads::new();
    let key = reads.pods_by(PodsBy::label("app"));
    reads.pod_label("curious");
    All { reads, key }
}

#[test]
fn all_counts_come_in_order() {
    let pod = TestPod::new("mill");
    let expected = "bank/web=4-0 shop/=1-0 shop/web=5-2, 0 omitted";
    assert_eq!(reason(all(), &pod, &busy()), expected);
    let empty = TestNode::new("n").running(&pod, 5);
    assert_eq!(reason(all(), &pod, &empty), ", 0 omitted");
}

#[test]
fn sums_that_are_not_declared_are_not_read() {
    let pod = TestPod::new("mill").label("curious", "");
    let error = testing::filter(all(), &pod, &[busy()]).unwrap_err().to_string();
    let expected = "declare it with Reads::pods_and_requests_by(PodsBy::label(\"app\"))";
    assert!(error.contains(expected), "{error}");
}
