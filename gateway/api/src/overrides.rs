//! `/debug/overrides`: the modes that replace those of the configuration for a while.

use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use crate::{LogState, UntriedPods};

/// The body of `POST /debug/overrides`.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase", deny_unknown_fields)]
pub struct OverrideRequest {
    /// The backend; `None` with `all`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// Whether it is about all backends that have no override of their own.
    #[serde(default)]
    pub all: bool,
    /// What to do.
    pub action: OverrideAction,
    /// For how long, such as `30m`. Required unless the action is `reset`.
    #[serde(default, rename = "for", skip_serializing_if = "Option::is_none")]
    pub time: Option<String>,
    /// Why. Required unless the action is `reset`.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub reason: Option<String>,
}

/// What to do with the mode of a backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize, clap::ValueEnum)]
#[serde(rename_all = "camelCase")]
pub enum OverrideAction {
    /// Call it in the background: its answers are recorded and do not count
    Shadow,
    /// Do not call it
    Disable,
    /// Let its answers count, for all pods that it matches
    Enforce,
    /// End the override: the configured mode applies
    Reset,
}

/// The overrides of a gateway.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OverrideList {
    /// [`super::API_VERSION`].
    pub api_version: String,
    /// `OverrideList`.
    pub kind: String,
    /// The replica that responds.
    pub gateway: String,
    /// Its decision log.
    pub log: LogState,
    /// The pods that wait although what held them has changed; `None` if there are none.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub untried: Option<UntriedPods>,
    /// The overrides that have not ended.
    pub items: Vec<OverrideStatus>,
}

/// A mode in place of the configured one.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "camelCase")]
pub struct OverrideStatus {
    /// The backend; `None`: all that have no override of their own.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub backend: Option<String>,
    /// `Enforce`, `Shadow` or `Disabled`.
    pub mode: String,
    /// When it began.
    pub since: Timestamp,
    /// When it ends by itself.
    pub ends: Timestamp,
    /// Why.
    pub reason: String,
    /// Who has set it: a user and an address, or `maxRejectShare`.
    #[serde(default)]
    pub by: String,
}
