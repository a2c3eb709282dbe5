//! The answers of several replicas to one question.

use std::fmt::Display;

use serde::Serialize;

/// The answers of the replicas.
#[derive(Debug)]
pub(crate) struct Gathered<T> {
    /// One for each replica that answered.
    pub(crate) answers: Vec<T>,
    /// The gateways that did not answer.
    pub(crate) away: Vec<Away>,
}

/// A gateway that did not answer.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
#[serde(rename_all = "camelCase")]
pub(crate) struct Away {
    /// The address or pod that was queried.
    pub(crate) gateway: String,
    /// The cause and the remedy.
    pub(crate) why: String,
}

impl Away {
    pub(crate) fn new(gateway: &impl Display, error: &impl Display) -> Self {
        Self { gateway: gateway.to_string(), why: error.to_string() }
    }
}
