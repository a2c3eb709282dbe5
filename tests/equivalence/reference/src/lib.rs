//! kube-scheduler's decision with several extenders, one after the other.
//!
//! [`filter()`] does what `findNodesThatPassExtenders` does, [`prioritize()`] what `prioritizeNodes` does,
//! [`preempt()`] what `callExtenders` does, on plain data ([`model`]). Without optimizations: every step is taken
//! in turn, every sum is a fraction. No crate of the project is used, so that its mistakes cannot be repeated here
//! by accident. [`counts`] has the pods on nodes that a policy may decide by.
//!
//! The gateway's deliberate differences from separate extenders are modeled as such: [`model::Differences`],
//! [`reason`], the nodes that an extender has no data about, and which victims it may name.

pub mod counts;
pub mod filter;
mod interest;
pub mod model;
pub mod policy;
pub mod preempt;
pub mod prioritize;
pub mod reason;

pub use filter::filter;
pub use preempt::preempt;
pub use prioritize::prioritize;
