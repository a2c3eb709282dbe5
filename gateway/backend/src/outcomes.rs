//! What a backend is told about how attempts to place pods ended.
//!
//! [`Outcomes`] follows the pods about which the backend was sent a Filter or a Bind for a decision (`tracked`). How an attempt
//! ends is known from the gateway's own answers and Bindings, and from the watch of pods. What is to be told waits, in order, until
//! the backend has acknowledged it (`reporter`), also while it is away and after a change of its settings. Calls take a lock for
//! a moment and never wait. For a backend that does not serve `OutcomeService`, nothing is tracked.

mod pending;
mod reporter;
mod tracked;

use std::{
    hash::{BuildHasher, RandomState},
    sync::{
        Arc, Weak,
        atomic::{AtomicBool, AtomicU64, Ordering},
    },
    time::Duration,
};

use extender_gateway_cluster::pods::{PodFollower, PodTable};
use extender_gateway_observe::{Metrics, metrics::BackendMetrics};
use extender_gateway_pace::rate_limited_log::RateLimitedLog;
use extender_gateway_settings::BackendName;
pub use extender_policy_api::v1beta1::outcome_service_server::SERVICE_NAME;
use parking_lot::Mutex;
use tokio::{sync::Notify, time::timeout};

pub(super) use self::reporter::Reporter;
use self::tracked::TrackedPods;
use super::{endpoints::Endpoints, session::Session};

/// A pod that a request for a decision is about.
#[derive(Debug, Clone, Copy)]
pub struct AskedPod<'r> {
    /// `Call.id`.
    pub call: &'r str,
    /// `metadata.namespace`.
    pub namespace: &'r str,
    /// `metadata.name`.
    pub name: &'r str,
    /// `metadata.uid`.
    pub uid: &'r str,
}

/// The outcomes of one backend, by its name: they outlive its connections and settings.
#[derive(Debug)]
pub struct Outcomes {
    backend: BackendName,
    metrics: Arc<Metrics>,
    tracked: Mutex<TrackedPods>,
    /// Whether a request was tracked: until then nothing takes the lock.
    is_used: AtomicBool,
    /// Wakes the reporter.
    touched: Arc<Notify>,
    /// Nothing is pending any more.
    delivered: Notify,
    source: Mutex<Source>,
    /// Random, so that the ids of requests are unique among all replicas.
    run: u64,
    next_request: AtomicU64,
    log_limit: RateLimitedLog,
}

/// What the latest settings refer to.
#[derive(Debug, Default)]
struct Source {
    /// Its addresses.
    endpoints: Weak<Endpoints>,
    /// The watched pods; `None` if they are not watched.
    pods: Option<Arc<PodTable>>,
}

impl Outcomes {
    /// Those of a backend, and the task that sends them.
    pub(super) fn new(backend: &BackendName, metrics: &Arc<Metrics>) -> (Arc<Self>, Reporter) {
        let touched = Arc::<Notify>::default();
        let outcomes = Arc::new(Self {
            backend: backend.clone(),
            metrics: Arc::clone(metrics),
            tracked: Mutex::default(),
            is_used: AtomicBool::new(false),
            touched: Arc::clone(&touched),
            delivered: Notify::new(),
            source: Mutex::default(),
            // The random key of a hasher is the standard library's source of randomness.
            run: RandomState::new().hash_one(0_u8),
            next_request: AtomicU64::new(1),
            log_limit: RateLimitedLog::default(),
        });
        let reporter = Reporter::new(Arc::downgrade(&outcomes), touched);
        (outcomes, reporter)
    }

    /// Uses the addresses and the pods of these settings.
    pub(super) fn use_settings(self: &Arc<Self>, endpoints: &Arc<Endpoints>, pods: Option<&Arc<PodTable>>) {
        *self.source.lock() = Source { endpoints: Arc::downgrade(endpoints), pods: pods.cloned() };
        if self.is_used.load(Ordering::Relaxed) {
            self.follow_pods();
        }
    }

    fn follow_pods(self: &Arc<Self>) {
        let follower: Weak<dyn PodFollower> = Arc::<Self>::downgrade(self);
        if let Some(pods) = &self.source.lock().pods {
            pods.follow(follower);
        }
    }

    /// Tracks a request that is sent now, until the returned value is dropped: while the backend may not have read it, it is not
    /// told that the pod is bound or gone.
    pub(super) fn track<'o>(
        self: &'o Arc<Self>,
        session: &Session,
        asked: Option<AskedPod<'o>>,
    ) -> Option<InProgress<'o>> {
        let asked = asked.filter(|_| session.takes_outcomes())?;
        // Without these there is no valid outcome.
        if [asked.uid, asked.name, asked.namespace].contains(&"") {
            return None;
        }
        if !self.is_used.swap(true, Ordering::Relaxed) {
            self.follow_pods();
        }
        self.change(|tracked| tracked.begin(asked));
        Some(InProgress { outcomes: self, uid: asked.uid })
    }

    /// Another attempt to place the pod begins.
    pub fn superseded(&self, uid: &str) {
        self.change(|tracked| tracked.superseded(uid));
    }

    /// The attempt has ended without a Binding, and without one that may still come. With a call, only if that is the latest one that the
    /// backend was sent.
    pub fn not_bound(&self, uid: &str, call: Option<&str>) {
        self.change(|tracked| tracked.not_bound(uid, call));
    }

    /// Waits, for a limited time, until the backend has acknowledged everything.
    pub async fn acknowledged(&self, longest: Duration) {
        let acknowledged = async {
            loop {
                let delivered = self.delivered.notified();
                if self.tracked.lock().pending.is_empty() {
                    return;
                }
                delivered.await;
            }
        };
        // What is not acknowledged is lost when the gateway ends.
        let _ = timeout(longest, acknowledged).await;
    }

    /// Nobody takes outcomes: forgets what is pending, and the pods.
    fn forget(&self) {
        self.is_used.store(false, Ordering::Relaxed);
        let forgotten = std::mem::take(&mut *self.tracked.lock());
        self.count_dropped(forgotten.pending.len());
        self.delivered.notify_waiters();
    }

    fn change(&self, change: impl FnOnce(&mut TrackedPods)) {
        if !self.is_used.load(Ordering::Relaxed) {
            return;
        }
        let mut tracked = self.tracked.lock();
        let before = tracked.pending.end();
        change(&mut tracked);
        let is_touched = tracked.pending.end() > before;
        let dropped = tracked.pending.take_dropped();
        drop(tracked);
        if is_touched {
            self.touched.notify_one();
        }
        self.count_dropped(dropped);
    }

    fn next_id(&self) -> String {
        format!("{:016x}-{:x}", self.run, self.next_request.fetch_add(1, Ordering::Relaxed))
    }

    fn count_dropped(&self, outcomes: usize) {
        if outcomes > 0
            && let Some(metrics) = self.known_metrics()
        {
            metrics.dropped_outcomes.inc_by(outcomes as u64);
        }
    }

    fn known_metrics(&self) -> Option<Arc<BackendMetrics>> {
        self.metrics.known_backend(self.backend.as_str())
    }
}

impl Drop for Outcomes {
    /// The reporter has nothing to do any more.
    fn drop(&mut self) {
        self.touched.notify_one();
    }
}

impl PodFollower for Outcomes {
    fn followed(&self) -> Vec<Arc<str>> {
        self.tracked.lock().uids()
    }

    fn on_node(&self, uid: &str, node: &str) {
        self.change(|tracked| tracked.on_node(uid, node));
    }

    fn gone(&self, uid: &str) {
        self.change(|tracked| tracked.gone(uid));
    }
}

/// A request whose answer is not known yet.
#[derive(Debug)]
pub(super) struct InProgress<'o> {
    outcomes: &'o Outcomes,
    uid: &'o str,
}

impl Drop for InProgress<'_> {
    fn drop(&mut self) {
        self.outcomes.change(|tracked| tracked.end_request(self.uid));
    }
}
