//! What can be seen of the gateway from outside: logs, metrics, health.

pub mod api;
mod decisions;
pub mod health;
pub mod log;
pub mod metrics;
mod observer;
mod seldom;

pub use decisions::{DecisionLog, Query, Verb, Verdict};
pub use health::Health;
pub use metrics::Metrics;
pub use observer::Observer;
pub use seldom::{Seldom, SeldomEach};
