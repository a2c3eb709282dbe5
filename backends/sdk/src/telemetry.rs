//! Whether and where the spans of traced calls are sent.

#[cfg(not(feature = "otlp"))]
mod none;
#[cfg(feature = "otlp")]
mod otlp;

use std::{collections::HashMap, sync::Arc};

#[cfg(not(feature = "otlp"))]
pub(crate) use self::none::NoTracer as Tracer;
#[cfg(feature = "otlp")]
pub(crate) use self::otlp::Tracer;

/// Where the spans of traced calls go: to an OpenTelemetry collector, by the standard `OTEL_*` variables.
///
/// Each call says whether it is traced. If it is, and the variables name a collector, a span
/// `extender.policy.v1beta1.PolicyService/Filter` (or another verb) of the policy's work is sent, as a part of
/// the gateway's trace; that of a hook is `extender.policy.v1beta1.HookService/Change`, and its attribute `extender.hook` says
/// which. service.name is the policy's name, unless `OTEL_SERVICE_NAME` is set. Otherwise
/// only one header is read. If the collector is unavailable, spans are lost, and calls are not affected.
///
/// | variable | what |
/// |---|---|
/// | `OTEL_EXPORTER_OTLP_ENDPOINT`, `OTEL_EXPORTER_OTLP_TRACES_ENDPOINT` | such as `http://127.0.0.1:4317`; without, nothing is sent |
/// | `OTEL_EXPORTER_OTLP_PROTOCOL` | grpc or http/protobuf; default: grpc for port 4317, else http/protobuf |
/// | `OTEL_EXPORTER_OTLP_HEADERS`, `_TIMEOUT`, `_CERTIFICATE` | key=value,…; milliseconds; a file |
/// | `OTEL_TRACES_EXPORTER` | otlp or none |
/// | `OTEL_TRACES_SAMPLER`, `OTEL_TRACES_SAMPLER_ARG` | default: `parentbased_always_on`, as the gateway says |
/// | `OTEL_SERVICE_NAME`, `OTEL_RESOURCE_ATTRIBUTES` | the sender |
/// | `OTEL_BSP_*` | the queue of spans |
/// | `OTEL_SDK_DISABLED` | true: nothing is sent |
///
/// This needs the crate's feature `otlp`. Without it nothing is sent: a collector that the environment names is a warning in the
/// log, and one that the program names an error.
#[derive(Clone, Debug, Default)]
pub struct Telemetry {
    source: Variables,
    /// `service.name` of a backend that has no name before its first call.
    #[cfg_attr(not(feature = "otlp"), expect(dead_code, reason = "no span is sent"))]
    service: Option<String>,
}

#[derive(Clone, Debug, Default)]
enum Variables {
    #[default]
    Environment,
    Given(Arc<HashMap<String, String>>),
}

impl Telemetry {
    /// As the variables of this process configure. The default.
    pub fn environment() -> Self {
        Self::default()
    }

    /// Nothing is sent, whatever the environment says.
    pub fn off() -> Self {
        Self::variables([])
    }

    /// As if these were the variables of this process, and no others.
    pub fn variables<'a>(variables: impl IntoIterator<Item = (&'a str, &'a str)>) -> Self {
        let owned = |(name, value): (&str, &str)| (name.to_owned(), value.to_owned());
        Self { source: Variables::Given(Arc::new(variables.into_iter().map(owned).collect())), service: None }
    }

    /// The `service.name` of a backend that is built from args and has no name before its first call. Default: the
    /// program's name. `OTEL_SERVICE_NAME` takes precedence.
    #[must_use]
    pub fn service_name(self, name: impl Into<String>) -> Self {
        Self { service: Some(name.into()), ..self }
    }
}

/// Why the configured spans cannot be sent: one sentence for operators.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("{0}")]
pub struct TelemetryError(String);
