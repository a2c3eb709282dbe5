//! The durations and failures of the latest calls.

use std::{
    sync::atomic::{AtomicU64, AtomicUsize, Ordering},
    time::Duration,
};

/// The number of calls in the window.
const WINDOW: usize = 256;
/// No call yet.
const NONE: u64 = u64::MAX;
/// A failure without a duration, since the call was not sent.
const UNASKED: u64 = u64::MAX - 2;
/// The flag of a failure.
const FAILED: u64 = 1;

/// The latest 256 calls. Recording is two atomic writes.
#[derive(Debug)]
pub(super) struct RecentCalls {
    /// Twice the nanoseconds, plus one for a failure.
    calls: Box<[AtomicU64]>,
    next: AtomicUsize,
}

/// Summary of the latest calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct RecentSummary {
    /// The number of calls; at most 256.
    pub calls: u32,
    /// The number of failed calls.
    pub failed: u32,
    /// The median duration; `None` if no call was sent.
    pub median: Option<Duration>,
    /// The 99th percentile of the duration.
    pub p99: Option<Duration>,
}

impl Default for RecentCalls {
    fn default() -> Self {
        let calls = (0..WINDOW).map(|_| AtomicU64::new(NONE)).collect();
        Self { calls, next: AtomicUsize::new(0) }
    }
}

impl RecentCalls {
    /// Records a call that succeeded.
    pub(super) fn answered(&self, took: Duration) {
        self.record(nanoseconds(took) << 1);
    }

    /// Records a call that failed.
    pub(super) fn failed(&self, took: Duration) {
        self.record(nanoseconds(took) << 1 | FAILED);
    }

    /// Records a call that failed before it was sent.
    pub(super) fn unasked(&self) {
        self.record(UNASKED);
    }

    fn record(&self, call: u64) {
        let place = self.next.fetch_add(1, Ordering::Relaxed) % WINDOW;
        self.calls[place].store(call, Ordering::Relaxed);
    }

    /// Their summary; `None` before the first one.
    pub(super) fn lately(&self) -> Option<RecentSummary> {
        let calls = self.calls.iter().map(|call| call.load(Ordering::Relaxed));
        let mut calls: Vec<u64> = calls.filter(|call| *call != NONE).collect();
        calls.sort_unstable();
        let failed = calls.iter().filter(|call| **call & FAILED == FAILED).count();
        let timed = &calls[..calls.partition_point(|call| *call < UNASKED)];
        (!calls.is_empty()).then(|| RecentSummary {
            calls: small(calls.len()),
            failed: small(failed),
            median: kept(timed, 50),
            p99: kept(timed, 99),
        })
    }
}

/// Converts a count, which is at most [`WINDOW`].
fn small(count: usize) -> u32 {
    u32::try_from(count).unwrap_or(u32::MAX)
}

/// Saturates at the largest number that leaves room for the failure flag.
fn nanoseconds(took: Duration) -> u64 {
    u64::try_from(took.as_nanos()).unwrap_or(u64::MAX).min(u64::MAX >> 2)
}

/// A percentile of the duration, by the nearest rank.
fn kept(sorted: &[u64], of_hundred: usize) -> Option<Duration> {
    let rank = (sorted.len() * of_hundred).div_ceil(100);
    sorted.get(rank.checked_sub(1)?).map(|call| Duration::from_nanos(call >> 1))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_latest_calls_are_summed_up() {
        let recent = RecentCalls::default();
        assert_eq!(recent.lately(), None);
        (1..=100).for_each(|number| recent.answered(Duration::from_micros(number)));
        recent.failed(Duration::from_secs(5));
        recent.unasked();
        let lately = recent.lately().unwrap();
        let (median, p99) = (Some(Duration::from_micros(51)), Some(Duration::from_micros(100)));
        assert_eq!(lately, RecentSummary { calls: 102, failed: 2, median, p99 });
    }

    #[test]
    fn where_nobody_was_asked_there_are_no_times() {
        let recent = RecentCalls::default();
        recent.unasked();
        assert_eq!(recent.lately(), Some(RecentSummary { calls: 1, failed: 1, median: None, p99: None }));
    }

    #[test]
    fn calls_before_the_latest_256_are_forgotten() {
        let recent = RecentCalls::default();
        (0..1_000).for_each(|_| recent.failed(Duration::MAX));
        (0..256).for_each(|_| recent.answered(Duration::from_millis(3)));
        let time = Some(Duration::from_millis(3));
        assert_eq!(recent.lately(), Some(RecentSummary { calls: 256, failed: 0, median: time, p99: time }));
    }
}
