//! Renders all replicas as text: problems first, then each replica.
//!
//! Pure: the same report gives the same text.

use std::fmt;

use extender_gateway_api::{
    AddressStatus, BackendStatus, BackendVerb, CircuitState, CircuitStatus, ConfigurationStatus,
    ControllersStatus, Handshake, LastCall, LogState, NodeForm, Problem, ReadsStatus, Severity, ShadowEffect,
    ShadowGroup, ShadowStatus, Status, TableStatus, VerbStatus, WaitingPodsStatus,
};
use extender_gateway_object::text::{
    NOTHING, Table, age, ago, bytes, clean, counted, duration, lasted, moment, number, share,
};
use jiff::Timestamp;

use super::{Shown, StatusReport};

impl fmt::Display for StatusReport {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_problems(self, out)?;
        if self.shown == Shown::WaitingPods {
            return self.replicas.iter().try_for_each(|status| write_waiting(status, out));
        }
        self.replicas.iter().try_for_each(|status| write_replica(status, self.time, out))
    }
}

/// What differences mean, and what to do about them.
const DIFFERENCES: &str =
    "         pods are decided differently, depending on which replica kube-scheduler calls
         wait until a rollout or reload has ended; otherwise see which replica does not follow its file
         docs/runbook.md#replicas-differ";

/// Writes all problems, the most severe first, and the differences between replicas.
fn write_problems(report: &StatusReport, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let problems = report.problems();
    for away in &report.away {
        writeln!(out, "ERROR    {} does not answer: {}", clean(&away.gateway), clean(&away.why))?;
    }
    for (Problem { severity, about, what, impact, remedy, runbook }, gateways) in &problems {
        let severity = match severity {
            Severity::Error => "ERROR",
            Severity::Warning => "WARNING",
            Severity::Recent => "RECENT",
        };
        let gateways = gateways.join(", ");
        writeln!(out, "{severity:<7}  {}: {}: {}", clean(&gateways), clean(about), clean(what))?;
        let runbook = Some(runbook).filter(|runbook| !runbook.is_empty());
        for text in impact.iter().chain([remedy]).chain(runbook) {
            writeln!(out, "         {}", clean(text))?;
        }
    }
    for difference in &report.differences {
        writeln!(out, "DIFFERS  {}", clean(difference))?;
    }
    if !report.differences.is_empty() {
        writeln!(out, "{DIFFERENCES}")?;
    }
    let is_over = |(problem, _): &(&Problem, Vec<&str>)| problem.severity == Severity::Recent;
    if problems.iter().all(is_over) && report.away.is_empty() && report.differences.is_empty() {
        writeln!(out, "No problem.")?;
    }
    Ok(())
}

fn write_replica(status: &Status, now: Timestamp, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let ready = if status.ready { "ready" } else { "not ready" };
    let started = ago(status.started, now);
    writeln!(out, "\n{} {}, {ready}, started {started}", clean(&status.gateway), clean(&status.version))?;
    let refused = status.configuration.refused.as_ref();
    let facts = [
        ("configuration", Some(configuration(&status.configuration, now))),
        ("refused", refused.map(|refused| format!("{}: {}", ago(refused.time, now), refused.message))),
        ("nodes", Some(object_table(&status.nodes))),
        ("pods", status.pods.as_ref().map(object_table)),
        ("decision log", Some(log(&status.log))),
        ("traces", status.traces.clone()),
    ];
    for (title, text) in facts.iter().filter_map(|(title, text)| Some((title, text.as_ref()?))) {
        writeln!(out, "  {title:<13}  {}", clean(text))?;
    }
    write!(out, "\n{}", verbs(&status.verbs, now))?;
    if status.backends.is_empty() {
        return writeln!(out, "\nno backends");
    }
    let backends = &status.backends;
    // `-o wide`.
    let policies = out.alternate().then(|| policies(backends));
    let tables = [
        connections(backends, now),
        addresses(backends),
        controllers(backends),
        calls(backends, now),
        shadows(&status.shadows),
        shadow_groups(&status.shadows),
    ];
    let tables = tables.into_iter().chain(policies).chain([reads(backends)]);
    tables.filter(|table| !table.is_empty()).try_for_each(|table| write!(out, "\n{table}"))
}

/// Writes the waiting pods, by workload and reason.
fn write_waiting(status: &Status, out: &mut fmt::Formatter<'_>) -> fmt::Result {
    let total: u64 = status.waiting.iter().map(|group| u64::from(group.pods)).sum();
    writeln!(out, "\n{}: {}", clean(&status.gateway), counted(total, "waiting pod"))?;
    if status.waiting.is_empty() {
        return Ok(());
    }
    let mut table = Table::new(["PODS", "OLDEST", "WORKLOAD", "REASON", "OLDEST POD"], 0..2);
    for group in &status.waiting {
        let WaitingPodsStatus { workload, reason, pods, oldest_seconds, namespace, pod, untried } = group;
        let untried =
            if *untried == 0 { String::new() } else { format!(" ({untried} not tried since it changed)") };
        table.row([
            number(*pods),
            age(*oldest_seconds),
            workload.clone(),
            format!("{reason}{untried}"),
            format!("{namespace}/{pod}"),
        ]);
    }
    write!(out, "\n{table}")
}

fn configuration(status: &ConfigurationStatus, now: Timestamp) -> String {
    let ConfigurationStatus { file, generation, loaded, .. } = status;
    format!("{file}, generation {generation}, in use since {} ({})", moment(*loaded), ago(*loaded, now))
}

fn object_table(table: &TableStatus) -> String {
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
    let mut table = Table::new(["VERB", "CALLS", "FAILED", "MEDIAN", "P99", "LAST CALL"], 1..5);
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
fn connections(backends: &[BackendStatus], now: Timestamp) -> Table {
    let titles = ["BACKEND", "URL", "MODE", "STATE", "OUTAGES", "WAITING PODS", "REPORTED VERSION"];
    let mut table = Table::new(titles, 4..5);
    for backend in backends {
        let version = backend.handshake.as_ref().map_or_else(|| NOTHING.to_owned(), reported_version);
        table.row([
            backend.name.as_str(),
            &backend.url,
            &mode(backend),
            &state(backend, now),
            &number(backend.outages),
            &waiting_pods(backend),
            &version,
        ]);
    }
    table
}

/// The mode in effect; an override with its end.
fn mode(backend: &BackendStatus) -> String {
    match (&backend.overridden, backend.canary_percent) {
        (Some(it), _) => format!("{} until {}", it.mode, moment(it.ends)),
        (None, Some(percent)) => format!("{} for {percent} % of pods", backend.mode),
        (None, None) => backend.mode.clone(),
    }
}

fn state(backend: &BackendStatus, now: Timestamp) -> String {
    match (&backend.failure, backend.connected_since) {
        (_, Some(since)) if backend.connected => {
            format!("connected{} for {}", of_addresses(&backend.addresses), lasted(since, now))
        }
        _ if backend.connected => "connected".to_owned(),
        _ if backend.mode == "Disabled" => NOTHING.to_owned(),
        (Some(failure), _) => format!("down: {failure}"),
        (None, _) => "down".to_owned(),
    }
}

/// ` to 2 of 3 addresses`; nothing if there is one.
fn of_addresses(addresses: &[AddressStatus]) -> String {
    let connected = addresses.iter().filter(|address| address.connected).count();
    if addresses.is_empty() {
        String::new()
    } else {
        format!(" to {connected} of {} addresses", addresses.len())
    }
}

/// The table of the addresses of backends that have several.
fn addresses(backends: &[BackendStatus]) -> Table {
    let mut table = Table::new(
        ["BACKEND", "ADDRESS", "STATE", "IN PROGRESS", "REPORTED VERSION", "NOT CALLED FOR"],
        3..4,
    );
    for backend in backends {
        for address in &backend.addresses {
            let state = address.failure.as_ref().map_or_else(
                || "connected".to_owned(),
                |failure| format!("{}: {failure}", if address.connected { "not called" } else { "down" }),
            );
            table.row([
                backend.name.clone(),
                address.address.clone(),
                state,
                number(address.calls),
                or_nothing(joined([&address.version, &in_words(&address.revision)])),
                or_nothing(refused_verbs(backend, &address.address)),
            ]);
        }
    }
    table
}

/// The table of the controllers of backends.
fn controllers(backends: &[BackendStatus]) -> Table {
    let mut table = Table::new(["BACKEND", "CONTROLLERS", "LEADER", "LEASE"], 4..4);
    let reported = backends.iter().filter_map(|backend| Some((backend, backend.controllers.as_ref()?)));
    for (backend, ControllersStatus { names, lease, leaders }) in reported {
        table.row([backend.name.clone(), names.join(", "), or_nothing(leaders.join(", ")), lease.clone()]);
    }
    table
}

/// The verbs for which an address is not called, because a circuit breaker is open.
fn refused_verbs(backend: &BackendStatus, address: &str) -> String {
    let is_open = |verb: &&BackendVerb| verb.circuits.iter().any(|circuit| circuit.address == address);
    backend.verbs.iter().filter(is_open).map(|verb| verb.verb.as_str()).collect::<Vec<_>>().join(", ")
}

fn or_nothing(text: String) -> String {
    if text.is_empty() { NOTHING.to_owned() } else { text }
}

fn waiting_pods(backend: &BackendStatus) -> String {
    let Some(waiting) = &backend.waiting else { return NOTHING.to_owned() };
    format!("{}, oldest {}", number(waiting.pods), age(waiting.oldest_seconds))
}

fn reported_version(handshake: &Handshake) -> String {
    let Handshake { name, version, revision, holds_nodes, .. } = handshake;
    let holds_nodes = if *holds_nodes { "holds the nodes" } else { "" };
    joined([format!("{name} {version}").trim_end(), &in_words(revision), holds_nodes])
}

fn in_words(revision: &str) -> String {
    if revision.is_empty() { String::new() } else { format!("revision {revision}") }
}

/// The texts that are not empty.
fn joined<const N: usize>(texts: [&str; N]) -> String {
    texts.into_iter().filter(|text| !text.is_empty()).collect::<Vec<_>>().join(", ")
}

/// The table of calls to backends.
fn calls(backends: &[BackendStatus], now: Timestamp) -> Table {
    let titles = "BACKEND|VERB|DECISIONS|CALLS|FAILED|RECENT FAILURES|MEDIAN|P99|REJECTED|LAST FAILURE";
    let mut table = Table::new(titles.split('|'), 2..9);
    for backend in backends {
        for verb in &backend.verbs {
            table.row([
                backend.name.clone(),
                verb.verb.clone(),
                number(verb.decisions),
                number(verb.calls),
                number(verb.failures),
                format!("{}/{}", verb.failed_lately, verb.lately),
                time(verb.median_seconds),
                time(verb.p99_seconds),
                verb.rejected_share.map_or_else(|| NOTHING.to_owned(), share),
                last_failure(verb, now),
            ]);
        }
    }
    table
}

/// The table of what backends in shadow mode would have changed.
fn shadows(shadows: &[ShadowStatus]) -> Table {
    let mut table = Table::new(["IN SHADOW", "PODS", "ELSEWHERE", "NOWHERE"], 1..4);
    for ShadowStatus { backend, pods, elsewhere, nowhere, .. } in shadows {
        table.row([backend.clone(), number(*pods), number(*elsewhere), number(*nowhere)]);
    }
    table
}

/// The most rows of a backend in the table of groups; `-o json` has more.
const MOST_GROUPS: usize = 5;

/// The table of those pods by workload, rule and reason.
fn shadow_groups(shadows: &[ShadowStatus]) -> Table {
    let mut table =
        Table::new(["IN SHADOW", "PODS", "WOULD BE", "WORKLOAD", "RULE", "REASON", "EXAMPLE"], 1..2);
    for shadow in shadows {
        for group in shadow.groups.iter().take(MOST_GROUPS) {
            let ShadowGroup { effect, workload, rule, reason, pods, namespace, pod } = group;
            let effect = match effect {
                ShadowEffect::Nowhere => "nowhere",
                ShadowEffect::Elsewhere => "elsewhere",
            };
            table.row([
                shadow.backend.clone(),
                number(*pods),
                effect.to_owned(),
                workload.clone(),
                rule.clone().unwrap_or_else(|| NOTHING.to_owned()),
                reason.clone(),
                format!("{namespace}/{pod}"),
            ]);
        }
    }
    table
}

/// The table of the pods for which backends are called, and what happens if they fail.
fn policies(backends: &[BackendStatus]) -> Table {
    let mut table = Table::new(["BACKEND", "MATCHES PODS", "FAILURE POLICIES"], 0..0);
    for backend in backends {
        let policies = backend.verbs.iter().map(|verb| format!("{} {}", verb.verb, verb.failure_policy));
        table.row([backend.name.as_str(), &backend.matches, &policies.collect::<Vec<_>>().join(", ")]);
    }
    table
}

/// The table of what backends are sent.
fn reads(backends: &[BackendStatus]) -> Table {
    let mut table = Table::new(["BACKEND", "VERB", "READS OF PODS", "READS OF NODES"], 0..0);
    for backend in backends {
        for BackendVerb { verb, reads, .. } in &backend.verbs {
            if let Some(ReadsStatus { pods, nodes }) = reads {
                table.row([backend.name.as_str(), verb, &first(pods), &first(nodes)]);
            }
        }
    }
    table
}

/// The first entries of a list in words, which may name a thousand keys; `-o json` has all.
fn first(words: &str) -> String {
    const MOST: usize = 6;
    let entries: Vec<_> = words.split(", ").collect();
    match entries.split_at_checked(MOST) {
        Some((first, rest)) if !rest.is_empty() => format!("{} and {} more", first.join(", "), rest.len()),
        _ => words.to_owned(),
    }
}

/// A verb that is not supported or not called comes first: this is worse than a failed call.
fn last_failure(verb: &BackendVerb, now: Timestamp) -> String {
    match (&verb.unsuitable, verb.circuits.first(), &verb.last_failure) {
        (Some(why), ..) => format!("unavailable: {why}"),
        (None, Some(circuit), _) => open_circuit(circuit, now),
        (None, None, Some(last)) => format!("{}: {}", ago(last.time, now), last.message),
        (None, None, None) => NOTHING.to_owned(),
    }
}

fn open_circuit(circuit: &CircuitStatus, now: Timestamp) -> String {
    let CircuitStatus { state, since, cause, .. } = circuit;
    let state = match state {
        CircuitState::Open => "open",
        CircuitState::Probing => "probing",
    };
    format!("circuit {state} for {}: {cause}", lasted(*since, now))
}
