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

use super::{Report, Shown};

impl fmt::Display for Report {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        write_problems(self, out)?;
        if self.shown == Shown::WaitingPods {
            return self.replicas.iter().try_for_each(|status| write_waiting(status, out));
        }
        self.replicas.iter().try_for_each(|status| write_replica(status, self.time, out))
    }
}

/// Writes all problems, the most severe first, and the differences between replicas.
fn write_problems(report: &Report, out: &mut fmt::Formatter<'_>) -> fmt::Result {
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
        writeln!(
            out,
            "         pods are decided differently, depending on which replica kube-scheduler calls"
        )?;
        writeln!(
            out,
            "         wait until a rollout or reload has ended; otherwise see which replica does not follow its file"
        )?;
        writeln!(out, "         docs/runbook.md#replicas-differ")?;
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
    write!(out, "\n{}", connections(&status.backends, now))?;
    if let Some(addresses) = addresses(&status.backends) {
        write!(out, "\n{addresses}")?;
    }
    if let Some(controllers) = controllers(&status.backends) {
        write!(out, "\n{controllers}")?;
    }
    if status.backends.iter().any(|backend| !backend.verbs.is_empty()) {
        write!(out, "\n{}", calls(&status.backends, now))?;
    }
    if !status.shadows.is_empty() {
        write!(out, "\n{}", shadows(&status.shadows))?;
    }
    if status.shadows.iter().any(|shadow| !shadow.groups.is_empty()) {
        write!(out, "\n{}", shadow_groups(&status.shadows))?;
    }
    // `-o wide`.
    if out.alternate() {
        write!(out, "\n{}", policies(&status.backends))?;
    }
    if status.backends.iter().flat_map(|backend| &backend.verbs).any(|verb| verb.reads.is_some()) {
        write!(out, "\n{}", reads(&status.backends))?;
    }
    Ok(())
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
            number(u64::from(*pods)),
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
fn addresses(backends: &[BackendStatus]) -> Option<Table> {
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
            let AddressStatus { version, revision, .. } = address;
            let revision = if revision.is_empty() { String::new() } else { format!("revision {revision}") };
            let version = [version.clone(), revision].into_iter().filter(|part| !part.is_empty());
            table.row([
                backend.name.clone(),
                address.address.clone(),
                state,
                number(u64::from(address.calls)),
                or_nothing(version.collect::<Vec<_>>().join(", ")),
                or_nothing(refused_verbs(backend, &address.address)),
            ]);
        }
    }
    backends.iter().any(|backend| !backend.addresses.is_empty()).then_some(table)
}

/// The table of the controllers of backends.
fn controllers(backends: &[BackendStatus]) -> Option<Table> {
    let mut table = Table::new(["BACKEND", "CONTROLLERS", "LEADER", "LEASE"], 4..4);
    let reported = backends.iter().filter_map(|backend| Some((backend, backend.controllers.as_ref()?)));
    for (backend, ControllersStatus { names, lease, leaders }) in reported {
        table.row([backend.name.clone(), names.join(", "), or_nothing(leaders.join(", ")), lease.clone()]);
    }
    backends.iter().any(|backend| backend.controllers.is_some()).then_some(table)
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
    let waiting = backend.waiting.as_ref();
    waiting.map_or_else(
        || NOTHING.to_owned(),
        |waiting| format!("{}, oldest {}", number(u64::from(waiting.pods)), age(waiting.oldest_seconds)),
    )
}

fn reported_version(handshake: &Handshake) -> String {
    let Handshake { name, version, revision, holds_nodes, .. } = handshake;
    let revision = if revision.is_empty() { String::new() } else { format!("revision {revision}") };
    let holds_nodes = if *holds_nodes { "holds the nodes" } else { "" };
    let parts = [format!("{name} {version}").trim_end().to_owned(), revision, holds_nodes.to_owned()];
    parts.into_iter().filter(|part| !part.is_empty()).collect::<Vec<_>>().join(", ")
}

/// The table of calls to backends.
fn calls(backends: &[BackendStatus], now: Timestamp) -> Table {
    let titles = [
        "BACKEND",
        "VERB",
        "DECISIONS",
        "CALLS",
        "FAILED",
        "RECENT FAILURES",
        "MEDIAN",
        "P99",
        "REJECTED",
        "LAST FAILURE",
    ];
    let mut table = Table::new(titles, 2..9);
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
        let numbers = [*pods, *elsewhere, *nowhere].map(|count| number(u64::from(count)));
        let [pods, elsewhere, nowhere] = numbers;
        table.row([backend.clone(), pods, elsewhere, nowhere]);
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
                number(u64::from(*pods)),
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
