//! Counts calls in progress: those of a backend have a limit, those of an address say how loaded it is.

use std::sync::atomic::{AtomicUsize, Ordering};

use extender_gateway_core::{BackendFailure, FailureKind};

/// The most concurrent calls to a backend. kube-scheduler has a few at a time; more are waiting because the backend is
/// slow, and each holds its request in memory.
pub(super) const MOST_CALLS: usize = 256;

/// The number of calls in progress.
#[derive(Debug, Default)]
pub(super) struct InFlight(AtomicUsize);

/// A call in progress, until it is dropped.
#[derive(Debug)]
pub(super) struct Entered<'c>(&'c InFlight);

impl InFlight {
    /// Counts a call.
    pub(super) fn enter(&self) -> Entered<'_> {
        self.0.fetch_add(1, Ordering::Relaxed);
        Entered(self)
    }

    /// Counts a call, unless there are [`MOST_CALLS`].
    ///
    /// # Errors
    /// There are.
    pub(super) fn enter_below_limit(&self) -> Result<Entered<'_>, BackendFailure> {
        let entered = self.enter();
        if self.now() <= MOST_CALLS {
            return Ok(entered);
        }
        let detail = format!("not called: {MOST_CALLS} calls to it are in progress");
        Err(BackendFailure::new(FailureKind::CircuitOpen, detail))
    }

    /// The number of calls in progress.
    pub(super) fn now(&self) -> usize {
        self.0.load(Ordering::Relaxed)
    }
}

impl Drop for Entered<'_> {
    fn drop(&mut self) {
        self.0.0.fetch_sub(1, Ordering::Relaxed);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn calls_beyond_the_limit_fail_and_leave_no_trace() {
        let calls = InFlight::default();
        let mut open: Vec<_> = (0..MOST_CALLS).map(|_| calls.enter_below_limit().unwrap()).collect();
        for _ in 0..3 {
            let failure = calls.enter_below_limit().unwrap_err();
            assert_eq!(failure.kind, FailureKind::CircuitOpen);
            assert_eq!(failure.detail, "not called: 256 calls to it are in progress");
        }
        open.pop();
        drop(calls.enter_below_limit().unwrap());
        drop(open);
        assert_eq!(calls.now(), 0);
    }
}
