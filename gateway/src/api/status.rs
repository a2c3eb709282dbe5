//! `GET /debug/status`: how the gateway and its backends are, and what is to be done.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::api::{LogState, NodeForm};

/// How a gateway is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Status {
    /// [`super::API_VERSION`].
    pub api_version: String,
    /// `Status`.
    pub kind: String,
    /// The replica that answers.
    pub gateway: String,
    /// The program's version.
    pub version: String,
    /// When it was started.
    pub started: Timestamp,
    /// Whether it wants calls, as `/readyz` says.
    pub ready: bool,
    /// The configuration in use.
    pub configuration: ConfigurationStatus,
    /// The four verbs.
    pub verbs: Vec<VerbStatus>,
    /// The configured backends, in the order in which their answers count; disabled ones last.
    pub backends: Vec<BackendStatus>,
    /// The nodes that the gateway knows.
    pub nodes: TableStatus,
    /// The pods that it knows; `None` where pods are not watched.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub pods: Option<TableStatus>,
    /// The decision log.
    pub log: LogState,
    /// What became of the spans, in words; `None` where none are made.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub traces: Option<String>,
    /// What is wrong, the worst first.
    pub problems: Vec<Problem>,
}

/// The configuration in use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct ConfigurationStatus {
    /// The file.
    pub file: String,
    /// Counted from 1 at the start.
    pub generation: u64,
    /// Replicas that have the same here have the same settings; nothing else follows from it.
    #[serde(default)]
    pub digest: String,
    /// Since when it is in use.
    pub loaded: Timestamp,
    /// The latest change that was refused, where none was accepted since.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub refused: Option<VerbFailure>,
}

/// A change of the configuration that is not in use.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VerbFailure {
    /// When it was refused.
    pub time: Timestamp,
    /// Why.
    pub message: String,
}

/// How calls of a verb are.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct VerbStatus {
    /// `filter`, `prioritize`, `preempt` or `bind`.
    pub verb: String,
    /// Calls since the start.
    pub calls: u64,
    /// How many of them ended with an error.
    pub failed: u64,
    /// The time that the median of the latest calls took, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median_seconds: Option<f64>,
    /// The time that 99 of 100 of the latest calls kept, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_seconds: Option<f64>,
    /// The latest call.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last: Option<LastCall>,
}

/// The latest call of a verb.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct LastCall {
    /// When it came.
    pub time: Timestamp,
    /// In which form nodes came.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub node_form: Option<NodeForm>,
    /// How many there were.
    pub nodes: u32,
    /// As [`super::Decision::outcome`].
    pub outcome: String,
}

/// How a backend is.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendStatus {
    /// Its configured name.
    pub name: String,
    /// Where it is.
    pub url: String,
    /// `Enforce`, `Shadow` or `Disabled`.
    pub mode: String,
    /// Whether there is a connection whose handshake succeeded.
    pub connected: bool,
    /// Why not.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub failure: Option<String>,
    /// What it said of itself.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub handshake: Option<Handshake>,
    /// The verbs that it is asked for.
    pub verbs: Vec<BackendVerb>,
}

/// What a backend says of itself.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Handshake {
    /// What it calls itself.
    pub name: String,
    /// Its version; empty when unknown.
    pub version: String,
    /// Its revision; empty when unknown.
    pub revision: String,
    /// Whether it keeps the nodes, so that calls name them by number.
    pub holds_nodes: bool,
}

/// How a backend is asked for one verb.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct BackendVerb {
    /// `filter`, `score`, `preempt` or `bind`.
    pub verb: String,
    /// Why it cannot be asked for this verb, as its handshake says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub unsuitable: Option<String>,
    /// How often it was asked since the start.
    pub calls: u64,
    /// How often it failed.
    pub failures: u64,
    /// How many of the latest calls, at most 256, failed.
    pub failed_lately: u32,
    /// How many those are.
    pub lately: u32,
    /// The time that the median of the latest calls took, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub median_seconds: Option<f64>,
    /// The time that 99 of 100 of the latest calls kept, in seconds.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub p99_seconds: Option<f64>,
    /// Which share of the nodes of the latest filter calls it rejected, from 0 to 1.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub rejected_share: Option<f64>,
    /// The latest failure, as it was said.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub last_failure: Option<VerbFailure>,
}

/// What the gateway knows of nodes or pods.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct TableStatus {
    /// `Watch`, `File`, `Request` or `NamesOnly`.
    pub source: String,
    /// How many there are.
    pub count: u64,
    /// Whether they have been listed once.
    pub synced: bool,
    /// When the source was last heard of, in seconds before now; `None` where it cannot say.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub silent_seconds: Option<f64>,
}

/// Something that is wrong.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct Problem {
    /// How bad it is.
    pub severity: Severity,
    /// What it is about, such as `backend zones`.
    pub about: String,
    /// What is so.
    pub what: String,
    /// What is to be done.
    pub remedy: String,
}

/// How bad a problem is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub enum Severity {
    /// Pods may not be scheduled.
    Error,
    /// Something does not work as it is configured.
    Warning,
}
