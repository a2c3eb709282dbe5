//! The pods that wait because a backend rejected or failed them, filled from call records after the response.
//!
//! A pod waits from such a call until a filter call leaves it a node or it is bound. kube-scheduler tries a pod that
//! it has put aside again at an event that concerns it, and after five minutes at the latest. A backend's recovery is
//! no such event, so this table also knows which pods were last tried before their backend changed. A backend whose answers
//! change without another revision is found by trying one of its pods from time to time.

mod freed;
mod groups;
mod holders;

use std::{collections::BTreeMap, sync::Arc, time::Duration};

use extender_gateway_core::{PolicyVerb, Verb};
use extender_gateway_pace::backoff::Backoff;
use foldhash::{HashMap, HashSet};
use parking_lot::Mutex;
use tokio::{sync::Notify, time::Instant};

use extender_gateway_cluster::{SourceHealth, pods::PodTable};
use extender_gateway_record::{CallOutcome, CallRecord};
use extender_gateway_settings::BackendSettings;

use self::{
    freed::Freed,
    holders::{Effect, Holders, effect},
};

use crate::metrics::Turn;

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
/// The pauses between requests for a pod.
const PAUSES: Backoff = Backoff::new(Duration::from_secs(10), Duration::from_mins(5));
/// Of a backend that leaves no node, one pod is tried again when none was for this time: its answers may have changed.
const PROBE_PERIOD: Duration = Duration::from_secs(30);

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
    /// The names of the backends whose latest decisions left no node.
    stuck: Vec<String>,
    /// When pods counted that were not bound.
    freed: Freed,
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
    /// The backend left pods no node, and now leaves one of them some.
    Answers,
    /// It is unknown whether the backend's answers have changed: this pod is tried to find out.
    Probe,
}

#[derive(Debug)]
struct WaitingPod {
    namespace: String,
    name: String,
    since: Instant,
    /// When the latest attempt began.
    tried: Instant,
    /// When it had certainly ended.
    ended: Instant,
    /// The verb of the call after which it waits.
    verb: Verb,
    /// Whether that call ended with an error, after which kube-scheduler tries the pod again by itself, within seconds.
    is_retried: bool,
    /// The backends that rejected or failed it.
    held_by: Vec<Arc<BackendSettings>>,
    /// What it is a part of, for people.
    workload: String,
    /// Why it waits, with the backend's name.
    reason: String,
    /// When it was last tried as a probe.
    probed: Option<Instant>,
    /// The requests to try it again because a backend or the configuration has changed.
    requested: Option<Requests>,
    /// Those because a pod that was not bound no longer counts: binds that fail delay no request for a change.
    requested_freed: Option<Requests>,
    /// The latest request that failed, if it has not succeeded since.
    failed: Option<Instant>,
}

/// Requests to try a pod again.
#[derive(Debug, Clone, Copy)]
struct Requests {
    /// When the latest one was sent.
    at: Instant,
    /// Their number.
    number: u32,
}

/// The pods that wait because of one backend.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct WaitingSummary {
    /// Their number.
    pub pods: u32,
    /// The number of workloads that they are parts of.
    pub workloads: u32,
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
    pub fn record(&self, verb: Verb, outcome: CallOutcome, record: &CallRecord) {
        let mut state = self.state.lock();
        let recovered = state.recovered(record);
        for (backend, ..) in &recovered {
            // This call has seen it.
            state.change(backend, (record.started, PolicyChange::Recovered));
        }
        // An error of a preemption leaves the pod rejected.
        let is_retried = (verb != Verb::Preempt).then_some(outcome != CallOutcome::Ok);
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

    /// Records that a pod has found a node without a call.
    pub fn placed(&self, uid: &str) {
        self.state.lock().place(Verb::Filter, uid);
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
        self.state.lock().freed.add(since, Instant::now());
        self.touched.notify_one();
    }

    /// Records what a filter decision of this backend, in a call that began at this time, means for those that wait.
    pub fn turned(&self, backend: &str, turn: Turn, at: Instant) {
        let mut state = self.state.lock();
        state.stuck.retain(|known| known != backend);
        match turn {
            Turn::Stuck => state.stuck.push(backend.to_owned()),
            Turn::Changed => state.change(backend, (at, PolicyChange::Answers)),
            Turn::None | Turn::Over => {}
        }
        drop(state);
        self.touched.notify_one();
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
        let mut workloads: HashSet<(&str, &str)> = HashSet::default();
        for pod in state.pods.values() {
            let waited = now.saturating_duration_since(pod.since);
            for backend in &pod.held_by {
                let change = state.change_of(backend.name.as_str()).map(|(at, _)| at);
                let none =
                    || WaitingSummary { pods: 0, workloads: 0, oldest: waited, untried: 0, changed: None };
                // Without a copy of the name for each pod: calls wait for the lock.
                let summary = match summaries.get_mut(backend.name.as_str()) {
                    Some(summary) => summary,
                    None => summaries.entry(backend.name.to_string()).or_insert_with(none),
                };
                summary.pods += 1;
                summary.workloads += u32::from(workloads.insert((backend.name.as_str(), &pod.workload)));
                summary.oldest = summary.oldest.max(waited);
                summary.untried += u32::from(!pod.is_retried && change.is_some_and(|at| at > pod.tried));
                summary.changed = change.map(|at| now.saturating_duration_since(at));
            }
        }
        summaries
    }

    /// The name of the pod that has waited longest for this backend in this namespace.
    pub fn held_in(&self, backend: &str, namespace: &str) -> Option<String> {
        let state = self.state.lock();
        let is_held = |pod: &&WaitingPod| {
            pod.namespace == namespace && pod.held_by.iter().any(|it| it.name.as_str() == backend)
        };
        state.pods.values().filter(is_held).min_by_key(|pod| pod.since).map(|pod| pod.name.clone())
    }

    /// The number of pods that were last tried before a backend that holds them changed, also if it was removed, and that
    /// kube-scheduler does not try again by itself; and the time since the latest change.
    pub fn untried(&self) -> Option<(u32, Duration)> {
        let (state, now) = (self.state.lock(), Instant::now());
        let untried = || state.pods.values().filter(|pod| state.is_untried(pod));
        let holders = untried().flat_map(|pod| &pod.held_by);
        let latest =
            holders.filter_map(|backend| state.change_of(backend.name.as_str())).map(|(at, _)| at).max()?;
        Some((u32::try_from(untried().count()).unwrap_or(u32::MAX), now.saturating_duration_since(latest)))
    }

    /// The pods that should be tried again, at most this many.
    pub fn due(&self, most: usize) -> Due {
        let (state, now) = (self.state.lock(), Instant::now());
        let mut due = Vec::new();
        let mut next: Option<Instant> = None;
        let changed = state.pods.iter().filter_map(|(uid, pod)| {
            let (backend, change) = state.change_for(pod)?;
            Some((pod.next_request(change), uid, backend, change))
        });
        let probes = state.probes().into_iter();
        let probes = probes.map(|(backend, (at, uid))| (at, uid, backend, PolicyChange::Probe));
        let probes = probes.filter(|(_, uid, ..)| state.change_for(&state.pods[*uid]).is_none());
        for (at, uid, backend, change) in changed.chain(probes) {
            let pod = &state.pods[uid];
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

    /// Records that kube-scheduler was made to try this pod again because of this change, by a request that was sent at
    /// this time. A change after it may have come too late for the attempt.
    pub fn requested(&self, uid: &str, change: PolicyChange, at: Instant) {
        if let Some(pod) = self.state.lock().pods.get_mut(uid) {
            if change == PolicyChange::Probe {
                // It delays no request for a change.
                (pod.probed, pod.failed) = (Some(at), None);
                return;
            }
            let requests = pod.requests_for(change);
            let before = requests.map_or(0, |requests| requests.number);
            *requests = Some(Requests { at, number: before.saturating_add(1) });
            pod.failed = None;
        }
    }

    /// Records that kube-scheduler could not be made to try this pod again. It stays due, after the others.
    pub fn request_failed(&self, uid: &str) {
        if let Some(pod) = self.state.lock().pods.get_mut(uid) {
            let now = Instant::now();
            (pod.failed, pod.probed) = (Some(now), Some(now));
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
    /// Records a pod that waits; whether the pods to try again may be others now. `is_retried` is absent if the call does not
    /// change whether kube-scheduler tries it again by itself.
    fn wait(
        &mut self,
        verb: Verb,
        is_retried: Option<bool>,
        record: &CallRecord,
        Holders { backends: held_by, reason }: Holders,
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
            ended: now,
            verb,
            is_retried: false,
            held_by: Vec::new(),
            workload: record.pod.workload(),
            reason: String::new(),
            probed: None,
            requested: None,
            requested_freed: None,
            failed: None,
        });
        let is_stuck = |backend: &Arc<BackendSettings>| {
            self.stuck.iter().any(|name| *name == *backend.name.as_str())
                && !pod.held_by.iter().any(|it| it.name == backend.name)
        };
        // The time of the next probe may depend on it.
        let may_be_probed = held_by.iter().any(is_stuck);
        (pod.tried, pod.ended, pod.verb, pod.reason) = (record.started, now, verb, reason);
        match verb {
            // Preempt and bind follow a filter call about the same attempt.
            Verb::Preempt | Verb::Bind => pod.held_by.extend(held_by),
            Verb::Filter | Verb::Prioritize => pod.held_by = held_by,
        }
        pod.is_retried = is_retried.unwrap_or(pod.is_retried);
        pod.held_by.sort_by(|one, other| one.name.cmp(&other.name));
        pod.held_by.dedup_by(|one, other| one.name == other.name);
        may_be_probed || self.pods.get(uid).is_some_and(|pod| self.change_for(pod).is_some())
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

    /// For each stuck backend that holds pods: the pod that was tried the longest ago, and when it is to be tried.
    fn probes(&self) -> BTreeMap<&str, (Instant, &String)> {
        let mut probes = BTreeMap::new();
        if self.stuck.is_empty() {
            return BTreeMap::new();
        }
        for (uid, pod) in self.pods.iter().filter(|(_, pod)| !pod.is_retried) {
            let tried = pod.last_try();
            for backend in &pod.held_by {
                let Some(stuck) = self.stuck.iter().find(|name| **name == *backend.name.as_str()) else {
                    continue;
                };
                let (latest, oldest) = probes.entry(stuck.as_str()).or_insert((tried, (tried, uid)));
                *latest = tried.max(*latest);
                *oldest = (*oldest).min((tried, uid));
            }
        }
        let due = |(backend, (latest, (_, uid)))| (backend, (latest + PROBE_PERIOD, uid));
        probes.into_iter().map(due).collect()
    }

    /// The latest change that concerns this backend.
    fn change_of(&self, backend: &str) -> Option<(Instant, PolicyChange)> {
        let of_all = self.of_all.map(|at| (at, PolicyChange::Configuration));
        self.changes.get(backend).copied().into_iter().chain(of_all).max_by_key(|(at, _)| *at)
    }

    /// Whether a backend that holds it has changed since it was tried, and kube-scheduler does not try it by itself.
    fn is_untried(&self, pod: &WaitingPod) -> bool {
        let changed = |backend: &Arc<BackendSettings>| {
            self.change_of(backend.name.as_str()).is_some_and(|(at, _)| at > pod.tried)
        };
        !pod.is_retried && pod.held_by.iter().any(changed)
    }

    /// The backend that changed after the pod was last tried or requested, and its change.
    fn change_for<'p>(&self, pod: &'p WaitingPod) -> Option<(&'p str, PolicyChange)> {
        let requested = pod.latest_request();
        let is_later = |at: &Instant| *at > pod.tried && requested.is_none_or(|requested| *at > requested);
        let freed = if pod.is_retried { None } else { self.freed.during(pod.tried, pod.ended) };
        let freed = freed.filter(is_later).map(|_| PolicyChange::Freed);
        pod.held_by.iter().find_map(|backend| {
            let changed = self.change_of(backend.name.as_str()).filter(|(at, _)| is_later(at));
            Some((backend.name.as_str(), changed.map(|(_, change)| change).or(freed)?))
        })
    }
}

impl WaitingPod {
    /// When it was last tried, or asked to be.
    fn last_try(&self) -> Instant {
        [self.latest_request(), self.probed].into_iter().flatten().fold(self.tried, Instant::max)
    }

    /// When the latest request for a change was sent.
    fn latest_request(&self) -> Option<Instant> {
        self.requested.into_iter().chain(self.requested_freed).map(|requests| requests.at).max()
    }

    /// The requests that count for those because of this change.
    fn requests_for(&mut self, change: PolicyChange) -> &mut Option<Requests> {
        if change == PolicyChange::Freed { &mut self.requested_freed } else { &mut self.requested }
    }

    /// The earliest time of the next request because of this change. A backend that changes all the time must not cause endless
    /// writes.
    fn next_request(&self, change: PolicyChange) -> Instant {
        let requests = if change == PolicyChange::Freed { self.requested_freed } else { self.requested };
        requests.map_or(self.since, |Requests { at, number }| at + PAUSES.after(number - 1))
    }
}

#[cfg(test)]
mod tests;
