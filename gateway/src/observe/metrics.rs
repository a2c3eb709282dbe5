//! Counters of what should not happen, and of calls.
//!
//! Labels are bounded: verbs and kinds are fixed, backends are those of the configuration.

use std::{fmt, hash::Hash};

mod spared;

use extender_gateway_core::FailureKind;
use prometheus_client::{
    encoding::{EncodeLabelSet, text},
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

use self::spared::Spared;

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
    forgotten: Counter,
    uncounted: Counter,
    reloads: Family<ReloadLabels, Counter>,
    shadows: Family<ShadowLabels, Counter>,
    /// Of questions that were not put, or not in full.
    pub(crate) spared: Spared,
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
        let mut new = |name: &str, help: &str| counter(&mut registry, name, help);
        let unknown = new("unknown_nodes", "Nodes rejected because the gateway did not know them yet");
        let panics = new("panics", "Calls that ended in a panic");
        let held =
            new("held_reasons", "Reasons that had changed between attempts and went out as they were first");
        let repeated = new(
            "repeated_refusals",
            "Filter calls answered with an error because the pod is refused over and over",
        );
        let forgotten = new(
            "forgotten_reasons",
            "Reasons of nodes that found no room to be remembered until the next attempt",
        );
        let uncounted = new(
            "uncounted_refusals",
            "Filter calls that refused a pod on all nodes and found no room to remember that",
        );
        Self {
            calls: family(&mut registry, "calls", "Calls at the door, by verb and outcome"),
            failures: family(
                &mut registry,
                "backend_failures",
                "Calls to backends without a usable answer, by backend, verb and kind",
            ),
            clamped: family(
                &mut registry,
                "clamped_scores",
                "Raw scores outside the range that their backend declares",
            ),
            reloads: family(
                &mut registry,
                "config_reloads",
                "Attempts to use a changed configuration, by outcome",
            ),
            shadows: family(
                &mut registry,
                "shadow_answers",
                "Answers of backends in shadow, by backend, verb and what they think of the decision",
            ),
            spared: Spared::new(&mut registry),
            unknown,
            panics,
            held,
            repeated,
            forgotten,
            uncounted,
            registry,
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

    /// Reasons found no room to be remembered.
    pub fn reasons_forgotten(&self, nodes: u64) {
        self.forgotten.inc_by(nodes);
    }

    /// A pod was refused on all nodes, and there was no room to remember it.
    pub fn pace_unknown(&self) {
        self.uncounted.inc();
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

fn counter(registry: &mut Registry, name: &str, help: &str) -> Counter {
    let counter = Counter::default();
    registry.register(name, help, Counter::clone(&counter));
    counter
}

fn family<L>(registry: &mut Registry, name: &str, help: &str) -> Family<L, Counter>
where
    L: Clone + fmt::Debug + Eq + Hash + EncodeLabelSet + Send + Sync + 'static,
{
    let family = Family::default();
    registry.register(name, help, Family::clone(&family));
    family
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
        metrics.reasons_forgotten(7);
        metrics.pace_unknown();
        let text = metrics.text();
        for line in [
            r#"extender_gateway_calls_total{verb="filter",outcome="ok"} 1"#,
            r#"extender_gateway_backend_failures_total{backend="racks",verb="score",kind="late"} 1"#,
            r#"extender_gateway_clamped_scores_total{backend="racks"} 3"#,
            "extender_gateway_unknown_nodes_total 2",
            "extender_gateway_panics_total 1",
            "extender_gateway_forgotten_reasons_total 7",
            "extender_gateway_uncounted_refusals_total 1",
        ] {
            assert!(text.contains(line), "{line} is not in\n{text}");
        }
    }
}
