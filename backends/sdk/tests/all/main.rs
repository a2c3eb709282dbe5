//! The tests of this crate on sockets, as one program: linking takes longer than the tests.

#![expect(clippy::unwrap_used, clippy::panic, reason = "a test fails by panicking")]

mod calls;
mod controllers;
mod hooks;
mod introspection;
mod outcomes;
mod pods;
mod socket;
mod telemetry;
mod tls;
mod topology;
mod waiting;
mod watching;
#[cfg(not(any(feature = "otlp", feature = "tls")))]
mod without_features;

use std::{net::SocketAddr, time::Duration};

use extender_policy_api::v1beta1::{
    self as api, Call, FilterRequest, GetInfoRequest, NodeRow, NodeRows, Nodes, Pod, PodFacts, Purpose,
    VerbInfo, nodes::Form, policy_service_client::PolicyServiceClient, result::Outcome,
};
use extender_policy_sdk::{Backend, Bound, Options, ServeError, testing::TestPod};
use extender_policy_types::digest::sha256;
use prost::{Message as _, bytes::Bytes};
use tokio::{sync::oneshot, task::JoinHandle};
use tonic::transport::Channel;

/// A backend that is served until it is told to stop, and a connection to it.
struct Running {
    channel: Channel,
    stop: oneshot::Sender<()>,
    served: JoinHandle<Result<(), ServeError>>,
}

async fn running(backend: impl Into<Backend>, options: Options) -> Running {
    served_at(Bound::new(backend, options).await.unwrap()).await
}

async fn served_at(bound: Bound) -> Running {
    let address = bound.address();
    let (stop, stopped) = oneshot::channel();
    let served = tokio::spawn(bound.until(async { drop(stopped.await) }));
    Running { channel: connected(address).await, stop, served }
}

async fn connected(address: SocketAddr) -> Channel {
    Channel::from_shared(format!("http://{address}")).unwrap().connect().await.unwrap()
}

/// A connection to a backend that is served until the end of the test.
async fn served(backend: impl Into<Backend>) -> Channel {
    let bound = Bound::new(backend, Options::default()).await.unwrap();
    let address = bound.address();
    tokio::spawn(bound.until(std::future::pending()));
    connected(address).await
}

/// What the backend declares of its first verb.
async fn declared(channel: &Channel) -> VerbInfo {
    let info = PolicyServiceClient::new(channel.clone()).get_info(GetInfoRequest::default()).await.unwrap();
    info.into_inner().verbs.remove(0)
}

/// `Call.reads` of requests for what is declared.
fn reads_of(declared: &VerbInfo) -> Bytes {
    digest(declared.reads.as_ref().unwrap())
}

fn digest(reads: &api::Reads) -> Bytes {
    sha256(&reads.encode_to_vec()).to_vec().into()
}

/// What `Reads::everything` declares.
fn everything() -> api::Reads {
    let pod = Some(api::PodReads { everything: true, ..api::PodReads::default() });
    api::Reads { pod, node: Some(api::NodeReads { everything: true, ..api::NodeReads::default() }) }
}

/// `Result.evaluated` of an answer.
fn evaluated(result: Option<api::Result>) -> u32 {
    match result.unwrap().outcome {
        Some(Outcome::Evaluated(count)) => count,
        other => panic!("no answer: {other:?}"),
    }
}

/// A call for a decision of a verb that reads everything.
fn call() -> Call {
    call_reading(&everything())
}

/// The same of one that reads this.
fn call_reading(reads: &api::Reads) -> Call {
    Call { purpose: Purpose::Decide.into(), reads: digest(reads), ..Call::default() }
}

/// About a pod with these facts and these nodes, for a verb that reads everything.
fn filter_request(facts: PodFacts, rows: Vec<NodeRow>) -> FilterRequest {
    let count = rows.len().try_into().unwrap();
    FilterRequest {
        call: Some(call()),
        pod: Some(Pod { facts: Some(facts), ..Pod::default() }),
        nodes: Some(Nodes { count, form: Some(Form::Rows(NodeRows { rows })) }),
        want_scores: false,
    }
}

/// The facts of a pod of this namespace.
fn of_namespace(namespace: &str) -> PodFacts {
    PodFacts { namespace: namespace.to_owned(), ..PodFacts::default() }
}

/// Turns a hang into a failure of the test.
fn soon<F: Future>(future: F) -> impl Future<Output = F::Output> {
    // On the heap: the future of a call holds its request.
    let future = Box::pin(future);
    async { tokio::time::timeout(Duration::from_mins(1), future).await.unwrap() }
}

fn web() -> TestPod {
    TestPod::new("shop").label("app", "web").owner("u1").priority_class("high")
}
