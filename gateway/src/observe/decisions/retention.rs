//! Which calls stay: the latest of each pod, and of pods that found no node longest.

use std::{
    borrow::Cow,
    collections::{BTreeMap, HashMap, VecDeque},
    sync::{Arc, Weak},
};

use super::{dictionary::Dictionary, entry::Entry};
use crate::account::Subject;

/// The most calls of one pod. One that is tried over and over must not push out all others.
const MOST_OF_A_POD: usize = 64;
/// What a pod takes beside its calls and texts, in bytes, about.
const POD_BYTES: usize = 256;
/// The least size at which a dictionary is replaced, in bytes: names of nodes that are gone go with it.
const LEAST_DICTIONARY: usize = 1 << 20;

/// Calls by pod, in so many bytes.
#[derive(Debug)]
pub(super) struct Retention {
    most: usize,
    bytes: usize,
    calls: usize,
    evicted: u64,
    pods: HashMap<String, Pod>,
    /// Pods that found a node, and those that did not, each by when they were last asked about.
    ages: [BTreeMap<u64, String>; 2],
    turn: u64,
    dictionary: Arc<Dictionary>,
    /// Those of calls that are still there, with their sizes.
    earlier: Vec<(Weak<Dictionary>, usize)>,
}

#[derive(Debug)]
struct Pod {
    who: Arc<Subject>,
    calls: VecDeque<Arc<Entry>>,
    waits: Waits,
    turn: u64,
}

/// Whether a pod still waits for a node, as far as its calls tell.
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
            pods: HashMap::new(),
            ages: Default::default(),
            turn: 0,
            dictionary: Arc::default(),
            earlier: Vec::new(),
        }
    }

    /// What it may take, in bytes.
    pub(super) fn most(&self) -> usize {
        self.most
    }

    /// Changes what it may take.
    pub(super) fn resize(&mut self, most: usize) {
        self.most = most;
        self.make_room();
    }

    /// What it takes, in bytes.
    pub(super) fn bytes(&self) -> usize {
        let earlier: usize = self.earlier.iter().map(|(_, bytes)| bytes).sum();
        self.bytes + earlier + self.dictionary.read().bytes()
    }

    /// How many calls and pods there are, and how many calls had to go.
    pub(super) fn counts(&self) -> (usize, usize, u64) {
        (self.calls, self.pods.len(), self.evicted)
    }

    /// The one that new entries use.
    pub(super) fn dictionary(&mut self) -> &Arc<Dictionary> {
        let bytes = self.dictionary.read().bytes();
        if bytes > LEAST_DICTIONARY.max(self.most / 8) {
            let full = std::mem::take(&mut self.dictionary);
            self.earlier.push((Arc::downgrade(&full), bytes));
        }
        &self.dictionary
    }

    /// The pod as it is kept, so that its calls share it.
    pub(super) fn pod(&self, pod: &Subject) -> Arc<Subject> {
        let known = self.pods.get(&*key(pod)).map(|known| &known.who).filter(|known| same(known, pod));
        known.map_or_else(|| Arc::new(Subject { nominated: String::new(), ..pod.clone() }), Arc::clone)
    }

    /// Keeps a call, in place of others where there is no room.
    pub(super) fn put(&mut self, entry: Entry) {
        let bytes = entry.bytes();
        if bytes + POD_BYTES > self.most {
            self.evicted += 1;
            return;
        }
        self.turn += 1;
        let (who, turn) = (Arc::clone(&entry.pod), self.turn);
        let mut pod = self.take(&key(&who)).unwrap_or_else(|| {
            self.bytes += POD_BYTES + texts(&who);
            Pod { who, calls: VecDeque::new(), waits: Waits::No, turn }
        });
        if !entry.beside {
            pod.waits = waits(&entry).unwrap_or(pod.waits);
        }
        pod.turn = turn;
        if pod.calls.len() >= MOST_OF_A_POD {
            self.drop_oldest(&mut pod);
        }
        self.calls += usize::from(!entry.beside);
        pod.calls.push_back(Arc::new(entry));
        self.bytes += bytes;
        self.put_back(pod);
        self.make_room();
    }

    /// Takes a pod out of the order.
    fn take(&mut self, key: &str) -> Option<Pod> {
        let pod = self.pods.remove(key)?;
        self.ages[pod.waits as usize].remove(&pod.turn);
        Some(pod)
    }

    fn put_back(&mut self, pod: Pod) {
        let key = key(&pod.who).into_owned();
        self.ages[pod.waits as usize].insert(pod.turn, key.clone());
        self.pods.insert(key, pod);
    }

    fn drop_oldest(&mut self, pod: &mut Pod) {
        if let Some(oldest) = pod.calls.pop_front() {
            self.bytes -= oldest.bytes();
            if !oldest.beside {
                self.calls -= 1;
                self.evicted += 1;
            }
        }
    }

    fn make_room(&mut self) {
        while self.bytes() > self.most {
            let oldest = self.ages.iter().find_map(|ages| ages.values().next().cloned());
            let Some(mut pod) = oldest.and_then(|key| self.take(&key)) else {
                // Nothing is left but texts of nobody.
                self.dictionary = Arc::default();
                self.earlier.clear();
                return;
            };
            self.drop_oldest(&mut pod);
            if pod.calls.is_empty() {
                self.bytes -= POD_BYTES + texts(&pod.who);
            } else {
                self.put_back(pod);
            }
            self.earlier.retain(|(dictionary, _)| dictionary.strong_count() > 0);
        }
    }

    /// The calls of all pods that `wanted` says, in no order.
    pub(super) fn calls(&self, wanted: impl Fn(&Subject) -> bool) -> Vec<Arc<Entry>> {
        let pods = self.pods.values().filter(|pod| wanted(&pod.who));
        pods.flat_map(|pod| pod.calls.iter().cloned()).collect()
    }

    /// When the oldest call came.
    pub(super) fn oldest(&self) -> Option<std::time::SystemTime> {
        self.pods.values().filter_map(|pod| pod.calls.front()).map(|entry| entry.time).min()
    }
}

/// What a pod is known by. Callers that name no UID are told apart by the pod's name.
fn key(pod: &Subject) -> Cow<'_, str> {
    if pod.uid.is_empty() { format!("{}/{}", pod.namespace, pod.name).into() } else { (&*pod.uid).into() }
}

fn same(one: &Subject, other: &Subject) -> bool {
    (&one.uid, &one.namespace, &one.name) == (&other.uid, &other.namespace, &other.name)
}

fn texts(pod: &Subject) -> usize {
    pod.namespace.len() + pod.name.len() + 3 * pod.uid.len()
}

/// Whether the pod waits after this call; `None` where that says nothing.
fn waits(entry: &Entry) -> Option<Waits> {
    match (entry.verb, entry.left) {
        ("filter", Some(1..)) | ("bind", _) if entry.outcome == "ok" => Some(Waits::No),
        ("filter" | "bind" | "preempt", _) => Some(Waits::Yes),
        _ => None,
    }
}

#[cfg(test)]
mod tests;
