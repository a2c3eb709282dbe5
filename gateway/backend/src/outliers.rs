//! Addresses that are left out while another is usable, although calls to them lose no time.
//!
//! A replica that answers UNAVAILABLE, or resets each stream, opens no breaker: that costs nothing. But another address
//! may answer the same calls. So after as many of these failures in a row as would open a breaker, an address is left out
//! for a pause, and after the next one for a longer pause. Nothing is refused because of this: without another address,
//! calls go there as before.

use std::{
    sync::atomic::{AtomicU32, Ordering::Relaxed},
    time::Duration,
};

use extender_gateway_core::{PerPolicyVerb, PolicyVerb};
use parking_lot::Mutex;
use tokio::time::Instant;

use super::breaker::{BreakerRule, Evidence};

/// The longest pause, in first pauses: one that has recovered should be used soon.
const LONGEST: u32 = 5;

/// Whether an address is left out, for each verb.
#[derive(Debug)]
pub(super) struct Outliers {
    rule: BreakerRule,
    verbs: PerPolicyVerb<Record>,
}

#[derive(Debug, Default)]
struct Record {
    /// Calls that failed at once since the latest answer.
    failures: AtomicU32,
    left_out_until: Mutex<Option<Instant>>,
}

impl Outliers {
    pub(super) fn new(rule: BreakerRule) -> Self {
        Self { rule, verbs: PerPolicyVerb::from_fn(|_| Record::default()) }
    }

    /// Whether another address is preferred for a verb.
    pub(super) fn are_left_out(&self, verb: PolicyVerb) -> bool {
        let record = &self.verbs[verb];
        record.failures.load(Relaxed) >= self.rule.failures && record.is_paused()
    }

    /// Records the end of a call.
    pub(super) fn record(&self, verb: PolicyVerb, evidence: &Evidence) {
        let record = &self.verbs[verb];
        match evidence {
            Evidence::Works if record.failures.load(Relaxed) > 0 => record.failures.store(0, Relaxed),
            Evidence::FailsAtOnce => self.failed(record),
            _ => {}
        }
    }

    fn failed(&self, record: &Record) {
        // Calls that were sent before it was left out change nothing.
        if record.is_paused() {
            return;
        }
        let failures = record.failures.fetch_add(1, Relaxed).saturating_add(1);
        let Some(earlier) = failures.checked_sub(self.rule.failures) else { return };
        let pause: Duration = self.rule.first_pause * earlier.saturating_add(1).min(LONGEST);
        *record.left_out_until.lock() = Some(Instant::now() + pause);
    }
}

impl Record {
    fn is_paused(&self) -> bool {
        self.left_out_until.lock().is_some_and(|until| Instant::now() < until)
    }
}

#[cfg(test)]
mod tests {
    use tokio::time::advance;

    use super::*;

    const FIRST: Duration = Duration::from_secs(1);

    #[tokio::test(start_paused = true)]
    async fn it_is_left_out_after_failures_in_a_row_and_used_again_after_a_pause() {
        let outliers = Outliers::new(BreakerRule { failures: 3, first_pause: FIRST });
        let verb = PolicyVerb::Filter;
        let ends = |evidence: &Evidence, times| (0..times).for_each(|_| outliers.record(verb, evidence));
        ends(&Evidence::FailsAtOnce, 2);
        ends(&Evidence::Works, 1);
        ends(&Evidence::FailsAtOnce, 2);
        assert!(!outliers.are_left_out(verb), "not in a row");
        ends(&Evidence::FailsAtOnce, 4);
        assert!(outliers.are_left_out(verb) && !outliers.are_left_out(PolicyVerb::Score));
        advance(FIRST).await;
        assert!(!outliers.are_left_out(verb), "those in the pause did not count");
        ends(&Evidence::FailsAtOnce, 1);
        advance(FIRST).await;
        assert!(outliers.are_left_out(verb), "the second pause is longer");
        advance(FIRST).await;
        ends(&Evidence::Works, 1);
        ends(&Evidence::FailsAtOnce, 2);
        assert!(!outliers.are_left_out(verb), "from the start");
    }
}
