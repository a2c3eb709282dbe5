//! Warnings about `match`: conditions that no pod fulfils, resources that nobody counts.

use std::collections::BTreeSet;

use extender_gateway_core::interest::{Namespaces, Operator, Requirement};

use super::Warning;
use crate::config::{Backend, Config, Mode};

/// Exempt in every cluster where the file does not say otherwise.
const ALWAYS_EXEMPT: &str = "kube-system";

/// The warnings about one backend's `match`.
pub(super) fn warnings(config: &Config, path: &str, backend: &Backend) -> Vec<Warning> {
    let about_pods = [only_exempt(config, path, backend), contradiction(path, backend)];
    let about_resources = [uncounted(config, path, backend), counted_elsewhere(config, path, backend)];
    about_pods.into_iter().chain(about_resources).flatten().collect()
}

fn only_exempt(config: &Config, path: &str, backend: &Backend) -> Option<Warning> {
    let Namespaces::Only(names) = &backend.interest.namespaces else { return None };
    let is_exempt = |name: &String| match &config.exempt_namespaces {
        Some(exempt) => exempt.contains(name),
        None => name == ALWAYS_EXEMPT,
    };
    let fact = "are all exempt, so the backend is never asked";
    let advice = "other namespaces, or exempt.namespaces without them";
    names.iter().all(is_exempt).then(|| Warning::new(format!("{path}.match.namespaces"), fact, advice))
}

/// A label that no pod can have as the selector wants it.
fn contradiction(path: &str, backend: &Backend) -> Option<Warning> {
    let selector = &backend.interest.selector;
    let key = selector.iter().map(|requirement| &requirement.key).find(|key| !can_hold(selector, key))?;
    let fact = format!("wants of the label {key:?} what no pod can have, so the backend is never asked");
    Some(Warning::new(format!("{path}.match.podSelector"), fact, "conditions that can hold together"))
}

/// Whether one label can fulfil all that is said about it.
fn can_hold(selector: &[Requirement], key: &str) -> bool {
    let about = || {
        selector.iter().filter(|requirement| requirement.key == key).map(|requirement| &requirement.operator)
    };
    let absent_will_do =
        about().all(|operator| matches!(operator, Operator::NotIn(_) | Operator::DoesNotExist));
    let present_will_do = || {
        let named: Vec<&BTreeSet<String>> = about().filter_map(values_of_in).collect();
        let fits = |value: &String| about().all(|operator| admits(operator, value));
        // Where no values are named there is always another one that nobody excludes.
        let exists = !about().any(|operator| *operator == Operator::DoesNotExist);
        exists && named.first().is_none_or(|values| values.iter().any(fits))
    };
    absent_will_do || present_will_do()
}

fn values_of_in(operator: &Operator) -> Option<&BTreeSet<String>> {
    match operator {
        Operator::In(values) => Some(values),
        Operator::NotIn(_) | Operator::Exists | Operator::DoesNotExist => None,
    }
}

fn admits(operator: &Operator, value: &str) -> bool {
    match operator {
        Operator::In(values) => values.contains(value),
        Operator::NotIn(values) => !values.contains(value),
        Operator::Exists => true,
        Operator::DoesNotExist => false,
    }
}

/// kube-scheduler does not count the resource, and the policy that should is not heard.
fn uncounted(config: &Config, path: &str, backend: &Backend) -> Option<Warning> {
    let counts = |other: &Backend, name: &String| {
        other.mode == Mode::Enforce && other.filter.is_some() && other.interest.resources.contains(name)
    };
    let mut ignored = backend.ignored_by_scheduler.iter();
    let name = ignored.find(|name| !config.backends.iter().any(|other| counts(other, name)))?;
    let fact = format!(
        "{name} is counted by nobody: not by kube-scheduler, and no backend with mode: Enforce filters for it"
    );
    let advice = "such a backend with the resource, or ignoredByScheduler: false";
    Some(Warning::new(format!("{path}.match.managedResources"), fact, advice))
}

/// What one backend says about a resource holds for all.
fn counted_elsewhere(config: &Config, path: &str, backend: &Backend) -> Option<Warning> {
    let mut counted =
        backend.interest.resources.iter().filter(|name| !backend.ignored_by_scheduler.contains(name));
    let said = |name: &&String| {
        config
            .backends
            .iter()
            .find(|other| other.ignored_by_scheduler.contains(name))
            .map(|other| &other.name)
    };
    let (name, other) = counted.find_map(|name| Some((name, said(&name)?)))?;
    let fact = format!(
        "{name} is not counted by kube-scheduler: backend {other} has it with ignoredByScheduler: true"
    );
    Some(Warning::new(format!("{path}.match.managedResources"), fact, "the same for both"))
}
