//! What can be seen of the gateway from outside: logs, metrics, traces, the decision log, health.
//!
//! Calls tell the [`Observer`] what became of them; everything else is made from that, behind their answers.

pub mod debug;
mod decisions;
pub mod health;
mod latest;
pub mod log;
pub mod metrics;
mod observer;
mod rate_limited_log;
#[cfg(test)]
pub(crate) mod samples;
pub mod traces;

pub use decisions::{DecisionLog, Query, Verdict};
pub use health::Health;
pub use metrics::Metrics;
pub use observer::Observer;
pub use rate_limited_log::{RateLimitedLog, SeldomEach};
pub use traces::Tracer;
