//! Scores that came with the answers to filter calls, until the prioritize call that usually follows.
//!
//! They are of verbs that are not pure, so they are good for one prioritize call, soon, about the same pod, and
//! for rows as they were.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Duration,
};

use bytes::Bytes;
use foldhash::{HashMap, HashMapExt};
use tokio::time::Instant;

use crate::{backend::link::Link, cluster::table::Line};

/// How long scores wait: kube-scheduler prioritizes at once, if at all.
const FRESH: Duration = Duration::from_secs(1);
/// How many pods may wait. With more, everything goes.
const MOST_PODS: usize = 256;

/// Scores that wait, by the pod's UID.
#[derive(Debug)]
pub(super) struct Foreseen {
    pods: Mutex<HashMap<String, (Instant, Vec<Scores>)>>,
}

/// The scores of one backend.
#[derive(Debug)]
pub(super) struct Scores {
    link: Arc<Link>,
    pod: Bytes,
    /// By slot: the row's version, and the score.
    given: Vec<(u32, u64, i32)>,
}

impl Scores {
    /// The scores that a backend gave to these nodes, told this about the pod.
    pub(super) fn new<'l>(
        link: &Arc<Link>,
        pod: &Bytes,
        scores: impl Iterator<Item = (&'l Line, i32)>,
    ) -> Self {
        let mut given: Vec<_> = scores.map(|(line, score)| (line.slot, line.row.version, score)).collect();
        given.sort_unstable();
        Self { link: Arc::clone(link), pod: pod.clone(), given }
    }

    /// The score for a node that is as it was.
    pub(super) fn get(&self, line: &Line) -> Option<i32> {
        let place = self.given.binary_search_by_key(&line.slot, |(slot, ..)| *slot).ok()?;
        let (_, version, score) = self.given[place];
        (version == line.row.version).then_some(score)
    }

    /// Whether they are an answer of this backend, under this handshake, to what it would be told now.
    pub(super) fn are_of(&self, link: &Arc<Link>, pod: &Bytes) -> bool {
        Arc::ptr_eq(&self.link, link) && self.pod == *pod
    }
}

impl Foreseen {
    pub(super) fn new() -> Self {
        Self { pods: Mutex::new(HashMap::new()) }
    }

    /// Keeps scores for the pod's next prioritize call, in place of those that waited for it.
    pub(super) fn put(&self, uid: &str, scores: Vec<Scores>) {
        if uid.is_empty() {
            return;
        }
        let now = Instant::now();
        let mut pods = self.pods.lock().unwrap_or_else(PoisonError::into_inner);
        if scores.is_empty() {
            pods.remove(uid);
            return;
        }
        // Those of pods that never came to prioritize.
        pods.retain(|_, (since, _)| now.duration_since(*since) < FRESH);
        if pods.len() >= MOST_PODS {
            pods.clear();
        }
        pods.insert(uid.to_owned(), (now, scores));
    }

    /// The scores that wait for this pod; they wait no longer.
    pub(super) fn take(&self, uid: &str) -> Vec<Scores> {
        let waiting = self.pods.lock().unwrap_or_else(PoisonError::into_inner).remove(uid);
        let fresh = waiting.filter(|(since, _)| since.elapsed() < FRESH);
        fresh.map_or_else(Vec::new, |(_, scores)| scores)
    }
}
