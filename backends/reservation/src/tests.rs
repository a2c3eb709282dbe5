//! Hook and score through the SDK's testing helpers, and what tests of the other modules share.

use std::{
    sync::atomic::{AtomicBool, AtomicI64, Ordering::SeqCst},
    time::Duration,
};

use extender_policy_sdk::{
    Backend, OwnerReference,
    testing::{self, PodFacts, TestNode, TestPod},
};
use http::{Method, Request, Response};
use kube::client::Body;
use proptest::prelude::*;
use serde_json::{Value, json};

use super::{
    apiserver::{Apiserver, RequestFault},
    watch::{Watched as _, WatchedObject},
    *,
};
use crate::arbitrary;

/// A client of this apiserver, in memory.
pub(super) fn client(apiserver: &Apiserver) -> Client {
    slow_client(apiserver, Duration::ZERO)
}

/// The same, if the apiserver takes this time for each write of a Reservation, and for each creation of a pod.
pub(super) fn slow_client(apiserver: &Apiserver, writes_take: Duration) -> Client {
    let apiserver = apiserver.clone();
    let service = tower::service_fn(move |request: Request<Body>| {
        let apiserver = apiserver.clone();
        async move {
            let (head, body) = request.into_parts();
            let body = body.collect_bytes().await.unwrap();
            if matches!(head.method, Method::PUT | Method::POST) && !writes_take.is_zero() {
                tokio::time::sleep(writes_take).await;
            }
            let query = head.uri.query().unwrap_or_default();
            let (code, answer) = apiserver.answer(head.method.as_str(), head.uri.path(), query, &body);
            Ok::<_, std::io::Error>(
                Response::builder().status(code).body(Body::from(answer.into_bytes())).unwrap(),
            )
        }
    });
    Client::new(service, "default")
}

/// A clock that shows these seconds after the creation of the test's Reservations.
#[derive(Clone, Default)]
pub(super) struct Seconds(Arc<AtomicI64>);

impl Seconds {
    pub(super) fn set(&self, seconds: i64) {
        self.0.store(seconds, SeqCst);
    }

    pub(super) fn clock(&self) -> Clock {
        let seconds = self.clone();
        Clock(Arc::new(move || seconds.now()))
    }

    pub(super) fn now(&self) -> Timestamp {
        let created: Timestamp = "2026-01-01T00:00:00Z".parse().unwrap();
        Timestamp::from_second(created.as_second() + self.0.load(SeqCst)).unwrap()
    }
}

/// A replica that knows what the apiserver has now.
pub(super) fn replica(apiserver: &Apiserver, seconds: &Seconds) -> (Reservations, Upkeep) {
    replica_with(client(apiserver), apiserver, seconds)
}

/// The same with a client of its own.
pub(super) fn replica_with(
    client: Client,
    apiserver: &Apiserver,
    seconds: &Seconds,
) -> (Reservations, Upkeep) {
    let (policy, upkeep) = Reservations::with_clock("reservation", client, seconds.clock());
    let (code, list) = apiserver.answer("GET", object::PATH, "", b"");
    assert_eq!(code, 200);
    let list: Value = serde_json::from_str(&list).unwrap();
    let version = |of: &Value| of["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap();
    let object = |item: &Value| WatchedObject {
        name: item["metadata"]["name"].as_str().unwrap().to_owned(),
        version: version(item),
        json: item.to_string().into_bytes(),
    };
    policy.store.listed(
        list["items"].as_array().unwrap().iter().map(object).map(Into::into).collect(),
        version(&list),
    );
    (policy, upkeep)
}

/// The status of a Reservation with these CPUs, in thousandths, on node a.
pub(super) fn available(milli_cpu: i64) -> Value {
    json!({"phase": "Available", "nodeName": "a", "allocatable": {"cpu": format!("{milli_cpu}m")}})
}

/// An entry of a status' owners.
pub(super) fn owner(uid: &str, cpu: &str) -> Value {
    json!({
        "namespace": "shop", "name": uid, "uid": uid, "requests": {"cpu": cpu},
        "allocatedAt": "2026-01-01T00:00:00Z",
    })
}

/// The owner of the placeholder pod of this Reservation, whose UID is its name.
pub(super) fn controlling(reservation: &str) -> OwnerReference {
    let (name, uid) = (reservation.to_owned(), reservation.to_owned());
    OwnerReference { api_version: object::API_VERSION.into(), kind: object::KIND.into(), name, uid }
}

fn cpu(milli_cpu: i64) -> Resources {
    Resources { milli_cpu, pods: 1, ..Resources::default() }
}

fn shop(milli_cpu: i64) -> TestPod {
    TestPod::new("shop").requests(cpu(milli_cpu))
}

fn nodes() -> [TestNode; 2] {
    ["a", "b"].map(TestNode::new)
}

#[tokio::test]
async fn the_hook_keeps_room_from_other_pods_and_not_from_the_owner() {
    let (apiserver, seconds) = (Apiserver::default(), Seconds::default());
    let restricted = json!({"ttl": "1m", "allocatePolicy": "Restricted"});
    apiserver.create_reservation("one", &json!({"allocatePolicy": "Restricted"}), &available(500));
    apiserver.create_reservation("two", &restricted, &available(1_000));
    let (policy, _) = replica(&apiserver, &seconds);
    let backend = Backend::from(policy);
    let changes = |pod: TestPod| testing::before_filter_nodes(backend.clone(), &pod, &nodes()).unwrap();
    let change = |amounts: &[i64], reason: &str| {
        let change = amounts.iter().fold(NodeChange::none(), |change, amount| change.hold(cpu(*amount), []));
        vec![("a".to_owned(), change.reason(reason))]
    };
    assert_eq!(changes(shop(500)), change(&[1_000], "reserved by two"));
    assert_eq!(changes(shop(501)), change(&[500], "reserved by one"));
    assert_eq!(changes(shop(1_001)), change(&[500, 1_000], "reserved by one, two"), "it fits in none");
    assert_eq!(changes(TestPod::new("mall")), change(&[500, 1_000], "reserved by one, two"));

    let owner = Some(controlling("other"));
    let placeholder = PodFacts { namespace: "shop".into(), owner, ..PodFacts::default() };
    assert_eq!(changes(placeholder.clone().into()), change(&[500, 1_000], "reserved by one, two"));
    let scores = |pod: &TestPod| testing::score(backend.clone(), pod, &nodes()).unwrap();
    assert_eq!(scores(&shop(501)), [60, 0]);
    assert_eq!(scores(&shop(1_001)), [0, 0]);
    assert_eq!(scores(&placeholder.into()), [0, 0]);

    seconds.set(60);
    assert_eq!(
        changes(shop(501)),
        change(&[500], "reserved by one"),
        "two is expired, for owners as for others"
    );
    assert_eq!(scores(&shop(501)), [0, 0]);
}

#[tokio::test]
async fn only_what_the_pod_requests_is_told_of_other_resources() {
    let (apiserver, seconds) = (Apiserver::default(), Seconds::default());
    let mut status = available(0);
    for number in 0..31 {
        status["allocatable"][format!("example.com/r{number:02}")] = "2".into();
    }
    apiserver.create_reservation("many", &json!({}), &status);
    let (policy, _) = replica(&apiserver, &seconds);
    let backend = Backend::from(policy);
    let others = |requested: std::ops::Range<u32>, nodes: usize| {
        let others = requested.map(|number| (format!("example.com/r{number:02}"), 1)).collect();
        let pod = TestPod::new("mall").requests(Resources { others, ..Resources::default() });
        let nodes: Vec<_> = (0..nodes)
            .map(|at| TestNode::new(if at == 0 { "a".to_owned() } else { at.to_string() }))
            .collect();
        testing::before_filter_nodes(backend.clone(), &pod, &nodes).unwrap().remove(0).1
    };
    let expected = |told: u32| {
        let others = (0..told).map(|number| (format!("example.com/r{number:02}"), 2)).collect();
        let held = Resources { pods: 1, others, ..Resources::default() };
        NodeChange::none().hold(held, []).reason("reserved by many")
    };
    assert_eq!(others(0..3, 1), expected(3));
    assert_eq!(others(0..40, 1), expected(31));
    assert_eq!(others(0..31, 1_000), expected(7), "no more than a call may change");
}

/// The status of a shared Reservation with this many owners of 1 CPU.
fn shared(owners: usize) -> Value {
    let owner = |number: usize| {
        json!({
            "namespace": "shop", "name": "web", "uid": format!("1b4e28ba-2fa1-11d2-883f-{number:012}"),
            "requests": {"cpu": "1", "example.com/gpu": "1"}, "allocatedAt": "2026-01-01T00:00:00Z", "bound": true,
        })
    };
    json!({
        "phase": "Available", "nodeName": "a", "allocatable": {"cpu": owners, "example.com/gpu": owners},
        "owners": (0..owners).map(owner).collect::<Vec<_>>(),
    })
}

#[tokio::test]
async fn what_owners_use_is_told_with_the_hold_within_the_limits() {
    let (apiserver, seconds) = (Apiserver::default(), Seconds::default());
    apiserver.create_reservation("few", &json!({"allocateOnce": false}), &shared(1));
    let users = |names: &[&str]| {
        let others = names.iter().map(|name| ((*name).to_owned(), 1)).collect();
        let pod = TestPod::new("mall").requests(Resources { others, ..cpu(1) });
        let policy = replica(&apiserver, &seconds).0;
        testing::before_filter_nodes(policy, &pod, &nodes()).unwrap().remove(0).1
    };
    let hold = |cpus: i64| {
        let user = HoldUser {
            uid: "1b4e28ba-2fa1-11d2-883f-000000000000".to_owned(),
            at_most: Some(Resources { pods: 0, ..cpu(1_000) }),
        };
        NodeChange::none().hold(cpu(cpus), [user])
    };
    // All of it is used, and would be held if the owner ended.
    assert_eq!(users(&[]), hold(1_000));
    apiserver.create_reservation("few", &json!({"allocateOnce": false}), &shared(1_000));
    for names in [&[][..], &["example.com/gpu", &"r".repeat(300)], &["a", "b", "c", "d", "e", "f"]] {
        assert!(!users(names).is_none(), "the answer is within the limits");
    }
    for number in 0..70 {
        apiserver.create_reservation(&format!("r{number:02}"), &json!({}), &available(10));
    }
    assert!(!users(&["example.com/gpu"]).is_none(), "more reservations than a change may have holds");
}

#[tokio::test(start_paused = true)]
async fn a_replica_that_hears_nothing_is_not_ready() {
    let (apiserver, seconds) = (Apiserver::default(), Seconds::default());
    apiserver.create_reservation("one", &json!({}), &available(500));
    let (policy, _) = replica(&apiserver, &seconds);
    policy.pulse.beat();
    tokio::time::advance(Duration::from_secs(10)).await;
    assert!(policy.ready().is_ok());
    tokio::time::advance(Duration::from_millis(1)).await;
    let NotReady(why) = policy.ready().unwrap_err();
    assert_eq!(why, "the apiserver has told nothing about Reservations for too long");
    policy.pulse.beat();
    assert!(policy.ready().is_ok(), "it comes back by itself");
}

#[tokio::test(start_paused = true)]
async fn a_silent_connection_is_given_up() {
    let (apiserver, silent) = (Apiserver::default(), Arc::new(AtomicBool::default()));
    let (answering, cut) = (apiserver.clone(), Arc::clone(&silent));
    let service = tower::service_fn(move |request: Request<Body>| {
        let (apiserver, cut) = (answering.clone(), Arc::clone(&cut));
        async move {
            let query = request.uri().query().unwrap_or_default();
            let (code, answer) = apiserver.answer("GET", request.uri().path(), query, b"");
            if cut.load(SeqCst) {
                std::future::pending::<()>().await;
            }
            if query.contains("watch=true") {
                // As long as the apiserver takes to end a quiet watch.
                tokio::time::sleep(Duration::from_secs(4)).await;
            }
            let body = Body::from(answer.into_bytes());
            Ok::<_, std::io::Error>(Response::builder().status(code).body(body).unwrap())
        }
    });
    let (policy, upkeep) = Reservations::new("reservation", Client::new(service.clone(), "default"));
    let watched = tokio::spawn(async move { upkeep.watch(Client::new(service, "default")).await });
    let mut ready = Vec::new();
    for (is_silent, seconds) in [(false, 60), (true, 7), (true, 13), (true, 600), (false, 40)] {
        silent.store(is_silent, SeqCst);
        tokio::time::sleep(Duration::from_secs(seconds)).await;
        ready.push(policy.ready().is_ok());
    }
    assert_eq!(ready, [true, true, false, false, true]);
    watched.abort();
}

#[tokio::test]
async fn a_pod_that_requires_a_reservation_goes_nowhere_else() {
    let (apiserver, seconds) = (Apiserver::default(), Seconds::default());
    apiserver.create_reservation("one", &json!({"allocatePolicy": "Restricted"}), &available(500));
    let (policy, _) = replica(&apiserver, &seconds);
    let backend = Backend::from(policy);
    let filtered = |pod: &TestPod| testing::filter(backend.clone(), pod, &nodes()).unwrap();
    let requires = |text: &str| shop(500).annotation(affinity::ANNOTATION, text);
    let rejected = |nodes: &[&str]| {
        let reason = "no reservation that the pod requires has room for it";
        nodes.iter().map(|node| ((*node).to_owned(), reason.to_owned())).collect::<Vec<_>>()
    };
    assert_eq!(filtered(&shop(500)), []);
    assert_eq!(filtered(&requires(r#"{"name": "one"}"#)), rejected(&["b"]));
    assert_eq!(filtered(&requires(r#"{"name": "two"}"#)), rejected(&["a", "b"]));
    let too_large = shop(501).annotation(affinity::ANNOTATION, r#"{"name": "one"}"#);
    assert_eq!(filtered(&too_large), rejected(&["a", "b"]));
    assert!(filtered(&requires("one"))[0].1.contains("reservation-affinity is invalid"));
    let Ok(Bind::NotBound(why)) = testing::bind(backend, &requires(r#"{"name": "two"}"#), "a").await else {
        panic!("another binder would be called");
    };
    assert_eq!(why, "the pod requires a reservation, and none on this node has room for it");
}

#[test]
fn a_reason_names_a_few() {
    assert_eq!(reason(&["a"]), "reserved by a");
    assert_eq!(reason(&["a", "b", "c", "d", "e"]), "reserved by 2 more than a, b, c");
}

#[tokio::test]
async fn it_is_not_ready_before_the_reservations_are_listed() {
    let (policy, _) = Reservations::new("reservation", client(&Apiserver::default()));
    let error = testing::before_filter_nodes(policy, &shop(1), &nodes()).unwrap_err();
    assert!(error.to_string().contains("the Reservations are not listed yet"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn the_watch_follows_and_survives_faults() {
    let apiserver = Apiserver::default();
    apiserver.create_reservation("one", &json!({}), &available(500));
    for code in [403, 500, 410] {
        apiserver.fault("GET /apis", RequestFault::Refused(code));
    }
    let (policy, upkeep) = Reservations::new("reservation", client(&apiserver));
    let store = Arc::clone(&policy.store);
    let watched = tokio::spawn({
        let client = client(&apiserver);
        async move { upkeep.watch(client).await }
    });
    let until = async |expected: &[&str]| {
        let mut changes = store.changes();
        loop {
            let names: Vec<_> = store.read().on("a").map(|found| found.name.clone()).collect();
            if store.read().is_listed() && names == expected {
                return;
            }
            changes.changed().await.unwrap();
        }
    };
    until(&["one"]).await;
    apiserver.create_reservation("two", &json!({}), &available(1));
    until(&["one", "two"]).await;
    apiserver.fault("GET /apis", RequestFault::Refused(410));
    apiserver.delete_reservation("one");
    until(&["two"]).await;
    apiserver.edit_reservation("two", |two| two["status"]["nodeName"] = "b".into());
    until(&[]).await;
    watched.abort();
}

/// Of all strategies, one cluster with some Reservations.
fn policies() -> [Reservations; 2] {
    let (apiserver, seconds) = (Apiserver::default(), Seconds::default());
    for (name, namespace, amount) in [("one", "x", 3), ("two", "y", 5)] {
        let owners = json!([
            {"labelSelector": {"matchLabels": {"a": "1"}}, "namespaces": [namespace]},
            {"controller": {"kind": "", "name": "a", "namespace": namespace}},
        ]);
        let owners = if name == "one" { json!([owners[0]]) } else { owners };
        apiserver.create_reservation(
            name,
            &json!({"owners": owners, "allocateOnce": false}),
            &available(amount),
        );
    }
    [(); 2].map(|()| replica(&apiserver, &seconds).0)
}

proptest! {
    #[test]
    fn nothing_else_is_read(pod in arbitrary::pod(), nodes in arbitrary::nodes()) {
        let runtime = tokio::runtime::Builder::new_current_thread().enable_all().build().unwrap();
        let [declared, everything] = runtime.block_on(async { policies() });
        let (declared, everything) = (Backend::from(declared), testing::everything(everything));
        prop_assert_eq!(
            testing::before_filter_nodes(declared.clone(), &pod, &nodes),
            testing::before_filter_nodes(everything.clone(), &pod, &nodes)
        );
        prop_assert_eq!(testing::score(declared, &pod, &nodes), testing::score(everything, &pod, &nodes));
    }
}
