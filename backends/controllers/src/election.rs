//! The rules of the election, without apiserver and clock. Mirrors `tryAcquireOrRenew` of
//! k8s.io/client-go/tools/leaderelection.
//!
//! Clocks of replicas are never compared: a record of another replica is expired when it has not changed for its
//! duration, measured by the local clock from when this replica first saw it. The times in it are for people.

use std::time::Duration;

use k8s_openapi::{
    api::coordination::v1::{Lease, LeaseSpec},
    apimachinery::pkg::apis::meta::v1::MicroTime,
    jiff::Timestamp,
};
use tokio::time::Instant;

use crate::Timing;

/// One replica's view of the election.
#[derive(Debug)]
pub(crate) struct Election {
    identity: String,
    timing: Timing,
    seen: Option<Seen>,
    /// The most transitions that this replica has seen: a lease that is created again has 0.
    most_transitions: Option<i32>,
}

/// The latest record that this replica has seen.
#[derive(Debug)]
struct Seen {
    record: LeaseSpec,
    /// Since when it has been as it is.
    since: Instant,
}

impl Election {
    pub(crate) fn new(identity: impl Into<String>, timing: Timing) -> Self {
        Self { identity: identity.into(), timing, seen: None, most_transitions: None }
    }

    /// What to write to obtain the lease; `None` if another replica holds it. The lease is as read; `None` if it does not
    /// exist.
    pub(crate) fn claim(&mut self, found: Option<&Lease>, now: Instant, time: Timestamp) -> Option<Lease> {
        let Some(lease) = found else {
            self.seen = None;
            return Some(self.held(Lease::default(), self.next_transitions(), time));
        };
        self.see(lease, now);
        if self.holder(now).is_some_and(|holder| holder != self.identity) {
            return None;
        }
        Some(self.held(lease.clone(), self.next_transitions(), time))
    }

    /// Those of a new term. Also if this replica has the lease already: then it held it in an earlier term.
    fn next_transitions(&self) -> i32 {
        self.most_transitions.map_or(0, |most| most.saturating_add(1))
    }

    /// What to write to keep the lease; `None` if this replica no longer holds it.
    pub(crate) fn renewal(&mut self, found: Option<&Lease>, now: Instant, time: Timestamp) -> Option<Lease> {
        self.see(found.unwrap_or(&Lease::default()), now);
        let lease = found.filter(|lease| self.holds(lease))?;
        let transitions = lease.spec.as_ref().map_or(0, transitions);
        Some(self.held(lease.clone(), transitions, time))
    }

    /// What to write so that another replica need not wait until the lease expires; `None` if this one does not hold it.
    pub(crate) fn release(&self, lease: &Lease, time: Timestamp) -> Option<Lease> {
        let mut released = Some(lease.clone()).filter(|lease| self.holds(lease))?;
        let record = released.spec.get_or_insert_default();
        record.holder_identity = Some(String::new());
        record.lease_duration_seconds = Some(1);
        record.renew_time = Some(MicroTime(time));
        record.acquire_time = Some(MicroTime(time));
        Some(released)
    }

    /// A lease that was read or written.
    pub(crate) fn see(&mut self, lease: &Lease, now: Instant) {
        let record = lease.spec.clone().unwrap_or_default();
        self.most_transitions = self.most_transitions.max(Some(transitions(&record)));
        if self.seen.as_ref().is_none_or(|seen| seen.record != record) {
            self.seen = Some(Seen { record, since: now });
        }
    }

    /// The holder of the lease, unless it has expired.
    pub(crate) fn holder(&self, now: Instant) -> Option<&str> {
        let Seen { record, since } = self.seen.as_ref()?;
        let holder = record.holder_identity.as_deref().filter(|holder| !holder.is_empty())?;
        (now < *since + self.duration(record)).then_some(holder)
    }

    fn holds(&self, lease: &Lease) -> bool {
        let holder = lease.spec.as_ref().and_then(|record| record.holder_identity.as_deref());
        holder == Some(&self.identity)
    }

    /// The record's own duration, since its writer renews in time for that.
    fn duration(&self, record: &LeaseSpec) -> Duration {
        let seconds = record.lease_duration_seconds.and_then(|seconds| u64::try_from(seconds).ok());
        seconds.filter(|seconds| *seconds > 0).map_or(self.timing.lease_duration(), Duration::from_secs)
    }

    /// The lease as this replica holds it. Other fields stay; its `resourceVersion` is the precondition of the write.
    fn held(&self, mut lease: Lease, transitions: i32, time: Timestamp) -> Lease {
        let keeps = self.holds(&lease);
        let record = lease.spec.get_or_insert_default();
        if !keeps {
            record.acquire_time = Some(MicroTime(time));
        }
        record.holder_identity = Some(self.identity.clone());
        record.lease_duration_seconds = Some(self.timing.lease_seconds());
        record.lease_transitions = Some(transitions);
        record.renew_time = Some(MicroTime(time));
        lease
    }
}

/// How often the lease was obtained before this time.
pub(crate) fn transitions(record: &LeaseSpec) -> i32 {
    record.lease_transitions.unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Seconds of the local clock.
    fn at(start: Instant, seconds: u64) -> Instant {
        start + Duration::from_secs(seconds)
    }

    fn election(identity: &str) -> Election {
        Election::new(identity, Timing::default())
    }

    /// A time of another clock, which is never compared.
    fn time(second: i64) -> Timestamp {
        Timestamp::from_second(second).unwrap()
    }

    fn lease(holder: &str, transitions: i32, renewed: i64) -> Lease {
        let mut lease = Lease::default();
        lease.metadata.resource_version = Some(format!("{renewed}"));
        lease.metadata.labels = Some([("team".to_owned(), "shop".to_owned())].into());
        lease.spec = Some(LeaseSpec {
            holder_identity: Some(holder.to_owned()),
            lease_duration_seconds: Some(15),
            lease_transitions: Some(transitions),
            renew_time: Some(MicroTime(time(renewed))),
            acquire_time: Some(MicroTime(time(0))),
            ..LeaseSpec::default()
        });
        lease
    }

    fn spec(lease: Option<Lease>) -> LeaseSpec {
        lease.unwrap().spec.unwrap()
    }

    #[test]
    fn a_lease_that_does_not_exist_is_created() {
        let created = election("a").claim(None, Instant::now(), time(9)).unwrap();
        assert_eq!(created.metadata.resource_version, None);
        assert_eq!(
            created.spec,
            Some(LeaseSpec { preferred_holder: None, ..spec(Some(lease("a", 0, 9))) }).map(|mut spec| {
                spec.acquire_time = Some(MicroTime(time(9)));
                spec
            })
        );
    }

    #[test]
    fn a_lease_expires_when_it_has_not_changed_for_its_duration() {
        let (mut follower, start) = (election("b"), Instant::now());
        // The clock of the holder is years ahead, or behind: it makes no difference.
        for renewed in [i64::from(i32::MAX), 1] {
            assert_eq!(follower.claim(Some(&lease("a", 3, renewed)), start, time(0)), None);
        }
        assert_eq!(follower.claim(Some(&lease("a", 3, 1)), at(start, 14), time(0)), None);
        assert_eq!(follower.holder(at(start, 14)), Some("a"));
        assert_eq!(follower.holder(at(start, 15)), None);
        let claim = follower.claim(Some(&lease("a", 3, 1)), at(start, 15), time(70)).unwrap();
        assert_eq!(claim.metadata.resource_version.as_deref(), Some("1"), "the precondition of the write");
        assert!(claim.metadata.labels.is_some(), "other fields stay");
        let claim = spec(Some(claim));
        assert_eq!((claim.holder_identity.as_deref(), claim.lease_transitions), (Some("b"), Some(4)));
        assert_eq!(
            (claim.acquire_time, claim.renew_time),
            (Some(MicroTime(time(70))), Some(MicroTime(time(70))))
        );
    }

    #[test]
    fn a_renewal_by_another_restarts_its_duration() {
        let (mut follower, start) = (election("b"), Instant::now());
        for second in (0..60).step_by(2) {
            let found = lease("a", 0, i64::try_from(second).unwrap());
            assert_eq!(follower.claim(Some(&found), at(start, second), time(0)), None);
        }
        assert!(follower.claim(Some(&lease("a", 0, 58)), at(start, 58 + 15), time(0)).is_some());
    }

    #[test]
    fn the_duration_is_that_of_the_record() {
        let (mut follower, start) = (election("b"), Instant::now());
        let lasting = |seconds: Option<i32>| {
            let mut lease = lease("a", 0, 0);
            lease.spec.as_mut().unwrap().lease_duration_seconds = seconds;
            lease
        };
        for (seconds, valid) in [(Some(60), 59), (Some(1), 0), (None, 14), (Some(-1), 14), (Some(0), 14)] {
            assert_eq!(follower.claim(Some(&lasting(seconds)), start, time(0)), None);
            assert_eq!(follower.holder(at(start, valid)), Some("a"), "{seconds:?}");
            assert_eq!(follower.holder(at(start, valid + 1)), None, "{seconds:?}");
        }
    }

    #[test]
    fn a_released_lease_is_free_at_once() {
        let (holder, mut follower, start) = (election("a"), election("b"), Instant::now());
        let released = holder.release(&lease("a", 3, 1), time(2)).unwrap();
        assert_eq!(released.metadata.resource_version.as_deref(), Some("1"));
        let claim = spec(follower.claim(Some(&released), start, time(3)));
        assert_eq!((claim.holder_identity.as_deref(), claim.lease_transitions), (Some("b"), Some(4)));
        assert_eq!(claim.lease_duration_seconds, Some(15));
        assert_eq!(holder.release(&lease("b", 3, 1), time(2)), None, "it holds nothing");
    }

    #[test]
    fn a_renewal_changes_only_its_time() {
        let mut holder = election("a");
        let renewed = spec(holder.renewal(Some(&lease("a", 3, 1)), Instant::now(), time(7)));
        assert_eq!(renewed, spec(Some(lease("a", 3, 7))));
    }

    #[test]
    fn a_lease_with_another_holder_or_none_is_not_renewed() {
        for found in [Some(lease("b", 4, 1)), Some(lease("", 4, 1)), Some(Lease::default()), None] {
            let mut holder = election("a");
            assert_eq!(holder.renewal(found.as_ref(), Instant::now(), time(7)), None, "{found:?}");
        }
    }

    #[test]
    fn a_new_term_has_more_transitions_whoever_held_the_lease() {
        for holder in ["a", "b", ""] {
            let (mut claiming, start) = (election("a"), Instant::now());
            claiming.see(&lease(holder, 3, 1), start);
            let claim = claiming.claim(Some(&lease(holder, 3, 1)), at(start, 15), time(7));
            assert_eq!(spec(claim).lease_transitions, Some(4), "{holder:?}");
        }
    }

    #[test]
    fn transitions_that_are_missing_are_none() {
        let mut released = lease("", 0, 1);
        released.spec.as_mut().unwrap().lease_transitions = None;
        let claim = election("a").claim(Some(&released), Instant::now(), time(7));
        assert_eq!(spec(claim).lease_transitions, Some(1));
    }

    #[test]
    fn transitions_do_not_fall_behind_those_of_a_lease_that_was_replaced() {
        let (mut follower, start) = (election("b"), Instant::now());
        assert_eq!(follower.claim(Some(&lease("a", 7, 1)), start, time(0)), None);
        assert_eq!(spec(follower.claim(Some(&lease("", 0, 2)), start, time(0))).lease_transitions, Some(8));
    }

    #[test]
    fn transitions_go_on_after_a_lease_was_deleted() {
        let (mut follower, start) = (election("b"), Instant::now());
        assert_eq!(follower.claim(Some(&lease("a", 3, 1)), start, time(0)), None);
        assert_eq!(spec(follower.claim(None, start, time(0))).lease_transitions, Some(4));
    }
}
