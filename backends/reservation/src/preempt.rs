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

#[cfg(test)]
mod tests {
    use extender_policy_sdk::{
        Backend, NodeUsage, Resources,
        testing::{self, TestCandidate, TestNode, TestPod},
    };
    use serde_json::json;

    use crate::{
        apiserver::Apiserver,
        tests::{Seconds, available, replica},
    };

    fn cpu(milli_cpu: i64) -> Resources {
        Resources { milli_cpu, pods: 1, ..Resources::default() }
    }

    fn pod(namespace: &str, milli_cpu: i64) -> TestPod {
        TestPod::new(namespace).requests(cpu(milli_cpu))
    }

    /// A node of 8 CPUs of which so many are used, and the victim with this UID, which requests 4 of them.
    fn candidate(used: i64, victim: &str) -> TestCandidate {
        let usage = NodeUsage { requested: Some(cpu(used)), nonzero: None };
        let node = TestNode::new("a").allocatable(cpu(8_000)).usage(usage);
        TestCandidate::new(node).victim(victim, pod("any", 4_000))
    }

    /// A shared Reservation of 4 CPUs, which pod `owner` has if it is given as bound.
    fn evicts(owner: Option<bool>, preemptor: &TestPod, candidate: TestCandidate) -> bool {
        let (apiserver, seconds) = (Apiserver::default(), Seconds::default());
        let mut status = available(4_000);
        let owners = owner.into_iter().map(|bound| {
            json!({
                "namespace": "shop", "name": "owner", "uid": "owner", "requests": {"cpu": "4"},
                "allocatedAt": "2026-01-01T00:00:00Z", "bound": bound,
            })
        });
        status["owners"] = owners.collect();
        apiserver.create_reservation("one", &json!({"allocateOnce": false, "ttl": "1h"}), &status);
        let backend = Backend::from(replica(&apiserver, &seconds).0);
        !testing::preempt(backend, preemptor, &[candidate]).unwrap().is_empty()
    }

    #[tokio::test]
    async fn an_owner_is_not_evicted_for_a_pod_that_may_not_use_its_room() {
        // The other half of the node is used, too.
        assert!(!evicts(Some(true), &pod("mall", 4_000), candidate(8_000, "owner")));
        assert!(evicts(Some(true), &pod("shop", 4_000), candidate(8_000, "owner")), "another owner");
        assert!(evicts(Some(true), &pod("mall", 4_000), candidate(8_000, "other")), "another victim");
        assert!(!evicts(Some(true), &pod("mall", 5_000), candidate(8_000, "other")));
        // The other half is free.
        assert!(evicts(Some(true), &pod("mall", 4_000), candidate(4_000, "owner")));
        assert!(!evicts(Some(true), &pod("mall", 5_000), candidate(4_000, "owner")));
        assert!(
            evicts(Some(true), &pod("shop", 8_000), candidate(4_000, "owner")),
            "with the rest of the node"
        );
    }

    #[tokio::test]
    async fn room_that_is_not_used_stays_reserved() {
        for owner in [None, Some(false)] {
            assert!(!evicts(owner, &pod("mall", 5_000), candidate(4_000, "other")), "{owner:?}");
            assert!(evicts(owner, &pod("mall", 4_000), candidate(4_000, "other")), "{owner:?}");
        }
    }

    #[tokio::test]
    async fn without_usage_no_pod_is_evicted_where_room_is_reserved() {
        let unknown = |name| TestCandidate::new(TestNode::new(name)).victim("other", pod("any", 1));
        assert!(!evicts(None, &pod("mall", 1), unknown("a")));
        assert!(evicts(None, &pod("mall", 1), unknown("b")), "nothing is reserved there");
    }
}
