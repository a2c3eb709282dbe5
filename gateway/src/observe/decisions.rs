//! The decision log: the latest calls of each pod, with each backend's answer for each node, in memory and of
//! limited size.
//!
//! An entry is packed after the response (`packed`, `dictionary`) and unpacked for each query. Pods that found no
//! node are kept longest (`retention`).

mod dictionary;
mod entry;
mod glossary;
mod packed;
mod query;
mod retention;
mod shown;

use std::{cmp::Reverse, collections::HashMap, iter, sync::Arc, time::SystemTime};

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
use parking_lot::Mutex;

/// The most calls that are unpacked for one response.
const MOST_LOOKED_AT: usize = 5_000;
/// The most nodes in one response, over all of its calls: each takes half a kilobyte.
const MOST_ROWS: usize = 50_000;

/// The log.
#[derive(Debug)]
pub struct DecisionLog {
    kept: Mutex<Retention>,
    since: SystemTime,
}

impl DecisionLog {
    /// An empty log with this limit in bytes; 0 disables it.
    pub fn new(most: usize) -> Self {
        Self { kept: Mutex::new(Retention::new(most)), since: SystemTime::now() }
    }

    /// Changes the limit, in bytes. Returns the number of evicted calls.
    #[must_use]
    pub fn resize(&self, most: usize) -> u64 {
        let mut kept = self.kept.lock();
        let (_, _, before) = kept.counts();
        kept.resize(most);
        kept.counts().2 - before
    }

    /// Stores a call. Returns the number of evicted calls.
    pub(super) fn keep(&self, record: &CallRecord, ending: CallEnd<'_>) -> u64 {
        let mut kept = self.kept.lock();
        if kept.most() == 0 {
            return 0;
        }
        let (_, _, before) = kept.counts();
        let pod = kept.pod(&record.pod);
        let entry = LogEntry::new(record, pod, ending, kept.dictionary());
        kept.put(entry);
        kept.counts().2 - before
    }

    /// The state of the log.
    pub fn state(&self) -> LogState {
        // Visits all pods, so before the lock that is held for the rest.
        let oldest = self.calls(|_| true).map(|entry| entry.time).min();
        let kept = self.kept.lock();
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
                // The log is disabled.
                0 => Some(shown::timestamp(SystemTime::now())),
                _ => kept.complete_since().map(shown::timestamp),
            },
        }
    }

    /// The limit and the size in bytes, and the numbers of calls and pods. Cheap.
    pub fn size(&self) -> [usize; 4] {
        let kept = self.kept.lock();
        let (calls, pods, _) = kept.counts();
        [kept.most(), kept.bytes(), calls, pods]
    }

    /// The calls that match a query, newest first, and whether there are more.
    pub fn find(&self, query: &Query) -> (Vec<Decision>, bool) {
        let mut entries: Vec<Arc<LogEntry>> = self.calls(|pod| query.wants_pod(pod)).collect();
        entries.sort_by_key(|entry| (Reverse(entry.time), Arc::as_ptr(entry)));
        // A pod with another call in the meantime was visited twice.
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

    /// The calls of all pods that `wanted` selects, unordered, some twice. The lock is held for some pods at a
    /// time, since kube-scheduler's calls wait for it.
    fn calls(&self, wanted: impl Fn(&PodRef) -> bool) -> impl Iterator<Item = Arc<LogEntry>> {
        let mut after = Some(0);
        let steps = iter::from_fn(move || {
            let SearchStep { calls, next } = self.kept.lock().step(after?, &wanted);
            after = next;
            Some(calls)
        });
        steps.flatten()
    }
}
