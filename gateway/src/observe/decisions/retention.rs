//! Decides which calls stay: the latest of each pod, longest those of pods that found no node.

use extender_gateway_core::Verb;
use std::{
    borrow::Cow,
    collections::{BTreeMap, VecDeque},
    sync::{Arc, Weak},
    time::{Duration, SystemTime},
};

use foldhash::{HashMap, HashMapExt};

use super::{dictionary::Dictionary, entry::LogEntry};
use crate::record::PodRef;

/// The most calls of one pod. A pod that is retried often must not evict all others.
const MOST_OF_A_POD: usize = 64;
/// A waiting pod is retried every five minutes at the latest; one without a call for this long is deleted, or was
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
pub(super) const PODS_A_STEP: usize = 64;

/// The calls found in one step of a search.
#[derive(Debug)]
pub(super) struct SearchStep {
    /// The calls of some pods.
    pub(super) calls: Vec<Arc<LogEntry>>,
    /// Where the next step continues; `None` after the last one.
    pub(super) next: Option<u64>,
}

/// Calls by pod, limited in bytes.
#[derive(Debug)]
pub(super) struct Retention {
    most: usize,
    bytes: usize,
    calls: usize,
    evicted: u64,
    /// When the latest evicted call was made.
    lost: Option<SystemTime>,
    /// By UID.
    pods: HashMap<Arc<str>, Pod>,
    /// Pods that found a node, and those that did not, each ordered by their latest call.
    ages: [BTreeMap<u64, Arc<str>>; 2],
    turn: u64,
    dictionary: Arc<Dictionary>,
    /// Earlier dictionaries of calls in the log, with their sizes.
    earlier: Vec<(Weak<Dictionary>, usize)>,
}

#[derive(Debug)]
struct Pod {
    who: Arc<PodRef>,
    calls: VecDeque<Arc<LogEntry>>,
    waits: Waits,
    turn: u64,
}

/// Whether a pod still waits for a node, judging by its calls.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Waits {
    No = 0,
    Yes = 1,
}

impl Retention {
    pub(super) fn new(most: usize) -> Self {
        Self {
            most,
            bytes: 0,
            calls: 0,
            evicted: 0,
            lost: None,
            pods: HashMap::new(),
            ages: Default::default(),
            turn: 0,
            dictionary: Arc::default(),
            earlier: Vec::new(),
        }
    }

    /// The limit, in bytes.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// Changes the limit.
    pub(super) fn resize(&mut self, most: usize) {
        if self.most == 0 && most > 0 {
            // Calls while the log was disabled are missing.
            self.lost = self.lost.max(Some(SystemTime::now()));
        }
        self.most = most;
        self.make_room();
    }

    /// The size, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let earlier: usize = self.earlier.iter().map(|(_, bytes)| bytes).sum();
        self.bytes + earlier + self.dictionary.read().bytes()
    }

    /// The numbers of calls, pods and evicted calls.
    pub(super) fn counts(&self) -> (usize, usize, u64) {
        (self.calls, self.pods.len(), self.evicted)
    }

    /// The dictionary for new entries, with room for the texts of one call.
    pub(super) fn dictionary(&mut self) -> &Arc<Dictionary> {
        let bytes = self.dictionary.read().bytes();
        if bytes > (self.most / 8).clamp(LEAST_DICTIONARY, LARGEST_DICTIONARY) {
            let full = std::mem::take(&mut self.dictionary);
            self.earlier.push((Arc::downgrade(&full), bytes));
        }
        self.dictionary.write().limit((self.most / 8).clamp(LEAST_SHARE, LARGEST_SHARE));
        &self.dictionary
    }

    /// The stored copy of the pod, so that its calls share it.
    pub(super) fn pod(&self, pod: &PodRef) -> Arc<PodRef> {
        let known = self.pods.get(&*key(pod)).map(|known| &known.who).filter(|known| same(known, pod));
        known.map_or_else(|| Arc::new(PodRef { nominated: String::new(), ..pod.clone() }), Arc::clone)
    }

    /// Stores a call, and evicts others if there is no room.
    pub(super) fn put(&mut self, entry: LogEntry) {
        let bytes = entry.bytes();
        // One call, however long its texts are, must not evict all others.
        if bytes + POD_BYTES + texts(&entry.pod) > self.most / 8 {
            self.evict(&entry);
            return;
        }
        self.turn += 1;
        let (who, turn) = (Arc::clone(&entry.pod), self.turn);
        let key = key(&who);
        let (key, mut pod) = self.take(&key).unwrap_or_else(|| {
            self.bytes += POD_BYTES + texts(&who);
            let who = Arc::clone(&who);
            (key.as_ref().into(), Pod { who, calls: VecDeque::new(), waits: Waits::No, turn })
        });
        if !entry.beside {
            pod.waits = waits(&entry).unwrap_or(pod.waits);
        }
        pod.turn = turn;
        if pod.calls.len() >= MOST_OF_A_POD {
            // The pod's own limit: evicting it frees no room for others.
            drop(self.drop_oldest(&mut pod));
        }
        let now = entry.time;
        self.calls += usize::from(!entry.beside);
        pod.calls.push_back(Arc::new(entry));
        self.bytes += bytes;
        self.put_back(key, pod);
        self.make_room_at(now);
    }

    /// Counts a call that was evicted to make room.
    fn evict(&mut self, entry: &LogEntry) {
        self.evicted += u64::from(!entry.beside);
        self.lost = self.lost.max(Some(entry.time));
    }

    /// Removes a pod from the order.
    fn take(&mut self, key: &str) -> Option<(Arc<str>, Pod)> {
        let (key, pod) = self.pods.remove_entry(key)?;
        self.ages[pod.waits as usize].remove(&pod.turn);
        Some((key, pod))
    }

    fn put_back(&mut self, key: Arc<str>, pod: Pod) {
        self.ages[pod.waits as usize].insert(pod.turn, Arc::clone(&key));
        self.pods.insert(key, pod);
    }

    fn drop_oldest(&mut self, pod: &mut Pod) -> Option<Arc<LogEntry>> {
        let oldest = pod.calls.pop_front()?;
        self.bytes -= oldest.bytes();
        self.calls -= usize::from(!oldest.beside);
        Some(oldest)
    }

    fn make_room(&mut self) {
        self.make_room_at(SystemTime::now());
    }

    /// The pod whose calls are evicted first: one that found a node, or had no call for so long that it no longer
    /// waits.
    fn first_to_go(&self, now: SystemTime) -> Option<Arc<str>> {
        let [placed, waiting] = &self.ages;
        let longest = waiting.values().next();
        let is_gone = |key: &&Arc<str>| {
            let latest = self.pods.get(*key).and_then(|pod| pod.calls.back());
            latest.is_some_and(|latest| now.duration_since(latest.time).is_ok_and(|age| age > GONE))
        };
        longest.filter(is_gone).or_else(|| placed.values().next()).or(longest).cloned()
    }

    fn make_room_at(&mut self, now: SystemTime) {
        while self.bytes() > self.most {
            let oldest = self.first_to_go(now);
            let Some((key, mut pod)) = oldest.and_then(|key| self.take(&key)) else {
                // Only unused texts are left.
                self.dictionary = Arc::default();
                self.earlier.clear();
                return;
            };
            if let Some(oldest) = self.drop_oldest(&mut pod) {
                self.evict(&oldest);
            }
            if pod.calls.is_empty() {
                self.bytes -= POD_BYTES + texts(&pod.who);
            } else {
                self.put_back(key, pod);
            }
            self.earlier.retain(|(dictionary, _)| dictionary.strong_count() > 0);
        }
    }

    /// The calls of the next pods after this turn that `wanted` selects, unordered. A pod with another call between
    /// two steps moves to the end, so that none is missed and some are returned twice.
    pub(super) fn step(&self, after: u64, wanted: impl Fn(&PodRef) -> bool) -> SearchStep {
        let later = |ages: &BTreeMap<u64, Arc<str>>| {
            let turns = ages.range(after.saturating_add(1)..).take(PODS_A_STEP);
            turns.map(|(turn, key)| (*turn, Arc::clone(key))).collect::<Vec<_>>()
        };
        let mut turns: Vec<(u64, Arc<str>)> = self.ages.iter().flat_map(later).collect();
        turns.sort_unstable_by_key(|(turn, _)| *turn);
        turns.truncate(PODS_A_STEP);
        let next = turns.last().map(|(turn, _)| *turn);
        let pods = turns.iter().filter_map(|(_, key)| self.pods.get(key)).filter(|pod| wanted(&pod.who));
        SearchStep { calls: pods.flat_map(|pod| pod.calls.iter().cloned()).collect(), next }
    }

    /// The time since which no call was evicted.
    pub(super) fn complete_since(&self) -> Option<SystemTime> {
        self.lost
    }
}

/// The key of a pod: its UID, or its name if callers send no UID.
fn key(pod: &PodRef) -> Cow<'_, str> {
    if pod.uid.is_empty() { format!("{}/{}", pod.namespace, pod.name).into() } else { (&*pod.uid).into() }
}

fn same(one: &PodRef, other: &PodRef) -> bool {
    (&one.uid, &one.namespace, &one.name) == (&other.uid, &other.namespace, &other.name)
}

fn texts(pod: &PodRef) -> usize {
    pod.namespace.len() + pod.name.len() + 3 * pod.uid.len()
}

/// Whether the pod waits after this call; `None` if the call does not tell.
fn waits(entry: &LogEntry) -> Option<Waits> {
    match (entry.verb, entry.left) {
        (Verb::Filter, Some(1..)) | (Verb::Bind, _) if entry.outcome == "ok" => Some(Waits::No),
        (Verb::Filter | Verb::Bind | Verb::Preempt, _) => Some(Waits::Yes),
        (Verb::Prioritize, _) => None,
    }
}

#[cfg(test)]
mod tests;
