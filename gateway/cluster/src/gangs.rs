//! Holds back the binds of a gang until enough of its pods fit together.
//!
//! kube-scheduler places the pods of a `PodGroup` together and binds each by a call of its own. A limit that counts pods may reject
//! some of these calls, and a pod that is bound cannot be unbound. So no pod of a gang is bound before `minCount` of its pods are bound,
//! or have been accepted and wait here. When that cannot be reached any more, all that wait are answered at once. The pods of groups are
//! counted as the watch shows them ([`GroupPods`]).

use std::{
    mem,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use foldhash::{HashMap, HashSet};
use parking_lot::Mutex;
use tokio::{
    sync::{OnceCell, oneshot},
    time::{Instant, timeout_at},
};

use super::pods::PodTable;

/// For how long without a call an attempt may go on: kube-scheduler sends the binds of a group at the same time, and tries again after a
/// second at the earliest.
const SAME_ATTEMPT: Duration = Duration::from_secs(1);

/// A `PodGroup`.
#[derive(Debug, Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct GroupKey {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
}

/// The UIDs of the pods of a group that have not ended.
#[derive(Debug, Default)]
pub(super) struct GroupPods {
    pub(super) on_nodes: HashSet<String>,
    pub(super) pending: HashSet<String>,
}

/// The groups of which binds are under way.
#[derive(Debug, Default)]
pub struct Gangs {
    attempts: Mutex<HashMap<GroupKey, Attempt>>,
    next: AtomicU64,
}

/// One attempt of kube-scheduler to bind the pods of a group.
#[derive(Debug, Default)]
struct Attempt {
    /// `None` in the cell if the group is no gang.
    min_count: Arc<OnceCell<Option<usize>>>,
    /// The calls under way, by the UIDs of their pods.
    calls: HashMap<String, BindOfMember>,
    /// The pods whose calls have ended, and which are bound or may be.
    bound: HashSet<String>,
    /// The pods that were answered with an error, or are gone.
    refused: HashSet<String>,
    /// Why no further pod of it is bound.
    failed: Option<String>,
    /// When a call came or ended; always set in the map.
    latest: Option<Instant>,
}

#[derive(Debug)]
struct BindOfMember {
    id: u64,
    stage: Stage,
}

#[derive(Debug)]
enum Stage {
    /// It is decided whether the pod fits.
    Deciding(Answer),
    /// It fits, and waits for the others.
    Waiting(Answer),
    /// Its Binding may be created.
    Binding,
}

/// Says whether the pod may be bound, and if not, why.
type Answer = oneshot::Sender<Result<(), String>>;

impl Attempt {
    fn is_over(&self) -> bool {
        self.calls.is_empty() && self.latest.is_none_or(|latest| latest.elapsed() >= SAME_ATTEMPT)
    }

    /// Why the attempt of which a call about this pod is a part has failed. A pod that was answered before is tried again.
    fn failed_before(&self, uid: &str) -> Option<&String> {
        self.failed.as_ref().filter(|_| !self.refused.contains(uid))
    }

    fn is_ready(&self, uid: &str) -> bool {
        let in_call = self.calls.get(uid).is_some_and(|call| !matches!(call.stage, Stage::Deciding(_)));
        in_call || self.bound.contains(uid)
    }

    /// Answers a call that is not allowed to bind its pod yet.
    fn refuse(&mut self, uid: &str, why: &str) {
        self.bound.remove(uid);
        self.refused.insert(uid.to_owned());
        match self.calls.remove(uid).map(|call| (call.id, call.stage)) {
            None => {}
            Some((id, stage @ Stage::Binding)) => {
                self.calls.insert(uid.to_owned(), BindOfMember { id, stage });
            }
            Some((_, Stage::Deciding(answer) | Stage::Waiting(answer))) => {
                // If its receiver is gone, the call is about to leave.
                let _ = answer.send(Err(why.to_owned()));
            }
        }
    }

    fn is_binding(&self, uid: &str) -> bool {
        self.calls.get(uid).is_some_and(|call| matches!(call.stage, Stage::Binding))
    }

    fn end(&mut self, uid: &str, may_be_bound: bool) {
        self.calls.remove(uid);
        let ended = if may_be_bound { &mut self.bound } else { &mut self.refused };
        ended.insert(uid.to_owned());
    }

    fn fail(&mut self, why: &str) {
        let held: Vec<_> = self.calls.keys().filter(|uid| !self.is_binding(uid)).cloned().collect();
        for uid in held {
            self.refuse(&uid, why);
        }
        self.failed = Some(why.to_owned());
    }

    /// Opens the way if enough pods are ready, and fails if there cannot be enough for the reason given.
    fn evaluate(&mut self, pods: Option<&GroupPods>, why: &str) {
        let Some(min_count) = self.min_count.get().copied().flatten().filter(|_| self.failed.is_none())
        else {
            return;
        };
        let none = GroupPods::default();
        let pods = pods.unwrap_or(&none);
        let in_calls = self.calls.keys().filter(|uid| self.is_ready(uid)).count();
        let others_on_nodes = pods.on_nodes.iter().filter(|uid| !self.is_ready(uid)).count();
        let ready = in_calls + self.bound.len() + others_on_nodes;
        if ready >= min_count {
            self.open();
            return;
        }
        // Without a refusal, pods are missing that the watch has not shown yet.
        if self.refused.is_empty() {
            return;
        }
        let is_deciding = |uid: &&String| !self.is_ready(uid) && !pods.on_nodes.contains(*uid);
        let deciding = self.calls.keys().filter(is_deciding).count();
        let is_to_come = |uid: &&String| {
            !self.calls.contains_key(*uid) && !self.bound.contains(*uid) && !self.refused.contains(*uid)
        };
        if ready + deciding + pods.pending.iter().filter(is_to_come).count() < min_count {
            self.fail(why);
        }
    }

    fn open(&mut self) {
        for call in self.calls.values_mut() {
            if matches!(call.stage, Stage::Waiting(_))
                && let Stage::Waiting(answer) = mem::replace(&mut call.stage, Stage::Binding)
            {
                // If its receiver is gone, the call is about to leave.
                let _ = answer.send(Ok(()));
            }
        }
    }
}

impl Gangs {
    /// The bind call about a pod of a group. Its [`Member::min_count`] tells whether the group is a gang.
    ///
    /// # Errors
    /// The attempt of which this call is a part has failed; the reason.
    pub fn enter(pods: &Arc<PodTable>, key: GroupKey, uid: &str) -> Result<Member, String> {
        let id = pods.gangs.next.fetch_add(1, Ordering::Relaxed);
        let mut attempts = pods.gangs.attempts.lock();
        attempts.retain(|_, attempt| !attempt.is_over());
        let attempt = attempts.entry(key.clone()).or_default();
        if let Some(why) = attempt.failed_before(uid).cloned() {
            attempt.refused.insert(uid.to_owned());
            return Err(why);
        }
        if attempt.failed.take().is_some() {
            attempt.refused.clear();
        }
        if attempt.calls.is_empty() {
            attempt.min_count = Arc::default();
        }
        attempt.latest = Some(Instant::now());
        let (answer, answered) = oneshot::channel();
        attempt.bound.remove(uid);
        attempt.refused.remove(uid);
        // An earlier call about the pod gets no answer any more.
        attempt.calls.insert(uid.to_owned(), BindOfMember { id, stage: Stage::Deciding(answer) });
        let min_count = Arc::clone(&attempt.min_count);
        drop(attempts);
        Ok(Member { pods: Arc::clone(pods), key, uid: uid.to_owned(), id, min_count, answered })
    }

    /// The watch has changed the pods of a group; this one of them is gone or has ended.
    pub(super) fn changed(&self, pods: &PodTable, key: &GroupKey, gone: Option<&str>) {
        let mut attempts = self.attempts.lock();
        let Some(attempt) = attempts.get_mut(key) else { return };
        if let Some(uid) = gone {
            attempt.refuse(uid, "the pod is gone");
        }
        pods.with_group(key, |group| attempt.evaluate(group, "a pod of it is gone"));
    }

    /// All pods have been listed again.
    pub(super) fn relisted(&self, pods: &PodTable) {
        for (key, attempt) in &mut *self.attempts.lock() {
            pods.with_group(key, |group| attempt.evaluate(group, "a pod of it is gone"));
        }
    }
}

/// A bind call about a pod of a group. Dropped before its Binding may be created, its pod counts as refused.
#[derive(Debug)]
pub struct Member {
    pods: Arc<PodTable>,
    key: GroupKey,
    uid: String,
    id: u64,
    min_count: Arc<OnceCell<Option<usize>>>,
    answered: oneshot::Receiver<Result<(), String>>,
}

impl Member {
    /// The group's `minCount`, read by one of the calls of an attempt; `None` if it is no gang.
    pub async fn min_count<E>(
        &self,
        read: impl AsyncFnOnce() -> Result<Option<usize>, E>,
    ) -> Result<Option<usize>, E> {
        self.min_count.get_or_try_init(|| read()).await.copied()
    }

    /// Waits until the attempt fails, or after [`Self::accepted`] also until the pod may be bound. Cancel safe.
    ///
    /// # Errors
    /// The pod must not be bound; the reason.
    pub async fn answer(&mut self) -> Result<(), String> {
        let answer = (&mut self.answered).await;
        answer.unwrap_or_else(|_| Err("another call binds the pod".to_owned()))
    }

    /// The pod fits: waits until enough others do.
    ///
    /// # Errors
    /// There are not enough of them until this time; the reason.
    pub async fn accepted(&mut self, until: Instant) -> Result<(), String> {
        self.change(|attempt, uid| {
            if let Some(call) = attempt.calls.get_mut(uid)
                && let Stage::Deciding(answer) = mem::replace(&mut call.stage, Stage::Binding)
            {
                call.stage = Stage::Waiting(answer);
            }
            "a pod of it was refused"
        });
        if let Ok(answer) = timeout_at(until, self.answer()).await {
            return answer;
        }
        let why = "its other pods did not come to be bound in time";
        self.change(|attempt, uid| {
            if !attempt.is_binding(uid) {
                attempt.fail(why);
            }
            why
        });
        // It may have been opened in this moment.
        self.answered.try_recv().unwrap_or_else(|_| Err(why.to_owned()))
    }

    /// The name of the group.
    pub fn group(&self) -> &str {
        &self.key.name
    }

    /// The pod does not fit.
    pub fn refused(&self, why: &str) {
        self.leave(&format!("a pod of it was refused: {why}"));
    }

    /// The attempt to create its Binding has ended; `may_be_bound` says whether it may exist.
    pub fn ended(self, may_be_bound: bool) {
        self.change(|attempt, uid| {
            attempt.end(uid, may_be_bound);
            "a pod of it cannot be bound"
        });
    }

    fn leave(&self, why: &str) {
        self.change(|attempt, uid| {
            // Without its caller, nobody knows whether the pod is bound.
            let may_be_bound = attempt.is_binding(uid);
            attempt.end(uid, may_be_bound);
            why
        });
    }

    /// Changes the attempt, unless this call has no part in it any more, and decides about it: `change` returns why it fails if it
    /// does.
    fn change<'w>(&self, change: impl FnOnce(&mut Attempt, &str) -> &'w str) {
        let mut attempts = self.pods.gangs.attempts.lock();
        let Some(attempt) = attempts.get_mut(&self.key) else { return };
        if attempt.calls.get(&self.uid).is_none_or(|call| call.id != self.id) {
            return;
        }
        let why = change(attempt, &self.uid);
        attempt.latest = Some(Instant::now());
        self.pods.with_group(&self.key, |group| attempt.evaluate(group, why));
    }
}

impl Drop for Member {
    fn drop(&mut self) {
        self.leave("a bind call about a pod of it was canceled");
    }
}

#[cfg(test)]
mod tests;
