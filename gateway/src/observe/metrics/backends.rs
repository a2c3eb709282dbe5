//! The backends with metrics: those of the configuration and, for a while, those of the previous one.

use std::{collections::BTreeMap, fmt, sync::Arc};

use extender_gateway_core::Verb;
use parking_lot::Mutex;
use prometheus_client::metrics::counter::ConstCounter;

use super::{
    backend::{BackendMetrics, SharedSeries},
    page::Page,
};

/// The metrics of each backend, by its name.
#[derive(Debug, Default)]
pub(super) struct Backends(Mutex<BTreeMap<String, Vec<Arc<BackendMetrics>>>>);

impl Backends {
    /// The metrics of a backend for a verb.
    pub(super) fn of(&self, backend: &str, verb: Verb) -> Arc<BackendMetrics> {
        let mut backends = self.0.lock();
        let verbs = backends.entry(backend.to_owned()).or_default();
        if let Some(metrics) = verbs.iter().find(|metrics| metrics.verb() == verb) {
            return Arc::clone(metrics);
        }
        let shared =
            verbs.first().map_or_else(|| Arc::new(SharedSeries::new()), |other| Arc::clone(&other.shared));
        let metrics = Arc::new(BackendMetrics::new(verb, shared));
        verbs.push(Arc::clone(&metrics));
        metrics
    }

    /// The metrics of a backend for a verb; `None` if it was never added, or was removed.
    pub(super) fn known(&self, backend: &str, verb: Verb) -> Option<Arc<BackendMetrics>> {
        self.0.lock().get(backend)?.iter().find(|metrics| metrics.verb() == verb).cloned()
    }

    /// Removes all but these.
    pub(super) fn retain(&self, names: &[&str]) {
        self.0.lock().retain(|name, _| names.contains(&name.as_str()));
    }

    pub(super) fn write(&self, page: &mut Page<'_>) -> fmt::Result {
        // A copy, so that recording a call does not wait for the page.
        let all = Recorded(self.0.lock().clone());
        all.write_calls(page)?;
        all.write_nodes(page)?;
        all.write_answers(page)?;
        all.write_bytes(page)
    }
}

/// The backends of one page.
struct Recorded(BTreeMap<String, Vec<Arc<BackendMetrics>>>);

impl Recorded {
    fn write_calls(&self, page: &mut Page<'_>) -> fmt::Result {
        page.family(
            "extender_gateway_backend_calls_total",
            "Calls to backends",
            self.verbs(|metrics| metrics.calls.clone()),
        )?;
        page.family(
            "extender_gateway_backend_call_duration_seconds",
            "Duration of calls to backends",
            self.verbs(|metrics| metrics.duration.series()),
        )?;
        let failures = self.each().flat_map(|(backend, metrics)| {
            metrics.failures.all().into_iter().map(move |((kind, policy), count)| {
                let (kind, policy) = (kind.as_str(), policy.as_str());
                let labels = [
                    ("backend", backend),
                    ("verb", metrics.verb().backend_name()),
                    ("kind", kind),
                    ("policy", policy),
                ];
                (labels, ConstCounter::new(count))
            })
        });
        page.family(
            "extender_gateway_backend_failures_total",
            "Failed calls to backends, by cause and applied failure policy",
            failures,
        )
    }

    fn write_nodes(&self, page: &mut Page<'_>) -> fmt::Result {
        page.family(
            "extender_gateway_backend_asked_nodes_total",
            "Nodes sent to backends",
            self.verbs(|metrics| metrics.asked.clone()),
        )?;
        let known = self.each().flat_map(|(backend, metrics)| {
            let sources = [("early", &metrics.early), ("remembered", &metrics.remembered)];
            sources.map(|(source, nodes)| {
                (
                    [("backend", backend), ("verb", metrics.verb().backend_name()), ("source", source)],
                    nodes.clone(),
                )
            })
        });
        page.family(
            "extender_gateway_backend_known_nodes_total",
            "Nodes not sent to backends because the answer was cached or prefetched",
            known,
        )?;
        let rejected = self.shared().flat_map(|(backend, shared)| {
            shared.reasons.all().into_iter().map(move |(reason, nodes)| {
                ([("backend", backend.to_owned()), ("reason", reason)], ConstCounter::new(nodes))
            })
        });
        page.family("extender_gateway_backend_rejected_nodes_total", "Nodes rejected by backends", rejected)?;
        page.family(
            "extender_gateway_backend_rejected_ratio",
            "Share of nodes that a backend rejected in a filter call",
            self.backends(|shared| shared.rejected.clone()),
        )
    }

    fn write_answers(&self, page: &mut Page<'_>) -> fmt::Result {
        page.family(
            "extender_gateway_backend_clamped_scores_total",
            "Raw scores outside the backend's declared range",
            self.backends(|shared| shared.clamped.clone()),
        )?;
        let shadow = self.each().flat_map(|(backend, metrics)| {
            metrics.shadow.all().into_iter().map(move |(opinion, count)| {
                let labels = [
                    ("backend", backend),
                    ("verb", metrics.verb().backend_name()),
                    ("outcome", opinion.as_str()),
                ];
                (labels, ConstCounter::new(count))
            })
        });
        page.family(
            "extender_gateway_backend_shadow_answers_total",
            "Answers of backends in shadow mode, by agreement with the decision",
            shadow,
        )?;
        page.family(
            "extender_gateway_backend_memory_disagreements_total",
            "Cached answers that a repeated call contradicted",
            self.verbs(|metrics| metrics.disagreed.clone()),
        )?;
        page.family(
            "extender_gateway_backend_table_misses_total",
            "Calls in which a backend did not hold the named nodes, so they were sent inline",
            self.backends(|shared| shared.missed.clone()),
        )
    }

    fn write_bytes(&self, page: &mut Page<'_>) -> fmt::Result {
        page.family(
            "extender_gateway_backend_sent_bytes_total",
            "Bytes sent to backends in calls",
            self.verbs(|metrics| metrics.sent.clone()),
        )?;
        page.family(
            "extender_gateway_backend_received_bytes_total",
            "Bytes received from backends in calls",
            self.verbs(|metrics| metrics.received.clone()),
        )
    }

    fn each(&self) -> impl Iterator<Item = (&str, &BackendMetrics)> {
        self.0.iter().flat_map(|(name, verbs)| verbs.iter().map(|metrics| (name.as_str(), &**metrics)))
    }

    fn shared(&self) -> impl Iterator<Item = (&str, &SharedSeries)> {
        self.0.iter().filter_map(|(name, verbs)| Some((name.as_str(), &*verbs.first()?.shared)))
    }

    /// A series for each backend and verb.
    fn verbs<S>(
        &self,
        series: impl Fn(&BackendMetrics) -> S,
    ) -> impl Iterator<Item = ([(&str, &str); 2], S)> {
        self.each().map(move |(backend, metrics)| {
            ([("backend", backend), ("verb", metrics.verb().backend_name())], series(metrics))
        })
    }

    /// A series for each backend.
    fn backends<S>(
        &self,
        series: impl Fn(&SharedSeries) -> S,
    ) -> impl Iterator<Item = ([(&str, &str); 1], S)> {
        self.shared().map(move |(backend, shared)| ([("backend", backend)], series(shared)))
    }
}
