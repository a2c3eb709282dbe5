//! Binds owners, after their part of the room is recorded in the Reservation, and turns scheduled placeholder pods into
//! reserved room.
//!
//! The record comes first, with a precondition: two replicas cannot give away the same room. If the process ends between
//! the record and the Binding, a repetition finds the record, or the controller removes it after [`UNBOUND_LIMIT`].

use std::{
    hash::{DefaultHasher, Hash as _, Hasher as _},
    sync::Arc,
    time::Duration,
};

use extender_apiserver::RequestError;
use extender_policy_sdk::{Bind, BindAsk, BindFailed, OwnerReference};
use jiff::Timestamp;
use tokio::{
    sync::{Mutex, MutexGuard},
    time::{Instant, timeout_at},
};

use super::{
    Clock,
    amounts::counted,
    cluster::{Cluster, Place, PodRef, is_certain, is_conflict},
    object::{GROUP, KIND, NewCondition, Reservation, Status},
    owners::Asking,
    room::{self, Claim, Phase, Room},
    store::Store,
};

/// How long a claim counts whose pod is not bound.
/// The apiserver ends a request after a minute, also one whose caller has given up; the rest is for clocks and the watch.
pub(super) const UNBOUND_LIMIT: Duration = Duration::from_secs(90);
/// A Binding that does not begin within this time after its record is not created: the controller could remove
/// the record meanwhile.
const BIND_WITHIN: Duration = Duration::from_secs(10);
/// A Binding whose answer has not come within this time is given up: long before the controller removes the record.
const BOUND_WITHIN: Duration = Duration::from_secs(20);
/// The most writes of one record. Each conflict means that another one has succeeded.
const MAX_WRITES: usize = 16;
/// How often another reservation is chosen because the room of the one before was taken.
const MAX_CHOICES: usize = 8;
const NO_ROOM: &str = "it has no room left for the pod";
/// Reservations share this many turns, by their names.
const TURNS: usize = 64;

/// Binds pods.
#[derive(Debug)]
pub(super) struct Binder {
    store: Arc<Store>,
    cluster: Cluster,
    clock: Clock,
    /// In one process, one bind at a time writes a Reservation: without, most would meet conflicts.
    turns: [Mutex<()>; TURNS],
}

/// How a claim came to be.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Record {
    New,
    /// An earlier attempt has recorded it.
    Renewed,
}

/// What a Reservation is to its placeholder pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Waiting {
    /// It waits for a node.
    ForNode,
    /// It has this pod's node, or is over: the pod is not needed.
    NoLonger,
    /// It has not recorded this pod.
    ForAnother,
}

/// The Reservation that controls this pod: it is a placeholder pod, or claims to be one.
pub(super) fn reservation_of(controller: Option<&OwnerReference>) -> Option<&OwnerReference> {
    controller.filter(|controller| {
        let group = controller.api_version.split('/').next().unwrap_or_default();
        (group, controller.kind.as_str()) == (GROUP, KIND)
    })
}

impl Binder {
    pub(super) fn new(store: Arc<Store>, cluster: Cluster, clock: Clock) -> Self {
        Self { store, cluster, clock, turns: [const { Mutex::const_new(()) }; TURNS] }
    }

    /// Binds the pod if a reservation on the node serves it.
    pub(super) async fn bind(&self, ask: BindAsk<'_>) -> Result<Bind, BindFailed> {
        let Some(pod) = ask.pod() else {
            // It could be a placeholder, which must not run.
            return Err(BindFailed("the gateway does not know the pod; set pods.source to Watch".to_owned()));
        };
        if let Some(reservation) = reservation_of(pod.owner()) {
            return self.placeholder(ask, reservation).await;
        }
        // The UID of the call is the one that is bound.
        let asking = Asking { uid: ask.uid(), ..Asking::new(&pod) };
        let Some(first) = self.chosen(ask, &asking) else {
            return Ok(Bind::Declined("the pod owns no reservation with room on this node".to_owned()));
        };
        let (first, turn) = self.in_turn(first, ask, &asking).await?;
        let began = Instant::now();
        let (recorded, record) = self.record(first, &asking, ask).await?;
        drop(turn);
        self.create(ask, (&recorded, record), began).await
    }

    /// Waits for the turn to write a reservation that serves the pod: another pod may take the room of the first meanwhile.
    /// With none left, the pod is not bound without: it was accepted because of the reservation.
    async fn in_turn(
        &self,
        mut first: Reservation,
        ask: BindAsk<'_>,
        asking: &Asking<'_>,
    ) -> Result<(Reservation, MutexGuard<'_, ()>), BindFailed> {
        for _ in 0..MAX_CHOICES {
            let turn = self.turn(&first.name).lock().await;
            match self.chosen(ask, asking) {
                Some(again) if again.uid == first.uid => return Ok((again, turn)),
                Some(other) => first = other,
                None => break,
            }
        }
        Err(failed(&first.name, NO_ROOM))
    }

    fn chosen(&self, ask: BindAsk<'_>, asking: &Asking<'_>) -> Option<Reservation> {
        let known = self.store.read();
        room::chosen(known.on(ask.node()), asking, (self.clock)()).cloned()
    }

    fn turn(&self, name: &str) -> &Mutex<()> {
        let mut hasher = DefaultHasher::new();
        name.hash(&mut hasher);
        // The rest is less than the number of turns.
        &self.turns[usize::try_from(hasher.finish() % TURNS as u64).unwrap_or_default()]
    }

    /// Records the pod's claim in the Reservation, or the time of this attempt if an earlier one has recorded it: the
    /// controller then leaves it alone for as long again. Fails if its room is no longer enough.
    async fn record(
        &self,
        first: Reservation,
        asking: &Asking<'_>,
        ask: BindAsk<'_>,
    ) -> Result<(Reservation, Record), BindFailed> {
        let (name, uid) = (first.name, first.uid);
        // An uncertain write of this call may have recorded it: then it counts as an earlier one, which is the safe side.
        let mut latest = self.store.read().get(&name).cloned();
        for _ in 0..MAX_WRITES {
            let now = (self.clock)();
            let current =
                latest.filter(|current| current.uid == uid && current.status.node_name == ask.node());
            let current = current.ok_or_else(|| failed(&name, "it was deleted"))?;
            let record = match current.room.claim(asking.uid) {
                Some(claim) if claim.bound => return Ok((current, Record::Renewed)),
                None if !current.fits(asking, now) => return Err(failed(&name, NO_ROOM)),
                Some(_) => Record::Renewed,
                None => Record::New,
            };
            let status = with_claim(&current, claim(asking, ask, now), now);
            match self.write(&current, &status).await {
                Ok(Some(written)) => return Ok((written, record)),
                Ok(None) => return Err(failed(&name, "it is being deleted")),
                Err(error) if is_conflict(&error) || !is_certain(&error) => {
                    latest = self.read_again(&name).await.map_err(|again| {
                        failed(
                            &name,
                            &format!("its status cannot be written: {error}; and it cannot be read: {again}"),
                        )
                    })?;
                }
                Err(error) => return Err(failed(&name, &format!("its status cannot be written: {error}"))),
            }
        }
        Err(failed(&name, &format!("its status was changed {MAX_WRITES} times meanwhile")))
    }

    /// Creates the Binding, and takes the claim back if the pod is certainly not bound by it.
    async fn create(
        &self,
        ask: BindAsk<'_>,
        (recorded, record): (&Reservation, Record),
        began: Instant,
    ) -> Result<Bind, BindFailed> {
        if began.elapsed() > BIND_WITHIN {
            return Err(failed(&recorded.name, "the apiserver took too long to record the pod"));
        }
        let bound = timeout_at(began + BOUND_WITHIN, self.cluster.bind(ask)).await;
        let error = match bound
            .unwrap_or_else(|_| Err(RequestError::Failed("there is no answer in time".to_owned())))
        {
            Ok(()) => return Ok(Bind::Bound),
            Err(error) => error,
        };
        let text = format!("cannot create the Binding: {error}");
        match self.cluster.place(ask).await {
            // Another attempt may have bound it with this claim.
            Ok(Place::On(node)) if node == ask.node() => Ok(Bind::Bound),
            // This Binding, or that of an earlier attempt, may still be under way.
            Ok(Place::Unbound) if !is_certain(&error) || record == Record::Renewed => Err(BindFailed(text)),
            Ok(_) => {
                self.release(recorded, ask.uid()).await;
                Err(BindFailed(text))
            }
            // The controller finds out.
            Err(unknown) => Err(BindFailed(format!("{text}; and then cannot read the pod: {unknown}"))),
        }
    }

    /// Takes a claim back, unless another attempt has renewed it. If that fails, the controller does it later.
    async fn release(&self, recorded: &Reservation, pod: &str) {
        let Reservation { name, uid, room, .. } = recorded;
        let claim = room.claim(pod);
        let mut latest = self.store.read().get(name).cloned();
        for _ in 0..MAX_WRITES {
            let Some(current) = latest.filter(|current| current.uid == *uid) else { return };
            if claim.is_none() || current.room.claim(pod) != claim {
                return;
            }
            let room = current.room.retaining(|claim| claim.uid != pod);
            let status = with_room(&current, &room, (self.clock)());
            match self.write(&current, &status).await {
                Ok(_) => return,
                Err(error) if is_conflict(&error) => latest = self.read_again(name).await.unwrap_or_default(),
                Err(error) => {
                    tracing::warn!(
                        reservation = name,
                        pod,
                        "cannot take back the room of a pod that is not bound: {error}; the controller does it later"
                    );
                    return;
                }
            }
        }
    }

    /// Reserves the room of a placeholder pod on this node, and deletes the pod.
    async fn placeholder(&self, ask: BindAsk<'_>, of: &OwnerReference) -> Result<Bind, BindFailed> {
        let _turn = self.turn(&of.name).lock().await;
        let mut latest = self.store.read().get(&of.name).cloned();
        if latest.as_ref().is_none_or(|known| waiting(known, ask, of, (self.clock)()) == Waiting::ForAnother)
        {
            latest = self.read_for(&of.name).await?;
        }
        for _ in 0..MAX_WRITES {
            let now = (self.clock)();
            let Some(current) = latest else {
                return Err(failed(&of.name, "it does not exist, but this is its pod"));
            };
            match waiting(&current, ask, of, now) {
                Waiting::ForAnother => return Err(failed(&of.name, "the pod is not its placeholder")),
                Waiting::NoLonger => return self.delete_placeholder(ask, &of.name).await,
                Waiting::ForNode => {}
            }
            match self.write(&current, &reserved(&current, ask, now)).await {
                Ok(_) => return self.delete_placeholder(ask, &of.name).await,
                Err(error) if is_conflict(&error) || !is_certain(&error) => {
                    latest = self.read_for(&of.name).await?;
                }
                Err(error) => {
                    return Err(failed(&of.name, &format!("its status cannot be written: {error}")));
                }
            }
        }
        Err(failed(&of.name, &format!("its status was changed {MAX_WRITES} times meanwhile")))
    }

    /// Declines only when the pod is gone: another binder would bind it.
    async fn delete_placeholder(&self, ask: BindAsk<'_>, reservation: &str) -> Result<Bind, BindFailed> {
        let [namespace, name, uid] = [ask.namespace(), ask.name(), ask.uid()].map(str::to_owned);
        let deleted = self.cluster.delete_pod(&PodRef { namespace, name, uid }).await;
        deleted
            .map_err(|error| failed(reservation, &format!("cannot delete its placeholder pod: {error}")))?;
        Ok(Bind::Declined(format!("the pod was the placeholder of reservation {reservation} and is deleted")))
    }

    async fn read_for(&self, name: &str) -> Result<Option<Reservation>, BindFailed> {
        self.read_again(name).await.map_err(|error| failed(name, &format!("it cannot be read: {error}")))
    }

    async fn read_again(&self, name: &str) -> Result<Option<Reservation>, RequestError> {
        let read = self.cluster.reservation(name).await?;
        if let Some(read) = &read {
            self.store.learn(read.clone());
        }
        Ok(read)
    }

    async fn write(
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

fn failed(reservation: &str, why: &str) -> BindFailed {
    BindFailed(format!("reservation {reservation}: {why}"))
}

fn claim(asking: &Asking<'_>, ask: BindAsk<'_>, now: Timestamp) -> Claim {
    let [namespace, name, uid] = [ask.namespace(), ask.name(), ask.uid()].map(str::to_owned);
    Claim { namespace, name, uid, requests: asking.requests.clone(), since: now, bound: false }
}

fn with_claim(current: &Reservation, claim: Claim, now: Timestamp) -> Status {
    let (phase, room) = current.with_claim(claim);
    let mut status = current.status_with(&room, phase);
    if phase == Phase::Succeeded {
        let message = "its owner has the room";
        status.set_condition(NewCondition { kind: "Ready", holds: false, reason: "Allocated", message }, now);
    }
    status
}

/// The status with claims taken back.
pub(super) fn with_room(current: &Reservation, room: &Room, now: Timestamp) -> Status {
    let phase = current.phase_with(room, now);
    let mut status = current.status_with(room, phase);
    if phase == Phase::Available && current.status.phase != phase {
        status
            .set_condition(NewCondition { kind: "Ready", holds: true, reason: "Reserved", message: "" }, now);
    }
    status
}

fn waiting(reservation: &Reservation, ask: BindAsk<'_>, of: &OwnerReference, now: Timestamp) -> Waiting {
    let Reservation { uid, status, .. } = reservation;
    if *uid != of.uid || status.placeholder != ask.uid() {
        return Waiting::ForAnother;
    }
    if status.phase == Phase::Pending && !reservation.is_expired(now) {
        Waiting::ForNode
    } else {
        Waiting::NoLonger
    }
}

/// The status with the room of the placeholder on its node.
fn reserved(current: &Reservation, ask: BindAsk<'_>, now: Timestamp) -> Status {
    let requests = ask.pod().map(|pod| counted(pod.requests())).unwrap_or_default();
    let mut status = current.status_with(&Room::new(requests, Vec::new()), Phase::Available);
    ask.node().clone_into(&mut status.node_name);
    for (kind, reason) in [("Scheduled", "Scheduled"), ("Ready", "Reserved")] {
        status.set_condition(NewCondition { kind, holds: true, reason, message: "" }, now);
    }
    status
}

#[cfg(test)]
#[path = "bind/tests.rs"]
mod tests;
