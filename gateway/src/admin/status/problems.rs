//! Problems and their remedies.

use extender_gateway_core::Verb;
use jiff::Timestamp;

use crate::{
    admin::status::GatewayStatus,
    api::{BackendStatus, BackendVerb, Problem, Severity, Status},
    cluster::SourceHealth,
    config::{BackendSettings, Config, Mode},
    observe::Observer,
};

/// A failure older than this no longer counts, in seconds.
const MAX_FAILURE_AGE: i64 = 600;
/// The minimum number of latest calls for a problem with calls.
const MIN_CALLS: u32 = 10;
/// A decision log that covers less time than this is too small, in seconds.
const MIN_LOG_AGE: i64 = 600;
/// How long a gateway may run without calls before that is a problem, in seconds.
const MAX_IDLE: i64 = 60;

/// All problems, the most severe first.
pub(super) fn of(
    status: &Status,
    config: &Config,
    gateway_status: &GatewayStatus,
    observer: &Observer,
) -> Vec<Problem> {
    let of_gateway = [
        ready(status),
        refused(status),
        nodes(status, gateway_status),
        failing_watch("pods", &gateway_status.sources.pods.source_health),
        never_called(status),
        no_binder(status),
        log(status),
        traces(observer),
    ];
    let mut problems: Vec<Problem> = of_gateway.into_iter().flatten().collect();
    for backend in &status.backends {
        let settings = config.backends.iter().find(|settings| settings.name.as_str() == backend.name);
        problems.extend(settings.into_iter().flat_map(|settings| of_backend(backend, settings)));
    }
    problems.sort_by_key(|problem| problem.severity);
    problems
}

fn problem(severity: Severity, about: &str, what: impl Into<String>, remedy: impl Into<String>) -> Problem {
    Problem { severity, about: about.to_owned(), what: what.into(), remedy: remedy.into() }
}

fn ready(status: &Status) -> Option<Problem> {
    let what = "not ready: a Service sends calls to other replicas";
    let remedy = "wait if it has just started or is stopping; otherwise see its log";
    (!status.ready).then(|| problem(Severity::Error, "the gateway", what, remedy))
}

fn refused(status: &Status) -> Option<Problem> {
    let refused = status.configuration.refused.as_ref()?;
    let what = format!("the changed file was rejected: {}", refused.message);
    let remedy = "correct the file and check it with `extender-gateway check-config`";
    Some(problem(Severity::Warning, "the configuration", what, remedy))
}

fn nodes(status: &Status, gateway_status: &GatewayStatus) -> Option<Problem> {
    if !status.nodes.synced {
        let what = "not listed yet, so backends get no facts about nodes";
        return Some(problem(Severity::Error, "the nodes", what, "see the gateway's log"));
    }
    failing_watch("nodes", &gateway_status.sources.table.as_ref()?.source_health)
}

fn failing_watch(objects: &str, source_health: &SourceHealth) -> Option<Problem> {
    let (since, why) = source_health.failing()?;
    let what = format!("the watch has failed for {} s: {why}", since.as_secs());
    let remedy =
        format!("check that the apiserver runs and that the gateway's account may list and watch {objects}");
    Some(problem(Severity::Warning, &format!("the {objects}"), what, remedy))
}

fn seconds_since(time: Timestamp) -> i64 {
    Timestamp::now().as_second() - time.as_second()
}

fn never_called(status: &Status) -> Option<Problem> {
    let called = status.verbs.iter().any(|verb| verb.calls > 0);
    let what = "no call since the start";
    let remedy = "check that kube-scheduler's configuration has the entry that `extender-gateway scheduler-config` prints, and that it \
                  reaches this replica";
    (!called && seconds_since(status.started) > MAX_IDLE)
        .then(|| problem(Severity::Warning, "kube-scheduler", what, remedy))
}

/// kube-scheduler does not bind by itself if an extender has `bindVerb`.
fn no_binder(status: &Status) -> Option<Problem> {
    let bind = status.verbs.iter().find(|verb| verb.verb == Verb::Bind.name())?;
    let what = "kube-scheduler sends bind calls, but no binder is configured: pods stay unscheduled";
    let remedy = "set `binder`, or remove bindVerb from kube-scheduler's configuration (see `extender-gateway \
                  scheduler-config`)";
    let outcome = bind.last.as_ref()?.outcome.as_str();
    (outcome == "no_binder").then(|| problem(Severity::Error, "the gateway", what, remedy))
}

fn log(status: &Status) -> Option<Problem> {
    let complete = status.log.complete_since?;
    if status.log.max_bytes == 0 || status.log.bytes < status.log.max_bytes / 2 {
        // It was disabled or made smaller, or has lost a single call that was too large.
        return None;
    }
    let age = seconds_since(complete);
    let what = format!("full; it covers only the last {age} s");
    (age < MIN_LOG_AGE)
        .then(|| problem(Severity::Warning, "the decision log", what, "raise decisions.maxBytes"))
}

fn traces(observer: &Observer) -> Option<Problem> {
    let fault = observer.tracer.as_ref()?.delivery().fault?;
    let what = format!("cannot export spans: {fault}");
    let remedy = "check that a collector runs at otlp.endpoint with otlp.protocol";
    Some(problem(Severity::Warning, "traces", what, remedy))
}

fn of_backend(backend: &BackendStatus, settings: &BackendSettings) -> Vec<Problem> {
    let about = format!("backend {}", backend.name);
    let mut problems = Vec::new();
    if settings.mode == Mode::Disabled {
        return problems;
    }
    if !backend.connected {
        let worst =
            backend.verbs.iter().map(|verb| severity(settings, Verb::named_by_backend(&verb.verb))).min();
        let worst = worst.unwrap_or(Severity::Warning);
        let what = backend.failure.clone().unwrap_or_else(|| "no connection".to_owned());
        let remedy = "start it, or correct its url or tls; `mode: Disabled` removes it from decisions";
        problems.push(problem(worst, &about, what, remedy));
    }
    if backend.handshake.as_ref().is_some_and(|handshake| handshake.changes_too_often) {
        let what = "it changes too often what it requests, so its latest handshake is not used yet";
        let remedy =
            "change its rules less often, and let all of its replicas have the same version and rules";
        problems.push(problem(Severity::Warning, &about, what, remedy));
    }
    for verb in &backend.verbs {
        problems.extend(of_verb(&about, verb, settings));
    }
    problems
}

/// The severity if a backend cannot be called for a verb: an error if this makes calls fail.
fn severity(settings: &BackendSettings, verb: Option<Verb>) -> Severity {
    let can_fail_calls = verb.is_some_and(|verb| settings.can_fail_calls(verb));
    if can_fail_calls && settings.mode == Mode::Enforce { Severity::Error } else { Severity::Warning }
}

fn of_verb(about: &str, verb: &BackendVerb, settings: &BackendSettings) -> Vec<Problem> {
    let name = &verb.verb;
    let known_verb = Verb::named_by_backend(name);
    let timeout = known_verb.and_then(|verb| settings.timeouts()[verb]);
    let worst = severity(settings, known_verb);
    let mut problems = Vec::new();
    if let Some(why) = &verb.unsuitable {
        let what = format!("cannot serve {name}: it {why}");
        problems.push(problem(worst, about, what, "correct its configuration or its handshake"));
    }
    let BackendVerb { failed_lately, lately, .. } = *verb;
    let is_recent =
        verb.last_failure.as_ref().is_some_and(|failure| seconds_since(failure.time) < MAX_FAILURE_AGE);
    if is_recent && lately >= MIN_CALLS && failed_lately * 10 >= lately {
        let what = format!("{failed_lately} of the latest {lately} calls to {name} failed");
        let remedy = "see its log and the gateway's lines `backend call failed`; `mode: Disabled` removes it from decisions";
        problems.push(problem(worst, about, what, remedy));
    }
    if let (Some(p99), Some(timeout)) = (verb.p99_seconds, timeout)
        && lately >= MIN_CALLS
        && p99 > timeout.as_secs_f64() * 0.8
    {
        let what = format!(
            "the 99th percentile of {name} is {:.0} ms, close to its timeout of {} ms",
            p99 * 1e3,
            timeout.as_millis()
        );
        problems.push(problem(Severity::Warning, about, what, "speed it up, or raise its timeout"));
    }
    if verb.rejected_share.is_some_and(|share| share >= 0.99) && lately >= MIN_CALLS {
        let what = "it rejects nearly all nodes";
        let remedy =
            "check a pod with `extender-gateway explain`; `mode: Shadow` keeps it running without effect";
        problems.push(problem(Severity::Warning, about, what, remedy));
    }
    problems
}

#[cfg(test)]
mod tests;
