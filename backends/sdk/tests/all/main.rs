//! The tests of this crate on sockets, as one program: linking takes longer than the tests.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

mod controllers;
mod hooks;
mod introspection;
mod pods;
mod reads;
mod socket;
mod table;
mod telemetry;
mod tls;
mod topology;
mod waiting;
#[cfg(not(any(feature = "otlp", feature = "tls")))]
mod without_features;

use std::time::Duration;

use extender_policy_api::v1alpha1::{GetInfoRequest, VerbInfo, policy_service_client::PolicyServiceClient};
use extender_policy_sdk::{Backend, Bound, Options, testing::TestPod};
use tonic::transport::Channel;

/// A connection to a backend that is served until the end of the test.
async fn served(backend: impl Into<Backend>) -> Channel {
    let bound = Bound::new(backend, Options::default()).await.unwrap();
    let uri = format!("http://{}", bound.address());
    tokio::spawn(bound.until(std::future::pending()));
    Channel::from_shared(uri).unwrap().connect().await.unwrap()
}

/// What the backend declares of its first verb.
async fn declared(channel: &Channel) -> VerbInfo {
    let info = PolicyServiceClient::new(channel.clone()).get_info(GetInfoRequest::default()).await.unwrap();
    info.into_inner().verbs.remove(0)
}

/// Turns a hang into a failure of the test.
async fn soon<F: Future>(future: F) -> F::Output {
    tokio::time::timeout(Duration::from_mins(1), future).await.unwrap()
}

fn web() -> TestPod {
    TestPod::new("shop").label("app", "web").owner("u1").priority_class("high")
}
