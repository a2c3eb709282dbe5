//! kube-scheduler's extender JSON, in and out.
//!
//! Requests are sliced, not decoded: only the positions of the pod, the names and the node objects in the body are
//! needed to pass them on, and replies are spliced from the same bytes. Mirrors `ExtenderArgs`,
//! `ExtenderFilterResult`, `HostPriorityList`, `ExtenderPreemptionArgs`, `ExtenderPreemptionResult`,
//! `ExtenderBindingArgs` and `ExtenderBindingResult` of `k8s.io/kube-scheduler/extender/v1`.

pub mod bind;
pub mod json;
pub mod names;
pub mod preempt;
pub mod reply;
pub mod request;

pub use names::Names;
pub use preempt::PreemptRequest;
pub use request::{Keys, KnownObjects, Offer, Request};

use std::fmt;

/// What is invalid in a request's JSON, and where.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WireError {
    /// What was expected, or what is missing.
    pub what: String,
    /// The byte offset in the body; `None` if it applies to the whole body.
    pub at: Option<usize>,
}

impl WireError {
    fn at(at: usize, what: impl Into<String>) -> Self {
        Self { what: what.into(), at: Some(at) }
    }

    fn whole(what: impl Into<String>) -> Self {
        Self { what: what.into(), at: None }
    }
}

impl fmt::Display for WireError {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.at {
            Some(at) => write!(f, "{} at byte {at}", self.what),
            None => f.write_str(&self.what),
        }
    }
}

impl std::error::Error for WireError {}
