//! Gauges whose value is asked for when it is read.

use std::{
    fmt,
    sync::{Arc, PoisonError, RwLock},
};

use super::{definition::Definition, table};

/// What the owner of a value is asked for at each scrape.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Gauge {
    /// Seconds since the thread that answers calls was last seen to run.
    CallThreadSilence,
    /// Nodes that the gateway knows.
    KnownNodes,
    /// 1 once the nodes have been listed, before that 0.
    NodesSynced,
    /// Seconds since the watch of nodes was last heard of.
    NodesSilence,
    /// Pods that the gateway knows.
    KnownPods,
    /// 1 once the pods have been listed, before that 0.
    PodsSynced,
    /// Seconds since the watch of pods was last heard of.
    PodsSilence,
    /// Bytes that the decision log holds.
    DecisionLogBytes,
    /// Bytes that it may hold.
    DecisionLogLimit,
    /// Calls in it.
    DecisionLogCalls,
    /// Pods in it.
    DecisionLogPods,
    /// The configuration in use, counted from 1.
    ConfigurationGeneration,
    /// Since when it is in use, in seconds since 1970.
    ConfigurationLoaded,
}

impl Gauge {
    pub(super) fn definition(self) -> &'static Definition {
        match self {
            Self::CallThreadSilence => &table::CALL_THREAD_SILENCE,
            Self::KnownNodes => &table::KNOWN_NODES,
            Self::NodesSynced => &table::NODES_SYNCED,
            Self::NodesSilence => &table::NODES_SILENCE,
            Self::KnownPods => &table::KNOWN_PODS,
            Self::PodsSynced => &table::PODS_SYNCED,
            Self::PodsSilence => &table::PODS_SILENCE,
            Self::DecisionLogBytes => &table::DECISION_LOG_BYTES,
            Self::DecisionLogLimit => &table::DECISION_LOG_LIMIT,
            Self::DecisionLogCalls => &table::DECISION_LOG_CALLS,
            Self::DecisionLogPods => &table::DECISION_LOG_PODS,
            Self::ConfigurationGeneration => &table::CONFIGURATION_GENERATION,
            Self::ConfigurationLoaded => &table::CONFIGURATION_LOADED,
        }
    }
}

/// The values of a gauge, each with the values of its labels.
pub(super) type Values = Vec<(Vec<String>, f64)>;

type Owner = dyn Fn() -> Values + Send + Sync;

/// A gauge, and who says what it is.
pub(super) struct Asked {
    pub(super) definition: &'static Definition,
    owner: RwLock<Option<Arc<Owner>>>,
}

impl fmt::Debug for Asked {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Asked").field(&self.definition.name).finish()
    }
}

impl Asked {
    /// One that nobody owns yet.
    pub(super) fn new(definition: &'static Definition) -> Self {
        Self { definition, owner: RwLock::default() }
    }

    /// From now on this one is asked.
    pub(super) fn own(&self, owner: impl Fn() -> Values + Send + Sync + 'static) {
        *self.owner.write().unwrap_or_else(PoisonError::into_inner) = Some(Arc::new(owner));
    }

    /// What its owner says now; nothing while it has none. What is not a finite number is left out.
    pub(super) fn values(&self) -> Values {
        // The owner is asked without the lock: it may take locks of its own.
        let owner = self.owner.read().unwrap_or_else(PoisonError::into_inner).clone();
        let mut values = owner.map(|owner| owner()).unwrap_or_default();
        values.retain(|(_, value)| value.is_finite());
        values
    }
}
