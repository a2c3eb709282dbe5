//! When a source of objects was last heard of, and what is wrong with it.

use std::{
    sync::{Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use tokio::time::Instant;

/// What is known of a source.
#[derive(Debug, Default)]
pub struct SourceHealth(Mutex<HealthState>);

#[derive(Debug, Default)]
struct HealthState {
    last: Option<Instant>,
    failing: Option<(Instant, String)>,
}

impl SourceHealth {
    /// Something came; attempts may still fail.
    pub fn received(&self) {
        self.lock().last = Some(Instant::now());
    }

    /// It works.
    pub fn recovered(&self) {
        *self.lock() = HealthState { last: Some(Instant::now()), failing: None };
    }

    /// An attempt failed.
    pub fn failed(&self, why: String) {
        let mut state = self.lock();
        let since = state.failing.take().map_or_else(Instant::now, |(since, _)| since);
        state.failing = Some((since, why));
    }

    /// For how long nothing came; `None` before the first time.
    pub fn silence(&self) -> Option<Duration> {
        self.lock().last.map(|last| last.elapsed())
    }

    /// For how long attempts have failed, and why the last one did; `None` where the last one did not.
    pub fn failing(&self) -> Option<(Duration, String)> {
        self.lock().failing.as_ref().map(|(since, why)| (since.elapsed(), why.clone()))
    }

    fn lock(&self) -> MutexGuard<'_, HealthState> {
        // Each state is whole.
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
