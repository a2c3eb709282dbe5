//! Intervals and timeouts that are not configurable. The defaults are the values in production. Tests pass their
//! own, so that no result depends on the speed of the machine: events that a test waits for are frequent, unrelated
//! timeouts never expire.

use std::{num::NonZeroU32, time::Duration};

/// Intervals, timeouts and counts that are not configurable.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Cadences {
    /// How long the first attempts to connect to backends may delay a start or a reload.
    pub start: Duration,
    /// How long connecting to a backend may take.
    pub connect: Duration,
    /// How long a handshake may take, and how long sending the node table.
    pub handshake: Duration,
    /// The time between two handshakes.
    pub refresh: Duration,
    /// The same with a backend that announces its changes.
    pub announced_refresh: Duration,
    /// The minimum of both, if answers have another revision.
    pub shortest_refresh: Duration,
    /// The time between two resolutions of a backend's host.
    pub resolve: Duration,
    /// A circuit breaker opens after this many failures in a row.
    pub breaker_failures: u32,
    /// The pause before the first probe of an open circuit breaker.
    pub probe: Duration,
    /// One in this many calls that the cache could answer is sent to the backend anyway.
    pub check_every: NonZeroU32,
    /// How long a call waits for nodes that kube-scheduler knows but the watch has not delivered yet: it is usually
    /// milliseconds behind.
    pub unknown_nodes: Duration,
    /// How long scores prefetched with a filter answer are kept for the pod's prioritize call: kube-scheduler
    /// prioritizes immediately, if at all.
    pub early_scores: Duration,
    /// A pod that was rejected on all nodes too often in this time must back off.
    pub refusals: Duration,
    /// How long a pod's first refusal is remembered, and with it the summary of its reasons.
    pub first_reasons: Duration,
}

impl Default for Cadences {
    fn default() -> Self {
        Self {
            start: Duration::from_secs(10),
            connect: Duration::from_secs(2),
            handshake: Duration::from_secs(2),
            refresh: Duration::from_secs(1),
            announced_refresh: Duration::from_secs(5),
            shortest_refresh: Duration::from_millis(50),
            resolve: Duration::from_secs(5),
            breaker_failures: 5,
            probe: Duration::from_secs(1),
            check_every: const { NonZeroU32::new(1000).expect("it is not 0") },
            unknown_nodes: Duration::from_millis(100),
            early_scores: Duration::from_secs(1),
            refusals: Duration::from_secs(10),
            first_reasons: Duration::from_mins(2),
        }
    }
}
