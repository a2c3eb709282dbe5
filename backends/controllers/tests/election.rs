//! Replicas of a backend on real sockets, with a small apiserver that has one Lease, optimistic concurrency and faults.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

#[path = "election/apiserver.rs"]
mod apiserver;
#[path = "election/replica.rs"]
mod replica;

use std::{
    sync::{Arc, mpsc},
    time::{Duration, Instant},
};

use extender_policy_controllers::{Controllers, Leading};
use tonic_health::pb::health_check_response::ServingStatus;

use self::{
    apiserver::{Apiserver, Fault},
    replica::{Replica, controllers, eventually, soon},
};

/// Says when a term begins and when its future is dropped.
fn watched(controllers: Controllers) -> (Controllers, mpsc::Receiver<Seen>) {
    let (tell, told) = mpsc::channel();
    let runs = controllers.runs("sync", move |leading: Leading| {
        let tell = tell.clone();
        async move {
            tell.send(Seen::Begun(leading.transitions())).unwrap();
            let _ends = Ends(tell);
            std::future::pending::<Result<(), String>>().await
        }
    });
    (runs, told)
}

#[derive(Debug, PartialEq)]
enum Seen {
    Begun(u64),
    Ended,
}

struct Ends(mpsc::Sender<Seen>);

impl Drop for Ends {
    fn drop(&mut self) {
        // The test may have ended.
        drop(self.0.send(Seen::Ended));
    }
}

async fn next(seen: &mpsc::Receiver<Seen>) -> Seen {
    eventually(async || seen.try_recv().ok()).await
}

#[tokio::test]
async fn one_of_two_replicas_leads_and_both_say_so() {
    let apiserver = Apiserver::start().await;
    let (controllers_a, seen_a) = watched(controllers(&apiserver, "a"));
    let mut a = Replica::start(controllers_a).await;
    assert_eq!(next(&seen_a).await, Seen::Begun(0));
    let (controllers_b, seen_b) = watched(controllers(&apiserver, "b"));
    let mut b = Replica::start(controllers_b).await;
    for (replica, identity, health) in
        [(&mut a, "a", ServingStatus::Serving), (&mut b, "b", ServingStatus::NotServing)]
    {
        replica.is_led_by("a").await;
        let controllers = replica.controllers().await;
        assert_eq!((&*controllers.lease, &*controllers.identity), ("shop/quota", identity));
        assert_eq!(controllers.names, ["sync"]);
        assert_eq!(replica.health().await, health);
    }
    // Longer than the lease lasts.
    tokio::time::sleep(Duration::from_millis(2_500)).await;
    assert!(seen_a.try_recv().is_err() && seen_b.try_recv().is_err(), "nothing has changed");

    // A normal stop stops the controllers and releases the lease.
    a.stop().await.unwrap();
    assert_eq!(next(&seen_a).await, Seen::Ended);
    assert_eq!(next(&seen_b).await, Seen::Begun(1));
    b.is_led_by("b").await;
    eventually(async || (b.health().await == ServingStatus::Serving).then_some(())).await;
    b.stop().await.unwrap();
    assert_eq!(apiserver.lease()["spec"]["holderIdentity"], "");
}

#[tokio::test]
async fn a_lost_lease_stops_the_controllers_and_the_other_replica_takes_over() {
    let (apiserver, mut other_way) = (Apiserver::start().await, None);
    let (controllers_a, seen_a) = watched(controllers(&apiserver, "a"));
    let a = Replica::start(controllers_a).await;
    assert_eq!(next(&seen_a).await, Seen::Begun(0));
    for fault in [Fault::Hangs, Fault::Refuses(503), Fault::Refuses(403)] {
        // The other one reaches the apiserver in another way.
        let (controllers_b, seen_b) = watched(controllers(&apiserver.without_faults().await, "b"));
        let b = Replica::start(controllers_b).await;
        b.is_led_by("a").await;
        apiserver.fault(fault);
        assert_eq!(next(&seen_a).await, Seen::Ended, "{fault:?}");
        let Seen::Begun(transitions) = next(&seen_b).await else { panic!("it begins") };
        b.stop().await.unwrap();
        apiserver.fault(Fault::None);
        assert_eq!(next(&seen_a).await, Seen::Begun(transitions + 1), "it competes again");
        other_way = Some(seen_b);
    }
    assert_eq!(next(&other_way.unwrap()).await, Seen::Ended);
    a.is_led_by("a").await;
    assert_eq!(a.health().await, ServingStatus::Serving);
    a.stop().await.unwrap();
}

#[tokio::test]
async fn calls_are_answered_while_the_apiserver_is_away() {
    let apiserver = Apiserver::start().await;
    apiserver.fault(Fault::Hangs);
    let (controllers, seen) = watched(controllers(&apiserver, "a"));
    let a = Replica::start(controllers).await;
    assert_eq!(a.controllers().await.leader, "");
    apiserver.fault(Fault::None);
    assert_eq!(next(&seen).await, Seen::Begun(0));
    a.is_led_by("a").await;

    apiserver.fault(Fault::Hangs);
    let began = Instant::now();
    a.stop().await.unwrap();
    assert!(began.elapsed() < Duration::from_secs(5), "a stop waits for it only as long as for an attempt");
    assert_eq!(next(&seen).await, Seen::Ended);
}

#[tokio::test]
async fn controllers_that_do_not_stop_end_the_process() {
    for lost in [true, false] {
        let apiserver = Apiserver::start().await;
        let (tell, told) = mpsc::channel();
        let (release, released) = mpsc::channel::<()>();
        let released = Arc::new(std::sync::Mutex::new(released));
        let (exit, exited) = mpsc::channel();
        let controllers = controllers(&apiserver, "a")
            .stop_limit(Duration::from_millis(200))
            .exit(move |why| exit.send(why.to_owned()).unwrap())
            .runs("sync", move |leading| {
                let (tell, released) = (tell.clone(), Arc::clone(&released));
                async move {
                    tell.send(leading).unwrap();
                    // Blocks its thread.
                    _ = released.lock().unwrap().recv();
                    Ok::<_, String>(())
                }
            });
        let mut a = Replica::start(controllers).await;
        let leading = eventually(async || told.try_recv().ok()).await;
        assert!(leading.leads());
        if lost {
            apiserver.fault(Fault::Refuses(500));
        } else {
            a.begin_stop();
        }
        let why = eventually(async || exited.try_recv().ok()).await;
        let reason = if lost { "the lease could not be renewed in time" } else { "the process stops" };
        assert!(why.starts_with(reason), "{why}");
        assert!(why.contains("the controllers of lease shop/quota did not stop in time"), "{why}");
        assert!(!leading.leads(), "what blocks can ask");
        let error = soon(a.served()).await.unwrap_err();
        assert_eq!(error.to_string(), why, "if the exit returns, the server ends");
        assert_eq!(apiserver.lease()["spec"]["holderIdentity"], "a", "not released");
        drop(release);
    }
}

#[tokio::test]
async fn a_controller_that_fails_ends_leadership_and_the_process() {
    for (fails, expected) in
        [(true, "controller fails failed: no quota"), (false, "controller fails panicked: a bug")]
    {
        let apiserver = Apiserver::start().await;
        let (controllers, seen) = watched(controllers(&apiserver, "a"));
        let controllers = controllers.runs("done", |_| std::future::ready(Ok::<_, String>(())));
        let controllers = controllers.runs("fails", move |_| async move {
            assert!(fails, "a bug");
            Err("no quota")
        });
        let a = Replica::start(controllers).await;
        let error = soon(a.served()).await.unwrap_err();
        assert_eq!(error.to_string(), expected);
        assert_eq!(seen.iter().last(), Some(Seen::Ended), "the others are cancelled");
        assert_eq!(apiserver.lease()["spec"]["holderIdentity"], "", "another replica takes over at once");
    }
}

#[tokio::test]
async fn without_access_to_an_apiserver_the_process_ends() {
    let mut config = kube::Config::new("https://127.0.0.1:1".parse().unwrap());
    config.auth_info.client_certificate_data = Some("%".to_owned());
    let apiserver = Apiserver::start().await;
    let (controllers, _seen) = watched(controllers(&apiserver, "a"));
    let a = Replica::start(controllers.apiserver(config)).await;
    let error = soon(a.served()).await.unwrap_err().to_string();
    assert!(error.starts_with("no access to lease shop/quota: invalid credentials"), "{error}");
}

#[tokio::test]
async fn what_controllers_spawn_ends_with_the_term() {
    let apiserver = Apiserver::start().await;
    let (tell, told) = mpsc::channel();
    let controllers = controllers(&apiserver, "a").runs("sync", move |leading: Leading| {
        let tell = tell.clone();
        async move {
            tell.send(Seen::Begun(leading.transitions())).unwrap();
            let ends = Ends(tell);
            tokio::spawn(async move {
                let _ends = ends;
                std::future::pending::<()>().await;
            });
            std::future::pending::<Result<(), String>>().await
        }
    });
    let a = Replica::start(controllers).await;
    assert_eq!(next(&told).await, Seen::Begun(0));
    a.stop().await.unwrap();
    assert_eq!(next(&told).await, Seen::Ended);
}

#[tokio::test]
async fn a_controller_reads_with_the_client_of_its_term() {
    let apiserver = Apiserver::start().await;
    let (tell, told) = mpsc::channel();
    let controllers = controllers(&apiserver, "a").runs("sync", move |leading: Leading| {
        let tell = tell.clone();
        async move {
            let request = kube::core::Request::new("/apis/coordination.k8s.io/v1/namespaces/shop/leases");
            let request = request.get("quota", &kube::api::GetParams::default()).unwrap();
            let lease: serde_json::Value = leading.client().request(request).await?;
            tell.send(lease["spec"]["holderIdentity"] == leading.identity()).unwrap();
            std::future::pending::<Result<(), kube::Error>>().await
        }
    });
    let _a = Replica::start(controllers).await;
    assert!(eventually(async || told.try_recv().ok()).await);
}
