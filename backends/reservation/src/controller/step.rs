//! What to do for a Reservation, as a function of it, the pods, the nodes and the time.

use std::time::Duration;

use extender_policy_sdk::Resources;
use jiff::{SignedDuration, Timestamp};

use super::{
    observed::{Nodes, SeenPod, State},
    waiting::{Waiting, tell_of_owners},
};
use crate::{
    bind::{UNBOUND_LIMIT, with_room},
    cluster::PodRef,
    object::{NewCondition, Reservation, Status},
    room::{Claim, Phase},
};

/// The most pods that are deleted in a round for one Reservation, and of those that no longer exist together: anybody may
/// create pods that look like placeholders.
pub(super) const DELETES_A_ROUND: usize = 16;

/// A pod that is seen on the node of a shared Reservation is confirmed this long after its claim: one write for all that come
/// meanwhile. Until then its room counts twice for other pods.
const CONFIRM_AFTER: Duration = Duration::from_secs(3);

/// The most claims of a Reservation that are removed in a round of which the pod is read.
const READ_A_ROUND: usize = 16;

/// How long one that is over, and has no owners, stays: from its end, or from that of its last owner. As in Koordinator.
const KEPT_FOR: SignedDuration = SignedDuration::from_hours(24);

/// What is known of the cluster.
#[derive(Clone, Copy, Debug)]
pub(super) struct Observed<'o> {
    /// Those that concern the Reservation, at least.
    pub(super) pods: &'o [SeenPod],
    pub(super) nodes: &'o Nodes,
    /// Pods that wait; `None`: they are not looked at this time.
    pub(super) waiting: Option<&'o [Waiting<'o>]>,
}

impl Observed<'_> {
    fn pod(&self, uid: &str) -> Option<&SeenPod> {
        self.pods.iter().find(|seen| seen.pod.uid == uid && !uid.is_empty())
    }
}

/// One thing to do.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Action {
    /// Create a placeholder pod, and record it.
    CreatePlaceholder,
    /// Let kube-scheduler schedule the recorded placeholder.
    OpenGate(PodRef),
    DeletePod(PodRef),
    /// Write this status.
    Write(Status),
    /// Write this status, without claims of these pods, if each of them is where its claim does not count.
    RemoveUnbound(Status, Vec<Unbound>),
    /// Write this status if the node is really gone.
    LoseNode(Status),
    /// Delete the Reservation, which has been over for long.
    Collect,
}

/// A pod whose claim is removed unless the apiserver knows more of it.
#[derive(Clone, Debug, PartialEq)]
pub(super) enum Unbound {
    /// It has had its time to be bound: it is on no node.
    Overdue(PodRef),
    /// It was deleted, or the watch does not show it yet: it does not exist.
    Unknown(PodRef),
}

/// What to do now, in this order. At most one of the actions writes the Reservation, as the last one.
pub(super) fn step(reservation: &Reservation, observed: &Observed<'_>, now: Timestamp) -> Vec<Action> {
    let pending = reservation.status.phase == Phase::Pending;
    let mut actions = unneeded(reservation, observed, pending);
    if is_old(reservation, now) {
        actions.push(Action::Collect);
        return actions;
    }
    actions.extend(if pending { wait(reservation, observed, now) } else { keep(reservation, observed, now) });
    actions
}

/// Whether it has been over for long, and no pod has a part of it.
fn is_old(reservation: &Reservation, now: Timestamp) -> bool {
    let Reservation { status, room, .. } = reservation;
    let since = status.changed_at().filter(|_| status.phase.is_over() && room.claims().is_empty());
    since.is_some_and(|since| now.duration_since(since) >= KEPT_FOR)
}

/// The status of a Reservation whose spec, or placeholder, cannot be used.
pub(crate) fn invalid(reservation: &Reservation, why: &str, now: Timestamp) -> Status {
    failed(reservation, "Invalid", why, now)
}

fn failed(reservation: &Reservation, reason: &str, message: &str, now: Timestamp) -> Status {
    let mut status = reservation.status.clone();
    status.phase = Phase::Failed;
    status.expect_no_owners();
    status.set_condition(NewCondition { kind: "Ready", holds: false, reason, message }, now);
    status
}

/// Placeholders that are not recorded, or whose Reservation no longer waits.
fn unneeded(reservation: &Reservation, observed: &Observed<'_>, pending: bool) -> Vec<Action> {
    let own = observed.pods.iter().filter(|seen| seen.reservation.as_deref() == Some(&reservation.uid));
    let recorded = |seen: &&SeenPod| pending && seen.pod.uid == reservation.status.placeholder;
    // One that is not recorded and not gated was not created by the controller: it is left to its user.
    let ours = |seen: &&SeenPod| seen.gated || seen.pod.uid == reservation.status.placeholder;
    let unneeded = own.filter(|seen| !seen.leaving && !recorded(seen) && ours(seen));
    unneeded.take(DELETES_A_ROUND).map(|seen| Action::DeletePod(seen.pod.clone())).collect()
}

/// The next action for one without a node.
fn wait(reservation: &Reservation, observed: &Observed<'_>, now: Timestamp) -> Option<Action> {
    if let Some(over) = over(reservation, now) {
        return Some(Action::Write(over));
    }
    let Some(placeholder) = observed.pod(&reservation.status.placeholder) else {
        return Some(Action::CreatePlaceholder);
    };
    if let Some(changed) = changed(reservation, placeholder) {
        return Some(Action::Write(invalid(reservation, &changed, now)));
    }
    match &placeholder.state {
        State::Waiting { .. } if placeholder.gated => Some(Action::OpenGate(placeholder.pod.clone())),
        State::Waiting { reason, message } => {
            unscheduled(reservation, (reason, message), now).map(Action::Write)
        }
        State::On(_) | State::Ended => {
            let message = "the placeholder pod was bound to a node; check that this policy is a binder of the gateway, \
                           and that kube-scheduler calls the gateway to bind";
            Some(Action::Write(failed(reservation, "PlaceholderBound", message, now)))
        }
    }
}

/// What somebody has changed of a placeholder that waits.
fn changed(reservation: &Reservation, placeholder: &SeenPod) -> Option<String> {
    let is_waiting = matches!(placeholder.state, State::Waiting { .. });
    let (recorded, now) = (reservation.status.recorded()?, placeholder.recorded.as_ref()?);
    recorded.check(now, &Resources::default()).err().filter(|_| is_waiting)
}

/// The status of one that is over.
fn over(reservation: &Reservation, now: Timestamp) -> Option<Status> {
    match &reservation.terms {
        Err(wrong) => Some(invalid(reservation, wrong, now)),
        Ok(terms) if terms.expired(now) => Some(failed(reservation, "Expired", "its time is over", now)),
        Ok(_) => None,
    }
}

/// Tells why kube-scheduler has found no node yet.
fn unscheduled(reservation: &Reservation, why: (&str, &str), now: Timestamp) -> Option<Status> {
    let (reason, message) = why;
    if reason.is_empty() {
        return None;
    }
    let mut status = reservation.status.clone();
    status.set_condition(NewCondition { kind: "Scheduled", holds: false, reason, message }, now);
    (status != reservation.status).then_some(status)
}

/// The next action for one that has, or had, a node: claims are removed or confirmed, and it may be over.
fn keep(reservation: &Reservation, observed: &Observed<'_>, now: Timestamp) -> Option<Action> {
    let node = &reservation.status.node_name;
    let (mut must_write, mut unbound) = (false, Vec::new());
    let room = reservation.room.retaining(|claim| {
        let kept = match kept(claim, node, observed, now) {
            ClaimState::Overdue | ClaimState::Unknown if unbound.len() == READ_A_ROUND => ClaimState::Unbound,
            kept => kept,
        };
        match kept {
            ClaimState::Overdue => unbound.push(Unbound::Overdue(pod_of(claim))),
            ClaimState::Unknown => unbound.push(Unbound::Unknown(pod_of(claim))),
            ClaimState::No | ClaimState::Unbound | ClaimState::Bound => {}
        }
        let is_new = kept == ClaimState::Bound && !claim.bound;
        claim.bound |= is_new;
        let is_due = age(claim, now) >= CONFIRM_AFTER || reservation.is_once();
        must_write |= kept.is_removed() || is_new && is_due;
        !kept.is_removed()
    });
    let write = |status| {
        if unbound.is_empty() { Action::Write(status) } else { Action::RemoveUnbound(status, unbound) }
    };
    let mut next = reservation.clone();
    if room != reservation.room {
        next.status = with_room(reservation, &room, now);
        next.room = room;
    }
    let claims = next.room.claims();
    if let (Phase::Succeeded, [had_it], []) = (next.status.phase, reservation.room.claims(), claims) {
        next.status.remember(had_it);
    }
    if next.status.phase.is_over() && next.room.claims().is_empty() && must_write {
        let (reason, message) = ("OwnersEnded", "");
        next.status.set_condition(NewCondition { kind: "InUse", holds: false, reason, message }, now);
    }
    must_write |= next.status.phase.is_over() && !next.keeps_all(now) && next.status.expect_no_owners();
    if next.status.phase == Phase::Available {
        if let Some(over) = over(&next, now) {
            return Some(write(over));
        }
        if !observed.nodes.contain(node) {
            let message = format!("node {node} no longer exists");
            return Some(Action::LoseNode(failed(&next, "NodeLost", &message, now)));
        }
        must_write |= tell_of_node(&mut next.status, observed.nodes, now);
        must_write |= observed.waiting.is_some_and(|waiting| tell_of_owners(&mut next, waiting, now));
    }
    must_write.then(|| write(next.status))
}

/// Tells that owners cannot use the room because the node is cordoned, or that they can again. Returns whether that is new.
fn tell_of_node(status: &mut Status, nodes: &Nodes, now: Timestamp) -> bool {
    let (kind, is_cordoned) = ("NodeUsable", nodes.is_cordoned(&status.node_name));
    let message =
        if is_cordoned { "the node is cordoned: owners go elsewhere, without the room" } else { "" };
    let reason = if is_cordoned { "NodeUnschedulable" } else { "NodeSchedulable" };
    status.flip(NewCondition { kind, holds: !is_cordoned, reason, message }, SignedDuration::ZERO, now)
}

/// Whether a claim counts any longer.
#[derive(Clone, Copy, PartialEq, Eq)]
enum ClaimState {
    No,
    /// Its pod should be bound by now, and as far as is known it is not.
    Overdue,
    /// Its pod was deleted, or is not known yet.
    Unknown,
    /// Its pod is not bound yet.
    Unbound,
    Bound,
}

impl ClaimState {
    fn is_removed(self) -> bool {
        matches!(self, Self::No | Self::Overdue | Self::Unknown)
    }
}

fn kept(claim: &Claim, node: &str, observed: &Observed<'_>, now: Timestamp) -> ClaimState {
    let is_recent = age(claim, now) <= UNBOUND_LIMIT || now < claim.since;
    match observed.pod(&claim.uid).map(|seen| &seen.state) {
        Some(State::On(at)) if at == node => ClaimState::Bound,
        // A watch that is behind does not know the pod, or its node, yet.
        Some(State::Waiting { .. }) | None if !claim.bound && !is_recent => ClaimState::Overdue,
        Some(State::Waiting { .. }) if !claim.bound => ClaimState::Unbound,
        // kube-scheduler saw the pod before it was claimed for.
        None if !claim.bound => ClaimState::Unknown,
        Some(_) | None => ClaimState::No,
    }
}

fn pod_of(claim: &Claim) -> PodRef {
    let [namespace, name, uid] = [&claim.namespace, &claim.name, &claim.uid].map(Clone::clone);
    PodRef { namespace, name, uid }
}

/// How far the time of a claim is away. The clock of the replica that recorded it may be ahead.
fn age(claim: &Claim, now: Timestamp) -> Duration {
    now.duration_since(claim.since).unsigned_abs()
}

#[cfg(test)]
mod tests;
