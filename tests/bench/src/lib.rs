//! Benchmarks of the gateway alone.
//!
//! The gateway with three policies ([`policy`]) is compared with the floor, [`echo`]: an extender that reads the
//! same bodies and only answers. Absolute figures are not stable between machines, so all contenders are called in
//! turn in one run, and their ratio counts. [`stage`] starts the processes, [`case`] and [`pods`] make the bodies,
//! [`contender`] are the contenders, [`measure`] calls them, [`usage`] reads their cost, [`report`] prints it.
//! [`observed`] compares the gateway with itself: the cost of observability. [`fleet`] is a large cluster with many
//! policies.

pub mod case;
pub mod contender;
pub mod echo;
pub mod fleet;
pub mod measure;
pub mod observed;
pub mod pods;
pub mod policy;
pub mod report;
pub mod stage;
pub mod statistics;
pub mod usage;
