//! The controller against an apiserver in memory, with a paused clock: the life of reservations, and restarts.

use serde_json::{Value, json};
use tokio::task::JoinHandle;

use super::*;
use crate::{
    apiserver::{Apiserver, RequestFault},
    cluster::{PodRef, RESERVED},
    placeholder::GATE,
    tests::{Seconds, available, client, owner, replica, slow_client},
};

/// A controller that runs until it is dropped.
struct Running {
    tasks: [JoinHandle<()>; 2],
}

impl Running {
    fn new(apiserver: &Apiserver, seconds: &Seconds) -> Self {
        Self::with(client(apiserver), apiserver, seconds)
    }

    /// With a client of its own for what it writes.
    fn with(writes: Client, apiserver: &Apiserver, seconds: &Seconds) -> Self {
        let (_, upkeep) = replica(apiserver, seconds);
        let cluster = Cluster::new(writes);
        let controller =
            Controller::new(Arc::clone(&upkeep.store), cluster, seconds.clock(), "pause:1".to_owned());
        let [first, second] = [(); 2].map(|()| client(apiserver));
        let controls = tokio::spawn(async move { drop(controller.run(first).await) });
        let watches = tokio::spawn(async move { match upkeep.watch(second).await {} });
        Self { tasks: [controls, watches] }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        self.tasks.iter().for_each(JoinHandle::abort);
    }
}

/// Waits until this holds, in paused time.
async fn until(what: &str, holds: impl Fn() -> bool) {
    for _ in 0..10_000 {
        if holds() {
            return;
        }
        sleep(Duration::from_millis(10)).await;
    }
    panic!("{what} does not happen");
}

fn status(apiserver: &Apiserver, name: &str) -> Value {
    apiserver.reservation(name)["status"].clone()
}

fn is_open(pod: &Value) -> bool {
    pod["spec"].get("schedulingGates").is_none()
}

#[tokio::test(start_paused = true)]
async fn a_new_reservation_gets_one_placeholder_that_is_recorded_before_it_can_be_scheduled() {
    let (apiserver, seconds) = (Apiserver::default(), Seconds::default());
    let _running = Running::new(&apiserver, &seconds);
    apiserver.create_reservation("one", &json!({}), &json!({}));
    until("an open placeholder", || apiserver.pods().values().any(is_open)).await;
    sleep(Duration::from_mins(1)).await;
    let writes = apiserver.writes();
    let methods: Vec<_> = writes.iter().map(|write| write.split(' ').next().unwrap()).collect();
    assert_eq!(methods, ["POST", "PUT", "PATCH"], "{writes:?}");
    let (name, pod) = apiserver.pods().pop_first().unwrap();
    assert!(name.starts_with("shop/one-"), "{name}");
    assert_eq!(status(&apiserver, "one")["placeholder"], pod["metadata"]["uid"]);
    // Somebody deletes it: there is a new one.
    apiserver.delete_pod(&name);
    until("another placeholder", || apiserver.pods().values().any(is_open)).await;
}

#[tokio::test(start_paused = true)]
async fn a_leader_that_ends_at_any_write_leaves_nothing_behind() {
    for fault in ["POST /api/v1/namespaces/shop/pods", "PUT /apis", "PATCH /api/v1"] {
        let (apiserver, seconds) = (Apiserver::default(), Seconds::default());
        apiserver.create_reservation("one", &json!({}), &json!({}));
        let first = Running::new(&apiserver, &seconds);
        // The write has its effect, and then the leader is gone.
        apiserver.fault(fault, RequestFault::Lost);
        until("the write", || apiserver.writes().iter().any(|write| write.contains(fault))).await;
        drop(first);
        let _second = Running::new(&apiserver, &seconds);
        let is_settled = || {
            let pods = apiserver.pods();
            pods.len() == 1
                && pods.values().all(|pod| {
                    is_open(pod) && pod["metadata"]["uid"] == status(&apiserver, "one")["placeholder"]
                })
        };
        until("one open and recorded placeholder", is_settled).await;
        sleep(Duration::from_mins(1)).await;
        assert!(is_settled(), "{fault}: {:?}", apiserver.pods());
    }
}

#[tokio::test(start_paused = true)]
async fn expiry_and_a_lost_node_end_a_reservation() {
    let (apiserver, seconds) = (Apiserver::default(), Seconds::default());
    apiserver.create_node("a");
    apiserver.create_reservation("short", &json!({"ttl": "1m"}), &available(500));
    apiserver.create_reservation("long", &json!({}), &available(500));
    let _running = Running::new(&apiserver, &seconds);
    sleep(Duration::from_mins(1)).await;
    // In its first round, the controller does not know what was left before.
    assert_eq!(apiserver.writes(), ["PATCH /api/v1/nodes/a"]);
    seconds.set(60);
    until("the expiry", || status(&apiserver, "short")["phase"] == "Failed").await;
    assert_eq!(status(&apiserver, "short")["conditions"][0]["reason"], "Expired");
    sleep(Duration::from_mins(1)).await;
    let writes = apiserver.writes();
    assert_eq!(
        writes.iter().filter(|write| *write == "PATCH /api/v1/nodes/a").count(),
        1,
        "waiting pods: {writes:?}"
    );
    assert_eq!(status(&apiserver, "long")["phase"], "Available");
    apiserver.delete_node("a");
    until("the loss", || status(&apiserver, "long")["phase"] == "Failed").await;
    assert_eq!(status(&apiserver, "long")["conditions"][0]["reason"], "NodeLost");
}

/// The reservation "one", of which each of these pods has a part that is not confirmed.
fn owned_by(pods: &[&str]) -> (Apiserver, Seconds) {
    let (apiserver, seconds) = (Apiserver::default(), Seconds::default());
    apiserver.create_node("a");
    let mut shared = available(500);
    shared["owners"] = pods.iter().map(|pod| owner(pod, "100m")).collect();
    apiserver.create_reservation("one", &json!({"allocateOnce": false}), &shared);
    for pod in pods {
        apiserver.create_pod(pod);
    }
    (apiserver, seconds)
}

#[tokio::test(start_paused = true)]
async fn owners_are_confirmed_and_removed_when_they_are_gone() {
    let (apiserver, seconds) = owned_by(&["bound", "lost"]);
    let _running = Running::new(&apiserver, &seconds);
    apiserver.edit_pod("shop/bound", |pod| pod["spec"]["nodeName"] = "a".into());
    seconds.set(3);
    let owners = || status(&apiserver, "one")["owners"].as_array().cloned().unwrap_or_default();
    until("the confirmation", || owners().iter().any(|owner| owner["bound"] == true)).await;
    assert_eq!((owners().len(), status(&apiserver, "one")["allocated"].clone()), (2, json!({"cpu": "200m"})));
    seconds.set(91);
    until("the removal", || owners().len() == 1).await;
    assert_eq!(status(&apiserver, "one")["allocated"], json!({"cpu": "100m"}));
    apiserver.delete_pod("shop/bound");
    until("the end", || owners().is_empty()).await;
    assert_eq!(status(&apiserver, "one")["phase"], "Available");
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_ends_before_it_is_confirmed_gives_its_part_back_at_once() {
    let (apiserver, seconds) = owned_by(&["pod"]);
    let _running = Running::new(&apiserver, &seconds);
    until("the first round", || !apiserver.writes().is_empty()).await;
    let owners = || status(&apiserver, "one")["owners"].as_array().cloned().unwrap_or_default();
    apiserver.edit_pod("shop/pod", |pod| pod["spec"]["nodeName"] = "a".into());
    sleep(Duration::from_secs(2)).await;
    assert_eq!(owners().len(), 1, "it is not due to be confirmed");
    apiserver.fault("GET /api/v1/namespaces/shop/pods/pod", RequestFault::Refused(500));
    apiserver.delete_pod("shop/pod");
    let deleted = Instant::now();
    until("the removal", || owners().is_empty()).await;
    assert!(deleted.elapsed() < queue::PAUSES.after(0) * 3, "{:?}", deleted.elapsed());
    assert_eq!(status(&apiserver, "one")["phase"], "Available");
}

#[tokio::test(start_paused = true)]
async fn a_watch_that_is_behind_takes_no_room_from_a_pod_that_is_bound() {
    let (apiserver, seconds) = owned_by(&["pod"]);
    let _running = Running::new(&apiserver, &seconds);
    until("the first round", || !apiserver.writes().is_empty()).await;
    apiserver.edit_pod_unseen("shop/pod", |pod| pod["spec"]["nodeName"] = "a".into());
    seconds.set(91);
    sleep(Duration::from_mins(1)).await;
    let owners = || status(&apiserver, "one")["owners"].clone();
    assert_eq!((owners()[0]["uid"].clone(), owners()[0]["bound"].clone()), (json!("pod"), Value::Null));
    apiserver.edit_pod("shop/pod", |pod| pod["metadata"]["labels"] = json!({"a": "b"}));
    until("the confirmation", || owners()[0]["bound"] == true).await;
}

#[tokio::test(start_paused = true)]
async fn one_reservation_that_fails_does_not_hold_up_others() {
    let (apiserver, seconds) = (Apiserver::default(), Seconds::default());
    apiserver.fault("POST /api/v1/namespaces/tenant/pods", RequestFault::Refused(403));
    let namespace = |name: &str| json!({"template": {"metadata": {"namespace": name}}});
    apiserver.create_reservation("a", &namespace("tenant"), &json!({}));
    apiserver.create_reservation("b", &json!({"template": {"spec": 7}}), &json!({}));
    apiserver.create_reservation("c", &namespace("shop"), &json!({}));
    // As of a namespace that does not exist.
    for _ in 0..3 {
        apiserver.fault("POST /api/v1/namespaces/none/pods", RequestFault::Refused(404));
    }
    apiserver.create_reservation("d", &namespace("none"), &json!({}));
    let began = Instant::now();
    let _running = Running::new(&apiserver, &seconds);
    until("the last placeholder", || apiserver.pods().keys().any(|name| name.starts_with("shop/c-"))).await;
    until("the text", || status(&apiserver, "a")["conditions"][0]["message"] == "refused").await;
    until("the failure", || status(&apiserver, "b")["phase"] == "Failed").await;
    assert_eq!(status(&apiserver, "b")["conditions"][0]["reason"], "Invalid");
    until("another attempt", || apiserver.pods().keys().any(|name| name.starts_with("tenant/a-"))).await;
    until("the fourth attempt", || apiserver.pods().keys().any(|name| name.starts_with("none/d-"))).await;
    assert!(began.elapsed() >= Duration::from_secs(1 + 2 + 4), "attempts have pauses that grow");
}

#[tokio::test(start_paused = true)]
async fn many_that_fail_do_not_hold_up_one_that_can_be_placed() {
    let (apiserver, seconds) = (Apiserver::default(), Seconds::default());
    let namespace = |name: &str| json!({"template": {"metadata": {"namespace": name}}});
    for number in 0..800 {
        apiserver.create_reservation(&format!("bad-{number:03}"), &namespace("none"), &json!({}));
    }
    apiserver.refuse_pods_of("none");
    // As long as it took a real apiserver.
    let _running = Running::with(slow_client(&apiserver, Duration::from_millis(40)), &apiserver, &seconds);
    for wait in [0, 2, 20] {
        sleep(Duration::from_secs(wait)).await;
        let name = format!("good-{wait}");
        apiserver.create_reservation(&name, &namespace("shop"), &json!({}));
        let began = Instant::now();
        let has_placeholder =
            || apiserver.pods().iter().any(|(key, pod)| key.contains(&name) && is_open(pod));
        until("the placeholder", has_placeholder).await;
        assert!(began.elapsed() < Duration::from_millis(1_500), "{name}: {:?}", began.elapsed());
    }
}

#[tokio::test(start_paused = true)]
async fn whoever_leads_next_wakes_those_that_wait_for_room_that_became_free_meanwhile() {
    for is_deleted in [true, false] {
        let (apiserver, seconds) = (Apiserver::default(), Seconds::default());
        apiserver.create_node("a");
        apiserver.create_reservation("one", &json!({"ttl": "1m"}), &available(500));
        let first = Running::new(&apiserver, &seconds);
        let annotation = |name: &str| apiserver.node("a")["metadata"]["annotations"][name].clone();
        until("the mark", || annotation(RESERVED) == "true").await;
        sleep(Duration::from_mins(3)).await;
        drop(first);
        apiserver.writes();
        if is_deleted {
            apiserver.delete_reservation("one");
        } else {
            seconds.set(60);
        }
        let _second = Running::new(&apiserver, &seconds);
        until("a change of the node", || apiserver.writes().contains(&"PATCH /api/v1/nodes/a".to_owned()))
            .await;
        until("no mark", || annotation(RESERVED) == Value::Null).await;
    }
}

#[tokio::test(start_paused = true)]
async fn a_node_that_cannot_be_annotated_is_tried_again() {
    let (apiserver, seconds) = (Apiserver::default(), Seconds::default());
    apiserver.create_node("a");
    apiserver.create_reservation("one", &json!({}), &available(500));
    for _ in 0..3 {
        apiserver.fault("PATCH /api/v1/nodes/a", RequestFault::Refused(503));
    }
    let _running = Running::new(&apiserver, &seconds);
    until("the change", || apiserver.node("a")["metadata"]["annotations"][RESERVED] == "true").await;
}

#[tokio::test(start_paused = true)]
async fn one_that_is_over_for_a_day_is_deleted() {
    let (apiserver, seconds) = (Apiserver::default(), Seconds::default());
    apiserver.create_node("a");
    apiserver.create_reservation("one", &json!({"ttl": "1m"}), &available(500));
    let _running = Running::new(&apiserver, &seconds);
    seconds.set(60);
    until("the expiry", || status(&apiserver, "one")["phase"] == "Failed").await;
    seconds.set(60 + 24 * 3_600);
    until("its deletion", || apiserver.reservations().is_empty()).await;
}

#[tokio::test(start_paused = true)]
async fn a_placeholder_that_cannot_be_deleted_holds_nothing_up_and_is_tried_after_pauses() {
    let (apiserver, seconds) = (Apiserver::default(), Seconds::default());
    apiserver.create_reservation("one", &json!({}), &json!({}));
    // The leader ends before it records the pod.
    let first = Running::new(&apiserver, &seconds);
    apiserver.fault("PUT /apis", RequestFault::LostBefore);
    until("a placeholder", || apiserver.pods().len() == 1).await;
    drop(first);
    for _ in 0..1_000 {
        apiserver.fault("DELETE /api/v1/namespaces/shop/pods", RequestFault::Refused(403));
    }
    let _second = Running::new(&apiserver, &seconds);
    until("another placeholder", || apiserver.pods().values().any(is_open)).await;
    sleep(Duration::from_mins(10)).await;
    let attempts = 1_000 - apiserver.faults();
    assert!((2..30).contains(&attempts), "{attempts} attempts");
}

#[tokio::test(start_paused = true)]
async fn placeholders_of_deleted_reservations_are_deleted() {
    let (apiserver, seconds) = (Apiserver::default(), Seconds::default());
    apiserver.create_reservation("one", &json!({}), &json!({}));
    // The leader ends before it records the pod, and then the Reservation is deleted.
    let first = Running::new(&apiserver, &seconds);
    for _ in 0..3 {
        apiserver.fault("PUT /apis", RequestFault::LostBefore);
    }
    until("a placeholder", || apiserver.pods().len() == 1).await;
    drop(first);
    assert_eq!(apiserver.pods().values().next().unwrap()["spec"]["schedulingGates"][0]["name"], GATE);
    apiserver.delete_reservation("one");
    let _second = Running::new(&apiserver, &seconds);
    until("its deletion", || apiserver.pods().is_empty()).await;
}

#[tokio::test]
async fn gates_of_others_stay_closed() {
    let apiserver = Apiserver::default();
    apiserver.create_pod("p");
    apiserver.edit_pod("shop/p", |pod| {
        pod["spec"]["schedulingGates"] = json!([{"name": GATE}, {"name": "quota"}]);
    });
    let pod = apiserver.pods().values().next().unwrap().clone();
    let text = |field: &str| pod["metadata"][field].as_str().unwrap().to_owned();
    let pod = PodRef { namespace: text("namespace"), name: text("name"), uid: text("uid") };
    Cluster::new(client(&apiserver)).open_gate(&pod).await.unwrap();
    assert_eq!(
        apiserver.pods().values().next().unwrap()["spec"]["schedulingGates"],
        json!([{"name": "quota"}])
    );
}

#[tokio::test(start_paused = true)]
async fn an_owner_that_requests_more_than_is_left_is_told_of_once_a_minute_at_most() {
    let (apiserver, seconds) = (Apiserver::default(), Seconds::default());
    apiserver.create_node("a");
    for policy in ["Aligned", "Restricted"] {
        apiserver.create_reservation(policy, &json!({"allocatePolicy": policy}), &available(4_000));
    }
    let waits = |namespace: &str, name: &str, milli_cpu| {
        apiserver.create_pod_with(namespace, name, milli_cpu);
        let condition = json!({
            "type": "PodScheduled", "status": "False", "reason": "Unschedulable",
            "lastTransitionTime": "2026-01-01T00:00:00Z",
        });
        apiserver
            .edit_pod(&format!("{namespace}/{name}"), |pod| pod["status"]["conditions"] = json!([condition]));
    };
    waits("shop", "as-large", 4_000);
    waits("mall", "a-stranger", 9_000);
    waits("shop", "larger", 6_000);
    let _running = Running::new(&apiserver, &seconds);
    let told = |name: &str| status(&apiserver, name)["conditions"][0].clone();
    for (at, writes) in [(9, 0), (10, 2), (69, 0), (70, 2), (129, 0)] {
        seconds.set(at);
        sleep(Duration::from_secs(5)).await;
        let written = apiserver.writes().iter().filter(|write| write.starts_with("PUT")).count();
        assert_eq!((told("Aligned")["status"] == "False", written), (at >= 10, writes), "{at}");
        if at == 10 {
            apiserver.delete_pod("shop/larger");
            waits("shop", "second", 7_000);
        } else if at == 70 {
            apiserver.delete_pod("shop/second");
        }
    }
    let text = "the owner shop/second waits: it requests cpu 3 more than is left, ";
    let [aligned, restricted] = ["Aligned", "Restricted"].map(|name| told(name)["message"].clone());
    assert_eq!(aligned, format!("{text}which the node must have besides"));
    assert_eq!(restricted, format!("{text}and so gets nothing of it (allocatePolicy: Restricted)"));
    seconds.set(130);
    until("the condition to hold", || told("Restricted")["status"] == "True").await;
}
