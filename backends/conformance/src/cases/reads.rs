//! What a verb reads of pods and nodes.

use std::collections::{BTreeMap, BTreeSet};

use extender_policy_api::limits::{KEY_BYTES, READ_COUNTS, READ_KEYS, READ_PARTS};
use extender_policy_api::v1beta1 as api;
use tonic::Code;

use crate::{
    case::{self, Case, Stop, failed, skipped},
    declared::{ALL_BUT_BIND, TOLD_TOPOLOGY, Terms, Verb},
    suite::Suite,
};

pub(super) fn cases() -> Vec<Case> {
    case::table! {
        "reads.parts" Must ["42.1"] "parts are known and listed once" => parts;
        "reads.keys" Must ["41.1", "42.1"] "keys are in ascending order, each once" => keys;
        "reads.prefixes" Must ["42.1"] "no key begins with a declared prefix" => prefixes;
        "reads.limits" Must ["8.3"] "keys and prefixes are few and short" => limits;
        "reads.node" Must ["42.1"] "nodes are read only with a view of facts" => node;
        "reads.counts" Must ["42.1"] "counts are in order, known and few" => counts;
        "reads.ids" Must ["43.1"] "different declarations have different ids" => ids;
        for ALL_BUT_BIND: "reads-id" Must ["43.2"] "another id in `call.reads` is refused" => other_id;
    }
}

fn declared(suite: &Suite) -> Result<Vec<(Terms<'_>, &api::Reads)>, Stop> {
    let reads: Vec<_> = suite.declared.verbs().filter_map(|terms| Some((terms, terms.reads()?))).collect();
    if reads.is_empty() { skipped("no verb has `reads`") } else { Ok(reads) }
}

fn ascending<T: PartialOrd>(items: &[T]) -> bool {
    items.windows(2).all(|pair| matches!(pair, [one, next] if one < next))
}

async fn parts(suite: &Suite) -> Result<(), Stop> {
    for (terms, reads) in declared(suite)? {
        let (verb, mut listed) = (terms.verb.name(), BTreeSet::new());
        let of_pod = reads.pod.iter().flat_map(|pod| &pod.parts);
        let of_pod = of_pod.map(|part| ("pod", *part, api::PodPart::try_from(*part).is_ok()));
        let of_node = reads.node.iter().flat_map(|node| &node.parts);
        let of_node = of_node.map(|part| ("node", *part, api::NodePart::try_from(*part).is_ok()));
        for (object, part, is_known) in of_pod.chain(of_node) {
            if part == 0 || !is_known {
                return failed(format!("{verb}: `reads.{object}.parts` has {part}, which is no part of it"));
            }
            if !listed.insert((object, part)) {
                return failed(format!("{verb}: `reads` lists a part twice"));
            }
        }
    }
    Ok(())
}

/// The maps of a declaration with their names.
fn maps(reads: &api::Reads) -> impl Iterator<Item = (&'static str, &api::MapReads)> {
    let pod = reads
        .pod
        .iter()
        .flat_map(|pod| [("pod.labels", pod.labels.as_ref()), ("pod.annotations", pod.annotations.as_ref())]);
    let node = reads.node.iter().flat_map(|node| {
        [("node.labels", node.labels.as_ref()), ("node.annotations", node.annotations.as_ref())]
    });
    pod.chain(node).filter_map(|(name, map)| Some((name, map?)))
}

async fn keys(suite: &Suite) -> Result<(), Stop> {
    for (terms, reads) in declared(suite)? {
        for (name, map) in maps(reads) {
            let (verb, keys) = (terms.verb.name(), &map.keys);
            if keys.iter().any(String::is_empty) {
                return failed(format!("{verb}: `reads.{name}.keys` has an empty key"));
            }
            if !ascending(keys) {
                return failed(format!("{verb}: `reads.{name}.keys` is not in ascending order: {keys:?}"));
            }
        }
    }
    Ok(())
}

async fn prefixes(suite: &Suite) -> Result<(), Stop> {
    for (terms, reads) in declared(suite)? {
        for (name, map) in maps(reads) {
            let is_covered = |key: &&String| map.prefixes.iter().any(|prefix| key.starts_with(&**prefix));
            if let Some(key) = map.keys.iter().find(is_covered) {
                let verb = terms.verb.name();
                return failed(format!("{verb}: {key:?} in `reads.{name}` begins with a declared prefix"));
            }
        }
    }
    Ok(())
}

async fn limits(suite: &Suite) -> Result<(), Stop> {
    for (terms, reads) in declared(suite)? {
        let verb = terms.verb.name();
        let texts = || maps(reads).flat_map(|(_, map)| map.keys.iter().chain(&map.prefixes));
        if let Some(long) = texts().find(|text| text.len() > KEY_BYTES) {
            return failed(format!("{verb}: `reads` has a key of {} bytes; at most {KEY_BYTES}", long.len()));
        }
        let parts =
            reads.pod.iter().map(|pod| pod.parts.len()).chain(reads.node.iter().map(|node| node.parts.len()));
        if texts().count() > READ_KEYS || parts.sum::<usize>() > READ_PARTS {
            let keys = texts().count();
            return failed(format!(
                "{verb}: `reads` has {keys} keys and prefixes; at most {READ_KEYS} are allowed"
            ));
        }
    }
    Ok(())
}

async fn node(suite: &Suite) -> Result<(), Stop> {
    for (terms, reads) in declared(suite)? {
        let reads_nodes = reads.node.as_ref().is_some_and(|node| *node != api::NodeReads::default());
        if reads_nodes && !(terms.verb.has_nodes() && terms.has_facts()) {
            let verb = terms.verb.name();
            return failed(format!("{verb}: `reads.node` is set, but the verb gets no facts of nodes"));
        }
    }
    Ok(())
}

async fn counts(suite: &Suite) -> Result<(), Stop> {
    for (terms, reads) in declared(suite)? {
        let verb = terms.verb.name();
        let nodes: Vec<_> = reads.node.iter().flat_map(|node| &node.pod_counts).collect();
        let pods: Vec<_> = reads.pod.iter().flat_map(|pod| &pod.topology_counts).collect();
        let by_node: Vec<_> = nodes.iter().map(|by| (by.by, &by.label)).collect();
        let by_pod: Vec<_> = pods.iter().map(|by| (by.by, &by.label, &by.topology_key)).collect();
        if !ascending(&by_node) || !ascending(&by_pod) {
            return failed(format!("{verb}: counts are not in ascending order, each once"));
        }
        if by_node.len() > READ_COUNTS || by_pod.len() > READ_COUNTS {
            return failed(format!("{verb}: more than {READ_COUNTS} counts are declared"));
        }
        let kinds = nodes.iter().map(|by| (by.by, &by.label)).chain(pods.iter().map(|by| (by.by, &by.label)));
        for (by, label) in kinds {
            match api::PodCountBy::try_from(by) {
                Err(_) | Ok(api::PodCountBy::Unspecified) => {
                    return failed(format!("{verb}: pods are counted by {by}, which is not a PodCountBy"));
                }
                Ok(by) if (by == api::PodCountBy::Label) == label.is_empty() => {
                    return failed(format!("{verb}: {} with the label {label:?}", by.as_str_name()));
                }
                Ok(_) => {}
            }
        }
        if !pods.is_empty() && !TOLD_TOPOLOGY.contains(&terms.verb) {
            return failed(format!("{verb}: `topology_counts` are only for filter and score"));
        }
    }
    Ok(())
}

async fn ids(suite: &Suite) -> Result<(), Stop> {
    let mut by_id: BTreeMap<u32, (Verb, api::Reads)> = BTreeMap::new();
    let other = super::args::other(suite).await?;
    let others = other.iter().flat_map(|(declared, _)| declared.verbs());
    let others = others.filter_map(|terms| Some((terms, terms.reads()?)));
    for (terms, reads) in declared(suite)?.into_iter().chain(others) {
        let content = api::Reads { id: 0, ..reads.clone() };
        let (other, first) = by_id.entry(reads.id).or_insert_with(|| (terms.verb, content.clone()));
        if *first != content {
            let (one, verb, id) = (other.name(), terms.verb.name(), reads.id);
            return failed(format!("{one} and {verb} declare different `reads`, both with the id {id}"));
        }
    }
    Ok(())
}

async fn other_id(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    let question = suite.random_question(verb, 2)?.called(|call| call.reads ^= 0x5555_5555);
    suite.refused(&question, Code::FailedPrecondition, "another declaration in `call.reads`").await
}
