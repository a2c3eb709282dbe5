//! Calls that a gateway traces: what a real collector receives.

#![cfg(feature = "otlp")]

use std::{collections::BTreeMap, sync::Arc};

use extender_collector::{Collector, ReceivedSpan};
use extender_policy_api::v1beta1::{
    self as api, BindRequest, Call, ChangeRequest, FilterRequest, GetInfoRequest, NodeFacts, NodeRow,
    ScoreRequest, hook_service_client::HookServiceClient, policy_service_client::PolicyServiceClient,
};
use extender_policy_sdk::{
    Args, Backend, Bind, BindAsk, BindFailed, Bound, BoxFuture, ChangedPart, Hook, Info, Node, NodeChange,
    Nodes, NotReady, Options, Pod, PodChange, Policy, Reads, Scale, ServeError, Telemetry, Unanswered, Verb,
    Verdict, trace,
};
use tokio::sync::Semaphore;
use tonic::{Request, transport::Channel};

use crate::{Running, digest, everything, filter_request, of_namespace, running, soon};

/// Does what the namespace of the pod says.
struct Obedient {
    asked: Arc<Semaphore>,
}

impl Default for Obedient {
    fn default() -> Self {
        Self { asked: Arc::new(Semaphore::new(0)) }
    }
}

impl Policy for Obedient {
    fn info(&self) -> Info {
        let verb = || Verb::per_node().reads(&Reads::everything());
        Info::new("obedient", "1.2")
            .revision("rules-7")
            .filters(verb())
            .scores(verb(), Scale::unbounded())
            .binds()
    }

    fn filter(&self, _: &Pod<'_>, node: &Node<'_>) -> Verdict {
        if node.name() == "node-1" { Verdict::reject("no") } else { Verdict::Accept }
    }

    fn filter_all(&self, pod: &Pod<'_>, nodes: &Nodes<'_>) -> Vec<Verdict> {
        assert_ne!(pod.namespace(), "panic", "as asked");
        trace::attribute("acme.tenant", "first");
        trace::attribute("acme.tenant", pod.namespace());
        trace::attribute("acme.share", 0.5);
        trace::attribute("acme.last", true);
        trace::event("prices read");
        if pod.namespace() == "much" {
            (0..1000).for_each(|n| trace::attribute(format!("acme.{n}"), n));
            (0..1000).for_each(|_| trace::event("again"));
        }
        nodes.iter().map(|node| self.filter(pod, &node)).collect()
    }

    fn bind<'a>(&'a self, ask: BindAsk<'a>) -> BoxFuture<'a, Result<Bind, Unanswered>> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            trace::attribute("acme.traceparent", trace::traceparent().unwrap_or_default());
            self.asked.add_permits(1);
            match ask.name() {
                "slow" => std::future::pending().await,
                "failed" => Err(BindFailed("the apiserver is away".into()).into()),
                _ => Ok(Bind::Bound),
            }
        })
    }
}

/// Has lost its data.
struct Unready;

impl Policy for Unready {
    fn info(&self) -> Info {
        Info::new("unready", "1").filters(Verb::per_node().reads(&Reads::everything()))
    }

    fn ready(&self) -> Result<(), NotReady> {
        Err(NotReady("the price list is a day old".into()))
    }
}

/// A backend with these variables.
struct Traced {
    client: PolicyServiceClient<Channel>,
    running: Running,
}

impl Traced {
    async fn start(backend: impl Into<Backend>, variables: &[(&str, &str)]) -> Self {
        let telemetry = Telemetry::variables(variables.iter().copied());
        let running = running(backend, Options { telemetry, ..Options::default() }).await;
        Self { client: PolicyServiceClient::new(running.channel.clone()), running }
    }

    /// The same that sends its spans to this collector when it ends.
    async fn by_grpc(backend: impl Into<Backend>, collector: &Collector) -> Self {
        Self::start(backend, &[("OTEL_EXPORTER_OTLP_ENDPOINT", &collector.endpoint()), GRPC, LATE]).await
    }

    /// Ends the backend, which sends the queued spans.
    async fn ended(self) {
        let Running { channel, stop, served } = self.running;
        drop((self.client, channel));
        stop.send(()).unwrap();
        soon(served).await.unwrap().unwrap();
    }
}

/// Only the end of the backend sends spans.
const LATE: (&str, &str) = ("OTEL_BSP_SCHEDULE_DELAY", "3600000");
const GRPC: (&str, &str) = ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc");
const SAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const UNSAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

fn traced<T>(traceparent: &str, message: T) -> Request<T> {
    let mut request = Request::new(message);
    request.metadata_mut().insert("traceparent", traceparent.parse().unwrap());
    request
}

fn call() -> Call {
    Call { id: "c-17".into(), backend: "drain".into(), ..crate::call() }
}

fn filter(namespace: &str) -> FilterRequest {
    let row = |position: u32| NodeRow {
        name: format!("node-{position}"),
        facts: Some(NodeFacts::default()),
        ..NodeRow::default()
    };
    let request = filter_request(of_namespace(namespace), (0..3).map(row).collect());
    FilterRequest { call: Some(call()), ..request }
}

fn bind(name: &str) -> BindRequest {
    let (namespace, name, uid, node) = ("shop".into(), name.into(), "u-1".into(), "a".into());
    let call = Some(Call { reads: digest(&api::Reads::default()), ..call() });
    BindRequest { call, namespace, name, uid, node, pod: None }
}

fn attributes(expected: &[(&str, &str)]) -> BTreeMap<String, String> {
    expected.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// What all spans of [`SAMPLED`] have in common.
fn assert_continues(received: &ReceivedSpan, name: &str) {
    let span = &received.span;
    assert_eq!(span.name, format!("extender.policy.v1beta1.PolicyService/{name}"));
    assert_eq!(span.trace_id, 0x0af7_6519_16cd_43dd_8448_eb21_1c80_319c_u128.to_be_bytes());
    assert_eq!(span.parent_span_id, 0xb7ad_6b71_6920_3331_u64.to_be_bytes());
    assert!(span.span_id != span.parent_span_id && span.span_id.iter().any(|byte| *byte != 0));
    // Server; sampled, with a parent of another process.
    assert_eq!((span.kind, span.flags), (2, 0x301));
    assert!(span.start_time_unix_nano > 0 && span.end_time_unix_nano >= span.start_time_unix_nano);
    assert_eq!(received.scope.0, "extender-policy-sdk");
    for (key, value) in [("rpc.system.name", "grpc"), ("rpc.method", &span.name)] {
        assert_eq!(received.attributes[key], value);
    }
}

fn status(received: &ReceivedSpan) -> (i32, &str) {
    received.span.status.as_ref().map(|status| (status.code, &*status.message)).unwrap_or_default()
}

#[tokio::test]
async fn a_traced_call_is_continued_with_what_is_known_about_it() {
    let collector = Collector::grpc().unwrap();
    let mut running = Traced::by_grpc(Obedient::default(), &collector).await;
    let mut request = traced(SAMPLED, filter("shop"));
    request.metadata_mut().insert("tracestate", "vendor=1".parse().unwrap());
    running.client.filter(request).await.unwrap();
    running.ended().await;
    assert_eq!(collector.count(), 1, "the end of the backend sends what waits");
    let received = &collector.spans(1).await[0];
    assert_continues(received, "Filter");
    assert_eq!((status(received), &*received.span.trace_state), ((0, ""), "vendor=1"));
    assert_eq!(
        received.attributes,
        attributes(&[
            ("rpc.system.name", "grpc"),
            ("rpc.method", "extender.policy.v1beta1.PolicyService/Filter"),
            ("rpc.response.status_code", "OK"),
            ("extender.policy.name", "obedient"),
            ("extender.policy.revision", "rules-7"),
            ("extender.backend.name", "drain"),
            ("extender.call.id", "c-17"),
            ("extender.nodes.evaluated", "3"),
            ("extender.nodes.rejected", "1"),
            ("acme.tenant", "shop"),
            ("acme.share", "0.5"),
            ("acme.last", "true"),
        ])
    );
    assert_eq!(received.events(), [("prices read".to_owned(), BTreeMap::new())]);
    assert_eq!(
        (&*received.resource["service.name"], &*received.resource["service.version"]),
        ("obedient", "1.2")
    );
}

/// Changes one node, and no pod.
struct Hooked;

impl Policy for Hooked {
    fn info(&self) -> Info {
        let nodes = || Hook::changes([ChangedPart::NodeLabels]).reads(&Reads::everything());
        Info::new("hooked", "1")
            .revision("1")
            .before_filter(Hook::changes([ChangedPart::PodLabels]).reads(&Reads::everything()))
            .before_filter_nodes(nodes())
            .before_score(nodes())
    }

    fn before_filter_node(&self, _: &Pod<'_>, node: &Node<'_>) -> NodeChange {
        if node.name() == "node-1" { NodeChange::none().set_label("seen", "") } else { NodeChange::none() }
    }

    fn before_filter(&self, _: &Pod<'_>) -> PodChange {
        PodChange::none()
    }

    fn before_score(&self, _: &Pod<'_>, nodes: &Nodes<'_>) -> (PodChange, Vec<NodeChange>) {
        (PodChange::none(), nodes.iter().map(|_| NodeChange::none()).collect())
    }
}

#[tokio::test]
async fn hooks_are_continued_like_verbs() {
    let collector = Collector::grpc().unwrap();
    let running = Traced::by_grpc(Hooked, &collector).await;
    let mut hooks = HookServiceClient::new(running.running.channel.clone());
    let FilterRequest { call, pod, nodes, .. } = filter("shop");
    let call = call.map(|call| Call { cluster: "blue".to_owned(), ..call });
    for (hook, nodes) in [
        (api::Verb::BeforeFilter, None),
        (api::Verb::BeforeFilterNodes, nodes.clone()),
        (api::Verb::BeforeScore, nodes),
    ] {
        let node = everything().node.filter(|_| nodes.is_some());
        let reads = digest(&api::Reads { node, ..everything() });
        let call = call.clone().map(|call| Call { reads, ..call });
        let request = ChangeRequest { call, pod: pod.clone(), nodes, hook: hook.into() };
        hooks.change(traced(SAMPLED, request)).await.unwrap();
    }
    drop(hooks);
    running.ended().await;
    let received = collector.spans(3).await;
    for (hook, evaluated) in [("beforeFilter", "1"), ("beforeFilterNodes", "3"), ("beforeScore", "3")] {
        let method = "extender.policy.v1beta1.HookService/Change";
        let span =
            received.iter().find(|span| span.attributes.get("extender.hook").is_some_and(|is| is == hook));
        let span = span.unwrap();
        assert_eq!(span.span.name, method);
        assert_eq!(
            span.attributes,
            attributes(&[
                ("rpc.system.name", "grpc"),
                ("rpc.method", method),
                ("extender.hook", hook),
                ("extender.cluster.name", "blue"),
                ("rpc.response.status_code", "OK"),
                ("extender.policy.name", "hooked"),
                ("extender.policy.revision", "1"),
                ("extender.backend.name", "drain"),
                ("extender.call.id", "c-17"),
                ("extender.nodes.evaluated", evaluated),
            ])
        );
    }
}

#[tokio::test]
async fn what_is_not_traced_or_cannot_be_read_is_served_and_not_sent() {
    let collector = Collector::grpc().unwrap();
    let mut running = Traced::by_grpc(Obedient::default(), &collector).await;
    running.client.filter(filter("untraced")).await.unwrap();
    for traceparent in [UNSAMPLED, "", "00-nonsense", &SAMPLED.to_uppercase(), &SAMPLED.replace("00-", "ff-")]
    {
        running.client.filter(traced(traceparent, filter("untraced"))).await.unwrap();
    }
    let mut twice = traced(SAMPLED, filter("untraced"));
    twice.metadata_mut().append("traceparent", SAMPLED.parse().unwrap());
    running.client.filter(twice).await.unwrap();
    running.client.get_info(traced(SAMPLED, GetInfoRequest::default())).await.unwrap();
    running.client.filter(traced(SAMPLED, filter("traced"))).await.unwrap();
    running.ended().await;
    let received = collector.spans(1).await;
    let tenants: Vec<_> = received.iter().map(|span| &*span.attributes["acme.tenant"]).collect();
    assert_eq!(tenants, ["traced"]);
}

#[tokio::test]
async fn a_call_that_fails_is_an_error_with_its_code() {
    let collector = Collector::grpc().unwrap();
    let mut running = Traced::by_grpc(Obedient::default(), &collector).await;
    let mut unready = Traced::by_grpc(Unready, &collector).await;
    unready.client.filter(traced(SAMPLED, filter("shop"))).await.unwrap_err();
    unready.ended().await;
    running.client.filter(traced(SAMPLED, filter("panic"))).await.unwrap_err();
    running.client.score(traced(SAMPLED, ScoreRequest::default())).await.unwrap_err();
    running.client.bind(traced(SAMPLED, bind("failed"))).await.unwrap_err();
    // The thread that a policy panicked on answers the next call without its notes.
    running.client.filter(traced(SAMPLED, filter("shop"))).await.unwrap();
    running.ended().await;
    let received = collector.spans(5).await;
    let expected = [
        ("Filter", "UNAVAILABLE", "UNAVAILABLE: the price list is a day old", "unready"),
        ("Filter", "INTERNAL", "INTERNAL: filter failed; see", "obedient"),
        ("Score", "INVALID_ARGUMENT", "INVALID_ARGUMENT: call is missing; every request has it", ""),
        ("Bind", "UNAVAILABLE", "UNAVAILABLE: the apiserver is away", "obedient"),
    ];
    for (received, (name, code, message, policy)) in received.iter().zip(expected) {
        assert_continues(received, name);
        assert_eq!(status(received).0, 2);
        assert!(status(received).1.starts_with(message), "{:?}", status(received));
        assert_eq!(
            (&*received.attributes["rpc.response.status_code"], &*received.attributes["error.type"]),
            (code, code)
        );
        assert_eq!(received.attributes.get("extender.policy.name").map_or("", |name| name), policy);
    }
    assert_eq!(received[4].attributes["acme.tenant"], "shop");
    assert!(!received[4].attributes.contains_key("error.type"));
}

#[tokio::test]
async fn a_bind_is_followed_while_it_waits_and_when_the_caller_gives_up() {
    let collector = Collector::http().unwrap();
    let endpoint = collector.endpoint();
    let variables = [("OTEL_EXPORTER_OTLP_ENDPOINT", &*endpoint), LATE];
    let asked = Arc::new(Semaphore::new(0));
    let mut running = Traced::start(Obedient { asked: Arc::clone(&asked) }, &variables).await;
    running.client.bind(traced(SAMPLED, bind("bound"))).await.unwrap();
    soon(asked.acquire()).await.unwrap().forget();
    let mut client = running.client.clone();
    let waiting = tokio::spawn(async move { client.bind(traced(SAMPLED, bind("slow"))).await });
    soon(asked.acquire()).await.unwrap().forget();
    // Other calls are answered meanwhile, and neither sees the notes of the other.
    running.client.filter(traced(SAMPLED, filter("shop"))).await.unwrap();
    waiting.abort();
    drop(waiting.await);
    running.ended().await;
    let mut received = collector.spans(3).await;
    received.sort_by_key(|received| received.span.start_time_unix_nano);
    let [bound, canceled, filter] = &*received else { panic!("{received:?}") };
    for bind in [bound, canceled] {
        assert_continues(bind, "Bind");
        let own = u64::from_be_bytes(bind.span.span_id.clone().try_into().unwrap());
        assert_eq!(
            bind.attributes["acme.traceparent"],
            SAMPLED.replace("b7ad6b7169203331", &format!("{own:016x}"))
        );
        assert!(!bind.attributes.contains_key("acme.tenant"));
    }
    assert_eq!(status(bound), (0, ""));
    assert_eq!((status(canceled), &*canceled.attributes["rpc.response.status_code"]), ((0, ""), "CANCELLED"));
    assert!(!canceled.attributes.contains_key("error.type"));
    assert!(!filter.attributes.contains_key("acme.traceparent"));
}

#[tokio::test]
async fn a_policy_cannot_make_a_span_large() {
    let collector = Collector::grpc().unwrap();
    let mut running = Traced::by_grpc(Obedient::default(), &collector).await;
    running.client.filter(traced(SAMPLED, filter("much"))).await.unwrap();
    running.ended().await;
    let received = &collector.spans(1).await[0];
    assert!(received.attributes.len() <= 140 && received.span.events.len() <= 128);
}

#[tokio::test]
async fn variables_decide_what_is_sent_and_who_sends() {
    let collector = Collector::grpc().unwrap();
    let endpoint = collector.endpoint();
    let sent = |more: &'static [(&'static str, &'static str)]| {
        let mut variables = vec![("OTEL_EXPORTER_OTLP_ENDPOINT", &*endpoint), GRPC, LATE];
        variables.extend(more);
        let collector = &collector;
        async move {
            let before = collector.count();
            let backend = Backend::configured(|_: &Args| Ok(Obedient::default()));
            let mut running = Traced::start(backend, &variables).await;
            running.client.filter(traced(SAMPLED, filter("shop"))).await.unwrap();
            running.client.filter(traced(UNSAMPLED, filter("shop"))).await.unwrap();
            running.ended().await;
            collector.spans(before).await.split_off(before)
        }
    };
    assert!(sent(&[("OTEL_SDK_DISABLED", "true")]).await.is_empty());
    assert!(sent(&[("OTEL_TRACES_SAMPLER", "always_off")]).await.is_empty());
    let named = sent(&[("OTEL_SERVICE_NAME", "mine"), ("OTEL_RESOURCE_ATTRIBUTES", "k8s.pod.name=p")]).await;
    assert_eq!((&*named[0].resource["service.name"], &*named[0].resource["k8s.pod.name"]), ("mine", "p"));
    // For a backend built from args the service is named after the program, and the span names the policy.
    let plain = sent(&[]).await;
    assert!(plain[0].resource["service.name"].starts_with("all-"), "{:?}", plain[0].resource);
    assert_eq!(plain[0].attributes["extender.policy.name"], "obedient");
}

#[tokio::test]
async fn a_wrong_variable_counts_as_unset_and_a_missing_file_ends_the_start() {
    let start = async |variables: &[(&str, &str)]| {
        let telemetry = Telemetry::variables(variables.iter().copied());
        Bound::new(Unready, Options { telemetry, ..Options::default() }).await
    };
    drop(start(&[("OTEL_EXPORTER_OTLP_ENDPOINT", "collector:4317")]).await.unwrap());
    let endpoint = ("OTEL_EXPORTER_OTLP_ENDPOINT", "https://collector:4318");
    let refused = start(&[endpoint, ("OTEL_EXPORTER_OTLP_CERTIFICATE", "/nowhere/ca.crt")]).await;
    let error = refused.err().unwrap();
    assert!(matches!(error, ServeError::Telemetry(_)), "{error}");
    let expected = "invalid certificates in /nowhere/ca.crt for the OTLP endpoint: ";
    assert!(error.to_string().starts_with(expected), "{error}");
}
