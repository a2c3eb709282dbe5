//! The pods for which a backend is called.
//!
//! All conditions of a [`Interest`] must hold; one without conditions matches every pod.

use std::collections::BTreeSet;

/// The properties of a pod that conditions refer to.
pub trait Subject {
    /// `metadata.namespace`.
    fn namespace(&self) -> &str;
    /// The value of a label; `None` when the pod does not have it.
    fn label(&self, key: &str) -> Option<&str>;
    /// Whether a container or init container has the resource in its requests or limits, with any amount.
    fn names_resource(&self, name: &str) -> bool;
}

/// The conditions of one backend.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Interest {
    /// Resources of which the pod must request at least one; empty for no such condition. Mirrors
    /// `HTTPExtender.IsInterested` of kube-scheduler.
    pub resources: Vec<String>,
    /// The namespace condition.
    pub namespaces: Namespaces,
    /// The label conditions; all must hold.
    pub selector: Vec<Requirement>,
}

/// A condition on the pod's namespace.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub enum Namespaces {
    /// Any.
    #[default]
    All,
    /// One of these.
    Only(BTreeSet<String>),
    /// None of these.
    Except(BTreeSet<String>),
}

/// A condition on one label. Mirrors `labels.Requirement` of k8s.io/apimachinery, as
/// `metav1.LabelSelectorAsSelector` makes it of `matchLabels` and `matchExpressions`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Requirement {
    /// The label.
    pub key: String,
    /// The condition.
    pub operator: Operator,
}

/// A condition on the value of a label.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Operator {
    /// It exists and has one of these values.
    In(BTreeSet<String>),
    /// It does not exist, or has none of these values.
    NotIn(BTreeSet<String>),
    /// It exists.
    Exists,
    /// It does not exist.
    DoesNotExist,
}

impl Interest {
    /// Whether the backend is called for this pod.
    pub fn covers(&self, pod: &impl Subject) -> bool {
        self.namespaces.contain(pod.namespace())
            && self.selector.iter().all(|requirement| requirement.holds(pod))
            && (self.resources.is_empty() || self.resources.iter().any(|name| pod.names_resource(name)))
    }
}

impl Namespaces {
    /// Whether the backend is called for pods of this namespace.
    pub fn contain(&self, namespace: &str) -> bool {
        match self {
            Self::All => true,
            Self::Only(names) => names.contains(namespace),
            Self::Except(names) => !names.contains(namespace),
        }
    }
}

impl Requirement {
    fn holds(&self, pod: &impl Subject) -> bool {
        let value = pod.label(&self.key);
        match &self.operator {
            Operator::In(values) => value.is_some_and(|value| values.contains(value)),
            Operator::NotIn(values) => value.is_none_or(|value| !values.contains(value)),
            Operator::Exists => value.is_some(),
            Operator::DoesNotExist => value.is_none(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    struct Pod {
        namespace: &'static str,
        labels: &'static [(&'static str, &'static str)],
        resources: &'static [&'static str],
    }

    impl Subject for Pod {
        fn namespace(&self) -> &str {
            self.namespace
        }

        fn label(&self, key: &str) -> Option<&str> {
            self.labels.iter().find(|(known, _)| *known == key).map(|(_, value)| *value)
        }

        fn names_resource(&self, name: &str) -> bool {
            self.resources.contains(&name)
        }
    }

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|&name| name.to_owned()).collect()
    }

    const POD: Pod = Pod {
        namespace: "shop",
        labels: &[("tier", "batch"), ("team", "")],
        resources: &["cpu", "example.com/gpu"],
    };

    #[test]
    fn without_conditions_every_pod_is_covered() {
        assert!(Interest::default().covers(&POD));
    }

    #[test]
    fn one_managed_resource_is_enough() {
        for (resources, covered) in
            [(&["example.com/gpu", "x"][..], true), (&["x"], false), (&["example.com/GPU"], false)]
        {
            let resources = resources.iter().map(|&name| name.to_owned()).collect();
            assert_eq!(Interest { resources, ..Interest::default() }.covers(&POD), covered);
        }
    }

    #[test]
    fn namespaces_are_named_or_excluded() {
        for (namespaces, covered) in [
            (Namespaces::Only(names(&["shop"])), true),
            (Namespaces::Only(names(&["search"])), false),
            (Namespaces::Except(names(&["shop"])), false),
            (Namespaces::Except(names(&["search"])), true),
        ] {
            assert_eq!(Interest { namespaces, ..Interest::default() }.covers(&POD), covered);
        }
    }

    #[test]
    fn labels_are_compared_as_in_kubernetes() {
        for (key, operator, covered) in [
            ("tier", Operator::In(names(&["batch", "web"])), true),
            ("tier", Operator::In(names(&["web"])), false),
            ("none", Operator::In(names(&["", "web"])), false),
            ("tier", Operator::NotIn(names(&["batch"])), false),
            ("tier", Operator::NotIn(names(&["web"])), true),
            ("none", Operator::NotIn(names(&["web"])), true),
            ("team", Operator::Exists, true),
            ("none", Operator::Exists, false),
            ("team", Operator::DoesNotExist, false),
            ("none", Operator::DoesNotExist, true),
        ] {
            let requirement = Requirement { key: key.to_owned(), operator: operator.clone() };
            let interest = Interest { selector: vec![requirement], ..Interest::default() };
            assert_eq!(interest.covers(&POD), covered, "{key} {operator:?}");
        }
    }

    #[test]
    fn all_conditions_must_hold() {
        let interest = Interest {
            resources: vec!["example.com/gpu".to_owned()],
            namespaces: Namespaces::Only(names(&["shop"])),
            selector: vec![Requirement { key: "tier".to_owned(), operator: Operator::Exists }],
        };
        assert!(interest.covers(&POD));
        assert!(!interest.covers(&Pod { namespace: "search", ..POD }));
        assert!(!interest.covers(&Pod { labels: &[], ..POD }));
        assert!(!interest.covers(&Pod { resources: &["cpu"], ..POD }));
    }
}
