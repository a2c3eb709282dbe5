//! Notes about the nodes of the latest attempt: which were offered and left, and how their scores compare with the
//! pod's node.

use extender_gateway_core::Verb;
use extender_gateway_object::text::{counted, number};

use crate::Decision;
use crate::explain::{
    evidence::{Evidence, SchedulingAttempt, best, node},
    pod::similar,
};

/// More names than this are only counted.
const MAX_NAMES: usize = 3;

const NO_MATCH: &str = "No backend was called in this attempt: none has a block for the verb, a match for the pod and a mode in which it is called. `extender-gateway check-config` prints them; `extender-gateway status` and the log (`mode overridden`) say what an operator has disabled for a while.";

const OTHER_SCORES: &str = "Scores of kube-scheduler's own plugins and of other extenders are added to these, and the gateway does not \
                            see them.";

pub(super) fn note(evidence: &Evidence, notes: &mut Vec<String>) {
    let Some(attempt) = evidence.latest() else { return };
    notes.extend(no_backend(evidence, attempt));
    let filter = attempt.call(Verb::Filter);
    if let Some(filter) = filter {
        notes.extend(not_offered(evidence, filter));
        notes.extend(nominated(filter));
        notes.extend(not_scored(attempt, filter));
    }
    match (evidence.node_of_pod(), attempt.scored(), filter) {
        (Some(place), Some(scored), _) => notes.extend(compare(place, scored)),
        (Some(place), None, Some(filter)) => notes.extend(rejected(place, filter)),
        _ => {}
    }
}

/// No backend took part.
fn no_backend(evidence: &Evidence, attempt: &SchedulingAttempt) -> Option<String> {
    let calls = || attempt.calls.iter().map(|call| &call.decision);
    if calls().any(|call| !call.backends.is_empty()) || calls().all(|call| call.offered == 0) {
        return None;
    }
    if !calls().any(|call| call.exempt) {
        return Some(NO_MATCH.to_owned());
    }
    Some(format!(
        "No backend was called in this attempt: namespace {} is one of exempt.namespaces (kube-system and the gateway's own, unless \
         the configuration says otherwise).",
        evidence.target.namespace
    ))
}

/// The node of `--node` was not offered.
fn not_offered(evidence: &Evidence, filter: &Decision) -> Option<String> {
    let name = evidence.target.node.as_deref().filter(|name| node(filter, name).is_none())?;
    let similar_names = || {
        let names = similar(name, filter.nodes.iter().map(|node| node.name.clone()).collect());
        if names.is_empty() { String::new() } else { format!("; similar names: {}", names.join(", ")) }
    };
    let cluster = &evidence.cluster;
    Some(match cluster.node_exists {
        Some(false) => format!("There is no node {name} in the cluster{}.", similar_names()),
        None if cluster.cluster_nodes == Some(filter.offered.into()) => format!(
            "{name} was not offered in this attempt, although all {} that are known were: check the name{}.",
            counted(filter.offered, "node"),
            similar_names()
        ),
        exists => format!(
            "{name} was not offered in this attempt ({}): kube-scheduler's own filters rejected it, or found enough nodes before it \
             (percentageOfNodesToScore). The gateway cannot tell which{}.",
            offered(filter, cluster.cluster_nodes),
            exists.map_or_else(
                || format!(", nor whether there is a node of this name{}", similar_names()),
                |_| String::new()
            )
        ),
    })
}

/// How many of the nodes were offered: `500 of 5,000 nodes were`.
pub fn offered(filter: &Decision, all: Option<u64>) -> String {
    let count = u64::from(filter.offered);
    let were = if count == 1 { "was" } else { "were" };
    match all.filter(|all| *all >= count) {
        Some(all) => format!("{} of {} {were}", number(count), counted(all, "node")),
        None => format!("{} {were}", counted(count, "node")),
    }
}

/// kube-scheduler first tries a nominated node alone.
fn nominated(filter: &Decision) -> Option<String> {
    let nominated = filter.pod.nominated_node.as_ref()?;
    matches!(filter.nodes.as_slice(), [only] if only.name == *nominated).then(|| {
        format!(
            "One node offered: nominated. kube-scheduler tries {nominated}, the pod's status.nominatedNodeName, first and alone, and requests no scores if it is feasible."
        )
    })
}

/// Nodes are left, but no scores were requested.
fn not_scored(attempt: &SchedulingAttempt, filter: &Decision) -> Option<String> {
    let left = filter.left.filter(|left| *left > 0 && filter.outcome == "ok")?;
    if attempt.call(Verb::Prioritize).is_some() {
        return None;
    }
    if left == 1 {
        let why = "kube-scheduler requests no scores for a single node";
        return Some(format!("One feasible node: not scored. {why}."));
    }
    Some(format!(
        "{} were left and no prioritize call followed: another extender behind this one may have left at most one, the attempt \
         may have ended early, or kube-scheduler's entry for the gateway has no prioritizeVerb.",
        counted(left, "node")
    ))
}

/// Compares the pod's node with the best nodes.
fn compare(place: &str, scored: &Decision) -> Option<String> {
    let Some(here) = node(scored, place) else { return Some(placed_elsewhere(place)) };
    let (highest, nodes) = best(scored)?;
    let total = here.total.unwrap_or_default();
    let names: Vec<&str> = nodes.iter().map(|node| node.name.as_str()).collect();
    let count = number(names.len() as u64);
    if total >= highest {
        return (names.len() > 1)
            .then(|| format!("{count} nodes share the highest total, {highest}. {OTHER_SCORES}"));
    }
    let have = match names.as_slice() {
        [name] => format!("{name} has"),
        [first @ .., last] if names.len() <= MAX_NAMES => format!("{} and {last} have", first.join(", ")),
        _ => format!("{count} nodes have"),
    };
    Some(format!(
        "The pod is on {place} (total {total}), although {have} a higher total ({highest}). {OTHER_SCORES}"
    ))
}

/// The pod is on a node that the attempt had rejected.
fn rejected(place: &str, filter: &Decision) -> Option<String> {
    let accepted = node(filter, place).is_some_and(|node| node.rejected_by.is_none());
    (!accepted).then(|| placed_elsewhere(place))
}

fn placed_elsewhere(place: &str) -> String {
    format!(
        "The pod is on {place}, which was rejected in the latest known attempt: a later attempt or another scheduler placed it there."
    )
}
