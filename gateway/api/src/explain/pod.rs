//! The pod in the apiserver, as far as an explanation uses it.

use jiff::Timestamp;
use serde::Serialize;

use super::group::ExplainedGroup;

/// How many similar names are shown.
const MAX_SIMILAR: usize = 3;
/// The least similarity of names (Jaro-Winkler, 1 for equal names): names that differ only in a generated suffix
/// are less similar.
const MIN_SIMILARITY: f64 = 0.85;

/// The pod, and the node of `--node`.
#[derive(Debug, Serialize)]
pub struct ExplainedPod {
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// The node of `--node`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// The workload whose oldest waiting pod this is; `None` if the pod was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub waiting: Option<WaitingPods>,
    /// The pod group of which this is the first pod; `None` if the pod or a workload was named.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub group: Option<ExplainedGroup>,
}

/// The pods of a workload that wait for a node.
#[derive(Debug, Serialize)]
pub struct WaitingPods {
    /// As `deployment/NAME`.
    pub workload: String,
    /// The names of the pods, the oldest first; at least one.
    pub names: Vec<String>,
}

/// The answers of the apiserver.
#[derive(Debug, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ClusterView {
    /// The pod.
    pub pod: PodState,
    /// The number of nodes; `None` if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub cluster_nodes: Option<u64>,
    /// Whether the node of `--node` exists; `None` without that option, or if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node_exists: Option<bool>,
}

/// The pod in the apiserver.
#[derive(Debug, Serialize)]
#[serde(tag = "state")]
pub enum PodState {
    /// The apiserver was not queried, or did not answer.
    NotAsked {
        /// The cause.
        why: String,
    },
    /// The pod is from a file, and was tried without a cluster.
    Simulated {
        /// Its path.
        file: String,
    },
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
pub struct PodFacts {
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.creationTimestamp`.
    pub created: Timestamp,
    /// `spec.schedulerName`.
    pub scheduler_name: String,
    /// `spec.nodeName`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub node: Option<String>,
    /// Whether it was created with `spec.nodeName`, so that no scheduler decided.
    pub created_with_node: bool,
    /// `status.nominatedNodeName`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub nominated_node: Option<String>,
    /// `status.phase`.
    pub phase: String,
    /// The condition `PodScheduled`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub scheduled: Option<ShownCondition>,
}

/// A condition `PodScheduled`.
#[derive(Debug, Default, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct ShownCondition {
    /// `True` or `False`.
    pub status: String,
    /// Such as `Unschedulable`, `SchedulerError` or `SchedulingGated`.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub reason: String,
    /// The sentence of it.
    #[serde(skip_serializing_if = "String::is_empty")]
    pub message: String,
    /// When the scheduler last changed the condition; `None` if unknown.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub time: Option<Timestamp>,
}

impl ClusterView {
    /// Without the apiserver, for this reason.
    pub fn not_queried(why: &str) -> Self {
        let pod = PodState::NotAsked { why: why.to_owned() };
        Self { pod, cluster_nodes: None, node_exists: None }
    }

    /// For a pod of this file, which was tried without a cluster.
    pub fn simulated(file: &str) -> Self {
        let pod = PodState::Simulated { file: file.to_owned() };
        Self { pod, cluster_nodes: None, node_exists: None }
    }

    /// Whether the pod was tried without a cluster.
    pub fn is_simulation(&self) -> bool {
        matches!(self.pod, PodState::Simulated { .. })
    }
}

impl PodState {
    /// The pod's data, if it exists.
    pub fn facts(&self) -> Option<&PodFacts> {
        match self {
            Self::There(facts) => Some(facts),
            Self::NotAsked { .. } | Self::Simulated { .. } | Self::Gone { .. } => None,
        }
    }
}

/// The names similar to this one, the most similar first.
pub fn similar(name: &str, mut names: Vec<String>) -> Vec<String> {
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
