//! The evidence about a pod, before it is rendered.

use jiff::Timestamp;
use serde::Serialize;

use super::{
    attempt::{AttemptCall, SchedulingAttempt},
    cluster::ClusterView,
    pod::{PodFacts, PodState},
};
use crate::{
    api::{API_VERSION, DecisionList, LogState, Status},
    cli::admin::{Away, Gathered},
};

/// The pod, and the node in question.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct ExplainedPod {
    /// `metadata.namespace`.
    pub(super) namespace: String,
    /// `metadata.name`.
    pub(super) name: String,
    /// The node of `--node`.
    pub(super) node: Option<String>,
}

/// The known facts. In JSON, these are the fields of an `Explanation` before its notes.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Evidence {
    pub(super) api_version: &'static str,
    pub(super) kind: &'static str,
    /// When the data was queried.
    pub(super) time: Timestamp,
    pub(super) namespace: String,
    pub(super) name: String,
    /// The node of `--node`.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) node: Option<String>,
    /// The UID of the pod of these attempts.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) uid: Option<String>,
    /// The pod's state in the apiserver.
    pub(super) pod: PodState,
    /// The number of nodes in the cluster.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) cluster_nodes: Option<u64>,
    /// Whether the node of `--node` exists.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(super) node_exists: Option<bool>,
    /// The gateways that answered.
    pub(super) gateways: Vec<Replica>,
    /// The gateways that did not answer.
    pub(super) away: Vec<Away>,
    /// The number of calls about earlier pods with this name.
    pub(super) calls_about_others: usize,
    /// The attempts, the newest first.
    pub(super) attempts: Vec<SchedulingAttempt>,
}

/// A gateway that answered.
#[derive(Debug, Clone, PartialEq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct Replica {
    /// Its host name, which is its pod's.
    pub(super) name: String,
    /// Its decision log.
    pub(super) log: LogState,
    /// It has more calls about the pod than were requested.
    pub(super) truncated: bool,
}

impl Evidence {
    /// Combines the answers of the apiserver and the gateways.
    pub(super) fn new(
        subject: ExplainedPod,
        cluster: ClusterView,
        decisions: Gathered<DecisionList>,
        statuses: &[Status],
        now: Timestamp,
    ) -> Self {
        let (gateways, calls): (Vec<_>, Vec<_>) = decisions.answers.into_iter().map(replica).unzip();
        let calls: Vec<AttemptCall> = calls.into_iter().flatten().collect();
        let uid = living(&cluster.standing).map(|pod| pod.uid.clone()).or_else(|| latest(&calls));
        let (calls, others): (Vec<_>, Vec<_>) =
            calls.into_iter().partition(|call| Some(&call.decision.pod.uid) == uid.as_ref());
        Self {
            api_version: API_VERSION,
            kind: "Explanation",
            time: now,
            namespace: subject.namespace,
            name: subject.name,
            node: subject.node,
            uid,
            pod: cluster.standing,
            cluster_nodes: cluster.nodes.or_else(|| watched(statuses)),
            node_exists: cluster.node_exists,
            gateways,
            away: decisions.away,
            calls_about_others: others.len(),
            attempts: SchedulingAttempt::of_calls(calls),
        }
    }

    /// The pod, if it exists.
    pub(super) fn pod(&self) -> Option<&PodFacts> {
        living(&self.pod)
    }

    /// The latest attempt.
    pub(super) fn latest(&self) -> Option<&SchedulingAttempt> {
        self.attempts.first()
    }

    /// The pod's node, or the node that it was bound to before it was deleted.
    pub(super) fn place(&self) -> Option<&str> {
        match self.pod() {
            Some(pod) => pod.node.as_deref(),
            None => self.latest()?.bound(),
        }
    }

    /// Whether there is no data about the pod.
    pub(super) fn is_unknown(&self) -> bool {
        self.pod().is_none() && self.attempts.is_empty()
    }
}

fn living(standing: &PodState) -> Option<&PodFacts> {
    match standing {
        PodState::There(pod) => Some(pod),
        PodState::NotAsked { .. } | PodState::Gone { .. } => None,
    }
}

fn latest(calls: &[AttemptCall]) -> Option<String> {
    calls.iter().max_by_key(|call| call.decision.time).map(|call| call.decision.pod.uid.clone())
}

fn replica(list: DecisionList) -> (Replica, Vec<AttemptCall>) {
    let DecisionList { gateway, log, truncated, items, .. } = list;
    let of_it = |decision| AttemptCall { gateway: gateway.clone(), decision };
    let calls = items.into_iter().map(of_it).collect();
    (Replica { name: gateway, log, truncated }, calls)
}

/// The number of nodes that the gateways know from a watch or a file, which is all nodes.
fn watched(statuses: &[Status]) -> Option<u64> {
    let whole = |source: &str| matches!(source, "Watch" | "File");
    let tables = statuses.iter().map(|status| &status.nodes);
    tables.filter(|table| table.synced && whole(&table.source)).map(|table| table.count).max()
}
