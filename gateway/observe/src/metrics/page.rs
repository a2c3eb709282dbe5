//! Writes families of series one after the other.

use std::fmt;

use prometheus_client::{
    encoding::{DescriptorEncoder, EncodeLabelSet, EncodeMetric},
    metrics::TypedMetric,
    registry::Unit,
};

/// Writes families one after the other: the name, the help text, and the series with their label values.
macro_rules! families {
    ($page:expr; $($name:literal, $help:literal => $series:expr;)*) => {{
        $($page.family($name, $help, $series)?;)*
        Ok(())
    }};
}

pub(super) use families;

/// The page that a scrape reads. Names are written as they are exposed: dashboards and alerts depend on them.
#[derive(Debug)]
pub(super) struct Page<'a>(pub(super) DescriptorEncoder<'a>);

impl Page<'_> {
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
