//! Backends that reject every node for every pod, or for every pod of a workload.

use std::{
    collections::BTreeSet,
    hash::{BuildHasher, RandomState},
};

use extender_gateway_api::RejectsAll;
use extender_gateway_record::PodRef;
use jiff::Timestamp;
use parking_lot::Mutex;

/// The minimum number of decisions in a row that reject every node.
const MIN_DECISIONS: u64 = 10;
/// The minimum number of pods that they are about: a single pod may rightly fit nowhere.
const MIN_PODS: usize = 2;
/// The minimum number of workloads for a backend that rejects everything: a single one may be at a limit of its own.
const MIN_WORKLOADS: usize = 2;
/// The most pods, and workloads, that are told apart.
const MAX_PODS: usize = 1_000;
/// Nothing is known of the present if the latest decision is older than this, in seconds: kube-scheduler retries
/// each waiting pod after 5 minutes at the latest.
const MAX_AGE: i64 = 600;

/// The latest filter decisions of a backend, as far as each of them rejected every node. Cached answers count
/// as well: they decide in the same way.
#[derive(Debug, Default)]
pub struct Rejecting {
    series: Mutex<Option<Series>>,
    hasher: RandomState,
}

/// Decisions in a row that rejected every node.
#[derive(Debug)]
struct Series {
    since: Timestamp,
    last: Timestamp,
    decisions: u64,
    /// Hashes of their names.
    pods: BTreeSet<u64>,
    /// Hashes of what these are parts of.
    workloads: BTreeSet<u64>,
    /// The first workload, and the reason that it got last.
    workload: String,
    reason: String,
}

/// A filter decision about at least one node.
#[derive(Debug, Clone, Copy)]
pub(super) struct RejectedNodes<'a> {
    /// The pod.
    pub(super) pod: &'a PodRef,
    /// The most frequent reason if no node is left; `None` if one is.
    pub(super) all_for: Option<&'a str>,
}

/// What a decision means for those before it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Turn {
    /// Nothing new.
    None,
    /// The latest decisions left no node, so that pods wait whose answers nobody asks for.
    Stuck,
    /// The backend's answers have changed: one of the pods that it left no node has one.
    Changed,
    /// Other pods have nodes: the decisions were about workloads of their own.
    Over,
}

impl Rejecting {
    /// Records a decision. The log has one line when the decisions become a problem, and one when they end.
    pub(super) fn record(&self, backend: &str, decision: RejectedNodes<'_>) -> Turn {
        let RejectedNodes { pod, all_for } = decision;
        let mut series = self.series.lock();
        let Some(reason) = all_for else {
            let Some(ended) = series.take().filter(Series::is_series) else { return Turn::None };
            if ended.is_problem() {
                let decisions = ended.decisions;
                tracing::info!(backend, decisions, "backend no longer rejects every node");
            }
            let has_changed = ended.is_problem() || ended.workloads.contains(&self.workload(pod));
            return if has_changed { Turn::Changed } else { Turn::Over };
        };
        let now = Timestamp::now();
        // A few pods a day that fit nowhere are no problem.
        series.take_if(|series| !series.is_series() && !series.is_current(now));
        let series = series.get_or_insert_with(|| Series::begin(now, pod));
        let (was_series, was_problem) = (series.is_series(), series.is_problem());
        series.last = now;
        series.decisions += 1;
        if series.pods.len() < MAX_PODS {
            series.pods.insert(self.hasher.hash_one((&pod.namespace, &pod.name)));
        }
        if series.workloads.len() < MAX_PODS {
            series.workloads.insert(self.workload(pod));
        }
        reason.clone_into(&mut series.reason);
        if series.is_problem() && !was_problem {
            tracing::warn!(
                backend,
                decisions = series.decisions,
                pods = series.pods.len(),
                pod = %format_args!("{}/{}", pod.namespace, pod.name),
                "backend rejects every node for every pod; `extender-gateway explain` shows its reasons"
            );
        }
        if series.is_series() && !was_series { Turn::Stuck } else { Turn::None }
    }

    fn workload(&self, pod: &PodRef) -> u64 {
        let PodRef { namespace, name, owner, .. } = pod;
        self.hasher.hash_one((namespace, if owner.is_empty() { name } else { owner }, owner.is_empty()))
    }

    /// The decisions, if there are enough of them now.
    pub fn series(&self) -> Option<RejectsAll> {
        let series = self.series.lock();
        let now = Timestamp::now();
        let found = series.as_ref().filter(|series| series.is_series() && series.is_current(now))?;
        Some(RejectsAll {
            since: found.since,
            last: found.last,
            decisions: found.decisions,
            pods: found.pods.len() as u64,
            workload: (!found.is_problem()).then(|| found.workload.clone()),
            reason: found.reason.clone(),
        })
    }
}

impl Series {
    fn begin(now: Timestamp, pod: &PodRef) -> Self {
        Self {
            since: now,
            last: now,
            decisions: 0,
            pods: BTreeSet::new(),
            workloads: BTreeSet::new(),
            workload: pod.workload(),
            reason: String::new(),
        }
    }

    /// Whether there are enough decisions about several pods.
    fn is_series(&self) -> bool {
        self.decisions >= MIN_DECISIONS && self.pods.len() >= MIN_PODS
    }

    fn is_problem(&self) -> bool {
        self.is_series() && self.workloads.len() >= MIN_WORKLOADS
    }

    fn is_current(&self, now: Timestamp) -> bool {
        now.as_second() - self.last.as_second() < MAX_AGE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: usize) -> PodRef {
        PodRef { namespace: "apps".to_owned(), name: format!("web-{name}"), ..PodRef::default() }
    }

    /// A pod of a `ReplicaSet`.
    fn owned(owner: &str, name: usize) -> PodRef {
        PodRef { owner: format!("ReplicaSet {owner}"), ..pod(name) }
    }

    fn record(rejecting: &Rejecting, pod: &PodRef, rejected_all: bool) -> Turn {
        rejecting.record("zones", RejectedNodes { pod, all_for: rejected_all.then_some("full") })
    }

    fn found(rejecting: &Rejecting) -> Option<(u64, u64)> {
        rejecting.series().map(|series| (series.decisions, series.pods))
    }

    #[tokio::test]
    async fn a_workload_at_its_own_limit_is_not_everything() {
        let rejecting = Rejecting::default();
        let turns: Vec<_> = (0..40).map(|number| record(&rejecting, &owned("big", number), true)).collect();
        assert_eq!(turns.iter().position(|turn| *turn == Turn::Stuck), Some(9));
        assert_eq!(turns.iter().filter(|turn| **turn == Turn::None).count(), 39);
        let series = rejecting.series().unwrap();
        assert_eq!(series.workload.as_deref(), Some("ReplicaSet apps/big"));
        assert_eq!((series.decisions, series.pods, &*series.reason), (40, 40, "full"));
        assert_eq!(record(&rejecting, &owned("other", 1), false), Turn::Over, "its answers are as before");
        (0..40).for_each(|number| {
            record(&rejecting, &owned("big", number), true);
        });
        assert_eq!(record(&rejecting, &owned("big", 7), false), Turn::Changed, "there is room again");
        (0..9).for_each(|number| {
            record(&rejecting, &owned("big", number), true);
        });
        assert_eq!(record(&rejecting, &owned("other", 1), true), Turn::Stuck);
        assert_eq!(rejecting.series().unwrap().workload, None, "pods of two workloads");
        assert_eq!(record(&rejecting, &owned("third", 1), false), Turn::Changed, "it works again for all");
    }

    #[tokio::test]
    async fn the_tenth_decision_about_several_pods_is_a_problem() {
        let rejecting = Rejecting::default();
        (1..10).for_each(|number| {
            record(&rejecting, &pod(number), true);
        });
        assert_eq!(found(&rejecting), None, "nine");
        record(&rejecting, &pod(1), true);
        assert_eq!(found(&rejecting), Some((10, 9)));
        record(&rejecting, &pod(2), false);
        assert_eq!(found(&rejecting), None, "it left a node");
        record(&rejecting, &pod(3), true);
        assert_eq!(found(&rejecting), None, "counted from the beginning");
    }

    #[tokio::test]
    async fn one_pod_that_fits_nowhere_is_no_problem() {
        let rejecting = Rejecting::default();
        (0..1_000).for_each(|_| {
            record(&rejecting, &pod(1), true);
        });
        assert_eq!(found(&rejecting), None);
        record(&rejecting, &pod(2), true);
        assert_eq!(found(&rejecting), Some((1_001, 2)));
    }

    #[tokio::test]
    async fn pods_take_bounded_memory_and_what_is_old_does_not_count() {
        let rejecting = Rejecting::default();
        (0..2 * MAX_PODS).for_each(|number| {
            record(&rejecting, &pod(number), true);
        });
        assert_eq!(found(&rejecting), Some((2_000, 1_000)));
        grow_old(&rejecting);
        assert_eq!(found(&rejecting), None);
        record(&rejecting, &pod(0), true);
        assert_eq!(found(&rejecting), Some((2_001, 1_000)), "it has not ended meanwhile");
    }

    fn grow_old(rejecting: &Rejecting) {
        if let Some(series) = &mut *rejecting.series.lock() {
            series.last = Timestamp::from_second(Timestamp::now().as_second() - MAX_AGE).unwrap();
        }
    }

    #[tokio::test]
    async fn rejections_that_are_far_apart_are_no_series() {
        let rejecting = Rejecting::default();
        for round in 0..5 {
            (0..9).for_each(|number| {
                record(&rejecting, &pod(number), true);
            });
            assert_eq!(found(&rejecting), None, "{round}");
            grow_old(&rejecting);
        }
    }
}
