//! How often the gateway does what it does unasked, and how long it waits where no setting says so.
//!
//! The values of production are the default. Tests pass their own, so that no result depends on how fast a machine is:
//! what a test waits for happens often, and what would end a wait that is none of the test's subject never happens.

use std::{num::NonZeroU32, time::Duration};

/// Intervals, waits and counts that are not configured.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cadences {
    /// How long first attempts to connect to backends may hold up a start or a reload.
    pub start: Duration,
    /// How long connecting to a backend may take.
    pub connect: Duration,
    /// How long a handshake may take, and the rows that a backend is told.
    pub handshake: Duration,
    /// The time between two handshakes.
    pub refresh: Duration,
    /// The same at least, when answers come from another revision.
    pub shortest_refresh: Duration,
    /// One call in so many that would be answered from memory asks the backend all the same.
    pub check_every: NonZeroU32,
    /// How long a call waits for nodes that kube-scheduler knows and the watch does not yet: it is usually
    /// milliseconds behind.
    pub unknown_nodes: Duration,
    /// How long scores that came with a filter answer wait for the pod's prioritize call: kube-scheduler prioritizes
    /// at once, if at all.
    pub early_scores: Duration,
    /// A pod that was refused on all nodes too often in this time has to back off.
    pub refusals: Duration,
    /// For how long a node's first text is kept.
    pub first_texts: Duration,
}

impl Default for Cadences {
    fn default() -> Self {
        Self {
            start: Duration::from_secs(10),
            connect: Duration::from_secs(2),
            handshake: Duration::from_secs(2),
            refresh: Duration::from_secs(1),
            shortest_refresh: Duration::from_millis(50),
            check_every: const { NonZeroU32::new(1000).expect("it is not 0") },
            unknown_nodes: Duration::from_millis(100),
            early_scores: Duration::from_secs(1),
            refusals: Duration::from_secs(2),
            first_texts: Duration::from_secs(30),
        }
    }
}
