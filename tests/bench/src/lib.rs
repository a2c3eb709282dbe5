//! Benchmarks of the gateway alone.
//!
//! The gateway with three policies ([`policy`]) is measured beside the floor, [`echo`]: an extender that reads
//! the same bodies and answers them without a thought. Absolute figures are not stable between machines, so
//! all are asked in turn in one run, and their ratio is what counts. [`stage`] starts the processes, [`case`]
//! and [`pods`] make the bodies, [`contender`] are those who are asked, [`measure`] asks them, [`usage`] looks
//! at what it cost, [`report`] prints it. [`observed`] compares the gateway with itself: what it costs to see its calls.

pub mod case;
pub mod contender;
pub mod echo;
pub mod measure;
pub mod observed;
pub mod pods;
pub mod policy;
pub mod report;
pub mod stage;
pub mod statistics;
pub mod usage;
