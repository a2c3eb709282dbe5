//! The calls of an attempt, one line for each backend.

use extender_gateway_core::Verb;
use std::fmt;

use crate::{
    api::{BackendFailed, BackendPart, Decision},
    cli::{
        explain::attempt::SchedulingAttempt,
        text::{NOTHING, Table, TextColumn, counted, duration, number},
    },
};

/// Writes the table; nothing if no backend took part.
pub(super) fn write(attempt: &SchedulingAttempt, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let calls = attempt.calls.iter().map(|call| &call.decision);
    let rows: Vec<[String; 8]> = calls.flat_map(rows).collect();
    if rows.is_empty() {
        return Ok(());
    }
    let mut table = Table::new(vec![
        TextColumn::left("CALL"),
        TextColumn::left("BACKEND"),
        TextColumn::left("MODE"),
        TextColumn::right("ASKED"),
        TextColumn::right("KNOWN"),
        TextColumn::right("REJECTED"),
        TextColumn::right("TIME"),
        TextColumn::left("ANSWER"),
    ]);
    for row in rows {
        table.row(row);
    }
    write!(out, "\n{table}")
}

fn rows(call: &Decision) -> Vec<[String; 8]> {
    let row = |(at, part): (usize, &BackendPart)| {
        // The verb is shown only in the first line of a call.
        let verb = if at == 0 { call.verb.clone() } else { String::new() };
        let nodes = |count| if call.is(Verb::Bind) { NOTHING.to_owned() } else { number(count) };
        [
            verb,
            part.name.clone(),
            part.mode.clone(),
            nodes(part.asked),
            nodes(part.known),
            if call.is(Verb::Filter) || call.is(Verb::Preempt) {
                number(part.rejected)
            } else {
                NOTHING.to_owned()
            },
            if part.seconds > 0.0 { duration(part.seconds) } else { NOTHING.to_owned() },
            answer(call, part),
        ]
    };
    call.backends.iter().enumerate().map(row).collect()
}

fn answer(call: &Decision, part: &BackendPart) -> String {
    let parts = [
        part.failure.as_ref().map(|failure| failed(call, part, failure)),
        part.answer.clone().filter(|_| part.failure.is_none()),
        part.weight.map(|weight| format!("weight {weight}")),
        part.normalization.as_ref().map(|name| format!("normalization {name}")),
        (part.clamped > 0).then(|| format!("{} clamped", counted(part.clamped, "score"))),
    ];
    parts.into_iter().flatten().collect::<Vec<_>>().join(", ")
}

/// The failure, and the effect of the failure policy.
fn failed(call: &Decision, part: &BackendPart, failure: &BackendFailed) -> String {
    let BackendFailed { kind, message, policy } = failure;
    let last = call.backends.last().and_then(|part| part.failure.as_ref()) == Some(failure);
    let meant = match policy.as_str() {
        _ if part.mode == "Shadow" => "the decision did not depend on it",
        "fail" | "next" if call.is(Verb::Bind) && call.outcome == "ok" && last => "the pod was bound anyway",
        "fail" if call.outcome == "ok" => "no node was left for it",
        "fail" => "the call failed",
        "ignore" => "it was ignored",
        "next" => "the next binder was called",
        other => other,
    };
    format!("{kind}: {message}; {meant}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::cli::explain::samples::{backend, bind, failed, filter};

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
