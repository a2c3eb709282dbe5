//! What is recorded of the calls of one verb.

use std::{fmt, sync::Arc, time::Duration};

use extender_gateway_core::{PerVerb, Verb};
use prometheus_client::metrics::{
    counter::{ConstCounter, Counter},
    gauge::Gauge,
};

use super::{
    few::Few,
    page::{Durations, Page, Trace},
    recent::{RecentCalls, RecentSummary},
};

/// The outcome of a call that was answered as it was meant.
const OK: &str = "ok";

/// The calls of each verb.
#[derive(Debug)]
pub(super) struct VerbSeries {
    verbs: PerVerb<Arc<VerbMetrics>>,
    /// Requests whose path names no verb.
    none: Arc<VerbMetrics>,
}

/// The calls of one verb at the door.
#[derive(Debug)]
pub struct VerbMetrics {
    verb: &'static str,
    outcomes: Few<&'static str>,
    duration: Durations,
    in_flight: Gauge,
    offered: Counter,
    left: Counter,
    request: Counter,
    response: Counter,
    recent: RecentCalls,
}

/// A call that has not been answered yet: it is one of those in flight until this is dropped.
#[derive(Debug)]
pub struct InFlight(Gauge);

impl Drop for InFlight {
    fn drop(&mut self) {
        self.0.dec();
    }
}

impl Default for VerbSeries {
    fn default() -> Self {
        let metrics = |verb| Arc::new(VerbMetrics::new(Verb::name_or_none(verb)));
        Self { verbs: PerVerb::from_fn(|verb| metrics(Some(verb))), none: metrics(None) }
    }
}

impl VerbSeries {
    pub(super) fn of(&self, verb: Option<Verb>) -> Arc<VerbMetrics> {
        Arc::clone(verb.map_or(&self.none, |verb| &self.verbs[verb]))
    }

    fn all(&self) -> impl Iterator<Item = &VerbMetrics> {
        self.verbs.iter().map(|(_, metrics)| &**metrics).chain([&*self.none])
    }

    pub(super) fn write(&self, page: &mut Page<'_>) -> fmt::Result {
        let outcomes = self.all().flat_map(|metrics| {
            let outcomes = metrics.outcomes.all().into_iter();
            outcomes.map(|(outcome, count)| {
                ([("verb", metrics.verb), ("outcome", outcome)], ConstCounter::new(count))
            })
        });
        page.family("extender_gateway_calls_total", "Calls at the door", outcomes)?;
        page.family(
            "extender_gateway_call_duration_seconds",
            "Time from the head of a call to its answer",
            self.each(|metrics| metrics.duration.series()),
        )?;
        page.family(
            "extender_gateway_calls_in_flight",
            "Calls at the door that have not been answered yet",
            self.each(|metrics| metrics.in_flight.clone()),
        )?;
        page.family(
            "extender_gateway_offered_nodes_total",
            "Nodes that calls were about",
            self.each(|metrics| metrics.offered.clone()),
        )?;
        page.family(
            "extender_gateway_left_nodes_total",
            "Nodes that were left, or got a score, in the answers",
            self.each(|metrics| metrics.left.clone()),
        )?;
        page.family(
            "extender_gateway_request_bytes_total",
            "Bytes of the bodies of calls",
            self.each(|metrics| metrics.request.clone()),
        )?;
        page.family(
            "extender_gateway_response_bytes_total",
            "Bytes of the bodies of answers",
            self.each(|metrics| metrics.response.clone()),
        )
    }

    fn each<S>(&self, series: impl Fn(&VerbMetrics) -> S) -> impl Iterator<Item = ([(&str, &str); 1], S)> {
        self.all().map(move |metrics| ([("verb", metrics.verb)], series(metrics)))
    }
}

impl VerbMetrics {
    fn new(verb: &'static str) -> Self {
        let outcomes = Few::default();
        outcomes.add(OK, 0);
        Self {
            verb,
            outcomes,
            duration: Durations::default(),
            in_flight: Gauge::default(),
            offered: Counter::default(),
            left: Counter::default(),
            request: Counter::default(),
            response: Counter::default(),
            recent: RecentCalls::default(),
        }
    }

    /// A call has come. It is in flight until what this returns is dropped, so that one whose caller hangs up is
    /// not for ever.
    pub fn begun(&self) -> InFlight {
        self.in_flight.inc();
        InFlight(self.in_flight.clone())
    }

    /// A call has been answered: `ok`, or with another word for what went wrong.
    pub fn answered(&self, outcome: &'static str, took: Duration, trace: Option<Trace>) {
        self.outcomes.add(outcome, 1);
        self.duration.observe(took, trace);
        if outcome == OK { self.recent.answered(took) } else { self.recent.failed(took) }
    }

    /// A call was about so many nodes, of which so many were left or got a score.
    pub fn nodes(&self, offered: usize, left: usize) {
        self.offered.inc_by(offered as u64);
        self.left.inc_by(left as u64);
    }

    /// The bodies of a call and of its answer had so many bytes.
    pub fn bytes(&self, request: usize, response: usize) {
        self.request.inc_by(request as u64);
        self.response.inc_by(response as u64);
    }

    /// Calls that have been answered since the start.
    pub fn calls(&self) -> u64 {
        self.outcomes.sum(|_| true)
    }

    /// How many of them were not answered with `ok`.
    pub fn failures(&self) -> u64 {
        self.outcomes.sum(|outcome| outcome != OK)
    }

    /// What the latest 256 calls were like; `None` before the first.
    pub fn lately(&self) -> Option<RecentSummary> {
        self.recent.lately()
    }
}
