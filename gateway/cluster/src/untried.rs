//! The pods that no scheduler has tried yet, as the watch knows them: the apiserver or a scheduler gives every other pod without
//! a node a condition that says why.

use std::time::Duration;

use extender_gateway_core::reason::one_line;
use extender_gateway_object::pod::ObjectPod;
use foldhash::HashMap;
use parking_lot::Mutex;
use tokio::time::Instant;

/// The longest `spec.schedulerName`, in bytes. The apiserver does not limit it.
const LONGEST_NAME: usize = 253;

/// The pods, and when one was last put on a node.
#[derive(Debug, Default)]
pub struct UntriedPods(Mutex<State>);

#[derive(Debug, Default)]
struct State {
    /// By UID.
    pods: HashMap<String, UntriedPod>,
    placed: Option<Instant>,
}

#[derive(Debug, Clone)]
struct UntriedPod {
    since: Instant,
    scheduler: String,
}

/// Pods that were not tried for a while.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct UntriedSummary {
    /// Their number.
    pub pods: usize,
    /// How long the oldest one is known.
    pub oldest: Duration,
    /// Its `spec.schedulerName`.
    pub scheduler: String,
}

/// The pods of a list.
#[derive(Debug, Default)]
pub(super) struct UntriedList(HashMap<String, UntriedPod>);

impl UntriedList {
    pub(super) fn add(&mut self, pod: &ObjectPod<'_>) {
        if pod.is_untried() {
            let scheduler = one_line(pod.scheduler_name(), LONGEST_NAME);
            self.0.insert(pod.uid().to_owned(), UntriedPod { since: Instant::now(), scheduler });
        }
    }
}

impl UntriedPods {
    /// Records the latest state of a pod.
    pub(super) fn apply(&self, pod: &ObjectPod<'_>) {
        let mut state = self.0.lock();
        if pod.is_untried() {
            let new = || UntriedPod {
                since: Instant::now(),
                scheduler: one_line(pod.scheduler_name(), LONGEST_NAME),
            };
            state.pods.entry(pod.uid().to_owned()).or_insert_with(new);
        } else if state.pods.remove(pod.uid()).is_some() && !pod.node_name().is_empty() {
            state.placed = Some(Instant::now());
        }
    }

    pub(super) fn remove(&self, uid: &str) {
        self.0.lock().pods.remove(uid);
    }

    /// Replaces all pods by those of a list. Those that are known stay as old as they are.
    pub(super) fn replace(&self, list: UntriedList) {
        let mut state = self.0.lock();
        let UntriedList(mut pods) = list;
        for (uid, pod) in &mut pods {
            if let Some(known) = state.pods.get(uid) {
                pod.since = known.since;
            }
        }
        state.pods = pods;
    }

    /// Those that are known for at least this time; `None` if there are none, or another one was put on a node meanwhile:
    /// a long queue is no fault.
    pub fn summary(&self, least: Duration) -> Option<UntriedSummary> {
        let (state, now) = (self.0.lock(), Instant::now());
        let age = |since: Instant| now.saturating_duration_since(since);
        if state.placed.is_some_and(|placed| age(placed) < least) {
            return None;
        }
        let old = || state.pods.values().filter(|pod| age(pod.since) >= least);
        let oldest = old().min_by_key(|pod| pod.since)?;
        let (oldest, scheduler) = (age(oldest.since), oldest.scheduler.clone());
        Some(UntriedSummary { pods: old().count(), oldest, scheduler })
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};
    use tokio::time::advance;

    use super::*;
    use crate::pods::PodTable;

    const SECOND: Duration = Duration::from_secs(1);

    fn pod(uid: &str, node: &str, status: &Value) -> Vec<u8> {
        let spec = json!({"schedulerName": "default-scheduler", "nodeName": node});
        let metadata = json!({"name": uid, "namespace": "apps", "uid": uid});
        json!({"metadata": metadata, "spec": spec, "status": status}).to_string().into_bytes()
    }

    fn pending() -> Value {
        json!({"phase": "Pending"})
    }

    fn seen(table: &PodTable) -> Option<(usize, u64)> {
        table.untried.summary(SECOND * 30).map(|it| (it.pods, it.oldest.as_secs()))
    }

    #[tokio::test(start_paused = true)]
    async fn pods_are_untried_until_a_scheduler_says_something_about_them() {
        let table = PodTable::new();
        for uid in ["a", "b", "c"] {
            table.apply(&pod(uid, "", &pending())).unwrap();
        }
        let rejected =
            json!({"conditions": [{"type": "PodScheduled", "status": "False", "reason": "Unschedulable"}]});
        table.apply(&pod("gated", "", &rejected)).unwrap();
        table.apply(&pod("bound", "n", &pending())).unwrap();
        assert_eq!(seen(&table), None, "they are new");
        advance(SECOND * 40).await;
        assert_eq!(seen(&table), Some((3, 40)));
        table.apply(&pod("a", "", &rejected)).unwrap();
        table.remove("b");
        assert_eq!(seen(&table), Some((1, 40)));
        let mut relist = table.relist();
        relist.add(&pod("c", "", &pending())).unwrap();
        relist.add(&pod("d", "", &pending())).unwrap();
        table.replace(relist);
        assert_eq!(seen(&table), Some((1, 40)), "a list makes no pod younger");
        advance(SECOND * 40).await;
        assert_eq!(seen(&table), Some((2, 80)));
        table.apply(&pod("d", "n", &pending())).unwrap();
        assert_eq!(seen(&table), None, "pods are being scheduled");
        advance(SECOND * 30).await;
        assert_eq!(seen(&table), Some((1, 110)));
    }
}
