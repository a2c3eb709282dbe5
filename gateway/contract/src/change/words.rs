//! Changes in words, for people: `+4 cpu, no taint dedicated: reserved for team a`.

use std::collections::BTreeMap;

use extender_gateway_core::reason;
use extender_policy_api::v1beta1::{
    NodeChange, NodeUsage, PodAffinity, PodChange, Resources, Taint, Toleration,
};

/// The longest text, in bytes. Its parts are from a backend.
const LONGEST: usize = 400;

/// A change of a pod in words.
pub fn pod_in_words(change: &PodChange) -> String {
    let mut words = Vec::new();
    if let Some(added) = &change.add_requests {
        words.extend(amounts(added).map(|amount| format!("requests {amount}")));
    }
    map("label", &change.set_labels, &change.remove_labels, &mut words);
    map("annotation", &change.set_annotations, &change.remove_annotations, &mut words);
    map("node selector", &change.set_node_selector, &change.remove_node_selector, &mut words);
    words.extend(change.remove_tolerations.iter().map(|it| format!("no toleration {}", toleration(it))));
    words.extend(change.add_tolerations.iter().map(|it| format!("toleration {}", toleration(it))));
    if change.node_affinity.is_some() {
        words.push("another node affinity".to_owned());
    } else if change.remove_node_affinity {
        words.push("no node affinity".to_owned());
    }
    let about_pods = change.pod_affinity.as_ref().map(|it| (*it == PodAffinity::default(), "pod affinity"));
    let spread = change.topology_spread.as_ref().map(|it| (it.constraints.is_empty(), "topology spread"));
    let replaced = about_pods.into_iter().chain(spread);
    words.extend(
        replaced.map(|(is_empty, what)| format!("{} {what}", if is_empty { "no" } else { "another" })),
    );
    joined(&words, &change.reason)
}

/// A change of a node in words.
pub fn node_in_words(change: &NodeChange) -> String {
    let mut words = Vec::new();
    if let Some(added) = &change.add_allocatable {
        words.extend(amounts(added));
    }
    if let Some(NodeUsage { requested, nonzero }) = &change.add_usage {
        words.extend(requested.iter().flat_map(amounts).map(|amount| format!("usage {amount}")));
        if requested.is_none() && nonzero.is_some() {
            words.push("usage for scores".to_owned());
        }
    }
    map("label", &change.set_labels, &change.remove_labels, &mut words);
    words.extend(change.remove_taints.iter().map(|it| format!("no taint {}", taint(it))));
    words.extend(change.add_taints.iter().map(|it| format!("taint {}", taint(it))));
    joined(&words, &change.reason)
}

fn joined(words: &[String], why: &str) -> String {
    let why =
        if why.is_empty() { String::new() } else { format!(": {}", reason::one_line(why, reason::LONGEST)) };
    reason::one_line(
        &format!("{}{why}", reason::one_line(&words.join(", "), LONGEST - reason::LONGEST)),
        LONGEST,
    )
}

fn map(what: &str, set: &BTreeMap<String, String>, removed: &[String], words: &mut Vec<String>) {
    words.extend(removed.iter().filter(|key| !set.contains_key(*key)).map(|key| format!("no {what} {key}")));
    words.extend(set.iter().map(|(key, value)| format!("{what} {key}={value}")));
}

/// As kubectl writes them: `key=value:effect`.
fn taint(Taint { key, value, effect }: &Taint) -> String {
    let value = if value.is_empty() { String::new() } else { format!("={value}") };
    let effect = if effect.is_empty() { String::new() } else { format!(":{effect}") };
    format!("{key}{value}{effect}")
}

fn toleration(Toleration { key, operator, value, effect, .. }: &Toleration) -> String {
    let operator = if operator.is_empty() { "Equal" } else { operator };
    let words = [key.as_str(), operator, value, effect];
    words.into_iter().filter(|word| !word.is_empty()).collect::<Vec<_>>().join(" ")
}

/// The amounts that are not zero, such as `+4 cpu`, `-1Gi memory`.
fn amounts(added: &Resources) -> impl Iterator<Item = String> {
    let Resources { milli_cpu, memory, ephemeral_storage, pods, others } = added;
    let cpu = match milli_cpu % 1000 {
        0 => signed(milli_cpu / 1000),
        _ => format!("{}m", signed(*milli_cpu)),
    };
    let named = [
        (*milli_cpu, cpu, "cpu"),
        (*memory, bytes(*memory), "memory"),
        (*ephemeral_storage, bytes(*ephemeral_storage), "ephemeral-storage"),
        (*pods, signed(*pods), "pods"),
    ];
    let named = named.into_iter().filter(|(amount, ..)| *amount != 0);
    let others = others.iter().filter(|(_, amount)| **amount != 0);
    let others = others.map(|(name, amount)| format!("{} {name}", signed(*amount)));
    named.map(|(_, amount, name)| format!("{amount} {name}")).chain(others).collect::<Vec<_>>().into_iter()
}

fn signed(amount: i64) -> String {
    format!("{amount:+}")
}

/// With the largest suffix that leaves a whole number.
fn bytes(amount: i64) -> String {
    let suffixes = [(1_i64 << 40, "Ti"), (1 << 30, "Gi"), (1 << 20, "Mi"), (1 << 10, "Ki")];
    let whole = suffixes.iter().find(|(unit, _)| amount % unit == 0);
    whole.map_or_else(|| signed(amount), |(unit, suffix)| format!("{}{suffix}", signed(amount / unit)))
}

#[cfg(test)]
mod tests {
    use extender_policy_api::v1beta1::{TopologySpread, TopologySpreadConstraint};

    use super::*;

    #[test]
    fn changes_are_told_in_words() {
        let resources = Resources {
            milli_cpu: 4_000,
            memory: -(1 << 30),
            pods: 1,
            others: BTreeMap::from([("example.com/gpu".to_owned(), 2), ("zero".to_owned(), 0)]),
            ..Resources::default()
        };
        let taint = |key: &str, value: &str, effect: &str| {
            let [key, value, effect] = [key, value, effect].map(str::to_owned);
            Taint { key, value, effect }
        };
        let node = NodeChange {
            add_allocatable: Some(resources),
            add_usage: Some(NodeUsage {
                requested: Some(Resources { milli_cpu: -1_500, ..Resources::default() }),
                nonzero: None,
            }),
            set_labels: BTreeMap::from([("zone".to_owned(), "b".to_owned())]),
            remove_labels: vec!["zone".to_owned(), "rack".to_owned()],
            add_taints: vec![taint("a", "", "NoSchedule")],
            remove_taints: vec![taint("dedicated", "ml", "")],
            reason: "reserved for\nteam a".to_owned(),
            ..NodeChange::default()
        };
        assert_eq!(
            node_in_words(&node),
            "+4 cpu, -1Gi memory, +1 pods, +2 example.com/gpu, usage -1500m cpu, no label rack, label zone=b, no taint \
             dedicated=ml, taint a:NoSchedule: reserved for team a"
        );
        let pod = PodChange {
            add_requests: Some(Resources { milli_cpu: 250, ..Resources::default() }),
            remove_node_affinity: true,
            add_tolerations: vec![Toleration {
                key: "dedicated".to_owned(),
                operator: "Exists".to_owned(),
                ..Toleration::default()
            }],
            remove_node_selector: vec!["pool".to_owned()],
            set_annotations: BTreeMap::from([("queue".to_owned(), "a".to_owned())]),
            remove_annotations: vec!["tier".to_owned(), "queue".to_owned()],
            pod_affinity: Some(PodAffinity::default()),
            topology_spread: Some(TopologySpread { constraints: vec![TopologySpreadConstraint::default()] }),
            ..PodChange::default()
        };
        assert_eq!(
            pod_in_words(&pod),
            "requests +250m cpu, no annotation tier, annotation queue=a, no node selector pool, toleration dedicated Exists, no node \
             affinity, no pod affinity, another topology spread"
        );
        let long = PodChange { set_labels: BTreeMap::from([("k".repeat(1 << 20), String::new())]), ..pod };
        assert!(pod_in_words(&long).len() <= LONGEST);
    }
}
