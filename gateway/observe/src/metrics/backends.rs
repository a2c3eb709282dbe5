//! The backends with metrics: those of the configuration and, for a while, those of the previous one.

use std::{collections::BTreeMap, fmt, sync::Arc};

use extender_gateway_core::PolicyVerb;
use extender_gateway_record::OnFailure;
use parking_lot::Mutex;
use prometheus_client::metrics::counter::Counter;

use super::{
    Metrics,
    backend::{BackendMetrics, BackendVerbMetrics},
    page::{Page, families},
};

/// The metrics of each backend, by its name.
#[derive(Debug, Default)]
pub(super) struct Backends(Mutex<BTreeMap<String, Arc<BackendMetrics>>>);

impl Metrics {
    /// The calls to a backend, which is added if it is new. The name must be a configured one, since it becomes a
    /// label.
    pub fn backend(&self, name: &str) -> Arc<BackendMetrics> {
        Arc::clone(self.families.backends.0.lock().entry(name.to_owned()).or_default())
    }

    /// The calls to a backend that was added and not removed since.
    pub fn known_backend(&self, name: &str) -> Option<Arc<BackendMetrics>> {
        self.families.backends.0.lock().get(name).cloned()
    }

    /// Removes the series of all backends but these. Values recorded through a handle of a removed one are not
    /// shown; if the backend is added again, a new handle starts at zero.
    pub fn retain_backends(&self, names: &[&str]) {
        self.families.backends.0.lock().retain(|name, _| names.contains(&name.as_str()));
    }
}

impl Backends {
    pub(super) fn write(&self, page: &mut Page<'_>) -> fmt::Result {
        // A copy, so that recording a call does not wait for the page.
        let all = Snapshot(self.0.lock().clone());
        all.write(page)
    }
}

/// The backends of one page.
struct Snapshot(BTreeMap<String, Arc<BackendMetrics>>);

impl Snapshot {
    fn write(&self, page: &mut Page<'_>) -> fmt::Result {
        families! { page;
            "extender_gateway_backend_calls_total", "Calls to backends"
                => self.counters(|verb| &verb.calls);
            "extender_gateway_backend_call_duration_seconds", "Duration of calls to backends"
                => self.verbs().map(|(labels, verb)| (labels, verb.duration.series()));
            "extender_gateway_backend_failures_total", "Failed calls to backends, by cause and applied failure policy"
                => self.verbs().flat_map(|(labels, verb)| verb.failures.all().into_iter().map(move |((kind, policy), count)| {
                    let policy = policy.map_or("none", OnFailure::as_str);
                    ((labels, [("kind", kind.as_str()), ("policy", policy)]), count)
                }));
            "extender_gateway_backend_asked_nodes_total", "Nodes sent to backends"
                => self.counters(|verb| &verb.asked);
            "extender_gateway_backend_known_nodes_total", "Nodes not sent to backends because the answer was cached or prefetched"
                => self.verbs().flat_map(|(labels, verb)| {
                    let sources = [("early", &verb.prefetched), ("remembered", &verb.remembered)];
                    sources.map(|(source, nodes)| ((labels, [("source", source)]), nodes.clone()))
                });
            "extender_gateway_backend_changed_nodes_total", "Nodes changed by hooks"
                => self.labeled(PolicyVerb::is_hook).map(|(labels, hook)| (labels, hook.changed.clone()));
            "extender_gateway_backend_rejected_nodes_total", "Nodes rejected by backends, without those in shadow mode"
                => self.backends().flat_map(|(labels, backend)| {
                    let reasons = backend.rejected.all().into_iter();
                    reasons.map(move |(reason, nodes)| ((labels, [("reason", reason)]), nodes))
                });
            "extender_gateway_backend_rejected_ratio", "Share of nodes that a backend rejected in a filter call"
                => self.backends_with(PolicyVerb::Filter).map(|(labels, backend)| (labels, backend.rejected_ratio.clone()));
            "extender_gateway_backend_clamped_scores_total", "Raw scores outside the backend's declared range"
                => self.backends_with(PolicyVerb::Score).map(|(labels, backend)| (labels, backend.clamped.clone()));
            "extender_gateway_backend_shadow_answers_total", "Answers of backends in shadow mode, by agreement with the decision"
                => self.verbs().flat_map(|(labels, verb)| {
                    let answers = verb.shadow.all().into_iter();
                    answers.map(move |(agreement, count)| ((labels, [("outcome", agreement.as_str())]), count))
                });
            "extender_gateway_backend_memory_disagreements_total", "Cached answers that a repeated call contradicted"
                => self.counters(|verb| &verb.disagreements);
            "extender_gateway_backend_circuit_openings_total", "Times that a circuit breaker opened, so that calls failed at once"
                => self.counters(|verb| &verb.circuit_openings);
            "extender_gateway_backend_retries_total", "Calls that a backend had not processed and that were tried again at another address"
                => self.counters(|verb| &verb.retries);
            "extender_gateway_backend_outages_total", "Times that the connection to a backend was lost, or could not be made at first"
                => self.backends().map(|(labels, backend)| (labels, backend.outages.clone()));
            "extender_gateway_backend_table_misses_total", "Calls in which a backend did not hold the named nodes, so they were sent inline"
                => self.backends().map(|(labels, backend)| (labels, backend.table_misses.clone()));
            "extender_gateway_backend_reported_outcomes_total", "Outcomes of scheduling attempts that a backend has acknowledged"
                => self.backends().map(|(labels, backend)| (labels, backend.reported_outcomes.clone()));
            "extender_gateway_backend_dropped_outcomes_total", "Outcomes of scheduling attempts that a backend was not told: too many, or it refused them"
                => self.backends().map(|(labels, backend)| (labels, backend.dropped_outcomes.clone()));
            "extender_gateway_backend_sent_bytes_total", "Bytes sent to backends in calls"
                => self.counters(|verb| &verb.sent);
            "extender_gateway_backend_received_bytes_total", "Bytes received from backends in calls"
                => self.counters(|verb| &verb.received);
        }
    }

    /// A counter of each backend and verb.
    fn counters(
        &self,
        counter: fn(&BackendVerbMetrics) -> &Counter,
    ) -> impl Iterator<Item = ([(&str, &str); 2], Counter)> {
        self.verbs().map(move |(labels, verb)| (labels, counter(verb).clone()))
    }

    /// The labels and metrics of each backend.
    fn backends(&self) -> impl Iterator<Item = ([(&str, &str); 1], &BackendMetrics)> {
        self.0.iter().map(|(name, metrics)| ([("backend", name.as_str())], &**metrics))
    }

    /// The labels and metrics of each backend that has this verb.
    fn backends_with(&self, verb: PolicyVerb) -> impl Iterator<Item = ([(&str, &str); 1], &BackendMetrics)> {
        self.backends().filter(move |(_, metrics)| metrics.shown().any(|(shown, _)| shown == verb))
    }

    /// The labels and metrics of each backend and verb.
    fn verbs(&self) -> impl Iterator<Item = ([(&str, &str); 2], &BackendVerbMetrics)> {
        self.labeled(|_| true)
    }

    fn labeled(
        &self,
        select: fn(PolicyVerb) -> bool,
    ) -> impl Iterator<Item = ([(&str, &str); 2], &BackendVerbMetrics)> {
        self.0.iter().flat_map(move |(name, metrics)| {
            let label = |verb: PolicyVerb| [("backend", name.as_str()), ("verb", verb.name())];
            let selected = metrics.shown().filter(move |(verb, _)| select(*verb));
            selected.map(move |(verb, metrics)| (label(verb), metrics))
        })
    }
}
