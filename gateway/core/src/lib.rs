//! The decisions of the extender gateway, without I/O: which backends are called for which nodes, and how their
//! answers combine. Everything here is a function of its arguments. [`filter::FilterFold`] is a state machine: it
//! returns the calls to make, takes each answer, and returns the verdict once it is certain; making the calls is up
//! to its user.
//! [`score`] combines the answers of one prioritize call, [`preempt`] those of one preempt call, in turn.
//! [`reason`] makes texts safe for kube-scheduler. Every failure of a backend is a [`BackendFailure`].

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
pub use verb::{ByVerb, PerPolicyVerb, PerVerb, PolicyVerb, Verb};
