//! The decision log: the latest calls of each pod, with what each backend said about each node, in memory and in so
//! many bytes.
//!
//! An entry is written behind the answer, in few bytes (`packed`, `dictionary`); what is shown of it is made when
//! somebody asks. Pods that found no node stay longest (`retention`).

mod dictionary;
mod entry;
mod glossary;
mod packed;
mod query;
mod retention;
mod shown;

use std::{
    cmp::Reverse,
    collections::HashMap,
    iter,
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::SystemTime,
};

pub(super) use self::entry::CallEnd;
pub use self::query::{Query, Verdict};
use self::{
    entry::LogEntry,
    retention::{Retention, SearchStep},
};
use crate::{
    api::{Decision, LogState},
    record::{CallRecord, PodRef},
};

/// The most calls that are taken apart for one answer.
const MOST_LOOKED_AT: usize = 5_000;
/// The most nodes of one answer, over all of its calls: each is half a kilobyte.
const MOST_ROWS: usize = 50_000;

/// The log.
#[derive(Debug)]
pub struct DecisionLog {
    kept: Mutex<Retention>,
    since: SystemTime,
}

impl DecisionLog {
    /// An empty log that may take so many bytes; 0 switches it off.
    pub fn new(most: usize) -> Self {
        Self { kept: Mutex::new(Retention::new(most)), since: SystemTime::now() }
    }

    /// Lets it take so many bytes from now on. Returns how many calls had to go for it.
    #[must_use]
    pub fn resize(&self, most: usize) -> u64 {
        let mut kept = self.lock();
        let (_, _, before) = kept.counts();
        kept.resize(most);
        kept.counts().2 - before
    }

    /// Keeps a call. Returns how many had to go for it.
    pub(super) fn keep(&self, record: &CallRecord, ending: CallEnd<'_>) -> u64 {
        let mut kept = self.lock();
        if kept.most() == 0 {
            return 0;
        }
        let (_, _, before) = kept.counts();
        let pod = kept.pod(&record.pod);
        let entry = LogEntry::new(record, pod, ending, kept.dictionary());
        kept.put(entry);
        kept.counts().2 - before
    }

    /// What it holds.
    pub fn state(&self) -> LogState {
        // Looks at all pods, so before the lock that is held for the rest.
        let oldest = self.calls(|_| true).map(|entry| entry.time).min();
        let kept = self.lock();
        let (calls, pods, evicted) = kept.counts();
        LogState {
            max_bytes: kept.most() as u64,
            bytes: kept.bytes() as u64,
            calls: calls as u64,
            pods: pods as u64,
            evicted,
            since: shown::timestamp(self.since),
            oldest: oldest.map(shown::timestamp),
            complete_since: match kept.most() {
                // It records nothing.
                0 => Some(shown::timestamp(SystemTime::now())),
                _ => kept.complete_since().map(shown::timestamp),
            },
        }
    }

    /// What it may hold and holds, in bytes, and how many calls and pods that is. Costs little.
    pub fn size(&self) -> [usize; 4] {
        let kept = self.lock();
        let (calls, pods, _) = kept.counts();
        [kept.most(), kept.bytes(), calls, pods]
    }

    /// The calls that somebody wants to see, the newest first, and whether there are more.
    pub fn find(&self, query: &Query) -> (Vec<Decision>, bool) {
        let mut entries: Vec<Arc<LogEntry>> = self.calls(|pod| query.wants_pod(pod)).collect();
        entries.sort_by_key(|entry| (Reverse(entry.time), Arc::as_ptr(entry)));
        // A pod that had another call meanwhile came twice.
        entries.dedup_by(|one, other| Arc::ptr_eq(one, other));
        let mut beside: HashMap<&str, Vec<&Arc<LogEntry>>> = HashMap::new();
        for entry in entries.iter().filter(|entry| entry.beside) {
            beside.entry(&entry.id).or_default().push(entry);
        }
        let has_part = |entry: &LogEntry| {
            let asides = beside.get(&*entry.id).into_iter().flatten();
            let by = |backend: &String| {
                entry.has_part(backend) || asides.clone().any(|aside| aside.has_part(backend))
            };
            query.backend.as_ref().is_none_or(by)
        };
        let calls = entries.iter().filter(|entry| !entry.beside && query.wants_verb(entry.verb));
        let calls = calls.filter(|entry| query.node.as_deref().is_none_or(|node| entry.offers(node)));
        // A search for a rare text may scan the whole log, which is bounded.
        let (calls, mut looked) = (calls.filter(|entry| has_part(entry)), 0);
        let mut wanted = calls.filter_map(|entry| {
            looked += 1;
            if looked > MOST_LOOKED_AT {
                return None;
            }
            let aside = beside.get(&*entry.id).into_iter().flatten();
            query.of(shown::decision(entry, aside.map(|entry| &***entry)))
        });
        let (mut found, mut rows) = (Vec::new(), 0);
        while found.len() < query.limit() && rows < MOST_ROWS {
            let Some(decision) = wanted.next() else { break };
            rows += decision.nodes.len();
            found.push(decision);
        }
        let more = wanted.next().is_some();
        drop(wanted);
        (found, more || looked > MOST_LOOKED_AT)
    }

    /// The calls of all pods that `wanted` says, in no order, some twice. The lock is held for some pods at a time,
    /// since the calls of kube-scheduler wait for it.
    fn calls(&self, wanted: impl Fn(&PodRef) -> bool) -> impl Iterator<Item = Arc<LogEntry>> {
        let mut after = Some(0);
        let steps = iter::from_fn(move || {
            let SearchStep { calls, next } = self.lock().step(after?, &wanted);
            after = next;
            Some(calls)
        });
        steps.flatten()
    }

    fn lock(&self) -> MutexGuard<'_, Retention> {
        // What a panic leaves half done is a number that is off by a call.
        self.kept.lock().unwrap_or_else(PoisonError::into_inner)
    }
}
