//! The decision of the extender gateway, without a wire: which backends are asked about which nodes, and
//! what their answers add up to.
//!
//! Everything here is a function of its arguments. [`filter::FilterFold`] is a step machine: it says whom
//! to ask, takes each answer, and says when the verdict is there; who asks, and how long it takes, is the
//! caller's business. [`score`] combines the answers of one prioritize call, [`preempt`] takes
//! those of one preempt call in turn. [`reason`] makes texts safe for kube-scheduler. Every failure of a backend is one [`BackendFailure`].

pub mod assignment;
pub mod failure;
pub mod filter;
pub mod interest;
pub mod order;
pub mod preempt;
pub mod reason;
pub mod score;
pub mod verb;

pub use assignment::Assignment;
pub use failure::{BackendFailure, FailureKind, FailurePolicy};
pub use verb::{PerVerb, Verb};
