//! The first lines of an explanation: where the pod is, its latest call, the result, and the scheduler's message.

use extender_gateway_core::Verb;
use extender_gateway_object::text::{ago, counted, moment, number};

use super::{
    evidence::{Evidence, SchedulingAttempt, best},
    notes::{condition_text, offered, retry_without_call, unschedulable},
    pod::{PodFacts, PodState, WaitingPods},
};

use crate::Decision;

/// All lines, in reading order.
pub(super) fn of(evidence: &Evidence) -> Vec<String> {
    let mut lines: Vec<String> = evidence.target.waiting.as_ref().map(others).into_iter().collect();
    lines.extend(evidence.target.group.iter().flat_map(|group| group.lines(evidence.time)));
    lines.push(location(evidence));
    let Some(attempt) = evidence.latest() else { return lines };
    if !evidence.cluster.is_simulation() {
        lines.push(last_call(evidence, attempt));
    }
    lines.extend(outcome(evidence, attempt));
    // The message about a later attempt is in a note.
    let condition = evidence.pod().and_then(unschedulable);
    let condition = condition.filter(|_| retry_without_call(evidence).is_none());
    lines.extend(condition.map(|condition| format!("PodScheduled: {}", condition_text(condition))));
    lines
}

/// How many pods of a workload are named.
const MAX_NAMED: usize = 3;

/// The pods of a workload that wait for a node.
fn others(waiting: &WaitingPods) -> String {
    let WaitingPods { workload, names } = waiting;
    let Some((oldest, others)) = names.split_first().filter(|(_, others)| !others.is_empty()) else {
        return format!("1 pod of {workload} waits for a node.");
    };
    let named = others.iter().take(MAX_NAMED).map(String::as_str).collect::<Vec<_>>().join(", ");
    let more = match others.len().saturating_sub(MAX_NAMED) {
        0 => String::new(),
        more => format!(" and {} more", number(more as u64)),
    };
    let count = counted(names.len() as u64, "pod");
    format!(
        "{count} of {workload} wait for a node. This is about the oldest, {oldest}; the others are {named}{more}."
    )
}

fn location(evidence: &Evidence) -> String {
    let pod = format!("Pod {}/{}", evidence.target.namespace, evidence.target.name);
    match (&evidence.cluster.pod, evidence.node_of_pod()) {
        (PodState::There(facts), _) => format!("{pod} {}.", place(facts)),
        (PodState::Gone { .. }, None) => format!("{pod} no longer exists."),
        (PodState::Gone { .. }, Some(node)) => {
            format!("{pod} no longer exists; the gateway had a call to bind it to {node}.")
        }
        (PodState::Simulated { file }, _) => format!("{pod} from {file}, tried without a cluster."),
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

fn last_call(evidence: &Evidence, attempt: &SchedulingAttempt) -> String {
    let count = evidence.attempts.len();
    let first = evidence.attempts.last().map_or(attempt.time, |first| first.time);
    let (attempts, first) = (counted(count as u64, "attempt"), ago(first, evidence.time));
    let truncated = evidence.gateways.iter().any(|replica| replica.truncated);
    let log = match count {
        _ if truncated => format!("the log has more than {attempts}, these since {first}"),
        1 => format!("the log has {attempts}"),
        _ => format!("the log has {attempts}, the first {first}"),
    };
    let (time, by) =
        attempt.calls.last().map_or((attempt.time, ""), |call| (call.decision.time, call.gateway.as_str()));
    format!("Last call {} ({}) by {by}; {log}.", ago(time, evidence.time), moment(time))
}

/// The result of the latest attempt.
fn outcome(evidence: &Evidence, attempt: &SchedulingAttempt) -> Option<String> {
    let parts = [
        attempt.call(Verb::Filter).map(|call| filter(call, evidence.cluster.cluster_nodes)),
        attempt.call(Verb::Prioritize).map(|call| failed(call).unwrap_or_else(|| prioritize(call))),
        attempt.call(Verb::Preempt).map(|call| failed(call).unwrap_or_else(|| preempt(call))),
        attempt.call(Verb::Bind).map(|call| failed(call).unwrap_or_else(|| bind(call))),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    let begin = if evidence.cluster.is_simulation() { "Result" } else { "Latest attempt" };
    (!parts.is_empty()).then(|| format!("{begin}: {}.", parts.join("; ")))
}

/// The error of a call as sent to kube-scheduler.
fn failed(call: &Decision) -> Option<String> {
    let message = call.message.as_deref().unwrap_or("no words");
    let text = || format!("{} ended with an error ({}): {message}", call.verb, call.outcome);
    (call.outcome != "ok").then(text)
}

fn filter(call: &Decision, all: Option<u64>) -> String {
    let offered = offered(call, all);
    match (failed(call), call.left) {
        (Some(failed), _) => format!("{offered} offered; {failed}"),
        _ if call.offered == 0 => "no node was offered".to_owned(),
        (None, Some(0)) => format!("{offered} offered, all rejected"),
        (None, Some(left)) if left == call.offered => format!("{offered} offered, none rejected"),
        (None, Some(left)) => {
            let rejected = number(call.offered.saturating_sub(left));
            format!("{offered} offered, {} left, {rejected} rejected", number(left))
        }
        (None, None) => format!("{offered} offered"),
    }
}

fn prioritize(call: &Decision) -> String {
    let Some((total, nodes)) = best(call) else { return "no backend scores".to_owned() };
    match nodes.as_slice() {
        [node] => format!("{} has the highest total, {total}", node.name),
        nodes => format!("{} share the highest total, {total}", counted(nodes.len() as u64, "node")),
    }
}

fn preempt(call: &Decision) -> String {
    let left = number(call.left.unwrap_or_default());
    format!("preemption: {left} of {} left", counted(call.offered, "candidate"))
}

fn bind(call: &Decision) -> String {
    call.nodes.first().map_or_else(|| "bound".to_owned(), |node| format!("bound to {}", node.name))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_waiting_pods_of_a_workload_are_named() {
        let told = |count: usize| {
            let names = (0..count).map(|pod| format!("web-{pod}")).collect();
            others(&WaitingPods { workload: "deployment/web".to_owned(), names })
        };
        assert_eq!(told(1), "1 pod of deployment/web waits for a node.");
        let begin =
            "of deployment/web wait for a node. This is about the oldest, web-0; the others are web-1";
        assert_eq!(told(2), format!("2 pods {begin}."));
        assert_eq!(told(4), format!("4 pods {begin}, web-2, web-3."));
        assert_eq!(told(1200), format!("1,200 pods {begin}, web-2, web-3 and 1,196 more."));
    }
}
