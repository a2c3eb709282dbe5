//! Binds of owners and placeholders by one or two replicas, with faults of the apiserver in between.

use extender_policy_sdk::{
    Backend, Resources,
    testing::{self, PodFacts, TestPod},
};
use serde_json::{Value, json};

use super::*;
use crate::{
    Reservations,
    apiserver::{Apiserver, RequestFault},
    tests::{Seconds, available, controlling, replica, replica_with, slow_client},
};

const BINDING: &str = "POST /api/v1/namespaces/shop/pods/pod/binding";
const STATUS: &str = "PUT /apis/scheduling.extender-gateway.io/v1alpha1/reservations/one/status";
/// The first one looks who the pod is, later ones where it is.
const GET: &str = "GET /api/v1/namespaces/shop/pods/pod";
const DELETION: &str = "DELETE /api/v1/namespaces/shop/pods/pod";

/// An apiserver with the pod `pod` and a clock.
fn world() -> (Apiserver, Seconds) {
    let apiserver = Apiserver::default();
    // The testing helpers bind namespace/pod with UID uid.
    apiserver.create_pod("pod");
    apiserver.edit_pod("shop/pod", |pod| pod["metadata"]["uid"] = "uid".into());
    apiserver.writes();
    (apiserver, Seconds::default())
}

fn pod(milli_cpu: i64) -> TestPod {
    TestPod::new("shop").requests(Resources { milli_cpu, pods: 1, ..Resources::default() })
}

/// The placeholder of this Reservation.
fn placeholder(reservation: &str) -> TestPod {
    let requests = Some(Resources { milli_cpu: 750, pods: 1, ..Resources::default() });
    PodFacts {
        namespace: "shop".into(),
        owner: Some(controlling(reservation)),
        requests,
        ..PodFacts::default()
    }
    .into()
}

/// Why the pod is not bound, as an error.
fn said(answer: Result<Bind, testing::NoAnswer>) -> Result<Bind, String> {
    match answer.map_err(|error| error.to_string())? {
        Bind::NotBound(why) => Err(why),
        bind => Ok(bind),
    }
}

async fn bind(policy: Reservations, pod: &TestPod) -> Result<Bind, String> {
    said(testing::bind(Backend::from(policy), pod, "a").await)
}

/// UIDs of the status' owners.
fn owners(apiserver: &Apiserver, reservation: &str) -> Vec<String> {
    let owners = apiserver.reservation(reservation)["status"]["owners"].clone();
    let uid = |owner: &Value| owner["uid"].as_str().unwrap().to_owned();
    owners.as_array().into_iter().flatten().map(uid).collect()
}

fn phase(apiserver: &Apiserver, reservation: &str) -> String {
    apiserver.reservation(reservation)["status"]["phase"].as_str().unwrap().to_owned()
}

fn node(apiserver: &Apiserver) -> Value {
    apiserver.pods()["shop/pod"]["spec"]["nodeName"].clone()
}

#[tokio::test]
async fn an_owner_is_recorded_and_then_bound() {
    let (apiserver, seconds) = world();
    apiserver.create_reservation("one", &json!({}), &available(500));
    seconds.set(7);
    let (policy, upkeep) = replica(&apiserver, &seconds);
    assert_eq!(bind(policy, &pod(300)).await, Ok(Bind::Bound));
    assert_eq!(apiserver.writes(), [STATUS, BINDING], "first the record");
    let status = apiserver.reservation("one")["status"].clone();
    let expected = json!([{
        "namespace": "shop", "name": "pod", "uid": "uid", "requests": {"cpu": "300m"},
        "allocatedAt": "2026-01-01T00:00:07Z", "bound": false,
    }]);
    assert_eq!((&status["phase"], &status["owners"]), (&json!("Succeeded"), &expected));
    assert_eq!((&status["allocated"], node(&apiserver)), (&json!({"cpu": "300m"}), json!("a")));
    assert_eq!(status["conditions"][0]["reason"], "Allocated");
    let known = upkeep.store.read().get("one").unwrap().status.phase;
    assert_eq!(known, Phase::Succeeded, "known before the watch tells it");
}

#[tokio::test]
async fn a_pod_without_a_reservation_is_left_to_the_next_binder() {
    for (spec, status, pod) in [
        (json!({"allocatePolicy": "Restricted"}), available(500), pod(501)),
        (json!({}), available(500), TestPod::new("mall")),
        (json!({"ttl": "0"}), available(500), pod(1)),
        (json!({"owners": []}), available(500), pod(1)),
        (json!({}), json!({"phase": "Available", "nodeName": "b", "allocatable": {"cpu": "1"}}), pod(1)),
        (json!({}), json!({"phase": "Failed", "nodeName": "a", "allocatable": {"cpu": "1"}}), pod(1)),
    ] {
        let (apiserver, seconds) = world();
        apiserver.create_reservation("one", &spec, &status);
        let bound = bind(replica(&apiserver, &seconds).0, &pod).await.unwrap();
        assert!(matches!(bound, Bind::Declined(_)), "{spec} {status}");
        assert_eq!(apiserver.writes(), [""; 0]);
    }
}

#[tokio::test]
async fn a_repetition_binds_without_allocating_again() {
    let (apiserver, seconds) = world();
    apiserver.create_reservation("one", &json!({"allocateOnce": false}), &available(500));
    let (first, _) = replica(&apiserver, &seconds);
    // The process ends between the record and the Binding.
    apiserver.fault(BINDING, RequestFault::LostBefore);
    let error = bind(first, &pod(300)).await.unwrap_err();
    assert!(error.starts_with("cannot create the Binding: lost"), "{error}");
    assert_eq!((owners(&apiserver, "one"), node(&apiserver)), (vec!["uid".to_owned()], Value::Null));
    for at in [20, 40] {
        seconds.set(at);
        assert_eq!(bind(replica(&apiserver, &seconds).0, &pod(300)).await, Ok(Bind::Bound));
        let status = apiserver.reservation("one")["status"].clone();
        assert_eq!((&status["allocated"], owners(&apiserver, "one").len()), (&json!({"cpu": "300m"}), 1));
        assert_eq!(status["owners"][0]["allocatedAt"], format!("2026-01-01T00:00:{at}Z"), "it is renewed");
    }
}

#[tokio::test]
async fn a_lost_answer_to_the_binding_is_bound() {
    let (apiserver, seconds) = world();
    apiserver.create_reservation("one", &json!({}), &available(500));
    apiserver.fault(BINDING, RequestFault::Lost);
    assert_eq!(bind(replica(&apiserver, &seconds).0, &pod(300)).await, Ok(Bind::Bound));
    assert_eq!(owners(&apiserver, "one"), ["uid"]);
}

#[tokio::test]
async fn what_was_certainly_not_bound_is_taken_back() {
    let gone = |apiserver: &Apiserver| apiserver.delete_pod("shop/pod");
    let replaced = |apiserver: &Apiserver| {
        apiserver.edit_pod("shop/pod", |pod| pod["metadata"]["uid"] = "later".into());
    };
    let elsewhere = |apiserver: &Apiserver| {
        apiserver.edit_pod("shop/pod", |pod| pod["spec"]["nodeName"] = "b".into());
    };
    let events: [fn(&Apiserver); 3] = [gone, replaced, elsewhere];
    for event in events {
        let (apiserver, seconds) = world();
        apiserver.create_reservation("one", &json!({}), &available(500));
        apiserver.fault(BINDING, RequestFault::Meanwhile(Box::new(event)));
        bind(replica(&apiserver, &seconds).0, &pod(300)).await.unwrap_err();
        assert_eq!((owners(&apiserver, "one").len(), &*phase(&apiserver, "one")), (0, "Available"));
    }
    let (apiserver, seconds) = world();
    apiserver.create_reservation("one", &json!({}), &available(500));
    apiserver.fault(BINDING, RequestFault::Refused(403));
    // With a conflict in between.
    apiserver.fault(GET, RequestFault::Meanwhile(Box::new(|_| {})));
    apiserver.fault(
        GET,
        RequestFault::Meanwhile(Box::new(|apiserver| {
            apiserver.edit_reservation("one", |one| one["metadata"]["labels"] = json!({"a": "b"}));
        })),
    );
    assert_eq!(
        bind(replica(&apiserver, &seconds).0, &pod(300)).await.unwrap_err(),
        "cannot create the Binding: refused"
    );
    assert_eq!((owners(&apiserver, "one").len(), &*phase(&apiserver, "one")), (0, "Available"));
}

#[tokio::test]
async fn a_pod_that_is_bound_already_is_bound() {
    let (apiserver, seconds) = world();
    apiserver.create_reservation("one", &json!({}), &available(500));
    apiserver.edit_pod("shop/pod", |pod| pod["spec"]["nodeName"] = "a".into());
    assert_eq!(bind(replica(&apiserver, &seconds).0, &pod(300)).await, Ok(Bind::Bound));
    assert_eq!(owners(&apiserver, "one"), ["uid"], "another replica may have bound it with the same record");
}

#[tokio::test]
async fn what_another_attempt_has_renewed_is_not_taken_back() {
    let (apiserver, seconds) = world();
    apiserver.create_reservation("one", &json!({}), &available(500));
    apiserver.fault(BINDING, RequestFault::Refused(403));
    apiserver.fault(GET, RequestFault::Meanwhile(Box::new(|_| {})));
    apiserver.fault(
        GET,
        RequestFault::Meanwhile(Box::new(|apiserver| {
            apiserver.edit_reservation("one", |one| {
                one["status"]["owners"][0]["allocatedAt"] = "2026-01-01T00:00:00.5Z".into();
            });
        })),
    );
    bind(replica(&apiserver, &seconds).0, &pod(300)).await.unwrap_err();
    assert_eq!(owners(&apiserver, "one"), ["uid"]);
}

#[tokio::test]
async fn what_is_unknown_is_left_to_the_controller() {
    let (apiserver, seconds) = world();
    apiserver.create_reservation("one", &json!({}), &available(500));
    apiserver.fault(BINDING, RequestFault::LostBefore);
    apiserver.fault(GET, RequestFault::Meanwhile(Box::new(|_| {})));
    apiserver.fault(GET, RequestFault::Refused(500));
    let error = bind(replica(&apiserver, &seconds).0, &pod(300)).await.unwrap_err();
    assert!(error.contains("and then cannot read the pod"), "{error}");
    assert_eq!(owners(&apiserver, "one"), ["uid"]);
}

#[tokio::test]
async fn of_two_replicas_one_gets_the_slot() {
    let (apiserver, seconds) = world();
    apiserver.create_reservation("one", &json!({}), &available(500));
    // Both know the same version.
    let [first, second] = [(); 2].map(|()| replica(&apiserver, &seconds).0);
    assert_eq!(bind(first, &pod(300)).await, Ok(Bind::Bound));
    apiserver.create_pod("pod");
    apiserver.edit_pod("shop/pod", |pod| pod["metadata"]["uid"] = "uid".into());
    apiserver.edit_reservation("one", |one| one["status"]["owners"][0]["uid"] = "other".into());
    apiserver.writes();
    assert_eq!(
        bind(second, &pod(300)).await.unwrap_err(),
        "reservation one: it has no room left for the pod"
    );
    assert_eq!(apiserver.writes(), [STATUS], "a conflict, and no Binding");
    assert_eq!(node(&apiserver), Value::Null);
}

#[tokio::test]
async fn conflicts_end_after_some_writes() {
    let (apiserver, seconds) = world();
    apiserver.create_reservation("one", &json!({}), &available(500));
    for _ in 0..MAX_WRITES {
        apiserver.fault(STATUS, RequestFault::Refused(409));
    }
    let error = bind(replica(&apiserver, &seconds).0, &pod(300)).await.unwrap_err();
    assert_eq!(error, "reservation one: its status was changed 16 times meanwhile");
    assert_eq!((apiserver.writes().len(), node(&apiserver)), (0, Value::Null));
}

#[tokio::test]
async fn a_write_with_a_lost_answer_is_found() {
    for (fault, writes) in [(RequestFault::Lost, 2), (RequestFault::LostBefore, 1)] {
        let (apiserver, seconds) = world();
        apiserver.create_reservation("one", &json!({}), &available(500));
        apiserver.fault(STATUS, fault);
        assert_eq!(bind(replica(&apiserver, &seconds).0, &pod(300)).await, Ok(Bind::Bound));
        assert_eq!(owners(&apiserver, "one"), ["uid"]);
        assert_eq!(apiserver.writes().len(), writes + 1);
    }
}

#[tokio::test]
async fn owners_of_one_replica_take_turns() {
    let (apiserver, seconds) = world();
    apiserver.create_reservation("one", &json!({"allocateOnce": false}), &available(500));
    apiserver.create_reservation("two", &json!({}), &available(500));
    let backend = Backend::from(replica(&apiserver, &seconds).0);
    // Three UIDs are the same pod for the helper, so they race for one claim.
    let pod = pod(300);
    let binds = [(); 3].map(|()| testing::bind(backend.clone(), &pod, "a"));
    let [one, two, three] = binds;
    let (one, two, three) = tokio::join!(one, two, three);
    assert_eq!([one, two, three], [(); 3].map(|()| Ok(Bind::Bound)));
    assert_eq!((owners(&apiserver, "one").len(), owners(&apiserver, "two").len()), (1, 0));
}

fn pending(placeholder: &str) -> Value {
    json!({"phase": "Pending", "placeholder": placeholder})
}

#[tokio::test]
async fn a_placeholder_becomes_reserved_room() {
    let (apiserver, seconds) = world();
    apiserver.create_reservation("one", &json!({"ttl": "1h"}), &pending("uid"));
    let (policy, upkeep) = replica(&apiserver, &seconds);
    let bound = bind(policy, &placeholder("one")).await;
    assert_eq!(
        bound,
        Ok(Bind::Declined("the pod was the placeholder of reservation one and is deleted".to_owned()))
    );
    assert_eq!(apiserver.writes(), [STATUS, DELETION]);
    let status = apiserver.reservation("one")["status"].clone();
    assert_eq!((&status["phase"], &status["nodeName"]), (&json!("Available"), &json!("a")));
    assert_eq!(status["allocatable"], json!({"cpu": "750m"}));
    assert_eq!(upkeep.store.read().on("a").count(), 1, "known before the watch tells it");
    assert!(apiserver.pods().is_empty());
}

#[tokio::test]
async fn a_placeholder_whose_reservation_changed_is_judged_by_the_latest_version() {
    let (apiserver, seconds) = world();
    apiserver.create_reservation("one", &json!({}), &json!({}));
    let (policy, _) = replica(&apiserver, &seconds);
    // Recorded after this replica's latest version, with one more conflict.
    apiserver.edit_reservation("one", |one| one["status"] = pending("uid"));
    apiserver.fault(
        STATUS,
        RequestFault::Meanwhile(Box::new(|apiserver| {
            apiserver.edit_reservation("one", |one| one["metadata"]["labels"] = json!({"a": "b"}));
        })),
    );
    assert!(matches!(bind(policy, &placeholder("one")).await, Ok(Bind::Declined(_))));
    assert_eq!(phase(&apiserver, "one"), "Available");
}

#[tokio::test]
async fn a_repetition_deletes_the_placeholder() {
    let (apiserver, seconds) = world();
    apiserver.create_reservation("one", &json!({}), &pending("uid"));
    for fault in [RequestFault::LostBefore, RequestFault::Refused(403)] {
        apiserver.fault(DELETION, fault);
        let error = bind(replica(&apiserver, &seconds).0, &placeholder("one")).await.unwrap_err();
        assert!(error.contains("cannot delete its placeholder pod"), "never left to another binder: {error}");
    }
    apiserver.writes();
    assert!(matches!(
        bind(replica(&apiserver, &seconds).0, &placeholder("one")).await,
        Ok(Bind::Declined(_))
    ));
    assert_eq!(apiserver.writes(), [DELETION]);
}

#[tokio::test]
async fn a_placeholder_of_an_expired_reservation_is_deleted() {
    let (apiserver, seconds) = world();
    apiserver.create_reservation("one", &json!({"ttl": "1m"}), &pending("uid"));
    seconds.set(60);
    assert!(matches!(
        bind(replica(&apiserver, &seconds).0, &placeholder("one")).await,
        Ok(Bind::Declined(_))
    ));
    assert_eq!((phase(&apiserver, "one"), apiserver.pods().len()), ("Pending".to_owned(), 0));
}

#[tokio::test]
async fn what_only_claims_to_be_a_placeholder_is_never_bound() {
    for (status, of, expected) in [
        (pending("another"), "one", "the pod is not its placeholder"),
        (available(500), "one", "the pod is not its placeholder"),
        (json!({}), "one", "the pod is not its placeholder"),
        (pending("uid"), "two", "it does not exist, but this is its pod"),
    ] {
        let (apiserver, seconds) = world();
        apiserver.create_reservation("one", &json!({}), &status);
        let error = bind(replica(&apiserver, &seconds).0, &placeholder(of)).await.unwrap_err();
        assert_eq!(error, format!("reservation {of}: {expected}"));
        assert_eq!(apiserver.writes(), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_binding_that_would_be_late_is_not_created() {
    for (takes, is_bound) in [(WRITTEN_WITHIN, true), (WRITTEN_WITHIN + Duration::from_millis(1), false)] {
        let (apiserver, seconds) = world();
        apiserver.create_reservation("one", &json!({}), &available(500));
        let (policy, _) = replica_with(slow_client(&apiserver, takes), &apiserver, &seconds);
        assert_eq!(bind(policy, &pod(300)).await.is_ok(), is_bound);
        assert_eq!(
            (node(&apiserver).is_string(), owners(&apiserver, "one").len()),
            (is_bound, usize::from(is_bound))
        );
    }
}

#[tokio::test]
async fn a_pod_is_not_bound_with_less_than_the_hook_has_told() {
    let (apiserver, seconds) = world();
    apiserver.create_reservation("one", &json!({"allocateOnce": false}), &available(500));
    let (policy, upkeep) = replica(&apiserver, &seconds);
    let backend = Backend::from(policy);
    // Others have looked whether there is room for the rest: none, all of it comes from the reservation.
    let told = Resources { milli_cpu: 400, ..Resources::default() };
    upkeep.store.promises.keep("uid", "a", told.clone());
    let other = json!([{
        "namespace": "shop", "name": "v", "uid": "v", "requests": {"cpu": "300m"}, "allocatedAt": "2026-01-01T00:00:00Z",
    }]);
    apiserver.edit_reservation("one", |one| one["status"]["owners"] = other);
    let bound = said(testing::bind(backend.clone(), &pod(400), "a").await);
    assert_eq!(bound.unwrap_err(), format!("reservation one: {NO_ROOM}"));
    assert_eq!((owners(&apiserver, "one"), node(&apiserver)), (vec!["v".to_owned()], Value::Null));
    // The promise was for this attempt. Before the next one, the hook tells what is left now.
    upkeep.store.promises.keep("uid", "a", Resources { milli_cpu: 200, ..told });
    assert_eq!(testing::bind(backend, &pod(400), "a").await.unwrap(), Bind::Bound);
    let claimed = apiserver.reservation("one")["status"]["owners"][1]["requests"].clone();
    assert_eq!(claimed, json!({"cpu": "200m"}), "and the rest from the node");
}

#[tokio::test]
async fn a_stranger_whose_host_port_is_kept_is_not_bound() {
    let (apiserver, seconds) = world();
    let ports = json!({"containers": [{"ports": [{"hostPort": 8080}]}]});
    apiserver.create_reservation("one", &json!({"template": {"spec": ports}}), &available(500));
    let stranger = |port: u16| {
        let spec = json!({"spec": {"containers": [{"ports": [{"hostPort": port}]}]}});
        TestPod::new("mall").raw_json(spec.to_string())
    };
    let error = bind(replica(&apiserver, &seconds).0, &stranger(8080)).await.unwrap_err();
    assert_eq!(error, PORT_KEPT);
    let other = bind(replica(&apiserver, &seconds).0, &stranger(8081)).await;
    assert!(matches!(other, Ok(Bind::Declined(_))), "{other:?}");
    let rejected =
        testing::filter(replica(&apiserver, &seconds).0, &stranger(8080), &[testing::TestNode::new("a")]);
    assert!(format!("{rejected:?}").contains(PORT_KEPT), "{rejected:?}");
    // It may ask for any port.
    let unreadable = || TestPod::new("mall").raw_json(r#"{"spec":{"containers":[7]}}"#);
    assert_eq!(bind(replica(&apiserver, &seconds).0, &unreadable()).await.unwrap_err(), UNREADABLE);
    let rejected =
        testing::filter(replica(&apiserver, &seconds).0, &unreadable(), &[testing::TestNode::new("a")]);
    assert!(format!("{rejected:?}").contains(UNREADABLE), "{rejected:?}");
}

#[tokio::test]
async fn made_up_facts_take_no_room() {
    let lies: [fn(&mut Value); 3] = [
        |pod| pod["metadata"]["labels"] = json!({"app": "other"}),
        |pod| {
            pod["metadata"]["ownerReferences"] = json!([{"apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "other", "uid": "r", "controller": true}]);
        },
        |pod| pod["metadata"]["uid"] = "other".into(),
    ];
    for lie in lies {
        let (apiserver, seconds) = world();
        apiserver.create_reservation("one", &json!({}), &available(500));
        apiserver.edit_pod("shop/pod", lie);
        let error = bind(replica(&apiserver, &seconds).0, &pod(300)).await.unwrap_err();
        assert!([OTHER_FACTS, "the pod does not exist"].contains(&&*error), "{error}");
        assert_eq!(apiserver.writes(), [""; 0]);
    }
}

/// Another replica has answered the hook, and knows already that the room is free.
#[tokio::test]
async fn a_replica_that_is_behind_reads_before_a_pod_gets_less() {
    let claimed = |milli: &str| {
        let mut status = available(500);
        status["owners"] = json!([{
            "namespace": "shop", "name": "other", "uid": "other", "requests": {"cpu": milli},
            "allocatedAt": "2026-01-01T00:00:00Z", "bound": true,
        }]);
        status
    };
    for known in [claimed("500m"), claimed("400m"), json!({"phase": "Pending"})] {
        for (latest, gets) in [
            (available(500), json!("300m")),
            (claimed("500m"), Value::Null),
            // The gateway was told of a part that is not known here.
            (claimed("400m"), Value::Null),
        ] {
            let (apiserver, seconds) = world();
            apiserver.create_reservation("one", &json!({"allocateOnce": false}), &known);
            let (policy, _) = replica(&apiserver, &seconds);
            apiserver.edit_reservation("one", |one| one["status"] = latest);
            let bound = bind(policy, &pod(300)).await;
            assert_eq!(bound == Ok(Bind::Bound), gets.is_string(), "{known}: {bound:?}");
            let owners = apiserver.reservation("one")["status"]["owners"].clone();
            let own = owners.as_array().into_iter().flatten().find(|owner| owner["uid"] == "uid");
            assert_eq!(own.map_or(Value::Null, |own| own["requests"]["cpu"].clone()), gets, "{known}");
        }
    }
}
