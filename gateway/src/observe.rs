//! What can be seen of the gateway from outside: logs, metrics, health.

pub mod api;
pub mod health;
pub mod log;
pub mod metrics;
mod seldom;

pub use health::Health;
pub use metrics::Metrics;
pub use seldom::{Seldom, SeldomEach};
