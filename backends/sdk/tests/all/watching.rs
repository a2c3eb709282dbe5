//! `WatchService` over a real socket: what is told, and how streams end.

use std::{
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering::Relaxed},
    },
    time::Duration,
};

use extender_policy_api::v1beta1::{
    GetInfoRequest, WatchRequest, WatchResponse, policy_service_client::PolicyServiceClient,
    watch_service_client::WatchServiceClient, watch_service_server::SERVICE_NAME,
};
use extender_policy_sdk::{Args, Backend, Info, NotReady, Options, Policy, Verb};
use tonic::{Code, Status, Streaming, transport::Channel};

use crate::{controllers::scripted, running, served, soon};

/// Has this revision, and becomes the next one when it is told.
#[derive(Clone)]
struct Versioned {
    revision: &'static str,
    next: Arc<AtomicBool>,
    ready: Arc<AtomicBool>,
}

fn versioned() -> Versioned {
    Versioned { revision: "first", next: Arc::default(), ready: Arc::new(true.into()) }
}

impl Policy for Versioned {
    fn info(&self) -> Info {
        Info::new("versioned", "1").revision(self.revision).filters(Verb::per_node())
    }

    fn current(&self) -> Option<Box<dyn Policy>> {
        let next = self.next.swap(false, Relaxed);
        next.then(|| Box::new(Self { revision: "next", ..self.clone() }) as Box<dyn Policy>)
    }

    fn ready(&self) -> Result<(), NotReady> {
        if self.ready.load(Relaxed) { Ok(()) } else { Err(NotReady("no prices".to_owned())) }
    }
}

async fn begun(channel: &Channel, args: &'static [u8]) -> Result<Streaming<WatchResponse>, Status> {
    let request = WatchRequest { backend: "b".to_owned(), args: args.into() };
    Ok(soon(WatchServiceClient::new(channel.clone()).watch(request)).await?.into_inner())
}

/// A stream whose first message has come.
async fn watched(channel: &Channel) -> Streaming<WatchResponse> {
    let mut messages = begun(channel, b"").await.unwrap();
    changed(&mut messages).await;
    messages
}

async fn changed(messages: &mut Streaming<WatchResponse>) {
    soon(messages.message()).await.unwrap().unwrap();
}

#[tokio::test]
async fn each_change_is_told_and_nothing_else() {
    let policy = versioned();
    let Versioned { next, ready, .. } = policy.clone();
    let (backend, replace) = Backend::replaceable(policy.clone()).unwrap();
    let channel = served(backend).await;
    let info = PolicyServiceClient::new(channel.clone()).get_info(GetInfoRequest::default()).await.unwrap();
    assert!(info.into_inner().services.iter().any(|service| service == SERVICE_NAME));
    let mut messages = watched(&channel).await;
    next.store(true, Relaxed);
    changed(&mut messages).await;
    ready.store(false, Relaxed);
    changed(&mut messages).await;
    replace.with(policy).unwrap();
    changed(&mut messages).await;
    tokio::time::pause();
    tokio::time::timeout(Duration::from_secs(5), messages.message()).await.unwrap_err();
}

#[tokio::test]
async fn a_change_of_the_leader_is_told() {
    let (backend, leaders, _stopped) = scripted("quota-sync");
    let mut messages = watched(&served(backend).await).await;
    leaders.send(Some("me")).await.unwrap();
    changed(&mut messages).await;
}

#[tokio::test]
async fn what_get_info_refuses_is_refused_alike() {
    let channel = served(Backend::configured(|args: &Args| args.parse::<()>().map(|()| versioned()))).await;
    let status = begun(&channel, b"{\"a\":1}").await.err().unwrap();
    let request = GetInfoRequest { args: (&b"{\"a\":1}"[..]).into(), ..GetInfoRequest::default() };
    let expected = PolicyServiceClient::new(channel).get_info(request).await.unwrap_err();
    assert_eq!((status.code(), status.message()), (Code::InvalidArgument, expected.message()));
}

#[tokio::test]
async fn a_stop_ends_the_stream_and_does_not_wait_for_it() {
    let running =
        running(versioned(), Options { drain: Duration::from_hours(1), ..Options::default() }).await;
    let mut messages = watched(&running.channel).await;
    running.stop.send(()).unwrap();
    assert!(soon(messages.message()).await.unwrap().is_none());
    drop(running.channel);
    soon(running.served).await.unwrap().unwrap();
}

#[tokio::test]
async fn a_stream_that_its_client_leaves_makes_room() {
    let channel = served(versioned()).await;
    let mut open = Vec::new();
    let refused = loop {
        match begun(&channel, b"").await {
            Ok(messages) => open.push(messages),
            Err(status) => break status,
        }
    };
    assert_eq!((refused.code(), open.len()), (Code::ResourceExhausted, 256));
    open.pop();
    soon(async { while begun(&channel, b"").await.is_err() {} }).await;
}
