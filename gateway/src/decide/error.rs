//! The errors that end a call without a decision.

use std::fmt;

use extender_gateway_core::{BackendFailure, Verb};

use super::BindError;
use crate::{object::ObjectError, wire::WireError};

/// Why a call has no decision. Displayed as the response to the caller, on one line.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum CallError {
    /// The body cannot be parsed.
    Request(String),
    /// A backend failed whose failure policy is Fail.
    Backend {
        /// Its configured name.
        name: String,
        /// The verb.
        verb: Verb,
        /// The failure.
        failure: BackendFailure,
    },
    /// No node is left, and some were rejected because the gateway does not know them yet.
    NotYetKnown {
        /// The number of unknown nodes.
        nodes: u32,
    },
    /// The pod was rejected on all nodes too often in a short time.
    Repeated {
        /// One of the reasons.
        reason: String,
    },
    /// The pod is not bound, or its state is unknown.
    Bind(BindError),
}

impl CallError {
    /// The kind as a metric label: one lower-case word.
    pub fn kind(&self) -> &'static str {
        match self {
            Self::Request(_) => "request",
            Self::Backend { .. } => "backend",
            Self::NotYetKnown { .. } => "unknown_nodes",
            Self::Repeated { .. } => "repeated",
            Self::Bind(error) => error.kind(),
        }
    }

    /// The pod's JSON cannot be parsed.
    pub fn pod(error: &ObjectError) -> Self {
        Self::Request(format!("Pod: {error}"))
    }

    /// A node object in the request cannot be parsed.
    pub fn node(name: &str, error: &ObjectError) -> Self {
        Self::Request(format!("node {name}: {error}"))
    }
}

impl From<WireError> for CallError {
    fn from(error: WireError) -> Self {
        Self::Request(error.to_string())
    }
}

impl From<BindError> for CallError {
    fn from(error: BindError) -> Self {
        Self::Bind(error)
    }
}

impl fmt::Display for CallError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("extender-gateway: ")?;
        match self {
            Self::Request(what) => write!(f, "bad request: {what}"),
            Self::Backend { name, verb, failure } => {
                write!(f, "backend {name} failed {}: {failure}", verb.backend_name())
            }
            Self::Bind(error) => error.fmt(f),
            Self::NotYetKnown { nodes: 1 } => {
                f.write_str("no node is left, and 1 node is not yet known to the gateway")
            }
            Self::NotYetKnown { nodes } => {
                write!(f, "no node is left, and {nodes} nodes are not yet known to the gateway")
            }
            Self::Repeated { reason } => {
                write!(f, "no node is left, and the pod was retried too often in a short time; {reason}")
            }
        }
    }
}

impl std::error::Error for CallError {}
