//! Observability: logs, metrics, traces, the decision log, health. Calls pass their records to the [`Observer`];
//! everything else is created from them after the response.

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
