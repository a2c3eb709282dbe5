//! Responses that break a rule are failures, and cost nothing.

use std::collections::BTreeMap;

use allocation_counter::measure;
use extender_policy_api::v1beta1::{
    self as api, ChangeResponse, HoldUser, LabelSelector, NodeAffinity, NodeSelector,
    NodeSelectorRequirement, NodeSelectorTerm, PodAffinity, PodAffinityTerm, PreferredSchedulingTerm, Taint,
    Toleration, TopologySpread, TopologySpreadConstraint, WeightedPodAffinityTerm,
};
use proptest::prelude::*;
use prost::Message;

use super::*;

fn everything() -> ChangedParts {
    ChangedParts::new((1..=12).map(|part| ChangedPart::try_from(part).unwrap()))
}

fn response(pod: Option<PodChange>, nodes: Vec<NodeChange>) -> ChangeResponse {
    let result = Some(api::Result::answered(3, "r1"));
    ChangeResponse { result, pod, nodes }
}

fn read(response: &ChangeResponse) -> Result<Changes, String> {
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

fn node(change: NodeChange) -> ChangeResponse {
    response(None, vec![at(&[0], change)])
}

fn pod(change: PodChange) -> ChangeResponse {
    response(Some(change), Vec::new())
}

fn many(count: usize) -> BTreeMap<String, String> {
    labels((0..count).map(|at| (format!("k{at}"), String::new())))
}

/// One, with this many values.
fn requirements(values: usize) -> Vec<NodeSelectorRequirement> {
    vec![NodeSelectorRequirement {
        key: "zone".to_owned(),
        operator: "In".to_owned(),
        values: vec!["a".to_owned(); values],
    }]
}

/// With a term that has this many values.
fn affinity(values: usize) -> NodeAffinity {
    let term = NodeSelectorTerm { match_expressions: requirements(values), match_fields: Vec::new() };
    NodeAffinity { required: Some(NodeSelector { terms: vec![term] }), preferred: Vec::new() }
}

/// With an entry at every place where a node affinity has a list, 6 + 4 × these values in all.
fn nodes_with(values: usize) -> NodeAffinity {
    let term =
        NodeSelectorTerm { match_expressions: requirements(values), match_fields: requirements(values) };
    let preferred = PreferredSchedulingTerm { weight: 1, preference: Some(term.clone()) };
    NodeAffinity { required: Some(NodeSelector { terms: vec![term] }), preferred: vec![preferred] }
}

/// With a label, and a requirement of these values.
fn selector(values: usize) -> LabelSelector {
    LabelSelector { match_labels: many(1), match_expressions: requirements(values) }
}

/// With an entry at every place where a pod affinity has a list or a map: 28 + 8 × these values, and the namespaces of one term.
fn pods_with(values: usize, namespaces: usize) -> PodAffinity {
    let keys = vec!["k".to_owned()];
    let term = PodAffinityTerm {
        selector: Some(selector(values)),
        namespaces: Vec::new(),
        namespace_selector: Some(selector(values)),
        topology_key: "zone".to_owned(),
        match_label_keys: keys.clone(),
        mismatch_label_keys: keys,
    };
    let preferred = vec![WeightedPodAffinityTerm { weight: 1, term: Some(term.clone()) }];
    let required = PodAffinityTerm { namespaces: vec!["n".to_owned(); namespaces], ..term.clone() };
    PodAffinity {
        required: vec![required],
        preferred: preferred.clone(),
        anti_required: vec![term],
        anti_preferred: preferred,
    }
}

/// With an entry at every place where topology spread has a list or a map: 4, and these values.
fn spread_with(values: usize) -> TopologySpread {
    let constraint = TopologySpreadConstraint {
        selector: Some(selector(values)),
        match_label_keys: vec!["k".to_owned()],
        ..TopologySpreadConstraint::default()
    };
    TopologySpread { constraints: vec![constraint] }
}

/// With a term whose key has this many bytes.
fn about_pods(key: usize) -> PodAffinity {
    let term = PodAffinityTerm { topology_key: "k".repeat(key), ..PodAffinityTerm::default() };
    PodAffinity { required: vec![term], ..PodAffinity::default() }
}

fn spread(key: usize) -> TopologySpread {
    let topology_key = "k".repeat(key);
    TopologySpread { constraints: vec![TopologySpreadConstraint { topology_key, ..Default::default() }] }
}

#[test]
fn a_response_without_a_result_or_with_wrong_positions_is_a_failure() {
    let no = NodeChange::default;
    let changed_twice = pod(PodChange { remove_labels: vec!["a".to_owned()], ..PodChange::default() });
    for (response, detail) in [
        (ChangeResponse::default(), "response has no result"),
        (response(None, vec![no()]), "a change names no position"),
        (response(None, vec![at(&[3], no())]), "position 3 is out of range: the request has 3 nodes"),
        (response(None, vec![at(&[1], no()), at(&[0, 1], no())]), "position 1 is changed twice"),
        (response(None, vec![at(&[0, 1, 2, 0], no())]), "more positions than 3 nodes"),
        (response(None, vec![at(&[0], no()); 4]), "4 changes of 3 nodes"),
    ] {
        assert_eq!(read(&response), Err(detail.to_owned()));
    }
    let joined = [changed_twice.encode_to_vec(), changed_twice.encode_to_vec()].concat();
    let failure = changes(joined.into(), 3, everything()).unwrap_err();
    assert_eq!(failure.detail, "the pod is changed twice");
}

#[test]
fn a_change_of_a_node_beyond_the_limits_is_a_failure() {
    let no = NodeChange::default;
    let taint = |key: &str, effect: &str| Taint {
        key: key.to_owned(),
        effect: effect.to_owned(),
        value: String::new(),
    };
    let long = |len: usize| labels([("k".to_owned(), "v".repeat(len))]);
    let amounts =
        Resources { others: (0..65).map(|at| (format!("r{at}"), 1)).collect(), ..Resources::default() };
    let usage = NodeUsage { requested: Some(amounts), nonzero: None };
    for (change, detail) in [
        (NodeChange { set_labels: many(65), ..no() }, "a change has more than 64 entries"),
        (
            NodeChange { set_labels: many(60), remove_labels: vec!["a".to_owned(); 5], ..no() },
            "a change has more than 64 entries",
        ),
        (NodeChange { add_usage: Some(usage), ..no() }, "a change has more than 64 entries"),
        (
            NodeChange { set_labels: long(257), ..no() },
            "a change has a value of 257 bytes, at most 256 are accepted",
        ),
        (
            NodeChange { remove_labels: vec!["k".repeat(318)], ..no() },
            "a change has a key of 318 bytes, at most 317 are accepted",
        ),
        (NodeChange { add_taints: vec![taint("", "NoSchedule")], ..no() }, "a change has an empty key"),
        (NodeChange { add_taints: vec![taint("a", "")], ..no() }, "a change adds a taint without an effect"),
    ] {
        assert_eq!(read(&node(change)), Err(detail.to_owned()));
    }
    assert!(read(&node(NodeChange { set_labels: many(64), ..no() })).is_ok());
}

fn held(milli_cpu: i64, users: usize, at_most: usize) -> NodeChange {
    let others = (0..at_most).map(|at| (format!("r{at}"), 1)).collect();
    let at_most = Some(Resources { others, ..Resources::default() });
    let users = (0..users).map(|at| HoldUser { uid: at.to_string(), at_most: at_most.clone() });
    let resources = Some(Resources { milli_cpu, ..Resources::default() });
    NodeChange { holds: vec![Hold { resources, users: users.collect() }], ..NodeChange::default() }
}

#[test]
fn holds_beyond_the_limits_are_a_failure() {
    let none = NodeChange { holds: vec![Hold::default()], ..NodeChange::default() };
    let many = NodeChange { holds: vec![Hold::default(); 65], ..NodeChange::default() };
    let mut nameless = held(1, 1, 0);
    nameless.holds[0].users[0].uid.clear();
    for (change, detail) in [
        (none, "a hold has no resources"),
        (held(-1, 0, 0), "a hold has a negative number"),
        (nameless, "the user of a hold has a UID of 0 bytes; expected 1 to 64"),
        (held(1, 1_025, 0), "a change has more than 1024 users of holds"),
        (held(1, 1, 1_024), "a change has more than 1024 users of holds"),
        (many, "a change has more than 64 entries"),
    ] {
        assert_eq!(read(&node(change)), Err(detail.to_owned()));
    }
    assert!(read(&node(held(1, 1_024, 0))).is_ok() && read(&node(held(1, 64, 15))).is_ok());
    let all = response(None, vec![at(&[0], held(1, 1_000, 0)), at(&[1], held(1, 97, 0))]);
    assert_eq!(read(&all), Err("all holds together have more than 1096 users".to_owned()));
}

#[test]
fn a_change_of_a_pod_beyond_the_limits_is_a_failure() {
    let no = PodChange::default;
    let toleration = Toleration { value: "v".repeat(300), ..Toleration::default() };
    for (change, detail) in [
        (
            PodChange { node_affinity: Some(affinity(1)), remove_node_affinity: true, ..no() },
            "a change sets and removes the node affinity",
        ),
        (
            PodChange { node_affinity: Some(affinity(1023)), ..no() },
            "a node affinity has 1025 entries, at most 1024 are accepted",
        ),
        (
            PodChange { node_affinity: Some(affinity(30_000)), ..no() },
            "a node affinity has more than 65536 bytes",
        ),
        (
            PodChange { add_tolerations: vec![toleration], ..no() },
            "a change has a value of 300 bytes, at most 256 are accepted",
        ),
        (PodChange { remove_labels: vec![String::new()], ..no() }, "a change has an empty key"),
        (PodChange { remove_annotations: vec![String::new()], ..no() }, "a change has an empty key"),
        (
            PodChange { set_annotations: labels([("k".repeat(318), String::new())]), ..no() },
            "a change has a key of 318 bytes, at most 317 are accepted",
        ),
        (
            PodChange { set_annotations: labels([("k".to_owned(), "v".repeat(257))]), ..no() },
            "a change has a value of 257 bytes, at most 256 are accepted",
        ),
        (
            PodChange { set_annotations: many(60), remove_annotations: vec!["a".to_owned(); 5], ..no() },
            "a change has more than 64 entries",
        ),
        (
            PodChange { pod_affinity: Some(about_pods(65_533)), ..no() },
            "a pod affinity has more than 65536 bytes",
        ),
        (
            PodChange { topology_spread: Some(spread(65_533)), ..no() },
            "a topology spread has more than 65536 bytes",
        ),
    ] {
        assert_eq!(read(&pod(change)), Err(detail.to_owned()));
    }
    // Each is limited alone, and its terms are no entries.
    let largest = PodChange {
        node_affinity: Some(affinity(1022)),
        pod_affinity: Some(about_pods(65_528)),
        topology_spread: Some(spread(65_528)),
        set_annotations: many(64),
        ..no()
    };
    assert!(read(&pod(largest)).is_ok());
}

#[test]
fn the_entries_of_an_affinity_are_counted_at_every_place() {
    let no = PodChange::default;
    for (change, detail) in [
        (
            PodChange { node_affinity: Some(nodes_with(255)), ..no() },
            "a node affinity has 1026 entries, at most 1024 are accepted",
        ),
        (
            PodChange { pod_affinity: Some(pods_with(124, 5)), ..no() },
            "a pod affinity has 1025 entries, at most 1024 are accepted",
        ),
        (
            PodChange { topology_spread: Some(spread_with(1021)), ..no() },
            "a topology spread has 1025 entries, at most 1024 are accepted",
        ),
    ] {
        assert_eq!(read(&pod(change)), Err(detail.to_owned()));
    }
    let most = PodChange {
        node_affinity: Some(nodes_with(254)),
        pod_affinity: Some(pods_with(124, 4)),
        topology_spread: Some(spread_with(1020)),
        ..no()
    };
    assert!(read(&pod(most)).is_ok());
}

#[test]
fn a_change_that_is_large_in_all_of_its_nodes_together_is_a_failure() {
    const NODES: u32 = 5_000;
    let all = |value: usize| {
        let values = (0..60).map(|at| (format!("k{at}"), "v".repeat(value)));
        let change = NodeChange { set_labels: labels(values), ..NodeChange::default() };
        let nodes = vec![at(&(0..NODES).collect::<Vec<_>>(), change)];
        let result = Some(api::Result::answered(NODES, ""));
        let message = ChangeResponse { result, pod: None, nodes }.encode_to_vec();
        assert!(message.len() < 40_000, "a small response");
        changes(message.into(), NODES, everything()).map(drop).map_err(|failure| failure.detail)
    };
    assert_eq!(all(1), Ok(()));
    let failure = all(200).unwrap_err();
    assert!(failure.starts_with("changes of all nodes together have "), "{failure}");
    assert!(failure.ends_with(" bytes, at most 5185536 are accepted"), "{failure}");
}

#[test]
fn what_changes_nothing_is_no_change() {
    let reason = NodeChange { reason: "as it is".to_owned(), ..NodeChange::default() };
    assert_eq!(read(&response(None, vec![at(&[1], reason.clone())])), Ok(Changes::default()));
    let nodes = vec![at(&[0], NodeChange { remove_labels: vec!["a".to_owned()], ..reason })];
    let result = Some(api::Result::answered(1, ""));
    let message = ChangeResponse { result, pod: None, nodes }.encode_to_vec();
    let read = pod_change(message.into(), everything()).unwrap();
    assert_eq!(read.value, Changes::default(), "the response of beforeFilter has no nodes");
}

#[test]
fn only_what_is_declared_changes() {
    let node = NodeChange { remove_labels: vec!["a".to_owned()], ..NodeChange::default() };
    let pod = PodChange { add_requests: Some(Resources::default()), ..PodChange::default() };
    for (response, part, words) in [
        (response(None, vec![at(&[0], node)]), ChangedPart::NodeLabels, "node labels"),
        (response(Some(pod), Vec::new()), ChangedPart::PodRequests, "pod requests"),
        (
            response(Some(PodChange { set_annotations: many(1), ..PodChange::default() }), Vec::new()),
            ChangedPart::PodAnnotations,
            "pod annotations",
        ),
        (
            response(
                Some(PodChange { pod_affinity: Some(about_pods(0)), ..PodChange::default() }),
                Vec::new(),
            ),
            ChangedPart::PodAffinity,
            "pod affinity",
        ),
        (
            response(
                Some(PodChange { topology_spread: Some(spread(0)), ..PodChange::default() }),
                Vec::new(),
            ),
            ChangedPart::PodTopologySpread,
            "pod topology spread",
        ),
    ] {
        let all_but = (1..=12).map(|part| ChangedPart::try_from(part).unwrap()).filter(|it| *it != part);
        let read = |allowed| changes(response.encode_to_vec().into(), 3, allowed).map(drop);
        let failure = read(ChangedParts::new(all_but)).unwrap_err();
        assert_eq!(
            failure.detail,
            format!(
                "it changes {words}, which it does not declare; add that to the hook's changes in the handshake"
            )
        );
        assert_eq!(read(ChangedParts::new([part])), Ok(()));
    }
}

/// The largest possible responses about 5,000 nodes.
#[test]
fn a_response_of_nothing_many_times_costs_nothing() {
    const NODES: u32 = 5_000;
    let fill = |piece: &[u8]| Bytes::from(piece.repeat(largest_answer(NODES) / piece.len()));
    // One pod whose field has this piece as often as the limit of its bytes allows.
    let within = |field: u32, piece: &[u8]| {
        let (mut change, mut message) = (Vec::new(), Vec::new());
        prost::encoding::bytes::encode(field, &piece.repeat(AFFINITY_BYTES / piece.len()), &mut change);
        prost::encoding::bytes::encode(2, &change, &mut message);
        Bytes::from(message)
    };
    // A change of node 0 with an empty taint, then many such changes; and one change with many empty entries.
    for (name, message) in [
        ("empty changes", fill(&[0x1a, 0])),
        ("changes of one position", fill(&[0x1a, 2, 0x08, 0])),
        ("changes with taints", fill(&[0x1a, 8, 0x08, 0, 0x32, 0, 0x32, 0, 0x32, 0])),
        ("labels of the pod", fill(&[0x12, 2, 0x0a, 0])),
        ("tolerations", fill(&[0x12, 2, 0x3a, 0])),
        ("node affinity", within(5, &[0x12, 0])),
        ("annotations", fill(&[0x12, 2, 0x5a, 0])),
        ("pod affinity", within(13, &[0x0a, 0])),
        ("labels of pod affinity", within(13, &[0x0a, 4, 0x0a, 2, 0x0a, 0])),
        ("topology spread", within(14, &[0x0a, 0])),
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
