//! How values are spread, and a trace for each rung of the ladder.
//!
//! Recording is two additions, without a lock. Only a value that comes with a trace takes one, to leave that
//! trace behind as the example of its rung.

use std::{
    sync::{
        Mutex, PoisonError,
        atomic::{AtomicU64, Ordering},
    },
    time::{SystemTime, UNIX_EPOCH},
};

/// The trace that a value belongs to, as W3C Trace Context has it.
pub type Trace = [u8; 16];

/// What a sum is counted in: a nanosecond of what is measured in seconds.
const PARTS: f64 = 1e9;

/// Counts of values up to each boundary.
#[derive(Debug)]
pub(super) struct Histogram {
    boundaries: &'static [f64],
    /// Values by the first boundary that they do not exceed; the last one is for those beyond all.
    counts: Box<[AtomicU64]>,
    /// In [`PARTS`].
    sum: AtomicU64,
    exemplars: Mutex<Box<[Option<Exemplar>]>>,
}

/// A value whose trace is known.
#[derive(Debug, Clone, Copy, PartialEq)]
pub(super) struct Exemplar {
    pub(super) trace: Trace,
    pub(super) value: f64,
    /// In seconds since 1970.
    pub(super) time: f64,
}

/// A histogram as it was at one moment.
#[derive(Debug, PartialEq)]
pub(super) struct Spread {
    /// Each boundary, the infinite one last, with how many values do not exceed it and an example of those that
    /// exceed the boundary before.
    pub(super) rungs: Vec<(f64, u64, Option<Exemplar>)>,
    pub(super) sum: f64,
}

impl Spread {
    /// How many values there were.
    pub(super) fn count(&self) -> u64 {
        self.rungs.last().map_or(0, |(_, count, _)| *count)
    }
}

impl Histogram {
    /// One without a value.
    pub(super) fn new(boundaries: &'static [f64]) -> Self {
        let rungs = boundaries.len() + 1;
        Self {
            boundaries,
            counts: (0..rungs).map(|_| AtomicU64::new(0)).collect(),
            sum: AtomicU64::new(0),
            exemplars: Mutex::new(vec![None; rungs].into()),
        }
    }

    /// A value, which is not negative.
    pub(super) fn observe(&self, value: f64, trace: Option<Trace>) {
        let rung = self.boundaries.partition_point(|boundary| *boundary < value);
        self.counts[rung].fetch_add(1, Ordering::Relaxed);
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "five centuries of seconds fit"
        )]
        self.sum.fetch_add((value * PARTS) as u64, Ordering::Relaxed);
        if let Some(trace) = trace {
            let exemplar = Exemplar { trace, value, time: now() };
            self.exemplars.lock().unwrap_or_else(PoisonError::into_inner)[rung] = Some(exemplar);
        }
    }

    /// What has been recorded until now. The count is that of the rungs, which a value that is being recorded
    /// may not yet have reached the sum of.
    pub(super) fn spread(&self) -> Spread {
        let exemplars = self.exemplars.lock().unwrap_or_else(PoisonError::into_inner).clone();
        let mut below = 0;
        let counts = self.counts.iter().map(|count| {
            below += count.load(Ordering::Relaxed);
            below
        });
        let boundaries = self.boundaries.iter().copied().chain([f64::INFINITY]);
        let rungs = boundaries.zip(counts).zip(exemplars);
        let rungs = rungs.map(|((boundary, count), exemplar)| (boundary, count, exemplar)).collect();
        #[expect(clippy::cast_precision_loss, reason = "a sum is a float in both formats")]
        let sum = self.sum.load(Ordering::Relaxed) as f64 / PARTS;
        Spread { rungs, sum }
    }
}

fn now() -> f64 {
    SystemTime::now().duration_since(UNIX_EPOCH).map_or(0.0, |time| time.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use super::*;

    const TRACE: Trace = [7; 16];

    #[test]
    fn a_value_counts_for_every_boundary_that_it_does_not_exceed() {
        let histogram = Histogram::new(&[1.0, 2.0]);
        for value in [0.5, 1.0, 1.5, 2.0, 3.0] {
            histogram.observe(value, None);
        }
        let spread = histogram.spread();
        assert_eq!(spread.rungs, [(1.0, 2, None), (2.0, 4, None), (f64::INFINITY, 5, None)]);
        assert_eq!((spread.count(), spread.sum.to_bits()), (5, 8.0_f64.to_bits()));
    }

    #[test]
    fn a_rung_keeps_the_latest_trace() {
        let histogram = Histogram::new(&[1.0, 2.0]);
        for (value, trace) in [(1.2, Some([1; 16])), (1.5, Some(TRACE)), (1.8, None), (0.5, None)] {
            histogram.observe(value, trace);
        }
        let exemplars: Vec<_> = histogram.spread().rungs.iter().map(|(_, _, exemplar)| *exemplar).collect();
        let [None, Some(Exemplar { trace: TRACE, value, time }), None] = exemplars[..] else {
            panic!("{exemplars:?}")
        };
        assert_eq!(value.to_bits(), 1.5_f64.to_bits());
        assert!(time > 1.7e9, "{time}");
    }
}
