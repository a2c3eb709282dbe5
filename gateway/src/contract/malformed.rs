//! Failures of answers that violate the contract.

use std::fmt::Display;

use extender_gateway_core::{BackendFailure, FailureKind};

/// The answer has invalid content, or lacks required content.
pub(crate) fn malformed(detail: String) -> BackendFailure {
    BackendFailure::new(FailureKind::Malformed, detail)
}

/// The answer is not the expected protobuf message.
pub(super) fn undecodable(why: &dyn Display) -> BackendFailure {
    malformed(format!("cannot decode the response ({why})"))
}
