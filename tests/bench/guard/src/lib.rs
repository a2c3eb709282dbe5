//! What a call costs the gateway, as far as it is the same in every run: allocations, bytes allocated,
//! wake-ups of its thread and instructions. Time is not: a machine that does something else meanwhile must
//! fail no test.
//!
//! [`subject`] is the gateway, built into the test: alone on the calling thread and its current-thread runtime,
//! where `allocation-counter` counts. [`peers`] are kube-scheduler and three scripted backends on a thread of
//! their own. The two threads take turns, so that nothing depends on who is faster: the gateway runs when the
//! whole question has been written, rests when all backends have theirs, and runs again when all answers have
//! been written. [`calls`] are the calls, [`cost`] is what is counted, [`ceilings`] what it may come to.
//!
//! [`instructions`] has the same peers call another subject: the program as it is shipped, optimised, in a
//! process of its own under valgrind, which counts what the compiler made of the code.
//!
//! [`growth`] asks the same program about bodies with many of one thing, and whether four times as many take more than
//! four times the work.
//!
//! Linking this crate replaces the memory allocator of the whole program by one that counts.

pub mod calls;
pub mod ceilings;
mod configuration;
pub mod cost;
pub mod growth;
pub mod instructions;
pub mod peers;
pub mod subject;
