//! The arithmetic of reservations: what is left, which reservation a pod gets, and what is held for others. No I/O.
//!
//! A [`Claim`] is a pod's part of the room of a reservation. It is recorded before the pod is bound. Until the controller
//! has seen the pod on its node, the claim does not count as used: what it claims is kept from other pods, so that it is
//! not given away if the pod is bound a little later. Between the Binding and that moment the room counts twice for
//! other pods, which errs on the safe side.

use extender_policy_sdk::Resources;
use jiff::Timestamp;
use serde::{Deserialize, Serialize};

use super::{
    amounts::{fits, is_nothing, largest_percent, minus, plus},
    object::Reservation,
    owners::Asking,
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

    /// Whether this pod can have a claim: it is an owner, and what it requests is left.
    pub(super) fn fits(&self, pod: &Asking<'_>, now: Timestamp) -> bool {
        let Ok(terms) = &self.terms else { return false };
        let most = if terms.once { 1 } else { MAX_CLAIMS };
        let is_free = self.is_open(now) && self.room.claims.len() < most;
        is_free && self.admits(pod) && fits(&pod.requests, self.room.left())
    }

    /// The same if all other pods get their claims for which this replica is writing one.
    fn fits_besides_pending(&self, pod: &Asking<'_>, now: Timestamp) -> bool {
        if !self.fits(pod, now) {
            return false;
        }
        if self.pending.is_empty() {
            return true;
        }
        let others = self.pending.iter().filter(|(uid, _)| *uid != pod.uid);
        let taken = others.clone().fold(Resources::default(), |sum, (_, requests)| plus(&sum, requests));
        let most = if self.is_once() { 1 } else { MAX_CLAIMS };
        let has_place = self.room.claims.len() + others.count() < most;
        has_place && fits(&pod.requests, &minus(self.room.left(), &taken))
    }

    /// The share of the room that pods have or are about to get, as percentage of the resource of which it is the largest.
    pub(super) fn used_percent(&self) -> i32 {
        let pending = self.pending.values().fold(Resources::default(), |sum, requests| plus(&sum, requests));
        largest_percent(&plus(self.room.allocated(), &pending), self.room.allocatable())
    }

    /// What pods that it does not serve must leave free on the node.
    pub(super) fn held(&self, now: Timestamp) -> &Resources {
        // The one pod may never be bound: then the whole room is free for the next one.
        let may_reopen = self.status.phase == Phase::Succeeded
            && !self.is_expired(now)
            && self.room.claims.iter().any(|claim| !claim.bound);
        if self.is_open(now) || may_reopen { &self.room.unused } else { &self.room.on_the_way }
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

/// The reservation of these that serves the pod: one where it has a claim, or else the first by name where it can have
/// one. They are those of one node, in the order of their names.
pub(super) fn chosen<'r, R>(reservations: R, pod: &Asking<'_>, now: Timestamp) -> Option<&'r Reservation>
where
    R: IntoIterator<Item = &'r Reservation> + Clone,
{
    let claimed =
        reservations.clone().into_iter().find(|reservation| reservation.room.claim(pod.uid).is_some());
    let mut considered = reservations.into_iter().take(MAX_CONSIDERED);
    claimed.or_else(|| considered.find(|reservation| reservation.fits_besides_pending(pod, now)))
}

/// The first of these where the pod can have a claim if one that is pending is not written after all.
pub(super) fn perhaps_later<'r>(
    reservations: impl IntoIterator<Item = &'r Reservation>,
    pod: &Asking<'_>,
    now: Timestamp,
) -> Option<&'r Reservation> {
    reservations.into_iter().take(MAX_CONSIDERED).find(|reservation| reservation.fits(pod, now))
}

/// What is held on a node against a pod.
#[derive(Clone, Debug, Default, PartialEq)]
pub(super) struct Held<'r> {
    /// Without pods.
    pub(super) resources: Resources,
    /// The reservations that hold something. Each also keeps a place for one pod.
    pub(super) by: Vec<&'r str>,
}

/// What the reservations of a node, in the order of their names, hold against a pod: all but the one that serves it.
pub(super) fn held<'r, R>(reservations: R, pod: Option<&Asking<'_>>, now: Timestamp) -> Held<'r>
where
    R: IntoIterator<Item = &'r Reservation> + Clone,
{
    let own = pod.and_then(|pod| chosen(reservations.clone(), pod, now)).map(|own| own.uid.as_str());
    let mut held = Held::default();
    for reservation in reservations.into_iter().filter(|reservation| own != Some(&reservation.uid)) {
        let resources = reservation.held(now);
        if !is_nothing(resources) {
            held.resources = plus(&held.resources, resources);
            held.by.push(&reservation.name);
        }
    }
    held
}

#[cfg(test)]
#[path = "room/tests.rs"]
mod tests;
