//! Responses that break a rule are failures, and cost nothing.

use std::collections::BTreeMap;

use allocation_counter::measure;
use extender_policy_api::v1alpha1::{
    self as api, BeforeScoreResponse, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, Taint,
    Toleration,
};
use proptest::prelude::*;
use prost::Message;

use super::*;

fn everything() -> ChangedParts {
    ChangedParts::new((1..=9).map(|part| ChangedPart::try_from(part).unwrap()))
}

fn response(pod: Option<PodChange>, nodes: Vec<NodeChange>) -> BeforeScoreResponse {
    let result = Some(api::Result { evaluated: 3, miss: 0, revision: "r1".to_owned() });
    BeforeScoreResponse { result, pod, nodes }
}

fn read(response: &BeforeScoreResponse) -> Result<Changes, String> {
    let read = changes(response.encode_to_vec().into(), 3, everything()).and_then(Reply::inline);
    read.map(|answered| answered.value).map_err(|failure| failure.detail)
}

fn labels(entries: impl IntoIterator<Item = (String, String)>) -> BTreeMap<String, String> {
    entries.into_iter().collect()
}

fn at(positions: &[u32], change: NodeChange) -> NodeChange {
    NodeChange { positions: positions.to_vec(), ..change }
}

#[test]
fn changes_of_a_response_are_read() {
    let taint = Taint { key: "a".to_owned(), ..Taint::default() };
    let node = NodeChange { remove_taints: vec![taint], reason: "é".repeat(150), ..NodeChange::default() };
    let pod = PodChange { remove_labels: vec!["app".to_owned()], ..PodChange::default() };
    let told = read(&response(Some(pod.clone()), vec![at(&[2, 0], node.clone())])).unwrap();
    assert_eq!(told.pod, Some(Arc::new(pod)));
    assert_eq!(told.nodes[0].positions, [2, 0]);
    assert_eq!(told.nodes[0].change.reason, "é".repeat(100));
    assert!(told.nodes[0].change.positions.is_empty());
    assert_eq!(told.changed_nodes(), 2);
    let nothing = PodChange { reason: "as it is".to_owned(), ..PodChange::default() };
    assert_eq!(read(&response(Some(nothing), Vec::new())), Ok(Changes::default()));
    assert_eq!(read(&response(None, Vec::new())), Ok(Changes::default()));
}

#[test]
fn a_response_that_breaks_the_contract_is_a_failure() {
    let node = |change: NodeChange| response(None, vec![at(&[0], change)]);
    let pod = |change: PodChange| response(Some(change), Vec::new());
    let taint = |key: &str, effect: &str| Taint {
        key: key.to_owned(),
        effect: effect.to_owned(),
        value: String::new(),
    };
    let many = |count: usize| labels((0..count).map(|at| (format!("k{at}"), String::new())));
    let long = |len: usize| labels([("k".to_owned(), "v".repeat(len))]);
    let no = NodeChange::default;
    let affinity = |values: usize| NodeAffinity {
        required: Some(NodeSelector {
            terms: vec![NodeSelectorTerm {
                match_expressions: vec![NodeSelectorRequirement {
                    key: "zone".to_owned(),
                    operator: "In".to_owned(),
                    values: vec!["a".to_owned(); values],
                }],
                match_fields: Vec::new(),
            }],
        }),
        preferred: Vec::new(),
    };
    for (response, detail) in [
        (BeforeScoreResponse::default(), "response has no result"),
        (response(None, vec![no()]), "a change names no position"),
        (response(None, vec![at(&[3], no())]), "position 3 is out of range: the request has 3 nodes"),
        (response(None, vec![at(&[1], no()), at(&[0, 1], no())]), "position 1 is changed twice"),
        (response(None, vec![at(&[0, 1, 2, 0], no())]), "more positions than 3 nodes"),
        (response(None, vec![at(&[0], no()); 4]), "4 changes of 3 nodes"),
        (node(NodeChange { set_labels: many(65), ..no() }), "a change has more than 64 entries"),
        (
            node(NodeChange { set_labels: many(60), remove_labels: vec!["a".to_owned(); 5], ..no() }),
            "a change has more than 64 entries",
        ),
        (
            node(NodeChange {
                add_usage: Some(NodeUsage {
                    requested: Some(Resources {
                        others: (0..65).map(|at| (format!("r{at}"), 1)).collect(),
                        ..Resources::default()
                    }),
                    nonzero: None,
                }),
                ..no()
            }),
            "a change has more than 64 entries",
        ),
        (
            node(NodeChange { set_labels: long(257), ..no() }),
            "a change has a value of 257 bytes, at most 256 are accepted",
        ),
        (
            node(NodeChange { remove_labels: vec!["k".repeat(318)], ..no() }),
            "a change has a key of 318 bytes, at most 317 are accepted",
        ),
        (node(NodeChange { add_taints: vec![taint("", "NoSchedule")], ..no() }), "a change has an empty key"),
        (
            node(NodeChange { add_taints: vec![taint("a", "")], ..no() }),
            "a change adds a taint without an effect",
        ),
        (
            pod(PodChange {
                node_affinity: Some(affinity(1)),
                remove_node_affinity: true,
                ..PodChange::default()
            }),
            "a change sets and removes the node affinity",
        ),
        (
            pod(PodChange { node_affinity: Some(affinity(1023)), ..PodChange::default() }),
            "a node affinity has 1025 entries, at most 1024 are accepted",
        ),
        (
            pod(PodChange { node_affinity: Some(affinity(30_000)), ..PodChange::default() }),
            "a node affinity has more than 65536 bytes",
        ),
        (
            pod(PodChange {
                add_tolerations: vec![Toleration { value: "v".repeat(300), ..Toleration::default() }],
                ..PodChange::default()
            }),
            "a change has a value of 300 bytes, at most 256 are accepted",
        ),
        (
            pod(PodChange { remove_labels: vec![String::new()], ..PodChange::default() }),
            "a change has an empty key",
        ),
    ] {
        assert_eq!(read(&response), Err(detail.to_owned()));
    }
    assert!(read(&node(NodeChange { set_labels: many(64), ..no() })).is_ok());
    assert!(read(&pod(PodChange { node_affinity: Some(affinity(1022)), ..PodChange::default() })).is_ok());
}

#[test]
fn only_what_is_declared_changes() {
    let node = NodeChange { remove_labels: vec!["a".to_owned()], ..NodeChange::default() };
    let pod = PodChange { add_requests: Some(Resources::default()), ..PodChange::default() };
    for (response, part, words) in [
        (response(None, vec![at(&[0], node)]), ChangedPart::NodeLabels, "node labels"),
        (response(Some(pod), Vec::new()), ChangedPart::PodRequests, "pod requests"),
    ] {
        let all_but = (1..=9).map(|part| ChangedPart::try_from(part).unwrap()).filter(|it| *it != part);
        let read = |allowed| changes(response.encode_to_vec().into(), 3, allowed).map(drop);
        let failure = read(ChangedParts::new(all_but)).unwrap_err();
        assert_eq!(failure.detail, format!("it changes {words}, which it does not declare"));
        assert_eq!(read(ChangedParts::new([part])), Ok(()));
    }
}

/// The largest possible responses about 5,000 nodes.
#[test]
fn a_response_of_nothing_many_times_costs_nothing() {
    const NODES: u32 = 5_000;
    let fill =
        |piece: &[u8]| Bytes::from(piece.repeat(super::super::answer::largest_answer(NODES) / piece.len()));
    // A change of node 0 with an empty taint, then many such changes; and one change with many empty entries.
    for (name, message) in [
        ("empty changes", fill(&[0x1a, 0])),
        ("changes of one position", fill(&[0x1a, 2, 0x08, 0])),
        ("changes with taints", fill(&[0x1a, 8, 0x08, 0, 0x32, 0, 0x32, 0, 0x32, 0])),
        ("labels of the pod", fill(&[0x12, 2, 0x0a, 0])),
        ("tolerations", fill(&[0x12, 2, 0x3a, 0])),
        ("affinity", fill(&[0x12, 4, 0x2a, 2, 0x12, 0])),
        ("amounts", fill(&[0x1a, 8, 0x08, 0, 0x12, 4, 0x2a, 0, 0x2a, 0])),
    ] {
        let cost = measure(|| assert!(changes(message.clone(), NODES, everything()).is_err(), "{name}"));
        assert!(cost.bytes_max < 4 << 20, "{name}: {cost:?}");
    }
}

proptest! {
    #[test]
    fn no_bytes_make_it_panic(bytes in prop::collection::vec(any::<u8>(), 0..64), count in 0_u32..5) {
        let _ = changes(Bytes::from(bytes), count, everything());
    }
}
