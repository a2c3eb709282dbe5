//! What can be seen of the gateway, written out.

use std::fmt::{self, Formatter};

use super::super::{Admin, Config, Decisions, DurationText, Log, Metrics, Otlp, SizeText, Traces, Words};
use super::scalar;

pub(super) fn write(out: &mut Formatter<'_>, config: &Config) -> fmt::Result {
    let Metrics { address } = &config.metrics;
    writeln!(out, "metrics:\n  address: {}", scalar(address))?;
    let Admin { address } = &config.admin;
    writeln!(out, "admin:\n  address: {}", scalar(address))?;
    write_otlp(out, &config.otlp)?;
    write_traces(out, &config.traces)?;
    let Decisions { max_bytes } = config.decisions;
    writeln!(out, "decisions:\n  maxBytes: {}", SizeText(max_bytes))?;
    let Log { format, level } = config.log;
    writeln!(out, "log:\n  format: {}\n  level: {}", format.word(), level.word())
}

fn write_otlp(out: &mut Formatter<'_>, otlp: &Otlp) -> fmt::Result {
    let Otlp { endpoint, protocol, timeout } = otlp;
    if (endpoint, protocol, timeout) == (&None, &None, &None) {
        return writeln!(out, "otlp: {{}}  # as the OTEL_EXPORTER_OTLP_* variables say");
    }
    writeln!(out, "otlp:")?;
    match endpoint {
        Some(endpoint) => writeln!(out, "  endpoint: {}", scalar(endpoint))?,
        None => writeln!(out, "  # endpoint: OTEL_EXPORTER_OTLP_ENDPOINT")?,
    }
    match protocol {
        Some(protocol) => writeln!(out, "  protocol: {}", protocol.word())?,
        None => writeln!(out, "  # protocol: OTEL_EXPORTER_OTLP_PROTOCOL")?,
    }
    match timeout {
        Some(timeout) => writeln!(out, "  timeout: {}", DurationText(*timeout)),
        None => writeln!(out, "  # timeout: OTEL_EXPORTER_OTLP_TIMEOUT"),
    }
}

fn write_traces(out: &mut Formatter<'_>, traces: &Traces) -> fmt::Result {
    let Traces { exporter, ratio, keep_slower_than, pod_annotation } = traces;
    writeln!(out, "traces:")?;
    match exporter {
        Some(exporter) => writeln!(out, "  exporter: {}", exporter.word())?,
        None => writeln!(out, "  # exporter: OTLP where the OTEL_* variables say so, or None")?,
    }
    match ratio {
        Some(ratio) => writeln!(out, "  ratio: {ratio}")?,
        None => writeln!(out, "  # ratio: OTEL_TRACES_SAMPLER and OTEL_TRACES_SAMPLER_ARG, or 1")?,
    }
    writeln!(out, "  keepSlowerThan: {}", DurationText(*keep_slower_than))?;
    match pod_annotation {
        Some(name) => writeln!(out, "  podAnnotation: {}", scalar(name)),
        None => writeln!(out, "  # podAnnotation: none"),
    }
}
