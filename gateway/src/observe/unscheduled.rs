//! Pods that stay unscheduled because of policies, of which an event tells once they have waited for a while.

use std::{
    collections::HashMap,
    sync::{
        Mutex, MutexGuard, PoisonError,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use tokio::time::Instant;

use crate::account::{Account, Said, Subject, Visit};

/// How long a pod has to wait before anything is said: the next attempt often finds a node.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long nothing is said again of a pod, whatever its counts are then.
const PAUSE: Duration = Duration::from_mins(10);
/// How long a pod is followed that nobody asks about any more: one that waits is tried again every five minutes at the
/// latest (`podMaxInUnschedulablePodsDuration` of kube-scheduler).
const GONE: Duration = Duration::from_mins(30);
/// The longest name that Kubernetes has, in bytes.
const LONGEST_NAME: usize = 253;
/// How long nothing is tried after the apiserver did not take an event.
const RETRY: Duration = Duration::from_secs(30);
/// How many pods are followed. Others are not told of.
const MOST: usize = 10_000;
/// The longest note that the apiserver takes, in bytes.
const LONGEST: usize = 1000;

/// The pods that wait.
#[derive(Debug, Default)]
pub struct Unscheduled {
    wanted: AtomicBool,
    pods: Mutex<HashMap<String, Waiting>>,
}

#[derive(Debug)]
struct Waiting {
    pod: Subject,
    since: Instant,
    /// When it was last refused.
    seen: Instant,
    note: String,
    /// When something was said, and what.
    said: Option<(Instant, String)>,
}

/// Something to be said of a pod.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Due {
    /// The pod.
    pub pod: Subject,
    /// What.
    pub note: String,
}

impl Unscheduled {
    /// Whether pods are followed from now on.
    pub fn want(&self, wanted: bool) {
        self.wanted.store(wanted, Ordering::Relaxed);
        if !wanted {
            self.lock().clear();
        }
    }

    /// Takes note of what became of a call. Returns whether there was room.
    #[must_use]
    pub(super) fn see(&self, visit: &Visit, account: &Account) -> bool {
        if visit.verb != "filter" || !is_followed(&account.pod) || !self.wanted.load(Ordering::Relaxed) {
            return true;
        }
        let mut pods = self.lock();
        if visit.outcome == "ok" && account.left != Some(0) {
            pods.remove(&account.pod.uid);
            return true;
        }
        let Some(note) = note(visit, account) else { return true };
        let now = Instant::now();
        if let Some(waiting) = pods.get_mut(&account.pod.uid) {
            (waiting.note, waiting.seen) = (note, now);
        } else if pods.len() < MOST {
            let pod = account.pod.clone();
            pods.insert(pod.uid.clone(), Waiting { pod, since: now, seen: now, note, said: None });
        } else {
            return false;
        }
        true
    }

    /// Of which pod something is to be said now. It is said by who asks.
    pub fn due(&self) -> Option<Due> {
        let now = Instant::now();
        let mut pods = self.lock();
        pods.retain(|_, waiting| now.duration_since(waiting.seen) < GONE);
        let waiting =
            pods.values_mut().filter(|waiting| waiting.is_due(now)).min_by_key(|waiting| waiting.since)?;
        waiting.said = Some((now, waiting.note.clone()));
        Some(Due { pod: waiting.pod.clone(), note: waiting.note.clone() })
    }

    /// What was due could not be said: it is due again after a while.
    pub fn retry(&self, uid: &str) {
        if let Some(waiting) = self.lock().get_mut(uid) {
            waiting.said = None;
            waiting.since = Instant::now() + RETRY.saturating_sub(PATIENCE);
        }
    }

    /// A pod does not wait any more.
    pub fn forget(&self, uid: &str) {
        self.lock().remove(uid);
    }

    fn lock(&self) -> MutexGuard<'_, HashMap<String, Waiting>> {
        // Each entry is whole.
        self.pods.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Waiting {
    fn is_due(&self, now: Instant) -> bool {
        match &self.said {
            None => now.duration_since(self.since) >= PATIENCE,
            Some((when, what)) => *what != self.note && now.duration_since(*when) >= PAUSE,
        }
    }
}

/// Whether a pod is one that the apiserver could have.
fn is_followed(pod: &Subject) -> bool {
    let sizes = [pod.uid.len(), pod.name.len(), pod.namespace.len()];
    !pod.uid.is_empty() && sizes.iter().all(|size| *size <= LONGEST_NAME)
}

/// Who keeps the pod from its nodes; `None` where no policy does.
fn note(visit: &Visit, account: &Account) -> Option<String> {
    let offered = account.nodes.count();
    let mut taken = vec![false; offered as usize];
    let mut by: Vec<String> = Vec::new();
    for part in &account.parts {
        let name = &part.backend.settings.name;
        match &part.said {
            Said::Refused(heard) => {
                let refused = heard.refusals.iter().flat_map(|refusal| heard.in_call(refusal));
                let first =
                    refused.filter(|node| !std::mem::replace(&mut taken[*node as usize], true)).count();
                if first > 0 {
                    by.push(format!("{name} rejects {first}"));
                }
            }
            Said::Failed(failure) => by.push(format!("{name} failed ({})", failure.kind.as_str())),
            _ => {}
        }
    }
    if by.is_empty() {
        return None;
    }
    let left = account.left.map_or_else(
        || visit.message.clone(),
        |left| format!("{left} of {offered} nodes are left by policies"),
    );
    let text = format!(
        "{left}: {}. extender-gateway explain pod/{} -n {} says more.",
        by.join(", "),
        account.pod.name,
        account.pod.namespace
    );
    Some(extender_gateway_core::reason::one_line(&text, LONGEST))
}

#[cfg(test)]
mod tests;
