//! The answers of several replicas to one question.

use std::fmt::Display;

use serde::Serialize;

/// The answers of the replicas.
#[derive(Debug)]
pub struct Gathered<T> {
    /// One for each replica that answered.
    pub answers: Vec<T>,
    /// The gateways that did not answer.
    pub away: Vec<Away>,
}

/// A gateway that did not answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub struct Away {
    /// The address or pod that was queried.
    pub gateway: String,
    /// The cause and the remedy.
    pub why: String,
}

impl Away {
    /// A gateway that failed with this error.
    pub fn new(gateway: &impl Display, error: &impl Display) -> Self {
        Self { gateway: gateway.to_string(), why: error.to_string() }
    }
}
