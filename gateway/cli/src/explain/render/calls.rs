//! Tables of calls: the latest attempt with one line for each backend, and the answers for one node.

use std::{collections::BTreeSet, fmt, mem::take};

use extender_gateway_api::explain::{
    evidence::{Evidence, SchedulingAttempt, node},
    notes::offered,
};
use extender_gateway_api::{BackendFailed, BackendPart, Decision, NodePart, NodeVerdict};
use extender_gateway_core::{PolicyVerb, Verb};
use extender_gateway_object::text::{NOTHING, Table, clean, counted, duration, moment, number, trimmed};

use super::write_hidden;

/// Writes the calls of an attempt; nothing if no backend took part.
pub(super) fn write(attempt: &SchedulingAttempt, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    if attempt.calls.iter().all(|call| call.decision.backends.is_empty()) {
        return Ok(());
    }
    let titles = ["CALL", "BACKEND", "MODE", "ASKED", "KNOWN", "REJECTED", "TIME", "ANSWER"];
    let mut table = Table::new(titles, 3..7);
    for call in attempt.calls.iter().map(|call| &call.decision) {
        // The verb is shown only in the first line of a call.
        let mut verb = call.verb.clone();
        let shown_if = |is_shown, text: String| if is_shown { text } else { NOTHING.to_owned() };
        let is_bind = call.is(Verb::Bind);
        let can_reject = call.is(Verb::Filter) || call.is(Verb::Preempt);
        for part in &call.backends {
            let has_nodes = !is_bind && part.hook.as_deref() != Some(PolicyVerb::BeforeFilter.name());
            table.row([
                part.hook.clone().unwrap_or_else(|| take(&mut verb)),
                part.name.clone(),
                part.mode.clone(),
                shown_if(has_nodes, number(part.asked)),
                shown_if(has_nodes, number(part.known)),
                shown_if(can_reject && part.hook.is_none(), number(part.rejected)),
                shown_if(part.seconds > 0.0, duration(part.seconds)),
                answer(call, part),
            ]);
        }
    }
    write!(out, "\n{table}")?;
    write_known(attempt, out)
}

/// Writes which pods the known answers are from, once for each backend.
fn write_known(attempt: &SchedulingAttempt, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    if attempt.calls.iter().any(|call| call.decision.kept) {
        writeln!(
            out,
            "kube-scheduler's plugin gave the pod the answers of an equal pod, which had been asked about less than a second before."
        )?;
    }
    let parts = attempt.calls.iter().flat_map(|call| &call.decision.backends);
    if parts.clone().any(|part| part.known > 0) {
        writeln!(
            out,
            "KNOWN: nodes whose answer was remembered from pods like this one, or came with an earlier answer."
        )?;
    }
    let lines: BTreeSet<_> = parts.filter_map(known_for).collect();
    lines.iter().try_for_each(|line| writeln!(out, "{}", clean(line)))
}

fn known_for(part: &BackendPart) -> Option<String> {
    let name = &part.name;
    Some(match part.reads_of_pods.as_deref()? {
        "nothing" => format!("{name} reads nothing of pods: its known answers are for all of them."),
        reads => format!("{name}: the known answers are for all pods with the same {reads}."),
    })
}

fn answer(call: &Decision, part: &BackendPart) -> String {
    let parts = [
        part.failure.as_ref().map(|failure| failed(call, part, failure)),
        part.answer.clone().filter(|_| part.failure.is_none()),
        part.mode_reason.clone(),
        changed(part),
        part.weight.map(|weight| format!("weight {weight}")),
        part.normalization.as_ref().map(|name| format!("normalization {name}")),
        (part.clamped > 0).then(|| format!("{} clamped", counted(part.clamped, "score"))),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// What a hook changed.
fn changed(part: &BackendPart) -> Option<String> {
    let nodes = (part.changed > 0).then(|| format!("{} changed", counted(part.changed, "node")));
    (part.hook.is_some() && part.failure.is_none()).then(|| in_words(part, nodes))
}

/// What a hook changed of the pod, and of nodes.
fn in_words(part: &BackendPart, of_nodes: impl IntoIterator<Item = String>) -> String {
    let pod = part.pod_change.as_ref().map(|change| format!("pod: {change}"));
    let words: Vec<_> = pod.into_iter().chain(of_nodes).collect();
    if words.is_empty() { "changed nothing".to_owned() } else { words.join("; ") }
}

/// The failure, and the effect of the failure policy.
fn failed(call: &Decision, part: &BackendPart, failure: &BackendFailed) -> String {
    let BackendFailed { kind, message, policy } = failure;
    let last = call.backends.last().and_then(|part| part.failure.as_ref()) == Some(failure);
    let effect = match policy.as_str() {
        _ if part.mode == "Shadow" => "the decision did not depend on it",
        "fail" | "next" if call.is(Verb::Bind) && call.outcome == "ok" && last => "the pod was bound anyway",
        "fail" if call.outcome == "ok" => "no node was left for it",
        "fail" => "the call failed",
        "ignore" => "it was ignored",
        "next" => "the next binder was called",
        other => other,
    };
    format!("{kind}: {message}; {effect}")
}

/// Writes the answers for one node in the latest attempts, with a line for each backend of each call.
pub(super) fn write_of_node(
    evidence: &Evidence,
    name: &str,
    max_rows: usize,
    out: &mut fmt::Formatter<'_>,
) -> fmt::Result {
    let mut table = Table::new(["ATTEMPT", "CALL", "BACKEND", "ANSWER"], 0..0);
    for attempt in evidence.attempts.iter().take(max_rows) {
        // The time is shown only in the first line of an attempt.
        let mut time = moment(attempt.time);
        for call in attempt.calls.iter().map(|call| &call.decision) {
            for (backend, answer) in answers(call, name, evidence.cluster.cluster_nodes) {
                table.row([take(&mut time).as_str(), &call.verb, backend, &answer]);
            }
        }
    }
    write!(out, "\nAnswers for {}:\n{table}", clean(name))?;
    write_hidden(out, evidence.attempts.len().saturating_sub(max_rows), "attempt")
}

/// The answers, each with its backend; the gateway's own line last.
fn answers<'a>(call: &'a Decision, name: &str, cluster_nodes: Option<u64>) -> Vec<(&'a str, String)> {
    let Some(part) = node(call, name) else {
        // Preempt and bind normally have other nodes.
        let missing = || (NOTHING, format!("not offered ({})", offered(call, cluster_nodes)));
        return call.is(Verb::Filter).then(missing).into_iter().collect();
    };
    let answer = |backend: &'a BackendPart| match &backend.hook {
        Some(hook) => (backend.name.as_str(), changed_for_node(hook, backend, part)),
        None => (backend.name.as_str(), answer_for_node(call, backend, part)),
    };
    let mut lines: Vec<_> = call.backends.iter().map(answer).collect();
    lines.extend(result(call, part).map(|result| (NOTHING, result)));
    if lines.is_empty() {
        lines.push((NOTHING, "offered, no backend was called".to_owned()));
    }
    lines
}

/// What a hook changed for the pod on this node.
fn changed_for_node(hook: &str, backend: &BackendPart, part: &NodePart) -> String {
    if let Some(failure) = &backend.failure {
        return format!("{hook} failed ({}: {})", failure.kind, failure.message);
    }
    let of_node = part
        .changes
        .iter()
        .filter(|change| change.backend == backend.name && hook != PolicyVerb::BeforeFilter.name());
    format!("{hook}: {}", in_words(backend, of_node.map(|change| change.change.clone())))
}

fn answer_for_node(call: &Decision, backend: &BackendPart, part: &NodePart) -> String {
    let Some(verdict) = part.backends.get(&backend.name) else {
        return match (&backend.failure, &backend.answer) {
            (Some(failure), _) => format!("failed ({}: {})", failure.kind, failure.message),
            (None, Some(answer)) if call.is(Verb::Bind) => answer.clone(),
            _ => "not called".to_owned(),
        };
    };
    let parts = [
        rejection(verdict),
        verdict.accepted.then(|| "accepted".to_owned()),
        score(verdict, backend),
        verdict.victims.map(|victims| format!("{} to evict", counted(victims, "pod"))),
    ];
    let parts: Vec<String> = parts.into_iter().flatten().collect();
    if parts.is_empty() { NOTHING.to_owned() } else { parts.join(", ") }
}

fn rejection(verdict: &NodeVerdict) -> Option<String> {
    let why = verdict.rejected.as_ref()?;
    let rule = verdict.rule.as_ref().map(|rule| format!(" (rule {rule})")).unwrap_or_default();
    let retry_after = verdict.retry_after_seconds.map(|seconds| format!(", for at least {seconds} s"));
    Some(format!("rejected: {why}{rule}{}", retry_after.unwrap_or_default()))
}

fn score(verdict: &NodeVerdict, backend: &BackendPart) -> Option<String> {
    let (raw, normalized) = verdict.raw.zip(verdict.normalized)?;
    let weight = backend.weight.map(|weight| format!(" × {weight}")).unwrap_or_default();
    let weighted = verdict.weighted.map(|weighted| format!(" = {}", trimmed(weighted))).unwrap_or_default();
    Some(format!("{raw} → {}{weight}{weighted}", trimmed(normalized)))
}

/// The result for the node.
fn result(call: &Decision, part: &NodePart) -> Option<String> {
    if let Some(total) = part.total {
        let better = call.nodes.iter().filter(|other| other.total > part.total).count();
        let all = counted(call.nodes.len() as u64, "node");
        return Some(format!("total {total}, place {} of {all}", number(better as u64 + 1)));
    }
    let by = part.rejected_by.as_ref()?;
    let reason = part.reason.as_deref().unwrap_or(NOTHING);
    let rejected = if part.backends.get(by).is_some_and(|verdict| verdict.rejected.is_some()) {
        format!("rejected by {by}")
    } else {
        format!("rejected: {by} needs facts that the gateway does not have")
    };
    // Without what reasons.prefix adds.
    Some(format!("{rejected}; reported reason: {reason}"))
}

#[cfg(test)]
mod tests {
    use extender_gateway_api::explain::samples::{backend, bind, failed, filter};

    use super::*;

    #[test]
    fn a_failure_is_said_with_what_it_meant() {
        let said = |call: Decision, mode: &str, policy: &str| {
            let failure = Some(failed("late", "no answer", policy));
            let (mode, answer) = (mode.to_owned(), (mode == "Shadow").then(|| "failed".to_owned()));
            let part = BackendPart { mode, answer, failure, ..backend("zones", 3) };
            let call = Decision { backends: vec![part.clone()], ..call };
            super::answer(&call, &part)
        };
        let offered = || filter(10, &[("a", None)]);
        assert_eq!(said(offered(), "Enforce", "ignore"), "late: no answer; it was ignored");
        assert_eq!(said(offered(), "Enforce", "fail"), "late: no answer; no node was left for it");
        assert_eq!(said(offered(), "Shadow", "ignore"), "late: no answer; the decision did not depend on it");
        assert_eq!(said(bind(10, "a"), "Enforce", "next"), "late: no answer; the pod was bound anyway");
        let ended = Decision { outcome: "backend".to_owned(), ..offered() };
        assert_eq!(said(ended, "Enforce", "fail"), "late: no answer; the call failed");
    }
}
