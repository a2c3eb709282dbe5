//! The common parts of the demo, the benchmarks and the tests of the built product: they start the real binaries as
//! processes, and call them as kube-scheduler does.
//!
//! - [`binaries`] finds the programs, [`process`] runs them, [`gateway`] and [`policy`] know their
//!   command lines and what they print when they are ready.
//! - [`node`] and [`pod`] make objects as a real cluster has them, [`request`] writes them into bodies in
//!   kube-scheduler's own form, [`http`] sends those.
//!
//! All generated data is the same in every run: two runs differ only in the product.

pub mod binaries;
pub mod gateway;
pub mod http;
pub mod node;
pub mod pod;
pub mod policy;
pub mod process;
pub mod random;
pub mod request;
mod template;
