//! The same metrics as instruments of OpenTelemetry, under the same names.
//!
//! Counters and gauges are read when they are exported, so that they cost nothing before. Only a histogram has to be
//! told of each value, since OpenTelemetry cannot be given one that is already counted.

use std::sync::Arc;

use opentelemetry::{
    KeyValue,
    metrics::{self, Meter},
};

use super::{
    definition::{Definition, Kind},
    family::Family,
    gauge::Asked,
    number::{Counter, Level},
};

/// One series of a histogram as OpenTelemetry has it.
#[derive(Debug)]
pub(super) struct Recorder {
    instrument: metrics::Histogram<f64>,
    attributes: Vec<KeyValue>,
}

impl Recorder {
    /// The series of these values of the labels.
    pub(super) fn new(
        instrument: metrics::Histogram<f64>,
        definition: &Definition,
        values: &[String],
    ) -> Self {
        Self { instrument, attributes: attributes(definition, values) }
    }

    /// Records a value.
    pub(super) fn record(&self, value: f64) {
        self.instrument.record(value, &self.attributes);
    }
}

/// Lets a counter be exported.
pub(super) fn counter(meter: &Meter, family: &Arc<Family<Counter>>) {
    let (definition, family) = (family.definition, Arc::clone(family));
    let observe = move |observer: &dyn metrics::AsyncInstrument<u64>| {
        family.each(|values, counter| observer.observe(counter.read(), &attributes(definition, values)));
    };
    let builder = meter.u64_observable_counter(definition.name).with_description(definition.help);
    builder.with_unit(unit(definition)).with_callback(observe).build();
}

/// Lets a gauge be exported that is counted here.
pub(super) fn level(meter: &Meter, family: &Arc<Family<Level>>) {
    let (definition, family) = (family.definition, Arc::clone(family));
    let observe = move |observer: &dyn metrics::AsyncInstrument<i64>| {
        family.each(|values, level| observer.observe(level.read(), &attributes(definition, values)));
    };
    let builder = meter.i64_observable_gauge(definition.name).with_description(definition.help);
    builder.with_unit(unit(definition)).with_callback(observe).build();
}

/// Lets a gauge be exported whose owner is asked.
pub(super) fn asked(meter: &Meter, gauge: &Arc<Asked>) {
    let (definition, gauge) = (gauge.definition, Arc::clone(gauge));
    let observe = move |observer: &dyn metrics::AsyncInstrument<f64>| {
        for (values, value) in gauge.values() {
            observer.observe(value, &attributes(definition, &values));
        }
    };
    let builder = meter.f64_observable_gauge(definition.name).with_description(definition.help);
    builder.with_unit(unit(definition)).with_callback(observe).build();
}

/// What the values of a histogram are recorded with.
pub(super) fn histogram(meter: &Meter, definition: &Definition) -> metrics::Histogram<f64> {
    let builder = meter.f64_histogram(definition.name).with_description(definition.help);
    let builder = builder.with_unit(unit(definition));
    match definition.kind {
        Kind::Histogram(boundaries) => builder.with_boundaries(boundaries.to_vec()).build(),
        Kind::Counter | Kind::Gauge => builder.build(),
    }
}

fn attributes(definition: &Definition, values: &[String]) -> Vec<KeyValue> {
    let labels = definition.labels.iter().zip(values);
    labels.map(|(label, value)| KeyValue::new(*label, value.clone())).collect()
}

/// The unit, as UCUM writes it; none for what is counted: for 1, which is the unit of ratios, stores add `_ratio` to the
/// names of gauges.
fn unit(definition: &Definition) -> &'static str {
    match definition.unit() {
        Some("seconds") => "s",
        Some("bytes") => "By",
        Some("ratio") => "1",
        _ => "",
    }
}

#[cfg(test)]
mod tests;
