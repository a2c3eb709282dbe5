//! The answers of every backend for one node in the latest attempts.

use extender_gateway_core::Verb;
use std::fmt;

use super::{Top, rest};
use crate::{
    api::{BackendPart, Decision, NodePart, NodeVerdict},
    cli::{
        explain::{
            attempt::{AttemptCall, SchedulingAttempt, node},
            case::Evidence,
            notes::offered,
        },
        text::{NOTHING, Table, TextColumn, clean, counted, moment, number, trimmed},
    },
};

/// Writes a table with a line for each backend of each call.
pub(super) fn write(case: &Evidence, name: &str, top: Top, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let titles = ["ATTEMPT", "CALL", "BACKEND", "ANSWER"];
    let mut table = Table::new(titles.map(TextColumn::left).to_vec());
    for attempt in case.attempts.iter().take(top.rows()) {
        of_attempt(attempt, name, case, &mut table);
    }
    write!(out, "\nAnswers for {}:\n{table}", clean(name))?;
    rest(out, case.attempts.len().saturating_sub(top.rows()), "attempt")
}

fn of_attempt(attempt: &SchedulingAttempt, name: &str, case: &Evidence, table: &mut Table) {
    let mut time = moment(attempt.time);
    for call in &attempt.calls {
        for (backend, said) in of_call(call, name, case) {
            // The time is shown only in the first line of an attempt.
            table.row([std::mem::take(&mut time), call.decision.verb.clone(), backend, said]);
        }
    }
}

/// The answers; the gateway's own line last.
fn of_call(call: &AttemptCall, name: &str, case: &Evidence) -> Vec<(String, String)> {
    let decision = &call.decision;
    let Some(part) = node(decision, name) else { return missing(decision, case) };
    let mut lines: Vec<_> = decision
        .backends
        .iter()
        .map(|backend| (backend.name.clone(), said(decision, backend, part)))
        .collect();
    lines.extend(sum(decision, part).map(|sum| (NOTHING.to_owned(), sum)));
    if lines.is_empty() {
        lines.push((NOTHING.to_owned(), "offered, no backend was called".to_owned()));
    }
    lines
}

/// A node that is missing from a filter call gets a line; in other calls that is normal.
fn missing(decision: &Decision, case: &Evidence) -> Vec<(String, String)> {
    if !decision.is(Verb::Filter) {
        return Vec::new();
    }
    vec![(NOTHING.to_owned(), format!("not offered ({})", offered(decision, case.cluster_nodes)))]
}

fn said(decision: &Decision, backend: &BackendPart, part: &NodePart) -> String {
    let Some(verdict) = part.backends.get(&backend.name) else { return silent(decision, backend) };
    let words = [
        verdict.rejected.as_ref().map(|why| format!("rejected: {why}")),
        verdict.accepted.then(|| "accepted".to_owned()),
        score(verdict, backend),
        verdict.victims.map(|victims| format!("{} to evict", counted(victims, "pod"))),
    ];
    let words: Vec<String> = words.into_iter().flatten().collect();
    if words.is_empty() { NOTHING.to_owned() } else { words.join(", ") }
}

/// Why a backend has no answer for the node.
fn silent(decision: &Decision, backend: &BackendPart) -> String {
    match (&backend.failure, &backend.answer) {
        (Some(failure), _) => format!("failed ({}: {})", failure.kind, failure.message),
        (None, Some(answer)) if decision.is(Verb::Bind) => answer.clone(),
        _ => "not called".to_owned(),
    }
}

fn score(verdict: &NodeVerdict, backend: &BackendPart) -> Option<String> {
    let (raw, normalized) = verdict.raw.zip(verdict.normalized)?;
    let weight = backend.weight.map(|weight| format!(" × {weight}")).unwrap_or_default();
    let weighted = verdict.weighted.map(|weighted| format!(" = {}", trimmed(weighted))).unwrap_or_default();
    Some(format!("{raw} → {}{weight}{weighted}", trimmed(normalized)))
}

/// The result for the node.
fn sum(decision: &Decision, part: &NodePart) -> Option<String> {
    if let Some(total) = part.total {
        let better = decision.nodes.iter().filter(|other| other.total > part.total).count();
        let all = counted(decision.nodes.len() as u64, "node");
        return Some(format!("total {total}, place {} of {all}", number(better as u64 + 1)));
    }
    let by = part.rejected_by.as_ref()?;
    let reason = part.reason.as_deref().unwrap_or(NOTHING);
    let said_so = part.backends.get(by).is_some_and(|verdict| verdict.rejected.is_some());
    let rejected = if said_so {
        format!("rejected by {by}")
    } else {
        format!("rejected: {by} needs facts that the gateway does not have")
    };
    Some(format!("{rejected}; sent to kube-scheduler: {reason}"))
}
