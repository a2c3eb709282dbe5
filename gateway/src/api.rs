//! What the admin address says, as JSON: the types of `GET /debug/decisions` and `GET /debug/status`, for who writes
//! it and for who reads it.
//!
//! Names of fields are camelCase, what is unknown is left out, times are RFC 3339, durations are seconds. Fields are
//! only ever added.

mod decision;
mod status;

pub use crate::api::{
    decision::{
        BackendFailed, BackendPart, Decision, DecisionList, LogState, NodeForm, NodePart, NodeVerdict, PodRef,
    },
    status::{
        BackendStatus, BackendVerb, ConfigurationStatus, Handshake, LastCall, Problem, Severity, Status,
        TableStatus, VerbFailure, VerbStatus,
    },
};

/// The version of these types: the `apiVersion` of every answer.
pub const API_VERSION: &str = "extender-gateway.io/v1alpha1";
