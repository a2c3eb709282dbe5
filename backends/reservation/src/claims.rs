//! Writes into Reservations which pods claim their room.
//!
//! A write of a Reservation costs the apiserver several times as much as a Binding. So claims of one Reservation that come
//! while another write is under way, or within [`AT_MOST_EVERY`] after it, are written together. Each is checked against the
//! version that the write replaces, and the apiserver rejects a write that is based on an old one: two replicas cannot
//! give away the same room.

use std::{
    collections::{HashMap, hash_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use extender_apiserver::RequestError;
use extender_policy_sdk::Resources;
use jiff::Timestamp;
use tokio::{
    sync::oneshot,
    time::{Instant, sleep, timeout_at},
};

use super::{
    Clock,
    amounts::fits,
    cluster::{Cluster, is_conflict},
    object::{NewCondition, Reservation, Status},
    owners::{Asking, OwnedAsking},
    room::{Claim, Phase},
    store::{Chosen, Store},
};

/// The least time between the end of a write of a Reservation and the next one. The first of a burst does not wait.
const AT_MOST_EVERY: Duration = Duration::from_millis(200);
/// The most attempts to write a status. Each conflict means that another write has succeeded.
pub(super) const MAX_WRITES: usize = 16;
/// A claim that is not written within this time is given up: the pod is not bound with a later one.
pub(super) const WRITTEN_WITHIN: Duration = Duration::from_secs(10);
pub(super) const TOO_LATE: &str = "the apiserver took too long to record the pod";

/// The Reservations as one replica reads and writes them.
#[derive(Clone, Debug)]
pub(super) struct Objects {
    pub(super) store: Arc<Store>,
    pub(super) cluster: Cluster,
    pub(super) clock: Clock,
}

/// Writes claims.
#[derive(Debug)]
pub(super) struct ClaimWriter {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    objects: Objects,
    /// By the name of the Reservation: those that its next write includes. There is an entry while a task writes it.
    pending: Mutex<HashMap<String, Vec<PendingClaim>>>,
}

/// A claim that is written.
#[derive(Debug)]
pub(super) struct Claimed {
    /// The version that has it.
    pub(super) reservation: Arc<Reservation>,
    pub(super) kind: ClaimKind,
    /// Before the time of the claim.
    pub(super) began: Instant,
}

/// How a claim came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum ClaimKind {
    New,
    /// Another attempt to bind the pod has the same claim.
    Renewed,
}

/// Why there is no claim.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum ClaimError {
    /// Other pods have the room.
    NoRoom,
    Failed(String),
}

/// A pod that wants a part of a Reservation.
#[derive(Debug)]
struct PendingClaim {
    /// UID of the Reservation.
    reservation: String,
    node: String,
    /// Name of the pod.
    name: String,
    pod: OwnedAsking,
    /// The pod is not bound with less than this.
    least: Resources,
    kind: ClaimKind,
    answer: oneshot::Sender<Result<Claimed, ClaimError>>,
}

impl Objects {
    /// The version that this replica knows.
    pub(super) fn known(&self, name: &str) -> Option<Reservation> {
        self.store.read().get(name).cloned()
    }

    /// The version of the apiserver.
    pub(super) async fn read(&self, name: &str) -> Result<Option<Reservation>, RequestError> {
        let read = self.cluster.reservation(name).await?;
        if let Some(read) = &read {
            self.store.learn(read.clone());
        }
        Ok(read)
    }

    /// Writes a status in place of that of this version.
    pub(super) async fn write(
        &self,
        current: &Reservation,
        status: &Status,
    ) -> Result<Option<Reservation>, RequestError> {
        let written = self.cluster.write_status(current, status).await?;
        if let Some(written) = &written {
            self.store.learn(written.clone());
        }
        Ok(written)
    }
}

impl ClaimWriter {
    pub(super) fn new(objects: Objects) -> Self {
        Self { shared: Arc::new(Shared { objects, pending: Mutex::default() }) }
    }

    /// Writes the claim of the pod with this name, of at least this much, or the time of this attempt if an earlier one has written it: the
    /// controller then leaves it alone for as long again. Within a runtime.
    ///
    /// # Errors
    /// See [`ClaimError`]. After a failed write there may be a claim, which the controller removes later.
    pub(super) async fn claim(
        &self,
        chosen: &Chosen<'_>,
        asking: &Asking<'_>,
        name: &str,
        least: &Resources,
    ) -> Result<Claimed, ClaimError> {
        let (answer, claimed) = oneshot::channel();
        self.shared.add(
            &chosen.name,
            PendingClaim {
                reservation: chosen.uid.clone(),
                node: chosen.node.clone(),
                name: name.to_owned(),
                pod: OwnedAsking::new(asking),
                least: least.clone(),
                // Set by the write.
                kind: ClaimKind::New,
                answer,
            },
        );
        claimed.await.unwrap_or_else(|_| Err(ClaimError::Failed("its writer has ended".to_owned())))
    }
}

impl Shared {
    fn pending(&self) -> MutexGuard<'_, HashMap<String, Vec<PendingClaim>>> {
        // After a panic at worst a claim is missing, whose answer then says so.
        self.pending.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(self: &Arc<Self>, name: &str, claim: PendingClaim) {
        let is_written = match self.pending().entry(name.to_owned()) {
            Entry::Occupied(mut others) => {
                others.get_mut().push(claim);
                true
            }
            Entry::Vacant(none) => {
                none.insert(vec![claim]);
                false
            }
        };
        // Without the lock, which the task takes when it is dropped.
        if !is_written {
            let writer = Writer { shared: Arc::clone(self), name: name.to_owned(), is_over: false };
            tokio::spawn(writer.run());
        }
    }
}

/// Writes one Reservation, until no claim of it is pending.
#[derive(Debug)]
struct Writer {
    shared: Arc<Shared>,
    name: String,
    is_over: bool,
}

impl Drop for Writer {
    fn drop(&mut self) {
        // It has panicked, or the program ends: nobody waits in vain.
        if !self.is_over {
            self.shared.pending().remove(&self.name);
        }
    }
}

impl Writer {
    async fn run(mut self) {
        while let Some(group) = self.next() {
            self.write(group).await;
            sleep(AT_MOST_EVERY).await;
        }
    }

    fn next(&mut self) -> Option<Vec<PendingClaim>> {
        let mut pending = self.shared.pending();
        let group = pending.get_mut(&self.name).map(std::mem::take).unwrap_or_default();
        if group.is_empty() {
            pending.remove(&self.name);
            self.is_over = true;
            return None;
        }
        Some(group)
    }

    async fn write(&self, mut group: Vec<PendingClaim>) {
        let began = Instant::now();
        // What is canceled may still take effect. Later writes are based on a version: no room is given twice by it.
        let written = timeout_at(began + WRITTEN_WITHIN, self.write_all(&mut group, began)).await;
        let why = written.unwrap_or_else(|_| Err(TOO_LATE.to_owned())).err().unwrap_or_default();
        for claim in group {
            claim.answer(Err(ClaimError::Failed(why.clone())));
        }
    }

    /// Those that get no answer stay in the group.
    async fn write_all(&self, group: &mut Vec<PendingClaim>, began: Instant) -> Result<(), String> {
        let objects = &self.shared.objects;
        // An uncertain write may have written a claim: then it counts as an earlier one, which is the safe side.
        let mut latest = objects.known(&self.name);
        for _ in 0..MAX_WRITES {
            let Some((current, status)) = with_claims(latest, group, (objects.clock)(), began) else {
                return Ok(());
            };
            match objects.write(&current, &status).await {
                Ok(Some(written)) => {
                    answer(std::mem::take(group), &Arc::new(written), began);
                    return Ok(());
                }
                Ok(None) => return Err("it is being deleted".to_owned()),
                Err(error) if is_conflict(&error) || !error.excludes_an_effect() => {
                    let read = objects.read(&self.name).await;
                    latest = read.map_err(|again| {
                        format!("its status cannot be written: {error}; and it cannot be read: {again}")
                    })?;
                }
                Err(error) => return Err(format!("its status cannot be written: {error}")),
            }
        }
        Err(format!("its status was changed {MAX_WRITES} times meanwhile"))
    }
}

/// The current version, and its status with the claims of this group, in the order in which they came. The group loses those for
/// which nothing is to be written, which get their answers; `None` if these are all.
fn with_claims(
    current: Option<Reservation>,
    group: &mut Vec<PendingClaim>,
    now: Timestamp,
    began: Instant,
) -> Option<(Reservation, Status)> {
    let mut next = current.clone();
    for mut claim in std::mem::take(group) {
        // The call is over.
        if claim.answer.is_closed() {
            continue;
        }
        match claim.add_to(next.as_mut(), now) {
            Ok(true) => {
                // Neither attempt may take back what the other one needs.
                for same in group.iter_mut().filter(|other| other.pod.uid == claim.pod.uid) {
                    same.kind = ClaimKind::Renewed;
                }
                group.push(claim);
            }
            Ok(false) => {
                // It is bound already.
                let Some(current) = &current else { continue };
                answer(vec![claim], &Arc::new(current.clone()), began);
            }
            Err(why) => claim.answer(Err(why)),
        }
    }
    if group.is_empty() { None } else { current.zip(next.map(|next| claimed_status(&next, now))) }
}

impl PendingClaim {
    /// Adds or renews the claim. Returns whether that changes something.
    fn add_to(&mut self, next: Option<&mut Reservation>, now: Timestamp) -> Result<bool, ClaimError> {
        let next = next.filter(|next| next.uid == self.reservation && next.status.node_name == self.node);
        let next = next.ok_or_else(|| ClaimError::Failed("it was deleted".to_owned()))?;
        let earlier = next.room.claim(&self.pod.uid);
        self.kind = if earlier.is_some() { ClaimKind::Renewed } else { ClaimKind::New };
        if earlier.is_some_and(|claim| claim.bound) {
            return Ok(false);
        }
        let claimed = earlier.map(|claim| claim.requests.clone());
        // With less of it, the pod would need room on the node that others may have.
        let part = || next.part(&self.pod.asking(), now).filter(|part| fits(&self.least, part));
        let part = claimed.or_else(part).ok_or(ClaimError::NoRoom)?;
        next.add_claim(self.pod.claim(&self.name, part, now));
        Ok(true)
    }

    fn answer(self, answer: Result<Claimed, ClaimError>) {
        // Otherwise the call is over: the controller removes the claim later.
        drop(self.answer.send(answer));
    }
}

fn answer(group: Vec<PendingClaim>, written: &Arc<Reservation>, began: Instant) {
    for claim in group {
        let kind = claim.kind;
        claim.answer(Ok(Claimed { reservation: Arc::clone(written), kind, began }));
    }
}

impl OwnedAsking {
    fn claim(&self, name: &str, requests: Resources, now: Timestamp) -> Claim {
        let Self { uid, namespace, .. } = self;
        let [namespace, name, uid] = [namespace.as_str(), name, uid.as_str()].map(str::to_owned);
        Claim { namespace, name, uid, requests, since: now, bound: false }
    }
}

/// The status of a Reservation that has got claims.
fn claimed_status(next: &Reservation, now: Timestamp) -> Status {
    let mut status = next.status_with(&next.room, next.status.phase);
    if next.status.phase == Phase::Succeeded {
        let message = "its owner has the room";
        status.set_condition(NewCondition { kind: "Ready", holds: false, reason: "Allocated", message }, now);
    }
    status
}

#[cfg(test)]
mod tests;
