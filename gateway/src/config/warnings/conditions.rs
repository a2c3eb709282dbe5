//! Warnings about `match`: conditions that no pod can satisfy.

use std::collections::BTreeSet;

use extender_gateway_core::interest::{Namespaces, Operator, Requirement};

use super::Warning;
use crate::config::{BackendSettings, Config};

/// Exempt by default in every cluster.
pub(super) const ALWAYS_EXEMPT: &str = "kube-system";

/// The warnings about one backend's `match`.
pub(super) fn warnings(config: &Config, path: &str, backend: &BackendSettings) -> Vec<Warning> {
    [only_exempt(config, path, backend), contradiction(path, backend)].into_iter().flatten().collect()
}

fn only_exempt(config: &Config, path: &str, backend: &BackendSettings) -> Option<Warning> {
    let Namespaces::Only(names) = &backend.matches.interest.namespaces else { return None };
    let is_exempt = |name: &String| match &config.exempt.namespaces {
        Some(exempt) => exempt.contains(name),
        None => name == ALWAYS_EXEMPT,
    };
    let fact = "are all exempt, so the backend is never called";
    let advice = "select other namespaces, or remove them from exempt.namespaces";
    names.iter().all(is_exempt).then(|| Warning::new(format!("{path}.match.namespaces"), fact, advice))
}

/// A label whose conditions exclude each other.
fn contradiction(path: &str, backend: &BackendSettings) -> Option<Warning> {
    let selector = &backend.matches.interest.selector;
    let key = selector.iter().map(|requirement| &requirement.key).find(|key| !can_hold(selector, key))?;
    let fact = format!("no pod can satisfy the conditions on label {key:?}, so the backend is never called");
    Some(Warning::new(format!("{path}.match.podSelector"), fact, "use conditions that can hold together"))
}

/// Whether a label can satisfy all its conditions.
fn can_hold(selector: &[Requirement], key: &str) -> bool {
    let about = || {
        selector.iter().filter(|requirement| requirement.key == key).map(|requirement| &requirement.operator)
    };
    let absent_will_do =
        about().all(|operator| matches!(operator, Operator::NotIn(_) | Operator::DoesNotExist));
    let present_will_do = || {
        let named: Vec<&BTreeSet<String>> = about().filter_map(values_of_in).collect();
        let fits = |value: &String| about().all(|operator| admits(operator, value));
        // Without listed values there is always an allowed one.
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
