//! Settings of the exporter: the standard `OTEL_*` variables, overridden by the configuration. A variable that cannot be
//! read counts as unset, with a warning, as OpenTelemetry's specification requires: others set them, and no program ends
//! for the sake of its traces.

mod export;
mod variables;

use std::{fmt, num::NonZero, time::Duration};

use opentelemetry::{InstrumentationScope, KeyValue};
use opentelemetry_semantic_conventions::attribute::{SERVICE_INSTANCE_ID, SERVICE_NAME, SERVICE_VERSION};

pub use self::export::{Export, Exporter, Protocol};
use self::variables::{Variables, milliseconds, pairs};
use crate::{Ratio, Sampler, ids};

/// The program that sends spans.
#[derive(Clone, Debug)]
pub struct Program {
    /// service.name, unless variables or configuration set another.
    pub service: String,
    /// service.version.
    pub version: String,
    /// What makes the spans.
    pub scope: InstrumentationScope,
}

/// Settings of a configuration. They override the variables; `None` leaves the setting to them.
#[derive(Clone, Debug, Default)]
pub struct Explicit {
    /// Where the collector listens, such as `http://127.0.0.1:4317`; for HTTP without `/v1/traces`.
    pub endpoint: Option<String>,
    /// The protocol.
    pub protocol: Option<Protocol>,
    /// How long an export may take.
    pub timeout: Option<Duration>,
    /// Whether spans are sent.
    pub traces: Option<Exporter>,
    /// The share of traces that begin here. Decisions of callers take precedence.
    pub ratio: Option<Ratio>,
}

/// The settings of [`Exporters`](crate::Exporters).
#[derive(Clone, Debug)]
pub struct Settings {
    /// The resource of the spans: service.name, service.version, service.instance.id and the attributes of
    /// `OTEL_RESOURCE_ATTRIBUTES`.
    pub resource: Vec<KeyValue>,
    /// What makes the spans.
    pub scope: InstrumentationScope,
    /// Where spans go; `None` when they are not sent.
    pub traces: Option<Export>,
    /// Which traces are kept.
    pub sampler: Sampler,
    /// How spans are batched.
    pub batch: Batch,
    /// One sentence for each variable that counts as unset because it cannot be read, without values of headers.
    pub warnings: Vec<String>,
}

/// How spans are batched: `OTEL_BSP_*`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Batch {
    /// The size of the queue; spans beyond it are dropped. 1 to 1,000,000.
    pub queue: NonZero<usize>,
    /// The maximum per request; at most the size of the queue.
    pub size: NonZero<usize>,
    /// The maximum delay of a span while fewer than `size` are queued.
    pub delay: Duration,
    /// How long sending a batch may take, in addition to the timeout of the exporter.
    pub timeout: Duration,
}

const MOST_WAITING: usize = 1_000_000;

/// The defaults of the OpenTelemetry SDK specification.
const QUEUE: NonZero<usize> = NonZero::new(2048).unwrap();
const SIZE: NonZero<usize> = NonZero::new(512).unwrap();
const DELAY: Duration = Duration::from_secs(5);
const BATCH_TIMEOUT: Duration = Duration::from_secs(30);

impl Default for Batch {
    fn default() -> Self {
        Self { queue: QUEUE, size: SIZE, delay: DELAY, timeout: BATCH_TIMEOUT }
    }
}

impl Settings {
    /// From variables, which `lookup` returns by name, and a configuration. Spans are sent if the configuration or
    /// `OTEL_TRACES_EXPORTER` enables it or, if neither is set, if an endpoint is set. `OTEL_SDK_DISABLED=true`
    /// disables them unless the configuration enables them. An empty variable counts as unset. Without an exporter,
    /// other variables are ignored.
    pub fn resolve(program: Program, explicit: &Explicit, lookup: impl Fn(&str) -> Option<String>) -> Self {
        let mut variables = Variables::new(&lookup);
        let traces = export::traces(explicit, &mut variables);
        Self {
            sampler: traces.as_ref().map(|_| sampler(explicit, &mut variables)).unwrap_or_default(),
            batch: traces.as_ref().map(|_| batch(&mut variables)).unwrap_or_default(),
            resource: traces.as_ref().map(|_| resource(&program, &mut variables)).unwrap_or_default(),
            scope: program.scope,
            traces,
            warnings: variables.mistakes(),
        }
    }
}

fn resource(program: &Program, variables: &mut Variables<'_>) -> Vec<KeyValue> {
    let attributes = variables.read("OTEL_RESOURCE_ATTRIBUTES", pairs).unwrap_or_default();
    let mut resource: Vec<_> = attributes.into_iter().map(|(key, value)| KeyValue::new(key, value)).collect();
    let mut otherwise = |key: &'static str, value: &mut dyn FnMut() -> String| {
        if !resource.iter().any(|attribute| attribute.key.as_str() == key) {
            resource.push(KeyValue::new(key, value()));
        }
    };
    otherwise(SERVICE_NAME, &mut || program.service.clone());
    otherwise(SERVICE_VERSION, &mut || program.version.clone());
    otherwise(SERVICE_INSTANCE_ID, &mut || ids::trace().to_string());
    if let Some(name) = variables.text("OTEL_SERVICE_NAME") {
        resource.retain(|attribute| attribute.key.as_str() != SERVICE_NAME);
        resource.push(KeyValue::new(SERVICE_NAME, name));
    }
    resource
}

fn sampler(explicit: &Explicit, variables: &mut Variables<'_>) -> Sampler {
    if let Some(ratio) = explicit.ratio {
        return Sampler::Parent(ratio);
    }
    let ratio = variables.read("OTEL_TRACES_SAMPLER_ARG", ratio).unwrap_or(Ratio::ALL);
    let named = |name: &str| match name {
        "always_on" => Ok(Sampler::Own(Ratio::ALL)),
        "always_off" => Ok(Sampler::Own(Ratio::NONE)),
        "traceidratio" => Ok(Sampler::Own(ratio)),
        "parentbased_always_on" => Ok(Sampler::Parent(Ratio::ALL)),
        "parentbased_always_off" => Ok(Sampler::Parent(Ratio::NONE)),
        "parentbased_traceidratio" => Ok(Sampler::Parent(ratio)),
        _ => {
            Err("expected always_on, always_off, traceidratio, or one of these with the prefix parentbased_")
        }
    };
    variables.read("OTEL_TRACES_SAMPLER", named).unwrap_or_default()
}

fn ratio(text: &str) -> Result<Ratio, &'static str> {
    let share = text.parse().ok().and_then(|share| Ratio::new(share).ok());
    share.ok_or("expected a number from 0 to 1 such as 0.01")
}

fn batch(variables: &mut Variables<'_>) -> Batch {
    let queue = variables.read("OTEL_BSP_MAX_QUEUE_SIZE", spans).unwrap_or(QUEUE);
    let size = |text: &str| {
        let size = spans(text).map_err(str::to_owned)?;
        if size <= queue { Ok(size) } else { Err(format!("expected at most {queue}, the size of the queue")) }
    };
    Batch {
        queue,
        size: variables.read("OTEL_BSP_MAX_EXPORT_BATCH_SIZE", size).unwrap_or(SIZE.min(queue)),
        delay: variables.read("OTEL_BSP_SCHEDULE_DELAY", milliseconds).unwrap_or(DELAY),
        timeout: variables.read("OTEL_BSP_EXPORT_TIMEOUT", milliseconds).unwrap_or(BATCH_TIMEOUT),
    }
}

fn spans(text: &str) -> Result<NonZero<usize>, &'static str> {
    let count = text.parse().ok().filter(|count: &NonZero<usize>| count.get() <= MOST_WAITING);
    count.ok_or("expected a number of spans from 1 to 1000000")
}

impl fmt::Display for Settings {
    /// One line for the log, without headers.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match &self.traces {
            None => f.write_str("no traces"),
            Some(export) => write!(f, "traces to {} by {}", export.endpoint, export.protocol),
        }
    }
}

#[cfg(test)]
mod tests;
