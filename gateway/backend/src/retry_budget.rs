//! Limits retries to a share of the calls, so that they cannot multiply the load of a backend in trouble: each call adds
//! a fifth of a retry, up to ten retries. Only calls that the backend has certainly not processed are retried at all.

use std::sync::atomic::{AtomicU32, Ordering};

/// What a retry costs, in calls: at most 20 % more calls.
const CALLS_OF_A_RETRY: u32 = 5;
/// The most that is saved: some calls that fail together, as when a connection ends, can all be retried.
const MOST: u32 = 10 * CALLS_OF_A_RETRY;

/// A token bucket that calls fill, and not time. Each call adds to it, so it has neither clock nor lock.
#[derive(Debug)]
pub(super) struct RetryBudget(AtomicU32);

impl Default for RetryBudget {
    fn default() -> Self {
        Self(AtomicU32::new(MOST))
    }
}

impl RetryBudget {
    /// Adds the share of a call.
    pub(super) fn deposit(&self) {
        let _ = self
            .0
            .fetch_update(Ordering::Relaxed, Ordering::Relaxed, |saved| (saved < MOST).then_some(saved + 1));
    }

    /// Takes a retry, if there is one.
    pub(super) fn withdraw(&self) -> bool {
        let less = |saved: u32| saved.checked_sub(CALLS_OF_A_RETRY);
        self.0.fetch_update(Ordering::Relaxed, Ordering::Relaxed, less).is_ok()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn retries_are_a_fifth_of_the_calls() {
        let budget = RetryBudget::default();
        let first = (0..1000).filter(|_| budget.withdraw()).count();
        assert_eq!(first, 10);
        let retries = (0..1000).filter(|_| {
            budget.deposit();
            budget.withdraw()
        });
        assert_eq!(retries.count(), 200);
        (0..1000).for_each(|_| budget.deposit());
        assert_eq!((0..1000).filter(|_| budget.withdraw()).count(), 10, "no more is saved");
    }
}
