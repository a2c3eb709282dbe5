//! Counters of the whole process.

use std::fmt;

use prometheus_client::metrics::{
    counter::{ConstCounter, Counter},
    gauge::ConstGauge,
};

use super::{few::Few, page::Page};

#[derive(Debug, Default)]
pub(super) struct Process {
    pub(super) unknown_nodes: Counter,
    pub(super) panics: Counter,
    pub(super) held_reasons: Counter,
    pub(super) forgotten_reasons: Counter,
    pub(super) repeated_refusals: Counter,
    pub(super) uncounted_refusals: Counter,
    pub(super) configuration_reloads: Few<&'static str>,
    pub(super) decision_log_evictions: Counter,
    /// By address and cause.
    pub(super) dropped_connections: Few<(&'static str, &'static str)>,
    pub(super) lost_log_lines: Counter,
    pub(super) exported_spans: Counter,
    pub(super) dropped_spans: Counter,
}

impl Process {
    pub(super) fn write(&self, page: &mut Page<'_>) -> fmt::Result {
        page.single(
            "extender_gateway_unknown_nodes_total",
            "Nodes rejected because the gateway did not know them yet",
            &self.unknown_nodes,
        )?;
        page.single(
            "extender_gateway_panics_total",
            "Panics that were caught: in calls, in what follows them, and in connections to backends",
            &self.panics,
        )?;
        page.single(
            "extender_gateway_held_reasons_total",
            "Reasons that had changed between attempts and went out as they were first",
            &self.held_reasons,
        )?;
        page.single(
            "extender_gateway_forgotten_reasons_total",
            "Reasons of nodes that found no room to be remembered until the next attempt",
            &self.forgotten_reasons,
        )?;
        page.single(
            "extender_gateway_repeated_refusals_total",
            "Filter calls answered with an error because the pod is refused over and over",
            &self.repeated_refusals,
        )?;
        page.single(
            "extender_gateway_uncounted_refusals_total",
            "Filter calls that refused a pod on all nodes and found no room to remember that",
            &self.uncounted_refusals,
        )?;
        self.write_losses(page)?;
        self.write_of_process(page)
    }

    /// What is not about calls.
    fn write_of_process(&self, page: &mut Page<'_>) -> fmt::Result {
        let reloads = self.configuration_reloads.all().into_iter();
        page.family(
            "extender_gateway_configuration_reloads_total",
            "Attempts to use a changed configuration",
            reloads.map(|(outcome, count)| ([("outcome", outcome)], ConstCounter::new(count))),
        )?;
        page.family(
            "extender_gateway_build_info",
            "1, with the version of the program",
            [([("version", env!("CARGO_PKG_VERSION"))], ConstGauge::new(1_i64))],
        )
    }

    /// What was made to be seen, and was lost.
    fn write_losses(&self, page: &mut Page<'_>) -> fmt::Result {
        page.single(
            "extender_gateway_decision_log_evictions_total",
            "Calls that left the decision log to make room",
            &self.decision_log_evictions,
        )?;
        let dropped = self.dropped_connections.all().into_iter();
        page.family(
            "extender_gateway_dropped_connections_total",
            "Connections that were not accepted, or closed to make room or because they brought no request",
            dropped.map(|((address, cause), count)| {
                ([("address", address), ("cause", cause)], ConstCounter::new(count))
            }),
        )?;
        page.single(
            "extender_gateway_lost_log_lines_total",
            "Log lines that were dropped because standard error was not read",
            &self.lost_log_lines,
        )?;
        page.single(
            "extender_gateway_exported_spans_total",
            "Spans that the collector took",
            &self.exported_spans,
        )?;
        page.single(
            "extender_gateway_dropped_spans_total",
            "Spans that were lost: the queue was full or the collector did not take them",
            &self.dropped_spans,
        )
    }
}
