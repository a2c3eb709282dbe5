//! What is recorded of the calls of one verb.

use std::{
    sync::{Arc, OnceLock},
    time::Duration,
};

use super::{
    families::Families,
    few::Few,
    histogram::{Histogram, Trace},
    number::{Counter, Level},
    recent::{Lately, Recent},
};

/// The verbs of the door, and what stands for a path without one.
pub(super) const VERBS: [&str; 5] = ["filter", "prioritize", "preempt", "bind", NO_VERB];
pub(super) const NO_VERB: &str = "none";
/// The outcome of a call that was answered as it was meant.
const OK: &str = "ok";
/// What stands for the outcomes for which there is no place.
const OTHER: &str = "other";
/// More outcomes than there are.
const OUTCOMES: usize = 24;

/// The calls of one verb at the door. Recording is some atomic additions: nothing is looked up, allocated or locked,
/// but for an outcome that had not come before, and for an exemplar.
#[derive(Debug)]
pub struct VerbMetrics {
    verb: &'static str,
    families: Arc<Families>,
    outcomes: Few<&'static str, OUTCOMES>,
    other: OnceLock<Arc<Counter>>,
    duration: Arc<Histogram>,
    in_flight: Arc<Level>,
    offered: Arc<Counter>,
    left: Arc<Counter>,
    request: Arc<Counter>,
    response: Arc<Counter>,
    recent: Recent,
}

/// A call that has not been answered yet: it is one of those in flight until this is dropped.
#[derive(Debug)]
pub struct InFlight(Arc<Level>);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.add(-1);
    }
}

impl VerbMetrics {
    pub(super) fn new(verb: &'static str, families: &Arc<Families>) -> Self {
        let new = Self {
            verb,
            outcomes: Few::default(),
            other: OnceLock::new(),
            duration: families.call_duration.of(&[verb]),
            in_flight: families.calls_in_flight.of(&[verb]),
            offered: families.offered_nodes.of(&[verb]),
            left: families.left_nodes.of(&[verb]),
            request: families.request_bytes.of(&[verb]),
            response: families.response_bytes.of(&[verb]),
            recent: Recent::default(),
            families: Arc::clone(families),
        };
        new.outcome(OK);
        new
    }

    /// A call has come. It is in flight until what this returns is dropped, so that one whose caller hangs up is
    /// not for ever.
    pub fn begun(&self) -> InFlight {
        self.in_flight.add(1);
        InFlight(Arc::clone(&self.in_flight))
    }

    /// A call has been answered: `ok`, or with another word for what went wrong.
    pub fn answered(&self, outcome: &'static str, took: Duration, trace: Option<Trace>) {
        self.counted(outcome);
        self.duration.observe(took.as_secs_f64(), trace);
        if outcome == OK { self.recent.answered(took) } else { self.recent.failed(took) }
    }

    /// A call was about so many nodes, of which so many were left or got a score.
    pub fn nodes(&self, offered: usize, left: usize) {
        self.offered.add(offered as u64);
        self.left.add(left as u64);
    }

    /// The bodies of a call and of its answer had so many bytes.
    pub fn bytes(&self, request: usize, response: usize) {
        self.request.add(request as u64);
        self.response.add(response as u64);
    }

    /// Calls that have been answered since the start.
    pub fn calls(&self) -> u64 {
        self.outcomes.each().map(|(_, calls)| calls).sum::<u64>() + self.others()
    }

    /// How many of them were not answered with `ok`.
    pub fn failures(&self) -> u64 {
        let failed = self.outcomes.each().filter(|(outcome, _)| **outcome != OK);
        failed.map(|(_, calls)| calls).sum::<u64>() + self.others()
    }

    /// What the latest 256 calls were like; `None` before the first.
    pub fn lately(&self) -> Option<Lately> {
        self.recent.lately()
    }

    pub(super) fn counted(&self, outcome: &'static str) {
        self.outcome(outcome).add(1);
    }

    fn outcome(&self, outcome: &'static str) -> &Counter {
        let own = self.outcomes.of(outcome, || (outcome, self.families.calls.of(&[self.verb, outcome])));
        own.unwrap_or_else(|| self.other.get_or_init(|| self.families.calls.of(&[self.verb, OTHER])))
    }

    fn others(&self) -> u64 {
        self.other.get().map_or(0, |other| other.read())
    }
}
