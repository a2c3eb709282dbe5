//! Calls of verbs that declare what they read.

use super::*;
use crate::{
    Bind, BindAsk, BoxFuture, NodeKey, PodKey, Unanswered,
    backend::NamedArgs,
    digest::sha256,
    testing::{self, TestNode, TestPod},
};

/// Refuses nodes by their rack and size; scores by the length of the rack. Teams have special wishes.
struct Racks {
    reads: Reads,
    rack: NodeKey,
    team: PodKey,
}

impl Racks {
    fn new() -> Self {
        let mut reads = Reads::new();
        // Sent in the other order.
        reads.node_label("size");
        let rack = reads.node_label("rack");
        let team = reads.pod_label("team");
        Self { reads, rack, team }
    }
}

impl Policy for Racks {
    fn info(&self) -> Info {
        let verb = Verb::per_node().reads(&self.reads);
        let names = Verb::per_node().reads(&self.pods());
        Info::new("racks", "1").filters(verb.clone()).scores(verb, Scale::unbounded()).preempts(names)
    }

    fn filter(&self, pod: &Pod<'_>, node: &Node<'_>) -> Verdict {
        match pod.get(&self.team) {
            Some("zones") => node.label("zone").map_or(Verdict::Accept, |_| Verdict::reject("zone")),
            Some("taints") if node.taints().is_empty() => Verdict::Accept,
            Some("names") if node.name().is_empty() => Verdict::Accept,
            _ => Verdict::reject(format!("{:?} {:?}", node.get(&self.rack), node.label("size"))),
        }
    }

    fn score(&self, _: &Pod<'_>, node: &Node<'_>) -> i32 {
        i32::try_from(node.get(&self.rack).unwrap_or_default().len()).unwrap()
    }

    fn preempt(&self, _: &Pod<'_>, candidate: &Candidate<'_>) -> Eviction {
        Eviction::of(candidate, |victim| victim.pod().is_some_and(|pod| pod.get(&self.team).is_none()))
    }
}

impl Racks {
    /// What is read of pods.
    fn pods(&self) -> Reads {
        let mut reads = Reads::new();
        assert_eq!(reads.pod_label("team"), self.team);
        reads
    }
}

fn reads(backend: &Backend, verb: api::Verb) -> Bytes {
    let declared = backend.policy_for(NamedArgs::whole(&[]).unwrap()).unwrap();
    Bytes::copy_from_slice(declared.declaration.verb(verb).unwrap().reads_digest())
}

fn map(values: &[&str], absent: &[u32]) -> api::MapValues {
    let values = values.iter().map(|&value| value.to_owned()).collect();
    api::MapValues { values, absent: absent.into(), ..api::MapValues::default() }
}

/// Of labels "rack" and "size".
fn node(values: &[&str], absent: &[u32]) -> api::NodeRow {
    let facts = api::NodeFacts { labels: Some(map(values, absent)), ..api::NodeFacts::default() };
    api::NodeRow { facts: Some(facts), ..api::NodeRow::default() }
}

/// Of the label "team".
fn of_team(team: Option<&str>) -> api::Pod {
    let absent: &[u32] = if team.is_none() { &[0] } else { &[] };
    let labels = Some(map(&[team.unwrap_or_default()], absent));
    let facts = api::PodFacts { labels, ..api::PodFacts::default() };
    api::Pod { facts: Some(facts), ..api::Pod::default() }
}

fn request(team: &str, row: api::NodeRow) -> api::FilterRequest {
    let reads = reads(&Racks::new().into(), api::Verb::Filter);
    let call = Some(api::Call { reads, ..call() });
    let (pod, nodes) = (Some(of_team(Some(team))), Some(nodes(vec![row])));
    api::FilterRequest { call, pod, nodes, want_scores: false }
}

fn reason(request: &api::FilterRequest) -> String {
    filter(&Racks::new().into(), request).unwrap().rejections[0].reason.clone()
}

#[test]
fn values_are_found_by_their_positions_and_absent_is_not_empty() {
    for (values, absent, expected) in [
        (["r1", "5"], &[][..], "Some(\"r1\") Some(\"5\")"),
        (["", "5"], &[], "Some(\"\") Some(\"5\")"),
        (["", "5"], &[0], "None Some(\"5\")"),
        (["", ""], &[1], "Some(\"\") None"),
        (["", ""], &[0, 1], "None None"),
    ] {
        assert_eq!(reason(&request("shop", node(&values, absent))), expected);
    }
}

#[test]
fn what_is_not_declared_fails_the_call_and_is_named() {
    for (team, expected) in [
        ("zones", "label \"zone\" of the node is read and not declared; declare it with Reads::node_label"),
        (
            "taints",
            "Taints of the node is read and not declared; declare it with Reads::node(NodePart::Taints)",
        ),
        ("names", "Name of the node is read and not declared; declare it with Reads::node(NodePart::Name)"),
    ] {
        let error = filter(&Racks::new().into(), &request(team, node(&["r1", "5"], &[]))).unwrap_err();
        assert_eq!(status(error), (Code::Internal, format!("filter failed: {expected}")));
    }
}

#[test]
fn another_declaration_is_no_reason_to_guess() {
    let backend = Racks::new().into();
    let (declared, other) = (request("shop", node(&["r1", "5"], &[])), Bytes::from(vec![7; 32]));
    for (backend, request, reads) in [
        (&backend, &declared, Bytes::new()),
        (&backend, &declared, other.clone()),
        (&backend, &declared, reads(&backend, api::Verb::Filter).slice(..31)),
        (&super::backend(both()), &super::request(&["a"]), other),
    ] {
        let request = api::FilterRequest { call: Some(api::Call { reads, ..call() }), ..request.clone() };
        let refused = Status::from(filter(backend, &request).unwrap_err());
        let expected =
            "call.reads is not the SHA-256 of what this policy now declares to read; repeat the handshake";
        assert_eq!((refused.code(), refused.message()), (Code::FailedPrecondition, expected));
        assert_eq!(refused.metadata().get("extender-reason").unwrap(), "ERROR_REASON_OTHER_READS");
    }
}

#[test]
fn values_that_do_not_match_the_declaration_are_refused() {
    let with_pod = |values: &[&str], absent: &[u32]| {
        let labels = Some(map(values, absent)).filter(|map| *map != api::MapValues::default());
        let facts = api::PodFacts { labels, ..api::PodFacts::default() };
        let pod = Some(api::Pod { facts: Some(facts), ..api::Pod::default() });
        api::FilterRequest { pod, ..request("shop", node(&["r1", "5"], &[])) }
    };
    let mut annotated = node(&["r1", "5"], &[]);
    annotated.facts.as_mut().unwrap().annotations = Some(map(&["v"], &[]));
    for (request, expected) in [
        (
            request("shop", node(&["r1"], &[])),
            "nodes.rows.rows[0].facts.labels.values has 1 values, and 2 keys are declared",
        ),
        (request("shop", node(&["r1", "5", "9"], &[])), "labels.values has 3 values"),
        (request("shop", annotated), "annotations.values has 1 values, and 0 keys are declared"),
        (
            request("shop", node(&["", ""], &[2])),
            "nodes.rows.rows[0].facts.labels.absent is not a list of ascending positions below 2",
        ),
        (request("shop", node(&["", ""], &[1, 0])), "labels.absent is not a list of ascending positions"),
        (request("shop", node(&["", ""], &[0, 0])), "labels.absent is not a list of ascending positions"),
        (request("shop", node(&["", ""], &[u32::MAX])), "labels.absent is not a list of ascending positions"),
        (with_pod(&[], &[]), "pod.facts.labels.values has 0 values, and 1 keys are declared"),
        (with_pod(&[""], &[1]), "pod.facts.labels.absent is not a list of ascending positions below 1"),
    ] {
        let (code, text) = status(filter(&Racks::new().into(), &request).unwrap_err());
        assert_eq!(code, Code::InvalidArgument, "{text}");
        assert!(text.contains(expected), "{text:?} lacks {expected:?}");
    }
}

#[test]
fn scores_come_with_the_verdicts_if_both_read_the_same() {
    let request = api::FilterRequest { want_scores: true, ..request("shop", node(&["r17", "5"], &[])) };
    let scores = filter(&Racks::new().into(), &request).unwrap().scores;
    assert_eq!(scores.unwrap().values, [3]);
    let reads = Racks::new().reads;
    let filters = Info::new("one", "1").filters(Verb::per_node().reads(&reads));
    let others = Silent(filters.scores(everything(), Scale::unbounded()));
    assert_eq!(filter(&others.into(), &request).unwrap().scores, None);
}

#[test]
fn victims_are_read_as_the_pod_is() {
    let backend = Backend::from(Racks::new());
    let victim = |pod| api::Victim { uid: "u".into(), pod: Some(Box::new(pod)) };
    let mut request = api::PreemptRequest {
        call: Some(api::Call { reads: reads(&backend, api::Verb::Preempt), ..call() }),
        pod: Some(of_team(None)),
        nodes: Some(nodes(rows(&["n-1"]))),
        candidates: vec![api::Candidate {
            victims: vec![victim(of_team(Some(""))), victim(of_team(None))],
            ..api::Candidate::default()
        }],
    };
    let preempt = |request: &api::PreemptRequest| {
        at_once(
            "Preempt",
            super::super::preempt(&backend, &Tables::default(), &decoded(request), Patience::None),
        )
        .unwrap()
    };
    assert_eq!(preempt(&request).unwrap().kept[0].victims, [1]);
    request.candidates[0].victims[1] = victim(pod("shop"));
    let (code, text) = status(preempt(&request).unwrap_err());
    let expected = "candidates[0].victims[1].pod.facts.labels.values has 0 values, and 1 keys are declared";
    assert_eq!((code, &*text), (Code::InvalidArgument, expected));
}

/// Accepts everything.
struct Silent(Info);

impl Policy for Silent {
    fn info(&self) -> Info {
        self.0.clone()
    }

    fn filter(&self, _: &Pod<'_>, _: &Node<'_>) -> Verdict {
        Verdict::Accept
    }
}

/// Reads one label.
struct One(Reads, String);

impl One {
    fn new(label: u32) -> Self {
        let mut reads = Reads::new();
        reads.node_label(format!("label-{label}"));
        Self(reads, label.to_string())
    }
}

impl Policy for One {
    fn info(&self) -> Info {
        Info::new("one", "1").revision(&self.1).filters(Verb::per_node().reads(&self.0))
    }

    fn filter(&self, _: &Pod<'_>, _: &Node<'_>) -> Verdict {
        Verdict::Accept
    }
}

#[test]
fn a_replaced_policy_answers_what_was_asked_of_it() {
    let (backend, replace) = Backend::replaceable(One::new(0)).unwrap();
    let ids: Vec<_> = (0..=17).map(|label| reads(&One::new(label).into(), api::Verb::Filter)).collect();
    let answered = |reads: &Bytes| {
        let call = Some(api::Call { reads: reads.clone(), ..call() });
        let request = api::FilterRequest { call, ..request("shop", node(&["v"], &[])) };
        let request = api::FilterRequest { pod: Some(pod("shop")), ..request };
        filter(&backend, &request).map(|answer| answer.result.unwrap().revision).map_err(status)
    };
    assert_eq!(answered(&ids[0]).unwrap(), "0");
    for label in 1..=16 {
        replace.with(One::new(label)).unwrap();
        // The same declaration again takes no place.
        replace.with(One::new(label)).unwrap();
    }
    assert_eq!((answered(&ids[16]).unwrap(), answered(&ids[0]).unwrap()), ("16".to_owned(), "0".to_owned()));
    assert_eq!(answered(&ids[17]).unwrap_err().0, Code::FailedPrecondition);
    replace.with(One::new(17)).unwrap();
    assert_eq!((answered(&ids[17]).unwrap(), answered(&ids[1]).unwrap()), ("17".to_owned(), "1".to_owned()));
    assert_eq!(answered(&ids[0]).unwrap_err().0, Code::FailedPrecondition);
}

/// Accepts every node.
struct ReadsNothing;

impl Policy for ReadsNothing {
    fn info(&self) -> Info {
        Info::new("nothing", "1").filters(Verb::per_node())
    }

    fn filter(&self, _: &Pod<'_>, _: &Node<'_>) -> Verdict {
        Verdict::Accept
    }
}

#[test]
fn rows_are_empty_where_nothing_is_read_of_nodes() {
    let asked = |backend: &Backend, pod| {
        let call = api::Call { reads: reads(backend, api::Verb::Filter), ..call() };
        let (pod, nodes) = (Some(pod), Some(nodes(vec![api::NodeRow::default()])));
        let request = api::FilterRequest { call: Some(call), pod, nodes, want_scores: false };
        // As it comes from a socket.
        let request = crate::codec::decode::<FilterRequest>(request.encode_to_vec().into())?;
        at_once("Filter", super::super::filter(backend, &Tables::default(), &request, Patience::None))
            .unwrap()
    };
    assert_eq!(evaluated(asked(&ReadsNothing.into(), pod("")).unwrap().result), 1);
    let error = asked(&Racks::new().into(), of_team(None)).unwrap_err();
    let text = "nodes.rows.rows[0].facts is missing; this policy declares that it reads it";
    assert_eq!(status(error), (Code::InvalidArgument, text.to_owned()));
}

/// Answers with the id of the call, by the declaration.
struct Ids(Info);

impl Policy for Ids {
    fn info(&self) -> Info {
        self.0.clone()
    }

    fn filter(&self, pod: &Pod<'_>, _: &Node<'_>) -> Verdict {
        Verdict::reject(pod.call_id().to_owned())
    }

    fn score(&self, pod: &Pod<'_>, _: &Node<'_>) -> i32 {
        i32::try_from(pod.call_id().len()).unwrap()
    }

    fn bind<'a>(&'a self, ask: BindAsk<'a>) -> BoxFuture<'a, Result<Bind, Unanswered>> {
        Box::pin(async move { Ok(Bind::Declined(ask.call_id().to_owned())) })
    }
}

#[tokio::test]
async fn the_id_of_a_call_is_for_verbs_that_are_not_pure() {
    let (asked, pure) = (Verb::per_node, Verb::per_node().pure());
    let ids = |filter, score| Backend::from(Ids(both_of(filter, score)));
    let (pod, node) = (TestPod::new("shop").call_id("c-7"), [TestNode::new("a")]);
    let rejected = testing::filter(ids(asked(), pure.clone()), &pod, &node).unwrap();
    assert_eq!(rejected, [("a".to_owned(), "c-7".to_owned())]);
    let error = testing::filter(ids(pure.clone(), asked()), &pod, &node).unwrap_err().to_string();
    let expected =
        "call_id is another one in each call, which a pure verb cannot read; declare it without pure";
    assert!(error.ends_with(expected), "{error}");
    let declined = testing::bind(Ids(Info::new("ids", "1").binds()), &TestPod::new("shop"), "a").await;
    assert_eq!(declined.unwrap(), Bind::Declined("test".into()));
    // Also where they come with the verdicts, they are those of their own verb.
    for (score, come) in [(pure, false), (asked(), true)] {
        let reads = Bytes::copy_from_slice(&sha256(b""));
        let call = Some(api::Call { reads, ..call() });
        let request = api::FilterRequest { call, want_scores: true, ..super::request(&["a"]) };
        assert_eq!(filter(&ids(asked(), score), &request).unwrap().scores.is_some(), come);
    }
}

fn both_of(filter: Verb, score: Verb) -> Info {
    Info::new("ids", "1").filters(filter).scores(score, Scale::unbounded())
}
