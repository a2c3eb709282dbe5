//! Counters of what should not happen, and of calls.
//!
//! Labels are bounded: verbs and kinds are fixed, backends are those of the configuration.

use extender_gateway_core::FailureKind;
use prometheus_client::{
    encoding::{EncodeLabelSet, text},
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

/// All metrics of the process.
#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    calls: Family<CallLabels, Counter>,
    failures: Family<FailureLabels, Counter>,
    clamped: Family<BackendLabels, Counter>,
    unknown: Counter,
    panics: Counter,
    held: Counter,
    repeated: Counter,
    reloads: Family<ReloadLabels, Counter>,
    shadows: Family<ShadowLabels, Counter>,
    remembered: Family<VerbLabels, Counter>,
    disagreements: Family<VerbLabels, Counter>,
    missed: Family<BackendLabels, Counter>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct CallLabels {
    verb: &'static str,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct FailureLabels {
    backend: String,
    verb: &'static str,
    kind: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct BackendLabels {
    backend: String,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VerbLabels {
    backend: String,
    verb: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ShadowLabels {
    backend: String,
    verb: &'static str,
    outcome: &'static str,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct ReloadLabels {
    outcome: &'static str,
}

impl Default for Metrics {
    fn default() -> Self {
        Self::new()
    }
}

impl Metrics {
    /// All at zero.
    pub fn new() -> Self {
        let mut registry = Registry::with_prefix("extender_gateway");
        let metrics =
            (Family::default(), Family::default(), Family::default(), Counter::default(), Counter::default());
        let (calls, failures, clamped, unknown, panics) = metrics;
        registry.register("calls", "Calls at the door, by verb and outcome", Family::clone(&calls));
        registry.register(
            "backend_failures",
            "Calls to backends without a usable answer, by backend, verb and kind",
            Family::clone(&failures),
        );
        registry.register(
            "clamped_scores",
            "Raw scores outside the range that their backend declares",
            Family::clone(&clamped),
        );
        registry.register(
            "unknown_nodes",
            "Nodes rejected because the gateway did not know them yet",
            Counter::clone(&unknown),
        );
        registry.register("panics", "Calls that ended in a panic", Counter::clone(&panics));
        let (held, repeated) = (Counter::default(), Counter::default());
        registry.register(
            "held_reasons",
            "Reasons that had changed between attempts and went out as they were first",
            Counter::clone(&held),
        );
        registry.register(
            "repeated_refusals",
            "Filter calls answered with an error because the pod is refused over and over",
            Counter::clone(&repeated),
        );
        let reloads = Family::default();
        registry.register(
            "config_reloads",
            "Attempts to use a changed configuration, by outcome",
            Family::clone(&reloads),
        );
        let shadows = Family::default();
        registry.register(
            "shadow_answers",
            "Answers of backends in shadow, by backend, verb and what they think of the decision",
            Family::clone(&shadows),
        );
        let remembered = Family::default();
        registry.register(
            "remembered_answers",
            "Nodes about which a backend was not asked, because its answer was known",
            Family::clone(&remembered),
        );
        let disagreements = Family::default();
        registry.register(
            "memory_disagreements",
            "Times that a verb declared pure was found not to be",
            Family::clone(&disagreements),
        );
        let missed = Family::default();
        registry.register(
            "table_misses",
            "Calls in which a backend did not hold the nodes that were named, and which brought them in a second one",
            Family::clone(&missed),
        );
        Self {
            registry,
            calls,
            failures,
            clamped,
            unknown,
            panics,
            held,
            repeated,
            reloads,
            shadows,
            remembered,
            disagreements,
            missed,
        }
    }

    /// A call at the door has been answered.
    pub fn called(&self, verb: &'static str, outcome: &'static str) {
        self.calls.get_or_create(&CallLabels { verb, outcome }).inc();
    }

    /// A backend has failed.
    pub fn backend_failed(&self, backend: &str, verb: &'static str, kind: FailureKind) {
        let labels = FailureLabels { backend: backend.to_owned(), verb, kind: kind.as_str() };
        self.failures.get_or_create(&labels).inc();
    }

    /// Scores of a backend have been clamped.
    pub fn clamped(&self, backend: &str, scores: u64) {
        self.clamped.get_or_create(&BackendLabels { backend: backend.to_owned() }).inc_by(scores);
    }

    /// A backend was not asked about so many nodes, because its answers were known.
    pub fn remembered(&self, backend: &str, verb: &'static str, nodes: usize) {
        if nodes > 0 {
            let labels = VerbLabels { backend: backend.to_owned(), verb };
            self.remembered.get_or_create(&labels).inc_by(nodes as u64);
        }
    }

    /// A backend did not hold the nodes that were named.
    pub fn missed(&self, backend: &str) {
        self.missed.get_or_create(&BackendLabels { backend: backend.to_owned() }).inc();
    }

    /// A verb that a backend declares pure is not.
    pub fn disagreed(&self, backend: &str, verb: &'static str) {
        self.disagreements.get_or_create(&VerbLabels { backend: backend.to_owned(), verb }).inc();
    }

    /// Nodes were rejected because the gateway did not know them.
    pub fn unknown_nodes(&self, nodes: u64) {
        self.unknown.inc_by(nodes);
    }

    /// A call has panicked.
    pub fn panicked(&self) {
        self.panics.inc();
    }

    /// Reasons went out as they were in the first attempt.
    pub fn reasons_held(&self, nodes: u64) {
        self.held.inc_by(nodes);
    }

    /// A pod that is refused over and over got an error.
    pub fn refused_too_often(&self) {
        self.repeated.inc();
    }

    /// A changed configuration is in use (`ok`) or not (`refused`).
    pub fn reloaded(&self, outcome: &'static str) {
        self.reloads.get_or_create(&ReloadLabels { outcome }).inc();
    }

    /// A backend in shadow `agrees`, `disagrees` or `failed`.
    pub fn shadowed(&self, backend: &str, verb: &'static str, outcome: &'static str) {
        self.shadows.get_or_create(&ShadowLabels { backend: backend.to_owned(), verb, outcome }).inc();
    }

    /// All metrics in the `OpenMetrics` text format.
    pub fn text(&self) -> String {
        let mut out = String::new();
        // Writing to a String does not fail.
        let _ = text::encode(&mut out, &self.registry);
        out
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_was_counted_can_be_read() {
        let metrics = Metrics::new();
        metrics.called("filter", "ok");
        metrics.backend_failed("racks", "score", FailureKind::Late);
        metrics.clamped("racks", 3);
        metrics.unknown_nodes(2);
        metrics.panicked();
        let text = metrics.text();
        for line in [
            r#"extender_gateway_calls_total{verb="filter",outcome="ok"} 1"#,
            r#"extender_gateway_backend_failures_total{backend="racks",verb="score",kind="late"} 1"#,
            r#"extender_gateway_clamped_scores_total{backend="racks"} 3"#,
            "extender_gateway_unknown_nodes_total 2",
            "extender_gateway_panics_total 1",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
