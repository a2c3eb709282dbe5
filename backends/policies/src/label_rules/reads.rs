//! What rules read of pods and nodes. It follows the rule file: a pod's label that no rule names changes no answer, and
//! is not sent.

use std::collections::BTreeSet;

use extender_policy_sdk::{PodPart, Reads};

use super::{Rules, rule::PodSelector};

/// For filter and score. Both read the same, so that scores come with the verdicts.
pub(super) fn of_placement(rules: &Rules) -> Reads {
    let Rules { refusals, preferences, .. } = rules;
    let pods = refusals.iter().map(|rule| &rule.pods).chain(preferences.iter().map(|rule| &rule.pods));
    let requirements = refusals.iter().flat_map(|rule| &rule.require);
    let requirements = requirements.chain(preferences.iter().flat_map(|rule| &rule.prefer));
    declared(pods, requirements.map(|requirement| requirement.key.as_str()))
}

/// For preempt, of the pod and also of the victims.
pub(super) fn of_eviction(rules: &Rules) -> Reads {
    declared(rules.protections.iter().flat_map(|rule| [&rule.pods, &rule.protect]), [])
}

fn declared<'r>(
    pods: impl Iterator<Item = &'r PodSelector> + Clone,
    node_labels: impl IntoIterator<Item = &'r str>,
) -> Reads {
    let mut reads = Reads::new();
    if pods.clone().any(|selector| !selector.namespaces.is_empty()) {
        reads.pod(PodPart::Namespace);
    }
    let pod_labels: BTreeSet<_> =
        pods.flat_map(|selector| &selector.labels).map(|requirement| requirement.key.as_str()).collect();
    let node_labels: BTreeSet<_> = node_labels.into_iter().collect();
    if pod_labels.len() + node_labels.len() > Reads::MAX_KEYS {
        // Preempt gets no labels of nodes.
        if !node_labels.is_empty() {
            reads.node_labels("");
        }
        if !pod_labels.is_empty() {
            reads.pod_labels("");
        }
        return reads;
    }
    for key in pod_labels {
        reads.pod_label(key);
    }
    for key in node_labels {
        reads.node_label(key);
    }
    reads
}
