//! The waiting pods by what they are parts of and why they wait.

use std::cmp::Reverse;

use extender_gateway_api::WaitingPodsStatus;
use foldhash::HashMap;
use tokio::time::Instant;

use super::WaitingPods;

/// The most groups.
const MAX_GROUPS: usize = 100;

impl WaitingPods {
    /// The largest groups, the largest first.
    pub fn groups(&self) -> Vec<WaitingPodsStatus> {
        let (state, now) = (self.state.lock(), Instant::now());
        let mut groups: HashMap<(&str, &str), (Instant, WaitingPodsStatus)> = HashMap::default();
        for pod in state.pods.values() {
            let none = || WaitingPodsStatus {
                workload: pod.workload.clone(),
                reason: pod.reason.clone(),
                pods: 0,
                oldest_seconds: 0,
                namespace: String::new(),
                pod: String::new(),
                untried: 0,
            };
            let group = groups.entry((&pod.workload, &pod.reason));
            let (since, group) = group.or_insert_with(|| (now, none()));
            group.pods += 1;
            group.untried += u32::from(state.is_untried(pod));
            if pod.since <= *since {
                *since = pod.since;
                group.oldest_seconds = now.saturating_duration_since(pod.since).as_secs();
                (group.namespace, group.pod) = (pod.namespace.clone(), pod.name.clone());
            }
        }
        let mut groups: Vec<_> = groups.into_values().collect();
        groups.sort_by(|(a_since, a), (b_since, b)| {
            let order = (Reverse(a.pods), a_since).cmp(&(Reverse(b.pods), b_since));
            order.then_with(|| (&a.workload, &a.reason).cmp(&(&b.workload, &b.reason)))
        });
        groups.truncate(MAX_GROUPS);
        groups.into_iter().map(|(_, group)| group).collect()
    }
}
