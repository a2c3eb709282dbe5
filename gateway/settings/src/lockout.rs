//! Backends that would keep their own pods from being scheduled.

use std::collections::BTreeSet;

use extender_gateway_core::PolicyVerb;

use super::{BackendSettings, Binder, Config, Mode};

/// The verbs without which no pod is bound, and the failure policy with which it is.
const ENDS_CALLS: [(PolicyVerb, &str); 4] = [
    (PolicyVerb::Filter, "filter.failurePolicy: Ignore"),
    (PolicyVerb::Bind, "bind.failurePolicy: Next"),
    (PolicyVerb::BeforeFilter, "beforeFilter.failurePolicy: Ignore"),
    (PolicyVerb::BeforeFilterNodes, "beforeFilterNodes.failurePolicy: Ignore"),
];

/// The namespaces that are exempt unless the file says otherwise: `kube-system`, and the gateway's own if it is known.
pub fn default_exempt(own: Option<String>) -> BTreeSet<String> {
    ["kube-system".to_owned()].into_iter().chain(own).collect()
}

impl Config {
    /// The namespace of a backend that no pod of this namespace can do without, its own included: if all its pods are
    /// gone, they cannot come back. `exempt` has the exempt namespaces if the file does not name them.
    ///
    /// The namespace is that of a Service in the URL's host. A backend that selects pods by labels or resources most
    /// likely does not select its own.
    pub fn locked_out<'c>(&self, backend: &'c BackendSettings, exempt: &BTreeSet<String>) -> Option<&'c str> {
        let interest = &backend.matches.interest;
        let ends_calls = ENDS_CALLS.iter().any(|(verb, _)| backend.can_fail_calls(*verb));
        let takes_all = interest.selector.is_empty() && interest.resources.is_empty();
        let namespace = namespace(backend.url.host())?;
        let is_exempt = self.exempt.namespaces.as_ref().unwrap_or(exempt).contains(namespace);
        let is_matched = interest.namespaces.contain(namespace);
        let is_locked_out =
            backend.mode == Mode::Enforce && ends_calls && takes_all && is_matched && !is_exempt;
        is_locked_out.then_some(namespace)
    }

    /// Whether limits of this backend do not hold if its filter decides by the pods that are bound.
    pub fn has_inexact_limits(&self, backend: &BackendSettings) -> bool {
        backend.mode == Mode::Enforce && self.binder == Binder::None
    }
}

/// Why limits of a backend do not hold if its filter decides by the pods that are bound, and kube-scheduler binds.
pub const INEXACT_LIMIT: &str = "its filter decides by the pods that are bound, and kube-scheduler decides about the next pods, and about all pods of a pod group, before the previous ones are";
/// What makes them hold.
pub const INEXACT_LIMIT_REMEDY: &str = "set `binder: BuiltIn`, so that it is asked again before each Binding; if only its scores depend on them, let only score declare usage and counts; or accept that its limits hold only roughly (docs/limits.md)";

/// What prevents that a backend locks its namespace out.
pub fn lockout_remedy(backend: &BackendSettings, namespace: &str) -> String {
    let needed =
        ENDS_CALLS.iter().filter(|(verb, _)| backend.can_fail_calls(*verb)).map(|(_, policy)| *policy);
    format!("add {namespace} to exempt.namespaces, or set {}", needed.collect::<Vec<_>>().join(" and "))
}

/// The namespace of a Service's DNS name: `NAME.NAMESPACE`, `NAME.NAMESPACE.svc` and everything below; also of one of its
/// pods.
pub(super) fn namespace(host: &str) -> Option<&str> {
    let host = host.strip_suffix('.').unwrap_or(host);
    let is_address = host.contains(':') || host.chars().all(|char| char.is_ascii_digit() || char == '.');
    let labels: Vec<&str> = host.split('.').collect();
    match labels.iter().skip(2).position(|label| *label == "svc") {
        _ if is_address => None,
        Some(after) => Some(labels[after + 1]),
        None if labels.len() == 2 => Some(labels[1]),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::samples;

    #[test]
    fn the_namespace_is_in_the_name_of_the_service() {
        for (host, expected) in [
            ("racks.policies", Some("policies")),
            ("racks.policies.svc", Some("policies")),
            ("racks.policies.svc.cluster.local", Some("policies")),
            ("racks.policies.svc.cluster.local.", Some("policies")),
            ("racks-0.racks.policies.svc.corp.example", Some("policies")),
            ("racks", None),
            ("localhost", None),
            ("racks.example.com", None),
            ("svc.policies", Some("policies")),
            ("10.0.0.1", None),
            ("::1", None),
        ] {
            assert_eq!(namespace(host), expected, "{host}");
        }
    }

    #[test]
    fn a_backend_that_its_own_namespace_depends_on_locks_it_out() {
        for (settings, lines, expected) in [
            ("filter: {}", "", true),
            ("score: {}", "", false),
            ("filter: {failurePolicy: Ignore}", "", false),
            ("filter: {}, mode: Shadow", "", false),
            ("filter: {}, mode: Disabled", "", false),
            ("bind: {}", "binder: BuiltIn", true),
            ("bind: {failurePolicy: Next}", "binder: BuiltIn", false),
            ("filter: {}", "exempt: {namespaces: [policies]}", false),
            ("filter: {}", "exempt: {namespaces: []}", true),
            ("filter: {}, match: {excludedNamespaces: [policies]}", "", false),
            ("filter: {}, match: {namespaces: [shop]}", "", false),
            ("filter: {}, match: {namespaces: [policies]}", "", true),
            ("filter: {}, match: {podSelector: {matchLabels: {tier: batch}}}", "", false),
            ("filter: {}, match: {managedResources: [{name: example.com/gpu}]}", "", false),
        ] {
            let yaml =
                format!("- {{name: racks, url: 'http://racks.policies.svc:9000', {settings}}}\n{lines}\n");
            let config = samples::config(&yaml);
            let found = config.locked_out(&config.backends[0], &default_exempt(None));
            assert_eq!(found, expected.then_some("policies"), "{yaml}");
        }
        let config = samples::config(
            "- {name: racks, url: 'http://racks.policies:9000', filter: {}, bind: {}}\nbinder: BuiltIn\n",
        );
        assert_eq!(
            lockout_remedy(&config.backends[0], "policies"),
            "add policies to exempt.namespaces, or set filter.failurePolicy: Ignore and bind.failurePolicy: Next"
        );
        let own = default_exempt(Some("policies".to_owned()));
        assert_eq!(config.locked_out(&config.backends[0], &own), None, "the gateway's own namespace");
    }
}
