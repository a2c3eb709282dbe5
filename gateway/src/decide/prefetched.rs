//! Keeps scores that were prefetched with filter answers for the prioritize call that usually follows.
//!
//! They come from verbs that are not pure, so they are valid for one prioritize call, soon, for the same pod and
//! for unchanged rows.

use std::{
    sync::{Arc, Weak},
    time::Duration,
};

use bytes::Bytes;
use foldhash::{HashMap, HashMapExt};
use parking_lot::Mutex;
use tokio::time::Instant;

use crate::{backend::session::Session, cluster::table::NodeRow};

/// The most pods with kept scores. Beyond this all are dropped.
const MOST_PODS: usize = 256;

/// Kept scores, by the pod's UID.
#[derive(Debug)]
pub(super) struct PrefetchedScores {
    pods: Mutex<HashMap<String, (Instant, Vec<BackendScores>)>>,
    /// How long they are kept.
    fresh: Duration,
}

/// The scores from one backend.
#[derive(Debug)]
pub(super) struct BackendScores {
    /// Weak, so that the session and its rows can be dropped.
    session: Weak<Session>,
    pod: Bytes,
    /// In the order of the filter call.
    given: Vec<Given>,
}

/// The score of a node for one version of its row.
#[derive(Debug, Clone, Copy)]
struct Given {
    slot: u32,
    version: u64,
    score: i32,
}

impl Given {
    /// The score, if this is still the node's row.
    fn to(&self, line: &NodeRow) -> Option<i32> {
        (self.version == line.state.version).then_some(self.score)
    }
}

impl BackendScores {
    /// The scores that a backend gave these nodes for this encoding of the pod.
    pub(super) fn new<'l>(
        session: &Arc<Session>,
        pod: &Bytes,
        scores: impl Iterator<Item = (&'l NodeRow, i32)>,
    ) -> Self {
        let given =
            |(line, score): (&NodeRow, i32)| Given { slot: line.slot, version: line.state.version, score };
        Self { session: Arc::downgrade(session), pod: pod.clone(), given: scores.map(given).collect() }
    }

    /// The scores of the nodes with unchanged rows.
    pub(super) fn recall(&self, lines: &[&NodeRow]) -> Vec<Option<i32>> {
        recall(&self.given, lines)
    }

    /// Whether they are an answer of this backend, under this handshake, to the same encoding of the pod.
    pub(super) fn are_of(&self, session: &Arc<Session>, pod: &Bytes) -> bool {
        std::ptr::eq(self.session.as_ptr(), Arc::as_ptr(session)) && self.pod == *pod
    }
}

fn recall(given: &[Given], lines: &[&NodeRow]) -> Vec<Option<i32>> {
    let mut recalled = Vec::with_capacity(lines.len());
    let mut ahead = given.iter();
    for line in lines {
        // The remaining nodes nearly always come in their earlier order.
        match ahead.find(|given| given.slot == line.slot) {
            Some(given) => recalled.push(given.to(line)),
            None => return recall_in_any_order(given, lines),
        }
    }
    recalled
}

fn recall_in_any_order(given: &[Given], lines: &[&NodeRow]) -> Vec<Option<i32>> {
    let by_slot: HashMap<u32, &Given> = given.iter().map(|given| (given.slot, given)).collect();
    lines.iter().map(|line| by_slot.get(&line.slot)?.to(line)).collect()
}

impl PrefetchedScores {
    pub(super) fn new(fresh: Duration) -> Self {
        Self { pods: Mutex::new(HashMap::new()), fresh }
    }

    /// Keeps scores for the pod's next prioritize call, replacing earlier ones.
    pub(super) fn put(&self, uid: &str, scores: Vec<BackendScores>) {
        if uid.is_empty() {
            return;
        }
        let now = Instant::now();
        let mut pods = self.pods.lock();
        if scores.is_empty() {
            pods.remove(uid);
            return;
        }
        // Drops those of pods that never came to prioritize.
        pods.retain(|_, (since, _)| now.duration_since(*since) < self.fresh);
        if pods.len() >= MOST_PODS {
            pods.clear();
        }
        pods.insert(uid.to_owned(), (now, scores));
    }

    /// Removes and returns the scores for this pod.
    pub(super) fn take(&self, uid: &str) -> Vec<BackendScores> {
        let waiting = self.pods.lock().remove(uid);
        let fresh = waiting.filter(|(since, _)| since.elapsed() < self.fresh);
        fresh.map_or_else(Vec::new, |(_, scores)| scores)
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;
    use crate::cluster::table::RowState;

    fn line(slot: u32, version: u64) -> NodeRow {
        NodeRow { slot, state: RowState { bytes: Bytes::new(), version, id: None } }
    }

    proptest! {
        /// Whatever the order of the nodes, a recalled score belongs to this row of this node.
        #[test]
        fn a_score_is_recalled_for_the_row_that_it_was_given_for(
            slots in Just((0..20_u32).collect::<Vec<_>>()).prop_shuffle(),
            given in 0..20_usize,
            changed in 0..20_u32,
            in_order in any::<bool>(),
            asked in prop::sample::subsequence((0..20_usize).collect::<Vec<_>>(), 0..20),
        ) {
            let given: Vec<Given> =
                (0..).zip(&slots[..given]).map(|(score, slot)| Given { slot: *slot, version: 7, score }).collect();
            let mut asked: Vec<NodeRow> = asked
                .into_iter()
                .map(|place| slots[place])
                .map(|slot| line(slot, if slot == changed { 8 } else { 7 }))
                .collect();
            if !in_order {
                asked.reverse();
            }
            let score = |line: &NodeRow| {
                let given = given.iter().find(|given| given.slot == line.slot)?;
                (line.slot != changed).then_some(given.score)
            };
            let expected: Vec<_> = asked.iter().map(score).collect();
            prop_assert_eq!(recall(&given, &asked.iter().collect::<Vec<_>>()), expected);
        }
    }
}
