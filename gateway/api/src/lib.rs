//! The JSON types of the admin address: `GET /debug/decisions`, `/debug/status`, `/debug/pods`, `/debug/history` and
//! `/debug/overrides`, for server and clients.
//!
//! Names of fields are camelCase, unknown values are omitted, times are RFC 3339, durations are seconds. Fields are
//! never removed or renamed.

mod decision;
pub mod explain;
mod overrides;
mod overview;
mod status;

pub use self::{decision::*, overrides::*, overview::*, status::*};

/// The version of these types: the `apiVersion` of every response.
pub const API_VERSION: &str = "extender-gateway.io/v1alpha1";
