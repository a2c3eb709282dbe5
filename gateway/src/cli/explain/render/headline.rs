//! The first lines: where the pod is, its latest call, and the result.

use crate::{
    api::Decision,
    cli::{
        explain::{
            attempt::{SchedulingAttempt, best},
            case::Evidence,
            notes::{offered, refused, tried_again, words},
            pod::{PodFacts, PodState},
        },
        text::{ago, counted, moment, number},
    },
};
use extender_gateway_core::Verb;

/// The lines, without notes.
pub(super) fn lines(case: &Evidence) -> Vec<String> {
    let mut lines = vec![standing(case)];
    let Some(attempt) = case.latest() else { return lines };
    lines.push(asked(case, attempt));
    lines.extend(outcome(case, attempt));
    lines.extend(condition(case));
    lines
}

fn standing(case: &Evidence) -> String {
    let pod = format!("Pod {}/{}", case.namespace, case.name);
    match (&case.pod, case.place()) {
        (PodState::There(facts), _) => format!("{pod} {}.", place(facts)),
        (PodState::Gone { .. }, None) => format!("{pod} no longer exists."),
        (PodState::Gone { .. }, Some(node)) => {
            format!("{pod} no longer exists; the gateway had a call to bind it to {node}.")
        }
        (PodState::NotAsked { .. }, None) => format!("{pod}: location unknown."),
        (PodState::NotAsked { .. }, Some(node)) => {
            format!("{pod} was bound to {node} according to the bind call.")
        }
    }
}

fn place(pod: &PodFacts) -> String {
    let phase = match pod.phase.as_str() {
        "Running" | "" => String::new(),
        phase => format!(" ({phase})"),
    };
    match (&pod.node, &pod.nominated_node) {
        (Some(node), _) => format!("is on {node}{phase}"),
        (None, Some(node)) => format!("is not scheduled{phase}; {node} is nominated for it"),
        (None, None) => format!("is not scheduled{phase}"),
    }
}

fn asked(case: &Evidence, attempt: &SchedulingAttempt) -> String {
    let count = case.attempts.len();
    let first = case.attempts.last().map_or(attempt.time, |first| first.time);
    let (attempts, first) = (counted(count as u64, "attempt"), ago(first, case.time));
    let truncated = case.gateways.iter().any(|replica| replica.truncated);
    let log = match count {
        _ if truncated => format!("the log has more than {attempts}, these since {first}"),
        1 => format!("the log has {attempts}"),
        _ => format!("the log has {attempts}, the first {first}"),
    };
    let by = attempt.last().map_or("", |call| call.gateway.as_str());
    let last = attempt.last().map_or(attempt.time, |call| call.decision.time);
    format!("Last call {} ({}) by {by}; {log}.", ago(last, case.time), moment(last))
}

/// The result of the latest attempt.
fn outcome(case: &Evidence, attempt: &SchedulingAttempt) -> Option<String> {
    let parts = [
        attempt.filter().map(|call| filter(call, case.cluster_nodes)),
        attempt.call(Verb::Prioritize).map(prioritize),
        attempt.call(Verb::Preempt).map(preempt),
        attempt.call(Verb::Bind).map(bind),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    (!parts.is_empty()).then(|| format!("Latest attempt: {}.", parts.join("; ")))
}

fn filter(call: &Decision, all: Option<u64>) -> String {
    let offer = offered(call, all);
    match call.left {
        _ if call.outcome != "ok" => format!("{offer} offered; {}", failed(call)),
        _ if call.offered == 0 => "no node was offered".to_owned(),
        Some(0) => format!("{offer} offered, all rejected"),
        Some(left) if left == call.offered => format!("{offer} offered, none rejected"),
        Some(left) => {
            format!(
                "{offer} offered, {} left, {} rejected",
                number(left),
                number(call.offered.saturating_sub(left))
            )
        }
        None => format!("{offer} offered"),
    }
}

/// The error of a call as sent to kube-scheduler.
fn failed(call: &Decision) -> String {
    let message = call.message.as_deref().unwrap_or("no words");
    format!("{} ended with an error ({}): {message}", call.verb, call.outcome)
}

fn prioritize(call: &Decision) -> String {
    if call.outcome != "ok" {
        return failed(call);
    }
    match best(call) {
        None => "no backend scores".to_owned(),
        Some((total, nodes)) => match nodes.as_slice() {
            [node] => format!("{} has the highest total, {total}", node.name),
            nodes => format!("{} share the highest total, {total}", counted(nodes.len() as u64, "node")),
        },
    }
}

fn preempt(call: &Decision) -> String {
    if call.outcome != "ok" {
        return failed(call);
    }
    let left = call.left.unwrap_or_default();
    format!("preemption: {} of {} left", number(left), counted(call.offered, "candidate"))
}

fn bind(call: &Decision) -> String {
    match call.nodes.first() {
        _ if call.outcome != "ok" => failed(call),
        Some(node) => format!("bound to {}", node.name),
        None => "bound".to_owned(),
    }
}

/// The scheduler's message about a pod that is not scheduled; that of a later attempt is in a note.
fn condition(case: &Evidence) -> Option<String> {
    let condition = refused(case.pod()?).filter(|_| tried_again(case).is_none())?;
    Some(format!("PodScheduled: {}", words(condition)))
}
