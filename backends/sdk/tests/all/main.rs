//! The tests of this crate on sockets, as one program: linking takes longer than the tests.

mod controllers;
mod hooks;
mod introspection;
mod pods;
mod reads;
mod socket;
mod table;
mod telemetry;
mod tls;
mod topology;
mod waiting;
