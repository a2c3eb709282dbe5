//! What a verb reads of pods and nodes.

use std::collections::BTreeSet;

use bytes::Bytes;
use extender_policy_api::limits::{KEY_BYTES, READ_COUNTS, READ_KEYS, READ_PARTS};
use extender_policy_api::v1beta1 as api;
use tonic::Code;

use crate::{
    case::{self, Case, Stop, failed},
    declared::{ALL_BUT_BIND, NODE_PARTS_BESIDE, TOLD_TOPOLOGY, Terms, Verb},
    digest::sha256,
    suite::Suite,
};

pub(super) fn cases() -> Vec<Case> {
    case::table! {
        "reads.required" Must ["6.1", "40.2"] "each verb has `reads`, if empty" => required;
        "reads.parts" Must ["8.2", "42.1"] "parts are known and listed once" => parts;
        "reads.everything" Must ["42.1"] "`everything` is beside nothing that it includes" => everything;
        "reads.keys" Must ["41.1", "42.1"] "keys are in ascending order, each once" => keys;
        "reads.prefixes" Must ["42.1"] "no key begins with a declared prefix" => prefixes;
        "reads.limits" Must ["8.3"] "keys and prefixes are few and short" => limits;
        "reads.node" Must ["42.1"] "nodes are read only by verbs that have them" => node;
        "reads.counts" Must ["42.1"] "counts are in order, known and few" => counts;
        "reads.bytes" Must ["43.1"] "a declaration has the same bytes in each handshake" => bytes;
        for ALL_BUT_BIND: "other-reads" Must ["43.2"] "another declaration in `call.reads` is refused" => other_reads;
    }
}

fn declared(suite: &Suite) -> impl Iterator<Item = (Terms<'_>, &api::Reads)> {
    suite.declared.verbs().map(|terms| (terms, terms.reads()))
}

fn ascending<T: PartialOrd>(items: &[T]) -> bool {
    items.windows(2).all(|pair| matches!(pair, [one, next] if one < next))
}

async fn required(suite: &Suite) -> Result<(), Stop> {
    match suite.declared.verbs().find(|terms| terms.info.reads.is_none()) {
        Some(terms) => {
            let verb = terms.verb.name();
            failed(format!(
                "{verb} has no `reads`; set it, empty for a verb that reads nothing, or to `everything`"
            ))
        }
        None => Ok(()),
    }
}

async fn parts(suite: &Suite) -> Result<(), Stop> {
    for (terms, reads) in declared(suite) {
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

async fn everything(suite: &Suite) -> Result<(), Stop> {
    let beside_of_pod = [api::PodPart::Identity, api::PodPart::RawJson].map(i32::from);
    let beside_of_node = NODE_PARTS_BESIDE.map(i32::from);
    for terms in suite.declared.verbs() {
        let (pod, node) = (terms.pod_reads(), terms.node_reads());
        for (object, everything, parts, beside, labels) in [
            ("pod", pod.everything, &pod.parts, &beside_of_pod[..], &pod.labels),
            ("node", node.everything, &node.parts, &beside_of_node[..], &node.labels),
        ] {
            let verb = terms.verb.name();
            if everything && labels.is_some() {
                return failed(format!("{verb}: `reads.{object}` has `labels` beside `everything`"));
            }
            let included = parts.iter().find(|part| !beside.contains(part));
            if let Some(part) = included.filter(|_| everything) {
                return failed(format!(
                    "{verb}: `reads.{object}.parts` has {part}, which `everything` includes"
                ));
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
    for (terms, reads) in declared(suite) {
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
    for (terms, reads) in declared(suite) {
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
    for (terms, reads) in declared(suite) {
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
    for (terms, reads) in declared(suite) {
        let reads_nodes = reads.node.as_ref().is_some_and(|node| *node != api::NodeReads::default());
        if reads_nodes && !terms.verb.has_nodes() {
            let verb = terms.verb.name();
            return failed(format!("{verb}: `reads.node` is not empty, but the verb has no nodes"));
        }
    }
    Ok(())
}

async fn counts(suite: &Suite) -> Result<(), Stop> {
    for (terms, reads) in declared(suite) {
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

/// Handshakes that are compared.
const HANDSHAKES: usize = 20;

/// Another encoding of the same declaration would be another declaration for calls.
async fn bytes(suite: &Suite) -> Result<(), Stop> {
    for _ in 0..HANDSHAKES {
        let other = suite.declared_on(&suite.client).await?;
        for terms in suite.declared.verbs() {
            let again = other.verb(terms.verb).filter(|again| again.reads() == terms.reads());
            if again.is_some_and(|again| again.reads_sha256 != terms.reads_sha256) {
                let verb = terms.verb.name();
                return failed(format!("{verb}: equal `reads` are other bytes in another handshake"));
            }
        }
    }
    Ok(())
}

/// Other declarations than that of a verb, as `Call.reads` names them.
pub(super) fn others(terms: Terms<'_>) -> [(&'static str, Bytes); 3] {
    let cut = terms.reads_sha256.slice(..terms.reads_sha256.len() - 1);
    [
        ("another declaration in `call.reads`", sha256(b"conformance")),
        ("no `call.reads`", Bytes::new()),
        ("`call.reads` of 31 bytes", cut),
    ]
}

async fn other_reads(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    let question = suite.random_question(verb, 2)?;
    for (what, reads) in others(suite.terms(verb)?) {
        let question = question.clone().called(|call| call.reads = reads);
        suite.refused(&question, Code::FailedPrecondition, what).await?;
    }
    Ok(())
}
