//! The policy as the gateway would see it, through the SDK's own answers.

use extender_policy_api::v1beta1::Effects;
use extender_policy_sdk::{
    NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PreferredSchedulingTerm,
    testing::{self, PodFacts, TestNode, TestPod},
};

use proptest::prelude::*;

use super::*;
use crate::arbitrary;

const ADDED: &str = r#"{"addedAffinity": {
    "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
        {"matchExpressions": [{"key": "pool", "operator": "Exists"}]}]},
    "preferredDuringSchedulingIgnoredDuringExecution": [
        {"weight": 5, "preference": {"matchFields": [
            {"key": "metadata.name", "operator": "NotIn", "values": ["a"]}]}}]}}"#;

fn policy(args: &str) -> NodeAffinity {
    NodeAffinity::new("node-affinity", &Args::new(args.as_bytes()).unwrap()).unwrap()
}

fn nodes() -> [TestNode; 3] {
    [
        TestNode::new("a").label("pool", "blue").label("disk", "ssd"),
        TestNode::new("b").label("pool", "green"),
        TestNode::new("c").label("disk", "ssd"),
    ]
}

fn requirement(key: &str, operator: &str, values: &[&str]) -> NodeSelectorRequirement {
    let values = values.iter().map(|&value| value.to_owned()).collect();
    NodeSelectorRequirement { key: key.to_owned(), operator: operator.to_owned(), values }
}

fn labels(key: &str, operator: &str, values: &[&str]) -> NodeSelectorTerm {
    let match_expressions = vec![requirement(key, operator, values)];
    NodeSelectorTerm { match_expressions, match_fields: vec![] }
}

fn named(names: &[&str]) -> NodeSelectorTerm {
    let name = |name: &&str| requirement(term::NAME, "In", &[name]);
    NodeSelectorTerm { match_expressions: vec![], match_fields: names.iter().map(name).collect() }
}

fn requires(terms: &[NodeSelectorTerm]) -> TestPod {
    let required = Some(NodeSelector { terms: terms.to_vec() });
    TestPod::new("n").node_affinity(Affinity { required, preferred: vec![] })
}

fn prefers(terms: &[(i32, NodeSelectorTerm)]) -> TestPod {
    let term = |(weight, term): &(i32, NodeSelectorTerm)| PreferredSchedulingTerm {
        weight: *weight,
        preference: Some(term.clone()),
    };
    let preferred = terms.iter().map(term).collect();
    TestPod::new("n").node_affinity(Affinity { required: None, preferred })
}

fn refused(args: &str, pod: &TestPod) -> Vec<(String, String)> {
    testing::filter(policy(args), pod, &nodes()).unwrap()
}

fn refused_names(pod: &TestPod) -> String {
    refused("", pod).into_iter().map(|(node, _)| node).collect()
}

#[test]
fn a_node_must_fit_one_of_the_terms() {
    let (ssd, unread) = (labels("disk", "In", &["ssd"]), labels("disk", "Is", &["ssd"]));
    let named_ssd = NodeSelectorTerm { match_fields: named(&["a"]).match_fields, ..ssd.clone() };
    for (terms, expected) in [
        (vec![], "abc"),
        (vec![NodeSelectorTerm::default()], "abc"),
        (vec![ssd.clone()], "b"),
        (vec![ssd, labels("pool", "In", &["green"])], ""),
        (vec![unread.clone()], "abc"),
        (vec![unread, named(&["b"])], "ac"),
        (vec![named_ssd], "bc"),
    ] {
        assert_eq!(refused_names(&requires(&terms)), expected, "{terms:?}");
    }
    assert_eq!(refused("", &requires(&[]))[0].1, "node(s) didn't match Pod's node affinity/selector");
}

#[test]
fn a_pod_that_wants_two_names_at_once_is_told_so() {
    let conflict = |terms: &[NodeSelectorTerm]| {
        let refused = refused("", &requires(terms));
        refused.len() == 3 && refused.iter().all(|(_, reason)| reason == "pod affinity terms conflict")
    };
    assert!(conflict(&[named(&["a", "b"])]));
    assert!(!conflict(&[named(&["a", "b"]), NodeSelectorTerm::default()]));
    assert!(!conflict(&[named(&["a", "a"])]) && !conflict(&[]));
}

#[test]
fn the_node_selector_counts_too() {
    let selector = [("disk".to_owned(), "ssd".to_owned()), ("pool".to_owned(), "blue".to_owned())];
    let pod = PodFacts { node_selector: selector.into(), ..PodFacts::default() };
    assert_eq!(refused_names(&pod.into()), "bc");
}

#[test]
fn weights_of_the_terms_that_a_node_fits_add_up() {
    let (ssd, unread) = (labels("disk", "In", &["ssd"]), labels("disk", "Is", &["ssd"]));
    for (terms, expected) in [
        (vec![], [0, 0, 0]),
        (vec![(3, ssd.clone()), (40, labels("pool", "Exists", &[]))], [43, 40, 3]),
        // Skipped: weight 0, or an empty term.
        (vec![(3, ssd.clone()), (0, unread.clone()), (7, NodeSelectorTerm::default())], [3, 0, 3]),
        (vec![(3, ssd), (1, unread)], [0, 0, 0]),
    ] {
        assert_eq!(testing::score(policy(""), &prefers(&terms), &nodes()).unwrap(), expected, "{terms:?}");
    }
}

#[test]
fn what_the_operator_adds_holds_for_every_pod() {
    let enforced = "node(s) didn't match scheduler-enforced node affinity";
    assert_eq!(refused(ADDED, &TestPod::new("n")), [("c".to_owned(), enforced.to_owned())]);
    let ssd = || labels("disk", "In", &["ssd"]);
    let names: Vec<_> = refused(ADDED, &requires(&[ssd()])).into_iter().map(|(node, _)| node).collect();
    assert_eq!(names, ["b", "c"]);
    assert_eq!(testing::score(policy(ADDED), &prefers(&[(3, ssd())]), &nodes()).unwrap(), [3, 5, 8]);
}

#[test]
fn the_handshake_promises_a_function() {
    let verbs = testing::info(policy("")).unwrap().verbs;
    assert!(verbs.len() == 2 && verbs.iter().all(|verb| verb.effects() == Effects::Pure));
}

proptest! {
    #[test]
    fn what_is_not_declared_changes_no_answer(
        args in prop::sample::select(&["", ADDED][..]),
        pod in arbitrary::pod(),
        nodes in arbitrary::nodes(),
    ) {
        let everything = || testing::everything(policy(args));
        let refused = testing::filter(policy(args), &pod, &nodes);
        prop_assert!(refused.is_ok(), "{refused:?}");
        prop_assert_eq!(refused, testing::filter(everything(), &pod, &nodes));
        let scores = testing::score(policy(args), &pod, &nodes);
        prop_assert!(scores.is_ok(), "{scores:?}");
        prop_assert_eq!(scores, testing::score(everything(), &pod, &nodes));
    }
}
