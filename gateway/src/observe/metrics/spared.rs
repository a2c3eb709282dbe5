//! What backends were spared: answers that were known, and nodes that they hold.

use prometheus_client::{
    encoding::EncodeLabelSet,
    metrics::{counter::Counter, family::Family},
    registry::Registry,
};

use super::{BackendLabels, family};

/// Counters of questions that were not put, or not in full.
#[derive(Debug)]
pub(crate) struct Spared {
    remembered: Family<VerbLabels, Counter>,
    disagreements: Family<VerbLabels, Counter>,
    missed: Family<BackendLabels, Counter>,
}

#[derive(Debug, Clone, PartialEq, Eq, Hash, EncodeLabelSet)]
struct VerbLabels {
    backend: String,
    verb: &'static str,
}

impl Spared {
    pub(super) fn new(registry: &mut Registry) -> Self {
        Self {
            remembered: family(
                registry,
                "remembered_answers",
                "Nodes about which a backend was not asked, because its answer was known",
            ),
            disagreements: family(
                registry,
                "memory_disagreements",
                "Times that a verb declared pure was found not to be",
            ),
            missed: family(
                registry,
                "table_misses",
                "Calls in which a backend did not hold the nodes that were named, so that they were sent",
            ),
        }
    }

    /// A backend was not asked about so many nodes, because its answers were known.
    pub(crate) fn remembered(&self, backend: &str, verb: &'static str, nodes: usize) {
        if nodes > 0 {
            let labels = VerbLabels { backend: backend.to_owned(), verb };
            self.remembered.get_or_create(&labels).inc_by(nodes as u64);
        }
    }

    /// A backend did not hold the nodes that were named.
    pub(crate) fn missed(&self, backend: &str) {
        self.missed.get_or_create(&BackendLabels { backend: backend.to_owned() }).inc();
    }

    /// A verb that a backend declares pure is not.
    pub(crate) fn disagreed(&self, backend: &str, verb: &'static str) {
        self.disagreements.get_or_create(&VerbLabels { backend: backend.to_owned(), verb }).inc();
    }
}
