//! Notes about the nodes that were offered in the latest attempt, and those that were left.

use crate::{
    api::Decision,
    cli::{
        explain::{
            attempt::{SchedulingAttempt, node},
            case::Evidence,
            cluster::nearest,
        },
        text::{counted, number},
    },
};
use extender_gateway_core::Verb;

pub(super) fn note(case: &Evidence, notes: &mut Vec<String>) {
    let Some(attempt) = case.latest() else { return };
    notes.extend(nobody(case, attempt));
    let Some(filter) = attempt.filter() else { return };
    notes.extend(not_offered(case, filter));
    notes.extend(nominated(filter));
    notes.extend(not_scored(attempt, filter));
}

/// No backend took part.
fn nobody(case: &Evidence, attempt: &SchedulingAttempt) -> Option<String> {
    let nobody = attempt.calls.iter().all(|call| call.decision.backends.is_empty())
        && attempt.calls.iter().any(|call| call.decision.offered > 0);
    let exempt = attempt.calls.iter().any(|call| call.decision.exempt);
    nobody.then(|| if exempt { is_exempt(case) } else { UNMATCHED.to_owned() })
}

const UNMATCHED: &str = "No backend was called in this attempt: no backend has both a block for the verb and a match for the pod; `extender-gateway check-config` prints them.";

fn is_exempt(case: &Evidence) -> String {
    format!(
        "No backend was called in this attempt: namespace {} is one of exempt.namespaces (kube-system and the gateway's own, unless \
         the configuration says otherwise).",
        case.namespace
    )
}

/// The node of `--node` was not offered.
fn not_offered(case: &Evidence, filter: &Decision) -> Option<String> {
    let name = case.node.as_deref().filter(|name| node(filter, name).is_none())?;
    if case.node_exists == Some(false) {
        let names = filter.nodes.iter().map(|node| node.name.clone()).collect();
        return Some(format!("There is no node {name} in the cluster{}.", meant(&nearest(name, names))));
    }
    if case.node_exists.is_none() && case.cluster_nodes == Some(filter.offered.into()) {
        let names = filter.nodes.iter().map(|node| node.name.clone()).collect();
        return Some(format!(
            "{name} was not offered in this attempt, although all {} that are known were: check the name{}.",
            counted(u64::from(filter.offered), "node"),
            meant(&nearest(name, names))
        ));
    }
    Some(format!(
        "{name} was not offered in this attempt ({}): kube-scheduler's own filters rejected it, or found enough nodes before it \
         (percentageOfNodesToScore). The gateway cannot tell which.",
        offered(filter, case.cluster_nodes)
    ))
}

fn meant(near: &[String]) -> String {
    if near.is_empty() { String::new() } else { format!("; similar names: {}", near.join(", ")) }
}

/// How many of the nodes were offered: `500 of 5,000 nodes were`.
pub(in crate::cli::explain) fn offered(filter: &Decision, all: Option<u64>) -> String {
    let count = u64::from(filter.offered);
    let were = if count == 1 { "was" } else { "were" };
    match all.filter(|all| *all >= count) {
        Some(all) => format!("{} of {} {were}", number(count), counted(all, "node")),
        None => format!("{} {were}", counted(count, "node")),
    }
}

/// kube-scheduler first tries a nominated node alone.
fn nominated(filter: &Decision) -> Option<String> {
    let [only] = filter.nodes.as_slice() else { return None };
    let of_pod = filter.pod.nominated_node.as_ref()?;
    (*of_pod == only.name).then(|| {
        format!(
            "One node offered: nominated. kube-scheduler tries {of_pod}, the pod's status.nominatedNodeName, first and alone, and requests no scores if it is feasible."
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
