//! The policy as the gateway would see it, through the SDK's own answers.

use extender_policy_api::v1beta1::Effects;
use extender_policy_sdk::testing::{self, TestCandidate, TestNode, TestPod};
use proptest::prelude::*;

use super::{
    rule::{LabelCondition, LabelRequirement, PodSelector},
    *,
};
use crate::arbitrary;

fn policy(text: &str) -> LabelRules {
    LabelRules::new("rules", file::read(text).unwrap())
}

/// Nodes as in the captured calls: racks, tenants and zones alternate.
fn nodes() -> Vec<TestNode> {
    let node = |(position, zone)| {
        TestNode::new(format!("node-{position}"))
            .label("topology.acme.io/rack", format!("rack-{position}"))
            .label("acme.io/tenant", format!("tenant-{position}"))
            .label("topology.kubernetes.io/zone", format!("eu-west-1{zone}"))
    };
    (0..6).zip("abcabc".chars()).map(node).chain([TestNode::new("bare")]).collect()
}

fn refused(text: &str, pod: &TestPod) -> Vec<String> {
    let refused = testing::filter(policy(text), pod, &nodes()).unwrap();
    refused.into_iter().map(|(node, reason)| format!("{node}: {reason}")).collect()
}

#[test]
fn drained_racks_are_refused_for_every_pod() {
    let text = include_str!("../../examples/racks-drained.yaml");
    let expected = ["node-2: rack is being drained", "node-5: rack is being drained"];
    assert_eq!(refused(text, &TestPod::new("any")), expected);
}

#[test]
fn a_rejection_names_its_rule() {
    let rules = file::read(include_str!("../../examples/racks-drained.yaml")).unwrap();
    let expected = Verdict::reject("rack is being drained").by_rule("racks under maintenance").unresolvable();
    assert_eq!(rules.refusals[0].verdict(), expected);
}

#[test]
fn a_tenant_over_quota_is_refused_for_the_pods_that_the_rules_name() {
    let text = include_str!("../../examples/tenants-over-quota.yaml");
    let quota = ["node-1: tenant is over its quota", "node-4: tenant is over its quota"];
    let batch = ["node-1: tenant is over its batch quota", "node-4: tenant is over its batch quota"];
    assert_eq!(refused(text, &TestPod::new("shop")), quota);
    assert_eq!(refused(text, &TestPod::new("other")), [""; 0]);
    assert_eq!(refused(text, &TestPod::new("other").label("tier", "batch")), batch);
    // The first refusing rule gives the reason.
    assert_eq!(refused(text, &TestPod::new("shop").label("tier", "batch")), quota);
}

#[test]
fn preferred_zones_are_scored_and_the_scores_add_up() {
    let text = include_str!("../../examples/zones-preferred.yaml");
    let scores = |namespace| testing::score(policy(text), &TestPod::new(namespace), &nodes()).unwrap();
    assert_eq!(scores("any"), [10, 5, 0, 10, 5, 0, 0]);
    assert_eq!(scores("shop"), [10, 5, -5, 10, 5, -5, 0]);
}

#[test]
fn one_failed_requirement_refuses_and_all_met_ones_prefer() {
    let two =
        "[{key: topology.acme.io/rack, notIn: [rack-1]}, {key: acme.io/tenant, in: [tenant-0, tenant-1]}]";
    let any = TestPod::new("any");
    let refusing = format!("rules: [{{require: {two}, reason: r}}]");
    let others = ["node-1: r", "node-2: r", "node-3: r", "node-4: r", "node-5: r", "bare: r"];
    assert_eq!(refused(&refusing, &any), others);
    let preferring = policy(&format!("rules: [{{prefer: {two}, score: 3}}]"));
    assert_eq!(testing::score(preferring, &any, &nodes()).unwrap(), [3, 0, 0, 0, 0, 0, 0]);
}

#[test]
fn all_verbs_are_declared_whatever_the_rules_are() {
    let verbs = |text| testing::info(policy(text)).unwrap().verbs;
    let racks = verbs(include_str!("../../examples/racks-drained.yaml"));
    let declared: Vec<_> = racks.iter().map(|verb| (verb.verb, verb.effects() == Effects::Pure)).collect();
    assert_eq!(declared, [(1, true), (2, true), (3, false)]);
    let zones = verbs(include_str!("../../examples/zones-preferred.yaml"));
    assert_eq!((zones[1].score_min, zones[1].score_max), (Some(-5), Some(15)));
    let nothing = verbs("{rules: [], normalize: Range}");
    assert_eq!((nothing[1].score_min, nothing[1].score_max, nothing[1].normalization), (Some(0), Some(0), 1));
}

#[test]
fn the_revision_is_that_of_the_file() {
    let revision = |text| testing::info(policy(text)).unwrap().revision;
    let rule = "rules: [{prefer: [{key: a, equals: b}], score: 1}]";
    // A fixed value: replicas of one build have the same revision, and later builds too.
    assert_eq!(revision(rule), format!("{}+cddd4fb2652d795a", env!("CARGO_PKG_VERSION")));
    assert_ne!(revision(rule), revision("rules: [{prefer: [{key: a, equals: b}], score: 2}]"));
}

fn requirement(key: &str, condition: LabelCondition) -> LabelRequirement {
    LabelRequirement { key: key.into(), condition }
}

#[test]
fn conditions_hold_as_documented() {
    let values = || vec!["a".to_owned(), "b".to_owned()];
    // Columns: missing, "a", "c", "7", "8", "-9", "7x".
    let asked = [None, Some("a"), Some("c"), Some("7"), Some("8"), Some("-9"), Some("7x")];
    for (condition, expected) in [
        (LabelCondition::In(values()), [false, true, false, false, false, false, false]),
        (LabelCondition::NotIn(values()), [true, false, true, true, true, true, true]),
        (LabelCondition::Exists, [false, true, true, true, true, true, true]),
        (LabelCondition::Absent, [true, false, false, false, false, false, false]),
        (LabelCondition::GreaterThan(7), [false, false, false, false, true, false, false]),
        (LabelCondition::LessThan(8), [false, false, false, true, false, true, false]),
    ] {
        let requirement = requirement("k", condition);
        assert_eq!(asked.map(|value| requirement.holds(value)), expected, "{requirement:?}");
    }
}

fn condition() -> impl Strategy<Value = LabelCondition> {
    let values = || prop::collection::vec("[ab12]", 1..3);
    prop_oneof![
        values().prop_map(LabelCondition::In),
        values().prop_map(LabelCondition::NotIn),
        Just(LabelCondition::Exists),
        Just(LabelCondition::Absent),
        (0..3_i64).prop_map(LabelCondition::GreaterThan),
        (0..3_i64).prop_map(LabelCondition::LessThan),
    ]
}

fn preference() -> impl Strategy<Value = Preference> {
    let requirements = prop::collection::vec(("[xy]", condition()), 1..3);
    let score = prop_oneof![-20..=20_i32, Just(i32::MAX), Just(i32::MIN)];
    (requirements, score).prop_map(|(requirements, score)| Preference {
        pods: PodSelector::default(),
        prefer: requirements.into_iter().map(|(key, condition)| requirement(&key, condition)).collect(),
        score,
    })
}

proptest! {
    #[test]
    fn no_score_leaves_the_declared_range(
        preferences in prop::collection::vec(preference(), 1..6),
        labels in prop::collection::btree_map("[xy]", "[ab12]", 0..3),
    ) {
        let bounds = rule::bounds(&preferences);
        let node = labels.iter().fold(TestNode::new("n"), |node, (key, value)| node.label(key, value));
        let rules = Rules {
            refusals: vec![],
            preferences: preferences.clone(),
            protections: vec![],
            normalization: Normalization::None,
            content_hash: 0,
        };
        let scores = testing::score(LabelRules::new("r", rules), &TestPod::new("any"), &[node]).unwrap();
        prop_assert!(bounds.contains(&scores[0]), "{} is not in {bounds:?}", scores[0]);
    }

    #[test]
    fn not_in_is_the_opposite_of_in(
        values in prop::collection::vec("[ab]", 1..3),
        value in proptest::option::of("[abc]"),
    ) {
        let held = |condition| requirement("k", condition).holds(value.as_deref());
        prop_assert_ne!(held(LabelCondition::In(values.clone())), held(LabelCondition::NotIn(values.clone())));
    }
}

fn requirements() -> impl Strategy<Value = Vec<LabelRequirement>> {
    prop::collection::vec((arbitrary::key(), condition()), 0..3).prop_map(|requirements| {
        requirements.into_iter().map(|(key, condition)| requirement(&key, condition)).collect()
    })
}

fn selector() -> impl Strategy<Value = PodSelector> {
    (prop::collection::vec("[x-z]", 0..2), requirements())
        .prop_map(|(namespaces, labels)| PodSelector { namespaces, labels })
}

fn rules() -> impl Strategy<Value = Rules> {
    let refusal = (selector(), requirements(), "[rs]").prop_map(|(pods, require, reason)| Refusal {
        pods,
        require,
        reason: reason.into(),
        name: None,
    });
    let preference = (selector(), requirements(), 1..5).prop_map(|(pods, prefer, score)| Preference {
        pods,
        prefer,
        score,
    });
    let protection = (selector(), selector()).prop_map(|(pods, protect)| Protection { pods, protect });
    let some = |most| 0..most;
    let all = (
        prop::collection::vec(refusal, some(3)),
        prop::collection::vec(preference, some(3)),
        prop::collection::vec(protection, some(3)),
    );
    all.prop_map(|(refusals, preferences, protections)| Rules {
        refusals,
        preferences,
        protections,
        normalization: Normalization::None,
        content_hash: 0,
    })
}

proptest! {
    #[test]
    fn what_the_rules_do_not_name_changes_no_answer(
        rules in rules(),
        pod in arbitrary::pod(),
        victim in arbitrary::pod(),
        nodes in arbitrary::nodes(),
    ) {
        let declared = || LabelRules::new("rules", rules.clone());
        let everything = || testing::everything(declared());
        let refused = testing::filter(declared(), &pod, &nodes);
        prop_assert!(refused.is_ok(), "{refused:?}");
        prop_assert_eq!(refused, testing::filter(everything(), &pod, &nodes));
        let scores = testing::score(declared(), &pod, &nodes);
        prop_assert!(scores.is_ok(), "{scores:?}");
        prop_assert_eq!(scores, testing::score(everything(), &pod, &nodes));
        let candidates: Vec<_> =
            nodes.into_iter().map(|node| TestCandidate::new(node).victim("1", victim.clone())).collect();
        let left = testing::preempt(declared(), &pod, &candidates);
        prop_assert!(left.is_ok(), "{left:?}");
        prop_assert_eq!(left, testing::preempt(everything(), &pod, &candidates));
    }
}

#[test]
fn the_declaration_is_that_of_the_rules() {
    let declared = |text| {
        let verbs = testing::info(policy(text)).unwrap().verbs;
        let [filter, score, preempt] = verbs.try_into().unwrap();
        assert_eq!(filter.reads, score.reads);
        (filter.reads.unwrap(), preempt.reads.unwrap())
    };
    let (placement, eviction) = declared(include_str!("../../examples/tenants-over-quota.yaml"));
    assert_eq!(placement.node.unwrap().labels.unwrap().keys, ["acme.io/tenant"]);
    let pod = placement.pod.unwrap();
    assert_eq!((pod.labels.unwrap().keys, pod.parts.len()), (vec!["tier".to_owned()], 1));
    assert_eq!((eviction.pod, eviction.node), (None, None));
    let (placement, eviction) = declared(include_str!("../../examples/databases-protected.yaml"));
    assert_eq!((placement.pod, placement.node), (None, None));
    let pod = eviction.pod.unwrap();
    assert_eq!(pod.labels.unwrap().keys, ["app.kubernetes.io/component", "tier"]);
}

#[test]
fn rules_with_more_keys_than_a_declaration_may_have_read_all_labels() {
    let rule = |number: u32| format!("{{prefer: [{{key: k{number}, exists: true}}], score: 1}}");
    let text = format!("rules: [{}]", (0..1_001).map(rule).collect::<Vec<_>>().join(", "));
    let node = TestNode::new("n").label("k7", "").label("k1000", "");
    assert_eq!(testing::score(policy(&text), &TestPod::new("any"), &[node]).unwrap(), [2]);

    let protected = |number: u32| format!("{{protect: {{labels: [{{key: k{number}, exists: true}}]}}}}");
    let text = format!("rules: [{}]", (0..1_001).map(protected).collect::<Vec<_>>().join(", "));
    let candidate =
        |name, key| TestCandidate::new(TestNode::new(name)).victim("1", TestPod::new("any").label(key, ""));
    let candidates = [candidate("protected", "k1000"), candidate("free", "other")];
    let left = testing::preempt(policy(&text), &TestPod::new("any"), &candidates).unwrap();
    assert_eq!(left.iter().map(|(node, _)| node.as_str()).collect::<Vec<_>>(), ["free"]);
}

/// The nodes of the candidates that stay.
fn candidates_left(text: &str, pod: &TestPod) -> Vec<String> {
    let database = || TestPod::new("any").label("app.kubernetes.io/component", "database");
    let on = |node: &str| TestCandidate::new(TestNode::new(node));
    let candidates = [
        on("plain").victim("1", TestPod::new("any")).victim("2", TestPod::new("any")),
        on("with database").victim("3", TestPod::new("any")).victim("4", database()),
        on("shop").victim("5", TestPod::new("shop")),
        on("unknown").unknown_victim("6"),
    ];
    let left = testing::preempt(policy(text), pod, &candidates).unwrap();
    // Each remaining candidate keeps all its victims.
    assert!(left.iter().filter(|(node, _)| node == "plain").all(|(_, victims)| victims == &["1", "2"]));
    left.into_iter().map(|(node, _)| node).collect()
}

#[test]
fn a_node_on_which_a_protected_pod_would_go_is_not_taken() {
    let text = include_str!("../../examples/databases-protected.yaml");
    assert_eq!(candidates_left(text, &TestPod::new("any")), ["plain", "shop"]);
    assert_eq!(candidates_left(text, &TestPod::new("any").label("tier", "batch")), ["plain"]);
    let all = ["plain", "with database", "shop", "unknown"];
    assert_eq!(candidates_left("rules: []", &TestPod::new("any")), all);
}
