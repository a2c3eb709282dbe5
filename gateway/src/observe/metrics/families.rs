//! All metrics of the process, each by its name, and as the list from which they are written.

use std::{fmt, sync::Arc};

use super::{
    definition::{Definition, Kind},
    family::Family,
    format::Format,
    gauge::Asked,
    histogram::Histogram,
    number::{Counter, Level},
    page::{Page, Sample, Series},
    table,
};

type Counters = Arc<Family<Counter>>;
type Levels = Arc<Family<Level>>;
type Histograms = Arc<Family<Histogram>>;

/// Every metric that is recorded here. The others are [asked for](Asked).
#[derive(Debug)]
pub(super) struct Families {
    pub(super) calls: Counters,
    pub(super) call_duration: Histograms,
    pub(super) calls_in_flight: Levels,
    pub(super) offered_nodes: Counters,
    pub(super) left_nodes: Counters,
    pub(super) request_bytes: Counters,
    pub(super) response_bytes: Counters,
    pub(super) backend_calls: Counters,
    pub(super) backend_call_duration: Histograms,
    pub(super) backend_failures: Counters,
    pub(super) backend_asked_nodes: Counters,
    pub(super) backend_known_nodes: Counters,
    pub(super) backend_rejected_nodes: Counters,
    pub(super) backend_rejected_ratio: Histograms,
    pub(super) backend_clamped_scores: Counters,
    pub(super) backend_shadow_answers: Counters,
    pub(super) backend_memory_disagreements: Counters,
    pub(super) backend_table_misses: Counters,
    pub(super) backend_sent_bytes: Counters,
    pub(super) backend_received_bytes: Counters,
    pub(super) unknown_nodes: Counters,
    pub(super) panics: Counters,
    pub(super) held_reasons: Counters,
    pub(super) forgotten_reasons: Counters,
    pub(super) repeated_refusals: Counters,
    pub(super) uncounted_refusals: Counters,
    pub(super) configuration_reloads: Counters,
    pub(super) decision_log_evictions: Counters,
    pub(super) lost_log_lines: Counters,
    pub(super) exported_spans: Counters,
    pub(super) dropped_spans: Counters,
    pub(super) build_info: Levels,
    asked: Vec<Arc<Asked>>,
    listed: Vec<Arc<dyn Listed>>,
}

impl Families {
    /// All without a series.
    pub(super) fn new() -> Self {
        let mut all = Listing { listed: Vec::new() };
        Self {
            calls: all.counters(&table::CALLS),
            call_duration: all.histograms(&table::CALL_DURATION),
            calls_in_flight: all.levels(&table::CALLS_IN_FLIGHT),
            offered_nodes: all.counters(&table::OFFERED_NODES),
            left_nodes: all.counters(&table::LEFT_NODES),
            request_bytes: all.counters(&table::REQUEST_BYTES),
            response_bytes: all.counters(&table::RESPONSE_BYTES),
            backend_calls: all.counters(&table::BACKEND_CALLS),
            backend_call_duration: all.histograms(&table::BACKEND_CALL_DURATION),
            backend_failures: all.counters(&table::BACKEND_FAILURES),
            backend_asked_nodes: all.counters(&table::BACKEND_ASKED_NODES),
            backend_known_nodes: all.counters(&table::BACKEND_KNOWN_NODES),
            backend_rejected_nodes: all.counters(&table::BACKEND_REJECTED_NODES),
            backend_rejected_ratio: all.histograms(&table::BACKEND_REJECTED_RATIO),
            backend_clamped_scores: all.counters(&table::BACKEND_CLAMPED_SCORES),
            backend_shadow_answers: all.counters(&table::BACKEND_SHADOW_ANSWERS),
            backend_memory_disagreements: all.counters(&table::BACKEND_MEMORY_DISAGREEMENTS),
            backend_table_misses: all.counters(&table::BACKEND_TABLE_MISSES),
            backend_sent_bytes: all.counters(&table::BACKEND_SENT_BYTES),
            backend_received_bytes: all.counters(&table::BACKEND_RECEIVED_BYTES),
            unknown_nodes: all.counters(&table::UNKNOWN_NODES),
            panics: all.counters(&table::PANICS),
            held_reasons: all.counters(&table::HELD_REASONS),
            forgotten_reasons: all.counters(&table::FORGOTTEN_REASONS),
            repeated_refusals: all.counters(&table::REPEATED_REFUSALS),
            uncounted_refusals: all.counters(&table::UNCOUNTED_REFUSALS),
            configuration_reloads: all.counters(&table::CONFIGURATION_RELOADS),
            decision_log_evictions: all.counters(&table::DECISION_LOG_EVICTIONS),
            lost_log_lines: all.counters(&table::LOST_LOG_LINES),
            exported_spans: all.counters(&table::EXPORTED_SPANS),
            dropped_spans: all.counters(&table::DROPPED_SPANS),
            build_info: all.levels(&table::BUILD_INFO),
            asked: all.asked(&table::ASKED),
            listed: all.listed,
        }
    }

    /// The gauge of this definition.
    pub(super) fn asked(&self, definition: &Definition) -> Option<&Asked> {
        self.asked.iter().map(AsRef::as_ref).find(|asked| asked.definition == definition)
    }

    /// The text of all metrics.
    pub(super) fn text(&self, format: Format) -> String {
        let mut page = Page::new(format);
        for listed in &self.listed {
            page.metric(listed.definition(), |page| listed.write(page));
        }
        page.finish()
    }

    /// Forgets what belongs to backends that are not among these.
    pub(super) fn retain_backends(&self, names: &[&str]) {
        self.listed.iter().for_each(|listed| listed.retain_backends(names));
    }

    /// All metrics.
    #[cfg(test)]
    pub(super) fn definitions(&self) -> Vec<&'static Definition> {
        self.listed.iter().map(|listed| listed.definition()).collect()
    }
}

/// A metric of any kind.
trait Listed: fmt::Debug + Send + Sync {
    fn definition(&self) -> &'static Definition;
    fn write(&self, page: &mut Page);
    fn retain_backends(&self, names: &[&str]);
}

impl<S: Series + Send + Sync> Listed for Family<S> {
    fn definition(&self) -> &'static Definition {
        self.definition
    }

    fn write(&self, page: &mut Page) {
        self.each(|values, series| series.write(Sample::new(self.definition, values), page));
    }

    fn retain_backends(&self, names: &[&str]) {
        self.retain_backends(names);
    }
}

impl Listed for Asked {
    fn definition(&self) -> &'static Definition {
        self.definition
    }

    fn write(&self, page: &mut Page) {
        for (values, value) in self.values() {
            page.sample(Sample::new(self.definition, &values), value);
        }
    }

    fn retain_backends(&self, _: &[&str]) {
        // Its owner says which there are.
    }
}

/// Makes metrics and lists them.
struct Listing {
    listed: Vec<Arc<dyn Listed>>,
}

impl Listing {
    fn counters(&mut self, definition: &'static Definition) -> Counters {
        self.list(Family::new(definition, |_| Counter::default()))
    }

    fn levels(&mut self, definition: &'static Definition) -> Levels {
        self.list(Family::new(definition, |_| Level::default()))
    }

    fn histograms(&mut self, definition: &'static Definition) -> Histograms {
        let boundaries = match definition.kind {
            Kind::Histogram(boundaries) => boundaries,
            Kind::Counter | Kind::Gauge => &[],
        };
        self.list(Family::new(definition, move |_| Histogram::new(boundaries)))
    }

    fn asked(&mut self, definitions: &[&'static Definition]) -> Vec<Arc<Asked>> {
        definitions.iter().map(|definition| self.list(Asked::new(definition))).collect()
    }

    fn list<M: Listed + 'static>(&mut self, metric: M) -> Arc<M> {
        let metric = Arc::new(metric);
        self.listed.push(Arc::clone(&metric) as Arc<dyn Listed>);
        metric
    }
}
