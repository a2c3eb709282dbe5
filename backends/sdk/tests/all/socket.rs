//! A policy over a real socket: the generated client, health, reflection, limits and draining.

use std::{sync::Arc, time::Duration};

use extender_policy_api::v1beta1::{
    BindRequest, Call, Candidate, FilterRequest, GetInfoRequest, MapValues, NodeFacts, NodeReads, NodeRow,
    PodFacts, PreemptRequest, Reads as Declared, SyncNodesRequest,
    node_table_service_client::NodeTableServiceClient, policy_service_client::PolicyServiceClient,
    policy_service_server::SERVICE_NAME,
};
use extender_policy_sdk::{
    Backend, Bind, BindAsk, Bound, BoxFuture, Info, Node, Options, Pod, Policy, Reads, ServeError,
    Unanswered, Verb, Verdict,
};
use tokio::sync::Semaphore;
use tokio_stream::StreamExt as _;
use tonic::Code;
use tonic_health::pb::{
    HealthCheckRequest, health_check_response::ServingStatus, health_client::HealthClient,
};

use crate::{
    Running, call_reading, connected, declared, evaluated, filter_request, reads_of, running, served, soon,
};

struct NoArm;

impl Policy for NoArm {
    fn info(&self) -> Info {
        Info::new("no-arm", "1").filters(Verb::per_node().pure().reads(&Reads::everything()))
    }

    fn filter(&self, _: &Pod<'_>, node: &Node<'_>) -> Verdict {
        match node.label("arch") {
            Some("arm64") => Verdict::reject("arm64"),
            _ => Verdict::Accept,
        }
    }
}

/// The policy with this time for draining.
async fn no_arm(drain: Duration) -> Running {
    running(NoArm, Options { drain, ..Options::default() }).await
}

fn request(nodes: u32) -> FilterRequest {
    let row = |position: u32| {
        let arch = if position.is_multiple_of(2) { "amd64" } else { "arm64" };
        let entries = [("arch".to_owned(), arch.to_owned())].into();
        let labels = Some(MapValues { entries, ..MapValues::default() });
        let facts = NodeFacts { labels, ..NodeFacts::default() };
        NodeRow { name: format!("node-{position}"), facts: Some(facts), ..NodeRow::default() }
    };
    filter_request(PodFacts::default(), (0..nodes).map(row).collect())
}

#[tokio::test]
async fn the_policy_answers_a_generated_client() {
    let running = no_arm(Duration::from_secs(10)).await;
    let mut client = PolicyServiceClient::new(running.channel);
    let info = client.get_info(GetInfoRequest::default()).await.unwrap().into_inner();
    assert_eq!((&*info.name, info.verbs.len(), info.max_request_bytes), ("no-arm", 1, 64 << 20));
    let answer = client.filter(request(3)).await.unwrap().into_inner();
    assert_eq!(evaluated(answer.result), 3);
    assert_eq!(answer.rejections[0].positions, [1]);
    let FilterRequest { call, pod, nodes, .. } = request(1);
    let preempt = PreemptRequest { call, pod, nodes, candidates: vec![Candidate::default()] };
    let preempt = client.preempt(preempt).await.unwrap_err();
    let call = Some(crate::call());
    let bind = client.bind(BindRequest { call, ..BindRequest::default() }).await.unwrap_err();
    assert_eq!((preempt.code(), bind.code()), (Code::Unimplemented, Code::Unimplemented));
}

/// Binds pod `fast` at once and others never; says when it was asked.
struct Slow {
    asked: Arc<Semaphore>,
}

impl Policy for Slow {
    fn info(&self) -> Info {
        Info::new("slow", "1").binds()
    }

    fn bind<'a>(&'a self, ask: BindAsk<'a>) -> BoxFuture<'a, Result<Bind, Unanswered>> {
        self.asked.add_permits(1);
        Box::pin(
            async move { if ask.name() == "fast" { Ok(Bind::Bound) } else { std::future::pending().await } },
        )
    }
}

#[tokio::test]
async fn a_bind_that_waits_holds_up_no_other_and_ends_with_its_time() {
    let asked = Arc::new(Semaphore::new(0));
    let mut client = PolicyServiceClient::new(served(Slow { asked: Arc::clone(&asked) }).await);
    let request = |name: &str| BindRequest {
        call: Some(call_reading(&Declared::default())),
        namespace: "shop".into(),
        name: name.into(),
        uid: "u-1".into(),
        node: "a".into(),
        pod: None,
    };
    let waiting = tokio::spawn({
        let (mut client, mut request) = (client.clone(), tonic::Request::new(request("slow")));
        request.set_timeout(Duration::from_mins(1));
        async move { client.bind(request).await }
    });
    soon(asked.acquire()).await.unwrap().forget();
    let answer = soon(client.bind(request("fast"))).await.unwrap().into_inner();
    assert_eq!(answer.outcome, 1);
    // As if that time had passed.
    tokio::time::pause();
    tokio::time::advance(Duration::from_mins(1)).await;
    tokio::time::resume();
    let late = soon(waiting).await.unwrap().unwrap_err();
    assert!(matches!(late.code(), Code::Cancelled | Code::DeadlineExceeded), "{late}");
}

#[tokio::test]
async fn a_policy_reads_the_names_of_the_snapshot_and_the_cluster() {
    struct Named;
    impl Policy for Named {
        fn info(&self) -> Info {
            Info::new("named", "1").filters(Verb::per_node())
        }
        fn filter(&self, pod: &Pod<'_>, _: &Node<'_>) -> Verdict {
            Verdict::reject(format!("snapshot {:?} of {:?}", pod.snapshot(), pod.cluster()))
        }
    }
    let channel = served(Named).await;
    let reads = reads_of(&declared(&channel).await);
    let mut client = PolicyServiceClient::new(channel);
    for (snapshot, cluster) in [("", ""), ("s-7", ""), ("s-8", "blue")] {
        let mut request = request(1);
        let (snapshot, cluster) = (snapshot.to_owned(), cluster.to_owned());
        let expected = format!("snapshot {snapshot:?} of {cluster:?}");
        let call = Call { snapshot, cluster, reads: reads.clone(), ..request.call.unwrap() };
        request.call = Some(call);
        let answer = soon(client.filter(request)).await.unwrap().into_inner();
        assert_eq!(answer.rejections[0].reason, expected);
    }
}

#[tokio::test]
async fn requests_over_the_usual_four_megabytes_pass_and_over_the_declared_limit_do_not() {
    let running = no_arm(Duration::from_secs(10)).await;
    let mut client = PolicyServiceClient::new(running.channel);
    let padded = |bytes: usize| {
        let mut request = request(2);
        request.pod.as_mut().unwrap().raw_json = vec![b' '; bytes].into();
        request
    };
    assert!(client.filter(padded(8 << 20)).await.is_ok());
    assert_eq!(client.filter(padded(64 << 20)).await.unwrap_err().code(), Code::OutOfRange);
}

#[tokio::test]
async fn health_is_told_for_the_process_and_the_service_until_draining() {
    let running = no_arm(Duration::from_secs(10)).await;
    let mut health = HealthClient::new(running.channel);
    let about = |service: &str| HealthCheckRequest { service: service.into() };
    for service in ["", SERVICE_NAME] {
        let answer = health.check(about(service)).await.unwrap().into_inner();
        assert_eq!(answer.status(), ServingStatus::Serving, "{service:?}");
    }
    assert_eq!(health.check(about("other")).await.unwrap_err().code(), Code::NotFound);
    let mut watched = health.watch(about("")).await.unwrap().into_inner();
    assert_eq!(watched.next().await.unwrap().unwrap().status(), ServingStatus::Serving);
    running.stop.send(()).unwrap();
    assert_eq!(watched.next().await.unwrap().unwrap().status(), ServingStatus::NotServing);
    // The end of the stream lets draining finish long before its limit.
    assert!(soon(watched.next()).await.is_none());
    drop(health);
    running.served.await.unwrap().unwrap();
}

/// The services that reflection lists: `$version` is a module of tonic-reflection's messages.
#[cfg(feature = "reflection")]
macro_rules! reflected {
    ($version:ident, $channel:expr) => {{
        use tonic_reflection::pb::$version::{
            ServerReflectionRequest, server_reflection_client::ServerReflectionClient,
            server_reflection_request::MessageRequest, server_reflection_response::MessageResponse,
        };
        let message_request = Some(MessageRequest::ListServices(String::new()));
        let request = ServerReflectionRequest { message_request, ..Default::default() };
        let mut client = ServerReflectionClient::new($channel);
        let mut answers =
            client.server_reflection_info(tokio_stream::once(request)).await.unwrap().into_inner();
        let answer = answers.next().await.unwrap().unwrap();
        let Some(MessageResponse::ListServicesResponse(list)) = answer.message_response else {
            panic!("{answer:?}")
        };
        list.service.into_iter().map(|service| service.name).collect::<Vec<_>>()
    }};
}

#[cfg(feature = "reflection")]
#[tokio::test]
async fn reflection_lists_the_services_in_both_versions() {
    use extender_policy_api::v1beta1::{introspection_service_server, node_table_service_server};

    let running = no_arm(Duration::from_secs(10)).await;
    let v1 = reflected!(v1, running.channel.clone());
    let v1alpha = reflected!(v1alpha, running.channel);
    for services in [v1, v1alpha] {
        for expected in [
            SERVICE_NAME,
            node_table_service_server::SERVICE_NAME,
            introspection_service_server::SERVICE_NAME,
            "grpc.health.v1.Health",
        ] {
            assert!(services.iter().any(|service| service == expected), "{expected} is not in {services:?}");
        }
    }
}

#[cfg(feature = "reflection")]
#[tokio::test]
async fn draining_ends_at_its_limit_though_a_client_holds_a_call() {
    let running = no_arm(Duration::ZERO).await;
    let mut reflection =
        tonic_reflection::pb::v1::server_reflection_client::ServerReflectionClient::new(running.channel);
    let _held = reflection.server_reflection_info(tokio_stream::pending()).await.unwrap();
    running.stop.send(()).unwrap();
    soon(running.served).await.unwrap().unwrap();
}

#[tokio::test]
async fn an_open_table_does_not_hold_up_draining() {
    let running = no_arm(Duration::from_hours(1)).await;
    let first = SyncNodesRequest {
        table: "t-5".to_owned(),
        version: 1,
        reads: Some(NodeReads { everything: true, ..NodeReads::default() }),
        ..SyncNodesRequest::default()
    };
    let messages = tokio_stream::once(first).chain(tokio_stream::pending());
    let mut tables = NodeTableServiceClient::new(running.channel);
    let mut applied = soon(tables.sync_nodes(messages)).await.unwrap().into_inner();
    assert_eq!(soon(applied.message()).await.unwrap().unwrap().applied, 1);
    running.stop.send(()).unwrap();
    let end = soon(applied.message()).await.unwrap_err();
    assert_eq!((end.code(), end.message()), (Code::Unavailable, "this backend is shutting down"));
    drop(tables);
    soon(running.served).await.unwrap().unwrap();
}

#[tokio::test]
async fn strangers_get_no_policy_that_binds() {
    fn open() -> Options {
        Options { address: ([0, 0, 0, 0], 0).into(), ..Options::default() }
    }
    fn binder() -> Slow {
        Slow { asked: Arc::new(Semaphore::new(0)) }
    }
    let refused = |error: Option<ServeError>| {
        let text = error.unwrap().to_string();
        assert!(
            text.starts_with("0.0.0.0:0 is reached from other machines without a client certificate"),
            "{text}"
        );
        assert!(
            text.ends_with("set --tls-client-ca or a loopback --address, or --allow-unauthenticated-bind"),
            "{text}"
        );
    };
    refused(Bound::new(binder(), open()).await.err());
    let powerful = Backend::from(NoArm).requires_client_certificates("read files");
    refused(Bound::new(powerful, open()).await.err());
    for (backend, options) in [
        (Backend::from(binder()), Options::default()),
        (binder().into(), Options { allow_unauthenticated_bind: true, ..open() }),
        (NoArm.into(), open()),
    ] {
        Bound::new(backend, options).await.unwrap();
    }
    // Whether one that is built from args binds is known when it is called.
    let configured = Backend::configured(|_| Ok(binder()));
    let bound = Bound::new(configured, open()).await.unwrap();
    let address = ([127, 0, 0, 1], bound.address().port()).into();
    tokio::spawn(bound.until(std::future::pending()));
    let mut client = PolicyServiceClient::new(connected(address).await);
    let info = client.get_info(GetInfoRequest::default()).await.unwrap_err();
    let bind = client.bind(BindRequest::default()).await.unwrap_err();
    for status in [info, bind] {
        assert_eq!(status.code(), Code::FailedPrecondition, "{status}");
        assert!(status.message().contains("callers of this policy can bind pods"), "{status}");
    }
}

#[tokio::test]
async fn a_start_that_fails_says_why() {
    struct Nothing;
    impl Policy for Nothing {
        fn info(&self) -> Info {
            Info::new("nothing", "1")
        }
    }
    let error = Bound::new(Nothing, Options::default()).await.err().unwrap();
    assert!(error.to_string().contains("no verb is declared"), "{error}");
    let first = Bound::new(NoArm, Options::default()).await.unwrap();
    let taken = Options { address: first.address(), ..Options::default() };
    let error = Bound::new(NoArm, taken).await.err().unwrap();
    assert!(error.to_string().starts_with(&format!("cannot listen on {}", first.address())), "{error}");
}
