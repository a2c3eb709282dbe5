//! The waiting pods by what they are parts of and why they wait.

use std::{cmp::Reverse, time::Duration};

use foldhash::HashMap;
use tokio::time::Instant;

use super::WaitingPods;

/// The most groups.
const MAX_GROUPS: usize = 100;

/// Waiting pods of one workload that wait for the same reason.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct WaitingGroup {
    /// What they are parts of, for people.
    pub workload: String,
    /// Why they wait, with the name of the backend.
    pub reason: String,
    /// Their number.
    pub pods: u32,
    /// How long the oldest one has waited.
    pub oldest: Duration,
    /// The namespace and name of the oldest one.
    pub pod: (String, String),
    /// The number of those that were last tried before their backend changed, and that kube-scheduler does not try again
    /// by itself.
    pub untried: u32,
}

impl WaitingPods {
    /// The largest groups, the largest first.
    pub fn groups(&self) -> Vec<WaitingGroup> {
        let (state, now) = (self.state.lock(), Instant::now());
        let mut groups: HashMap<(&str, &str), WaitingGroup> = HashMap::default();
        for pod in state.pods.values() {
            let waited = now.saturating_duration_since(pod.since);
            let group = groups.entry((&pod.workload, &pod.reason)).or_insert_with(|| WaitingGroup {
                workload: pod.workload.clone(),
                reason: pod.reason.clone(),
                pods: 0,
                oldest: Duration::ZERO,
                pod: (String::new(), String::new()),
                untried: 0,
            });
            group.pods += 1;
            group.untried += u32::from(state.is_untried(pod));
            if waited >= group.oldest {
                group.oldest = waited;
                group.pod = (pod.namespace.clone(), pod.name.clone());
            }
        }
        let mut groups: Vec<_> = groups.into_values().collect();
        groups.sort_by(|a, b| {
            let order = |it: &WaitingGroup| (Reverse(it.pods), Reverse(it.oldest));
            order(a).cmp(&order(b)).then_with(|| (&a.workload, &a.reason).cmp(&(&b.workload, &b.reason)))
        });
        groups.truncate(MAX_GROUPS);
        groups
    }
}
