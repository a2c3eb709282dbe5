//! Medians and percentiles.

use serde::Serialize;

/// The median of some values, and their range.
#[derive(Debug, Clone, Copy, PartialEq, Serialize)]
pub struct Spread {
    /// The least value.
    pub least: f64,
    /// The median.
    pub median: f64,
    /// The largest value.
    pub largest: f64,
}

impl Spread {
    /// Of at least one value.
    pub fn of(values: impl IntoIterator<Item = f64>) -> Self {
        let mut values: Vec<f64> = values.into_iter().collect();
        values.sort_by(f64::total_cmp);
        let last = values.len().saturating_sub(1);
        Self { least: values[0], median: percentile(&values, 50), largest: values[last] }
    }
}

/// The value below which this many percent of the sorted values lie: the nearest rank. Needs at least one value.
pub fn percentile(sorted: &[f64], percent: usize) -> f64 {
    let rank = (sorted.len() * percent).div_ceil(100);
    sorted[rank.saturating_sub(1)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ranks_are_the_nearest() {
        let values: Vec<f64> = (1..=200).map(f64::from).collect();
        for (percent, expected) in [(0, 1.0), (50, 100.0), (99, 198.0), (100, 200.0)] {
            assert!((percentile(&values, percent) - expected).abs() < f64::EPSILON, "{percent} %");
        }
        assert!((percentile(&[7.0], 99) - 7.0).abs() < f64::EPSILON);
    }

    #[test]
    fn a_spread_needs_no_order() {
        let spread = Spread::of([3.0, 1.0, 2.0]);
        assert_eq!(spread, Spread { least: 1.0, median: 2.0, largest: 3.0 });
    }
}
