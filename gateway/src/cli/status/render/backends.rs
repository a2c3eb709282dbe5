//! The backends of a replica: how they are connected, and how they answer.

use jiff::Timestamp;

use super::replica::time;
use crate::{
    api::{BackendStatus, BackendVerb, Handshake},
    cli::text::{NOTHING, Table, TextColumn, ago, number, share},
};

/// Who they are.
pub(super) fn connections(backends: &[BackendStatus]) -> Table {
    let titles = ["BACKEND", "URL", "MODE", "STATE", "SAYS IT IS"];
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

/// How they answer; `None` where none is asked for anything.
pub(super) fn calls(backends: &[BackendStatus], now: Timestamp) -> Option<Table> {
    let mut table = Table::new(vec![
        TextColumn::left("BACKEND"),
        TextColumn::left("VERB"),
        TextColumn::right("CALLS"),
        TextColumn::right("FAILED"),
        TextColumn::right("LATELY"),
        TextColumn::right("MEDIAN"),
        TextColumn::right("P99"),
        TextColumn::right("REJECTS"),
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

/// A verb that cannot be asked for says why; that is worse than a call that failed.
fn failure(verb: &BackendVerb, now: Timestamp) -> String {
    match (&verb.unsuitable, &verb.last_failure) {
        (Some(why), _) => format!("cannot be asked: {why}"),
        (None, Some(last)) => format!("{}: {}", ago(last.time, now), last.message),
        (None, None) => NOTHING.to_owned(),
    }
}
