//! The failure of an answer that breaks the contract.

use std::fmt::Display;

use extender_gateway_core::{BackendFailure, FailureKind};

/// The answer says what it must not, or leaves out what it must say.
pub(crate) fn malformed(detail: String) -> BackendFailure {
    BackendFailure::new(FailureKind::Malformed, detail)
}

/// The answer is not the protobuf message that it should be.
pub(super) fn undecodable(why: &dyn Display) -> BackendFailure {
    malformed(format!("cannot decode the response ({why})"))
}
