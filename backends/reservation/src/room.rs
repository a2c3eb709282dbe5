//! The arithmetic of reservations: what is left, which reservation a pod gets, and what is held for others. No I/O.
//!
//! A [`Claim`] is a pod's part of the room of a reservation. It is recorded before the pod is bound. What a node keeps from
//! other pods is all of an open reservation, with its claims: the gateway takes off what their pods use in the usage that it
//! tells, so that nobody sees the room free between an owner's end and the next one.

use extender_policy_sdk::Resources;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{
    amounts::{fits, is_nothing, largest_percent, least, listed, minus, plus},
    object::{AllocatePolicy, Reservation, Terms},
    owners::Asking,
    ports::{HostPort, collide},
};

/// The most pods that have a part of one reservation.
pub(super) const MAX_CLAIMS: usize = 1_000;
/// The most reservations of a node that are considered for a pod. What all others hold counts nevertheless.
const MAX_CONSIDERED: usize = 512;

/// How far a reservation is.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub(super) enum Phase {
    /// No node yet.
    #[default]
    Pending,
    /// Room is reserved on a node.
    Available,
    /// The one owner has it.
    Succeeded,
    /// Over: expired, its node is gone, or its spec is invalid.
    Failed,
}

impl Phase {
    /// Whether it is a final one: no pod gets room any more.
    pub(super) fn is_over(self) -> bool {
        matches!(self, Self::Succeeded | Self::Failed)
    }
}

/// A pod's part of the room.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Claim {
    pub(super) namespace: String,
    pub(super) name: String,
    pub(super) uid: String,
    pub(super) requests: Resources,
    /// When it was recorded last.
    pub(super) since: Timestamp,
    /// Whether the controller has seen the pod on the node.
    pub(super) bound: bool,
}

/// What was reserved, and for whom.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Room {
    allocatable: Resources,
    claims: Vec<Claim>,
    /// Sums, which each call needs.
    allocated: Resources,
    on_the_way: Resources,
    unused: Resources,
    left: Resources,
}

impl Room {
    pub(super) fn new(allocatable: Resources, claims: Vec<Claim>) -> Self {
        let allocated = sum(&claims, |_| true);
        let on_the_way = sum(&claims, |claim| !claim.bound);
        let unused = minus(&allocatable, &sum(&claims, |claim| claim.bound));
        let left = minus(&allocatable, &allocated);
        Self { allocatable, claims, allocated, on_the_way, unused, left }
    }

    pub(super) fn allocatable(&self) -> &Resources {
        &self.allocatable
    }

    pub(super) fn claims(&self) -> &[Claim] {
        &self.claims
    }

    /// The claim of the pod with this UID.
    pub(super) fn claim(&self, uid: &str) -> Option<&Claim> {
        self.claims.iter().find(|claim| claim.uid == uid && !uid.is_empty())
    }

    /// The sum of all claims.
    pub(super) fn allocated(&self) -> &Resources {
        &self.allocated
    }

    /// What no pod claims.
    pub(super) fn left(&self) -> &Resources {
        &self.left
    }

    /// Adds a claim, or a later time to the one that the pod has.
    fn add(&mut self, claim: Claim) {
        if let Some(old) = self.claims.iter_mut().find(|old| old.uid == claim.uid) {
            old.since = claim.since;
            return;
        }
        self.allocated = plus(&self.allocated, &claim.requests);
        self.on_the_way = plus(&self.on_the_way, &claim.requests);
        self.left = minus(&self.allocatable, &self.allocated);
        self.claims.push(claim);
    }

    /// The same with the claims that this function keeps, as it leaves them.
    pub(super) fn retaining(&self, keep: impl FnMut(&mut Claim) -> bool) -> Self {
        let mut claims = self.claims.clone();
        claims.retain_mut(keep);
        Self::new(self.allocatable.clone(), claims)
    }
}

fn sum(claims: &[Claim], counts: impl Fn(&Claim) -> bool) -> Resources {
    let counted = claims.iter().filter(|claim| counts(claim));
    counted.fold(Resources::default(), |sum, claim| plus(&sum, &claim.requests))
}

impl Terms {
    fn most_claims(&self) -> usize {
        if self.once { 1 } else { MAX_CLAIMS }
    }
}

impl Reservation {
    /// Whether it gives room to owners.
    pub(super) fn is_open(&self, now: Timestamp) -> bool {
        self.status.phase == Phase::Available && !self.is_expired(now)
    }

    /// Whether it is over, by this clock. One without a valid spec is.
    pub(super) fn is_expired(&self, now: Timestamp) -> bool {
        self.terms.as_ref().map_or(true, |terms| terms.expired(now))
    }

    pub(super) fn is_once(&self) -> bool {
        self.terms.as_ref().is_ok_and(|terms| terms.once)
    }

    /// What this pod can claim: it is an owner, and there is something left for it.
    pub(super) fn part(&self, pod: &Asking<'_>, now: Timestamp) -> Option<Resources> {
        let terms = self.terms.as_ref().ok()?;
        let is_free = self.is_open(now) && self.room.claims.len() < terms.most_claims();
        let is_owner = is_free && self.admits(pod);
        is_owner.then(|| part_of(terms, &self.room, &pod.requests, self.room.left()))?
    }

    /// The same if all other pods get their claims for which this replica is writing one.
    fn part_besides_pending(&self, pod: &Asking<'_>, now: Timestamp) -> Option<Resources> {
        let part = self.part(pod, now)?;
        if self.pending.is_empty() {
            return Some(part);
        }
        let others = self.pending.iter().filter(|(uid, _)| *uid != pod.uid);
        let taken = others.clone().fold(Resources::default(), |sum, (_, requests)| plus(&sum, requests));
        let terms = self.terms.as_ref().ok()?;
        let has_place = self.room.claims.len() + others.count() < terms.most_claims();
        let left = minus(self.room.left(), &taken);
        has_place.then(|| part_of(terms, &self.room, &pod.requests, &left))?
    }

    /// The claim that the pod has, or else what it can claim.
    pub(super) fn part_for(&self, pod: &Asking<'_>, now: Timestamp) -> Option<Resources> {
        let claimed = self.room.claim(pod.uid).map(|claim| claim.requests.clone());
        claimed.or_else(|| self.part_besides_pending(pod, now))
    }

    /// What an owner without a part requests beyond what is left of what is listed here.
    pub(super) fn missing_for(&self, pod: &Asking<'_>) -> Option<Resources> {
        let has_none = self.room.claim(pod.uid).is_none() && self.admits(pod);
        let missing = || minus(&listed(&pod.requests, &self.room.allocatable), self.room.left());
        has_none.then(missing).filter(|missing| !is_nothing(missing))
    }

    /// Whether a version that this replica does not know may serve the pod: with less claimed of it, or with a node by now.
    pub(super) fn may_serve_later(&self, pod: &Asking<'_>, now: Timestamp) -> bool {
        let Ok(terms) = &self.terms else { return false };
        let fits = || part_of(terms, &self.room, &pod.requests, self.room.allocatable()).is_some();
        let is_possible = match self.status.phase {
            Phase::Pending => true,
            Phase::Available => fits(),
            Phase::Succeeded => self.keeps_all(now) && fits(),
            Phase::Failed => false,
        };
        is_possible && !self.is_expired(now) && self.admits(pod)
    }

    /// The share of the room that pods have or are about to get, as percentage of the resource of which it is the largest.
    pub(super) fn used_percent(&self) -> i32 {
        let pending = self.pending.values().fold(Resources::default(), |sum, requests| plus(&sum, requests));
        largest_percent(&plus(self.room.allocated(), &pending), self.room.allocatable())
    }

    /// Whether this part is all that the pod requests of what the reservation lists.
    pub(super) fn gives_all(&self, part: &Resources, pod: &Asking<'_>) -> bool {
        fits(&listed(&pod.requests, &self.room.allocatable), part)
    }

    /// Whether all of its room is kept for owners.
    pub(super) fn keeps_all(&self, now: Timestamp) -> bool {
        // The one pod may never be bound: then the whole room is free for the next one.
        let may_reopen = self.status.phase == Phase::Succeeded
            && !self.is_expired(now)
            && self.room.claims.iter().any(|claim| !claim.bound);
        self.is_open(now) || may_reopen
    }

    /// What pods that it does not serve must leave free on the node, if the pods that were seen there still are.
    pub(super) fn held(&self, now: Timestamp) -> &Resources {
        if self.keeps_all(now) { &self.room.unused } else { &self.room.on_the_way }
    }

    /// What it keeps besides this pod's part of it.
    fn kept_besides(&self, pod: &str, part: &Resources, now: Timestamp) -> Kept<'_> {
        let is_all = self.keeps_all(now);
        let counts = |claim: &&Claim| (is_all || !claim.bound) && claim.uid != pod;
        let claims = self.room.claims.iter().filter(counts);
        let mut users: Vec<_> = claims.map(|claim| (claim.uid.as_str(), &claim.requests)).collect();
        let resources = if is_all {
            minus(&self.room.allocatable, part)
        } else {
            users.iter().fold(Resources::default(), |sum, (_, requests)| plus(&sum, requests))
        };
        let is_pending = |uid: &str| is_all && uid != pod && self.room.claim(uid).is_none();
        let pending = self.pending.iter().filter(|(uid, _)| is_pending(uid));
        users.extend(pending.map(|(uid, requests)| (uid.as_str(), requests)));
        Kept { resources, users }
    }

    fn kept(&self, now: Timestamp) -> Kept<'_> {
        self.kept_besides("", &Resources::default(), now)
    }

    /// Adds a claim of a pod that is not bound.
    pub(super) fn add_claim(&mut self, claim: Claim) {
        if self.status.phase == Phase::Available && self.is_once() {
            self.status.phase = Phase::Succeeded;
        }
        self.room.add(claim);
    }

    /// The phase after this room has replaced the one before: a reservation whose only pod was never bound opens again.
    pub(super) fn phase_with(&self, room: &Room, now: Timestamp) -> Phase {
        let claims = &self.room.claims;
        let never_bound = !claims.is_empty() && claims.iter().all(|claim| !claim.bound);
        let reopens = self.status.phase == Phase::Succeeded && never_bound && room.claims.is_empty();
        if reopens && !self.is_expired(now) { Phase::Available } else { self.status.phase }
    }
}

/// The reservation of these that serves the pod: one where it has a claim, or else the first by name that has all it
/// requests, or else a part of it. They are those of one node, in the order of their names.
pub(super) fn chosen<'r, R>(reservations: R, pod: &Asking<'_>, now: Timestamp) -> Option<&'r Reservation>
where
    R: IntoIterator<Item = &'r Reservation> + Clone,
{
    let claimed =
        reservations.clone().into_iter().find(|reservation| reservation.room.claim(pod.uid).is_some());
    claimed.or_else(|| {
        let mut partly = None;
        for found in reservations.into_iter().take(MAX_CONSIDERED) {
            match found.part_besides_pending(pod, now) {
                Some(part) if found.gives_all(&part, pod) => return Some(found),
                Some(_) => partly = partly.or(Some(found)),
                None => {}
            }
        }
        partly
    })
}

/// The first of these where the pod can have a claim if one that is pending is not written after all.
pub(super) fn perhaps_later<'r>(
    reservations: impl IntoIterator<Item = &'r Reservation>,
    pod: &Asking<'_>,
    now: Timestamp,
) -> Option<&'r Reservation> {
    reservations.into_iter().take(MAX_CONSIDERED).find(|reservation| reservation.part(pod, now).is_some())
}

/// The part of these requests that comes out of what is left of a reservation.
fn part_of(terms: &Terms, room: &Room, requests: &Resources, left: &Resources) -> Option<Resources> {
    let wanted = listed(requests, &room.allocatable);
    let part = least(&wanted, left);
    let is_served = match terms.allocate {
        AllocatePolicy::Aligned => true,
        AllocatePolicy::Restricted => part == wanted,
    };
    (is_served && (!is_nothing(&part) || is_nothing(requests))).then_some(part)
}

/// What a reservation keeps from a pod.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Kept<'r> {
    /// All of it, used or not. Without pods.
    pub(super) resources: Resources,
    /// The pods with a part of it, by UID, and these parts.
    pub(super) users: Vec<(&'r str, &'r Resources)>,
}

/// What is held on a node against a pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Held<'r> {
    /// The part of the pod, if a reservation serves it.
    pub(super) own: Option<Resources>,
    /// Of each reservation that keeps something. The gateway takes off what users use.
    pub(super) kept: Vec<Kept<'r>>,
    /// What is left of that while the pods that were seen on the node are there. Without pods.
    pub(super) resources: Resources,
    /// The reservations that hold something. Each also keeps a place for one pod.
    pub(super) by: Vec<&'r str>,
}

/// What the reservations of a node, in the order of their names, hold against a pod: all but the one that serves it. If that
/// one has only a part of what the pod requests, it holds the rest of itself: the pod needs other room besides its part.
pub(super) fn held<'r, R>(reservations: R, pod: Option<&Asking<'_>>, now: Timestamp) -> Held<'r>
where
    R: IntoIterator<Item = &'r Reservation> + Clone,
{
    let own = pod.and_then(|pod| Some((chosen(reservations.clone(), pod, now)?, pod)));
    let mut held = Held::default();
    if let Some((own, pod)) = own {
        let part = own.part_for(pod, now).unwrap_or_default();
        let rest = own.kept_besides(pod.uid, &part, now);
        if !own.gives_all(&part, pod) && !is_nothing(&rest.resources) {
            held.kept.push(rest);
        }
        held.own = Some(part);
    }
    let own = own.map(|(own, _)| own.uid.as_str());
    for reservation in reservations.into_iter().filter(|reservation| own != Some(&reservation.uid)) {
        let kept = reservation.kept(now);
        if !is_nothing(&kept.resources) {
            held.kept.push(kept);
        }
        let resources = reservation.held(now);
        if !is_nothing(resources) {
            held.resources = plus(&held.resources, resources);
            held.by.push(&reservation.name);
        }
    }
    held
}

/// Whether one of the reservations of a node keeps one of these ports from the pod.
pub(super) fn keeps_port<'r, R>(
    reservations: R,
    pod: Option<&Asking<'_>>,
    wanted: &[HostPort],
    now: Timestamp,
) -> bool
where
    R: IntoIterator<Item = &'r Reservation> + Clone,
{
    if wanted.is_empty() {
        return false;
    }
    let own = pod.and_then(|pod| chosen(reservations.clone(), pod, now)).map(|own| own.uid.as_str());
    let mut others = reservations.into_iter().filter(|reservation| own != Some(&reservation.uid));
    others.any(|reservation| {
        let ports = reservation.terms.as_ref().map_or(&[][..], |terms| &terms.ports);
        reservation.keeps_all(now) && collide(ports, wanted)
    })
}

#[cfg(test)]
#[path = "room/tests.rs"]
mod tests;
