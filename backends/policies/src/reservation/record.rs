//! Records in Reservations which pods get their room.
//!
//! A write of a Reservation costs the apiserver several times as much as a Binding. So claims of one Reservation that come
//! while another write is under way, or within [`AT_MOST_EVERY`] after it, are written together. Each is checked against the
//! version that the write replaces, and the apiserver rejects a write that is based on an old one: two replicas cannot
//! give away the same room.

use std::{
    collections::{BTreeMap, HashMap, hash_map::Entry},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use extender_apiserver::RequestError;
use extender_policy_sdk::{OwnerReference, Resources};
use jiff::Timestamp;
use tokio::{
    sync::oneshot,
    time::{Instant, sleep},
};

use super::{
    Clock,
    cluster::{Cluster, is_certain, is_conflict},
    object::{NewCondition, Reservation, Status},
    owners::Asking,
    room::{Claim, Phase},
    store::Store,
};

/// The least time between the end of a write of a Reservation and the next one. The first of a burst does not wait.
const AT_MOST_EVERY: Duration = Duration::from_millis(100);
/// The most attempts to write a status. Each conflict means that another write has succeeded.
pub(super) const MAX_WRITES: usize = 16;

/// The Reservations as one replica reads and writes them.
#[derive(Clone, Debug)]
pub(super) struct Objects {
    pub(super) store: Arc<Store>,
    pub(super) cluster: Cluster,
    pub(super) clock: Clock,
}

/// Records claims.
#[derive(Debug)]
pub(super) struct Recorder {
    shared: Arc<Shared>,
}

#[derive(Debug)]
struct Shared {
    objects: Objects,
    /// By the name of the Reservation: those that its next write includes. There is an entry while a task writes it.
    waiting: Mutex<HashMap<String, Vec<Waiting>>>,
}

/// A recorded claim.
#[derive(Debug)]
pub(super) struct Recorded {
    /// The version that has it.
    pub(super) reservation: Arc<Reservation>,
    pub(super) record: Record,
    /// Before the time of the claim.
    pub(super) began: Instant,
}

/// How a claim came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Record {
    New,
    /// An earlier attempt has recorded it.
    Renewed,
}

/// Why there is no claim.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Unrecorded {
    /// Other pods have the room.
    NoRoom,
    Failed(String),
}

/// A pod that wants a part of a Reservation.
#[derive(Debug)]
struct Waiting {
    /// UID of the Reservation.
    reservation: String,
    node: String,
    name: String,
    pod: Owner,
    record: Record,
    answer: oneshot::Sender<Result<Recorded, Unrecorded>>,
}

/// The same as [`Asking`], for longer than the call.
#[derive(Debug)]
struct Owner {
    uid: String,
    namespace: String,
    controller: Option<OwnerReference>,
    labels: BTreeMap<String, String>,
    requests: Resources,
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

impl Recorder {
    pub(super) fn new(objects: Objects) -> Self {
        Self { shared: Arc::new(Shared { objects, waiting: Mutex::default() }) }
    }

    /// Records the claim of the pod with this name in the Reservation, or the time of this attempt if an earlier one has recorded it: the
    /// controller then leaves it alone for as long again. Within a runtime.
    ///
    /// # Errors
    /// See [`Unrecorded`]. After a failed write there may be a claim, which the controller removes later.
    pub(super) async fn record(
        &self,
        reservation: &Reservation,
        asking: &Asking<'_>,
        name: &str,
    ) -> Result<Recorded, Unrecorded> {
        let (answer, recorded) = oneshot::channel();
        self.shared.add(
            &reservation.name,
            Waiting {
                reservation: reservation.uid.clone(),
                node: reservation.status.node_name.clone(),
                name: name.to_owned(),
                pod: Owner::of(asking),
                // Set by the write.
                record: Record::New,
                answer,
            },
        );
        recorded.await.unwrap_or_else(|_| Err(Unrecorded::Failed("the program is ending".to_owned())))
    }
}

impl Shared {
    fn waiting(&self) -> MutexGuard<'_, HashMap<String, Vec<Waiting>>> {
        // A panic leaves at worst a pod out, which is told.
        self.waiting.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(self: &Arc<Self>, name: &str, waiting: Waiting) {
        match self.waiting().entry(name.to_owned()) {
            Entry::Occupied(mut others) => others.get_mut().push(waiting),
            Entry::Vacant(none) => {
                none.insert(vec![waiting]);
                let writer = Writer { shared: Arc::clone(self), name: name.to_owned(), is_over: false };
                tokio::spawn(writer.run());
            }
        }
    }
}

/// Writes one Reservation, until no pod waits for it.
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
            self.shared.waiting().remove(&self.name);
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

    fn next(&mut self) -> Option<Vec<Waiting>> {
        let mut waiting = self.shared.waiting();
        let group = waiting.get_mut(&self.name).map(std::mem::take).unwrap_or_default();
        if group.is_empty() {
            waiting.remove(&self.name);
            self.is_over = true;
            return None;
        }
        Some(group)
    }

    async fn write(&self, mut group: Vec<Waiting>) {
        let (objects, began) = (&self.shared.objects, Instant::now());
        // An uncertain write may have recorded a claim: then it counts as an earlier one, which is the safe side.
        let mut latest = objects.known(&self.name);
        for _ in 0..MAX_WRITES {
            let Some((current, next)) = with_claims(latest, &mut group, (objects.clock)(), began) else {
                return;
            };
            match objects.write(&current, &next.status).await {
                Ok(Some(written)) => return recorded(group, &Arc::new(written), began),
                Ok(None) => return fail(group, "it is being deleted"),
                Err(error) if is_conflict(&error) || !is_certain(&error) => {
                    match objects.read(&self.name).await {
                        Ok(read) => latest = read,
                        Err(again) => {
                            let why = format!(
                                "its status cannot be written: {error}; and it cannot be read: {again}"
                            );
                            return fail(group, &why);
                        }
                    }
                }
                Err(error) => return fail(group, &format!("its status cannot be written: {error}")),
            }
        }
        fail(group, &format!("its status was changed {MAX_WRITES} times meanwhile"));
    }
}

/// The current version, and what it is with the claims of this group, in the order in which they came. The group loses the
/// pods for which nothing is to be written, which get their answers; `None` if these are all.
fn with_claims(
    current: Option<Reservation>,
    group: &mut Vec<Waiting>,
    now: Timestamp,
    began: Instant,
) -> Option<(Reservation, Reservation)> {
    let mut next = current.clone();
    for mut waiting in std::mem::take(group) {
        // The call is over.
        if waiting.answer.is_closed() {
            continue;
        }
        match waiting.claim(&mut next, now) {
            Ok(true) => group.push(waiting),
            Ok(false) => {
                // It is bound already.
                let Some(current) = &current else { continue };
                recorded(vec![waiting], &Arc::new(current.clone()), began);
            }
            Err(why) => waiting.answer(Err(why)),
        }
    }
    current.zip(next).filter(|_| !group.is_empty())
}

impl Waiting {
    /// Adds or renews the claim. Returns whether that changes something.
    fn claim(&mut self, next: &mut Option<Reservation>, now: Timestamp) -> Result<bool, Unrecorded> {
        let next =
            next.as_mut().filter(|next| next.uid == self.reservation && next.status.node_name == self.node);
        let next = next.ok_or_else(|| Unrecorded::Failed("it was deleted".to_owned()))?;
        self.record = match next.room.claim(&self.pod.uid) {
            Some(claim) if claim.bound => {
                self.record = Record::Renewed;
                return Ok(false);
            }
            Some(_) => Record::Renewed,
            None if !next.fits(&self.pod.asking(), now) => return Err(Unrecorded::NoRoom),
            None => Record::New,
        };
        add_claim(next, self.pod.claim(&self.name, now));
        Ok(true)
    }

    fn answer(self, answer: Result<Recorded, Unrecorded>) {
        // Otherwise the call is over: the controller removes the claim later.
        drop(self.answer.send(answer));
    }
}

fn recorded(group: Vec<Waiting>, written: &Arc<Reservation>, began: Instant) {
    for waiting in group {
        let record = waiting.record;
        waiting.answer(Ok(Recorded { reservation: Arc::clone(written), record, began }));
    }
}

fn fail(group: Vec<Waiting>, why: &str) {
    for waiting in group {
        waiting.answer(Err(Unrecorded::Failed(why.to_owned())));
    }
}

impl Owner {
    fn of(asking: &Asking<'_>) -> Self {
        let Asking { uid, namespace, controller, labels, requests } = asking;
        Self {
            uid: (*uid).to_owned(),
            namespace: (*namespace).to_owned(),
            controller: controller.cloned(),
            labels: labels.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
            requests: requests.clone(),
        }
    }

    fn asking(&self) -> Asking<'_> {
        let Self { uid, namespace, controller, labels, requests } = self;
        let labels = labels.iter().map(|(key, value)| (key.as_str(), value.as_str())).collect();
        Asking { uid, namespace, controller: controller.as_ref(), labels, requests: requests.clone() }
    }

    fn claim(&self, name: &str, now: Timestamp) -> Claim {
        let Self { uid, namespace, requests, .. } = self;
        let [namespace, name, uid] = [namespace.as_str(), name, uid.as_str()].map(str::to_owned);
        Claim { namespace, name, uid, requests: requests.clone(), since: now, bound: false }
    }
}

/// Adds a claim, which may be the only one that there can be.
fn add_claim(reservation: &mut Reservation, claim: Claim) {
    let now = claim.since;
    let (phase, room) = reservation.with_claim(claim);
    reservation.status = reservation.status_with(&room, phase);
    reservation.room = room;
    if phase == Phase::Succeeded {
        let message = "its owner has the room";
        let condition = NewCondition { kind: "Ready", holds: false, reason: "Allocated", message };
        reservation.status.set_condition(condition, now);
    }
}

#[cfg(test)]
mod tests;
