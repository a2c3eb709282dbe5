//! A change of a view is the view of a change.

use extender_gateway_object::view::KeyPrefixes;
use extender_policy_api::v1beta1::{
    MapReads, NodeAffinity, NodeReads, NodeSelector, PodAffinityTerm, PodCounts, PodReads, Toleration,
    TopologySpread, TopologySpreadConstraint,
};
use proptest::{prelude::*, sample::subsequence};
use prost::Message;

use super::*;

use crate::{
    facts,
    row::{RowFields, RowMessage},
};

const KEYS: [&str; 5] = ["a", "a.io/x", "a.io/y", "b", "c"];

fn key() -> impl Strategy<Value = String> {
    prop::sample::select(&KEYS[..]).prop_map(str::to_owned)
}

fn map() -> impl Strategy<Value = BTreeMap<String, String>> {
    prop::collection::btree_map(key(), "[x-z]{0,2}", 0..4)
}

fn keys() -> impl Strategy<Value = Vec<String>> {
    prop::collection::vec(key(), 0..3)
}

fn resources() -> impl Strategy<Value = Resources> {
    let amount = || prop_oneof![-5_i64..5, Just(i64::MAX), Just(i64::MIN)];
    let others = prop::collection::btree_map("[g-h]", amount(), 0..3);
    (amount(), amount(), amount(), amount(), others).prop_map(
        |(milli_cpu, memory, ephemeral_storage, pods, others)| Resources {
            milli_cpu,
            memory,
            ephemeral_storage,
            pods,
            others,
        },
    )
}

fn taints() -> impl Strategy<Value = Vec<Taint>> {
    let taint = (key(), "[x-y]?", prop_oneof![Just("NoSchedule"), Just("NoExecute"), Just("")]);
    let taint = taint.prop_map(|(key, value, effect)| Taint { key, value, effect: effect.to_owned() });
    prop::collection::vec(taint, 0..3)
}

fn about_pods(topology_key: &str) -> PodAffinity {
    let term = PodAffinityTerm { topology_key: topology_key.to_owned(), ..PodAffinityTerm::default() };
    PodAffinity { required: vec![term], ..PodAffinity::default() }
}

fn pod_affinity() -> impl Strategy<Value = PodAffinity> {
    prop_oneof![Just(PodAffinity::default()), key().prop_map(|key| about_pods(&key))]
}

fn constraints(count: usize) -> Vec<TopologySpreadConstraint> {
    vec![TopologySpreadConstraint { max_skew: 1, ..TopologySpreadConstraint::default() }; count]
}

fn spread() -> impl Strategy<Value = TopologySpread> {
    prop_oneof![Just(0), Just(2)].prop_map(|count| TopologySpread { constraints: constraints(count) })
}

fn tolerations() -> impl Strategy<Value = Vec<Toleration>> {
    let toleration =
        (key(), "[x-y]?").prop_map(|(key, value)| Toleration { key, value, ..Toleration::default() });
    prop::collection::vec(toleration, 0..3)
}

prop_compose! {
    fn node_change()(
        set_labels in map(),
        remove_labels in keys(),
        add_taints in taints(),
        remove_taints in taints(),
        add_allocatable in prop::option::of(resources()),
        requested in prop::option::of(resources()),
        nonzero in prop::option::of((-5_i64..5, -5_i64..5)),
    ) -> NodeChange {
        let nonzero = nonzero.map(|(milli_cpu, memory)| NonZero { milli_cpu, memory });
        NodeChange {
            set_labels,
            remove_labels,
            add_taints,
            remove_taints,
            add_allocatable,
            add_usage: Some(NodeUsage { requested, nonzero }),
            ..NodeChange::default()
        }
    }
}

fn entries(entries: BTreeMap<String, String>) -> Option<MapValues> {
    (!entries.is_empty()).then(|| MapValues { entries, ..MapValues::default() })
}

prop_compose! {
    fn node_facts()(
        labels in map(),
        annotations in map(),
        taints in taints(),
        allocatable in prop::option::of(resources()),
        capacity in prop::option::of(resources()),
    ) -> NodeFacts {
        NodeFacts {
            labels: entries(labels),
            annotations: entries(annotations),
            taints,
            allocatable,
            capacity,
            ..NodeFacts::default()
        }
    }
}

prop_compose! {
    fn declared_map()(keys in subsequence(&KEYS[..], 0..4), prefixes in subsequence(vec!["a", "a.io/"], 0..2)) -> MapReads {
        let keys = keys.into_iter().filter(|key| !prefixes.iter().any(|prefix| key.starts_with(prefix)));
        let keys = keys.map(str::to_owned).collect();
        MapReads { keys, prefixes: prefixes.iter().map(|prefix| (*prefix).to_owned()).collect() }
    }
}

prop_compose! {
    fn row_view()(
        parts in subsequence(vec![NodePart::Taints, NodePart::Capacity, NodePart::Allocatable, NodePart::Name], 0..=4),
        labels in declared_map(),
        usage: bool,
        declares in prop::bool::weighted(0.8),
    ) -> RowView {
        let reads = NodeReads {
            parts: parts.into_iter().map(Into::into).collect(),
            labels: Some(labels),
            ..NodeReads::default()
        };
        let facts = if declares { (&reads).into() } else { KeyPrefixes::all().into() };
        RowView::Facts(RowFields { facts: std::sync::Arc::new(facts), usage, ..RowFields::default() })
    }
}

/// A row as the table writes it.
fn row(facts: &NodeFacts, usage: &NodeUsage, view: &RowView) -> Bytes {
    let facts = facts::in_view(&facts.encode_to_vec(), view.facts().unwrap(), &[]);
    let counts = [PodCounts { omitted_pods: 7, ..PodCounts::default() }];
    let message = RowMessage {
        name: if view.has_name() { "node-1" } else { "" },
        facts: Some(&facts),
        raw: None,
        usage: view.wants_usage().then_some(usage),
        pod_counts: &counts,
        nominated: view.wants_nominated().then_some(usage),
    };
    let mut entry = Vec::new();
    message.encode(&mut entry);
    entry.into()
}

/// What the documentation of the fields says, on complete facts.
fn expected(mut facts: NodeFacts, mut usage: NodeUsage, change: &NodeChange) -> (NodeFacts, NodeUsage) {
    let labels = &mut facts.labels.get_or_insert_default().entries;
    labels.retain(|key, _| !change.remove_labels.contains(key));
    labels.extend(change.set_labels.clone());
    facts.taints.retain(|taint| {
        !change.remove_taints.iter().any(|removed| {
            removed.key == taint.key
                && (removed.value.is_empty() || removed.value == taint.value)
                && (removed.effect.is_empty() || removed.effect == taint.effect)
        })
    });
    facts.taints.extend(change.add_taints.clone());
    if let (Some(allocatable), Some(added)) = (&mut facts.allocatable, &change.add_allocatable) {
        *allocatable = sum_of(allocatable, added);
    }
    if let Some(added) = change.add_usage.as_ref().and_then(|added| added.requested.as_ref()) {
        usage.requested = Some(sum_of(&usage.requested.clone().unwrap_or_default(), added));
    }
    if let Some(added) = change.add_usage.as_ref().and_then(|added| added.nonzero) {
        let NonZero { milli_cpu, memory } = usage.nonzero.unwrap_or_default();
        let (milli_cpu, memory) = ((milli_cpu + added.milli_cpu).max(0), (memory + added.memory).max(0));
        usage.nonzero = Some(NonZero { milli_cpu, memory });
    }
    (facts, usage)
}

fn sum_of(one: &Resources, other: &Resources) -> Resources {
    let sum =
        |a: i64, b: i64| i64::try_from((i128::from(a) + i128::from(b)).clamp(0, i64::MAX.into())).unwrap();
    let names = other.others.keys();
    let mut others = one.others.clone();
    for name in names {
        let before = one.others.get(name).copied().unwrap_or_default();
        others.insert(name.clone(), sum(before, other.others[name]));
    }
    Resources {
        milli_cpu: sum(one.milli_cpu, other.milli_cpu),
        memory: sum(one.memory, other.memory),
        ephemeral_storage: sum(one.ephemeral_storage, other.ephemeral_storage),
        pods: sum(one.pods, other.pods),
        others,
    }
}

proptest! {
    #[test]
    fn a_changed_row_is_the_row_of_the_changed_node(
        facts in node_facts(),
        requested in prop::option::of(resources()),
        view in row_view(),
        changes in prop::collection::vec(node_change(), 0..3),
    ) {
        let usage = NodeUsage { requested, nonzero: None };
        let before = row(&facts, &usage, &view);
        let (facts, usage) = changes.iter().fold((facts, usage), |(facts, usage), change| expected(facts, usage, change));
        let after = row(&facts, &usage, &view);
        let changed = changed_row(&before, &view, changes.iter());
        prop_assert_eq!(decoded(changed.as_ref().unwrap_or(&before)), decoded(&after));
        prop_assert_eq!(changed.is_none(), decoded(&before) == decoded(&after));
        prop_assert_eq!(changed.unwrap_or(before), after);
    }

    #[test]
    fn changed_facts_about_a_pod_are_those_of_the_changed_pod(
        (labels, set_labels, node_selector, set_node_selector) in (map(), map(), map(), map()),
        (annotations, set_annotations, remove_annotations) in (map(), map(), keys()),
        (remove_labels, remove_node_selector) in (keys(), keys()),
        (pod_affinity, topology_spread) in (prop::option::of(pod_affinity()), prop::option::of(spread())),
        (tolerations, add_tolerations, remove_tolerations) in (tolerations(), tolerations(), tolerations()),
        (requests, add_requests) in (resources(), prop::option::of(resources())),
        (sets_affinity, remove_node_affinity) in (any::<bool>(), any::<bool>()),
        parts in subsequence(
            vec![
                PodPart::NodeSelector,
                PodPart::Tolerations,
                PodPart::Requests,
                PodPart::NodeAffinity,
                PodPart::PodAffinity,
                PodPart::TopologySpread,
            ],
            0..=6,
        ),
        (declared, annotations_declared) in (declared_map(), declared_map()),
    ) {
        let complete = PodFacts {
            labels: entries(labels),
            annotations: entries(annotations),
            node_selector,
            tolerations,
            requests: Some(requests),
            node_affinity: Some(NodeAffinity::default()),
            pod_affinity: Some(about_pods("before")),
            topology_spread: constraints(1),
            ..PodFacts::default()
        };
        let affinity = NodeAffinity { required: Some(NodeSelector::default()), preferred: Vec::new() };
        let change = PodChange {
            set_labels,
            remove_labels,
            set_node_selector,
            remove_node_selector,
            node_affinity: sets_affinity.then_some(affinity),
            remove_node_affinity: remove_node_affinity && !sets_affinity,
            add_tolerations,
            remove_tolerations,
            add_requests,
            reason: String::new(),
            set_annotations,
            remove_annotations,
            pod_affinity,
            topology_spread,
        };
        let reads = PodReads {
            parts: parts.iter().map(|part| (*part).into()).collect(),
            labels: Some(declared),
            annotations: Some(annotations_declared),
            ..PodReads::default()
        };
        let view = PodFactsView::from(&reads);
        let mut told = in_view(&complete, &view);
        change_pod(&mut told, &view, &change);
        let mut expected = complete;
        change_pod_in_full(&mut expected, &change);
        prop_assert_eq!(told, in_view(&expected, &view));
    }
}

/// Complete facts in a view.
fn in_view(complete: &PodFacts, view: &PodFactsView) -> PodFacts {
    let select = |view: &MapView, map: &Option<MapValues>| {
        let entries = map.clone().unwrap_or_default().entries;
        view.select(entries.iter().map(|(key, value)| (key.as_str(), value.as_str())))
    };
    PodFacts {
        labels: select(&view.labels, &complete.labels),
        annotations: select(&view.annotations, &complete.annotations),
        node_selector: view.part(PodPart::NodeSelector, || complete.node_selector.clone()),
        tolerations: view.part(PodPart::Tolerations, || complete.tolerations.clone()),
        requests: view.part(PodPart::Requests, || complete.requests.clone()),
        node_affinity: view.part(PodPart::NodeAffinity, || complete.node_affinity.clone()),
        pod_affinity: view.part(PodPart::PodAffinity, || complete.pod_affinity.clone()),
        topology_spread: view.part(PodPart::TopologySpread, || complete.topology_spread.clone()),
        ..PodFacts::default()
    }
}

/// What the documentation of the fields says.
fn change_pod_in_full(facts: &mut PodFacts, change: &PodChange) {
    let map = |map: &mut BTreeMap<String, String>, set: &BTreeMap<String, String>, removed: &[String]| {
        map.retain(|key, _| !removed.contains(key));
        map.extend(set.clone());
    };
    let labels = &mut facts.labels.get_or_insert_default().entries;
    map(labels, &change.set_labels, &change.remove_labels);
    let annotations = &mut facts.annotations.get_or_insert_default().entries;
    map(annotations, &change.set_annotations, &change.remove_annotations);
    map(&mut facts.node_selector, &change.set_node_selector, &change.remove_node_selector);
    facts.tolerations.retain(|it| !change.remove_tolerations.contains(it));
    facts.tolerations.extend(change.add_tolerations.clone());
    if change.remove_node_affinity {
        facts.node_affinity = None;
    }
    if let Some(affinity) = &change.node_affinity {
        facts.node_affinity = Some(affinity.clone());
    }
    if let Some(affinity) = &change.pod_affinity {
        facts.pod_affinity = (!affinity.required.is_empty()).then(|| affinity.clone());
    }
    if let Some(TopologySpread { constraints }) = &change.topology_spread {
        facts.topology_spread.clone_from(constraints);
    }
    if let Some(added) = &change.add_requests {
        facts.requests = Some(sum_of(facts.requests.as_ref().unwrap(), added));
    }
}

#[test]
fn requests_with_defaults_grow_with_the_requests() {
    let view = PodFactsView::complete();
    let nonzero = Some(NonZero { milli_cpu: 100, memory: 200 });
    let mut facts = PodFacts { nonzero_requests: nonzero, ..PodFacts::default() };
    let added = Resources { milli_cpu: 500, memory: -300, pods: 1, ..Resources::default() };
    change_pod(&mut facts, &view, &PodChange { add_requests: Some(added), ..PodChange::default() });
    assert_eq!(facts.nonzero_requests, Some(NonZero { milli_cpu: 600, memory: 0 }));
    assert_eq!(facts.requests, None, "the view has none");
}
