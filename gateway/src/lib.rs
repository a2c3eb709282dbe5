//! The extender gateway: kube-scheduler's HTTP/JSON extender calls in, gRPC policy backends out.
//!
//! The way of a call is [`door`] → [`wire`] → [`decide`] (which drives `extender-gateway-core`) →
//! [`backend`] and back. [`object`] reads Kubernetes objects, [`cluster`] keeps what the gateway knows of
//! the nodes, [`config`] what the operator said, [`cadences`] how often and how long what it does not say,
//! [`observe`] what can be seen from outside. [`tls`] reads the files that TLS needs on either side.

pub mod admin;
pub mod api;
pub mod backend;
pub mod cadences;
pub mod cli;
pub mod cluster;
pub mod config;
pub mod contract;
pub mod decide;
pub mod door;
#[cfg(test)]
mod hostile;
pub mod object;
pub mod observe;
pub mod record;
pub mod scheduler_config;
pub mod serve;
pub mod tls;
pub mod wire;
