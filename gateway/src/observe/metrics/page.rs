//! Metrics as text, in both formats.
//!
//! `OpenMetrics` calls a counter's family by its name without `_total`, names units, has exemplars and says where
//! it ends. All else is the same.

use std::fmt::{self, Display, Write};

use super::{
    definition::Definition,
    format::Format,
    histogram::{Exemplar, Histogram, Trace},
    number::{Counter, Level},
};

/// The text of all metrics, while it is written.
#[derive(Debug)]
pub(super) struct Page {
    format: Format,
    out: String,
}

/// What a metric writes of one of its series.
pub(super) trait Series {
    /// The samples of this series.
    fn write(&self, sample: Sample<'_>, page: &mut Page);
}

/// What a sample is called: a metric, and the values of its labels.
#[derive(Debug, Clone, Copy)]
pub(super) struct Sample<'a> {
    definition: &'static Definition,
    values: &'a [String],
    /// What stands behind the metric's name.
    suffix: &'static str,
    /// The boundary of a histogram's bucket.
    le: Option<f64>,
}

impl Page {
    /// An empty one.
    pub(super) fn new(format: Format) -> Self {
        Self { format, out: String::new() }
    }

    /// A metric with all its samples, or nothing when there are none.
    pub(super) fn metric(&mut self, definition: &'static Definition, samples: impl FnOnce(&mut Self)) {
        let before = self.out.len();
        self.head(definition);
        let empty = self.out.len();
        samples(self);
        if self.out.len() == empty {
            self.out.truncate(before);
        }
    }

    /// The text, with its end.
    pub(super) fn finish(mut self) -> String {
        if self.is_open_metrics() {
            self.line(format_args!("# EOF"));
        }
        self.out
    }

    /// One sample.
    pub(super) fn sample(&mut self, sample: Sample<'_>, value: impl Display) {
        self.line(format_args!("{sample} {value}"));
    }

    fn head(&mut self, definition: &Definition) {
        let open_metrics = self.is_open_metrics();
        let name = if open_metrics { definition.family() } else { definition.name };
        self.line(format_args!("# HELP {name} {}", definition.help));
        self.line(format_args!("# TYPE {name} {}", definition.kind.as_str()));
        if let Some(unit) = definition.unit().filter(|_| open_metrics) {
            self.line(format_args!("# UNIT {name} {unit}"));
        }
    }

    fn bucket(&mut self, sample: Sample<'_>, (count, exemplar): (u64, Option<Exemplar>)) {
        match exemplar.filter(|_| self.is_open_metrics()) {
            Some(exemplar) => self.sample(sample, format_args!("{count} # {exemplar}")),
            None => self.sample(sample, count),
        }
    }

    fn line(&mut self, line: fmt::Arguments<'_>) {
        // Writing to a String does not fail.
        let _ = writeln!(self.out, "{line}");
    }

    fn is_open_metrics(&self) -> bool {
        matches!(self.format, Format::OpenMetrics(_))
    }
}

impl<'a> Sample<'a> {
    /// The series of a metric with these values of its labels.
    pub(super) fn new(definition: &'static Definition, values: &'a [String]) -> Self {
        Self { definition, values, suffix: "", le: None }
    }

    fn suffixed(self, suffix: &'static str) -> Self {
        Self { suffix, ..self }
    }

    fn below(self, boundary: f64) -> Self {
        Self { suffix: "_bucket", le: Some(boundary), ..self }
    }
}

impl Display for Sample<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.definition.name, self.suffix)?;
        let mut opening = '{';
        for (label, value) in self.definition.labels.iter().zip(self.values) {
            write!(f, "{opening}{label}=\"{}\"", escaped(value))?;
            opening = ',';
        }
        match self.le {
            Some(f64::INFINITY) => write!(f, "{opening}le=\"+Inf\"}}"),
            Some(boundary) => write!(f, "{opening}le=\"{boundary:?}\"}}"),
            None if opening == ',' => f.write_str("}"),
            None => Ok(()),
        }
    }
}

fn escaped(value: &str) -> String {
    value.replace('\\', r"\\").replace('"', r#"\""#).replace('\n', r"\n")
}

impl Display for Exemplar {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{{trace_id=\"{}\"}} {} {:.3}", hexadecimal(self.trace), self.value, self.time)
    }
}

fn hexadecimal(trace: Trace) -> String {
    format!("{:032x}", u128::from_be_bytes(trace))
}

impl Series for Counter {
    fn write(&self, sample: Sample<'_>, page: &mut Page) {
        page.sample(sample, self.read());
    }
}

impl Series for Level {
    fn write(&self, sample: Sample<'_>, page: &mut Page) {
        page.sample(sample, self.read());
    }
}

impl Series for Histogram {
    fn write(&self, sample: Sample<'_>, page: &mut Page) {
        let spread = self.spread();
        for (boundary, count, exemplar) in &spread.rungs {
            page.bucket(sample.below(*boundary), (*count, *exemplar));
        }
        page.sample(sample.suffixed("_sum"), spread.sum);
        page.sample(sample.suffixed("_count"), spread.count());
    }
}

#[cfg(test)]
mod tests;
