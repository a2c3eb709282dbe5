//! Policies that read counts of the pods in the cluster by topology: what tests of them are sent, and calls over real
//! sockets.

use extender_policy_api::v1beta1::{
    Call, DomainCount, FilterResponse, MapValues, NodeFacts, NodeRow, OwnerReference, PodFacts,
    TopologyCounts, policy_service_client::PolicyServiceClient,
};
use extender_policy_sdk::{
    Info, Node, Pod, PodsBy, Policy, Reads, Resources, TopologyKey, Verb, Verdict,
    testing::{self, TestNode, TestPod},
};
use tonic::{Code, Status, transport::Channel};

use crate::{call, declared, filter_request, reads_of, served, web};

/// Refuses each node, and says what it knows of the pods in its domain that are like the pod.
struct Siblings {
    reads: Reads,
    key: TopologyKey,
}

impl Siblings {
    fn by(by: PodsBy, topology_key: &str) -> Self {
        let mut reads = Reads::new();
        // Others before and after it.
        reads.pods_by_topology(PodsBy::Owner, "a");
        let key = reads.pods_and_requests_by_topology(by, topology_key);
        reads.pods_by_topology(PodsBy::label("zzz"), "zone");
        Self { reads, key }
    }
}

impl Policy for Siblings {
    fn info(&self) -> Info {
        Info::new("siblings", "1").filters(Verb::per_node().pure().reads(&self.reads))
    }

    fn filter(&self, pod: &Pod<'_>, node: &Node<'_>) -> Verdict {
        let Some(domains) = pod.pods_like(&self.key) else { return Verdict::reject("none are like it") };
        let Some(like) = domains.of(node) else { return Verdict::reject("in no domain") };
        let Some(count) = like.counted() else {
            return Verdict::reject(format!("{} to {}", like.at_least(), like.at_most()));
        };
        let Resources { milli_cpu, others, .. } = count.requested();
        let (namespace, value) = (count.namespace().unwrap_or("-"), count.value());
        let (pods, terminating) = (count.pods(), count.terminating());
        Verdict::reject(format!(
            "{namespace} {value:?}:{pods}, {terminating} terminating, {milli_cpu}m {others:?}"
        ))
    }
}

fn reasons(policy: impl Policy, pod: &TestPod, nodes: &[TestNode]) -> Vec<String> {
    let refused = testing::filter(policy, pod, nodes).unwrap();
    refused.into_iter().map(|(_, reason)| reason).collect()
}

/// The pod to be placed, which requests one extended resource of the two that are in use.
fn new_web() -> TestPod {
    let others = [("example.com/gpu".to_owned(), 1)].into();
    web().requests(Resources { others, ..Resources::default() })
}

/// Two nodes of zone z1, one of z2 that is empty, and one without a zone.
fn cluster() -> [TestNode; 4] {
    let others = ["example.com/gpu", "example.com/nic"].map(|name| (name.to_owned(), 1)).into();
    let requests = Resources { milli_cpu: 100, pods: 7, others, ..Resources::default() };
    [
        TestNode::new("n1").label("zone", "z1").running(&web().requests(requests), 3),
        TestNode::new("n2")
            .label("zone", "z1")
            .terminating(&TestPod::new("shop").label("app", "web"), 2)
            .running(&TestPod::new("bank").label("app", "web").owner("u0").priority_class("low"), 4),
        TestNode::new("n3").label("zone", "z2"),
        TestNode::new("n4").running(&web(), 1),
    ]
}

#[test]
fn pods_are_added_up_over_the_nodes_of_a_domain() {
    let gpus = r#"300m {"example.com/gpu": 3}"#;
    for (by, first, empty) in [
        (PodsBy::Owner, "- \"u1\":3, 0", "- \"u1\":0, 0"),
        (PodsBy::Namespace, "shop \"shop\":5, 2", "shop \"shop\":0, 0"),
        (PodsBy::label("app"), "shop \"web\":5, 2", "shop \"web\":0, 0"),
        (PodsBy::PriorityClass, "- \"high\":3, 0", "- \"high\":0, 0"),
    ] {
        let first = format!("{first} terminating, {gpus}");
        let expected = [&first, &first, &format!("{empty} terminating, 0m {{}}"), "in no domain"];
        assert_eq!(reasons(Siblings::by(by, "zone"), &new_web(), &cluster()), expected);
    }
}

#[test]
fn the_cluster_is_one_domain_with_all_nodes() {
    let all = "shop \"shop\":6, 2 terminating, 300m {\"example.com/gpu\": 3}";
    assert_eq!(reasons(Siblings::by(PodsBy::Namespace, ""), &new_web(), &cluster()), [all; 4]);
    let none = "mill \"mill\":0, 0 terminating, 0m {}";
    assert_eq!(reasons(Siblings::by(PodsBy::Namespace, ""), &TestPod::new("mill"), &cluster()), [none; 4]);
}

#[test]
fn a_pod_without_the_attribute_has_no_siblings() {
    let bare = TestPod::new("mill");
    for by in [PodsBy::Owner, PodsBy::label("app"), PodsBy::PriorityClass] {
        assert_eq!(reasons(Siblings::by(by, "zone"), &bare, &cluster()), ["none are like it"; 4]);
    }
}

#[test]
fn a_domain_that_is_left_out_is_not_empty() {
    let pod = web();
    let mut nodes: Vec<_> = (0..4_100)
        .map(|number| {
            let node = TestNode::new("n").label("zone", format!("{number:04}"));
            node.running(&pod, if number == 4_099 { 3 } else { 2 })
        })
        .collect();
    nodes.push(TestNode::new("n").label("zone", "empty"));
    let told = reasons(Siblings::by(PodsBy::Owner, "zone"), &pod, &nodes);
    // Eight pods are in the four domains that are left out, but none of these has more than the others.
    assert_eq!((&*told[0], &*told[4_098]), ("- \"u1\":2, 0 terminating, 0m {}", "0 to 2"));
    assert_eq!((&*told[4_099], &*told[4_100]), ("- \"u1\":3, 0 terminating, 0m {}", "0 to 2"));
}

/// Refuses each node with all domains.
struct All {
    reads: Reads,
    key: TopologyKey,
}

impl Policy for All {
    fn info(&self) -> Info {
        Info::new("all", "1").filters(Verb::per_node().reads(&self.reads))
    }

    fn filter(&self, pod: &Pod<'_>, _: &Node<'_>) -> Verdict {
        let domains = pod.pods_like(&self.key).unwrap();
        if pod.label("curious").is_some() {
            let memory: i64 = domains.iter().map(|(_, count)| count.requested().memory).sum();
            return Verdict::reject(memory.to_string());
        }
        let each = domains.iter().map(|(value, count)| format!("{value}={}", count.pods()));
        let (each, omitted) = (each.collect::<Vec<_>>().join(" "), domains.omitted_pods());
        Verdict::reject(format!("{each}, {omitted} omitted"))
    }
}

fn all() -> All {
    let mut reads = Reads::new();
    let key = reads.pods_by_topology(PodsBy::Namespace, "zone");
    reads.pod_label("curious");
    All { reads, key }
}

#[test]
fn all_domains_come_in_order() {
    let nodes = cluster();
    let nodes = [&nodes[..], &[TestNode::new("n0").label("zone", "z0").running(&web(), 1)]].concat();
    assert_eq!(reasons(all(), &web(), &nodes)[0], "z0=1 z1=5, 0 omitted");
}

#[test]
fn sums_that_are_not_declared_are_not_read() {
    let pod = web().label("curious", "");
    let error = testing::filter(all(), &pod, &cluster()).unwrap_err().to_string();
    let expected = "declare it with Reads::pods_and_requests_by_topology(PodsBy::Namespace, \"zone\")";
    assert!(error.contains(expected), "{error}");
}

/// A call about a node of zone z1 and one without a zone.
async fn filtered(channel: &Channel, topology_counts: Vec<TopologyCounts>) -> Result<FilterResponse, Status> {
    let reads = reads_of(&declared(channel).await);
    let owner = Some(OwnerReference { uid: "u1".into(), ..OwnerReference::default() });
    let labels = |values: &[&str], absent: &[u32]| {
        let values = values.iter().map(|&value| value.to_owned()).collect();
        Some(MapValues { values, absent: absent.to_vec(), ..MapValues::default() })
    };
    let facts =
        PodFacts { owner, namespace: "shop".into(), labels: labels(&[""], &[0]), ..PodFacts::default() };
    let row = |zone: &str, absent: &[u32]| {
        let facts = NodeFacts { labels: labels(&["", zone], absent), ..NodeFacts::default() };
        NodeRow { name: "n".into(), facts: Some(facts), ..NodeRow::default() }
    };
    let mut request = filter_request(facts, vec![row("z1", &[0]), row("", &[0, 1])]);
    request.call = Some(Call { reads, ..call() });
    request.pod.as_mut().unwrap().topology_counts = topology_counts;
    Ok(PolicyServiceClient::new(channel.clone()).filter(request).await?.into_inner())
}

fn domain(value: &str, pods: u32) -> DomainCount {
    let requested = Some(Resources { milli_cpu: 50, ..Resources::default() });
    DomainCount { value: value.into(), pods, requested, ..DomainCount::default() }
}

fn counts(domains: Vec<DomainCount>) -> TopologyCounts {
    TopologyCounts { domains, omitted_pods: 0 }
}

#[tokio::test]
async fn counts_come_with_the_pod_in_the_declared_order() {
    let channel = served(Siblings::by(PodsBy::Namespace, "zone")).await;
    let zones = counts(vec![domain("", 8), domain("z1", 2), domain("z2", 7)]);
    let sent = vec![counts(vec![domain("z1", 9)]), zones, TopologyCounts::default()];
    let answer = filtered(&channel, sent).await.unwrap();
    let reasons: Vec<_> = answer.rejections.iter().map(|rejection| &*rejection.reason).collect();
    assert_eq!(reasons, ["shop \"shop\":2, 0 terminating, 50m {}", "in no domain"]);
    let omitting = TopologyCounts { domains: vec![domain("z2", 7)], omitted_pods: 9 };
    let sent = vec![TopologyCounts::default(), omitting, TopologyCounts::default()];
    let answer = filtered(&channel, sent).await.unwrap();
    assert_eq!(answer.rejections[0].reason, "0 to 7");
}

#[tokio::test]
async fn counts_other_than_declared_are_invalid() {
    let channel = served(Siblings::by(PodsBy::Namespace, "zone")).await;
    let none = TopologyCounts::default;
    let unordered = counts(vec![domain("b", 1), domain("a", 1)]);
    let repeated = counts(vec![domain("a", 1), domain("a", 1)]);
    for (sent, expected) in [
        (vec![], "pod.topology_counts has 0 entries, and 3 are declared"),
        (vec![none(); 4], "pod.topology_counts has 4 entries, and 3 are declared"),
        (
            vec![none(), unordered, none()],
            "pod.topology_counts[1].domains is not in ascending order of value",
        ),
        (vec![none(), none(), repeated], "pod.topology_counts[2].domains is not in ascending order of value"),
    ] {
        let error = filtered(&channel, sent).await.unwrap_err();
        assert_eq!(error.code(), Code::InvalidArgument, "{error}");
        assert!(error.message().contains(expected), "{error}");
    }
}

#[test]
fn a_verb_that_reads_nothing_of_nodes_has_counts_of_the_cluster() {
    struct Names(Reads, TopologyKey);
    impl Policy for Names {
        fn info(&self) -> Info {
            Info::new("names", "1").filters(Verb::per_node().reads(&self.0))
        }

        fn filter(&self, pod: &Pod<'_>, node: &Node<'_>) -> Verdict {
            let like = pod.pods_like(&self.1).and_then(|domains| domains.of(node));
            Verdict::reject(like.map_or(0, |like| like.at_most()).to_string())
        }
    }
    let mut reads = Reads::new();
    let key = reads.pods_by_topology(PodsBy::Owner, "");
    assert_eq!(reasons(Names(reads, key), &web(), &cluster()), ["4"; 4]);
}
