//! Tells in a Reservation of an owner that waits because it requests more than is left of it.

use extender_policy_sdk::Resources;
use jiff::{SignedDuration, Timestamp};

use crate::{
    amounts,
    object::{AllocatePolicy, NewCondition, Reservation},
    owners::{Asking, OwnedAsking},
};

/// The most pods that are looked at for each Reservation: those that wait for the longest time.
pub(super) const MOST_UNSCHEDULED: usize = 100;
/// A pod that waits for less than this may be about to be bound.
const WAITS_FOR: SignedDuration = SignedDuration::from_secs(10);
/// The least time between two changes of the condition: pods may come and go as often as they like.
const AT_MOST_EVERY: SignedDuration = SignedDuration::from_mins(1);

/// A pod for which kube-scheduler has found no node since this time.
#[derive(Clone, Debug, PartialEq)]
pub(super) struct Unscheduled {
    pub(super) name: String,
    pub(super) since: Timestamp,
    pub(super) asking: OwnedAsking,
}

/// One that has been waiting for a while.
#[derive(Clone, Debug)]
pub(super) struct Waiting<'w> {
    name: &'w str,
    asking: Asking<'w>,
}

impl Unscheduled {
    pub(super) fn waiting(&self, now: Timestamp) -> Option<Waiting<'_>> {
        let waits = now.duration_since(self.since) >= WAITS_FOR;
        waits.then(|| Waiting { name: &self.name, asking: self.asking.asking() })
    }
}

/// Tells whether an owner waits that requests more than is left, and which. Returns whether that is new.
pub(super) fn tell_of_owners(reservation: &mut Reservation, waiting: &[Waiting<'_>], now: Timestamp) -> bool {
    let mut lacking = waiting.iter().filter_map(|pod| Some((pod, reservation.missing_for(&pod.asking)?)));
    let message = lacking.next().map(|(pod, missing)| message(reservation, pod, &missing));
    let (holds, message) = (message.is_none(), &*message.unwrap_or_default());
    let reason = if holds { "NoOwnerWaits" } else { "RequestsMoreThanLeft" };
    reservation.status.flip(NewCondition { kind: "OwnersFit", holds, reason, message }, AT_MOST_EVERY, now)
}

fn message(reservation: &Reservation, pod: &Waiting<'_>, missing: &Resources) -> String {
    let missing = amounts::list(missing).into_iter();
    let missing = missing.map(|(name, amount)| format!("{name} {}", amount.as_str().unwrap_or_default()));
    let policy = reservation.terms.as_ref().map(|terms| terms.allocate).unwrap_or_default();
    let then = match policy {
        AllocatePolicy::Aligned => "which the node must have besides",
        AllocatePolicy::Restricted => "and so gets nothing of it (allocatePolicy: Restricted)",
    };
    format!(
        "the owner {}/{} waits: it requests {} more than is left, {then}",
        pod.asking.namespace,
        pod.name,
        missing.collect::<Vec<_>>().join(", ")
    )
}
