//! Remembers the responses for pods that fit nowhere, for a while.
//!
//! kube-scheduler retries a rejected pod immediately when its condition changes. The condition contains the reasons,
//! and counts nodes over a changing sample: a reason that differs between attempts, or two reasons in uneven shares,
//! make it retry the pod hundreds of times a second. So a pod's first refusal carries each node's own reason; when a
//! later one would change the condition, all nodes get one summary of the first (`tally`), which is held for a while
//! (`conditions`). The pod stays `Unschedulable`, as autoscalers and alerts expect. What varies beyond that is not the
//! gateway's: other nodes that kube-scheduler itself rejects, and its search for victims. A pod that is retried too
//! often even so gets an error, after which kube-scheduler backs off (`retries`).
//!
//! Whether preemption may help is always each node's own: kube-scheduler acts on it.

mod conditions;
mod retries;
mod tally;

use std::{
    hash::{BuildHasher, Hash},
    sync::Arc,
    time::Duration,
};

use extender_gateway_core::filter::Rejected;
use parking_lot::Mutex;
use tokio::time::Instant;

use self::{conditions::Conditions, retries::PacedPods, tally::Tally};
pub(super) use self::{
    conditions::Told,
    retries::{AttemptScope, Pace},
};
use extender_gateway_pace::cadences::Cadences;
use extender_gateway_settings::BackendSettings;
use extender_gateway_wire::reply::Reason;

/// The most pods that are tracked: at up to 700 bytes for the texts, and 100 for the pace.
const MOST_PODS: usize = 100_000;
/// The minimum time between two searches for pods that no longer matter.
const SWEEP: Duration = Duration::from_secs(1);

/// The latest attempts to place pods that fit nowhere. Shared by all configurations of a process.
#[derive(Debug)]
pub struct RetryPacing {
    pods: Mutex<PacedPods>,
    conditions: Mutex<Conditions>,
    settings: Mutex<KnownSettings>,
    /// Hashes pods' UIDs, which may have any length. Keyed, so that callers cannot cause collisions.
    hasher: std::hash::RandomState,
}

/// The settings of the policies that decide, and how often they have changed.
#[derive(Debug, Default)]
struct KnownSettings {
    latest: Vec<Arc<BackendSettings>>,
    generation: u64,
}

impl RetryPacing {
    /// No attempts yet.
    pub fn new(cadences: &Cadences) -> Self {
        Self {
            pods: Mutex::new(PacedPods::new(cadences.refusals)),
            conditions: Mutex::new(Conditions::new(cadences.first_reasons)),
            settings: Mutex::default(),
            hasher: std::hash::RandomState::new(),
        }
    }

    /// A number for these settings of the policies that decide, another one each time they are other ones.
    pub(super) fn generation_of(&self, settings: Vec<Arc<BackendSettings>>) -> u64 {
        let mut known = self.settings.lock();
        if known.latest != settings {
            *known = KnownSettings { latest: settings, generation: known.generation + 1 };
        }
        known.generation
    }

    /// A number for the policies that decide, the same while they and their settings are.
    pub(super) fn fingerprint(&self, policies: impl Hash) -> u64 {
        self.hasher.hash_one(policies)
    }

    /// Records that a pod was rejected on all nodes of a call.
    pub(super) fn refused(&self, pod: &str, scope: AttemptScope) -> Pace {
        self.pods.lock().refused(self.hasher.hash_one(pod), scope, Instant::now())
    }

    /// The texts for this refusal of a pod by these policies.
    pub(super) fn tell(&self, pod: &str, policies: u64, rejected: &Rejected, reasons: &[Reason]) -> Told {
        let tally = Tally::of(rejected, reasons);
        self.conditions.lock().tell(self.hasher.hash_one(pod), policies, &tally, Instant::now())
    }

    /// The same for the first half of an attempt.
    pub(super) fn tell_half(&self, pod: &str, policies: u64) -> Told {
        self.conditions.lock().tell_half(self.hasher.hash_one(pod), policies, Instant::now())
    }

    /// Records that a pod was accepted on a node.
    pub(super) fn accepted(&self, pod: &str) {
        self.conditions.lock().forget(self.hasher.hash_one(pod));
    }
}

#[cfg(test)]
mod tests {
    use extender_gateway_settings::samples;

    use super::*;

    #[test]
    fn other_settings_of_a_policy_are_another_generation_and_a_reload_alone_is_none() {
        let of = |fields: &str| {
            let config = samples::config(&format!("- {{name: a, url: 'http://a:1', {fields}}}\n"));
            config.backends.into_iter().map(Arc::new).collect()
        };
        let pacing = RetryPacing::new(&Cadences::default());
        let first = pacing.generation_of(of("filter: {}"));
        assert_eq!(pacing.generation_of(of("filter: {}")), first);
        let other = pacing.generation_of(of("filter: {timeout: 5ms}"));
        let disabled = pacing.generation_of(Vec::new());
        let again = pacing.generation_of(of("filter: {}"));
        let different: std::collections::BTreeSet<_> = [first, other, disabled, again].into();
        assert_eq!(different.len(), 4);
    }
}
