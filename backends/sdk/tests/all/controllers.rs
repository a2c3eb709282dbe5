//! Controllers beside a server over a real socket: the handshake, health, and how each ends the other.

use extender_policy_api::v1beta1::{GetInfoRequest, policy_service_client::PolicyServiceClient};
use extender_policy_sdk::{
    Backend, Bound, BoxFuture, ControllersFailed, ControllersReport, Info, Options, Policy, RunControllers,
    Verb,
};
use tokio::sync::{mpsc, oneshot};
use tokio_stream::StreamExt as _;
use tonic::Code;
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use crate::{running, served, soon};

const SERVICE: &str = "extender.policy.v1beta1.Controllers";

struct Filters;

impl Policy for Filters {
    fn info(&self) -> Info {
        Info::new("filters", "1").filters(Verb::per_node())
    }
}

/// Follows the leaders that it is told, and says when it stops; fails when it is told none any more.
struct Scripted {
    leaders: tokio::sync::Mutex<mpsc::Receiver<Option<&'static str>>>,
    stopped: mpsc::Sender<()>,
    name: &'static str,
}

impl RunControllers for Scripted {
    fn report(&self) -> Result<ControllersReport, ControllersFailed> {
        ControllersReport::new([self.name], "shop/quota", "me")
    }

    fn run<'a>(
        &'a self,
        report: &'a ControllersReport,
        mut stop: BoxFuture<'static, ()>,
    ) -> BoxFuture<'a, Result<(), ControllersFailed>> {
        Box::pin(async move {
            let mut leaders = self.leaders.lock().await;
            loop {
                let leader = tokio::select! {
                    leader = leaders.recv() => leader,
                    () = &mut stop => {
                        self.stopped.send(()).await.unwrap();
                        return Ok(());
                    }
                };
                report.led_by(leader.ok_or_else(|| ControllersFailed("quota-sync failed: no".to_owned()))?);
            }
        })
    }
}

pub(crate) fn scripted(
    name: &'static str,
) -> (Backend, mpsc::Sender<Option<&'static str>>, mpsc::Receiver<()>) {
    let ((leaders, told), (stopped, controllers_stopped)) = (mpsc::channel(1), mpsc::channel(1));
    let scripted = Scripted { leaders: told.into(), stopped, name };
    (Backend::from(Filters).with_controllers(scripted), leaders, controllers_stopped)
}

#[tokio::test]
async fn handshake_and_health_follow_the_leader() {
    let (backend, leaders, _stopped) = scripted("quota-sync");
    let running = running(backend, Options::default()).await;
    let mut client = PolicyServiceClient::new(running.channel.clone());
    let mut health = HealthClient::new(running.channel);
    let about = || HealthCheckRequest { service: SERVICE.to_owned() };
    let mut watched = soon(health.watch(about())).await.unwrap().into_inner();
    for (leader, expected) in [
        (None, None),
        (Some("other"), None),
        (Some("me"), Some(ServingStatus::Serving)),
        (Some("other"), Some(ServingStatus::NotServing)),
        (Some("me"), Some(ServingStatus::Serving)),
        (None, Some(ServingStatus::NotServing)),
    ] {
        leaders.send(leader).await.unwrap();
        let reported = async || {
            let info = client.clone().get_info(GetInfoRequest::default()).await.unwrap().into_inner();
            info.controllers.unwrap()
        };
        let controllers = soon(async {
            loop {
                let controllers = reported().await;
                if controllers.leader == leader.unwrap_or_default() {
                    return controllers;
                }
            }
        })
        .await;
        assert_eq!(controllers.names, ["quota-sync"]);
        assert_eq!((&*controllers.lease, &*controllers.identity), ("shop/quota", "me"));
        if let Some(expected) = expected {
            let status = async { while watched.next().await.unwrap().unwrap().status() != expected {} };
            soon(status).await;
        }
    }
    let process = HealthCheckRequest::default();
    assert_eq!(health.check(process).await.unwrap().into_inner().status(), ServingStatus::Serving);
    assert_eq!(
        health.check(about()).await.unwrap().into_inner().status(),
        ServingStatus::NotServing,
        "nobody leads"
    );
    let _ = client.get_info(GetInfoRequest::default()).await.unwrap();
}

#[tokio::test]
async fn without_controllers_their_health_is_not_known() {
    let mut health = HealthClient::new(served(Filters).await);
    let about = HealthCheckRequest { service: SERVICE.to_owned() };
    assert_eq!(soon(health.check(about)).await.unwrap_err().code(), Code::NotFound);
}

#[tokio::test]
async fn a_stop_stops_the_controllers_too() {
    let (backend, _leaders, mut controllers_stopped) = scripted("quota-sync");
    let running = running(backend, Options::default()).await;
    running.stop.send(()).unwrap();
    soon(controllers_stopped.recv()).await.unwrap();
    drop(running.channel);
    soon(running.served).await.unwrap().unwrap();
}

#[tokio::test]
async fn controllers_that_fail_end_the_server() {
    let (backend, leaders, _stopped) = scripted("quota-sync");
    let running = running(backend, Options::default()).await;
    drop((leaders, running.channel));
    let error = soon(running.served).await.unwrap().unwrap_err();
    assert_eq!(error.to_string(), "quota-sync failed: no");
}

#[tokio::test]
async fn controllers_that_end_before_the_stop_end_the_server() {
    struct Idle;
    impl RunControllers for Idle {
        fn report(&self) -> Result<ControllersReport, ControllersFailed> {
            ControllersReport::new(["idle"], "shop/quota", "me")
        }

        fn run<'a>(
            &'a self,
            _: &'a ControllersReport,
            _: BoxFuture<'static, ()>,
        ) -> BoxFuture<'a, Result<(), ControllersFailed>> {
            Box::pin(std::future::ready(Ok(())))
        }
    }
    let backend = Backend::from(Filters).with_controllers(Idle);
    let bound = Bound::new(backend, Options::default()).await.unwrap();
    let error = soon(Box::pin(bound.until(std::future::pending()))).await.unwrap_err();
    assert_eq!(error.to_string(), "the controllers ended before the stop");
}

#[tokio::test]
async fn the_controllers_of_a_backend_run_once() {
    let (backend, leaders, mut controllers_stopped) = scripted("quota-sync");
    let bound = async || Bound::new(backend.clone(), Options::default()).await.unwrap();
    let (stop, stopped) = oneshot::channel::<()>();
    let first = tokio::spawn(bound().await.until(async { drop(stopped.await) }));
    // The second one is received when they run.
    for _ in 0..2 {
        soon(leaders.send(None)).await.unwrap();
    }
    let refused = async || {
        let error = soon(Box::pin(bound().await.until(std::future::pending()))).await.unwrap_err();
        assert!(error.to_string().contains("were run already; serve it once"), "{error}");
    };
    refused().await;
    assert!(!first.is_finished());
    drop(stop);
    soon(controllers_stopped.recv()).await.unwrap();
    soon(first).await.unwrap().unwrap();
    refused().await;
}

#[tokio::test]
async fn controllers_with_mistakes_do_not_start() {
    let error = Bound::new(scripted("").0, Options::default()).await.err().unwrap();
    assert!(
        error.to_string().starts_with("invalid controllers: the name of a controller has 0 bytes"),
        "{error}"
    );
}
