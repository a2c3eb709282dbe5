//! `GET /debug/pods` and `GET /debug/history`: overviews of the decision log.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{LogList, LogState, PodRef};

/// Pods, the one with the latest call first.
pub type PodList = LogList<PodSummary>;

/// A pod in the decision log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct PodSummary {
    /// The pod.
    pub pod: PodRef,
    /// The number of its calls in the log.
    pub calls: u32,
    /// When the latest one was received.
    pub time: Timestamp,
    /// The verb of the latest call.
    pub verb: String,
    /// Its result, as [`super::Decision::outcome`].
    pub outcome: String,
    /// The number of nodes that the latest filter call offered; `None` if the log has no filter call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub offered: Option<u32>,
    /// The number of nodes that the latest filter call left; `None` if it ended with an error.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub left: Option<u32>,
    /// Whether its latest calls found no node.
    #[serde(default)]
    pub waits: bool,
}

/// Calls and the answers of each backend over time, from the calls that are in the decision log.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct History {
    /// [`super::API_VERSION`].
    pub api_version: String,
    /// `History`.
    pub kind: String,
    /// The replica that responds.
    pub gateway: String,
    /// The state of the decision log.
    pub log: LogState,
    /// The begin of the first bucket.
    pub since: Timestamp,
    /// The length of a bucket, in seconds.
    pub bucket_seconds: f64,
    /// The verbs that were called.
    #[serde(default)]
    pub verbs: Vec<VerbHistory>,
    /// The backends that had a part, by name.
    pub backends: Vec<BackendHistory>,
}

/// The calls of one verb over time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VerbHistory {
    /// `filter`, `prioritize`, `preempt` or `bind`.
    pub verb: String,
    /// The buckets, the oldest first; the last one is not over.
    pub buckets: Vec<CallBucket>,
}

/// The calls of one verb in one bucket. Fields that are 0 are omitted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct CallBucket {
    /// Their number.
    #[serde(skip_serializing_if = "is_zero")]
    pub calls: u64,
    /// The number of those that ended with an error.
    #[serde(skip_serializing_if = "is_zero")]
    pub failed: u64,
    /// The median of their durations, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub median_seconds: Option<f64>,
    /// The 99th percentile of their durations, in seconds.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_seconds: Option<f64>,
}

/// The answers of one backend over time.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendHistory {
    /// Its configured name.
    pub name: String,
    /// `Enforce` or `Shadow`.
    pub mode: String,
    /// The buckets, the oldest first; the last one is not over.
    pub buckets: Vec<HistoryBucket>,
}

/// The answers of one backend in one bucket. Fields that are 0 are omitted.
#[derive(Debug, Clone, Default, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", default)]
pub struct HistoryBucket {
    /// Its answers to filter.
    #[serde(skip_serializing_if = "is_zero")]
    pub answers: u64,
    /// The nodes of these answers, cached ones included.
    #[serde(skip_serializing_if = "is_zero")]
    pub nodes: u64,
    /// The number of those that it rejected, whether that counted or not.
    #[serde(skip_serializing_if = "is_zero")]
    pub rejected: u64,
    /// Its failures, in all verbs.
    #[serde(skip_serializing_if = "is_zero")]
    pub failed: u64,
    /// In shadow: answers that would not have changed the decision, in all verbs.
    #[serde(skip_serializing_if = "is_zero")]
    pub agreed: u64,
    /// In shadow: answers that would have changed it.
    #[serde(skip_serializing_if = "is_zero")]
    pub disagreed: u64,
    /// The 99th percentile of the time for which calls waited for it, in seconds. Cached answers take none.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub p99_seconds: Option<f64>,
}

#[allow(clippy::trivially_copy_pass_by_ref, reason = "serde requires a reference")]
fn is_zero(number: &u64) -> bool {
    *number == 0
}
