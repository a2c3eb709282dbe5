//! Calls in progress: those of a backend have a limit, and those of an address say how loaded it is.

use std::sync::atomic::{AtomicUsize, Ordering};

use extender_gateway_core::{BackendFailure, FailureKind};
use extender_gateway_pace::fair_queue::slots::NoSlot;

/// The most concurrent calls to a backend, however fast it answers. kube-scheduler has a few at a time.
pub(super) const MOST_CALLS: u32 = 256;

/// A call that gets no slot. One text for all: it is a pod's condition if the failure policy is Fail.
pub(super) fn overloaded(_: NoSlot) -> BackendFailure {
    BackendFailure::new(
        FailureKind::Overloaded,
        "not called: it is overloaded, more calls wait for it than it answers in time",
    )
}

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
