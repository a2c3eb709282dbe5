//! W3C trace context, span records and their export to an OpenTelemetry collector, for the gateway and for
//! policies.
//!
//! - [`TraceContext`] reads and writes `traceparent`; [`ids`] makes new ids.
//! - [`Ratio`] and [`Sampler`] decide what is kept.
//! - [`Settings`] come from the standard `OTEL_*` variables and from a configuration ([`Explicit`]).
//! - [`Exporters`] send spans; [`Spans`] queues each finished [`Span`].
//!
//! Spans are recorded after they have ended, with ids that were created before: calls pass through no tracer, so an
//! untraced call costs nothing.

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
    settings::{Batch, Explicit, Export, Exporter, Program, Protocol, Settings},
    span::{Parent, Span},
    spans::{Delivery, Spans},
};
