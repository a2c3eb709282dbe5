//! What the gateway knows about the cluster: the node table, the pod table and their sources.
//!
//! A call reads nodes from [`table`] as rows ready to be sent. One source fills the table: the apiserver ([`watch`]) or
//! a file ([`mod@file`]). [`pods`] holds the pods if the configuration needs them. Sources run on a runtime of their
//! own, away from the calls. [`binder`] sends the requests of a bind call to the apiserver.

pub mod binder;
pub mod client;
pub mod file;
pub mod gangs;
pub mod head;
pub mod held;
pub mod objects;
pub mod pods;
pub mod table;
pub mod unreadable;
pub mod untried;
pub mod usage;
mod wanted;
pub mod watch;

use std::{
    pin::pin,
    sync::atomic::{AtomicU64, Ordering},
    time::Duration,
};

use extender_apiserver::RequestError;
use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

/// The health of a source of objects.
#[derive(Debug, Default)]
pub struct SourceHealth {
    state: Mutex<HealthState>,
    /// The latest resource version.
    version: AtomicU64,
    advanced: Notify,
}

#[derive(Debug, Default)]
struct HealthState {
    received: Option<Instant>,
    failing: Option<Failing>,
}

/// Attempts that fail.
#[derive(Debug)]
struct Failing {
    since: Instant,
    /// The latest error.
    error: String,
    /// Whether there is no connection.
    is_unreachable: bool,
}

impl SourceHealth {
    /// Objects were received; attempts may still fail.
    pub fn received(&self) {
        self.state.lock().received = Some(Instant::now());
    }

    /// Objects were received, and attempts no longer fail.
    pub fn recovered(&self) {
        *self.state.lock() = HealthState { received: Some(Instant::now()), failing: None };
    }

    /// An attempt failed.
    pub fn failed(&self, error: String) {
        self.add(error, false);
    }

    /// An attempt failed with this error of the apiserver.
    pub fn refused(&self, error: &RequestError) {
        self.add(error.to_string(), matches!(error, RequestError::Unreachable(_)));
    }

    fn add(&self, error: String, is_unreachable: bool) {
        let mut state = self.state.lock();
        let since = state.failing.as_ref().map_or_else(Instant::now, |failing| failing.since);
        state.failing = Some(Failing { since, error, is_unreachable });
    }

    /// Everything up to this resource version was received. Those of one resource are numbers that grow (KEP-5504).
    pub fn advanced_to(&self, version: &str) {
        if let Ok(version) = version.parse() {
            self.version.fetch_max(version, Ordering::Release);
            self.advanced.notify_waiters();
        }
    }

    /// The resource version up to which everything was received; 0 if the source has none.
    pub fn version(&self) -> u64 {
        self.version.load(Ordering::Acquire)
    }

    /// Whether everything up to this resource version was received.
    pub fn has_reached(&self, version: u64) -> bool {
        self.version.load(Ordering::Acquire) >= version
    }

    /// Waits until everything up to this resource version was received. Does not, if the source has no versions or fails.
    pub async fn reached(&self, version: u64) {
        loop {
            let advanced = self.advanced.notified();
            let mut advanced = pin!(advanced);
            // From here on no advance is missed.
            advanced.as_mut().enable();
            let now = self.version.load(Ordering::Acquire);
            if now == 0 || now >= version || self.failing().is_some() {
                return;
            }
            advanced.await;
        }
    }

    /// The time since objects were last received; `None` before the first ones.
    pub fn silence(&self) -> Option<Duration> {
        self.state.lock().received.map(|received| received.elapsed())
    }

    /// For how long attempts have failed, with the latest error; `None` if the latest attempt succeeded.
    pub fn failing(&self) -> Option<(Duration, String)> {
        self.state.lock().failing.as_ref().map(|it| (it.since.elapsed(), it.error.clone()))
    }

    /// The same if there is no connection to the source.
    pub fn unreachable(&self) -> Option<(Duration, String)> {
        let is_unreachable = self.state.lock().failing.as_ref().is_some_and(|it| it.is_unreachable);
        self.failing().filter(|_| is_unreachable)
    }
}
