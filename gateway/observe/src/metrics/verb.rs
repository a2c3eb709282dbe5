//! The metrics of the calls of one verb.

use std::{fmt, sync::Arc, time::Duration};

use extender_gateway_api::{LastCall, RefusedCalls};
use extender_gateway_core::{PerVerb, Verb};
use extender_gateway_record::{BackendOutcome, CallOutcome, CallRecord, HttpCall};
use jiff::Timestamp;
use parking_lot::Mutex;
use prometheus_client::metrics::{counter::Counter, gauge::Gauge};

use super::{
    page::{Page, families},
    series::{Durations, LabeledCounts, RecentSummary, Trace},
};

use crate::{node_form, timestamp};

/// The calls of each verb.
#[derive(Debug)]
pub(super) struct VerbSeries {
    pub(super) verbs: PerVerb<Arc<VerbMetrics>>,
    /// Requests without a verb in their path.
    pub(super) none: Arc<VerbMetrics>,
}

/// The calls of one verb.
#[derive(Debug, Default)]
pub struct VerbMetrics {
    outcomes: LabeledCounts<&'static str>,
    duration: Durations,
    in_flight: Gauge,
    offered: Counter,
    left: Counter,
    request: Counter,
    response: Counter,
    /// The latest call, which shows whether kube-scheduler calls at all.
    last: Mutex<Option<LastCall>>,
    /// When the latest call was refused because of overload.
    last_refused: Mutex<Option<Timestamp>>,
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
        let metrics = || {
            let metrics = VerbMetrics::default();
            metrics.outcomes.add(CallOutcome::Ok.as_str(), 0);
            Arc::new(metrics)
        };
        Self { verbs: PerVerb::from_fn(|_| metrics()), none: metrics() }
    }
}

impl VerbSeries {
    /// All verbs as labels, with their metrics.
    fn all(&self) -> impl Iterator<Item = ([(&str, &str); 1], &VerbMetrics)> {
        let verbs = self.verbs.iter().map(|(verb, metrics)| (Some(verb), metrics));
        let all = verbs.chain([(None, &self.none)]);
        all.map(|(verb, metrics)| ([("verb", Verb::name_or_none(verb))], &**metrics))
    }

    pub(super) fn write(&self, page: &mut Page<'_>) -> fmt::Result {
        let counters = |counter: fn(&VerbMetrics) -> &Counter| {
            self.all().map(move |(labels, verb)| (labels, counter(verb).clone()))
        };
        families! { page;
            "extender_gateway_calls_total", "Calls received"
                => self.all().flat_map(|(labels, verb)| {
                    let outcomes = verb.outcomes.all().into_iter();
                    outcomes.map(move |(outcome, count)| ((labels, [("outcome", outcome)]), count))
                });
            "extender_gateway_call_duration_seconds", "Time from the request's headers to the end of the response"
                => self.all().map(|(labels, verb)| (labels, verb.duration.series()));
            "extender_gateway_calls_in_flight", "Calls in progress"
                => self.all().map(|(labels, verb)| (labels, verb.in_flight.clone()));
            "extender_gateway_offered_nodes_total", "Nodes in calls" => counters(|verb| &verb.offered);
            "extender_gateway_left_nodes_total", "Nodes left, or scored, in responses" => counters(|verb| &verb.left);
            "extender_gateway_request_bytes_total", "Bytes of request bodies" => counters(|verb| &verb.request);
            "extender_gateway_response_bytes_total", "Bytes of response bodies" => counters(|verb| &verb.response);
        }
    }
}

impl VerbMetrics {
    /// Counts a call that was received. It is in progress until the returned guard is dropped, also if the caller
    /// disconnects.
    pub fn begin(&self) -> InFlight {
        self.in_flight.inc();
        InFlight(self.in_flight.clone())
    }

    /// Records a call that has ended.
    pub fn record(&self, http_call: &HttpCall, trace: Option<Trace>) {
        self.answered(http_call.outcome, http_call.took, trace);
        self.count_bytes(http_call.request_bytes, http_call.response_bytes);
        let record = http_call.record.as_ref();
        let nodes = record.map_or(0, |record| record.nodes.count());
        let left =
            record.map_or(0, |record| record.left.map_or_else(|| scored(record), |left| left as usize));
        self.count_nodes(nodes as usize, left);
        let time = record.map_or_else(Timestamp::now, |record| timestamp(record.time));
        if http_call.outcome == CallOutcome::Overload {
            *self.last_refused.lock() = Some(time);
        }
        let node_form = record.and_then(|record| node_form(&record.nodes));
        let mut last = self.last.lock();
        // Reused, so that recording does not allocate.
        let mut outcome = last.take().map(|last| last.outcome).unwrap_or_default();
        http_call.outcome.as_str().clone_into(&mut outcome);
        *last = Some(LastCall { time, node_form, nodes, outcome });
    }

    /// Counts a call that has ended.
    pub fn answered(&self, outcome: CallOutcome, took: Duration, trace: Option<Trace>) {
        self.outcomes.add(outcome.as_str(), 1);
        self.duration.observe(took, (outcome != CallOutcome::Ok).then_some(outcome.as_str()), trace);
    }

    /// Records the number of nodes in a call, and how many were left or scored.
    pub fn count_nodes(&self, offered: usize, left: usize) {
        self.offered.inc_by(offered as u64);
        self.left.inc_by(left as u64);
    }

    /// Records the body sizes of a request and its response.
    pub fn count_bytes(&self, request: usize, response: usize) {
        self.request.inc_by(request as u64);
        self.response.inc_by(response as u64);
    }

    /// Calls that have been answered since the start.
    pub fn calls(&self) -> u64 {
        self.outcomes.sum(|_| true)
    }

    /// How many of them were not answered with `ok`.
    pub fn failures(&self) -> u64 {
        self.outcomes.sum(|outcome| outcome != CallOutcome::Ok.as_str())
    }

    /// Summary of the latest 256 calls; `None` before the first.
    pub fn recent(&self) -> Option<RecentSummary> {
        self.duration.recent.summary()
    }

    /// The calls that were refused because of overload; `None` if none was.
    pub fn refused(&self) -> Option<RefusedCalls> {
        let last = (*self.last_refused.lock())?;
        Some(RefusedCalls {
            count: self.outcomes.sum(|outcome| outcome == CallOutcome::Overload.as_str()),
            last,
        })
    }

    /// The latest call.
    pub fn last(&self) -> Option<LastCall> {
        self.last.lock().clone()
    }
}

/// The number of nodes with a score.
fn scored(record: &CallRecord) -> usize {
    let ballots = record.backends.iter().filter_map(BackendOutcome::ballot);
    ballots.map(|ballot| ballot.scores.len()).max().unwrap_or(0)
}
