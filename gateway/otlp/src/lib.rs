//! W3C trace context, span records and their way to an OpenTelemetry collector, for the gateway and for policies.
//!
//! - [`TraceContext`] reads and writes `traceparent`; [`ids`] makes new ids.
//! - [`Ratio`] and [`Sampler`] decide what is kept.
//! - [`Settings`] come from the standard `OTEL_*` variables and from what a configuration says ([`Explicit`]).
//! - [`Exporters`] start what sends; [`Spans`] takes each finished [`Span`].
//!
//! Spans are written down when they have ended, with ids that were made before: there is no tracer that calls go
//! through, so a call that nobody traces costs nothing.

mod context;
mod exporters;
pub mod grpc;
pub mod ids;
mod sampler;
mod settings;
mod span;
mod spans;

pub use self::{
    context::{Malformed, TRACEPARENT, TRACESTATE, TraceContext},
    exporters::{Exporters, StartError},
    sampler::{OutOfRange, Ratio, Sampler},
    settings::{Batch, Explicit, Export, Exporter, Program, Protocol, Settings, SettingsError},
    span::{Parent, Span},
    spans::{Delivery, Spans},
};
