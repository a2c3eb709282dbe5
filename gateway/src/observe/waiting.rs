//! The pods that wait because a backend rejected or failed them, filled from call records after the response.
//!
//! A pod waits from such a call until a filter call leaves it a node or it is bound. kube-scheduler tries a pod that
//! it has put aside again at an event that concerns it, and after five minutes at the latest. A backend's recovery is
//! no such event, so this table also knows which pods were last tried before their backend changed.

mod holders;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use extender_gateway_core::{PolicyVerb, Verb};
use foldhash::HashMap;
use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

use self::holders::{Effect, effect};
use crate::{
    cluster::{SourceHealth, pods::PodTable},
    config::BackendSettings,
    record::CallRecord,
};

/// The most pods. Further ones are not recorded.
pub const MAX_PODS: usize = 20_000;
/// A pod that was not tried for this long is gone: kube-scheduler tries each one every 5.5 minutes at the latest
/// (`podMaxInUnschedulablePodsDuration` and the interval of `flushUnschedulablePodsLeftover`).
const MAX_SILENCE: Duration = Duration::from_mins(6);
/// The minimum time between two searches for such pods while there is no room.
const SWEEP_PERIOD: Duration = Duration::from_secs(10);
/// A pod that a complete watch does not have after this time is gone.
const WATCH_DELAY: Duration = Duration::from_secs(10);
/// A backend whose calls have failed for less time has not recovered: it was no outage.
const SHORTEST_OUTAGE: Duration = Duration::from_secs(5);
/// The pause between the first two requests for a pod. It doubles up to the longest one.
const FIRST_PAUSE: Duration = Duration::from_secs(10);
const LONGEST_PAUSE: Duration = Duration::from_mins(5);

/// The waiting pods.
#[derive(Debug, Default)]
pub struct WaitingPods {
    state: Mutex<WaitingState>,
    /// Reports that pods may be due.
    touched: Notify,
    /// Whether kube-scheduler can be made to try pods again, if that is configured.
    pub requeue_health: SourceHealth,
}

#[derive(Debug, Default)]
struct WaitingState {
    /// By UID.
    pods: HashMap<String, WaitingPod>,
    /// The latest change of each backend that has changed, by its name.
    changes: HashMap<String, (Instant, PolicyChange)>,
    /// The latest change that concerns all backends.
    of_all: Option<Instant>,
    /// The verbs of each backend, by its name, whose calls fail, and since when.
    failing: HashMap<String, Vec<(PolicyVerb, Instant)>>,
    /// When pods were last removed to make room.
    swept: Option<Instant>,
}

/// Why the next attempt for a pod may have another result.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum PolicyChange {
    /// The backend responds again.
    Recovered,
    /// The backend has another version or revision.
    Revision,
    /// The gateway's configuration has changed.
    Configuration,
    /// A pod that counted on a node, and was not bound there, no longer counts.
    Freed,
}

#[derive(Debug)]
struct WaitingPod {
    namespace: String,
    name: String,
    since: Instant,
    /// When the latest attempt began.
    tried: Instant,
    /// The verb of the call after which it waits.
    verb: Verb,
    /// Whether that call ended with an error, after which kube-scheduler tries the pod again by itself, within seconds.
    is_retried: bool,
    /// The backends that rejected or failed it.
    held_by: Vec<Arc<BackendSettings>>,
    /// When a pod ceased to count that may have been why.
    freed: Option<Instant>,
    /// When the latest request to try it again was sent, and the number of them.
    requested: Option<(Instant, u32)>,
    /// The latest request that failed, if it has not succeeded since.
    failed: Option<Instant>,
}

/// The pods that wait because of one backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitingSummary {
    /// Their number.
    pub pods: u32,
    /// How long the oldest one has waited.
    pub oldest: Duration,
    /// The number of those that were last tried before the backend changed, and that kube-scheduler does not try again
    /// by itself.
    pub untried: u32,
    /// The time since the change.
    pub changed: Option<Duration>,
}

/// A pod that should be tried again.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct DuePod {
    /// `metadata.uid`.
    pub uid: String,
    /// `metadata.namespace`.
    pub namespace: String,
    /// `metadata.name`.
    pub name: String,
    /// The backend.
    pub backend: String,
    /// What has changed.
    pub change: PolicyChange,
}

/// The pods that should be tried again.
#[derive(Debug, PartialEq, Eq)]
pub enum Due {
    /// Now these: the oldest first, and last those whose request has failed.
    Now(Vec<DuePod>),
    /// The first one at this time.
    At(Instant),
    /// None.
    Never,
}

impl WaitingPods {
    /// Records a call with this outcome.
    pub(crate) fn record(&self, verb: Verb, outcome: &str, record: &CallRecord) {
        let mut state = self.state.lock();
        let recovered = state.recovered(record);
        for (backend, ..) in &recovered {
            // This call has seen it.
            state.change(backend, (record.started, PolicyChange::Recovered));
        }
        // An error of a preemption leaves the pod rejected.
        let is_retried = (verb != Verb::Preempt).then_some(outcome != "ok");
        let is_due = match effect(verb, outcome, record) {
            Effect::Waits(held_by) => state.wait(verb, is_retried, record, held_by),
            Effect::Placed => {
                state.place(verb, &record.pod.uid);
                false
            }
            Effect::None => false,
        };
        drop(state);
        for (backend, verb, lasted) in &recovered {
            let (verb, seconds) = (verb.name(), lasted.as_secs());
            tracing::info!(backend, verb, seconds, "calls to the backend succeed again");
        }
        if is_due || !recovered.is_empty() {
            self.touched.notify_one();
        }
    }

    /// Records that calls to this backend may have another result from now on.
    pub fn changed(&self, backend: &str, change: PolicyChange) {
        self.state.lock().change(backend, (Instant::now(), change));
        self.touched.notify_one();
    }

    /// Records that calls to all backends may have another result from now on, because the configuration has changed.
    pub fn all_changed(&self) {
        self.state.lock().of_all = Some(Instant::now());
        self.touched.notify_one();
    }

    /// Records that pods have ceased to count that were not bound, the first of which has counted since this time: those that
    /// were rejected meanwhile may have another result.
    pub fn freed(&self, since: Instant) {
        let now = Instant::now();
        let mut state = self.state.lock();
        for pod in state.pods.values_mut().filter(|pod| pod.tried >= since && !pod.is_retried) {
            pod.freed = Some(now);
        }
    }

    /// Removes pods that no longer wait according to `pods`, if a watch fills it, and those not tried for too long.
    pub fn refresh(&self, pods: &PodTable) {
        let is_watched = pods.is_synced() && pods.source_health.failing().is_none();
        let now = Instant::now();
        self.state.lock().pods.retain(|uid, waiting| {
            let tried = now.saturating_duration_since(waiting.tried);
            let waits = || pods.get(uid).map_or(tried < WATCH_DELAY, |pod| pod.node.is_empty());
            tried < MAX_SILENCE && (!is_watched || waits())
        });
    }

    /// The waiting pods of each backend that has any, by its name.
    pub fn by_backend(&self) -> BTreeMap<String, WaitingSummary> {
        let (state, now) = (self.state.lock(), Instant::now());
        let mut summaries = BTreeMap::new();
        for pod in state.pods.values() {
            let waited = now.saturating_duration_since(pod.since);
            for backend in &pod.held_by {
                let change = state.change_of(backend.name.as_str()).map(|(at, _)| at);
                let none = || WaitingSummary { pods: 0, oldest: waited, untried: 0, changed: None };
                // Without a copy of the name for each pod: calls wait for the lock.
                let summary = match summaries.get_mut(backend.name.as_str()) {
                    Some(summary) => summary,
                    None => summaries.entry(backend.name.to_string()).or_insert_with(none),
                };
                summary.pods += 1;
                summary.oldest = summary.oldest.max(waited);
                summary.untried += u32::from(!pod.is_retried && change.is_some_and(|at| at > pod.tried));
                summary.changed = change.map(|at| now.saturating_duration_since(at));
            }
        }
        summaries
    }

    /// The pods that should be tried again, at most this many.
    pub fn due(&self, most: usize) -> Due {
        let (state, now) = (self.state.lock(), Instant::now());
        let mut due = Vec::new();
        let mut next: Option<Instant> = None;
        for (uid, pod) in &state.pods {
            let Some((backend, change)) = state.change_for(pod) else { continue };
            let at = pod.next_request();
            if at <= now {
                due.push(((pod.failed, pod.since, uid), pod, backend, change));
            } else {
                next = Some(next.map_or(at, |next| next.min(at)));
            }
        }
        if due.is_empty() {
            return next.map_or(Due::Never, Due::At);
        }
        due.sort_unstable_by_key(|(order, ..)| *order);
        due.truncate(most);
        let due = due.into_iter().map(|((_, _, uid), pod, backend, change)| DuePod {
            uid: uid.clone(),
            namespace: pod.namespace.clone(),
            name: pod.name.clone(),
            backend: backend.to_owned(),
            change,
        });
        Due::Now(due.collect())
    }

    /// Waits until pods may have become due. For one caller.
    pub async fn touched(&self) {
        self.touched.notified().await;
    }

    /// Records that kube-scheduler was made to try this pod again, by a request that was sent at this time. A change
    /// after it may have come too late for the attempt.
    pub fn requested(&self, uid: &str, at: Instant) {
        if let Some(pod) = self.state.lock().pods.get_mut(uid) {
            let before = pod.requested.map_or(0, |(_, requests)| requests);
            pod.requested = Some((at, before.saturating_add(1)));
            pod.failed = None;
        }
    }

    /// Records that kube-scheduler could not be made to try this pod again. It stays due, after the others.
    pub fn request_failed(&self, uid: &str) {
        if let Some(pod) = self.state.lock().pods.get_mut(uid) {
            pod.failed = Some(Instant::now());
        }
    }

    /// Removes a pod that no longer exists.
    pub fn remove(&self, uid: &str) {
        self.state.lock().pods.remove(uid);
    }

    /// The number of pods.
    pub fn len(&self) -> usize {
        self.state.lock().pods.len()
    }

    /// Whether no pod waits.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

impl WaitingState {
    /// Records a pod that waits; whether it should be tried again already. `is_retried` is absent if the call does not
    /// change whether kube-scheduler tries it again by itself.
    fn wait(
        &mut self,
        verb: Verb,
        is_retried: Option<bool>,
        record: &CallRecord,
        held_by: Vec<Arc<BackendSettings>>,
    ) -> bool {
        let (uid, now) = (&record.pod.uid, Instant::now());
        if self.pods.len() >= MAX_PODS && !self.pods.contains_key(uid) {
            self.sweep(now);
            if self.pods.len() >= MAX_PODS {
                return false;
            }
        }
        let pod = self.pods.entry(uid.clone()).or_insert_with(|| WaitingPod {
            namespace: record.pod.namespace.clone(),
            name: record.pod.name.clone(),
            since: record.started,
            tried: record.started,
            verb,
            is_retried: false,
            held_by: Vec::new(),
            freed: None,
            requested: None,
            failed: None,
        });
        (pod.tried, pod.verb) = (record.started, verb);
        match verb {
            // Preempt and bind follow a filter call about the same attempt.
            Verb::Preempt | Verb::Bind => pod.held_by.extend(held_by),
            Verb::Filter | Verb::Prioritize => pod.held_by = held_by,
        }
        pod.is_retried = is_retried.unwrap_or(pod.is_retried);
        pod.held_by.sort_by(|one, other| one.name.cmp(&other.name));
        pod.held_by.dedup_by(|one, other| one.name == other.name);
        self.pods.get(uid).is_some_and(|pod| self.change_for(pod).is_some())
    }

    /// Removes pods that were not tried for too long. Not at each call: there are many pods.
    fn sweep(&mut self, now: Instant) {
        if self.swept.is_some_and(|swept| now.saturating_duration_since(swept) < SWEEP_PERIOD) {
            return;
        }
        self.swept = Some(now);
        self.pods.retain(|_, pod| now.saturating_duration_since(pod.tried) < MAX_SILENCE);
    }

    /// A pod whose bind failed still waits when it has a node again.
    fn place(&mut self, verb: Verb, uid: &str) {
        if self.pods.get(uid).is_some_and(|pod| pod.verb != Verb::Bind || verb == Verb::Bind) {
            self.pods.remove(uid);
        }
    }

    /// Records a change, unless a later one is known.
    fn change(&mut self, backend: &str, change: (Instant, PolicyChange)) {
        let latest = self.changes.entry(backend.to_owned()).or_insert(change);
        if latest.0 < change.0 {
            *latest = change;
        }
        // The next call that it answers is no further change.
        self.failing.remove(backend);
    }

    /// The backends that answered in this call after their calls for a verb had failed for a while, and for how long.
    fn recovered(&mut self, record: &CallRecord) -> Vec<(String, PolicyVerb, Duration)> {
        let mut recovered = Vec::new();
        for part in &record.backends {
            let (name, verb) = (part.backend.name.as_str(), part.verb);
            if part.has_failed() {
                let verbs = self.failing.entry(name.to_owned()).or_default();
                if verbs.iter().all(|(failing, _)| *failing != verb) {
                    verbs.push((verb, record.started));
                }
            } else if let Some(verbs) = self.failing.get_mut(name).filter(|_| part.has_responded()) {
                let ended = verbs.iter().position(|(failing, _)| *failing == verb);
                let lasted = ended.map(|at| verbs.swap_remove(at).1.elapsed());
                let outage = lasted.filter(|lasted| *lasted >= SHORTEST_OUTAGE);
                recovered.extend(outage.map(|lasted| (name.to_owned(), verb, lasted)));
            }
        }
        recovered
    }

    /// The latest change that concerns this backend.
    fn change_of(&self, backend: &str) -> Option<(Instant, PolicyChange)> {
        let of_all = self.of_all.map(|at| (at, PolicyChange::Configuration));
        self.changes.get(backend).copied().into_iter().chain(of_all).max_by_key(|(at, _)| *at)
    }

    /// The backend that changed after the pod was last tried or requested, and its change.
    fn change_for<'p>(&self, pod: &'p WaitingPod) -> Option<(&'p str, PolicyChange)> {
        let requested = pod.requested.map(|(at, _)| at);
        let is_later = |at: &Instant| *at > pod.tried && requested.is_none_or(|requested| *at > requested);
        let freed = pod.freed.filter(is_later).map(|_| PolicyChange::Freed);
        pod.held_by.iter().find_map(|backend| {
            let changed = self.change_of(backend.name.as_str()).filter(|(at, _)| is_later(at));
            Some((backend.name.as_str(), changed.map(|(_, change)| change).or(freed)?))
        })
    }
}

impl WaitingPod {
    /// The earliest time of the next request. A backend that changes all the time must not cause endless writes.
    fn next_request(&self) -> Instant {
        self.requested.map_or(self.since, |(at, requests)| {
            let doublings = 1_u32.checked_shl(requests - 1).unwrap_or(u32::MAX);
            at + FIRST_PAUSE.saturating_mul(doublings).min(LONGEST_PAUSE)
        })
    }
}

#[cfg(test)]
mod tests;
