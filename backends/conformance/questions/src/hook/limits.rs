//! The limits of changes in hooks.proto and SPEC.md, 58.4.

use std::collections::BTreeMap;

use extender_policy_api::limits::{
    AFFINITY_BYTES, AFFINITY_ENTRIES, CHANGE_ENTRIES, CHANGE_USERS, CHANGE_VALUE_BYTES, KEY_BYTES,
    NODE_ENTRIES, NODE_USERS, RESPONSE_ENTRIES, RESPONSE_USERS, USER_UID_BYTES,
};
use extender_policy_api::v1beta1 as api;
use prost::Message as _;

/// A response about so many nodes is within the limits.
pub fn check(response: &api::ChangeResponse, nodes: usize) -> Result<(), String> {
    response.pod.iter().try_for_each(|change| of_pod(change).map_err(|why| format!("`pod`: {why}")))?;
    for (at, change) in response.nodes.iter().enumerate() {
        of_node(change).map_err(|why| format!("`nodes[{at}]`: {why}"))?;
    }
    let entries = response.pod.iter().map(entries_of_pod).chain(response.nodes.iter().map(entries_of_node));
    let (entries, most) = (entries.sum::<usize>(), RESPONSE_ENTRIES + NODE_ENTRIES * nodes);
    if entries > most {
        return failed(format!("all changes together have {entries} entries; at most {most} are allowed"));
    }
    few_users(response.nodes.iter().map(users_of).sum(), RESPONSE_USERS + NODE_USERS * nodes)
}

fn failed<T>(why: impl Into<String>) -> Result<T, String> {
    Err(why.into())
}

fn at_most(what: &str, text: &str, bytes: usize) -> Result<(), String> {
    if text.len() > bytes {
        return failed(format!("{what} has {} bytes; at most {bytes} are allowed", text.len()));
    }
    Ok(())
}

fn few_users(users: usize, most: usize) -> Result<(), String> {
    if users > most {
        return failed(format!("its holds have {users} users; at most {most} are allowed"));
    }
    Ok(())
}

fn of_pod(change: &api::PodChange) -> Result<(), String> {
    let added = change.add_requests.iter().flat_map(|added| added.others.keys());
    let maps = || [&change.set_labels, &change.set_node_selector, &change.set_annotations].into_iter();
    let removed = [&change.remove_labels, &change.remove_node_selector, &change.remove_annotations];
    let keys = maps().flat_map(BTreeMap::keys).chain(removed.into_iter().flatten()).chain(added);
    keys.map(String::as_str).try_for_each(key)?;
    maps().flat_map(BTreeMap::values).map(String::as_str).try_for_each(value)?;
    change.add_tolerations.iter().chain(&change.remove_tolerations).try_for_each(toleration)?;
    if change.node_affinity.is_some() && change.remove_node_affinity {
        return failed("it has both `node_affinity` and `remove_node_affinity`");
    }
    let about_nodes =
        change.node_affinity.as_ref().map(|it| ("node affinity", of_nodes(it), it.encoded_len()));
    let about_pods = change.pod_affinity.as_ref().map(|it| ("pod affinity", of_pods(it), it.encoded_len()));
    let spread =
        change.topology_spread.as_ref().map(|it| ("topology spread", of_spread(it), it.encoded_len()));
    for (what, entries, bytes) in about_nodes.into_iter().chain(about_pods).chain(spread) {
        if entries > AFFINITY_ENTRIES || bytes > AFFINITY_BYTES {
            return failed(format!(
                "its {what} has {entries} entries in all lists and maps, and {bytes} bytes; at most {AFFINITY_ENTRIES} and \
                 {AFFINITY_BYTES} are allowed"
            ));
        }
    }
    few_entries(entries_of_pod(change))
}

fn of_node(change: &api::NodeChange) -> Result<(), String> {
    let keys = change.set_labels.keys().chain(&change.remove_labels);
    let keys = keys.chain(amounts(change).flat_map(|added| added.others.keys()));
    keys.map(String::as_str).try_for_each(key)?;
    change.set_labels.values().map(String::as_str).try_for_each(value)?;
    for taint in change.add_taints.iter().chain(&change.remove_taints) {
        key(&taint.key)?;
        [&taint.value, &taint.effect].into_iter().try_for_each(|text| value(text))?;
    }
    if change.add_taints.iter().any(|taint| taint.effect.is_empty()) {
        return failed("it adds a taint without an effect");
    }
    change.holds.iter().try_for_each(hold)?;
    few_users(users_of(change), CHANGE_USERS)?;
    few_entries(entries_of_node(change))
}

fn hold(hold: &api::Hold) -> Result<(), String> {
    let Some(resources) = &hold.resources else { return failed("it has a hold without resources") };
    if hold.users.iter().any(|user| !(1..=USER_UID_BYTES).contains(&user.uid.len())) {
        return failed(format!("the user of a hold has no UID of at most {USER_UID_BYTES} bytes"));
    }
    let at_most = hold.users.iter().filter_map(|user| user.at_most.as_ref());
    let is_negative = |it: &api::Resources| {
        let amounts = [it.milli_cpu, it.memory, it.ephemeral_storage, it.pods];
        amounts.iter().chain(it.others.values()).any(|amount| *amount < 0)
    };
    if at_most.chain([resources]).any(is_negative) {
        failed("it has a hold with a negative number")
    } else {
        Ok(())
    }
}

/// The users of holds, and the other resources that these name.
fn users_of(change: &api::NodeChange) -> usize {
    let users = change.holds.iter().flat_map(|hold| &hold.users);
    users.map(|user| 1 + user.at_most.as_ref().map_or(0, |at_most| at_most.others.len())).sum()
}

fn key(key: &str) -> Result<(), String> {
    if key.is_empty() {
        return failed("it has an empty key");
    }
    at_most("a key", key, KEY_BYTES)
}

fn value(value: &str) -> Result<(), String> {
    at_most("a value", value, CHANGE_VALUE_BYTES)
}

/// An empty key means every taint.
fn toleration(toleration: &api::Toleration) -> Result<(), String> {
    at_most("a key", &toleration.key, KEY_BYTES)?;
    let texts = [&toleration.operator, &toleration.value, &toleration.effect];
    texts.into_iter().try_for_each(|text| value(text))
}

/// The elements of all lists and maps of a node affinity.
fn of_nodes(affinity: &api::NodeAffinity) -> usize {
    let terms = affinity.required.iter().flat_map(|selector| &selector.terms);
    let preferred = affinity.preferred.iter().filter_map(|preferred| preferred.preference.as_ref());
    let size = |term: &api::NodeSelectorTerm| of_each(&term.match_expressions) + of_each(&term.match_fields);
    terms.clone().count() + affinity.preferred.len() + terms.chain(preferred).map(size).sum::<usize>()
}

fn of_each(requirements: &[api::NodeSelectorRequirement]) -> usize {
    requirements.iter().map(|requirement| 1 + requirement.values.len()).sum()
}

fn of_selector(selector: Option<&api::LabelSelector>) -> usize {
    selector.map_or(0, |selector| selector.match_labels.len() + of_each(&selector.match_expressions))
}

/// As [`of_nodes`], of a pod affinity.
fn of_pods(affinity: &api::PodAffinity) -> usize {
    let terms = affinity.required.iter().chain(&affinity.anti_required);
    let preferred = affinity.preferred.iter().chain(&affinity.anti_preferred);
    let size = |term: &api::PodAffinityTerm| {
        let keys = term.namespaces.len() + term.match_label_keys.len() + term.mismatch_label_keys.len();
        keys + of_selector(term.selector.as_ref()) + of_selector(term.namespace_selector.as_ref())
    };
    let inner = preferred.clone().filter_map(|preferred| preferred.term.as_ref());
    terms.clone().count() + preferred.count() + terms.chain(inner).map(size).sum::<usize>()
}

/// As [`of_nodes`], of topology spread constraints.
fn of_spread(spread: &api::TopologySpread) -> usize {
    let size = |constraint: &api::TopologySpreadConstraint| {
        1 + constraint.match_label_keys.len() + of_selector(constraint.selector.as_ref())
    };
    spread.constraints.iter().map(size).sum()
}

fn few_entries(entries: usize) -> Result<(), String> {
    if entries > CHANGE_ENTRIES {
        return failed(format!("it has {entries} entries; at most {CHANGE_ENTRIES} are allowed"));
    }
    Ok(())
}

fn entries_of_pod(change: &api::PodChange) -> usize {
    let labels = change.set_labels.len() + change.remove_labels.len();
    let annotations = change.set_annotations.len() + change.remove_annotations.len();
    let selector = change.set_node_selector.len() + change.remove_node_selector.len();
    let tolerations = change.add_tolerations.len() + change.remove_tolerations.len();
    let requests = change.add_requests.as_ref().map_or(0, |added| added.others.len());
    labels + annotations + selector + tolerations + requests
}

fn entries_of_node(change: &api::NodeChange) -> usize {
    let labels = change.set_labels.len() + change.remove_labels.len();
    let taints = change.add_taints.len() + change.remove_taints.len();
    labels + taints + change.holds.len() + amounts(change).map(|added| added.others.len()).sum::<usize>()
}

/// The resources that are added to a node.
fn amounts(change: &api::NodeChange) -> impl Iterator<Item = &api::Resources> {
    let usage = change.add_usage.as_ref().and_then(|usage| usage.requested.as_ref());
    let held = change.holds.iter().filter_map(|hold| hold.resources.as_ref());
    change.add_allocatable.iter().chain(usage).chain(held)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(change: api::PodChange) -> Result<(), String> {
        check(&api::ChangeResponse { pod: Some(change), ..api::ChangeResponse::default() }, 0)
    }

    fn node(change: api::NodeChange) -> Result<(), String> {
        check(&api::ChangeResponse { nodes: vec![change], ..api::ChangeResponse::default() }, 1)
    }

    fn labels(key: &str, value: &str) -> BTreeMap<String, String> {
        [(key.to_owned(), value.to_owned())].into()
    }

    fn others(key: &str) -> api::Resources {
        api::Resources { others: [(key.to_owned(), 1)].into(), ..api::Resources::default() }
    }

    fn keys(count: usize) -> Vec<String> {
        (0..count).map(|number| number.to_string()).collect()
    }

    fn affinity(values: usize) -> api::NodeAffinity {
        let requirement = api::NodeSelectorRequirement {
            key: "key".to_owned(),
            operator: "In".to_owned(),
            values: vec!["value".to_owned(); values],
        };
        let term = api::NodeSelectorTerm {
            match_expressions: vec![requirement],
            ..api::NodeSelectorTerm::default()
        };
        let required = Some(api::NodeSelector { terms: vec![term] });
        api::NodeAffinity { required, ..api::NodeAffinity::default() }
    }

    fn held(resources: Option<api::Resources>, users: usize, uid: &str) -> api::Hold {
        let user = api::HoldUser { uid: uid.to_owned(), at_most: None };
        api::Hold { resources, users: vec![user; users] }
    }

    fn about_pods(key: usize) -> api::PodAffinity {
        let term = api::PodAffinityTerm { topology_key: "k".repeat(key), ..Default::default() };
        api::PodAffinity { required: vec![term], ..api::PodAffinity::default() }
    }

    fn spread(key: usize) -> api::TopologySpread {
        let topology_key = "k".repeat(key);
        let constraint = api::TopologySpreadConstraint { topology_key, ..Default::default() };
        api::TopologySpread { constraints: vec![constraint] }
    }

    #[test]
    fn the_largest_changes_pass() {
        let (key, value) = ("k".repeat(317), "v".repeat(256));
        let toleration = api::Toleration { value: value.clone(), ..api::Toleration::default() };
        let change = api::PodChange {
            set_labels: labels(&key, &value),
            remove_node_selector: keys(59),
            set_annotations: labels(&key, &value),
            remove_annotations: keys(1),
            pod_affinity: Some(about_pods(65_528)),
            topology_spread: Some(spread(65_528)),
            add_tolerations: vec![toleration],
            add_requests: Some(others(&key)),
            node_affinity: Some(affinity(1_022)),
            reason: "r".repeat(1_000),
            ..api::PodChange::default()
        };
        assert_eq!(pod(change), Ok(()));
        let taint = api::Taint { key: key.clone(), ..api::Taint::default() };
        let change = api::NodeChange {
            remove_labels: keys(60),
            holds: vec![held(Some(others(&key)), 1_024, &"u".repeat(64))],
            remove_taints: vec![taint],
            add_usage: Some(api::NodeUsage { requested: Some(others(&key)), nonzero: None }),
            ..api::NodeChange::default()
        };
        assert_eq!(node(change), Ok(()));
    }

    #[test]
    fn changes_of_pods_beyond_a_limit_fail() {
        let (key, value) = ("k".repeat(318), "v".repeat(257));
        let toleration = |key: &str, value: &str| api::Toleration {
            key: key.to_owned(),
            value: value.to_owned(),
            ..api::Toleration::default()
        };
        let unchanged = api::PodChange::default;
        for change in [
            api::PodChange { remove_labels: keys(65), ..unchanged() },
            api::PodChange { set_labels: labels("", ""), ..unchanged() },
            api::PodChange { set_node_selector: labels(&key, ""), ..unchanged() },
            api::PodChange { set_node_selector: labels("key", &value), ..unchanged() },
            api::PodChange { remove_node_selector: vec![key.clone()], ..unchanged() },
            api::PodChange { add_requests: Some(others(&key)), ..unchanged() },
            api::PodChange { add_tolerations: vec![toleration(&key, "")], ..unchanged() },
            api::PodChange { remove_tolerations: vec![toleration("", &value)], ..unchanged() },
            api::PodChange { node_affinity: Some(affinity(1_023)), ..unchanged() },
            api::PodChange { set_annotations: labels(&key, ""), ..unchanged() },
            api::PodChange { set_annotations: labels("key", &value), ..unchanged() },
            api::PodChange { remove_annotations: keys(65), ..unchanged() },
            api::PodChange { pod_affinity: Some(about_pods(65_529)), ..unchanged() },
            api::PodChange { topology_spread: Some(spread(65_529)), ..unchanged() },
            api::PodChange { node_affinity: Some(affinity(0)), remove_node_affinity: true, ..unchanged() },
        ] {
            assert!(pod(change.clone()).is_err(), "{change:?}");
        }
    }

    /// With `more` entries besides those at every place that has a list or a map.
    fn full(more: usize) -> [api::PodChange; 3] {
        let requirement =
            |values| api::NodeSelectorRequirement { values: keys(values), ..Default::default() };
        let selector = || api::LabelSelector {
            match_labels: labels("key", ""),
            match_expressions: vec![requirement(1)],
        };
        let term = || api::PodAffinityTerm {
            selector: Some(selector()),
            namespaces: keys(1),
            namespace_selector: Some(selector()),
            match_label_keys: keys(1),
            mismatch_label_keys: keys(1),
            ..Default::default()
        };
        let weighted = || api::WeightedPodAffinityTerm { weight: 1, term: Some(term()) };
        let pod_affinity = api::PodAffinity {
            required: vec![api::PodAffinityTerm { namespaces: keys(1 + more), ..term() }],
            preferred: vec![weighted()],
            anti_required: vec![term()],
            anti_preferred: vec![weighted()],
        };
        let of_node = |values| api::NodeSelectorTerm {
            match_expressions: vec![requirement(values)],
            match_fields: vec![requirement(1)],
        };
        let preferred = vec![api::PreferredSchedulingTerm { weight: 1, preference: Some(of_node(1)) }];
        let required = Some(api::NodeSelector { terms: vec![of_node(1 + more)] });
        let node_affinity = api::NodeAffinity { required, preferred };
        let constraint = api::TopologySpreadConstraint {
            selector: Some(selector()),
            match_label_keys: keys(1 + more),
            ..Default::default()
        };
        [
            api::PodChange { node_affinity: Some(node_affinity), ..Default::default() },
            api::PodChange { pod_affinity: Some(pod_affinity), ..Default::default() },
            api::PodChange {
                topology_spread: Some(api::TopologySpread { constraints: vec![constraint] }),
                ..Default::default()
            },
        ]
    }

    #[test]
    fn the_entries_of_an_affinity_are_counted_at_every_place() {
        for (at, entries) in [10, 40, 5].into_iter().enumerate() {
            let [most, more] = [AFFINITY_ENTRIES - entries, AFFINITY_ENTRIES - entries + 1];
            assert_eq!(pod(full(most)[at].clone()), Ok(()), "{at}");
            let why = pod(full(more)[at].clone()).unwrap_err();
            assert!(why.contains("has 1025 entries in all lists and maps"), "{why}");
        }
    }

    #[test]
    fn changes_of_nodes_beyond_a_limit_fail() {
        let (key, value) = ("k".repeat(318), "v".repeat(257));
        let taint = |key: &str, value: &str, effect: &str| {
            let [key, value, effect] = [key, value, effect].map(str::to_owned);
            vec![api::Taint { key, value, effect }]
        };
        let unchanged = api::NodeChange::default;
        let negative = api::Resources { memory: -1, ..api::Resources::default() };
        for change in [
            api::NodeChange { remove_labels: keys(65), ..unchanged() },
            api::NodeChange { set_labels: labels("key", &value), ..unchanged() },
            api::NodeChange { remove_labels: vec![String::new()], ..unchanged() },
            api::NodeChange { add_taints: taint("key", "", ""), ..unchanged() },
            api::NodeChange { add_taints: taint("key", &value, "NoSchedule"), ..unchanged() },
            api::NodeChange { remove_taints: taint("", "", ""), ..unchanged() },
            api::NodeChange { add_allocatable: Some(others(&key)), ..unchanged() },
            api::NodeChange {
                add_usage: Some(api::NodeUsage { requested: Some(others("")), nonzero: None }),
                ..unchanged()
            },
            api::NodeChange { holds: vec![held(None, 0, "u")], ..unchanged() },
            api::NodeChange { holds: vec![held(Some(others(&key)), 0, "u")], ..unchanged() },
            api::NodeChange { holds: vec![held(Some(others("a")), 1, "")], ..unchanged() },
            api::NodeChange { holds: vec![held(Some(others("a")), 1_025, "u")], ..unchanged() },
            api::NodeChange { holds: vec![held(Some(negative), 0, "u")], ..unchanged() },
        ] {
            assert!(node(change.clone()).is_err(), "{change:?}");
        }
    }

    #[test]
    fn all_changes_of_a_response_are_counted_together() {
        let change = || api::NodeChange { remove_labels: keys(64), ..api::NodeChange::default() };
        let response = |count: usize| api::ChangeResponse {
            nodes: (0..count).map(|_| change()).collect(),
            ..api::ChangeResponse::default()
        };
        // 64 + 4 changes of 64 entries, and 64 nodes with 4 entries each.
        assert_eq!(check(&response(68), 64), Ok(()));
        assert!(check(&response(68), 63).is_err());
    }
}
