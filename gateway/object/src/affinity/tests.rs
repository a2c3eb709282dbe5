//! Node affinity as a fact, from a complete one and from unusual ones.

use extender_policy_api::v1beta1::{
    NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, PreferredSchedulingTerm,
};
use serde_json::{Value, json};

use crate::{pod, view::PodFactsView};

fn fact(affinity: &Value) -> Option<NodeAffinity> {
    let json = json!({"spec": {"affinity": affinity}}).to_string();
    pod::parse(json.as_bytes()).unwrap().facts(&PodFactsView::default()).node_affinity
}

fn requirement(key: &str, operator: &str, values: &[&str]) -> NodeSelectorRequirement {
    let values = values.iter().map(|value| (*value).to_owned()).collect();
    NodeSelectorRequirement { key: key.into(), operator: operator.into(), values }
}

#[test]
fn everything_is_told_in_order() {
    let affinity = json!({
        "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": [{"topologyKey": "zone"}]},
        "nodeAffinity": {
            "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
                {"matchExpressions": [
                    {"key": "zone", "operator": "In", "values": ["b", "a\u{e9}\"", "b"]},
                    {"key": "cores", "operator": "Gt", "values": ["8"]},
                ]},
                {"matchFields": [{"key": "metadata.name", "operator": "In", "values": ["n1"]}]},
            ]},
            "preferredDuringSchedulingIgnoredDuringExecution": [
                {"weight": 100, "preference": {"matchExpressions": [{"key": "ssd", "operator": "Exists"}]}},
                {"weight": 1, "preference": {}},
            ],
        },
    });
    let required = NodeSelector {
        terms: vec![
            NodeSelectorTerm {
                match_expressions: vec![
                    requirement("zone", "In", &["b", "a\u{e9}\"", "b"]),
                    requirement("cores", "Gt", &["8"]),
                ],
                match_fields: vec![],
            },
            NodeSelectorTerm {
                match_expressions: vec![],
                match_fields: vec![requirement("metadata.name", "In", &["n1"])],
            },
        ],
    };
    let ssd =
        NodeSelectorTerm { match_expressions: vec![requirement("ssd", "Exists", &[])], match_fields: vec![] };
    let preferred = vec![
        PreferredSchedulingTerm { weight: 100, preference: Some(ssd) },
        PreferredSchedulingTerm { weight: 1, preference: Some(NodeSelectorTerm::default()) },
    ];
    assert_eq!(fact(&affinity), Some(NodeAffinity { required: Some(required), preferred }));
}

#[test]
fn none_is_not_the_same_as_none_that_fits() {
    for affinity in [json!(null), json!({}), json!({"nodeAffinity": null}), json!({"podAffinity": {}})] {
        assert_eq!(fact(&affinity), None, "{affinity}");
    }
    let required = |required: Value| {
        fact(&json!({"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": required}}))
            .unwrap()
            .required
    };
    assert_eq!(required(json!(null)), None);
    for empty in [json!({}), json!({"nodeSelectorTerms": null}), json!({"nodeSelectorTerms": []})] {
        assert_eq!(required(empty.clone()), Some(NodeSelector::default()), "{empty}");
    }
}

#[test]
fn nulls_are_defaults() {
    let odd = json!({"nodeAffinity": {
        "requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
            null, {"matchExpressions": [null, {"key": null, "operator": null, "values": null}, {"values": [null]}],
                   "matchFields": null}]},
        "preferredDuringSchedulingIgnoredDuringExecution": [null, {"weight": null, "preference": null}],
    }});
    let affinity = fact(&odd).unwrap();
    let nothing = requirement("", "", &[]);
    let term = NodeSelectorTerm {
        match_expressions: vec![nothing.clone(), nothing, requirement("", "", &[""])],
        match_fields: vec![],
    };
    assert_eq!(affinity.required.unwrap().terms, [NodeSelectorTerm::default(), term]);
    let preferred = PreferredSchedulingTerm { weight: 0, preference: Some(NodeSelectorTerm::default()) };
    assert_eq!(affinity.preferred, [preferred.clone(), preferred]);
}
