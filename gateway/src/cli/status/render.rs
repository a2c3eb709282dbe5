//! Renders all replicas as text: problems first, then each replica.
//!
//! Pure: the same report gives the same text.

use std::fmt;

use jiff::Timestamp;

use super::report::Report;
use crate::{
    api::{
        BackendStatus, BackendVerb, ConfigurationStatus, Handshake, LastCall, LogState, NodeForm, Problem,
        Severity, Status, TableStatus, VerbStatus,
    },
    cli::text::{NOTHING, Table, TextColumn, ago, bytes, clean, counted, duration, moment, number, share},
};

/// A report, displayed for people.
#[derive(Debug)]
pub(super) struct Rendered<'a>(pub(super) &'a Report);

impl fmt::Display for Rendered<'_> {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self(report) = self;
        write_problems(report, out)?;
        report.replicas.iter().try_for_each(|status| write_replica(status, report.time, out))
    }
}

/// Writes all problems, the most severe first, and the differences between replicas.
fn write_problems(report: &Report, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let problems = report.problems();
    for away in &report.away {
        writeln!(out, "ERROR    {} does not answer: {}", clean(&away.gateway), clean(&away.why))?;
    }
    for (problem, gateways) in &problems {
        write_problem(problem, &gateways.join(", "), out)?;
    }
    for difference in &report.differences {
        writeln!(out, "DIFFERS  {}", clean(difference))?;
    }
    if problems.is_empty() && report.away.is_empty() && report.differences.is_empty() {
        writeln!(out, "No problem.")?;
    }
    Ok(())
}

fn write_problem(problem: &Problem, gateways: &str, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let Problem { severity, about, what, remedy } = problem;
    let severity = match severity {
        Severity::Error => "ERROR  ",
        Severity::Warning => "WARNING",
    };
    writeln!(out, "{severity}  {}: {}: {}", clean(gateways), clean(about), clean(what))?;
    writeln!(out, "         {}", clean(remedy))
}

/// Writes the status of a replica.
fn write_replica(status: &Status, now: Timestamp, out: &mut fmt::Formatter<'_>) -> fmt::Result {
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
    write!(out, "\n{}", connections(&status.backends))?;
    let calls = calls(&status.backends, now);
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
    let silent = table.silent_seconds.map(|seconds| format!(", last event {} ago", duration(seconds)));
    format!("{} from {}{listed}{}", number(table.count), table.source, silent.unwrap_or_default())
}

fn log(log: &LogState) -> String {
    if log.max_bytes == 0 {
        return "disabled".to_owned();
    }
    let back = log.oldest.map(|oldest| format!(", back to {}", moment(oldest))).unwrap_or_default();
    let (calls, pods) = (counted(log.calls, "call"), counted(log.pods, "pod"));
    let (used, most) = (bytes(log.bytes), bytes(log.max_bytes));
    format!("{calls} about {pods}{back}; {used} of {most}, {} evicted", counted(log.evicted, "call"))
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
fn time(seconds: Option<f64>) -> String {
    seconds.map_or_else(|| NOTHING.to_owned(), duration)
}

/// The table of backends and their connections.
fn connections(backends: &[BackendStatus]) -> Table {
    let titles = ["BACKEND", "URL", "MODE", "STATE", "REPORTED VERSION"];
    let mut table = Table::new(titles.map(TextColumn::left).to_vec());
    for backend in backends {
        let said = backend.handshake.as_ref().map_or_else(|| NOTHING.to_owned(), introduced);
        table.row([backend.name.as_str(), &backend.url, &backend.mode, &state(backend), &said]);
    }
    table
}

fn state(backend: &BackendStatus) -> String {
    match &backend.failure {
        _ if backend.connected => "connected".to_owned(),
        _ if backend.mode == "Disabled" => NOTHING.to_owned(),
        Some(failure) => format!("down: {failure}"),
        None => "down".to_owned(),
    }
}

fn introduced(handshake: &Handshake) -> String {
    let Handshake { name, version, revision, holds_nodes } = handshake;
    let revision = if revision.is_empty() { String::new() } else { format!("revision {revision}") };
    let holds = if *holds_nodes { "holds the nodes" } else { "" };
    let said = [format!("{name} {version}").trim_end().to_owned(), revision, holds.to_owned()];
    said.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
}

/// The table of calls to backends; `None` if no backend has verbs.
fn calls(backends: &[BackendStatus], now: Timestamp) -> Option<Table> {
    let mut table = Table::new(vec![
        TextColumn::left("BACKEND"),
        TextColumn::left("VERB"),
        TextColumn::right("CALLS"),
        TextColumn::right("FAILED"),
        TextColumn::right("RECENT FAILURES"),
        TextColumn::right("MEDIAN"),
        TextColumn::right("P99"),
        TextColumn::right("REJECTED"),
        TextColumn::left("LAST FAILURE"),
    ]);
    let verbs = backends.iter().flat_map(|backend| backend.verbs.iter().map(move |verb| (backend, verb)));
    let rows: Vec<_> = verbs.map(|(backend, verb)| row(&backend.name, verb, now)).collect();
    let any = !rows.is_empty();
    for row in rows {
        table.row(row);
    }
    any.then_some(table)
}

fn row(backend: &str, verb: &BackendVerb, now: Timestamp) -> [String; 9] {
    [
        backend.to_owned(),
        verb.verb.clone(),
        number(verb.calls),
        number(verb.failures),
        format!("{}/{}", verb.failed_lately, verb.lately),
        time(verb.median_seconds),
        time(verb.p99_seconds),
        verb.rejected_share.map_or_else(|| NOTHING.to_owned(), share),
        failure(verb, now),
    ]
}

/// The failure of a verb. That it is not supported comes first: this is worse than a failed call.
fn failure(verb: &BackendVerb, now: Timestamp) -> String {
    match (&verb.unsuitable, &verb.last_failure) {
        (Some(why), _) => format!("unavailable: {why}"),
        (None, Some(last)) => format!("{}: {}", ago(last.time, now), last.message),
        (None, None) => NOTHING.to_owned(),
    }
}
