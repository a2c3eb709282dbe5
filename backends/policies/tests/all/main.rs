//! The tests of this crate on sockets, as one program: linking takes longer than the tests.

mod label_binder;
mod label_rules;
mod log;
mod node_policies;
mod reservation;
