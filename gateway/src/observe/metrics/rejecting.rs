//! Backends that reject every node for every pod.

use std::{
    collections::BTreeSet,
    hash::{BuildHasher, RandomState},
};

use jiff::Timestamp;
use parking_lot::Mutex;

use crate::{api::RejectsAll, record::PodRef};

/// The minimum number of decisions in a row that reject every node.
const MIN_DECISIONS: u64 = 10;
/// The minimum number of pods that they are about: a single pod may rightly fit nowhere.
const MIN_PODS: usize = 2;
/// The most pods that are told apart.
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
}

impl Rejecting {
    /// Records a decision about a pod and at least one node. The log has one line when the decisions become a
    /// problem, and one when they end.
    pub(super) fn record(&self, backend: &str, pod: &PodRef, rejected_all: bool) {
        let mut series = self.series.lock();
        if !rejected_all {
            if let Some(ended) = series.take().filter(Series::is_problem) {
                let decisions = ended.decisions;
                tracing::info!(backend, decisions, "backend no longer rejects every node");
            }
            return;
        }
        let now = Timestamp::now();
        // A few pods a day that fit nowhere are no problem.
        series.take_if(|series| !series.is_problem() && !series.is_current(now));
        let begun = || Series { since: now, last: now, decisions: 0, pods: BTreeSet::new() };
        let series = series.get_or_insert_with(begun);
        let was_problem = series.is_problem();
        series.last = now;
        series.decisions += 1;
        if series.pods.len() < MAX_PODS {
            series.pods.insert(self.hasher.hash_one((&pod.namespace, &pod.name)));
        }
        if series.is_problem() && !was_problem {
            tracing::warn!(
                backend,
                decisions = series.decisions,
                pods = series.pods.len(),
                pod = %format_args!("{}/{}", pod.namespace, pod.name),
                "backend rejects every node for every pod; `extender-gateway explain` shows its reasons"
            );
        }
    }

    /// The decisions, if they are a problem now.
    pub fn problem(&self) -> Option<RejectsAll> {
        let series = self.series.lock();
        let now = Timestamp::now();
        let Series { since, decisions, pods, .. } =
            series.as_ref().filter(|series| series.is_problem() && series.is_current(now))?;
        Some(RejectsAll { since: *since, decisions: *decisions, pods: pods.len() as u64 })
    }
}

impl Series {
    fn is_problem(&self) -> bool {
        self.decisions >= MIN_DECISIONS && self.pods.len() >= MIN_PODS
    }

    fn is_current(&self, now: Timestamp) -> bool {
        now.as_second() - self.last.as_second() < MAX_AGE
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn pod(name: usize) -> PodRef {
        PodRef {
            namespace: "apps".to_owned(),
            name: format!("web-{name}"),
            uid: String::new(),
            nominated: String::new(),
        }
    }

    fn found(rejecting: &Rejecting) -> Option<(u64, u64)> {
        rejecting.problem().map(|problem| (problem.decisions, problem.pods))
    }

    #[tokio::test]
    async fn the_tenth_decision_about_several_pods_is_a_problem() {
        let rejecting = Rejecting::default();
        (1..10).for_each(|number| rejecting.record("zones", &pod(number), true));
        assert_eq!(found(&rejecting), None, "nine");
        rejecting.record("zones", &pod(1), true);
        assert_eq!(found(&rejecting), Some((10, 9)));
        rejecting.record("zones", &pod(2), false);
        assert_eq!(found(&rejecting), None, "it left a node");
        rejecting.record("zones", &pod(3), true);
        assert_eq!(found(&rejecting), None, "counted from the beginning");
    }

    #[tokio::test]
    async fn one_pod_that_fits_nowhere_is_no_problem() {
        let rejecting = Rejecting::default();
        (0..1_000).for_each(|_| rejecting.record("zones", &pod(1), true));
        assert_eq!(found(&rejecting), None);
        rejecting.record("zones", &pod(2), true);
        assert_eq!(found(&rejecting), Some((1_001, 2)));
    }

    #[tokio::test]
    async fn pods_take_bounded_memory_and_what_is_old_does_not_count() {
        let rejecting = Rejecting::default();
        (0..2 * MAX_PODS).for_each(|number| rejecting.record("zones", &pod(number), true));
        assert_eq!(found(&rejecting), Some((2_000, 1_000)));
        grow_old(&rejecting);
        assert_eq!(found(&rejecting), None);
        rejecting.record("zones", &pod(0), true);
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
            (0..9).for_each(|number| rejecting.record("zones", &pod(number), true));
            assert_eq!(found(&rejecting), None, "{round}");
            grow_old(&rejecting);
        }
    }
}
