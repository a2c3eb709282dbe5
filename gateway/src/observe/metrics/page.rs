//! Writes families of series one after the other, and defines the kinds of series that several files use.

use std::fmt::{self, Write as _};

use prometheus_client::{
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeLabelValue, EncodeMetric, LabelValueEncoder},
    metrics::{TypedMetric, exemplar::HistogramWithExemplars},
    registry::Unit,
};
use std::time::{Duration, SystemTime};

/// kube-scheduler's own buckets, extended: from 0.1 ms, times 2, up to 13.1 s. The first buckets are those of its
/// `scheduler_framework_extension_point_duration_seconds`.
const LADDER: [f64; 18] = [
    0.0001, 0.0002, 0.0004, 0.0008, 0.0016, 0.0032, 0.0064, 0.0128, 0.0256, 0.0512, 0.1024, 0.2048, 0.4096,
    0.8192, 1.6384, 3.2768, 6.5536, 13.1072,
];

/// The id of the trace that a value belongs to, in the form of W3C Trace Context.
pub type Trace = [u8; 16];

/// The page that a scrape reads. Names are written as they are exposed: dashboards and alerts depend on them.
#[derive(Debug)]
pub(super) struct Page<'a>(DescriptorEncoder<'a>);

impl<'a> Page<'a> {
    pub(super) fn new(encoder: DescriptorEncoder<'a>) -> Self {
        Self(encoder)
    }

    /// A metric without labels.
    pub(super) fn single<M: EncodeMetric + TypedMetric>(
        &mut self,
        name: &str,
        help: &str,
        value: &M,
    ) -> fmt::Result {
        let (base, unit) = parts(name);
        value.encode(self.0.encode_descriptor(base, help, unit.as_ref(), M::TYPE)?)
    }

    /// A metric with labels: its series, each with its label values. Omitted without series.
    pub(super) fn family<L, M>(
        &mut self,
        name: &str,
        help: &str,
        series: impl IntoIterator<Item = (L, M)>,
    ) -> fmt::Result
    where
        L: EncodeLabelSet,
        M: EncodeMetric + TypedMetric,
    {
        let mut series = series.into_iter().peekable();
        if series.peek().is_none() {
            return Ok(());
        }
        let (base, unit) = parts(name);
        let mut family = self.0.encode_descriptor(base, help, unit.as_ref(), M::TYPE)?;
        for (labels, value) in series {
            value.encode(family.encode_family(&labels)?)?;
        }
        Ok(())
    }
}

/// A name without the suffixes that the encoder writes itself: `_total` of counters, and the unit.
fn parts(name: &str) -> (&str, Option<Unit>) {
    let family = name.strip_suffix("_total").unwrap_or(name);
    match family.rsplit_once('_') {
        Some((base, "seconds")) => (base, Some(Unit::Seconds)),
        Some((base, "bytes")) => (base, Some(Unit::Bytes)),
        Some((base, "ratio")) => (base, Some(Unit::Other("ratio".to_owned()))),
        _ => (family, None),
    }
}

/// How long calls took. Each bucket keeps the latest trace whose duration is known.
#[derive(Debug, Clone)]
pub(super) struct Durations(HistogramWithExemplars<[(&'static str, TraceId); 1]>);

#[derive(Debug)]
struct TraceId(Trace);

impl EncodeLabelValue for TraceId {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(encoder, "{byte:02x}"))
    }
}

impl Default for Durations {
    fn default() -> Self {
        Self(HistogramWithExemplars::new(LADDER.into_iter()))
    }
}

impl Durations {
    pub(super) fn observe(&self, took: Duration, trace: Option<Trace>) {
        let exemplar = trace.map(|trace| [("trace_id", TraceId(trace))]);
        let time = exemplar.as_ref().map(|_| SystemTime::now());
        self.0.observe(took.as_secs_f64(), exemplar, time);
    }

    /// The series for a page.
    pub(super) fn series(&self) -> HistogramWithExemplars<impl EncodeLabelSet + use<>> {
        self.0.clone()
    }
}
