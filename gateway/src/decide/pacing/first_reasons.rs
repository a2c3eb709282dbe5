//! Keeps the first texts of nodes, for each pod that fits nowhere.

use std::{
    collections::{HashMap, HashSet, hash_map::Entry},
    hash::BuildHasher,
    sync::Arc,
    time::Duration,
};

use extender_gateway_core::filter::{By, Rejected};
use foldhash::fast::RandomState;
use tokio::time::Instant;

use super::{HeldReasons, SWEEP};
use crate::wire::{Names, reply::Reason};

/// A pod that was not retried for this long is dropped.
const FORGOTTEN: Duration = Duration::from_mins(1);
/// The memory limit of all pods together, in bytes: enough for a million nodes that share texts, or 300,000 with
/// unique texts. Texts beyond the limit are passed on unchanged.
const MOST: usize = 64 << 20;
/// The most that a pod takes besides its texts and nodes.
const POD: usize = 512;
/// The most that a node takes: an entry of a table that has just grown.
const NODE: usize = 64;
/// The most that a text takes besides its bytes: a table entry and an allocation.
const TEXT: usize = 96;

/// The texts of all pods, by the hash of the pod's UID.
#[derive(Debug)]
pub(super) struct FirstReasons {
    /// How long a node's first text is kept.
    held: Duration,
    pods: HashMap<u64, PodReasons, RandomState>,
    /// An upper bound of the memory of `pods`, in bytes.
    taken: usize,
    swept: Option<Instant>,
    hasher: RandomState,
}

/// One pod. A kept pod has at least one node.
#[derive(Debug)]
struct PodReasons {
    last: Instant,
    /// When its first texts were stored.
    since: Instant,
    texts: HashSet<Arc<str>, RandomState>,
    /// The text of a node, by the hash of its backend and name.
    nodes: HashMap<u64, Arc<str>, RandomState>,
    /// An upper bound of its memory, in bytes.
    taken: usize,
}

/// Groups that were created for first texts, by their properties and text. An original group with the same text is
/// not looked for: two groups may have the same text.
type Made = HashMap<(By, bool, Arc<str>), u32, RandomState>;

impl FirstReasons {
    pub(super) fn new(held: Duration) -> Self {
        Self { held, pods: HashMap::default(), taken: 0, swept: None, hasher: RandomState::default() }
    }

    /// Gives nodes the text that they had first, in time proportional to nodes and reasons.
    pub(super) fn hold(
        &mut self,
        pod: u64,
        now: Instant,
        (names, backends): (&Names, &[&str]),
        (rejected, reasons): (&mut Rejected, &mut Vec<Reason>),
    ) -> HeldReasons {
        self.sweep(now);
        let mut texts = self.take(pod, now);
        let most = MOST - self.taken;
        let mut held = HeldReasons::default();
        let mut made = Made::default();
        for node in 0..names.count() {
            let Some(group) = rejected.nodes[node as usize] else { continue };
            let key = self.hasher.hash_one((backends[group as usize], names.name(node)));
            let given = &reasons[group as usize].text;
            match texts.first(key, given, most) {
                None => held.forgotten += 1,
                Some(first) if *first == **given => {}
                Some(first) => {
                    let group = group_with(first, group, (rejected, reasons), &mut made);
                    rejected.nodes[node as usize] = Some(group);
                    held.changed += 1;
                }
            }
        }
        self.put(pod, texts);
        held
    }

    /// Takes the texts of a pod out of the table; none if the pod is new or they have been kept long enough.
    fn take(&mut self, pod: u64, now: Instant) -> PodReasons {
        let known = self.pods.remove(&pod);
        self.taken -= known.as_ref().map_or(0, |texts| texts.taken);
        match known.filter(|texts| now.duration_since(texts.since) < self.held) {
            Some(texts) => PodReasons { last: now, ..texts },
            None => PodReasons {
                last: now,
                since: now,
                texts: HashSet::default(),
                nodes: HashMap::default(),
                taken: POD,
            },
        }
    }

    /// Stores the texts of a pod. They fit: this was checked when each text was added.
    fn put(&mut self, pod: u64, texts: PodReasons) {
        if !texts.nodes.is_empty() {
            self.taken += texts.taken;
            self.pods.insert(pod, texts);
        }
    }

    /// Drops pods that were not retried for a while; runs at most once a second.
    fn sweep(&mut self, now: Instant) {
        if self.swept.is_some_and(|swept| now.duration_since(swept) < SWEEP) {
            return;
        }
        self.swept = Some(now);
        self.pods.retain(|_, pod| now.duration_since(pod.last) < FORGOTTEN);
        self.taken = self.pods.values().map(|pod| pod.taken).sum();
    }
}

impl PodReasons {
    /// The first text of a node. Stores `given` if there is none yet; `None` if the pod would then take more than
    /// `most`.
    fn first(&mut self, node: u64, given: &str, most: usize) -> Option<Arc<str>> {
        if let Some(first) = self.nodes.get(&node) {
            return Some(Arc::clone(first));
        }
        let known = self.texts.get(given).map(Arc::clone);
        let taken = self.taken + NODE + if known.is_some() { 0 } else { TEXT + given.len() };
        if taken > most {
            return None;
        }
        self.taken = taken;
        let text = known.unwrap_or_else(|| Arc::from(given));
        self.texts.insert(Arc::clone(&text));
        self.nodes.insert(node, Arc::clone(&text));
        Some(text)
    }
}

/// The group like this one with another text; added if it does not exist yet.
fn group_with(
    text: Arc<str>,
    group: u32,
    (rejected, reasons): (&mut Rejected, &mut Vec<Reason>),
    made: &mut Made,
) -> u32 {
    let like = &rejected.groups[group as usize];
    let added = match made.entry((like.by, like.preemption_may_help, text)) {
        Entry::Occupied(known) => return *known.get(),
        Entry::Vacant(new) => new,
    };
    let reason = Reason { text: added.key().2.to_string(), preemption_may_help: like.preemption_may_help };
    let like = like.clone();
    let at = u32::try_from(rejected.groups.len()).expect("there are fewer groups than nodes, twice");
    added.insert(at);
    reasons.push(reason);
    rejected.groups.push(like);
    at
}

#[cfg(test)]
mod tests;
