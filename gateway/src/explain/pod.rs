//! The pod in the apiserver, as far as an explanation uses it.

use jiff::Timestamp;
use serde::Serialize;

/// How many similar names are shown.
const MAX_SIMILAR: usize = 3;
/// The least similarity of names (Jaro-Winkler, 1 for equal names): names that differ only in a generated suffix
/// are less similar.
const MIN_SIMILARITY: f64 = 0.85;

/// The pod, and the node of `--node`.
#[derive(Debug, Serialize)]
pub(crate) struct ExplainedPod {
    pub(crate) namespace: String,
    pub(crate) name: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<String>,
    /// The workload whose oldest waiting pod this is; `None` if the pod was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) waiting: Option<WaitingPods>,
}

/// The pods of a workload that wait for a node.
#[derive(Debug, Serialize)]
pub(crate) struct WaitingPods {
    /// As `deployment/NAME`.
    pub(crate) workload: String,
    /// The names of the pods, the oldest first; at least one.
    pub(crate) names: Vec<String>,
}

/// The answers of the apiserver.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ClusterView {
    pub(crate) pod: PodState,
    /// The number of nodes; `None` if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) cluster_nodes: Option<u64>,
    /// Whether the node of `--node` exists; `None` without that option, or if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) node_exists: Option<bool>,
}

/// The pod in the apiserver.
#[derive(Debug, Serialize)]
#[serde(tag = "state")]
pub(crate) enum PodState {
    /// The apiserver was not queried, or did not answer.
    NotAsked { why: String },
    /// The pod is from a file, and was tried without a cluster.
    Simulated { file: String },
    /// There is no pod with this name.
    Gone {
        /// Pods in the namespace with similar names.
        near: Vec<String>,
        /// Namespaces that have a pod with this name.
        elsewhere: Vec<String>,
    },
    /// The pod exists.
    There(Box<PodFacts>),
}

/// The pod's data in the apiserver.
#[derive(Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct PodFacts {
    pub(crate) uid: String,
    /// `metadata.creationTimestamp`.
    pub(crate) created: Timestamp,
    pub(crate) scheduler_name: String,
    /// `spec.nodeName`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) node: Option<String>,
    /// Whether it was created with `spec.nodeName`, so that no scheduler decided.
    pub(crate) created_with_node: bool,
    /// `status.nominatedNodeName`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) nominated_node: Option<String>,
    pub(crate) phase: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) scheduled: Option<ShownCondition>,
}

/// A condition `PodScheduled`.
#[derive(Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct ShownCondition {
    /// `True` or `False`.
    pub(crate) status: String,
    /// Such as `Unschedulable`, `SchedulerError` or `SchedulingGated`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) reason: String,
    #[serde(skip_serializing_if = "String::is_empty")]
    pub(crate) message: String,
    /// When the scheduler last changed the condition; `None` if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) time: Option<Timestamp>,
}

impl ClusterView {
    /// Without the apiserver, for this reason.
    pub(crate) fn not_queried(why: &str) -> Self {
        let pod = PodState::NotAsked { why: why.to_owned() };
        Self { pod, cluster_nodes: None, node_exists: None }
    }

    /// For a pod of this file, which was tried without a cluster.
    pub(crate) fn simulated(file: &str) -> Self {
        let pod = PodState::Simulated { file: file.to_owned() };
        Self { pod, cluster_nodes: None, node_exists: None }
    }

    /// Whether the pod was tried without a cluster.
    pub(crate) fn is_simulation(&self) -> bool {
        matches!(self.pod, PodState::Simulated { .. })
    }
}

impl PodState {
    /// The pod's data, if it exists.
    pub(crate) fn facts(&self) -> Option<&PodFacts> {
        match self {
            Self::There(facts) => Some(facts),
            Self::NotAsked { .. } | Self::Simulated { .. } | Self::Gone { .. } => None,
        }
    }
}

/// The names similar to this one, the most similar first.
pub(crate) fn similar(name: &str, mut names: Vec<String>) -> Vec<String> {
    let similarity = |other: &String| strsim::jaro_winkler(name, other);
    names.retain(|other| similarity(other) >= MIN_SIMILARITY);
    names.sort_by(|a, b| similarity(b).total_cmp(&similarity(a)).then_with(|| a.cmp(b)));
    names.truncate(MAX_SIMILAR);
    names
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn near_names_are_found() {
        let names = || ["web-0", "web-1", "web-7d4b9c-x2x8k", "db-0"].map(str::to_owned).to_vec();
        assert_eq!(similar("web-2", names()), ["web-0", "web-1"]);
        assert_eq!(similar("web-7d4b9c-zzzzz", names()), ["web-7d4b9c-x2x8k"]);
        assert_eq!(similar("cache", names()), [""; 0]);
    }
}
