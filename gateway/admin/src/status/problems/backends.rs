//! Problems of a backend: it is away, fails, is slow, rejects everything, or its pods wait.

use std::{borrow::Cow, time::Duration};

use extender_gateway_api::{BackendStatus, BackendVerb, Problem, RejectsAll, Severity, UnresolvedStatus};
use extender_gateway_backend::{info::UnscaledScores, remedy};
use extender_gateway_cluster::{gangs::GroupKey, pods::KnownPod};
use extender_gateway_core::PolicyVerb;
use extender_gateway_object::text::age;
use extender_gateway_observe::WaitingPods;
use extender_gateway_settings::{
    BackendSettings, Choice, Config, INEXACT_LIMIT, INEXACT_LIMIT_REMEDY, Mode, lockout_remedy,
};

use super::{MAX_FAILURE_AGE, modes::excessive_rejections, pods::wait, problem, seconds_since, warning};

use crate::status::StatusSources;

/// The minimum number of calls in a minute for a problem with their duration.
const MIN_CALLS: u32 = 10;
/// A host that was not resolved for less time than this, in seconds, may be resolved at the next attempt.
const MIN_UNRESOLVED: u64 = 10;
/// A failure this long ago, in seconds, after which calls succeed, is over.
const MAX_DOUBT: i64 = 10;
/// Few failures longer ago than this, in seconds, are of no interest.
const MAX_FEW_AGE: i64 = 60;
/// Pods are tried again later than this after their latest rejection, in seconds: a repaired backend is not known yet.
const MAX_REJECTION_AGE: i64 = 20;

fn of_backend(
    backend: &BackendStatus,
    settings: &BackendSettings,
    config: &Config,
    sources: &StatusSources,
) -> Vec<Problem> {
    let about = format!("backend {}", backend.name);
    let mut problems = Vec::new();
    if settings.mode == Mode::Disabled {
        return problems;
    }
    if !backend.connected {
        let verbs = || backend.verbs.iter().filter_map(|verb| PolicyVerb::named(&verb.verb));
        let impacts: Vec<String> = verbs().map(|verb| impact(settings, verb)).collect();
        let what = backend.failure.clone().unwrap_or_else(|| "no connection".to_owned());
        let remedy = format!("{}; {}", remedy::of_failure(&what), way_out(backend));
        let down = problem(worst(settings), "backend-down", &about, what, remedy);
        problems.push(if impacts.is_empty() {
            down
        } else {
            down.with_impact(with_waiting(impacts.join("; "), backend))
        });
    }
    problems.extend(unresolved(&about, backend));
    problems.extend(backend.rejected_configuration.as_ref().map(|why| rejected_configuration(&about, why)));
    let interest = &settings.matches.interest;
    let exempt = config.exempt.namespaces.as_ref().unwrap_or(&sources.exempt);
    let group = |is_wanted: fn(&KnownPod) -> bool| {
        sources.pods.first_group(interest, |pod| !exempt.contains(&pod.namespace) && is_wanted(pod))
    };
    let filters_by_bound_pods = backend.handshake.as_ref().is_some_and(|it| it.filters_by_bound_pods);
    if filters_by_bound_pods && config.has_inexact_limits(settings) {
        problems.push(inexact_limit(&about, group(|_| true)));
    }
    if settings.preempt.is_some() && settings.mode == Mode::Enforce {
        problems.extend(group(KnownPod::is_preemptor).map(|it| preempting_group(&about, &it)));
    }
    if backend.handshake.as_ref().is_some_and(|handshake| handshake.changes_too_often) {
        let what = "it changes too often what it requests, so its latest handshake is not used yet";
        let remedy =
            "change its rules less often, and let all of its replicas have the same version and rules";
        problems.push(warning("backend-changes-too-often", &about, what, remedy));
    }
    for verb in &backend.verbs {
        problems.extend(of_verb(&about, backend, verb, settings));
    }
    problems
}

/// The problems of a backend.
pub(super) fn of(
    backend: &BackendStatus,
    config: &Config,
    sources: &StatusSources,
    waiting: &WaitingPods,
) -> Vec<Problem> {
    let settings = config.backends.iter().find(|settings| settings.name.as_str() == backend.name);
    let in_effect = settings.map(|settings| in_effect(backend, settings));
    let mut problems: Vec<_> =
        in_effect.iter().flat_map(|settings| of_backend(backend, settings, config, sources)).collect();
    let namespace = settings.and_then(|settings| config.locked_out(settings, &sources.exempt));
    let own_pod = namespace.and_then(|namespace| waiting.held_in(&backend.name, namespace));
    if let (Some(settings), Some(namespace)) = (settings, namespace) {
        let locked_out = locked_out(settings, namespace, own_pod.as_deref());
        if own_pod.is_some() {
            // Nothing else can be done about a backend whose pods wait for it.
            for problem in problems.iter_mut().filter(|problem| problem.severity != Severity::Recent) {
                problem.remedy.clone_from(&locked_out.remedy);
            }
        }
        problems.push(locked_out);
    }
    problems.extend(excessive_rejections(backend));
    problems
}

/// A rule file, or the like, that the backend does not use.
fn rejected_configuration(about: &str, why: &str) -> Problem {
    let what = format!("it does not use its own configuration: {why}");
    let impact = "what it used before still decides; after a restart it may not start";
    let remedy = "correct what the message names; the policy reads it again by itself";
    warning("rules-rejected", about, what, remedy).with_impact(impact)
}

/// A host whose last known addresses are used.
fn unresolved(about: &str, backend: &BackendStatus) -> Option<Problem> {
    let UnresolvedStatus { seconds, failure } = backend.unresolved.as_ref()?;
    let what = format!(
        "its host has not been resolved for {}, and its last addresses are used: {failure}",
        age(*seconds)
    );
    let impact = if backend.connected {
        "none while these addresses answer"
    } else {
        "its new addresses are not known"
    };
    let remedy =
        "check that the Service or DNS record in its url exists, and that DNS works where the gateway runs";
    (*seconds >= MIN_UNRESOLVED)
        .then(|| warning("host-not-resolved", about, what, remedy).with_impact(impact))
}

/// A limit that many pods at once exceed, and all pods of a group, such as this one.
fn inexact_limit(about: &str, group: Option<GroupKey>) -> Problem {
    let dozens = "dozens of pods that are created at once can exceed its limits";
    let impact = match group {
        Some(GroupKey { namespace, name }) => {
            format!("{dozens}, and the pods of a pod group, such as {namespace}/{name}, do")
        }
        None => dozens.to_owned(),
    };
    warning("limits-not-exact", about, INEXACT_LIMIT, INEXACT_LIMIT_REMEDY).with_impact(impact)
}

/// kube-scheduler calls no extender when a group preempts.
fn preempting_group(about: &str, GroupKey { namespace, name }: &GroupKey) -> Problem {
    let what = format!("it is not called when a pod group preempts, and {namespace}/{name} may preempt");
    let remedy =
        "forbid groups that preempt with deploy/kube-scheduler/no-preempting-groups.yaml (docs/limits.md)";
    warning("group-preempts", about, what, remedy).with_impact("the group can evict pods that it protects")
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

/// A backend whose own pods could not be scheduled without it, or one of which waits for it.
fn locked_out(settings: &BackendSettings, namespace: &str, own_pod: Option<&str>) -> Problem {
    let about = format!("backend {}", settings.name);
    let remedy = lockout_remedy(settings, namespace);
    let (severity, what, impact) = match own_pod {
        Some(pod) => (
            Severity::Error,
            format!("its own pod {namespace}/{pod} waits for it"),
            "it cannot start, and no pod that it matches is scheduled",
        ),
        None => (
            Severity::Warning,
            format!("it is in namespace {namespace}, which is not exempt"),
            "none yet; if all its pods are gone, they cannot be scheduled",
        ),
    };
    problem(severity, "backend-locks-itself-out", &about, what, remedy).with_impact(impact)
}

fn of_verb(
    about: &str,
    backend: &BackendStatus,
    verb: &BackendVerb,
    settings: &BackendSettings,
) -> Vec<Problem> {
    let name = &verb.verb;
    let Some(known_verb) = PolicyVerb::named(name) else { return Vec::new() };
    let ends_calls = settings.can_fail_calls(known_verb) && settings.mode == Mode::Enforce;
    let impact = with_waiting(impact(settings, known_verb), backend);
    let worst = severity(settings, known_verb);
    let unsuitable = verb.unsuitable.as_ref().map(|why| {
        let what = format!("cannot serve {name}: it {why}");
        let remedy = format!(
            "change what the sentence names, or use a version of the policy that fits; {}",
            way_out(backend)
        );
        problem(worst, "backend-unsuitable", about, what, remedy).with_impact(impact.as_str())
    });
    let outweighs = verb.unscaled_scores.as_ref();
    let outweighs =
        outweighs.map(|what| warning("scores-outweigh", about, what.as_str(), UnscaledScores::REMEDY));
    // Without a connection all calls fail, and that is one problem.
    let failing = failing(about, backend, verb, worst).filter(|_| backend.connected);
    let failing = failing.map(|problem| match problem.severity {
        Severity::Recent => problem,
        _ if verb.minute.failed >= verb.minute.calls => problem.with_impact(impact.as_str()),
        _ if ends_calls => {
            let policy = settings.failure_policy(known_verb);
            let tried_again = format!("{name} {policy}: the pods of the calls that failed are tried again");
            problem.with_impact(with_waiting(tried_again, backend))
        }
        _ => problem.with_impact(format!("for the calls that fail: {impact}")),
    });
    // Calls that are late are a problem of their own.
    let slow = slow(about, verb, settings.timeouts()[known_verb]).filter(|_| verb.minute.failed == 0);
    let rejects_all = rejects_all(about, backend, verb, settings);
    [unsuitable, outweighs, failing, slow, rejects_all].into_iter().flatten().collect()
}

/// Failed calls: an error while the latest one failed and many do, and a warning while some do; then history.
fn failing(about: &str, backend: &BackendStatus, verb: &BackendVerb, worst: Severity) -> Option<Problem> {
    let BackendVerb { verb: name, failed_lately, lately, minute, .. } = verb;
    let last = verb.last_failure.as_ref()?;
    let age = seconds_since(last.time);
    let are_few = failed_lately.saturating_mul(10) < *lately;
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
    let severity = match (verb.last_failed, minute.failed) {
        _ if is_reconnected => Severity::Recent,
        (true, failed) if failed.saturating_mul(10) >= minute.calls => worst,
        (true, _) => Severity::Warning,
        // A success ends the error at once. A few of them do not yet say that all is well.
        (false, 1..) if age < MAX_DOUBT => Severity::Warning,
        (false, _) => Severity::Recent,
    };
    let last = &last.message;
    if severity != Severity::Recent {
        let what = format!("{failed} ({kinds}); the last one {age} s ago: {last}");
        return Some(problem(severity, "backend-fails", about, what, remedy_of(backend, verb)));
    }
    let what = format!("{failed} until {age} s ago ({kinds}); the last one: {last}");
    let remedy =
        if verb.last_failed { "nothing: it is connected again" } else { "nothing: calls succeed again" };
    let is_of_interest = !are_few || age < MAX_FEW_AGE;
    is_of_interest.then(|| problem(severity, "backend-fails", about, what, remedy))
}

/// The remedy for the latest failure.
fn remedy_of(backend: &BackendStatus, verb: &BackendVerb) -> String {
    let kind = verb.last_failure.as_ref().map_or("", |last| last.kind.as_str());
    let remedy = match kind {
        // Only calls that are late open a circuit breaker.
        "late" | "circuit_open" => "speed it up, or raise its timeout; if it hangs, restart it",
        "overloaded" => "it gets more calls than it answers in time: speed it up, or run more replicas of it",
        "unreachable" | "reset" => "check that it runs and is not restarted again and again",
        "oversize" => {
            "if its answer is too large, shorten its reasons; if the request is, let its handshake ask for less of nodes and pods, or raise its \
             max_request_bytes, and for an HTTP extender set `nodeCacheCapable: true` in its args"
        }
        "unsuitable" => "correct its configuration or its handshake",
        "status" => "correct what its message names, or see its log",
        _ => "see its log and the gateway's lines `backend call failed`",
    };
    format!("{remedy}; {}", way_out(backend))
}

/// How to decide without a backend.
fn way_out(backend: &BackendStatus) -> String {
    let name = &backend.name;
    format!(
        "`extender-gateway backend {name} shadow --for 30m --reason TEXT` takes it out of decisions for a while"
    )
}

fn slow(about: &str, verb: &BackendVerb, timeout: Option<Duration>) -> Option<Problem> {
    let (p99, timeout) = (verb.minute.p99_seconds?, timeout?);
    let is_slow = verb.minute.sent >= MIN_CALLS && p99 > timeout.as_secs_f64() * 0.8;
    let what = format!(
        "the 99th percentile of {} is {:.0} ms in the last minute, close to its timeout of {} ms",
        verb.verb,
        p99 * 1e3,
        timeout.as_millis()
    );
    is_slow.then(|| warning("backend-slow", about, what, "speed it up, or raise its timeout"))
}

fn rejects_all(
    about: &str,
    backend: &BackendStatus,
    verb: &BackendVerb,
    settings: &BackendSettings,
) -> Option<Problem> {
    let RejectsAll { since, last, decisions, pods, workload, reason } = verb.rejects_all.as_ref()?;
    let (severity, impact) = match (settings.mode, settings.canary, workload) {
        (Mode::Enforce, _, Some(_)) => (Severity::Warning, "its further pods are not scheduled".to_owned()),
        (Mode::Enforce, None, None) => (Severity::Error, "no pod that it matches is scheduled".to_owned()),
        (Mode::Enforce, Some(_), None) => {
            (Severity::Error, "no pod of its canary share is scheduled".to_owned())
        }
        (Mode::Shadow | Mode::Disabled, ..) => (Severity::Warning, impact(settings, PolicyVerb::Filter)),
    };
    let cause = match verb.missing_labels.as_slice() {
        [] => String::new(),
        [key] => format!("; no node has the label {key}, which it reads"),
        keys => format!("; no node has any of the labels {}, which it reads", keys.join(", ")),
    };
    let of = workload.as_ref().map(|workload| format!(" of {workload}")).unwrap_or_default();
    let why = workload.as_ref().map(|_| format!(" ({reason})")).unwrap_or_default();
    let what = format!(
        "it rejected every node in its latest {decisions} decisions about {pods} pods{of}, since {}{why}{cause}",
        since.strftime("%Y-%m-%d %H:%M:%S UTC")
    );
    let waiting = backend.waiting.as_ref();
    if waiting.is_some_and(|it| it.changed_seconds.is_some() && it.untried == it.pods) {
        let remedy = "nothing: it has changed since, and the pods that wait have not been tried again yet";
        return Some(problem(Severity::Recent, "backend-rejects-everything", about, what, remedy));
    }
    let reasons =
        "see the reasons with `extender-gateway explain pod/NAME -n NAMESPACE`, and correct its rules";
    let remedy = match (settings.mode, workload) {
        (Mode::Enforce, Some(_)) => {
            "nothing if this workload is at a limit of its own, such as a quota; otherwise see the reasons with `extender-gateway explain \
             pod/NAME -n NAMESPACE`"
                .to_owned()
        }
        (Mode::Enforce, None) => format!("{reasons}; {}", way_out(backend)),
        (Mode::Shadow | Mode::Disabled, _) => format!("{reasons} before its answers count"),
    };
    // Nobody has asked it since: it may be repaired already.
    let is_unasked = settings.mode == Mode::Enforce && seconds_since(*last) > MAX_REJECTION_AGE;
    let remedy = if is_unasked {
        let ago = age(u64::try_from(seconds_since(*last)).unwrap_or_default());
        format!(
            "if it is repaired, run `extender-gateway status --retry`: the last decision was {ago} ago; if not: {remedy}"
        )
    } else {
        remedy
    };
    let rejects = problem(severity, "backend-rejects-everything", about, what, remedy);
    Some(rejects.with_impact(with_waiting(impact, backend)))
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
