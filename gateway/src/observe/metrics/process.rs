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
            "Panics caught in calls, in their background work, and in connections to backends",
            &self.panics,
        )?;
        page.single(
            "extender_gateway_held_reasons_total",
            "Changed reasons replaced by the text of the first attempt",
            &self.held_reasons,
        )?;
        page.single(
            "extender_gateway_forgotten_reasons_total",
            "Reasons dropped because the memory for reasons is full",
            &self.forgotten_reasons,
        )?;
        page.single(
            "extender_gateway_repeated_refusals_total",
            "Filter calls answered with an error because the pod was rejected repeatedly",
            &self.repeated_refusals,
        )?;
        page.single(
            "extender_gateway_uncounted_refusals_total",
            "Rejections on all nodes that were not tracked because the memory for pods is full",
            &self.uncounted_refusals,
        )?;
        self.write_losses(page)?;
        self.write_of_process(page)
    }

    /// Metrics that are not about calls.
    fn write_of_process(&self, page: &mut Page<'_>) -> fmt::Result {
        let reloads = self.configuration_reloads.all().into_iter();
        page.family(
            "extender_gateway_configuration_reloads_total",
            "Configuration reloads, by outcome",
            reloads.map(|(outcome, count)| ([("outcome", outcome)], ConstCounter::new(count))),
        )?;
        page.family(
            "extender_gateway_build_info",
            "Build information; always 1",
            [([("version", env!("CARGO_PKG_VERSION"))], ConstGauge::new(1_i64))],
        )
    }

    /// Observability data, and how much of it was lost.
    fn write_losses(&self, page: &mut Page<'_>) -> fmt::Result {
        page.single(
            "extender_gateway_decision_log_evictions_total",
            "Calls evicted from the decision log",
            &self.decision_log_evictions,
        )?;
        let dropped = self.dropped_connections.all().into_iter();
        page.family(
            "extender_gateway_dropped_connections_total",
            "Connections rejected, or closed to make room or because they sent no request",
            dropped.map(|((address, cause), count)| {
                ([("address", address), ("cause", cause)], ConstCounter::new(count))
            }),
        )?;
        page.single(
            "extender_gateway_lost_log_lines_total",
            "Log lines dropped because standard error was not read",
            &self.lost_log_lines,
        )?;
        page.single(
            "extender_gateway_exported_spans_total",
            "Spans exported to the collector",
            &self.exported_spans,
        )?;
        page.single(
            "extender_gateway_dropped_spans_total",
            "Spans lost because the queue was full or the export failed",
            &self.dropped_spans,
        )
    }
}
