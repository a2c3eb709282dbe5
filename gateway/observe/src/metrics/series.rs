//! The kinds of series that several metrics use.

use std::{
    array,
    borrow::Cow,
    cmp::Reverse,
    collections::{BTreeMap, VecDeque},
    fmt::{self, Write as _},
    time::{Duration, SystemTime},
};

use extender_gateway_api::{FailureCount, MinuteStatus};
use extender_gateway_core::reason;
use parking_lot::Mutex;
use prometheus_client::{
    encoding::{EncodeLabelSet, EncodeLabelValue, LabelValueEncoder},
    metrics::{counter::ConstCounter, exemplar::HistogramWithExemplars, histogram::exponential_buckets},
};
use tokio::time::Instant;

/// The number of different reasons of a backend with their own series.
const MAX_REASONS: usize = 20;
/// The longest reason, in bytes.
const MAX_REASON_BYTES: usize = 100;
/// The label of all later reasons.
const OTHER: &str = "other";
/// The number of calls in a [`RecentSummary`].
const WINDOW: usize = 256;
/// A call that ended less than this long ago says how things are now.
const MINUTE: Duration = Duration::from_mins(1);

/// Counts by a small number of label values, in the order of their first use. Only a new value allocates.
#[derive(Debug)]
pub struct LabeledCounts<K>(Mutex<Vec<(K, u64)>>);

impl<K> Default for LabeledCounts<K> {
    fn default() -> Self {
        Self(Mutex::default())
    }
}

impl<K: Copy + Eq> LabeledCounts<K> {
    /// Adds to the count of these label values.
    pub fn add(&self, key: K, more: u64) {
        let mut counts = self.0.lock();
        match counts.iter_mut().find(|(known, _)| *known == key) {
            Some((_, count)) => *count += more,
            None => counts.push((key, more)),
        }
    }

    /// All label values and their counters.
    pub(super) fn all(&self) -> Vec<(K, ConstCounter<u64>)> {
        self.0.lock().iter().map(|(key, count)| (*key, ConstCounter::new(*count))).collect()
    }

    /// The sum of the counts of these label values.
    pub fn sum(&self, of: impl Fn(K) -> bool) -> u64 {
        self.0.lock().iter().filter(|(key, _)| of(*key)).map(|(_, count)| count).sum()
    }
}

impl<const N: usize> LabeledCounts<[&'static str; N]> {
    /// The series of a metric with these labels.
    pub(super) fn series(
        &self,
        labels: [&'static str; N],
    ) -> impl Iterator<Item = ([(&'static str, &'static str); N], ConstCounter<u64>)> {
        let labeled = move |values: [_; N]| array::from_fn(|at| (labels[at], values[at]));
        self.all().into_iter().map(move |(values, count)| (labeled(values), count))
    }
}

/// Nodes that a backend rejected, by reason: few, short and clean labels, regardless of what the backend sends.
#[derive(Debug, Default)]
pub(super) struct ReasonCounts(Mutex<BTreeMap<Box<str>, u64>>);

impl ReasonCounts {
    /// Counts rejected nodes. Allocates only if the reason is new or needs cleaning.
    pub(super) fn add(&self, reason: &str, nodes: u64) {
        let label = clean(reason);
        let mut counts = self.0.lock();
        let others = usize::from(counts.contains_key(OTHER));
        let known = counts.contains_key(&*label) || counts.len() - others < MAX_REASONS;
        let label = if known { &*label } else { OTHER };
        match counts.get_mut(label) {
            Some(count) => *count += nodes,
            None => drop(counts.insert(label.into(), nodes)),
        }
    }

    /// All reasons with their numbers of nodes.
    pub(super) fn all(&self) -> Vec<(String, ConstCounter<u64>)> {
        let counts = self.0.lock();
        counts.iter().map(|(reason, nodes)| (reason.to_string(), ConstCounter::new(*nodes))).collect()
    }
}

fn clean(text: &str) -> Cow<'_, str> {
    let is_clean = text.len() <= MAX_REASON_BYTES
        && text.split(' ').all(|word| !word.is_empty())
        && !text.contains(|c: char| c == '%' || c.is_control() || c != ' ' && c.is_whitespace());
    if is_clean { Cow::Borrowed(text) } else { Cow::Owned(cleaned(text)) }
}

fn cleaned(text: &str) -> String {
    let line = reason::one_line(text, MAX_REASON_BYTES);
    if line.is_empty() { reason::UNSAID.to_owned() } else { line }
}

/// The id of the trace that a value belongs to, in the form of W3C Trace Context.
pub type Trace = [u8; 16];

/// How long calls took, in kube-scheduler's own buckets, extended: from 0.1 ms, times 2, up to 13.1 s. The first ones
/// are those of its `scheduler_framework_extension_point_duration_seconds`. Each bucket keeps the latest trace whose
/// duration is known.
#[derive(Debug)]
pub(super) struct Durations {
    histogram: HistogramWithExemplars<[(&'static str, TraceId); 1]>,
    pub(super) recent: RecentCalls,
}

#[derive(Debug)]
struct TraceId(Trace);

impl EncodeLabelValue for TraceId {
    fn encode(&self, encoder: &mut LabelValueEncoder<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(encoder, "{byte:02x}"))
    }
}

impl Default for Durations {
    fn default() -> Self {
        let histogram = HistogramWithExemplars::new(exponential_buckets(0.0001, 2.0, 18));
        Self { histogram, recent: RecentCalls::default() }
    }
}

impl Durations {
    /// Records a call that was sent; `failure` is its cause.
    pub(super) fn observe(&self, took: Duration, failure: Option<&'static str>, trace: Option<Trace>) {
        self.recent.record(Some(took), failure);
        let exemplar = trace.map(|trace| [("trace_id", TraceId(trace))]);
        let time = exemplar.as_ref().map(|_| SystemTime::now());
        self.histogram.observe(took.as_secs_f64(), exemplar, time);
    }

    /// The series for a page.
    pub(super) fn series(&self) -> HistogramWithExemplars<impl EncodeLabelSet + use<>> {
        self.histogram.clone()
    }
}

/// The latest 256 calls. One that was answered from the cache is a call that was not sent: it decides in the same way.
#[derive(Debug)]
pub(super) struct RecentCalls(Mutex<VecDeque<RecentCall>>);

#[derive(Debug, Clone, Copy)]
struct RecentCall {
    ended: Instant,
    /// `None` if it was not sent.
    took: Option<Duration>,
    failure: Option<&'static str>,
}

/// Summary of the latest calls.
#[derive(Debug, Clone, PartialEq)]
pub struct RecentSummary {
    /// The number of calls; at most 256.
    pub calls: u32,
    /// The median duration in seconds; `None` if no call was sent.
    pub median_seconds: Option<f64>,
    /// The 99th percentile of the duration in seconds.
    pub p99_seconds: Option<f64>,
    /// The failed calls by cause, the most frequent first.
    pub failures: Vec<FailureCount>,
    /// Whether the latest call failed.
    pub last_failed: bool,
    /// Those that ended in the last minute.
    pub minute: MinuteStatus,
}

impl RecentSummary {
    /// The number of failed calls.
    pub fn failed(&self) -> u32 {
        self.failures.iter().map(|count| count.calls).sum()
    }
}

impl Default for RecentCalls {
    fn default() -> Self {
        Self(Mutex::new(VecDeque::with_capacity(WINDOW)))
    }
}

impl RecentCalls {
    /// Records a call that ends now; `took` is `None` if it was not sent. `failure` is its cause.
    pub(super) fn record(&self, took: Option<Duration>, failure: Option<&'static str>) {
        let mut calls = self.0.lock();
        if calls.len() >= WINDOW {
            calls.pop_front();
        }
        // Under the lock, so that they are in this order.
        calls.push_back(RecentCall { ended: Instant::now(), took, failure });
    }

    /// Their summary; `None` before the first one.
    pub(super) fn summary(&self) -> Option<RecentSummary> {
        let calls: Vec<RecentCall> = self.0.lock().iter().copied().collect();
        let last = calls.last()?;
        let durations = sorted_durations(&calls);
        let lately = &calls[calls.partition_point(|call| call.ended.elapsed() >= MINUTE)..];
        let minute = sorted_durations(lately);
        Some(RecentSummary {
            calls: count(calls.len()),
            median_seconds: percentile(&durations, 50),
            p99_seconds: percentile(&durations, 99),
            failures: failures(&calls),
            last_failed: last.failure.is_some(),
            minute: MinuteStatus {
                calls: count(lately.len()),
                failed: count(lately.iter().filter(|call| call.failure.is_some()).count()),
                sent: count(minute.len()),
                p99_seconds: percentile(&minute, 99),
            },
        })
    }
}

fn count(calls: usize) -> u32 {
    u32::try_from(calls).unwrap_or(u32::MAX)
}

fn sorted_durations(calls: &[RecentCall]) -> Vec<Duration> {
    let mut durations: Vec<Duration> = calls.iter().filter_map(|call| call.took).collect();
    durations.sort_unstable();
    durations
}

fn failures(calls: &[RecentCall]) -> Vec<FailureCount> {
    let mut counts: BTreeMap<&'static str, u32> = BTreeMap::new();
    for cause in calls.iter().filter_map(|call| call.failure) {
        *counts.entry(cause).or_default() += 1;
    }
    let counts = counts.into_iter().map(|(kind, calls)| FailureCount { kind: kind.to_owned(), calls });
    let mut counts: Vec<_> = counts.collect();
    counts.sort_by_key(|count| Reverse(count.calls));
    counts
}

/// A percentile by the nearest rank, in seconds.
pub fn percentile(sorted: &[Duration], percent: usize) -> Option<f64> {
    let rank = (sorted.len() * percent).div_ceil(100);
    Some(sorted.get(rank.checked_sub(1)?)?.as_secs_f64())
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;
    use tokio::time::advance;

    use super::*;

    #[test]
    fn the_first_twenty_reasons_are_told_apart() {
        let reasons = ReasonCounts::default();
        for round in 0..3 {
            (0..1_000).for_each(|number| reasons.add(&format!("{number:03} is full"), 1 + round));
        }
        let counts: Vec<(Box<str>, u64)> = reasons.0.into_inner().into_iter().collect();
        assert_eq!(counts.len(), MAX_REASONS + 1);
        assert_eq!(counts[19], ("019 is full".into(), 6));
        assert_eq!(counts[20], (OTHER.into(), 980 * 6));
    }

    #[test]
    fn reasons_are_cleaned_before_they_are_compared() {
        let reasons = ReasonCounts::default();
        for text in ["in drain", "in\ndrain", " in  drain ", "", "\u{7}"] {
            reasons.add(text, 1);
        }
        let counts: Vec<(Box<str>, u64)> = reasons.0.into_inner().into_iter().collect();
        assert_eq!(counts, [("in drain".into(), 3), ("rejected".into(), 2)]);
    }

    proptest! {
        #[test]
        fn any_reason_becomes_a_short_line(text in any::<String>()) {
            let label = clean(&text);
            prop_assert!((1..=MAX_REASON_BYTES).contains(&label.len()), "{label:?}");
            prop_assert!(!label.contains(|c: char| c.is_control() || c == '%'), "{label:?}");
            prop_assert_eq!(cleaned(&text), label);
        }
    }

    const fn millis(count: u64) -> Duration {
        Duration::from_millis(count)
    }

    #[tokio::test(start_paused = true)]
    async fn the_latest_calls_are_summed_up() {
        let recent = RecentCalls::default();
        assert_eq!(recent.summary(), None);
        recent.record(Some(millis(5_000)), Some("status"));
        recent.record(None, Some("late"));
        advance(MINUTE).await;
        (1..=100).for_each(|number| recent.record(Some(millis(number)), None));
        recent.record(None, Some("late"));
        let expected = RecentSummary {
            calls: 103,
            median_seconds: Some(0.051),
            p99_seconds: Some(0.1),
            failures: [("late", 2), ("status", 1)]
                .map(|(kind, calls)| FailureCount { kind: kind.to_owned(), calls })
                .into(),
            last_failed: true,
            minute: MinuteStatus { calls: 101, failed: 1, sent: 100, p99_seconds: Some(0.099) },
        };
        assert_eq!((recent.summary().unwrap().failed(), recent.summary()), (3, Some(expected.clone())));
        advance(MINUTE).await;
        let minute = MinuteStatus::default();
        assert_eq!(recent.summary(), Some(RecentSummary { minute, ..expected }), "the rest stays");
    }

    #[tokio::test]
    async fn calls_that_were_not_sent_have_no_duration() {
        let recent = RecentCalls::default();
        recent.record(None, Some("unreachable"));
        let summary = recent.summary().unwrap();
        assert_eq!(
            (summary.calls, summary.failed(), summary.median_seconds, summary.p99_seconds),
            (1, 1, None, None)
        );
    }

    #[tokio::test]
    async fn calls_before_the_latest_256_are_dropped() {
        let recent = RecentCalls::default();
        (0..1_000).for_each(|_| recent.record(Some(Duration::MAX), Some("late")));
        (0..256).for_each(|_| recent.record(Some(millis(3)), None));
        let summary = recent.summary().unwrap();
        assert_eq!((summary.calls, summary.failures, summary.last_failed), (256, Vec::new(), false));
        assert_eq!((summary.median_seconds, summary.p99_seconds), (Some(0.003), Some(0.003)));
    }
}
