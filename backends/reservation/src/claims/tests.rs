//! Claims of many pods at the same time, by one or several replicas, with a paused clock.

use std::ops::Range;

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::*;
use crate::{
    apiserver::{Apiserver, RequestFault},
    store::Choice,
    tests::{Seconds, available, client, owner, replica, slow_client},
};

const STATUS: &str = "PUT /apis/scheduling.extender-gateway.io/v1alpha1/reservations/one/status";

/// A replica's store and writer.
struct Replica {
    store: Arc<Store>,
    writer: ClaimWriter,
}

impl Replica {
    fn new(apiserver: &Apiserver) -> Self {
        Self::with(apiserver, client(apiserver))
    }

    fn with(apiserver: &Apiserver, client: kube::Client) -> Self {
        let seconds = Seconds::default();
        let store = replica(apiserver, &seconds).1.store;
        let objects =
            Objects { store: Arc::clone(&store), cluster: Cluster::new(client), clock: seconds.clock() };
        Self { store, writer: ClaimWriter::new(objects) }
    }

    fn choose(&self, uid: &str) -> Option<Chosen<'_>> {
        match self.store.choose("a", &pod(uid), Seconds::default().now()) {
            Choice::Serves(chosen) => Some(chosen),
            Choice::Taken(_) | Choice::None => None,
        }
    }

    /// The claim of this pod; an error if no Reservation is known to have room.
    async fn claim(&self, uid: &str) -> Result<ClaimKind, ClaimError> {
        let chosen = self.choose(uid).ok_or(ClaimError::NoRoom)?;
        let Claimed { reservation, kind, .. } =
            self.writer.claim(&chosen, &pod(uid), uid, &chosen.part).await?;
        assert!(reservation.room.claim(uid).is_some());
        Ok(kind)
    }

    /// Those of these pods, all at the same time.
    async fn claim_all(&self, uids: &[String]) -> Vec<Result<ClaimKind, ClaimError>> {
        join_all(uids.iter().map(|uid| self.claim(uid))).await
    }
}

fn shared(milli_cpu: i64) -> Apiserver {
    let apiserver = Apiserver::default();
    apiserver.create_reservation(
        "one",
        &json!({"allocateOnce": false, "allocatePolicy": "Restricted"}),
        &available(milli_cpu),
    );
    apiserver.writes();
    apiserver
}

fn pod(uid: &str) -> Asking<'_> {
    let requests = Resources { milli_cpu: 100, ..Resources::default() };
    Asking { uid, namespace: "shop", requests, ..Asking::default() }
}

fn uids(numbers: Range<u32>) -> Vec<String> {
    numbers.map(|number| format!("u{number:03}")).collect()
}

fn owners(apiserver: &Apiserver) -> Vec<String> {
    let owners = apiserver.reservation("one")["status"]["owners"].clone();
    let uid = |owner: &Value| owner["uid"].as_str().unwrap().to_owned();
    owners.as_array().into_iter().flatten().map(uid).collect()
}

#[tokio::test(start_paused = true)]
async fn claims_that_come_together_are_written_together() {
    let apiserver = shared(10_000);
    let replica = Replica::new(&apiserver);
    let all = uids(0..50);
    assert_eq!(replica.claim_all(&all).await, [const { Ok(ClaimKind::New) }; 50]);
    assert_eq!(apiserver.writes(), [STATUS]);
    assert_eq!(owners(&apiserver), all);
    assert_eq!(apiserver.reservation("one")["status"]["allocated"], json!({"cpu": "5"}));
    assert_eq!(replica.claim_all(&all).await, [const { Ok(ClaimKind::Renewed) }; 50]);
    assert_eq!((apiserver.writes().len(), owners(&apiserver).len()), (1, 50));
}

#[tokio::test(start_paused = true)]
async fn two_attempts_of_one_pod_do_not_take_back_the_claim_of_each_other() {
    let apiserver = shared(10_000);
    let all = ["u", "v", "u"].map(str::to_owned);
    let kinds = Replica::new(&apiserver).claim_all(&all).await;
    assert_eq!(kinds, [Ok(ClaimKind::Renewed), Ok(ClaimKind::New), Ok(ClaimKind::Renewed)]);
    assert_eq!(owners(&apiserver), ["u", "v"]);
}

#[tokio::test(start_paused = true)]
async fn the_first_does_not_wait_and_the_next_ones_do() {
    let apiserver = shared(10_000);
    let replica = Replica::new(&apiserver);
    let began = Instant::now();
    replica.claim("first").await.unwrap();
    assert_eq!(began.elapsed(), Duration::ZERO);
    sleep(AT_MOST_EVERY / 2).await;
    let later = async {
        sleep(AT_MOST_EVERY / 4).await;
        replica.claim("third").await
    };
    let (second, third) = tokio::join!(replica.claim("second"), later);
    assert!(second.is_ok() && third.is_ok());
    assert_eq!((began.elapsed(), apiserver.writes().len()), (AT_MOST_EVERY, 2));
    // After a pause there is a first one again.
    sleep(AT_MOST_EVERY * 2).await;
    assert!(replica.writer.shared.pending().is_empty());
    let began = Instant::now();
    replica.claim("fourth").await.unwrap();
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn as_many_are_written_as_there_is_room_for() {
    let apiserver = shared(1_050);
    let replicas = [(); 3].map(|()| Replica::new(&apiserver));
    // Each write of one is a conflict for the others; some are lost before or after their effect.
    for fault in
        [RequestFault::Lost, RequestFault::LostBefore, RequestFault::Refused(409), RequestFault::Lost]
    {
        apiserver.fault(STATUS, fault);
    }
    let groups = [uids(0..30), uids(30..60), uids(60..90)];
    let all = replicas.iter().zip(&groups).map(|(replica, group)| replica.claim_all(group));
    let results = join_all(all).await.into_iter().flatten().collect::<Vec<_>>();
    assert_eq!(results.iter().filter(|result| result.is_ok()).count(), 10);
    let claimed = groups.concat().into_iter().zip(&results).filter(|(_, result)| result.is_ok());
    let mut owners = owners(&apiserver);
    owners.sort();
    assert_eq!(owners, claimed.map(|(uid, _)| uid).collect::<Vec<_>>());
    assert!(results.iter().filter_map(|result| result.as_ref().err()).all(|why| *why == ClaimError::NoRoom));
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_told_to_all_of_the_group() {
    for (fault, expected) in [
        (RequestFault::Refused(403), "its status cannot be written: refused"),
        (
            RequestFault::Meanwhile(Box::new(|apiserver: &Apiserver| apiserver.delete_reservation("one"))),
            "its status cannot be written: not found",
        ),
        (
            RequestFault::Meanwhile(Box::new(|apiserver: &Apiserver| {
                apiserver.edit_reservation("one", |one| one["status"]["nodeName"] = "b".into());
            })),
            "it was deleted",
        ),
        (
            RequestFault::Meanwhile(Box::new(|apiserver: &Apiserver| {
                apiserver.edit_reservation("one", |one| one["metadata"]["uid"] = "later".into());
            })),
            "it was deleted",
        ),
    ] {
        let apiserver = shared(10_000);
        let replica = Replica::new(&apiserver);
        apiserver.fault(STATUS, fault);
        let failed = || Err(ClaimError::Failed(expected.to_owned()));
        assert_eq!(replica.claim_all(&uids(0..2)).await, [failed(), failed()]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_write_that_hangs_holds_up_no_later_claims() {
    let apiserver = shared(10_000);
    let hanging = Replica::with(&apiserver, slow_client(&apiserver, Duration::from_hours(1)));
    let began = Instant::now();
    let failed = Err(ClaimError::Failed(TOO_LATE.to_owned()));
    assert_eq!(hanging.claim("a").await, failed);
    assert_eq!((hanging.claim("b").await, began.elapsed()), (failed, WRITTEN_WITHIN * 2 + AT_MOST_EVERY));
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_call_is_over_gets_nothing() {
    let apiserver = shared(10_000);
    let replica = Replica::new(&apiserver);
    replica.claim("first").await.unwrap();
    assert!(tokio::time::timeout(AT_MOST_EVERY / 2, replica.claim("gone")).await.is_err());
    replica.claim("second").await.unwrap();
    assert_eq!(owners(&apiserver), ["first", "second"]);
}

#[tokio::test(start_paused = true)]
async fn room_that_others_are_about_to_get_is_not_offered() {
    let apiserver = shared(250);
    let replica = Replica::new(&apiserver);
    let used = || replica.store.read().get("one").unwrap().used_percent();
    let (first, second) = (replica.choose("a").unwrap(), replica.choose("b").unwrap());
    // Not "none": it must not be bound without a Reservation that it may still get.
    let third = replica.store.choose("a", &pod("c"), Seconds::default().now());
    assert!(matches!(third, Choice::Taken(name) if name == "one"));
    assert_eq!(used(), 80);
    // Another version arrives, and one of them is written.
    let other = json!([owner("a", "100m")]);
    apiserver.edit_reservation("one", |one| one["status"]["owners"] = other);
    let read = Cluster::new(client(&apiserver)).reservation("one").await.unwrap().unwrap();
    replica.store.learn(read);
    assert!(replica.choose("c").is_none());
    assert_eq!(used(), 80);
    // An attempt of a pod that has its claim takes nothing in addition.
    let again = replica.choose("a").unwrap();
    assert_eq!(used(), 80);
    drop(again);
    drop(second);
    assert!(replica.choose("c").is_some());
    drop(first);
    assert!(replica.store.read().get("one").unwrap().pending.is_empty());
}
