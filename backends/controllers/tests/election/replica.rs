//! A replica of a backend with controllers, on a real socket.

use std::time::Duration;

use extender_policy_api::v1beta1::{
    Controllers as Reported, GetInfoRequest, policy_service_client::PolicyServiceClient,
};
use extender_policy_controllers::{Controllers, LeaseName, Timing};
use extender_policy_sdk::{Backend, Bound, Info, Options, Policy, ServeError, Verb};
use tokio::{sync::oneshot, task::JoinHandle};
use tonic::transport::Channel;
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use super::apiserver::Apiserver;

struct Quotas;

impl Policy for Quotas {
    fn info(&self) -> Info {
        Info::new("quotas", "1").filters(Verb::per_node())
    }
}

/// No controller yet, in a short election.
pub(crate) fn controllers(apiserver: &Apiserver, identity: &str) -> Controllers {
    let timing = [2_000, 1_400, 150].map(Duration::from_millis);
    let url = format!("http://{}", apiserver.address);
    Controllers::new(LeaseName::new("shop", "quota"))
        .identity(identity)
        .timing(Timing::new(timing[0], timing[1], timing[2]).unwrap())
        .apiserver(kube::Config::new(url.parse().unwrap()))
}

pub(crate) struct Replica {
    channel: Channel,
    stop: oneshot::Sender<()>,
    served: JoinHandle<Result<(), ServeError>>,
}

impl Replica {
    pub(crate) async fn start(controllers: Controllers) -> Self {
        let backend = Backend::from(Quotas).with_controllers(controllers);
        let options = Options { drain: Duration::ZERO, ..Options::default() };
        let bound = Bound::new(backend, options).await.unwrap();
        let channel = Channel::from_shared(format!("http://{}", bound.address())).unwrap();
        let (stop, stopped) = oneshot::channel();
        let served = tokio::spawn(bound.until(async { drop(stopped.await) }));
        Self { channel: channel.connect_lazy(), stop, served }
    }

    /// What its handshake says.
    pub(crate) async fn controllers(&self) -> Reported {
        let mut client = PolicyServiceClient::new(self.channel.clone());
        let info = soon(client.get_info(GetInfoRequest::default())).await.unwrap();
        info.into_inner().controllers.unwrap()
    }

    pub(crate) async fn is_led_by(&self, leader: &str) {
        eventually(async || (self.controllers().await.leader == leader).then_some(())).await;
    }

    pub(crate) async fn health(&self) -> ServingStatus {
        let mut client = HealthClient::new(self.channel.clone());
        let service = "extender.policy.v1beta1.Controllers".to_owned();
        soon(client.check(HealthCheckRequest { service })).await.unwrap().into_inner().status()
    }

    /// As a signal does.
    pub(crate) async fn stop(self) -> Result<(), ServeError> {
        let Self { channel, stop, served } = self;
        drop((channel, stop));
        soon(served).await.unwrap()
    }

    /// The end of the process.
    pub(crate) async fn served(self) -> Result<(), ServeError> {
        // Open: the replica ends by itself.
        let _stop = self.stop;
        self.served.await.unwrap()
    }

    pub(crate) fn begin_stop(&mut self) {
        let (stop, _) = oneshot::channel();
        drop(std::mem::replace(&mut self.stop, stop));
    }
}

/// Turns a hang into a failure of the test.
pub(crate) async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_secs(30), future).await.unwrap()
}

/// Waits until there is an answer.
pub(crate) async fn eventually<T>(answer: impl AsyncFn() -> Option<T>) -> T {
    soon(async {
        loop {
            if let Some(answer) = answer().await {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(5)).await;
        }
    })
    .await
}
