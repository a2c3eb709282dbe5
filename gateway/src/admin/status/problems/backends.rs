//! Problems of a backend: it is away, fails, is slow, rejects everything, or its pods wait.

use std::{borrow::Cow, collections::BTreeSet, time::Duration};

use extender_gateway_core::PolicyVerb;

use super::{MAX_FAILURE_AGE, modes::excessive_rejections, problem, seconds_since};
use crate::{
    api::{BackendStatus, BackendVerb, Problem, RejectsAll, Severity},
    backend::{info::UnscaledScores, remedy},
    config::{BackendSettings, Choice, Config, Mode, Requeueing, lockout_remedy},
};

/// The minimum number of calls in a minute for a problem with their duration.
const MIN_CALLS: u32 = 10;
fn of_backend(backend: &BackendStatus, settings: &BackendSettings) -> Vec<Problem> {
    let about = format!("backend {}", backend.name);
    let mut problems = Vec::new();
    if settings.mode == Mode::Disabled {
        return problems;
    }
    if !backend.connected {
        let verbs = || backend.verbs.iter().filter_map(|verb| PolicyVerb::named(&verb.verb));
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

/// The problems of a backend.
pub(super) fn of(backend: &BackendStatus, config: &Config, exempt: &BTreeSet<String>) -> Vec<Problem> {
    let settings = config.backends.iter().find(|settings| settings.name.as_str() == backend.name);
    let in_effect = settings.map(|settings| in_effect(backend, settings));
    let of_settings = in_effect.iter().flat_map(|settings| of_backend(backend, settings));
    let locked_out = settings.and_then(|settings| locked_out(config, settings, exempt));
    let excess = excessive_rejections(backend);
    of_settings.chain(excess).chain(untried(backend, config)).chain(locked_out).collect()
}

/// The settings with the mode that replaces the configured one.
fn in_effect<'s>(backend: &BackendStatus, settings: &'s BackendSettings) -> Cow<'s, BackendSettings> {
    let overridden = backend.overridden.as_ref();
    let of_word = |word: &str| Mode::WORDS.iter().find(|(known, _)| *known == word).map(|(_, mode)| *mode);
    match overridden.and_then(|it| of_word(&it.mode)).filter(|mode| *mode != settings.mode) {
        Some(mode) => Cow::Owned(BackendSettings { mode, ..settings.clone() }),
        None => Cow::Borrowed(settings),
    }
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

/// A backend whose own pods could not be scheduled without it.
fn locked_out(config: &Config, settings: &BackendSettings, exempt: &BTreeSet<String>) -> Option<Problem> {
    let namespace = config.locked_out(settings, exempt)?;
    let what = format!("it is in namespace {namespace}, which is not exempt");
    let impact = Some("none yet; if all its pods are gone, they cannot be scheduled".to_owned());
    let remedy = lockout_remedy(settings, namespace);
    let about = format!("backend {}", settings.name);
    Some(Problem { impact, ..problem((Severity::Warning, "backend-locks-itself-out"), &about, what, remedy) })
}

fn of_verb(
    about: &str,
    backend: &BackendStatus,
    verb: &BackendVerb,
    settings: &BackendSettings,
) -> Vec<Problem> {
    let name = &verb.verb;
    let Some(known_verb) = PolicyVerb::named(name) else { return Vec::new() };
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
    let outweighs = verb.unscaled_scores.as_ref().map(|what| {
        problem((Severity::Warning, "scores-outweigh"), about, what.clone(), UnscaledScores::REMEDY)
    });
    unsuitable
        .into_iter()
        .chain(outweighs)
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
        "late" => "speed it up, or raise its timeout",
        "circuit_open" => {
            "it is called again by itself when a probe is answered: correct the failure in the message"
        }
        "overloaded" => "it gets more calls than it answers in time: speed it up, or run more replicas of it",
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
    let (severity, impact) = match (settings.mode, settings.canary) {
        (Mode::Enforce, None) => (Severity::Error, "no pod that it matches is scheduled".to_owned()),
        (Mode::Enforce, Some(_)) => (Severity::Error, "no pod of its canary share is scheduled".to_owned()),
        (Mode::Shadow | Mode::Disabled, _) => (Severity::Warning, impact(settings, PolicyVerb::Filter)),
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
    let reasons =
        "see the reasons with `extender-gateway explain pod/NAME -n NAMESPACE`, and correct its rules";
    let remedy = match settings.mode {
        Mode::Enforce => {
            let name = &backend.name;
            format!(
                "{reasons}; `extender-gateway backend {name} shadow --for 30m --reason TEXT` keeps it running without effect"
            )
        }
        Mode::Shadow | Mode::Disabled => format!("{reasons} before its answers count"),
    };
    Some(Problem {
        impact: Some(with_waiting(impact, backend)),
        ..problem((severity, "backend-rejects-everything"), about, what, remedy)
    })
}

/// What it means for pods that a backend cannot be called for a verb.
fn impact(settings: &BackendSettings, verb: PolicyVerb) -> String {
    if settings.mode != Mode::Enforce {
        return format!("no decision depends on its {}: it is in shadow mode", verb.name());
    }
    let policy = settings.failure_policy(verb);
    let effect = match (verb, settings.can_fail_calls(verb)) {
        (PolicyVerb::Filter | PolicyVerb::BeforeFilter | PolicyVerb::BeforeFilterNodes, true) => {
            "no pod that it matches is scheduled"
        }
        (PolicyVerb::Filter, false) => "pods can be placed on nodes that it would reject",
        (PolicyVerb::Score, _) => "pods are placed without its scores",
        (PolicyVerb::Preempt, true) => "no pod that it matches preempts others",
        (PolicyVerb::Preempt, false) => "pods preempt others without its veto",
        (PolicyVerb::Bind, true) => "no pod that it matches is bound",
        (PolicyVerb::Bind, false) => "the next binder binds",
        (PolicyVerb::BeforeFilter | PolicyVerb::BeforeFilterNodes, false) => {
            "policies decide about pods and nodes without its changes"
        }
        (PolicyVerb::BeforeScore, _) => "pods and nodes are scored without its changes",
    };
    format!("{} {policy}: {effect}", verb.name())
}

/// The severity if a backend cannot be called for a verb: an error if this makes calls fail.
pub(super) fn severity(settings: &BackendSettings, verb: PolicyVerb) -> Severity {
    if settings.can_fail_calls(verb) && settings.mode == Mode::Enforce {
        Severity::Error
    } else {
        Severity::Warning
    }
}

/// The severity if a backend cannot be called at all.
pub(super) fn worst(settings: &BackendSettings) -> Severity {
    settings.verbs().map(|verb| severity(settings, verb)).min().unwrap_or(Severity::Warning)
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

/// `1 pod waits`, `12 pods wait`.
fn wait(pods: u32) -> String {
    if pods == 1 { "1 pod waits".to_owned() } else { format!("{pods} pods wait") }
}

/// `40 s`, `4 min`, `3 h`.
fn age(seconds: u64) -> String {
    match seconds {
        0..120 => format!("{seconds} s"),
        120..7200 => format!("{} min", seconds / 60),
        _ => format!("{} h", seconds / 3600),
    }
}
