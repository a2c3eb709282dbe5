//! Problems, what they mean for pods, and their remedies.

mod backends;
mod certificates;
mod modes;
mod objects;
mod pods;

use std::time::Duration;

use extender_gateway_api::{
    CLOCK_IMPACT, LostLogLines, Problem, RejectedBecause, Severity, Status, clock_difference,
};
use extender_gateway_cluster::{SourceHealth, untried::UntriedSummary};
use extender_gateway_core::Verb;
use extender_gateway_object::text::age;
use extender_gateway_observe::Observer;
use extender_gateway_settings::{Config, Requeueing};
use jiff::Timestamp;

use crate::status::{GatewayStatus, StatusSources};

/// A failure older than this is not reported, in seconds.
const MAX_FAILURE_AGE: i64 = 600;
/// A decision log that covers less time than this is too small, in seconds.
const MIN_LOG_AGE: i64 = 600;
/// If kube-scheduler sends bind calls, it repeats one sooner than this, in seconds.
const MAX_BIND_PAUSE: i64 = 60;
/// A gateway that refused a call longer ago than this is no longer overloaded, in seconds.
const MAX_REFUSAL_AGE: i64 = 60;
/// How long a gateway may run without calls before that is a problem, in seconds.
const MAX_IDLE: i64 = 60;
/// A scheduler tries a pod earlier than this, and meanwhile sends calls.
const MAX_UNTRIED: Duration = Duration::from_secs(30);

/// All problems, the most severe first.
pub(super) fn of(
    status: &Status,
    config: &Config,
    gateway_status: &GatewayStatus,
    observer: &Observer,
) -> Vec<Problem> {
    let of_gateway = [
        pods::untried(status),
        ready(status),
        refused(status),
        nodes(status, gateway_status),
        pods_watch(gateway_status),
        apiserver(status, gateway_status),
        clock(extender_apiserver::clock::seconds_ahead()),
        requeueing(config, observer),
        not_called(status, gateway_status),
        no_binder(status),
        overload(status),
        log(status),
        lost_log_lines(status),
        traces(observer),
    ];
    let mut problems: Vec<Problem> = of_gateway.into_iter().flatten().collect();
    problems.extend(objects::of(gateway_status));
    problems.extend(certificates::of(&gateway_status.sources.certificates, config));
    for backend in &status.backends {
        problems.extend(backends::of(backend, config, &gateway_status.sources, &observer.waiting));
    }
    problems.extend(modes::of(status));
    problems.sort_by_key(|problem| problem.severity);
    problems
}

/// A problem with its entry of the runbook.
fn problem(
    severity: Severity,
    entry: &str,
    about: &str,
    what: impl Into<String>,
    remedy: impl Into<String>,
) -> Problem {
    Problem {
        severity,
        about: about.to_owned(),
        what: what.into(),
        impact: None,
        remedy: remedy.into(),
        runbook: format!("docs/runbook.md#{entry}"),
    }
}

fn error(entry: &str, about: &str, what: impl Into<String>, remedy: impl Into<String>) -> Problem {
    problem(Severity::Error, entry, about, what, remedy)
}

fn warning(entry: &str, about: &str, what: impl Into<String>, remedy: impl Into<String>) -> Problem {
    problem(Severity::Warning, entry, about, what, remedy)
}

/// The minutes until then, rounded up, at least one.
fn minutes_left(then: Timestamp) -> i64 {
    ((59 - seconds_since(then)) / 60).max(1)
}

fn ready(status: &Status) -> Option<Problem> {
    let what = "not ready: a Service sends calls to other replicas";
    let remedy = "wait if it has just started or is stopping; otherwise see its log";
    (!status.ready).then(|| error("gateway-not-ready", "the gateway", what, remedy))
}

fn refused(status: &Status) -> Option<Problem> {
    let refused = status.configuration.refused.as_ref()?;
    let what = format!("the changed file was rejected: {}", refused.message);
    let file = &status.configuration.file;
    let (impact, remedy) = match refused.because {
        RejectedBecause::Backend => (
            "the previous configuration stays in use; a restart would use the file",
            "correct the backend's entry, or the backend; the gateway tries the file again by itself"
                .to_owned(),
        ),
        RejectedBecause::Fixed => (
            "the previous configuration stays in use until a restart",
            "restart the gateway, or undo the change".to_owned(),
        ),
        RejectedBecause::File => (
            "the previous configuration stays in use; do not restart: the gateway would not start with the file",
            format!("correct the file and check it with `extender-gateway check-config --config {file}`"),
        ),
    };
    Some(warning("configuration-rejected", "the configuration", what, remedy).with_impact(impact))
}

fn nodes(status: &Status, gateway_status: &GatewayStatus) -> Option<Problem> {
    if unreachable(gateway_status).is_some() {
        return None;
    }
    if !status.nodes.synced {
        let what = "not listed yet, so backends get no facts about nodes";
        return Some(error("nodes-not-listed", "the nodes", what, "see the gateway's log"));
    }
    failing_watch("nodes", &gateway_status.sources.table.as_ref()?.source_health)
}

fn pods_watch(gateway_status: &GatewayStatus) -> Option<Problem> {
    let is_reachable = unreachable(gateway_status).is_none();
    failing_watch("pods", &gateway_status.sources.pods.source_health).filter(|_| is_reachable)
}

/// How long no watch has had a connection to the apiserver, and why.
fn unreachable(gateway_status: &GatewayStatus) -> Option<(Duration, String)> {
    let StatusSources { table, pods, .. } = &gateway_status.sources;
    let of_nodes = table.as_ref().and_then(|table| table.source_health.unreachable());
    of_nodes.into_iter().chain(pods.source_health.unreachable()).max_by_key(|(lasted, _)| *lasted)
}

/// One entry for all that needs the apiserver.
fn apiserver(status: &Status, gateway_status: &GatewayStatus) -> Option<Problem> {
    let (lasted, why) = unreachable(gateway_status)?;
    let what = format!("no connection for {} s: {why}", lasted.as_secs());
    let known = if status.nodes.synced {
        "decisions use the last known nodes and pods"
    } else {
        "nodes are not listed yet, so backends get no facts about them"
    };
    let impact = format!(
        "if kube-scheduler does not reach it either, no pod at all is scheduled, with or without the gateway, and running pods go on; {known}"
    );
    let remedy =
        "check that kube-apiserver runs and that the gateway reaches it; what waits continues by itself";
    Some(error("apiserver-away", "the apiserver", what, remedy).with_impact(impact))
}

/// The clock of this machine, by how many seconds the apiserver's is ahead.
fn clock(ahead: i64) -> Option<Problem> {
    let what = clock_difference(ahead, "the apiserver's")?;
    let remedy = "set the clock of the gateway's node, for example with NTP";
    Some(warning("clock-differs", "the clock", what, remedy).with_impact(CLOCK_IMPACT))
}

fn failing_watch(objects: &str, source_health: &SourceHealth) -> Option<Problem> {
    let (since, why) = source_health.failing()?;
    let what = format!("the watch has failed for {} s: {why}", since.as_secs());
    let impact = format!("decisions use the last known {objects}, and new ones are not known");
    let remedy =
        format!("check that the apiserver runs and that the gateway's account may list and watch {objects}");
    Some(warning("watch-failing", &format!("the {objects}"), what, remedy).with_impact(impact))
}

fn requeueing(config: &Config, observer: &Observer) -> Option<Problem> {
    let (since, why) = observer.waiting.requeue_health.failing()?;
    let what = format!("updates of pods have failed for {} s: {why}", since.as_secs());
    let impact = "waiting pods are tried again at the next event, in 5.5 minutes at most";
    let remedy = "correct what the apiserver rejects, or set `requeue: None`";
    (config.requeue != Requeueing::None)
        .then(|| warning("pods-not-requeued", "requeue", what, remedy).with_impact(impact))
}

fn seconds_since(time: Timestamp) -> i64 {
    Timestamp::now().as_second() - time.as_second()
}

/// No call since the start, or none although pods wait for one.
fn not_called(status: &Status, gateway_status: &GatewayStatus) -> Option<Problem> {
    let called = status.verbs.iter().any(|verb| verb.calls > 0);
    let last = status.verbs.iter().filter_map(|verb| verb.last.as_ref()).map(|last| last.time).max();
    let idle = seconds_since(last.unwrap_or(status.started));
    let untried = gateway_status.pods().and_then(|pods| pods.untried.summary(MAX_UNTRIED));
    let entry = "no-calls";
    if let Some(untried) = untried.filter(|_| idle >= MAX_UNTRIED.as_secs().cast_signed()) {
        let UntriedSummary { pods, oldest, scheduler } = untried;
        let what = format!(
            "{}, with schedulerName {scheduler}, for {} without having been tried, and no call has come for {idle} s",
            pods::wait(u32::try_from(pods).unwrap_or(u32::MAX)),
            age(oldest.as_secs()),
        );
        let remedy = "check that the scheduler of this name runs and sees the pods (after a restart of the apiserver it can take two \
                      minutes), and that its configuration has the entry that `extender-gateway scheduler-config` prints";
        return Some(warning(entry, "kube-scheduler", what, remedy));
    }
    let what = "no call since the start";
    let remedy = "check that kube-scheduler's configuration has the entry that `extender-gateway scheduler-config` prints, and that it \
                  reaches this replica";
    (!called && idle > MAX_IDLE).then(|| warning(entry, "kube-scheduler", what, remedy))
}

/// kube-scheduler does not bind by itself if an extender has `bindVerb`.
fn no_binder(status: &Status) -> Option<Problem> {
    let bind = status.verbs.iter().find(|verb| verb.verb == Verb::Bind.name())?;
    let what = "kube-scheduler sends bind calls, but no binder is configured: pods stay unscheduled";
    let remedy = "set `binder`, or remove bindVerb from kube-scheduler's configuration (see `extender-gateway \
                  scheduler-config`)";
    let last = bind.last.as_ref().filter(|last| last.outcome == "no_binder")?;
    match seconds_since(last.time) {
        ..MAX_BIND_PAUSE => Some(error("no-binder", "the gateway", what, remedy)),
        age @ ..MAX_FAILURE_AGE => {
            let what = format!("a bind call without a configured binder, the last one {age} s ago");
            let remedy = "nothing: no bind call has come since";
            Some(problem(Severity::Recent, "no-binder", "the gateway", what, remedy))
        }
        _ => None,
    }
}

fn overload(status: &Status) -> Option<Problem> {
    let refused = || status.verbs.iter().filter_map(|verb| verb.refused.as_ref());
    let age = seconds_since(refused().map(|refused| refused.last).max()?);
    if age >= MAX_FAILURE_AGE {
        return None;
    }
    let severity = if age < MAX_REFUSAL_AGE { Severity::Warning } else { Severity::Recent };
    let count: u64 = refused().map(|refused| refused.count).sum();
    let what = format!("overloaded: {count} calls refused since the start, the last one {age} s ago");
    let remedy = "look for callers that send more calls than kube-scheduler, and run more replicas; the log has the reason \
                  (`call rejected`)";
    let impact = "kube-scheduler tries the pods of refused calls again, with backoff";
    Some(problem(severity, "overload", "the gateway", what, remedy).with_impact(impact))
}

fn log(status: &Status) -> Option<Problem> {
    let complete = status.log.complete_since?;
    if status.log.max_bytes == 0 || status.log.bytes < status.log.max_bytes / 2 {
        // It was disabled or made smaller, or has lost a single call that was too large.
        return None;
    }
    let age = seconds_since(complete);
    let what = format!("full; it covers only the last {age} s");
    let remedy = "raise decisions.maxBytes";
    (age < MIN_LOG_AGE).then(|| warning("decision-log-full", "the decision log", what, remedy))
}

fn lost_log_lines(status: &Status) -> Option<Problem> {
    let LostLogLines { lines, last } = status.lost_log_lines.as_ref()?;
    let age = seconds_since(*last);
    let what = format!(
        "{lines} lines were lost since the start, the last one {age} s ago: they could not be written"
    );
    let remedy = "check what reads the gateway's standard error, and the disk that it writes to; or set a less verbose log.level";
    (age < MAX_FAILURE_AGE)
        .then(|| warning("log-lines-lost", "the log", what, remedy).with_impact("none for pods"))
}

fn traces(observer: &Observer) -> Option<Problem> {
    let fault = observer.tracer.as_ref()?.delivery().fault?;
    let what = format!("cannot export spans: {fault}");
    let remedy = "check that a collector runs at otlp.endpoint with otlp.protocol";
    Some(warning("traces-not-exported", "traces", what, remedy))
}

#[cfg(test)]
mod tests;
