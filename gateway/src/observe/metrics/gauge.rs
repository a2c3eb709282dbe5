//! Gauges whose value is read at each scrape.

use std::{fmt, sync::Arc};

use parking_lot::Mutex;
use prometheus_client::metrics::gauge::ConstGauge;

use super::page::Page;

/// A gauge whose value comes from elsewhere.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
pub enum Gauge {
    /// Seconds since the last heartbeat of the thread that serves calls.
    CallThreadSilence,
    /// Generation of the configuration in use, starting at 1.
    ConfigurationGeneration,
    /// Unix time at which it was loaded.
    ConfigurationLoaded,
    /// Nodes in the node table.
    KnownNodes,
    /// 1 after the first list of nodes, 0 before.
    NodesSynced,
    /// Seconds since the latest event of the watch of nodes.
    NodesSilence,
    /// Pods in the pod table.
    KnownPods,
    /// 1 after the first list of pods, 0 before.
    PodsSynced,
    /// Seconds since the latest event of the watch of pods.
    PodsSilence,
    /// Size of the decision log.
    DecisionLogBytes,
    /// Bytes that it may hold.
    DecisionLogLimit,
    /// Calls in it.
    DecisionLogCalls,
    /// Pods in it.
    DecisionLogPods,
}

impl Gauge {
    /// Name and help.
    fn definition(self) -> (&'static str, &'static str) {
        match self {
            Self::CallThreadSilence => (
                "extender_gateway_call_thread_silence_seconds",
                "Time since the last heartbeat of the thread that serves calls",
            ),
            Self::ConfigurationGeneration => (
                "extender_gateway_configuration_generation",
                "Generation of the configuration in use, starting at 1",
            ),
            Self::ConfigurationLoaded => (
                "extender_gateway_configuration_loaded_timestamp_seconds",
                "Unix time at which the configuration in use was loaded",
            ),
            Self::KnownNodes => ("extender_gateway_known_nodes", "Nodes in the node table"),
            Self::NodesSynced => {
                ("extender_gateway_nodes_synced", "1 after the first list of nodes, 0 before")
            }
            Self::NodesSilence => {
                ("extender_gateway_nodes_silence_seconds", "Time since the last event of the watch of nodes")
            }
            Self::KnownPods => ("extender_gateway_known_pods", "Pods in the pod table"),
            Self::PodsSynced => ("extender_gateway_pods_synced", "1 after the first list of pods, 0 before"),
            Self::PodsSilence => {
                ("extender_gateway_pods_silence_seconds", "Time since the last event of the watch of pods")
            }
            Self::DecisionLogBytes => ("extender_gateway_decision_log_bytes", "Size of the decision log"),
            Self::DecisionLogLimit => {
                ("extender_gateway_decision_log_limit_bytes", "Maximum size of the decision log")
            }
            Self::DecisionLogCalls => ("extender_gateway_decision_log_calls", "Calls in the decision log"),
            Self::DecisionLogPods => ("extender_gateway_decision_log_pods", "Pods in the decision log"),
        }
    }
}

type Source = dyn Fn() -> Option<f64> + Send + Sync;
type ConnectionSource = dyn Fn() -> Vec<(String, bool)> + Send + Sync;

/// The gauges that have a source, in the order of [`Gauge`].
#[derive(Default)]
pub(super) struct Gauges {
    sources: Mutex<Vec<(Gauge, Arc<Source>)>>,
    connections: Mutex<Option<Arc<ConnectionSource>>>,
}

impl fmt::Debug for Gauges {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Gauges").finish_non_exhaustive()
    }
}

impl Gauges {
    pub(super) fn source(&self, gauge: Gauge, source: impl Fn() -> Option<f64> + Send + Sync + 'static) {
        let mut sources = self.sources.lock();
        sources.retain(|(other, _)| *other != gauge);
        sources.push((gauge, Arc::new(source)));
        sources.sort_by_key(|(gauge, _)| *gauge);
    }

    pub(super) fn connections(&self, source: impl Fn() -> Vec<(String, bool)> + Send + Sync + 'static) {
        *self.connections.lock() = Some(Arc::new(source));
    }

    pub(super) fn write(&self, page: &mut Page<'_>) -> fmt::Result {
        // Sources are called without the lock: they may take locks of their own.
        let connections = self.connections.lock().clone().map(|source| source()).unwrap_or_default();
        let connected = |(name, connected)| ([("backend", name)], ConstGauge::new(i64::from(connected)));
        page.family(
            "extender_gateway_backend_connected",
            "1 if the backend is connected and its handshake succeeded, 0 otherwise",
            connections.into_iter().map(connected),
        )?;
        let sources = self.sources.lock().clone();
        for (gauge, source) in sources {
            let (name, help) = gauge.definition();
            if let Some(value) = source().filter(|value| value.is_finite()) {
                page.single(name, help, &ConstGauge::new(value))?;
            }
        }
        Ok(())
    }
}
