//! Which evictions make room for a pod. What a reservation keeps for its owners does not become free when one of them is
//! evicted: a pod that may not use it would evict them for nothing, again and again.

use std::collections::HashSet;

use extender_policy_sdk::{Candidate, Eviction, NodeUsage, Pod, Resources, Victim};
use jiff::Timestamp;

use super::{
    amounts::{counted, fits, minus, plus},
    object::Reservation,
    owners::Asking,
    room::held,
};

/// Whether the pod fits on the node of a candidate without its victims; `asking` is `None` for a placeholder.
pub(super) fn eviction<'r>(
    reservations: impl Iterator<Item = &'r Reservation>,
    asking: Option<&Asking<'_>>,
    pod: &Pod<'_>,
    candidate: &Candidate<'_>,
    now: Timestamp,
) -> Eviction {
    let victims: HashSet<_> = candidate.victims().map(|victim| victim.uid()).collect();
    let without: Vec<_> = reservations.map(|reservation| without(reservation, &victims)).collect();
    let held = held(&without, asking, now);
    if held.kept.is_empty() {
        return Eviction::All;
    }
    let of_others = held.kept.iter().map(|kept| {
        // Who is seen on the node counts in its usage.
        let is_seen = |uid: &str| without.iter().filter_map(|it| it.room.claim(uid)).any(|claim| claim.bound);
        let used = kept.users.iter().filter(|(uid, _)| is_seen(uid));
        minus(&kept.resources, &used.fold(Resources::default(), |sum, (_, part)| plus(&sum, part)))
    });
    let of_others = of_others.fold(Resources::default(), |sum, held| plus(&sum, &held));
    let (Some(allocatable), Some(usage)) = (candidate.node().allocatable(), candidate.node().usage()) else {
        return Eviction::Spare;
    };
    let free = minus(&counted(allocatable), &plus(&used_without(usage, candidate), &of_others));
    if fits(&counted(pod.requests()), &free) { Eviction::All } else { Eviction::Spare }
}

/// The reservation as it will be when these pods are gone.
fn without(reservation: &Reservation, pods: &HashSet<&str>) -> Reservation {
    let room = reservation.room.retaining(|claim| !pods.contains(claim.uid.as_str()));
    Reservation { room, ..reservation.clone() }
}

/// What is used on the node without the victims, as far as they are known.
fn used_without(usage: &NodeUsage, candidate: &Candidate<'_>) -> Resources {
    let requests = |victim: Victim<'_>| victim.pod().map(|pod| counted(pod.requests()));
    let victims = candidate.victims().filter_map(requests);
    let used = usage.requested.as_ref().map(counted).unwrap_or_default();
    minus(&used, &victims.fold(Resources::default(), |sum, requests| plus(&sum, &requests)))
}
