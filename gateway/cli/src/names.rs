//! Kubernetes names on the command line. Accepted names need no escaping in a URL.

use std::fmt;

use extender_config::names::{is_dns_label, is_dns_subdomain};

/// What `explain` is about.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) enum Subject {
    /// A pod of this name.
    Pod(String),
    /// A pod of this workload that waits for a node.
    Workload(Workload),
    /// The pods of the `PodGroup` of this name.
    Group(String),
}

/// A workload of this kind and name. Displayed as `deployment/NAME`.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Workload {
    pub(super) kind: WorkloadKind,
    pub(super) name: String,
}

/// The kinds of workloads whose pods are known by their owners.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum WorkloadKind {
    Deployment,
    ReplicaSet,
    StatefulSet,
    DaemonSet,
    Job,
}

impl WorkloadKind {
    /// The kind as in `ownerReferences`.
    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::Deployment => "Deployment",
            Self::ReplicaSet => "ReplicaSet",
            Self::StatefulSet => "StatefulSet",
            Self::DaemonSet => "DaemonSet",
            Self::Job => "Job",
        }
    }

    /// The kind of a resource name as kubectl accepts it.
    fn of(resource: &str) -> Option<Self> {
        Some(match resource {
            "deployment" | "deployments" | "deploy" | "deployment.apps" => Self::Deployment,
            "replicaset" | "replicasets" | "rs" | "replicaset.apps" => Self::ReplicaSet,
            "statefulset" | "statefulsets" | "sts" | "statefulset.apps" => Self::StatefulSet,
            "daemonset" | "daemonsets" | "ds" | "daemonset.apps" => Self::DaemonSet,
            "job" | "jobs" | "job.batch" => Self::Job,
            _ => return None,
        })
    }
}

impl fmt::Display for Workload {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.kind.as_str().to_ascii_lowercase(), self.name)
    }
}

/// Parses the subject of `explain`: `pod/NAME`, `pods/NAME`, `po/NAME` or `NAME`, or a workload as
/// `deployment/NAME` or `podgroup/NAME`.
pub(super) fn subject(text: &str) -> Result<Subject, String> {
    let (resource, name) = text.split_once('/').unwrap_or(("pod", text));
    let owned = name.to_owned();
    let (subject, what) = match resource {
        "pod" | "pods" | "po" => (Subject::Pod(owned), "pod"),
        "podgroup" | "podgroups" | "podgroup.scheduling.k8s.io" => (Subject::Group(owned), "PodGroup"),
        _ => {
            let kind = WorkloadKind::of(resource).ok_or_else(|| {
                format!(
                    "{resource:?} is neither a pod nor a workload; expected pod/{name}, with the namespace in -n, or deployment, \
                     replicaset, statefulset, daemonset, job or podgroup"
                )
            })?;
            (Subject::Workload(Workload { kind, name: owned }), kind.as_str())
        }
    };
    if is_dns_subdomain(name) {
        return Ok(subject);
    }
    let singular = what.to_ascii_lowercase();
    Err(format!(
        "{name:?} is not the name of a {what}; expected {singular}/NAME as in `kubectl get {singular}s`"
    ))
}

/// Parses the name of a node. Mirrors `ValidateNodeName` of Kubernetes.
pub(super) fn node(text: &str) -> Result<String, String> {
    named(text.strip_prefix("node/").unwrap_or(text), is_dns_subdomain, "node")
}

/// Parses the name of a namespace. Mirrors `ValidateNamespaceName` of Kubernetes.
pub(super) fn namespace(text: &str) -> Result<String, String> {
    named(text, is_dns_label, "namespace")
}

fn named(name: &str, is_name: fn(&str) -> bool, what: &str) -> Result<String, String> {
    let wrong =
        || format!("{name:?} is not the name of a {what}; expected a name as in `kubectl get {what}s`");
    is_name(name).then(|| name.to_owned()).ok_or_else(wrong)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nodes_and_namespaces() {
        assert_eq!(node("node/a.b-1").as_deref(), Ok("a.b-1"));
        assert!(
            node("a_b").unwrap_err().starts_with("\"a_b\" is not the name of a node; expected a name as")
        );
        assert_eq!(namespace("shop").as_deref(), Ok("shop"));
        for text in ["a.b", "", "Shop", "a&b"] {
            let told = namespace(text).unwrap_err();
            assert!(
                told.ends_with(
                    "is not the name of a namespace; expected a name as in `kubectl get namespaces`"
                ),
                "{told}"
            );
        }
    }

    #[test]
    fn pods() {
        for text in ["pod/web-0", "pods/web-0", "po/web-0", "web-0"] {
            assert_eq!(subject(text), Ok(Subject::Pod("web-0".to_owned())), "{text}");
        }
        for text in ["podgroup/train", "podgroups/train", "podgroup.scheduling.k8s.io/train"] {
            assert_eq!(subject(text), Ok(Subject::Group("train".to_owned())), "{text}");
        }
        let neither = "is neither a pod nor a workload; expected pod/web-0, with the namespace in -n, or deployment, replicaset, statefulset, \
                       daemonset, job or podgroup";
        for (text, wrong) in [
            ("shop/web-0", format!("\"shop\" {neither}")),
            ("pod/", "\"\" is not the name of a pod; expected pod/NAME as in `kubectl get pods`".to_owned()),
            ("pod/a/b", "\"a/b\" is not the name of a pod; expected pod/NAME as in `kubectl get pods`".to_owned()),
            ("Web", "\"Web\" is not the name of a pod; expected pod/NAME as in `kubectl get pods`".to_owned()),
            (
                "web?limit=1",
                "\"web?limit=1\" is not the name of a pod; expected pod/NAME as in `kubectl get pods`".to_owned(),
            ),
            (
                "deploy/Web",
                "\"Web\" is not the name of a Deployment; expected deployment/NAME as in `kubectl get deployments`"
                    .to_owned(),
            ),
            (
                "podgroup/",
                "\"\" is not the name of a PodGroup; expected podgroup/NAME as in `kubectl get podgroups`".to_owned(),
            ),
        ] {
            assert_eq!(subject(text), Err(wrong), "{text}");
        }
    }

    #[test]
    fn workloads() {
        for (text, expected) in [
            ("deploy/web", "deployment/web"),
            ("deployments/web", "deployment/web"),
            ("rs/web-7d9", "replicaset/web-7d9"),
            ("statefulset/db", "statefulset/db"),
            ("ds/logs", "daemonset/logs"),
            ("job/once", "job/once"),
        ] {
            let Ok(Subject::Workload(workload)) = subject(text) else { panic!("{text}") };
            assert_eq!(workload.to_string(), expected);
        }
    }
}
