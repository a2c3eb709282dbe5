//! Decides which calls stay: the latest of each pod, longest those of pods that found no node.

use std::{
    borrow::Cow,
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Weak},
    time::{Duration, SystemTime},
};

use extender_gateway_core::Verb;
use extender_gateway_record::{CallOutcome, PodRef};
use foldhash::{HashMap, HashMapExt};
use prometheus_client::metrics::counter::Counter;

use super::{dictionary::Dictionary, entry::LogEntry};

/// The most calls of one pod. A pod that is retried often must not evict all others.
const MAX_CALLS_PER_POD: usize = 64;
/// A pending pod is retried every five minutes at the latest; one without a call for this long is deleted, or was
/// placed through another replica.
const GONE: Duration = Duration::from_mins(15);
/// The approximate bytes of a pod besides its calls and texts.
const POD_BYTES: usize = 256;
/// The least and the largest size at which a dictionary is replaced, in bytes, to drop the names of deleted nodes.
/// Positions in it have 32 bits.
const LEAST_DICTIONARY: usize = 1 << 20;
const LARGEST_DICTIONARY: usize = 1 << 30;
/// The least and the most that the new texts of one call may take, in bytes; in between it is an eighth of the log,
/// so that no call evicts all others.
const LEAST_SHARE: usize = 256 << 10;
const LARGEST_SHARE: usize = 256 << 20;
/// How many pods are visited under one lock.
pub(super) const PODS_PER_STEP: usize = 64;

/// Calls by pod, limited in bytes.
#[derive(Debug)]
pub(super) struct Retention {
    pub(super) max_bytes: usize,
    bytes: usize,
    calls: usize,
    evicted: Counter,
    /// When the latest evicted call was made: since then the log is complete.
    pub(super) latest_evicted: Option<SystemTime>,
    /// By UID.
    pods: HashMap<Arc<str>, Pod>,
    /// Pods that found a node, and pending ones, each ordered by their latest call.
    ages: [BTreeMap<u64, Arc<str>>; 2],
    turn: u64,
    dictionary: Arc<Dictionary>,
    /// Earlier dictionaries of calls in the log, with their sizes.
    earlier: Vec<(Weak<Dictionary>, usize)>,
}

#[derive(Debug)]
struct Pod {
    identity: Arc<PodRef>,
    calls: VecDeque<Arc<LogEntry>>,
    /// Whether it still waits for a node, judging by its calls.
    pending: bool,
    turn: u64,
}

impl Retention {
    pub(super) fn new(max_bytes: usize, evicted: Counter) -> Self {
        Self {
            max_bytes,
            bytes: 0,
            calls: 0,
            evicted,
            latest_evicted: None,
            pods: HashMap::new(),
            ages: Default::default(),
            turn: 0,
            dictionary: Arc::default(),
            earlier: Vec::new(),
        }
    }

    /// Changes the limit.
    pub(super) fn resize(&mut self, max_bytes: usize) {
        let now = SystemTime::now();
        if self.max_bytes == 0 && max_bytes > 0 {
            // Calls while the log was disabled are missing.
            self.latest_evicted = self.latest_evicted.max(Some(now));
        }
        self.max_bytes = max_bytes;
        self.make_room(now);
    }

    /// The size, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let earlier: usize = self.earlier.iter().map(|(_, bytes)| bytes).sum();
        self.bytes + earlier + self.dictionary.read().bytes()
    }

    /// The numbers of calls, pods and evicted calls.
    pub(super) fn counts(&self) -> (usize, usize, u64) {
        (self.calls, self.pods.len(), self.evicted.get())
    }

    /// The dictionary for new entries, with room for the texts of one call.
    pub(super) fn prepare_dictionary(&mut self) -> &Arc<Dictionary> {
        let bytes = self.dictionary.read().bytes();
        if bytes > (self.max_bytes / 8).clamp(LEAST_DICTIONARY, LARGEST_DICTIONARY) {
            let full = std::mem::take(&mut self.dictionary);
            self.earlier.push((Arc::downgrade(&full), bytes));
        }
        self.dictionary.write().limit((self.max_bytes / 8).clamp(LEAST_SHARE, LARGEST_SHARE));
        &self.dictionary
    }

    /// The stored copy of the pod, so that its calls share it.
    pub(super) fn pod(&self, pod: &PodRef) -> Arc<PodRef> {
        let same = |known: &&Arc<PodRef>| {
            (&known.uid, &known.namespace, &known.name) == (&pod.uid, &pod.namespace, &pod.name)
        };
        let known = self.pods.get(&*key(pod)).map(|known| &known.identity).filter(same);
        known.map_or_else(|| Arc::new(PodRef { nominated: String::new(), ..pod.clone() }), Arc::clone)
    }

    /// Whether the latest answer of a pod, with its scores, is that of another pod's filter call with this id.
    pub(super) fn has_kept(&self, call: &str, uid: &str) -> bool {
        let latest = self.pods.get(uid).into_iter().flat_map(|pod| pod.calls.iter().rev().take(2));
        latest.into_iter().any(|entry| entry.kept && *entry.id == *call)
    }

    /// The filter call of a pod with this id, and the prioritize call that was decided in it. That of another attempt does not
    /// overlap with it.
    pub(super) fn answers_of(&self, call: &str, uid: &str) -> Vec<Arc<LogEntry>> {
        let Some(Pod { calls, .. }) = self.pods.get(uid) else { return Vec::new() };
        let is_own = |entry: &&Arc<LogEntry>, verb| entry.verb == verb && !entry.shadow && !entry.kept;
        let mut filters = calls.iter().filter(|entry| is_own(entry, Verb::Filter));
        let Some(filter) = filters.find(|entry| *entry.id == *call) else { return Vec::new() };
        let is_in_it = |entry: &&Arc<LogEntry>| {
            entry.time < filter.time + filter.took && filter.time < entry.time + entry.took
        };
        let scores = calls.iter().filter(|entry| is_own(entry, Verb::Prioritize)).find(is_in_it);
        [filter].into_iter().chain(scores).cloned().collect()
    }

    /// Stores a call, and evicts others if there is no room.
    pub(super) fn put(&mut self, entry: LogEntry) {
        let bytes = entry.bytes();
        // One call, however long its texts are, must not evict all others.
        if bytes + POD_BYTES + text_bytes(&entry.pod) > self.max_bytes / 8 {
            self.count_evicted(&entry);
            return;
        }
        self.turn += 1;
        let pod = Arc::clone(&entry.pod);
        let key = key(&pod);
        let (key, mut pod) = self.take(&key).unwrap_or_else(|| {
            self.bytes += POD_BYTES + text_bytes(&pod);
            let identity = Arc::clone(&pod);
            (key.as_ref().into(), Pod { identity, calls: VecDeque::new(), pending: false, turn: 0 })
        });
        if !entry.shadow {
            pod.pending = is_pending(&entry).unwrap_or(pod.pending);
        }
        pod.turn = self.turn;
        if pod.calls.len() >= MAX_CALLS_PER_POD {
            // The pod's own limit: evicting it frees no room for others.
            drop(self.drop_oldest(&mut pod));
        }
        let now = entry.time;
        self.calls += usize::from(!entry.shadow);
        pod.calls.push_back(Arc::new(entry));
        self.bytes += bytes;
        self.put_back(key, pod);
        self.make_room(now);
    }

    /// Counts a call that was evicted to make room.
    fn count_evicted(&mut self, entry: &LogEntry) {
        self.evicted.inc_by((!entry.shadow).into());
        self.latest_evicted = self.latest_evicted.max(Some(entry.time));
    }

    /// Removes a pod from the order.
    fn take(&mut self, key: &str) -> Option<(Arc<str>, Pod)> {
        let (key, pod) = self.pods.remove_entry(key)?;
        self.ages[usize::from(pod.pending)].remove(&pod.turn);
        Some((key, pod))
    }

    fn put_back(&mut self, key: Arc<str>, pod: Pod) {
        self.ages[usize::from(pod.pending)].insert(pod.turn, Arc::clone(&key));
        self.pods.insert(key, pod);
    }

    fn drop_oldest(&mut self, pod: &mut Pod) -> Option<Arc<LogEntry>> {
        let oldest = pod.calls.pop_front()?;
        self.bytes -= oldest.bytes();
        self.calls -= usize::from(!oldest.shadow);
        Some(oldest)
    }

    /// The pod whose calls are evicted first: one that found a node, or had no call for so long that it is no longer
    /// pending.
    fn first_to_evict(&self, now: SystemTime) -> Option<Arc<str>> {
        let [placed, pending] = &self.ages;
        let oldest = pending.values().next();
        let is_gone = |key: &&Arc<str>| {
            let latest = self.pods.get(*key).and_then(|pod| pod.calls.back());
            latest.is_some_and(|latest| now.duration_since(latest.time).is_ok_and(|age| age > GONE))
        };
        oldest.filter(is_gone).or_else(|| placed.values().next()).or(oldest).cloned()
    }

    fn make_room(&mut self, now: SystemTime) {
        while self.bytes() > self.max_bytes {
            let first = self.first_to_evict(now);
            let Some((key, mut pod)) = first.and_then(|key| self.take(&key)) else {
                // Only unused texts are left.
                self.dictionary = Arc::default();
                self.earlier.clear();
                return;
            };
            if let Some(oldest) = self.drop_oldest(&mut pod) {
                self.count_evicted(&oldest);
            }
            if pod.calls.is_empty() {
                self.bytes -= POD_BYTES + text_bytes(&pod.identity);
            } else {
                self.put_back(key, pod);
            }
            self.earlier.retain(|(dictionary, _)| dictionary.strong_count() > 0);
        }
    }

    /// The calls of the next pods after this turn that `wanted` selects, unordered, and the turn after which the next
    /// step continues; `None` after the last one. A pod with another call between two steps moves to the end, so that
    /// none is missed and some are returned twice.
    pub(super) fn step(
        &self,
        after: u64,
        wanted: impl Fn(&PodRef) -> bool,
    ) -> (Vec<Arc<LogEntry>>, Option<u64>) {
        let after = after.saturating_add(1);
        let later = self.ages.iter().flat_map(|ages| ages.range(after..).take(PODS_PER_STEP));
        let mut turns: Vec<(&u64, &Arc<str>)> = later.collect();
        turns.sort_unstable_by_key(|(turn, _)| *turn);
        turns.truncate(PODS_PER_STEP);
        let next = turns.last().map(|(turn, _)| **turn);
        let pods =
            turns.iter().filter_map(|(_, key)| self.pods.get(*key)).filter(|pod| wanted(&pod.identity));
        (pods.flat_map(|pod| pod.calls.iter().cloned()).collect(), next)
    }
}

/// The key of a pod: its UID, or its name if callers send no UID.
fn key(pod: &PodRef) -> Cow<'_, str> {
    if pod.uid.is_empty() { format!("{}/{}", pod.namespace, pod.name).into() } else { (&*pod.uid).into() }
}

fn text_bytes(pod: &PodRef) -> usize {
    pod.namespace.len() + pod.name.len() + pod.owner.len() + 3 * pod.uid.len()
}

/// Whether the pod is pending after this call; `None` if the call does not tell.
pub(super) fn is_pending(entry: &LogEntry) -> Option<bool> {
    match (entry.verb, entry.left) {
        (Verb::Filter, Some(1..)) | (Verb::Bind, _) if entry.outcome == CallOutcome::Ok => Some(false),
        (Verb::Filter | Verb::Bind | Verb::Preempt, _) => Some(true),
        (Verb::Prioritize, _) => None,
    }
}

#[cfg(test)]
mod tests;
