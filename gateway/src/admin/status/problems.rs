//! Problems, what they mean for pods, and their remedies.

use std::{collections::BTreeSet, time::Duration};

use extender_gateway_core::Verb;
use jiff::Timestamp;

use crate::{
    admin::status::GatewayStatus,
    api::{BackendStatus, BackendVerb, Problem, RejectedBecause, RejectsAll, Severity, Status},
    backend::remedy,
    cluster::SourceHealth,
    config::{BackendSettings, Config, Mode, Requeueing, lockout_remedy},
    observe::Observer,
    tls::{CertificateFile, CertificateRole, Validity, ValidityState},
};

/// A failure older than this is not reported, in seconds.
const MAX_FAILURE_AGE: i64 = 600;
/// The minimum number of calls in a minute for a problem with their duration.
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
        requeueing(config, observer),
        never_called(status),
        no_binder(status),
        log(status),
        traces(observer),
    ];
    let mut problems: Vec<Problem> = of_gateway.into_iter().flatten().collect();
    let certificates = gateway_status.sources.certificates.all();
    problems.extend(certificates.into_iter().filter_map(|it| certificate(it, config)));
    problems.extend(gateway_status.sources.certificates.unusable().into_iter().map(unusable_certificate));
    for backend in &status.backends {
        let settings = config.backends.iter().find(|settings| settings.name.as_str() == backend.name);
        problems.extend(settings.into_iter().flat_map(|settings| of_backend(backend, settings)));
        problems.extend(untried(backend, config));
        problems.extend(
            settings.and_then(|settings| locked_out(config, settings, &gateway_status.sources.exempt)),
        );
    }
    problems.sort_by_key(|problem| problem.severity);
    problems
}

/// A problem with its entry of the runbook.
fn problem(
    (severity, entry): (Severity, &str),
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

fn ready(status: &Status) -> Option<Problem> {
    let what = "not ready: a Service sends calls to other replicas";
    let remedy = "wait if it has just started or is stopping; otherwise see its log";
    (!status.ready).then(|| problem((Severity::Error, "gateway-not-ready"), "the gateway", what, remedy))
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
    Some(Problem {
        impact: Some(impact.to_owned()),
        ..problem((Severity::Warning, "configuration-rejected"), "the configuration", what, remedy)
    })
}

fn nodes(status: &Status, gateway_status: &GatewayStatus) -> Option<Problem> {
    if !status.nodes.synced {
        let what = "not listed yet, so backends get no facts about nodes";
        return Some(problem(
            (Severity::Error, "nodes-not-listed"),
            "the nodes",
            what,
            "see the gateway's log",
        ));
    }
    failing_watch("nodes", &gateway_status.sources.table.as_ref()?.source_health)
}

fn failing_watch(objects: &str, source_health: &SourceHealth) -> Option<Problem> {
    let (since, why) = source_health.failing()?;
    let what = format!("the watch has failed for {} s: {why}", since.as_secs());
    let impact = Some(format!("decisions use the last known {objects}, and new ones are not known"));
    let remedy =
        format!("check that the apiserver runs and that the gateway's account may list and watch {objects}");
    Some(Problem {
        impact,
        ..problem((Severity::Warning, "watch-failing"), &format!("the {objects}"), what, remedy)
    })
}

fn requeueing(config: &Config, observer: &Observer) -> Option<Problem> {
    let (since, why) = observer.waiting.requeue_health.failing()?;
    let what = format!("updates of pods have failed for {} s: {why}", since.as_secs());
    let impact = Some("waiting pods are tried again at the next event, in 5.5 minutes at most".to_owned());
    let remedy = "correct what the apiserver rejects, or set `requeue: None`";
    (config.requeue != Requeueing::None).then(|| Problem {
        impact,
        ..problem((Severity::Warning, "pods-not-requeued"), "requeue", what, remedy)
    })
}

/// Pods that still wait although their backend has recovered or changed: kube-scheduler does not know that.
fn untried(backend: &BackendStatus, config: &Config) -> Option<Problem> {
    let waiting = backend.waiting.as_ref()?;
    let changed = waiting.changed_seconds.filter(|_| waiting.untried > 0 && backend.connected)?;
    let what = format!(
        "{} for an event of the cluster since it recovered or changed {} ago",
        wait(waiting.untried),
        age(changed),
    );
    let remedy = match config.requeue {
        Requeueing::None => {
            "nothing: kube-scheduler tries each pod again in 5.5 minutes at most; to have all tried now: `kubectl annotate node NODE \
             extender-gateway.io/retry=\"$(date)\" --overwrite`, for any node; `requeue: PodCondition` does it by itself"
        }
        Requeueing::PodCondition => {
            "nothing: their status is being updated, so that kube-scheduler tries them again"
        }
    };
    Some(problem(
        (Severity::Recent, "pods-wait-for-an-event"),
        &format!("backend {}", backend.name),
        what,
        remedy,
    ))
}

/// A file whose certificates are not valid, or not for long.
fn certificate((file, validity): (CertificateFile, Validity), config: &Config) -> Option<Problem> {
    let now = Timestamp::now();
    let what = format!("{}: {}", file.path.display(), validity.problem(now)?);
    let ends_soon = validity.state(now) == ValidityState::EndsSoon;
    let (worst, effect) = match (&file.backend, file.role) {
        (None, CertificateRole::Chain) => {
            (Severity::Error, "kube-scheduler rejects the gateway, and no pod is scheduled")
        }
        (Some(name), CertificateRole::Chain) => {
            let backend = config.backends.iter().find(|backend| backend.name == *name);
            let worst = backend.map_or(Severity::Warning, worst);
            (worst, "the backend rejects new connections of the gateway")
        }
        // rustls ignores when the certificates of authorities end.
        (_, CertificateRole::Authorities) => {
            (Severity::Warning, "most programs reject certificates that it has signed; the gateway does not")
        }
    };
    let severity = if ends_soon { Severity::Warning } else { worst };
    let impact = if ends_soon { format!("none yet; then {effect}") } else { effect.to_owned() };
    let about = match file.backend {
        Some(backend) => format!("backend {backend}, {}", file.field),
        None => file.field,
    };
    let remedy = "renew it; the changed file is read without a restart";
    Some(Problem { impact: Some(impact), ..problem((severity, "certificate-expires"), &about, what, remedy) })
}

/// A file that was replaced by one without usable certificates.
fn unusable_certificate((file, why): (CertificateFile, String)) -> Problem {
    let what = format!("{}: {why}", file.path.display());
    let (about, impact) = match file.backend {
        Some(backend) => {
            (format!("backend {backend}, {}", file.field), "new connections to the backend fail")
        }
        None => (
            file.field,
            "the previous certificates stay in use; do not restart: the gateway would not start with the file",
        ),
    };
    let remedy = "replace it by a file with valid PEM certificates; it is read without a restart";
    Problem {
        impact: Some(impact.to_owned()),
        ..problem((Severity::Warning, "certificate-unusable"), &about, what, remedy)
    }
}

/// A backend whose own pods could not be scheduled without it.
fn locked_out(config: &Config, settings: &BackendSettings, exempt: &BTreeSet<String>) -> Option<Problem> {
    let namespace = config.locked_out(settings, exempt)?;
    let what = format!("it is in namespace {namespace}, which is not exempt");
    let impact = Some("none yet; if all its pods are gone, they cannot be scheduled".to_owned());
    let remedy = lockout_remedy(settings, namespace);
    let about = format!("backend {}", settings.name);
    Some(Problem { impact, ..problem((Severity::Warning, "backend-locks-itself-out"), &about, what, remedy) })
}

/// `40 s`, `4 min`, `3 h`.
fn age(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3600),
    }
}

/// `1 pod waits`, `12 pods wait`.
fn wait(pods: u32) -> String {
    if pods == 1 { "1 pod waits".to_owned() } else { format!("{pods} pods wait") }
}

/// What a problem means for pods, with those that wait because of the backend.
fn with_waiting(impact: String, backend: &BackendStatus) -> String {
    match &backend.waiting {
        Some(waiting) => {
            let oldest = age(waiting.oldest_seconds);
            let the_oldest = if waiting.pods == 1 { "" } else { "the oldest " };
            format!("{impact}; {}, {the_oldest}for {oldest}", wait(waiting.pods))
        }
        None => impact,
    }
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
        .then(|| problem((Severity::Warning, "no-calls"), "kube-scheduler", what, remedy))
}

/// kube-scheduler does not bind by itself if an extender has `bindVerb`.
fn no_binder(status: &Status) -> Option<Problem> {
    let bind = status.verbs.iter().find(|verb| verb.verb == Verb::Bind.name())?;
    let what = "kube-scheduler sends bind calls, but no binder is configured: pods stay unscheduled";
    let remedy = "set `binder`, or remove bindVerb from kube-scheduler's configuration (see `extender-gateway \
                  scheduler-config`)";
    let last = bind.last.as_ref().filter(|last| last.outcome == "no_binder")?;
    match seconds_since(last.time) {
        // kube-scheduler tries a pod again after seconds.
        ..MAX_IDLE => Some(problem((Severity::Error, "no-binder"), "the gateway", what, remedy)),
        age @ ..MAX_FAILURE_AGE => {
            let what = format!("a bind call without a configured binder, the last one {age} s ago");
            let remedy = "nothing: no bind call has come since";
            Some(problem((Severity::Recent, "no-binder"), "the gateway", what, remedy))
        }
        _ => None,
    }
}

fn log(status: &Status) -> Option<Problem> {
    let complete = status.log.complete_since?;
    if status.log.max_bytes == 0 || status.log.bytes < status.log.max_bytes / 2 {
        // It was disabled or made smaller, or has lost a single call that was too large.
        return None;
    }
    let age = seconds_since(complete);
    let what = format!("full; it covers only the last {age} s");
    (age < MIN_LOG_AGE).then(|| {
        problem(
            (Severity::Warning, "decision-log-full"),
            "the decision log",
            what,
            "raise decisions.maxBytes",
        )
    })
}

fn traces(observer: &Observer) -> Option<Problem> {
    let fault = observer.tracer.as_ref()?.delivery().fault?;
    let what = format!("cannot export spans: {fault}");
    let remedy = "check that a collector runs at otlp.endpoint with otlp.protocol";
    Some(problem((Severity::Warning, "traces-not-exported"), "traces", what, remedy))
}

fn of_backend(backend: &BackendStatus, settings: &BackendSettings) -> Vec<Problem> {
    let about = format!("backend {}", backend.name);
    let mut problems = Vec::new();
    if settings.mode == Mode::Disabled {
        return problems;
    }
    if !backend.connected {
        let verbs = || backend.verbs.iter().filter_map(|verb| Verb::named_by_backend(&verb.verb));
        let impacts: Vec<String> = verbs().map(|verb| impact(settings, verb)).collect();
        let what = backend.failure.clone().unwrap_or_else(|| "no connection".to_owned());
        let remedy = format!("{}; `mode: Disabled` removes it from decisions", remedy::of_failure(&what));
        let impact = (!impacts.is_empty()).then(|| with_waiting(impacts.join("; "), backend));
        problems.push(Problem { impact, ..problem((worst(settings), "backend-down"), &about, what, remedy) });
    }
    if backend.handshake.as_ref().is_some_and(|handshake| handshake.changes_too_often) {
        let what = "it changes too often what it requests, so its latest handshake is not used yet";
        let remedy =
            "change its rules less often, and let all of its replicas have the same version and rules";
        problems.push(problem((Severity::Warning, "backend-changes-too-often"), &about, what, remedy));
    }
    for verb in &backend.verbs {
        problems.extend(of_verb(&about, backend, verb, settings));
    }
    problems
}

/// What it means for pods that a backend cannot be called for a verb.
fn impact(settings: &BackendSettings, verb: Verb) -> String {
    if settings.mode != Mode::Enforce {
        return format!("no decision depends on its {}: it is in shadow mode", verb.backend_name());
    }
    let policy = settings.failure_policy(verb);
    let effect = match (verb, settings.can_fail_calls(verb)) {
        (Verb::Filter, true) => "no pod that it matches is scheduled",
        (Verb::Filter, false) => "pods can be placed on nodes that it would reject",
        (Verb::Prioritize, _) => "pods are placed without its scores",
        (Verb::Preempt, true) => "no pod that it matches preempts others",
        (Verb::Preempt, false) => "pods preempt others without its veto",
        (Verb::Bind, true) => "no pod that it matches is bound",
        (Verb::Bind, false) => "the next binder binds",
    };
    format!("{} {policy}: {effect}", verb.backend_name())
}

/// The severity if a backend cannot be called for a verb: an error if this makes calls fail.
fn severity(settings: &BackendSettings, verb: Verb) -> Severity {
    if settings.can_fail_calls(verb) && settings.mode == Mode::Enforce {
        Severity::Error
    } else {
        Severity::Warning
    }
}

/// The severity if a backend cannot be called at all.
fn worst(settings: &BackendSettings) -> Severity {
    settings.verbs().map(|verb| severity(settings, verb)).min().unwrap_or(Severity::Warning)
}

fn of_verb(
    about: &str,
    backend: &BackendStatus,
    verb: &BackendVerb,
    settings: &BackendSettings,
) -> Vec<Problem> {
    let name = &verb.verb;
    let Some(known_verb) = Verb::named_by_backend(name) else { return Vec::new() };
    let impact = Some(with_waiting(impact(settings, known_verb), backend));
    let worst = severity(settings, known_verb);
    let unsuitable = verb.unsuitable.as_ref().map(|why| {
        let what = format!("cannot serve {name}: it {why}");
        let remedy = "change what the sentence names, or use a version of the policy that fits; `mode: Disabled` removes it from \
                      decisions";
        problem((worst, "backend-unsuitable"), about, what, remedy)
    });
    // Without a connection all calls fail, and that is one problem.
    let failing = failing(about, backend, verb, worst).filter(|_| backend.connected);
    // Calls that are late are a problem of their own.
    let slow = slow(about, verb, settings.timeouts()[known_verb]).filter(|_| verb.minute.failed == 0);
    let failing = failing.map(|problem| match problem.severity {
        Severity::Recent => problem,
        _ if verb.minute.failed < verb.minute.calls => {
            let impact = impact.as_ref().map(|impact| format!("for the calls that fail: {impact}"));
            Problem { impact, ..problem }
        }
        _ => Problem { impact: impact.clone(), ..problem },
    });
    let unsuitable = unsuitable.map(|problem| Problem { impact: impact.clone(), ..problem });
    unsuitable
        .into_iter()
        .chain(failing)
        .chain(slow)
        .chain(rejects_all(about, (backend, verb), settings))
        .collect()
}

/// Failed calls: a problem while calls fail, an error only if many do; then history for ten minutes.
fn failing(about: &str, backend: &BackendStatus, verb: &BackendVerb, worst: Severity) -> Option<Problem> {
    let BackendVerb { verb: name, failed_lately, lately, minute, .. } = verb;
    let last = verb.last_failure.as_ref()?;
    let age = seconds_since(last.time);
    if age >= MAX_FAILURE_AGE || *failed_lately == 0 {
        return None;
    }
    let kinds: Vec<_> =
        verb.failure_kinds.iter().map(|count| format!("{} {}", count.kind, count.calls)).collect();
    let kinds = kinds.join(", ");
    let failed = format!("{failed_lately} of the latest {lately} calls to {name} failed");
    // In a quiet cluster the latest call may be minutes ago, and pods still wait because of it. A new connection ends
    // failures of the connection only: backends that close connections of a certain age open new ones all the time.
    let is_of_connection = ["unreachable", "reset"].contains(&last.kind.as_str());
    let is_reconnected = is_of_connection && backend.connected_since.is_some_and(|since| since >= last.time);
    let last_fails = verb.last_failed && !is_reconnected;
    let last = &last.message;
    let many_fail = if minute.calls == 0 { last_fails } else { minute.failed * 10 >= minute.calls };
    Some(if !is_reconnected && (many_fail || minute.failed > 0) {
        let severity = if many_fail { worst } else { Severity::Warning };
        let what = format!("{failed} ({kinds}); the last one {age} s ago: {last}");
        problem((severity, "backend-fails"), about, what, remedy_of(verb))
    } else {
        let what = format!("{failed} until {age} s ago ({kinds}); the last one: {last}");
        let remedy =
            if verb.last_failed { "nothing: it is connected again" } else { "nothing: calls succeed again" };
        problem((Severity::Recent, "backend-fails"), about, what, remedy)
    })
}

/// The remedy for the most frequent failures.
fn remedy_of(verb: &BackendVerb) -> String {
    let kind = verb.failure_kinds.first().map_or("", |count| count.kind.as_str());
    let remedy = match kind {
        "late" | "circuit_open" => "speed it up, or raise its timeout",
        "unreachable" | "reset" => "check that it runs and is not restarted again and again",
        "oversize" => "reduce the size of its answers, or raise its limit for requests",
        "unsuitable" => "correct its configuration or its handshake",
        _ => "see its log and the gateway's lines `backend call failed`",
    };
    format!("{remedy}; `mode: Disabled` removes it from decisions")
}

fn slow(about: &str, verb: &BackendVerb, timeout: Option<Duration>) -> Option<Problem> {
    let (p99, timeout) = (verb.minute.p99_seconds?, timeout?);
    let is_slow = verb.minute.calls >= MIN_CALLS && p99 > timeout.as_secs_f64() * 0.8;
    let what = format!(
        "the 99th percentile of {} is {:.0} ms in the last minute, close to its timeout of {} ms",
        verb.verb,
        p99 * 1e3,
        timeout.as_millis()
    );
    is_slow.then(|| {
        problem((Severity::Warning, "backend-slow"), about, what, "speed it up, or raise its timeout")
    })
}

fn rejects_all(
    about: &str,
    (backend, verb): (&BackendStatus, &BackendVerb),
    settings: &BackendSettings,
) -> Option<Problem> {
    let RejectsAll { since, decisions, pods } = verb.rejects_all.as_ref()?;
    let (severity, impact) = match settings.mode {
        Mode::Enforce => (Severity::Error, "no pod that it matches is scheduled".to_owned()),
        Mode::Shadow | Mode::Disabled => (Severity::Warning, impact(settings, Verb::Filter)),
    };
    let cause = match verb.missing_labels.as_slice() {
        [] => String::new(),
        [key] => format!("; no node has the label {key}, which it reads"),
        keys => format!("; no node has any of the labels {}, which it reads", keys.join(", ")),
    };
    let what = format!(
        "it rejected every node in its latest {decisions} decisions about {pods} pods, since {}{cause}",
        since.strftime("%Y-%m-%d %H:%M:%S UTC")
    );
    let waiting = backend.waiting.as_ref();
    if waiting.is_some_and(|it| it.changed_seconds.is_some() && it.untried == it.pods) {
        let remedy = "nothing: it has changed since, and the pods that wait have not been tried again yet";
        return Some(problem((Severity::Recent, "backend-rejects-everything"), about, what, remedy));
    }
    let remedy = "see the reasons with `extender-gateway explain pod/NAME -n NAMESPACE`, and correct its rules; `mode: Shadow` keeps it \
                  running without effect";
    Some(Problem {
        impact: Some(with_waiting(impact, backend)),
        ..problem((severity, "backend-rejects-everything"), about, what, remedy)
    })
}

#[cfg(test)]
mod tests;
