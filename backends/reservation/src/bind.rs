//! Binds owners, after their part of the room is recorded in the Reservation, and turns scheduled placeholder pods into
//! reserved room.
//!
//! The [claim](super::claims) is written first. If the process ends between that and the Binding, a repetition finds the claim,
//! or the controller removes it after [`UNBOUND_LIMIT`].

use std::{time::Duration, vec};

use extender_apiserver::RequestError;
use extender_policy_sdk::{Bind, BindAsk, BindFailed, OwnerReference, Pod, Resources};
use jiff::Timestamp;
use tokio::time::timeout_at;

use super::{
    amounts::counted,
    claims::{ClaimError, ClaimKind, ClaimWriter, Claimed, MAX_WRITES, Objects, TOO_LATE, WRITTEN_WITHIN},
    cluster::{Place, PodRef, is_conflict},
    controller::invalid,
    object::{GROUP, KIND, NewCondition, Reservation, Status},
    owners::Asking,
    ports::{self, PORT_KEPT, UNREADABLE},
    room::{Phase, Room, keeps_port},
    store::Choice,
};

/// How long a claim counts whose pod is not bound.
/// The apiserver ends a request after a minute, also one whose caller has given up; the rest is for clocks and the watch.
pub(super) const UNBOUND_LIMIT: Duration = Duration::from_secs(90);
/// A Binding whose answer has not come within this time is given up: long before the controller removes the record.
const BOUND_WITHIN: Duration = Duration::from_secs(20);
/// How often another reservation is chosen because the room of the one before was taken.
const MAX_CHOICES: usize = 8;
const OTHER_FACTS: &str = "the pod has other labels or another controller than the call says";
const NO_ROOM_LEFT: &str = "the reservation that was to serve the pod has no room left for it";
const ONLY_A_PART: &str = "it has only a part of what the pod requests, and another replica was asked about the rest; the pod is tried again";
const NO_ROOM: &str = "it has no room left for the pod";

/// Binds pods.
#[derive(Debug)]
pub(super) struct Binder {
    objects: Objects,
    claims: ClaimWriter,
}

/// Why a pod is not bound.
#[derive(Debug)]
enum NotBound {
    /// There is no Binding by this call, and none will come.
    Certainly(String),
    /// The apiserver may have got it.
    Perhaps(String),
}

/// What a Reservation is to its placeholder pod.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum PlaceholderUse {
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
    pub(super) fn new(objects: Objects) -> Self {
        Self { claims: ClaimWriter::new(objects.clone()), objects }
    }

    /// Binds the pod if a reservation on the node serves it.
    pub(super) async fn bind(&self, ask: BindAsk<'_>) -> Result<Bind, BindFailed> {
        match self.bind_or_decline(ask).await {
            Ok(bind) => Ok(bind),
            Err(NotBound::Certainly(why)) => Ok(Bind::NotBound(why)),
            Err(NotBound::Perhaps(why)) => Err(BindFailed(why)),
        }
    }

    async fn bind_or_decline(&self, ask: BindAsk<'_>) -> Result<Bind, NotBound> {
        let Some(pod) = ask.pod() else {
            // It could be a placeholder, which must not run.
            return Err(NotBound::Certainly(
                "the gateway does not know the pod; set pods.source to Watch".to_owned(),
            ));
        };
        if let Some(reservation) = reservation_of(pod.owner()) {
            return self.placeholder(ask, reservation).await;
        }
        // The UID of the call is the one that is bound.
        let asking = Asking { uid: ask.uid(), ..Asking::new(&pod) };
        match self.claim(ask, &asking).await? {
            Some(claimed) => self.create(ask, &claimed).await,
            None if asking.needs_reservation() => Ok(Bind::NotBound(
                "the pod requires a reservation, and none on this node has room for it".to_owned(),
            )),
            None => self.decline(ask, &asking, &pod),
        }
    }

    /// Leaves the pod to another binder, unless a reservation keeps a host port of it: the filter may have been called before
    /// there was one.
    fn decline(&self, ask: BindAsk<'_>, asking: &Asking<'_>, pod: &Pod<'_>) -> Result<Bind, NotBound> {
        let ports = pod.raw_json().map_or_else(|| Ok(Vec::new()), ports::of_pod);
        let ports = ports.map_err(|_| NotBound::Certainly(UNREADABLE.to_owned()))?;
        let now = (self.objects.clock)();
        if keeps_port(self.objects.store.read().on(ask.node()), Some(asking), &ports, now) {
            return Err(NotBound::Certainly(PORT_KEPT.to_owned()));
        }
        Ok(Bind::Declined("the pod owns no reservation with room on this node".to_owned()))
    }

    /// Writes the pod's claim into a reservation on the node; `None` if none serves it. When another pod has taken the room
    /// meanwhile, another reservation is chosen. With none left, the pod is not bound without: it was accepted because of
    /// the reservation. Which part another replica has told the gateway, and so what the node must have besides, is not known
    /// here: then only all that the pod requests is enough.
    async fn claim(&self, ask: BindAsk<'_>, asking: &Asking<'_>) -> Result<Option<Claimed>, NotBound> {
        let promised = self.objects.store.promises.take(asking.uid, ask.node());
        let (mut full, mut least, mut is_known, mut unread) = (None, promised.clone(), false, None);
        for _ in 0..MAX_CHOICES {
            let chosen = match self.choose(ask.node(), asking, promised.is_some(), &mut unread).await? {
                Choice::Serves(chosen) => chosen,
                Choice::Taken(name) => return Err(failed(&name, NO_ROOM)),
                Choice::None if promised.is_some() => {
                    return Err(NotBound::Certainly(NO_ROOM_LEFT.to_owned()));
                }
                Choice::None => break,
            };
            if !std::mem::replace(&mut is_known, true) {
                self.check_owner(ask, asking).await?;
            }
            if promised.is_none() && !chosen.is_all {
                return Err(failed(&chosen.name, ONLY_A_PART));
            }
            // Others have seen that the node has room for what this does not give.
            let least: &Resources = least.get_or_insert_with(|| chosen.part.clone());
            match self.claims.claim(&chosen, asking, ask.name(), least).await {
                Ok(claimed) => return Ok(Some(claimed)),
                Err(ClaimError::NoRoom) => full = Some(chosen.name.clone()),
                Err(ClaimError::Failed(why)) => return Err(failed(&chosen.name, &why)),
            }
        }
        full.map_or(Ok(None), |name| Err(failed(&name, NO_ROOM)))
    }

    /// Chooses a reservation. If another replica has answered the hook, it may know more: before the pod gets nothing, or only a
    /// part, the reservations that could serve it are read.
    async fn choose(
        &self,
        node: &str,
        asking: &Asking<'_>,
        is_promised: bool,
        unread: &mut Option<vec::IntoIter<String>>,
    ) -> Result<Choice<'_>, NotBound> {
        let Objects { store, clock, .. } = &self.objects;
        loop {
            let choice = store.choose(node, asking, clock());
            match &choice {
                Choice::Serves(chosen) if !chosen.is_all && !is_promised => {}
                Choice::None => {}
                Choice::Serves(_) | Choice::Taken(_) => return Ok(choice),
            }
            let unread = unread
                .get_or_insert_with(|| store.read().that_may_serve_later(node, asking, clock()).into_iter());
            let Some(name) = unread.next() else { return Ok(choice) };
            drop(choice);
            self.read_for(&name).await?;
        }
    }

    /// Checks that the pod is the owner that the call says: who reaches this policy may say anything.
    async fn check_owner(&self, ask: BindAsk<'_>, asking: &Asking<'_>) -> Result<(), NotBound> {
        match self.objects.cluster.identity(&pod_of(ask)).await {
            Ok(Some(identity)) if identity.is_of(asking) => Ok(()),
            Ok(Some(_)) => Err(NotBound::Certainly(OTHER_FACTS.to_owned())),
            Ok(None) => Err(NotBound::Certainly("the pod does not exist".to_owned())),
            Err(error) => Err(NotBound::Certainly(format!("cannot read the pod: {error}"))),
        }
    }

    /// Creates the Binding, and takes the claim back if the pod is certainly not bound by it.
    async fn create(&self, ask: BindAsk<'_>, claimed: &Claimed) -> Result<Bind, NotBound> {
        let Claimed { reservation, kind, began } = claimed;
        if began.elapsed() > WRITTEN_WITHIN {
            // The controller could remove the claim before the pod is bound.
            return Err(failed(&reservation.name, TOO_LATE));
        }
        let cluster = &self.objects.cluster;
        let bound = timeout_at(*began + BOUND_WITHIN, cluster.bind(ask)).await;
        let error = match bound
            .unwrap_or_else(|_| Err(RequestError::Failed("there is no answer in time".to_owned())))
        {
            Ok(()) => return Ok(Bind::Bound),
            Err(error) => error,
        };
        let text = format!("cannot create the Binding: {error}");
        match cluster.place(&pod_of(ask)).await {
            // Another attempt may have bound it with this claim.
            Ok(Place::On(node)) if node == ask.node() => Ok(Bind::Bound),
            // This Binding, or that of an earlier attempt, may still be under way.
            Ok(Place::Unbound) if !error.excludes_an_effect() || *kind == ClaimKind::Renewed => {
                Err(NotBound::Perhaps(text))
            }
            Ok(_) => {
                self.release(reservation, ask.uid()).await;
                Err(NotBound::Certainly(text))
            }
            // The controller finds out.
            Err(unknown) => {
                Err(NotBound::Perhaps(format!("{text}; and then cannot read the pod: {unknown}")))
            }
        }
    }

    /// Takes a claim back, unless another attempt has renewed it. If that fails, the controller does it later.
    async fn release(&self, claimed: &Reservation, pod: &str) {
        let Reservation { name, uid, room, .. } = claimed;
        let claim = room.claim(pod);
        let mut latest = self.objects.known(name);
        for _ in 0..MAX_WRITES {
            let Some(current) = latest.filter(|current| current.uid == *uid) else { return };
            if claim.is_none() || current.room.claim(pod) != claim {
                return;
            }
            let room = current.room.retaining(|claim| claim.uid != pod);
            let status = with_room(&current, &room, (self.objects.clock)());
            match self.objects.write(&current, &status).await {
                Ok(_) => return,
                Err(error) if is_conflict(&error) => {
                    latest = self.objects.read(name).await.unwrap_or_default();
                }
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
    async fn placeholder(&self, ask: BindAsk<'_>, of: &OwnerReference) -> Result<Bind, NotBound> {
        let clock = &self.objects.clock;
        let mut latest = self.objects.known(&of.name);
        if latest.as_ref().is_none_or(|known| waiting(known, ask, of, clock()) == PlaceholderUse::ForAnother)
        {
            latest = self.read_for(&of.name).await?;
        }
        for _ in 0..MAX_WRITES {
            let now = clock();
            let Some(current) = latest else {
                return Err(failed(&of.name, "it does not exist, but this is its pod"));
            };
            match waiting(&current, ask, of, now) {
                PlaceholderUse::ForAnother => return Err(failed(&of.name, "the pod is not its placeholder")),
                PlaceholderUse::NoLonger => return self.delete_placeholder(ask, &of.name).await,
                PlaceholderUse::ForNode => {}
            }
            let status = match self.check(&current, ask).await? {
                Ok(()) => reserved(&current, ask, now),
                Err(changed) => invalid(&current, &changed, now),
            };
            match self.objects.write(&current, &status).await {
                Ok(_) => return self.delete_placeholder(ask, &of.name).await,
                Err(error) if is_conflict(&error) || !error.excludes_an_effect() => {
                    latest = self.read_for(&of.name).await?;
                }
                Err(error) => {
                    return Err(failed(&of.name, &format!("its status cannot be written: {error}")));
                }
            }
        }
        Err(failed(&of.name, &format!("its status was changed {MAX_WRITES} times meanwhile")))
    }

    /// Whether the placeholder is as it was recorded; the text says what differs.
    async fn check(&self, current: &Reservation, ask: BindAsk<'_>) -> Result<Result<(), String>, NotBound> {
        let Some(recorded) = current.status.recorded() else { return Ok(Ok(())) };
        let told = ask.pod().map(|pod| counted(pod.requests())).unwrap_or_default();
        match self.objects.cluster.recorded(&pod_of(ask)).await {
            Ok(Some(now)) => Ok(recorded.check(&now, &told)),
            Ok(None) => Err(failed(&current.name, "its placeholder pod is gone")),
            Err(error) => Err(failed(&current.name, &format!("its placeholder pod cannot be read: {error}"))),
        }
    }

    /// Declines only when the pod is gone: another binder would bind it.
    async fn delete_placeholder(&self, ask: BindAsk<'_>, reservation: &str) -> Result<Bind, NotBound> {
        let deleted = self.objects.cluster.delete_pod(&pod_of(ask)).await;
        deleted
            .map_err(|error| failed(reservation, &format!("cannot delete its placeholder pod: {error}")))?;
        Ok(Bind::Declined(format!("the pod was the placeholder of reservation {reservation} and is deleted")))
    }

    async fn read_for(&self, name: &str) -> Result<Option<Reservation>, NotBound> {
        let read = self.objects.read(name).await;
        read.map_err(|error| failed(name, &format!("it cannot be read: {error}")))
    }
}

fn pod_of(ask: BindAsk<'_>) -> PodRef {
    let [namespace, name, uid] = [ask.namespace(), ask.name(), ask.uid()].map(str::to_owned);
    PodRef { namespace, name, uid }
}

/// Before a Binding is requested.
fn failed(reservation: &str, why: &str) -> NotBound {
    NotBound::Certainly(format!("reservation {reservation}: {why}"))
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

fn waiting(
    reservation: &Reservation,
    ask: BindAsk<'_>,
    of: &OwnerReference,
    now: Timestamp,
) -> PlaceholderUse {
    let Reservation { uid, status, .. } = reservation;
    if *uid != of.uid || status.placeholder != ask.uid() {
        return PlaceholderUse::ForAnother;
    }
    if status.phase == Phase::Pending && !reservation.is_expired(now) {
        PlaceholderUse::ForNode
    } else {
        PlaceholderUse::NoLonger
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
