//! What kube-scheduler decides with several extenders, one after the other.
//!
//! [`filter()`] does what `findNodesThatPassExtenders` does, [`prioritize()`] what `prioritizeNodes` does,
//! [`preempt()`] what `callExtenders` does, on plain data ([`model`]). Nothing is clever: every step is taken
//! in turn, every sum is a fraction. No crate of the project is used, so that a mistake of theirs cannot be
//! repeated here by accident.
//!
//! Where the gateway differs from separate extenders on purpose, the difference is written out as such:
//! [`model::Differences`], [`reason`], the sets of nodes that an extender cannot be told about, and which
//! victims it may name.

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
