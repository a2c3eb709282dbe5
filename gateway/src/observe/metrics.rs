//! What is counted and measured, at `/metrics` in both text formats.
//!
//! `table` says which metrics there are. What is recorded on the path of a call goes through a handle that is taken out
//! once, when the configuration is loaded ([`Metrics::verb`], [`Metrics::backend`]), and is some atomic additions.
//!
//! Labels are bounded: verbs, kinds and outcomes are fixed words, backends are those of the configuration, and each
//! backend has room for 20 reasons.

mod backend;
mod backends;
mod definition;
mod families;
mod family;
mod few;
mod format;
mod gauge;
mod histogram;
mod number;
mod page;
mod reasons;
mod recent;
mod table;
mod verb;

use std::sync::Arc;

pub use self::{
    backend::{Applied, BackendMetrics},
    format::{Format, Version},
    gauge::Gauge,
    histogram::Trace,
    recent::Lately,
    verb::{InFlight, VerbMetrics},
};
use self::{backends::Backends, families::Families, number::Counter, verb::NO_VERB};

/// All metrics of the process.
#[derive(Debug)]
pub struct Metrics {
    families: Arc<Families>,
    verbs: [Arc<VerbMetrics>; verb::VERBS.len()],
    backends: Backends,
    unknown: Arc<Counter>,
    panics: Arc<Counter>,
    held: Arc<Counter>,
    repeated: Arc<Counter>,
    forgotten: Arc<Counter>,
    uncounted: Arc<Counter>,
    evicted: Arc<Counter>,
    log_lines_lost: Arc<Counter>,
    exported: Arc<Counter>,
    dropped: Arc<Counter>,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// All at zero.
    pub fn new() -> Self {
        let families = Arc::new(Families::new());
        let backends = Backends::new(&families);
        families.build_info.of(&[env!("CARGO_PKG_VERSION")]).add(1);
        Self {
            verbs: verb::VERBS.map(|verb| Arc::new(VerbMetrics::new(verb, &families))),
            backends,
            unknown: families.unknown_nodes.of(&[]),
            panics: families.panics.of(&[]),
            held: families.held_reasons.of(&[]),
            repeated: families.repeated_refusals.of(&[]),
            forgotten: families.forgotten_reasons.of(&[]),
            uncounted: families.uncounted_refusals.of(&[]),
            evicted: families.decision_log_evictions.of(&[]),
            log_lines_lost: families.lost_log_lines.of(&[]),
            exported: families.exported_spans.of(&[]),
            dropped: families.dropped_spans.of(&[]),
            families,
        }
    }

    /// What is recorded of the calls of a verb: `filter`, `prioritize`, `preempt` or `bind`. Any other word stands
    /// for a path without a verb.
    pub fn verb(&self, verb: &str) -> Arc<VerbMetrics> {
        Arc::clone(self.of_verb(verb))
    }

    /// What is recorded of the calls to a backend for a verb: `filter`, `score`, `preempt` or `bind`. The name has to
    /// be one of the configuration: it becomes a label.
    pub fn backend(&self, name: &str, verb: &str) -> Arc<BackendMetrics> {
        self.backends.of(name, verb)
    }

    /// Forgets the series of all backends but these. A handle of a forgotten one records into the void; where the
    /// backend comes back, a new handle begins at zero.
    pub fn retain_backends(&self, names: &[&str]) {
        self.backends.retain(names);
    }

    /// From now on the value of this gauge is asked here whenever it is read, by any thread; `None` and what is not
    /// finite are not shown. A later owner takes the place of an earlier one.
    pub fn gauge(&self, gauge: Gauge, value: impl Fn() -> Option<f64> + Send + Sync + 'static) {
        let values = move || value().map(|value| (Vec::new(), value)).into_iter().collect();
        self.families.asked(gauge.definition()).inspect(|asked| asked.own(values));
    }

    /// From now on it is asked here which backends there are, and whether there is a connection whose handshake
    /// succeeded.
    pub fn connected(&self, backends: impl Fn() -> Vec<(String, bool)> + Send + Sync + 'static) {
        let values = move || {
            let backends = backends().into_iter();
            backends.map(|(name, connected)| (vec![name], f64::from(u8::from(connected)))).collect()
        };
        self.families.asked(&table::BACKEND_CONNECTED).inspect(|asked| asked.own(values));
    }

    /// Nodes were rejected because the gateway did not know them.
    pub fn unknown_nodes(&self, nodes: u64) {
        self.unknown.add(nodes);
    }

    /// A call has panicked.
    pub fn panicked(&self) {
        self.panics.add(1);
    }

    /// Reasons went out as they were in the first attempt.
    pub fn reasons_held(&self, nodes: u64) {
        self.held.add(nodes);
    }

    /// A pod that is refused over and over got an error.
    pub fn refused_too_often(&self) {
        self.repeated.add(1);
    }

    /// Reasons found no room to be remembered.
    pub fn reasons_forgotten(&self, nodes: u64) {
        self.forgotten.add(nodes);
    }

    /// A pod was refused on all nodes, and there was no room to remember it.
    pub fn pace_unknown(&self) {
        self.uncounted.add(1);
    }

    /// A changed configuration is in use (`ok`) or not (`refused`).
    pub fn reloaded(&self, outcome: &'static str) {
        self.families.configuration_reloads.of(&[outcome]).add(1);
    }

    /// Calls left the decision log to make room.
    pub fn evicted(&self, calls: u64) {
        self.evicted.add(calls);
    }

    /// Log lines were lost because standard error was not read.
    pub fn log_lines_lost(&self, lines: u64) {
        self.log_lines_lost.add(lines);
    }

    /// The collector has taken spans.
    pub fn spans_exported(&self, spans: u64) {
        self.exported.add(spans);
    }

    /// Spans were lost.
    pub fn spans_dropped(&self, spans: u64) {
        self.dropped.add(spans);
    }

    /// All metrics in this format.
    pub fn written(&self, format: Format) -> String {
        self.families.text(format)
    }

    /// All metrics in the `OpenMetrics` text format.
    pub fn text(&self) -> String {
        self.written(Format::OpenMetrics(Version::V1))
    }

    fn of_verb(&self, verb: &str) -> &Arc<VerbMetrics> {
        let at = |word: &str| verb::VERBS.iter().position(|known| *known == word);
        &self.verbs[at(verb).or_else(|| at(NO_VERB)).unwrap_or_default()]
    }
}

#[cfg(test)]
mod tests;
