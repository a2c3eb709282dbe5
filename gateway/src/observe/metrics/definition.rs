//! What a metric is called and what it means.

/// A metric: everything that texts, instruments and the documentation say of it.
#[derive(Debug, PartialEq)]
pub(crate) struct Definition {
    /// The name of its samples in every format; a histogram's have `_bucket`, `_sum` and `_count` behind it.
    pub(crate) name: &'static str,
    /// How it moves.
    pub(crate) kind: Kind,
    /// What tells its series apart.
    pub(crate) labels: &'static [&'static str],
    /// One sentence without a full stop.
    pub(crate) help: &'static str,
}

/// How a metric moves.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(crate) enum Kind {
    /// It only grows, from 0 at the start.
    Counter,
    /// It is what is so now.
    Gauge,
    /// It counts values up to each of these boundaries.
    Histogram(&'static [f64]),
}

impl Kind {
    /// The word of both text formats.
    pub(crate) fn as_str(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram(_) => "histogram",
        }
    }
}

/// The suffix of every counter.
const TOTAL: &str = "_total";

impl Definition {
    /// A metric that only grows.
    pub(super) const fn counter(
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Self {
        Self { name, kind: Kind::Counter, labels, help }
    }

    /// A metric that is what is so now.
    pub(super) const fn gauge(
        name: &'static str,
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Self {
        Self { name, kind: Kind::Gauge, labels, help }
    }

    /// A metric that says how values are spread.
    pub(super) const fn histogram(
        (name, boundaries): (&'static str, &'static [f64]),
        labels: &'static [&'static str],
        help: &'static str,
    ) -> Self {
        Self { name, kind: Kind::Histogram(boundaries), labels, help }
    }

    /// The name of the family in `OpenMetrics`, which counts the suffix of a counter to its samples.
    pub(super) fn family(&self) -> &'static str {
        match self.kind {
            Kind::Counter => self.name.strip_suffix(TOTAL).unwrap_or(self.name),
            Kind::Gauge | Kind::Histogram(_) => self.name,
        }
    }

    /// The unit that its name ends with, as `OpenMetrics` has it; `None` for a number of things.
    pub(crate) fn unit(&self) -> Option<&'static str> {
        let last = self.family().rsplit('_').next()?;
        ["seconds", "bytes", "ratio"].into_iter().find(|unit| *unit == last)
    }
}
