//! Claims of many pods at the same time, by one or several replicas, with a paused clock.

use futures_util::future::join_all;
use serde_json::{Value, json};

use super::*;
use crate::reservation::{
    apiserver::{Apiserver, Fault},
    tests::{Seconds, available, client, replica},
};

const STATUS: &str = "PUT /apis/scheduling.extender-gateway.io/v1alpha1/reservations/one/status";

/// What a replica uses, and its recorder.
fn recorder(apiserver: &Apiserver) -> (Arc<Store>, Recorder) {
    let seconds = Seconds::default();
    let store = replica(apiserver, &seconds).1.store;
    let cluster = Cluster::new(client(apiserver));
    let recorder = Recorder::new(Objects { store: Arc::clone(&store), cluster, clock: seconds.clock() });
    (store, recorder)
}

fn shared(milli_cpu: i64) -> Apiserver {
    let apiserver = Apiserver::default();
    apiserver.create_reservation("one", &json!({"allocateOnce": false}), &available(milli_cpu));
    apiserver.writes();
    apiserver
}

fn pod(uid: &str) -> Asking<'_> {
    let requests = Resources { milli_cpu: 100, ..Resources::default() };
    Asking { uid, namespace: "shop", controller: None, labels: [].into(), requests }
}

fn uids(numbers: std::ops::Range<u32>) -> Vec<String> {
    numbers.map(|number| format!("u{number:03}")).collect()
}

/// What became of each of these pods, all at the same time.
async fn record(recorder: &Recorder, reservation: &Reservation, uids: &[String]) -> Vec<Option<Record>> {
    let all = uids.iter().map(async |uid| match recorder.record(reservation, &pod(uid), uid).await {
        Ok(Recorded { reservation, record, .. }) => {
            assert!(reservation.room.claim(uid).is_some());
            Some(record)
        }
        Err(why) => {
            assert_eq!(why, Unrecorded::NoRoom);
            None
        }
    });
    join_all(all).await
}

fn owners(apiserver: &Apiserver) -> Vec<String> {
    let owners = apiserver.reservation("one")["status"]["owners"].clone();
    let uid = |owner: &Value| owner["uid"].as_str().unwrap().to_owned();
    owners.as_array().into_iter().flatten().map(uid).collect()
}

#[tokio::test(start_paused = true)]
async fn pods_that_come_together_are_written_together() {
    let apiserver = shared(10_000);
    let (store, recorder) = recorder(&apiserver);
    let one = store.read().get("one").unwrap().clone();
    let all = uids(0..50);
    assert_eq!(record(&recorder, &one, &all).await, [Some(Record::New); 50]);
    assert_eq!(apiserver.writes(), [STATUS]);
    assert_eq!(owners(&apiserver), all);
    // Again: they are renewed.
    assert_eq!(record(&recorder, &one, &all).await, [Some(Record::Renewed); 50]);
    assert_eq!((apiserver.writes().len(), owners(&apiserver).len()), (1, 50));
}

#[tokio::test(start_paused = true)]
async fn the_first_does_not_wait_and_the_next_ones_do() {
    let apiserver = shared(10_000);
    let (store, recorder) = recorder(&apiserver);
    let one = store.read().get("one").unwrap().clone();
    let began = Instant::now();
    record(&recorder, &one, &uids(0..1)).await;
    assert_eq!(began.elapsed(), Duration::ZERO);
    sleep(AT_MOST_EVERY / 2).await;
    let (second, third) = (uids(1..2), uids(2..3));
    let later = async {
        sleep(AT_MOST_EVERY / 4).await;
        record(&recorder, &one, &third).await
    };
    tokio::join!(record(&recorder, &one, &second), later);
    assert_eq!((began.elapsed(), apiserver.writes().len()), (AT_MOST_EVERY, 2));
    // After a pause there is a first one again.
    sleep(AT_MOST_EVERY * 2).await;
    assert!(recorder.shared.waiting().is_empty());
    let began = Instant::now();
    record(&recorder, &one, &uids(3..4)).await;
    assert_eq!(began.elapsed(), Duration::ZERO);
}

#[tokio::test(start_paused = true)]
async fn as_many_are_recorded_as_there_is_room_for() {
    let apiserver = shared(1_050);
    let recorders = [(); 3].map(|()| recorder(&apiserver));
    let one = recorders[0].0.read().get("one").unwrap().clone();
    // Each write of one is a conflict for the others; some are lost before or after their effect.
    for fault in [Fault::Lost, Fault::LostBefore, Fault::Refused(409), Fault::Lost] {
        apiserver.fault(STATUS, fault);
    }
    let groups = [uids(0..30), uids(30..60), uids(60..90)];
    let all = recorders.iter().zip(&groups).map(|((_, recorder), group)| record(recorder, &one, group));
    let results = join_all(all).await.concat();
    assert_eq!(results.iter().flatten().count(), 10);
    let recorded = groups.concat().into_iter().zip(results).filter(|(_, record)| record.is_some());
    let mut owners = owners(&apiserver);
    owners.sort();
    assert_eq!(owners, recorded.map(|(uid, _)| uid).collect::<Vec<_>>());
}

#[tokio::test(start_paused = true)]
async fn a_failure_is_told_to_all_of_the_group() {
    for (fault, expected) in [
        (Fault::Refused(403), "its status cannot be written: refused"),
        (
            Fault::Meanwhile(Box::new(|apiserver: &Apiserver| apiserver.delete_reservation("one"))),
            "its status cannot be written: not found",
        ),
        (
            Fault::Meanwhile(Box::new(|apiserver: &Apiserver| {
                apiserver.edit_reservation("one", |one| one["status"]["nodeName"] = "b".into());
            })),
            "it was deleted",
        ),
    ] {
        let apiserver = shared(10_000);
        let (store, recorder) = recorder(&apiserver);
        let one = store.read().get("one").unwrap().clone();
        apiserver.fault(STATUS, fault);
        let both = ["a", "b"].map(async |uid| recorder.record(&one, &pod(uid), uid).await.unwrap_err());
        let failed = || Unrecorded::Failed(expected.to_owned());
        assert_eq!(join_all(both).await, [failed(), failed()]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_pod_whose_call_is_over_gets_nothing() {
    let apiserver = shared(10_000);
    let (store, recorder) = recorder(&apiserver);
    let one = store.read().get("one").unwrap().clone();
    record(&recorder, &one, &uids(0..1)).await;
    let gone = pod("gone");
    let over = tokio::time::timeout(AT_MOST_EVERY / 2, recorder.record(&one, &gone, "gone"));
    assert!(over.await.is_err());
    record(&recorder, &one, &uids(1..2)).await;
    assert_eq!(owners(&apiserver), uids(0..2));
}

#[tokio::test(start_paused = true)]
async fn room_that_others_are_about_to_get_is_not_offered() {
    let apiserver = shared(250);
    let (store, _) = recorder(&apiserver);
    let now = Seconds::default().now();
    let choose = |uid| store.choose("a", &pod(uid), now);
    let (first, second) = (choose("a").unwrap(), choose("b").unwrap());
    assert!(choose("c").is_none());
    assert_eq!(store.read().get("one").unwrap().used_percent(), 80);
    // Another version arrives, and one of them is recorded.
    let other = json!([{
        "namespace": "shop", "name": "a", "uid": "a", "requests": {"cpu": "100m"}, "allocatedAt": "2026-01-01T00:00:00Z",
    }]);
    apiserver.edit_reservation("one", |one| one["status"]["owners"] = other);
    let read = Cluster::new(client(&apiserver)).reservation("one").await.unwrap().unwrap();
    store.learn(read);
    assert!(choose("c").is_none());
    drop(second);
    assert!(choose("c").is_some());
    drop(first);
    assert!(store.read().get("one").unwrap().pending.is_empty());
}
