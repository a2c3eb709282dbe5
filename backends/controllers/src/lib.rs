//! Runs the controllers of a policy backend in one of its replicas: the holder of a Lease (coordination.k8s.io/v1). All
//! replicas answer calls.
//!
//! A policy is often one half of a feature, and a controller the other one: it writes a status, cleans up reservations, or
//! labels nodes. [`Controllers`] elects the replica that runs it, by the rules of client-go: components in Go and this
//! crate can share a Lease. The backend reports the election in its handshake, where the gateway's `status` shows it,
//! and the health service `extender.policy.v1beta1.Controllers` is SERVING in the leader alone.
//!
//! ```no_run
//! # use extender_policy_controllers::{Controllers, Leading, LeaseName};
//! # use extender_policy_sdk::{Backend, Info, Policy, Verb, run};
//! # struct Quotas;
//! # impl Policy for Quotas {
//! #     fn info(&self) -> Info { Info::new("quotas", "1").filters(Verb::per_node()) }
//! # }
//! # async fn sync(_: Leading) -> Result<(), String> { Ok(()) }
//! let controllers = Controllers::new(LeaseName::in_own_namespace("quotas")).runs("quota-sync", sync);
//! run(Backend::from(Quotas).with_controllers(controllers));
//! ```
//!
//! # A term
//!
//! The controllers start when the lease is obtained, and are cancelled when it is lost: because another replica has it, or
//! because it could not be renewed for the renew deadline (10 s), which ends before others may take it (15 s). Then
//! the replica competes again. If they have not stopped within the [limit](Controllers::stop_limit), the process ends.
//! A controller that fails ends the process, too, and the lease is released; so it is at a normal stop, and another
//! replica takes over within seconds.
//!
//! # Log
//!
//! What the election does, and why it cannot, is only in the log: the program installs a `tracing` subscriber. The
//! election does not wait for its writer.
//!
//! # Fencing
//!
//! A lease is a promise about time, and processes are paused. [`Leading`] says what a controller does if two writers for a
//! moment are one too many.
//!
//! # Threads
//!
//! The election and the controllers have one thread each, besides that of the server: a policy that is busy delays no
//! renewal, and a controller that is busy delays no call.

mod candidate;
mod controllers;
mod election;
mod lead;
mod leading;
mod lease;
mod log;
mod term;
mod timing;

pub use self::{controllers::Controllers, leading::Leading, lease::LeaseName, timing::Timing};
