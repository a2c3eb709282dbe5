//! Notes about the present state of the backends because of which a pod waits.

use extender_gateway_core::Verb;
use extender_gateway_object::text::ago;
use jiff::{SignedDuration, Timestamp};

use crate::explain::evidence::{Evidence, SchedulingAttempt};
use crate::{BackendPart, BackendStatus, Decision, Problem, Severity, Status};

/// Adds what has happened to the backends of an unscheduled pod since its latest attempt, and what helps.
pub(super) fn note(evidence: &Evidence, notes: &mut Vec<String>) {
    if evidence.cluster.is_simulation() {
        return notes.extend(of_simulation(evidence));
    }
    let waits = evidence.pod().is_some_and(|pod| pod.node.is_none());
    let Some(attempt) = evidence.latest().filter(|_| waits) else { return };
    let statuses =
        || evidence.statuses.iter().flat_map(|status| status.backends.iter().map(move |it| (status, it)));
    let mut found: Vec<String> = Vec::new();
    for (status, backend) in statuses().filter(|(_, backend)| holds(attempt, &backend.name)) {
        found.extend(changed(evidence, attempt, status, backend));
        found.extend(remedies(status, backend));
    }
    // Replicas mostly agree.
    found.sort();
    found.dedup();
    notes.extend(found);
}

/// What helps with the failures of a simulation, which has just ended. The sentence about a verb that cannot be used says so
/// itself.
fn of_simulation(evidence: &Evidence) -> Vec<String> {
    let calls = evidence.latest().into_iter().flat_map(|attempt| &attempt.calls);
    let parts = calls.flat_map(|call| &call.decision.backends);
    let failed =
        parts.filter(|part| part.failure.as_ref().is_some_and(|failure| failure.kind != "unsuitable"));
    let mut names: Vec<String> = failed.map(|part| format!("backend {}", part.name)).collect();
    names.dedup();
    let problems = evidence.statuses.iter().flat_map(|status| &status.problems);
    let problems = problems.filter(|problem| names.contains(&problem.about));
    problems
        .map(|Problem { about, what, remedy, .. }| format!("{about}: {what}. Remedy: {remedy}."))
        .collect()
}

/// Whether a backend rejected nodes or failed in this attempt.
fn holds(attempt: &SchedulingAttempt, name: &str) -> bool {
    let is_held = |part: &BackendPart| part.name == name && (part.rejected > 0 || part.failure.is_some());
    attempt.calls.iter().flat_map(|call| &call.decision.backends).any(is_held)
}

/// Whether this attempt ended with an error, after which kube-scheduler does not wait for an event.
fn has_failed(attempt: &SchedulingAttempt) -> bool {
    let ends = |call: &Decision| call.is(Verb::Filter) || call.is(Verb::Bind);
    attempt.calls.iter().any(|call| ends(&call.decision) && call.decision.outcome != "ok")
}

/// A change after the attempt, which kube-scheduler does not know of.
fn changed(
    evidence: &Evidence,
    attempt: &SchedulingAttempt,
    status: &Status,
    backend: &BackendStatus,
) -> Option<String> {
    let seconds = i64::try_from(backend.waiting.as_ref()?.changed_seconds?).ok()?;
    let time: Timestamp = evidence.time.checked_sub(SignedDuration::from_secs(seconds)).ok()?;
    let next = match status.requeue.as_str() {
        "PodCondition" => "the gateway makes kube-scheduler try the pod again",
        _ if has_failed(attempt) => "kube-scheduler tries the pod again by itself, within 10 s by default",
        _ => {
            "kube-scheduler tries the pod again at the next event, in 5.5 min at most, or now after `extender-gateway status \
             --retry`"
        }
    };
    let sentence = || {
        format!(
            "{} has recovered or changed {}, after this attempt: {next}.",
            backend.name,
            ago(time, evidence.time)
        )
    };
    (time > attempt.time && backend.connected).then(sentence)
}

/// The remedies of its present errors.
fn remedies(status: &Status, backend: &BackendStatus) -> impl Iterator<Item = String> {
    let about = format!("backend {}", backend.name);
    let errors = status
        .problems
        .iter()
        .filter(move |problem| problem.severity == Severity::Error && problem.about == about);
    errors.map(|problem| {
        let runbook =
            if problem.runbook.is_empty() { String::new() } else { format!(" ({})", problem.runbook) };
        format!("Now: {}: {}. Remedy: {}{runbook}.", problem.about, problem.what, problem.remedy)
    })
}

#[cfg(test)]
mod tests;
