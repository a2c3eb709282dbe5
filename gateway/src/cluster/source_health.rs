//! When a source of objects was last heard of, and what is wrong with it.

use std::time::Duration;

use parking_lot::Mutex;
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
        self.0.lock().last = Some(Instant::now());
    }

    /// It works.
    pub fn recovered(&self) {
        *self.0.lock() = HealthState { last: Some(Instant::now()), failing: None };
    }

    /// An attempt failed.
    pub fn failed(&self, why: String) {
        let mut state = self.0.lock();
        let since = state.failing.take().map_or_else(Instant::now, |(since, _)| since);
        state.failing = Some((since, why));
    }

    /// For how long nothing came; `None` before the first time.
    pub fn silence(&self) -> Option<Duration> {
        self.0.lock().last.map(|last| last.elapsed())
    }

    /// For how long attempts have failed, and why the last one did; `None` where the last one did not.
    pub fn failing(&self) -> Option<(Duration, String)> {
        self.0.lock().failing.as_ref().map(|(since, why)| (since.elapsed(), why.clone()))
    }
}
