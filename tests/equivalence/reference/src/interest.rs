//! Which extenders are called for a pod. Mirrors `HTTPExtender.IsInterested`, and adds the conditions of the
//! gateway's `match` beyond managed resources.

use crate::model::{Differences, Extender, Mode, Namespaces, Operator, Pod, Requirement};

/// The extenders that take part, with their positions, in kube-scheduler's filter order: the ignorable ones last
/// (`buildExtenders`); `is_last` returns which they are.
pub(crate) fn in_turn<'e>(
    extenders: &'e [Extender],
    (pod, differences): (&Pod, &Differences),
    is_last: impl Fn(&Extender) -> bool,
) -> Vec<(usize, &'e Extender)> {
    let mut asked: Vec<(usize, &Extender)> =
        extenders.iter().enumerate().filter(|(_, extender)| takes_part(extender, pod, differences)).collect();
    // Stable: the configured order stays within each group.
    asked.sort_by_key(|(_, extender)| is_last(extender));
    asked
}

fn takes_part(extender: &Extender, pod: &Pod, differences: &Differences) -> bool {
    extender.mode == Mode::Enforce
        && !differences.exempt.contains(&pod.namespace)
        && lives_where(&extender.interest.namespaces, &pod.namespace)
        && extender.interest.labels.iter().all(|(key, value)| pod.labels.get(key) == Some(value))
        && extender.interest.selector.iter().all(|requirement| holds(requirement, pod))
        && names_a_managed_resource(extender, pod)
}

fn lives_where(namespaces: &Namespaces, namespace: &str) -> bool {
    match namespaces {
        Namespaces::All => true,
        Namespaces::Only(names) => names.contains(namespace),
        Namespaces::Except(names) => !names.contains(namespace),
    }
}

/// Mirrors `labels.Requirement.Matches`.
fn holds(requirement: &Requirement, pod: &Pod) -> bool {
    let value = pod.labels.get(&requirement.key);
    let is_listed = value.is_some_and(|value| requirement.values.contains(value));
    match requirement.operator {
        Operator::In => is_listed,
        Operator::NotIn => !is_listed,
        Operator::Exists => value.is_some(),
        Operator::DoesNotExist => value.is_none(),
    }
}

fn names_a_managed_resource(extender: &Extender, pod: &Pod) -> bool {
    let managed = &extender.interest.resources;
    let mut named =
        pod.containers.iter().flat_map(|container| container.requests.keys().chain(container.limits.keys()));
    managed.is_empty() || named.any(|resource| managed.contains(resource))
}
