//! The extender gateway: kube-scheduler's HTTP/JSON extender calls in, gRPC policy backends out.
//!
//! A call passes through [`door`] → [`wire`] → [`decide`] (which drives `extender-gateway-core`) → [`backend`] and
//! back. [`object`] parses Kubernetes objects, [`cluster`] keeps the node and pod tables, [`config`] has the
//! operator's settings, `authorization` decides who may use the metrics and the admin address, [`overrides`] the modes that replace them for a while and [`cadences`] the intervals that are
//! not configurable, [`observe`] creates logs, metrics and traces, and [`tls`] reads certificates and keys.

pub mod admin;
pub mod api;
mod authorization;
pub mod backend;
pub mod cadences;
pub mod cli;
pub mod cluster;
pub mod config;
pub mod contract;
pub mod decide;
pub mod door;
mod explain;
pub mod fair_queue;
#[cfg(any(test, feature = "fuzzing"))]
pub mod fuzzing;
#[cfg(test)]
mod hostile;
pub mod object;
pub mod observe;
pub mod overrides;
pub mod rate_limited_log;
pub mod record;
pub mod scheduler_config;
pub mod serve;
mod text;
pub mod tls;
pub mod wire;
