//! The metrics of the whole process: counters, and gauges whose value is read at each scrape.

use std::{fmt, sync::Arc};

use extender_gateway_core::PolicyVerb;
use parking_lot::Mutex;
use prometheus_client::metrics::{counter::Counter, gauge::ConstGauge};

use super::{
    page::{Page, families},
    series::LabeledCounts,
};

/// Metrics without labels: the field, the name on the page, and the help text, which also documents the field.
macro_rules! unlabeled {
    (
        counters { $($counter:ident: $counter_name:literal, $counter_help:literal;)* }
        gauges { $($gauge:ident: $gauge_name:literal, $gauge_help:literal;)* }
    ) => {
        /// The metrics of the whole process.
        #[derive(Debug, Default)]
        pub struct ProcessMetrics {
            $(#[doc = $counter_help] pub $counter: Counter,)*
            $(#[doc = $gauge_help] pub $gauge: Source<Option<f64>>,)*
            /// The state of each backend that is called, by its name.
            pub backends: Source<Vec<(String, BackendState)>>,
            /// The field and file of each certificate file, and the Unix time at which it ceases to be valid.
            pub certificates: Source<Vec<([String; 2], f64)>>,
            /// The backend and mode of each override, and the Unix time at which it ends.
            pub overrides: Source<Vec<([String; 2], f64)>>,
            /// The backends with a limit of rejections, and whether each is over it.
            pub reject_limits: Source<Vec<(String, bool)>>,
            /// By cause, a fixed word.
            pub tls_handshake_failures: LabeledCounts<[&'static str; 1]>,
            /// By outcome, a fixed word.
            pub requeued_pods: LabeledCounts<[&'static str; 1]>,
            /// By outcome: `ok` or `refused`.
            pub configuration_reloads: LabeledCounts<[&'static str; 1]>,
            /// By address and cause, both fixed words.
            pub dropped_connections: LabeledCounts<[&'static str; 2]>,
            /// By address and cause, both fixed words.
            pub unauthorized_requests: LabeledCounts<[&'static str; 2]>,
        }

        impl ProcessMetrics {
            fn write_counters(&self, page: &mut Page<'_>) -> fmt::Result {
                $(page.single($counter_name, $counter_help, &self.$counter)?;)*
                Ok(())
            }

            fn write_gauges(&self, page: &mut Page<'_>) -> fmt::Result {
                $(if let Some(value) = self.$gauge.read().flatten().filter(|value| value.is_finite()) {
                    page.single($gauge_name, $gauge_help, &ConstGauge::new(value))?;
                })*
                Ok(())
            }
        }
    };
}

unlabeled! {
    counters {
        unknown_nodes: "extender_gateway_unknown_nodes_total",
            "Nodes rejected because the gateway did not know them yet";
        unreadable_objects: "extender_gateway_unreadable_objects_total",
            "Nodes, pods and victims of calls that could not be read";
        panics: "extender_gateway_panics_total",
            "Panics caught in calls, in their background work, and in connections to backends";
        summarized_refusals: "extender_gateway_summarized_refusals_total",
            "Filter calls whose reasons were replaced by a summary of the pod's first reasons";
        untracked_reasons: "extender_gateway_untracked_reasons_total",
            "Rejections on all nodes whose reasons may change because the memory for pods is full";
        repeated_refusals: "extender_gateway_repeated_refusals_total",
            "Filter calls answered with an error because the pod was rejected repeatedly";
        uncounted_refusals: "extender_gateway_uncounted_refusals_total",
            "Rejections on all nodes that were not tracked because the memory for pods is full";
        decision_log_evictions: "extender_gateway_decision_log_evictions_total",
            "Calls evicted from the decision log";
        lost_log_lines: "extender_gateway_lost_log_lines_total",
            "Log lines dropped because standard error was not read";
        exported_spans: "extender_gateway_exported_spans_total",
            "Spans exported to the collector";
        dropped_spans: "extender_gateway_dropped_spans_total",
            "Spans lost because the queue was full or the export failed";
    }
    gauges {
        call_thread_silence: "extender_gateway_call_thread_silence_seconds",
            "Time since the last heartbeat of the thread that serves calls";
        waiting_calls: "extender_gateway_waiting_calls",
            "Calls that wait until the thread that decides calls is free, or has time to refuse them";
        configuration_generation: "extender_gateway_configuration_generation",
            "Generation of the configuration in use, starting at 1";
        configuration_loaded: "extender_gateway_configuration_loaded_timestamp_seconds",
            "Unix time at which the configuration in use was loaded";
        configuration_rejected: "extender_gateway_configuration_rejected",
            "1 while the changed configuration file is not used because it was rejected, 0 otherwise";
        oldest_untried_pod: "extender_gateway_oldest_untried_pod_seconds",
            "How long the oldest pod that no scheduler has tried has been known; 0 if there are none";
        known_nodes: "extender_gateway_known_nodes",
            "Nodes in the node table";
        nodes_synced: "extender_gateway_nodes_synced",
            "1 after the first list of nodes, 0 before";
        nodes_watch_failing: "extender_gateway_nodes_watch_failing",
            "1 while the source of nodes fails, 0 otherwise";
        nodes_silence: "extender_gateway_nodes_silence_seconds",
            "Time since the last event of the watch of nodes";
        unreadable_nodes: "extender_gateway_unreadable_nodes",
            "Nodes from the apiserver that cannot be read, and that calls reject";
        known_pods: "extender_gateway_known_pods",
            "Pods in the pod table";
        unreadable_pods: "extender_gateway_unreadable_pods",
            "Pods from the apiserver that cannot be read";
        reduced_pods: "extender_gateway_reduced_pods",
            "Pods that are kept without most of their fields, because their namespace has too much JSON";
        pods_synced: "extender_gateway_pods_synced",
            "1 after the first list of pods, 0 before";
        pods_watch_failing: "extender_gateway_pods_watch_failing",
            "1 while the watch of pods fails, 0 otherwise";
        pods_silence: "extender_gateway_pods_silence_seconds",
            "Time since the last event of the watch of pods";
        decision_log_bytes: "extender_gateway_decision_log_bytes",
            "Size of the decision log";
        decision_log_limit: "extender_gateway_decision_log_limit_bytes",
            "Maximum size of the decision log";
        decision_log_calls: "extender_gateway_decision_log_calls",
            "Calls in the decision log";
        decision_log_pods: "extender_gateway_decision_log_pods",
            "Pods in the decision log";
    }
}

/// The state of a backend at a scrape.
#[derive(Debug, Clone, Default, PartialEq)]
pub struct BackendState {
    /// The Unix time since which it is connected with a successful handshake, in seconds; `None` while it is not.
    pub connected: Option<f64>,
    /// The number of pods that wait because of it.
    pub waiting_pods: u32,
    /// The number of workloads that they are parts of.
    pub waiting_workloads: u32,
    /// How long the oldest of them has waited, in seconds.
    pub oldest_waiting_pod: f64,
    /// The number of calls that wait because as many as there may be are in progress.
    pub waiting_calls: u32,
    /// Whether it does not use a configuration of its own.
    pub rejects_configuration: bool,
    /// The number of addresses with a session.
    pub addresses: u32,
    /// Each of its verbs, with the number of open circuit breakers.
    pub open_circuits: Vec<(PolicyVerb, u32)>,
}

impl ProcessMetrics {
    pub(super) fn write(&self, page: &mut Page<'_>) -> fmt::Result {
        self.write_counters(page)?;
        self.write_labeled(page)?;
        self.write_backends(page)?;
        self.write_gauges(page)
    }

    fn write_labeled(&self, page: &mut Page<'_>) -> fmt::Result {
        families! { page;
            "extender_gateway_dropped_connections_total", "Connections rejected, or closed to make room or because they sent no request"
                => self.dropped_connections.series(["address", "cause"]);
            "extender_gateway_unauthorized_requests_total", "Requests at the metrics and the admin address that were refused"
                => self.unauthorized_requests.series(["address", "cause"]);
            "extender_gateway_configuration_reloads_total", "Configuration reloads, by outcome"
                => self.configuration_reloads.series(["outcome"]);
            "extender_gateway_build_info", "Build information; always 1"
                => [([("version", env!("CARGO_PKG_VERSION"))], ConstGauge::new(1_i64))];
            "extender_gateway_requeued_pods_total", "Pods updated so that kube-scheduler tries them again, by outcome"
                => self.requeued_pods.series(["outcome"]);
            "extender_gateway_tls_handshake_failures_total", "Failed TLS handshakes of callers, by cause"
                => self.tls_handshake_failures.series(["cause"]);
            "extender_gateway_certificate_expiry_timestamp_seconds", "Unix time at which the certificates of a file cease to be valid"
                => self.certificates.read().unwrap_or_default().into_iter().map(|([field, file], ends)| {
                    ([("field", field), ("file", file)], ConstGauge::new(ends))
                });
            "extender_gateway_backend_override_end_timestamp_seconds", "Unix time until which a backend has this mode in place of the configured one"
                => self.overrides.read().unwrap_or_default().into_iter().map(|([backend, mode], ends)| {
                    ([("backend", backend), ("mode", mode)], ConstGauge::new(ends))
                });
            "extender_gateway_backend_reject_share_exceeded", "1 while a backend rejects more nodes than its maxRejectShare, 0 otherwise"
                => self.reject_limits.read().unwrap_or_default().into_iter().map(|(backend, is_over)| {
                    ([("backend", backend)], ConstGauge::new(i64::from(is_over)))
                });
        }
    }

    fn write_backends(&self, page: &mut Page<'_>) -> fmt::Result {
        let all = self.backends.read().unwrap_or_default();
        let states = || all.iter().map(|(name, state)| ([("backend", name.as_str())], state));
        let gauges = |value: fn(&BackendState) -> i64| {
            states().map(move |(labels, state)| (labels, ConstGauge::new(value(state))))
        };
        families! { page;
            "extender_gateway_backend_connected", "1 if the backend is connected and its handshake succeeded, 0 otherwise"
                => gauges(|it| it.connected.is_some().into());
            "extender_gateway_backend_connected_timestamp_seconds", "Unix time since which the backend is connected without an outage"
                => states().filter_map(|(labels, it)| Some((labels, ConstGauge::new(it.connected?))));
            "extender_gateway_backend_connected_addresses", "Addresses of the backend that are connected and whose handshakes succeeded"
                => gauges(|it| it.addresses.into());
            "extender_gateway_backend_configuration_rejected", "1 while the backend does not use a configuration of its own, such as a rule file, 0 otherwise"
                => gauges(|it| it.rejects_configuration.into());
            "extender_gateway_backend_open_circuits", "Open circuit breakers: the addresses of the backend that are not called for the verb"
                => all.iter().flat_map(|(name, state)| state.open_circuits.iter().map(move |(verb, open)| {
                    ([("backend", name.as_str()), ("verb", verb.name())], ConstGauge::new(i64::from(*open)))
                }));
            "extender_gateway_backend_waiting_calls", "Calls that wait because the backend has as many in progress as it may have"
                => gauges(|it| it.waiting_calls.into());
            "extender_gateway_backend_waiting_pods", "Pods that wait because the backend rejected or failed them"
                => gauges(|it| it.waiting_pods.into());
            "extender_gateway_backend_waiting_workloads", "Workloads of these pods: their controllers, and those without one"
                => gauges(|it| it.waiting_workloads.into());
            "extender_gateway_backend_oldest_waiting_pod_seconds", "How long the oldest of these pods has waited; 0 if there are none"
                => states().map(|(labels, it)| (labels, ConstGauge::new(it.oldest_waiting_pod)));
        }
    }
}

/// A value that is read when it is asked for, at each scrape or probe, on any thread. `None` and non-finite numbers are not shown.
pub struct Source<T>(Mutex<Option<Arc<dyn Fn() -> T + Send + Sync>>>);

impl<T> Source<T> {
    /// Sets where the value comes from; a later source replaces an earlier one.
    pub fn set(&self, source: impl Fn() -> T + Send + Sync + 'static) {
        *self.0.lock() = Some(Arc::new(source));
    }

    /// The current value; `None` without a source.
    pub fn read(&self) -> Option<T> {
        // It is called without the lock: it may take locks of its own.
        let source = self.0.lock().clone();
        source.map(|source| source())
    }
}

impl<T> Default for Source<T> {
    fn default() -> Self {
        Self(Mutex::new(None))
    }
}

impl<T> fmt::Debug for Source<T> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Source").finish_non_exhaustive()
    }
}
