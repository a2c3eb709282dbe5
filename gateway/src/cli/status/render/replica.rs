//! One replica.

use std::fmt;

use jiff::Timestamp;

use super::backends;
use crate::{
    api::{ConfigurationStatus, LastCall, LogState, NodeForm, Status, TableStatus, VerbStatus},
    cli::text::{NOTHING, Table, TextColumn, ago, bytes, clean, counted, duration, moment, number},
};

/// Writes all that is known of it.
pub(super) fn write(status: &Status, now: Timestamp, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let ready = if status.ready { "ready" } else { "not ready" };
    let started = ago(status.started, now);
    writeln!(out, "\n{} {}, {ready}, started {started}", clean(&status.gateway), clean(&status.version))?;
    for (title, text) in facts(status, now) {
        writeln!(out, "  {title:<13}  {}", clean(&text))?;
    }
    write!(out, "\n{}", verbs(&status.verbs, now))?;
    if status.backends.is_empty() {
        return writeln!(out, "\nno backends");
    }
    write!(out, "\n{}", backends::connections(&status.backends))?;
    let calls = backends::calls(&status.backends, now);
    calls.map_or(Ok(()), |calls| write!(out, "\n{calls}"))
}

fn facts(status: &Status, now: Timestamp) -> Vec<(&'static str, String)> {
    let refused = status.configuration.refused.as_ref();
    let facts = [
        Some(("configuration", configuration(&status.configuration, now))),
        refused.map(|refused| ("refused", format!("{}: {}", ago(refused.time, now), refused.message))),
        Some(("nodes", table(&status.nodes))),
        status.pods.as_ref().map(|pods| ("pods", table(pods))),
        Some(("decision log", log(&status.log))),
        status.traces.as_ref().map(|traces| ("traces", traces.clone())),
    ];
    facts.into_iter().flatten().collect()
}

fn configuration(status: &ConfigurationStatus, now: Timestamp) -> String {
    let ConfigurationStatus { file, generation, loaded, .. } = status;
    format!("{file}, generation {generation}, in use since {} ({})", moment(*loaded), ago(*loaded, now))
}

fn table(table: &TableStatus) -> String {
    let listed = if table.synced { "" } else { ", not listed yet" };
    let silent = table.silent_seconds.map(|seconds| format!(", heard of {} ago", duration(seconds)));
    format!("{} from {}{listed}{}", number(table.count), table.source, silent.unwrap_or_default())
}

fn log(log: &LogState) -> String {
    if log.max_bytes == 0 {
        return "switched off".to_owned();
    }
    let back = log.oldest.map(|oldest| format!(", back to {}", moment(oldest))).unwrap_or_default();
    let (calls, pods) = (counted(log.calls, "call"), counted(log.pods, "pod"));
    let (used, most) = (bytes(log.bytes), bytes(log.max_bytes));
    format!("{calls} about {pods}{back}; {used} of {most}, {} had to go", counted(log.evicted, "call"))
}

fn verbs(verbs: &[VerbStatus], now: Timestamp) -> Table {
    let mut table = Table::new(vec![
        TextColumn::left("VERB"),
        TextColumn::right("CALLS"),
        TextColumn::right("FAILED"),
        TextColumn::right("MEDIAN"),
        TextColumn::right("P99"),
        TextColumn::left("LAST CALL"),
    ]);
    for verb in verbs {
        table.row([
            verb.verb.clone(),
            number(verb.calls),
            number(verb.failed),
            time(verb.median_seconds),
            time(verb.p99_seconds),
            verb.last.as_ref().map_or_else(|| NOTHING.to_owned(), |last| call(last, now)),
        ]);
    }
    table
}

fn call(last: &LastCall, now: Timestamp) -> String {
    let form = match last.node_form {
        Some(NodeForm::Names) => " by name",
        Some(NodeForm::Objects) => " in full",
        None => "",
    };
    format!("{}, {}{form}, {}", ago(last.time, now), counted(last.nodes, "node"), last.outcome)
}

/// A time that may be unknown.
pub(super) fn time(seconds: Option<f64>) -> String {
    seconds.map_or_else(|| NOTHING.to_owned(), duration)
}
