//! The one table of all metrics. A name or a label that is here stays: dashboards and alerts hold on to it.
//!
//! What has a label `backend` begins with `backend_`. A label's values are fixed words, names of configured backends,
//! or reasons, of which each backend has a bounded number.

use super::definition::Definition;

/// kube-scheduler's own ladder, continued: from 0.1 ms, times 2, up to 13.1 s. The first rungs are those of its
/// `scheduler_framework_extension_point_duration_seconds`.
const LADDER: &[f64] = &[
    0.0001, 0.0002, 0.0004, 0.0008, 0.0016, 0.0032, 0.0064, 0.0128, 0.0256, 0.0512, 0.1024, 0.2048, 0.4096,
    0.8192, 1.6384, 3.2768, 6.5536, 13.1072,
];

/// Shares: none, and all, can be told from nearly so.
const SHARES: &[f64] = &[0.0, 0.01, 0.05, 0.1, 0.25, 0.5, 0.75, 0.9, 0.95, 0.99, 1.0];

const VERB: &[&str] = &["verb"];
const BACKEND: &[&str] = &["backend"];
const BACKEND_VERB: &[&str] = &["backend", "verb"];

pub(super) const CALLS: Definition =
    Definition::counter("extender_gateway_calls_total", &["verb", "outcome"], "Calls at the door");
pub(super) const CALL_DURATION: Definition = Definition::histogram(
    ("extender_gateway_call_duration_seconds", LADDER),
    VERB,
    "Time from the head of a call to its answer",
);
pub(super) const CALLS_IN_FLIGHT: Definition = Definition::gauge(
    "extender_gateway_calls_in_flight",
    VERB,
    "Calls at the door that have not been answered yet",
);
pub(super) const OFFERED_NODES: Definition =
    Definition::counter("extender_gateway_offered_nodes_total", VERB, "Nodes that calls were about");
pub(super) const LEFT_NODES: Definition = Definition::counter(
    "extender_gateway_left_nodes_total",
    VERB,
    "Nodes that were left, or got a score, in the answers",
);
pub(super) const REQUEST_BYTES: Definition =
    Definition::counter("extender_gateway_request_bytes_total", VERB, "Bytes of the bodies of calls");
pub(super) const RESPONSE_BYTES: Definition =
    Definition::counter("extender_gateway_response_bytes_total", VERB, "Bytes of the bodies of answers");

pub(super) const BACKEND_CALLS: Definition =
    Definition::counter("extender_gateway_backend_calls_total", BACKEND_VERB, "Calls to backends");
pub(super) const BACKEND_CALL_DURATION: Definition = Definition::histogram(
    ("extender_gateway_backend_call_duration_seconds", LADDER),
    BACKEND_VERB,
    "Time from a call to a backend to its answer or failure",
);
pub(super) const BACKEND_FAILURES: Definition = Definition::counter(
    "extender_gateway_backend_failures_total",
    &["backend", "verb", "kind", "policy"],
    "Calls to backends without a usable answer, and what the failure policy did",
);
pub(super) const BACKEND_ASKED_NODES: Definition = Definition::counter(
    "extender_gateway_backend_asked_nodes_total",
    BACKEND_VERB,
    "Nodes about which backends were asked",
);
pub(super) const BACKEND_KNOWN_NODES: Definition = Definition::counter(
    "extender_gateway_backend_known_nodes_total",
    &["backend", "verb", "source"],
    "Nodes about which backends were not asked, because the answer was known",
);
pub(super) const BACKEND_REJECTED_NODES: Definition = Definition::counter(
    "extender_gateway_backend_rejected_nodes_total",
    &["backend", "reason"],
    "Nodes that backends rejected",
);
pub(super) const BACKEND_REJECTED_RATIO: Definition = Definition::histogram(
    ("extender_gateway_backend_rejected_ratio", SHARES),
    BACKEND,
    "Share of the nodes of a filter call that a backend rejected",
);
pub(super) const BACKEND_CLAMPED_SCORES: Definition = Definition::counter(
    "extender_gateway_backend_clamped_scores_total",
    BACKEND,
    "Raw scores outside the range that their backend declares",
);
pub(super) const BACKEND_SHADOW_ANSWERS: Definition = Definition::counter(
    "extender_gateway_backend_shadow_answers_total",
    &["backend", "verb", "outcome"],
    "Answers of backends in shadow, by what they think of the decision",
);
pub(super) const BACKEND_MEMORY_DISAGREEMENTS: Definition = Definition::counter(
    "extender_gateway_backend_memory_disagreements_total",
    BACKEND_VERB,
    "Times that a verb declared pure was found not to be",
);
pub(super) const BACKEND_TABLE_MISSES: Definition = Definition::counter(
    "extender_gateway_backend_table_misses_total",
    BACKEND,
    "Calls in which a backend did not hold the nodes that were named, so that they were sent",
);
pub(super) const BACKEND_SENT_BYTES: Definition = Definition::counter(
    "extender_gateway_backend_sent_bytes_total",
    BACKEND_VERB,
    "Bytes of the messages sent to backends in calls",
);
pub(super) const BACKEND_RECEIVED_BYTES: Definition = Definition::counter(
    "extender_gateway_backend_received_bytes_total",
    BACKEND_VERB,
    "Bytes of the messages received from backends in calls",
);
pub(super) const BACKEND_CONNECTED: Definition = Definition::gauge(
    "extender_gateway_backend_connected",
    BACKEND,
    "1 where there is a connection whose handshake succeeded, otherwise 0",
);

pub(super) const UNKNOWN_NODES: Definition = Definition::counter(
    "extender_gateway_unknown_nodes_total",
    &[],
    "Nodes rejected because the gateway did not know them yet",
);
pub(super) const PANICS: Definition =
    Definition::counter("extender_gateway_panics_total", &[], "Calls that ended in a panic");
pub(super) const HELD_REASONS: Definition = Definition::counter(
    "extender_gateway_held_reasons_total",
    &[],
    "Reasons that had changed between attempts and went out as they were first",
);
pub(super) const FORGOTTEN_REASONS: Definition = Definition::counter(
    "extender_gateway_forgotten_reasons_total",
    &[],
    "Reasons of nodes that found no room to be remembered until the next attempt",
);
pub(super) const REPEATED_REFUSALS: Definition = Definition::counter(
    "extender_gateway_repeated_refusals_total",
    &[],
    "Filter calls answered with an error because the pod is refused over and over",
);
pub(super) const UNCOUNTED_REFUSALS: Definition = Definition::counter(
    "extender_gateway_uncounted_refusals_total",
    &[],
    "Filter calls that refused a pod on all nodes and found no room to remember that",
);

pub(super) const CONFIGURATION_RELOADS: Definition = Definition::counter(
    "extender_gateway_configuration_reloads_total",
    &["outcome"],
    "Attempts to use a changed configuration",
);
pub(super) const CONFIGURATION_GENERATION: Definition = Definition::gauge(
    "extender_gateway_configuration_generation",
    &[],
    "The configuration in use, counted from 1 at the start",
);
pub(super) const CONFIGURATION_LOADED: Definition = Definition::gauge(
    "extender_gateway_configuration_loaded_timestamp_seconds",
    &[],
    "Since when the configuration is in use, in seconds since 1970",
);

pub(super) const KNOWN_NODES: Definition =
    Definition::gauge("extender_gateway_known_nodes", &[], "Nodes that the gateway knows");
pub(super) const NODES_SYNCED: Definition = Definition::gauge(
    "extender_gateway_nodes_synced",
    &[],
    "1 once the nodes have been listed, before that 0",
);
pub(super) const NODES_SILENCE: Definition = Definition::gauge(
    "extender_gateway_nodes_silence_seconds",
    &[],
    "Time since the watch of nodes was last heard of",
);
pub(super) const KNOWN_PODS: Definition =
    Definition::gauge("extender_gateway_known_pods", &[], "Pods that the gateway knows");
pub(super) const PODS_SYNCED: Definition =
    Definition::gauge("extender_gateway_pods_synced", &[], "1 once the pods have been listed, before that 0");
pub(super) const PODS_SILENCE: Definition = Definition::gauge(
    "extender_gateway_pods_silence_seconds",
    &[],
    "Time since the watch of pods was last heard of",
);

pub(super) const DECISION_LOG_BYTES: Definition =
    Definition::gauge("extender_gateway_decision_log_bytes", &[], "Bytes that the decision log holds");
pub(super) const DECISION_LOG_LIMIT: Definition = Definition::gauge(
    "extender_gateway_decision_log_limit_bytes",
    &[],
    "Bytes that the decision log may hold",
);
pub(super) const DECISION_LOG_CALLS: Definition =
    Definition::gauge("extender_gateway_decision_log_calls", &[], "Calls in the decision log");
pub(super) const DECISION_LOG_PODS: Definition =
    Definition::gauge("extender_gateway_decision_log_pods", &[], "Pods in the decision log");
pub(super) const DECISION_LOG_EVICTIONS: Definition = Definition::counter(
    "extender_gateway_decision_log_evictions_total",
    &[],
    "Calls that left the decision log to make room",
);

pub(super) const CALL_THREAD_SILENCE: Definition = Definition::gauge(
    "extender_gateway_call_thread_silence_seconds",
    &[],
    "Time since the thread that answers calls was last seen to run",
);
pub(super) const LOST_LOG_LINES: Definition = Definition::counter(
    "extender_gateway_lost_log_lines_total",
    &[],
    "Log lines that were dropped because standard error was not read",
);

pub(super) const EXPORTED_SPANS: Definition =
    Definition::counter("extender_gateway_exported_spans_total", &[], "Spans that the collector took");
pub(super) const DROPPED_SPANS: Definition = Definition::counter(
    "extender_gateway_dropped_spans_total",
    &[],
    "Spans that were lost: the queue was full or the collector did not take them",
);
pub(super) const BUILD_INFO: Definition =
    Definition::gauge("extender_gateway_build_info", &["version"], "1, with the version of the program");

/// Those whose value is asked for when it is read.
pub(super) const ASKED: [&Definition; 14] = [
    &BACKEND_CONNECTED,
    &CALL_THREAD_SILENCE,
    &CONFIGURATION_GENERATION,
    &CONFIGURATION_LOADED,
    &KNOWN_NODES,
    &NODES_SYNCED,
    &NODES_SILENCE,
    &KNOWN_PODS,
    &PODS_SYNCED,
    &PODS_SILENCE,
    &DECISION_LOG_BYTES,
    &DECISION_LOG_LIMIT,
    &DECISION_LOG_CALLS,
    &DECISION_LOG_PODS,
];
