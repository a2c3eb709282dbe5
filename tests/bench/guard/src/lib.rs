//! The cost of a call for the gateway, as far as it is the same in every run: allocations, bytes allocated,
//! wake-ups of its thread and instructions. Time is not: a machine that is busy otherwise must not fail a test.
//!
//! [`subject`] is the gateway, built into the test: alone on the calling thread and its current-thread runtime,
//! where `allocation-counter` counts. [`peers`] are kube-scheduler and three scripted backends on a thread of their
//! own. The two threads take turns, so that nothing depends on which is faster: the gateway runs when the whole
//! request has been written, waits until all backends have theirs, and runs again when all answers have been
//! written. [`calls`] are the calls, [`cost`] is what is counted, [`ceilings`] are the limits.
//!
//! [`instructions`] has the same peers call another subject: the program as it is shipped, optimized, as a process
//! under valgrind, which counts the compiled instructions.
//!
//! [`growth`] sends the same program bodies with many items of one kind, and checks whether four times as many take
//! more than four times the work.
//!
//! [`amplification`] sends the gateway bodies of several shapes, and counts how much memory it has at one time.
//!
//! Linking this crate replaces the memory allocator of the whole program by one that counts.

pub mod amplification;
pub mod calls;
pub mod ceilings;
mod configuration;
pub mod cost;
pub mod growth;
pub mod instructions;
pub mod peers;
pub mod subject;
