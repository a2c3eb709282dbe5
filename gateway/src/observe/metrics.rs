//! The metrics of `/metrics`, in OpenMetrics' text format.
//!
//! Each file writes the families that it records: a metric is one field, one line with its name and help, and the
//! call that records it. Handles ([`Metrics::verb`], [`Metrics::backend`]) are fetched once and share their values
//! with the page.
//!
//! Labels are bounded: verbs, kinds and outcomes are fixed words, backends are those of the configuration, and each
//! backend has at most 20 reasons.

mod backend;
mod backends;
mod few;
mod gauge;
mod page;
mod process;
mod reasons;
mod recent;
mod verb;

use std::{fmt, sync::Arc};

use extender_gateway_core::Verb;
use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, text},
    registry::Registry,
};

pub use self::{
    backend::{Applied, BackendMetrics},
    gauge::Gauge,
    page::Trace,
    recent::RecentSummary,
    verb::{InFlight, VerbMetrics},
};
use self::{backends::Backends, gauge::Gauges, page::Page, process::Process, verb::VerbSeries};

/// The `Content-Type` of the page. Prometheus requests it since 2.5, and accepts it in any case.
pub const CONTENT_TYPE: &str = "application/openmetrics-text; version=1.0.0; charset=utf-8";

/// All metrics of the process.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    families: Arc<Families>,
}

/// The families of the page.
#[derive(Debug, Default)]
struct Families {
    verbs: VerbSeries,
    backends: Backends,
    process: Process,
    gauges: Gauges,
}

impl Collector for Families {
    fn encode(&self, encoder: DescriptorEncoder<'_>) -> fmt::Result {
        let page = &mut Page::new(encoder);
        self.verbs.write(page)?;
        self.backends.write(page)?;
        self.process.write(page)?;
        self.gauges.write(page)
    }
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// All at zero.
    pub fn new() -> Self {
        let (mut registry, families) = (Registry::default(), Arc::new(Families::default()));
        registry.register_collector(Box::new(Arc::clone(&families)));
        Self { registry, families }
    }

    /// The calls of a verb; `None` for requests without a verb in their path.
    pub fn verb(&self, verb: Option<Verb>) -> Arc<VerbMetrics> {
        self.families.verbs.of(verb)
    }

    /// The calls to a backend for a verb. The name must be a configured one, since it becomes a label.
    pub fn backend(&self, name: &str, verb: Verb) -> Arc<BackendMetrics> {
        self.families.backends.of(name, verb)
    }

    /// Adds the series of this backend.
    pub fn add_backend(&self, name: &str) {
        for verb in Verb::ALL {
            self.backend(name, verb);
        }
    }

    /// The calls to a backend that was added and not removed since.
    pub fn known_backend(&self, name: &str, verb: Verb) -> Option<Arc<BackendMetrics>> {
        self.families.backends.known(name, verb)
    }

    /// Removes the series of all backends but these. Values recorded through a handle of a removed one are not
    /// shown; if the backend is added again, a new handle starts at zero.
    pub fn retain_backends(&self, names: &[&str]) {
        self.families.backends.retain(names);
    }

    /// Sets the source of a gauge, read at each scrape, on any thread. `None` and non-finite numbers are not shown.
    /// A later source replaces an earlier one.
    pub fn gauge(&self, gauge: Gauge, value: impl Fn() -> Option<f64> + Send + Sync + 'static) {
        self.families.gauges.source(gauge, value);
    }

    /// Sets the source of the backends, and whether each is connected with a successful handshake; read at each scrape.
    pub fn connected(&self, backends: impl Fn() -> Vec<(String, bool)> + Send + Sync + 'static) {
        self.families.gauges.connections(backends);
    }

    /// Counts nodes that were rejected because they are not in the node table.
    pub fn unknown_nodes(&self, nodes: u64) {
        self.families.process.unknown_nodes.inc_by(nodes);
    }

    /// Counts a panic in a call.
    pub fn panicked(&self) {
        self.families.process.panics.inc();
    }

    /// Counts changed reasons that were replaced by those of the first attempt.
    pub fn reasons_held(&self, nodes: u64) {
        self.families.process.held_reasons.inc_by(nodes);
    }

    /// Counts a pod that was rejected repeatedly and got an error.
    pub fn refused_too_often(&self) {
        self.families.process.repeated_refusals.inc();
    }

    /// Counts reasons that were dropped because their memory is full.
    pub fn reasons_forgotten(&self, nodes: u64) {
        self.families.process.forgotten_reasons.inc_by(nodes);
    }

    /// Counts a pod that was rejected on all nodes and not tracked because the memory for pods is full.
    pub fn pace_unknown(&self) {
        self.families.process.uncounted_refusals.inc();
    }

    /// Counts a changed configuration that was loaded (`ok`) or rejected (`refused`).
    pub fn reloaded(&self, outcome: &'static str) {
        self.families.process.configuration_reloads.add(outcome, 1);
    }

    /// Counts calls that were evicted from the decision log.
    pub fn evicted(&self, calls: u64) {
        self.families.process.decision_log_evictions.inc_by(calls);
    }

    /// Counts connections at this address that were refused or closed for this cause; both are fixed words.
    pub fn connections_dropped(&self, labels: (&'static str, &'static str), connections: u64) {
        self.families.process.dropped_connections.add(labels, connections);
    }

    /// Counts log lines that were lost because standard error was not read.
    pub fn log_lines_lost(&self, lines: u64) {
        self.families.process.lost_log_lines.inc_by(lines);
    }

    /// Counts exported spans.
    pub fn spans_exported(&self, spans: u64) {
        self.families.process.exported_spans.inc_by(spans);
    }

    /// Counts lost spans.
    pub fn spans_dropped(&self, spans: u64) {
        self.families.process.dropped_spans.inc_by(spans);
    }

    /// All metrics in OpenMetrics' text format.
    pub fn text(&self) -> String {
        let mut page = String::new();
        // Writing to a string cannot fail, and neither can the families.
        let written = text::encode(&mut page, &self.registry);
        debug_assert!(written.is_ok());
        page
    }
}

#[cfg(test)]
mod tests;
