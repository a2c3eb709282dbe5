//! Warnings about resources that kube-scheduler ignores: a backend must count them, for every pod.

use extender_gateway_core::interest::Namespaces;

use super::{Warning, conditions::ALWAYS_EXEMPT};
use crate::config::{BackendSettings, Config, FailurePolicy, Mode};

/// The warnings about one backend's `match.managedResources`.
pub(super) fn warnings(config: &Config, path: &str, backend: &BackendSettings) -> Vec<Warning> {
    let path = format!("{path}.match.managedResources");
    let found = [
        uncounted(config, &path, backend),
        counted_for_some(config, &path, backend),
        exempt(config, &path, backend),
        counted_elsewhere(config, &path, backend),
    ];
    found.into_iter().flatten().collect()
}

/// The backends that count a resource instead of kube-scheduler, possibly for some pods only.
fn counting<'c>(config: &'c Config, name: &String) -> impl Iterator<Item = &'c BackendSettings> {
    config.backends.iter().filter(move |other| {
        other.mode == Mode::Enforce
            && other.filter.is_some()
            && other.matches.interest.resources.contains(name)
    })
}

/// kube-scheduler ignores the resource, and no enforced backend counts it.
fn uncounted(config: &Config, path: &str, backend: &BackendSettings) -> Option<Warning> {
    let mut ignored = backend.matches.ignored_by_scheduler.iter();
    let name = ignored.find(|name| counting(config, name).next().is_none())?;
    let fact = format!(
        "nothing counts {name}: kube-scheduler ignores it, and no backend with mode: Enforce filters for it"
    );
    Some(Warning::new(path, fact, "add the resource to such a backend, or set ignoredByScheduler: false"))
}

/// A backend counts the resource, but not for every pod that requests it, or not always.
fn counted_for_some(config: &Config, path: &str, backend: &BackendSettings) -> Option<Warning> {
    // If all have gaps, the first one's.
    let gap = |name: &&String| {
        let gaps: Option<Vec<_>> = counting(config, name).map(|other| Some((other, gap(other)?))).collect();
        gaps?.into_iter().next()
    };
    let (name, (other, gap)) =
        backend.matches.ignored_by_scheduler.iter().find_map(|name| Some((name, gap(&name)?)))?;
    let fact =
        format!("{name} is not always counted: kube-scheduler ignores it, and backend {} {gap}", other.name);
    let advice = "use a backend that matches every such pod, with failurePolicy: Fail, or set ignoredByScheduler: false";
    Some(Warning::new(path, fact, advice))
}

/// Why a backend does not count a resource for every pod that requests it.
fn gap(backend: &BackendSettings) -> Option<&'static str> {
    let fails_open =
        backend.filter.as_ref().is_some_and(|filter| filter.failure_policy == FailurePolicy::Ignore);
    match &backend.matches.interest.namespaces {
        Namespaces::Only(_) => return Some("is not called outside match.namespaces"),
        Namespaces::Except(names) if !names.is_empty() => {
            return Some("is not called in match.excludedNamespaces");
        }
        Namespaces::Except(_) | Namespaces::All => {}
    }
    if !backend.matches.interest.selector.is_empty() {
        return Some("is not called for pods outside match.podSelector");
    }
    fails_open.then_some("accepts every node when it fails (filter.failurePolicy: Ignore)")
}

/// Backends are not called for pods of exempt namespaces. The default exemptions contain only system pods; one name
/// besides `kube-system` is assumed to be the gateway's own.
fn exempt(config: &Config, path: &str, backend: &BackendSettings) -> Option<Warning> {
    let exempt = config.exempt.namespaces.as_ref()?;
    let others: Vec<&str> = exempt.iter().map(String::as_str).filter(|name| *name != ALWAYS_EXEMPT).collect();
    let name = backend.matches.ignored_by_scheduler.first().filter(|_| others.len() > 1)?;
    let fact = format!("nothing counts {name} for pods of exempt namespaces: {}", others.join(", "));
    Some(Warning::new(path, fact, "remove them from exempt.namespaces, or set ignoredByScheduler: false"))
}

/// One backend's ignoredByScheduler applies to all.
fn counted_elsewhere(config: &Config, path: &str, backend: &BackendSettings) -> Option<Warning> {
    let mut counted = backend
        .matches
        .interest
        .resources
        .iter()
        .filter(|name| !backend.matches.ignored_by_scheduler.contains(name));
    let said = |name: &&String| {
        config
            .backends
            .iter()
            .find(|other| other.matches.ignored_by_scheduler.contains(name))
            .map(|other| &other.name)
    };
    let (name, other) = counted.find_map(|name| Some((name, said(&name)?)))?;
    let fact = format!(
        "{name} is not counted by kube-scheduler: backend {other} has it with ignoredByScheduler: true"
    );
    Some(Warning::new(path, fact, "set the same value for both"))
}
