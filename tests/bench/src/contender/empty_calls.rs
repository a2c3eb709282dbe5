//! Three empty gRPC calls in parallel: the minimum cost of calling three policies. Each is a health check of a
//! policy that runs in the benchmark, over tonic's own client.

use std::net::SocketAddr;

use extender_harness::request::Verb;
use tokio::runtime::{Builder, Runtime};
use tonic::transport::{Channel, Endpoint};
use tonic_health::pb::{HealthCheckRequest, health_client::HealthClient};

use super::{Contender, Failure};
use crate::{
    case::{Case, Offers, Question},
    pods::Pods,
};

/// Three connected clients.
#[derive(Debug)]
pub struct EmptyCalls {
    runtime: Runtime,
    clients: [HealthClient<Channel>; 3],
}

impl EmptyCalls {
    /// Connects to the three policies.
    pub fn open(policies: [SocketAddr; 3]) -> Result<Self, Failure> {
        let runtime = Builder::new_current_thread().enable_all().build()?;
        let connect = async |policy| {
            let endpoint = Endpoint::from_shared(format!("http://{policy}"))?;
            endpoint.tcp_nodelay(true).connect().await.map(HealthClient::new)
        };
        let [one, two, three] = policies;
        let clients = runtime.block_on(async {
            Ok::<_, tonic::transport::Error>([
                connect(one).await?,
                connect(two).await?,
                connect(three).await?,
            ])
        })?;
        Ok(Self { runtime, clients })
    }

    fn call_all(&mut self) -> Result<(), Failure> {
        let [one, two, three] = &mut self.clients;
        let nothing = HealthCheckRequest::default;
        self.runtime.block_on(async {
            tokio::try_join!(one.check(nothing()), two.check(nothing()), three.check(nothing()))
        })?;
        Ok(())
    }
}

impl Contender for EmptyCalls {
    fn call(&mut self, _: Verb, _: &Question<'_>) -> Result<(), Failure> {
        self.call_all()
    }

    fn warm_up(&mut self, case: &Case, _: &Offers, _: &Pods) -> Result<(), Failure> {
        (0..case.calls / 4).try_for_each(|_| self.call_all())
    }
}
