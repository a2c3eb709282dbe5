//! The metrics of the calls of one verb.

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

/// The outcome of a successful call.
const OK: &str = "ok";

/// The calls of each verb.
#[derive(Debug)]
pub(super) struct VerbSeries {
    verbs: PerVerb<Arc<VerbMetrics>>,
    /// Requests without a verb in their path.
    none: Arc<VerbMetrics>,
}

/// The calls of one verb.
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

/// A call in progress, until this is dropped.
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
        page.family("extender_gateway_calls_total", "Calls received", outcomes)?;
        page.family(
            "extender_gateway_call_duration_seconds",
            "Time from the request's headers to the end of the response",
            self.each(|metrics| metrics.duration.series()),
        )?;
        page.family(
            "extender_gateway_calls_in_flight",
            "Calls in progress",
            self.each(|metrics| metrics.in_flight.clone()),
        )?;
        page.family(
            "extender_gateway_offered_nodes_total",
            "Nodes in calls",
            self.each(|metrics| metrics.offered.clone()),
        )?;
        page.family(
            "extender_gateway_left_nodes_total",
            "Nodes left, or scored, in responses",
            self.each(|metrics| metrics.left.clone()),
        )?;
        page.family(
            "extender_gateway_request_bytes_total",
            "Bytes of request bodies",
            self.each(|metrics| metrics.request.clone()),
        )?;
        page.family(
            "extender_gateway_response_bytes_total",
            "Bytes of response bodies",
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

    /// Counts a call that was received. It is in progress until the returned guard is dropped, also if the caller
    /// disconnects.
    pub fn begun(&self) -> InFlight {
        self.in_flight.inc();
        InFlight(self.in_flight.clone())
    }

    /// Counts a call that was answered: `ok`, or the kind of its error.
    pub fn answered(&self, outcome: &'static str, took: Duration, trace: Option<Trace>) {
        self.outcomes.add(outcome, 1);
        self.duration.observe(took, trace);
        if outcome == OK { self.recent.answered(took) } else { self.recent.failed(took) }
    }

    /// Records the number of nodes in a call, and how many were left or scored.
    pub fn nodes(&self, offered: usize, left: usize) {
        self.offered.inc_by(offered as u64);
        self.left.inc_by(left as u64);
    }

    /// Records the body sizes of a request and its response.
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

    /// Summary of the latest 256 calls; `None` before the first.
    pub fn lately(&self) -> Option<RecentSummary> {
        self.recent.lately()
    }
}
