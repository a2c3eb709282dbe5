//! What is recorded of calls over a real socket: the log, the span of the policy's own lines, and the metrics.

use std::sync::Arc;

use crate::{Running, call_reading, declared, filter_request, of_namespace, reads_of, running};
use extender_policy_api::v1beta1::{
    self as api, BindRequest, FilterRequest, NodeFacts, NodeRow, Reads as Declared,
    policy_service_client::PolicyServiceClient,
};
use extender_policy_sdk::{
    Bind, BindAsk, BoxFuture, Info, Node, Options, Pod, PodPart, Policy, Reads, Unanswered, Verb, Verdict,
};

/// Writes a line in each method.
struct Logs;

impl Policy for Logs {
    fn info(&self) -> Info {
        let mut reads = Reads::new();
        reads.pod(PodPart::Namespace);
        Info::new("logs", "1").filters(Verb::per_node().pure().reads(&reads)).binds()
    }

    fn filter(&self, pod: &Pod<'_>, _: &Node<'_>) -> Verdict {
        assert_ne!(pod.namespace(), "panic", "as asked");
        tracing::info!("deciding");
        Verdict::reject("full")
    }

    fn bind<'a>(&'a self, _: BindAsk<'a>) -> BoxFuture<'a, Result<Bind, Unanswered>> {
        Box::pin(async move {
            tokio::task::yield_now().await;
            tracing::info!("binding");
            Ok(Bind::Bound)
        })
    }
}

/// A handshake, a rejection, a failure and a Binding.
async fn call(Running { channel, .. }: &Running) {
    let reads = reads_of(&declared(channel).await);
    let mut client = PolicyServiceClient::new(channel.clone());
    for (id, namespace) in [("c-1", "shop"), ("c-2", "panic")] {
        let rows = vec![NodeRow { facts: Some(NodeFacts::default()), ..NodeRow::default() }; 2];
        let FilterRequest { call, pod, nodes, .. } = filter_request(of_namespace(namespace), rows);
        let call = call.map(|call| api::Call { id: id.to_owned(), reads: reads.clone(), ..call });
        let answer = client.filter(FilterRequest { call, pod, nodes, want_scores: false }).await;
        assert_eq!(answer.is_ok(), namespace == "shop");
    }
    let [namespace, name, uid, node] = ["shop", "web-0", "u-1", "a"].map(str::to_owned);
    let call = Some(api::Call { id: "c-3".to_owned(), ..call_reading(&Declared::default()) });
    client.bind(BindRequest { call, namespace, name, uid, node, pod: None }).await.unwrap();
}

/// The lines of the policy and of the SDK's calls, without the time that these took. They are those of this thread, on which the
/// server of a test runs, too.
async fn logged(log_calls: bool) -> Vec<String> {
    let file = tempfile::NamedTempFile::new().unwrap();
    let writer = Arc::new(file.reopen().unwrap());
    let subscriber = tracing_subscriber::fmt().with_ansi(false).without_time().with_writer(writer);
    // With one subscriber alone, tracing lets the thread that comes first to a line decide for all whether it is of interest.
    let _other = tracing::Dispatch::new(tracing_subscriber::registry());
    let _guard = tracing::subscriber::set_default(subscriber.finish());
    call(&running(Logs, Options { log_calls, ..Options::default() }).await).await;
    let lines = std::fs::read_to_string(file.path()).unwrap();
    let lines = lines.lines().map(|line| line.trim_start().split(" ms=").next().unwrap_or_default());
    lines.filter(|line| line.contains("calls: ")).map(str::to_owned).collect()
}

#[tokio::test]
async fn each_call_is_a_line_if_that_is_turned_on() {
    let of_policy = |span: &str, text: &str| format!("INFO call{{{span}}}: all::calls: {text}");
    let of_sdk = |text: &str| format!("INFO extender_policy_sdk::calls: {text}");
    let deciding = of_policy("id=\"c-1\" pod=\"shop\"", "deciding");
    let binding = of_policy("id=\"c-3\" pod=\"shop/web-0\"", "binding");
    assert_eq!(logged(false).await, [&*deciding, &deciding, &binding]);
    let expected = [
        of_sdk("get_info"),
        deciding.clone(),
        deciding,
        of_sdk("filter call=\"c-1\" pod=\"shop\" nodes=2 rejected=2"),
        of_sdk(
            "filter call=\"c-2\" pod=\"panic\" nodes=2 code=INTERNAL message=\"filter failed; see the policy's log\"",
        ),
        binding,
        of_sdk("bind call=\"c-3\" pod=\"shop/web-0\""),
    ];
    assert_eq!(logged(true).await, expected);
}

mod metrics {
    use std::{
        net::SocketAddr,
        sync::atomic::{AtomicBool, Ordering::Relaxed},
    };

    use extender_policy_api::v1beta1::{
        ChangeRequest, NodeReads, SyncNodesRequest, TableEntry, hook_service_client::HookServiceClient,
        node_table_service_client::NodeTableServiceClient,
    };
    use extender_policy_sdk::{Bound, ChangedPart, Hook, NotReady, PodChange, ServeError};
    use tokio::{
        io::{AsyncReadExt as _, AsyncWriteExt as _},
        net::TcpStream,
    };
    use tokio_stream::StreamExt as _;

    use super::*;
    use crate::{served_at, soon};

    struct Hooked(Arc<AtomicBool>);

    impl Policy for Hooked {
        fn info(&self) -> Info {
            Info::new("hooked", "1").before_filter(Hook::changes([ChangedPart::PodLabels]))
        }

        fn before_filter(&self, _: &Pod<'_>) -> PodChange {
            PodChange::none()
        }

        fn ready(&self) -> Result<(), NotReady> {
            if self.0.load(Relaxed) { Ok(()) } else { Err(NotReady("no prices".to_owned())) }
        }
    }

    fn options() -> Options {
        Options { metrics_address: Some(([127, 0, 0, 1], 0).into()), ..Options::default() }
    }

    async fn got(address: SocketAddr, request: &str) -> String {
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut response = String::new();
        soon(stream.read_to_string(&mut response)).await.unwrap();
        response
    }

    async fn metrics(address: SocketAddr) -> String {
        let response = got(address, "GET /metrics HTTP/1.1\r\nHost: a\r\n\r\n").await;
        let (head, body) = response.split_once("\r\n\r\n").unwrap();
        assert!(head.starts_with("HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4\r\n"), "{head}");
        assert!(head.contains(&format!("\r\nContent-Length: {}\r\n", body.len())), "{head}");
        body.to_owned()
    }

    #[track_caller]
    fn has(metrics: &str, line: &str) {
        assert!(metrics.lines().any(|found| found == line), "{line} is not in\n{metrics}");
    }

    #[tokio::test]
    async fn calls_are_counted_by_verb_and_code() {
        let bound = Bound::new(Logs, options()).await.unwrap();
        let address = bound.metrics_address().unwrap();
        call(&served_at(bound).await).await;
        let metrics = metrics(address).await;
        for line in [
            "# TYPE extender_policy_calls_total counter",
            "extender_policy_calls_total{verb=\"filter\",code=\"OK\"} 1",
            "extender_policy_calls_total{verb=\"filter\",code=\"INTERNAL\"} 1",
            "extender_policy_calls_total{verb=\"bind\",code=\"OK\"} 1",
            "extender_policy_calls_total{verb=\"get_info\",code=\"OK\"} 1",
            "# TYPE extender_policy_call_duration_seconds histogram",
            "extender_policy_call_duration_seconds_bucket{verb=\"filter\",le=\"+Inf\"} 2",
            "extender_policy_call_duration_seconds_count{verb=\"filter\"} 2",
            "extender_policy_tables 0",
            "extender_policy_ready 1",
        ] {
            has(&metrics, line);
        }
    }

    #[tokio::test]
    async fn tables_readiness_and_hooks_are_shown() {
        let ready = Arc::<AtomicBool>::default();
        let bound = Bound::new(Hooked(Arc::clone(&ready)), options()).await.unwrap();
        let address = bound.metrics_address().unwrap();
        let running = served_at(bound).await;
        has(&metrics(address).await, "extender_policy_ready 0");
        ready.store(true, Relaxed);
        let pod = filter_request(of_namespace("shop"), Vec::new()).pod;
        let call = Some(call_reading(&Declared::default()));
        let request = ChangeRequest { call, pod, nodes: None, hook: api::Verb::BeforeFilter.into() };
        HookServiceClient::new(running.channel.clone()).change(request).await.unwrap();
        let row = NodeRow { name: "a".to_owned(), facts: Some(NodeFacts::default()), ..NodeRow::default() };
        let first = SyncNodesRequest {
            table: "t".to_owned(),
            version: 1,
            reads: Some(NodeReads { everything: true, ..NodeReads::default() }),
            upserts: [7, 8].map(|id| TableEntry { id, row: Some(row.clone()) }).into(),
            ..SyncNodesRequest::default()
        };
        let messages = tokio_stream::once(first).chain(tokio_stream::pending());
        let mut applied = NodeTableServiceClient::new(running.channel.clone())
            .sync_nodes(messages)
            .await
            .unwrap()
            .into_inner();
        soon(applied.message()).await.unwrap().unwrap();
        let metrics = metrics(address).await;
        has(&metrics, "extender_policy_ready 1");
        has(&metrics, "extender_policy_tables 1");
        has(&metrics, "extender_policy_table_nodes 2");
        has(&metrics, "extender_policy_calls_total{verb=\"before_filter\",code=\"OK\"} 1");
    }

    #[tokio::test]
    async fn other_requests_get_no_metrics() {
        let bound = Bound::new(Logs, options()).await.unwrap();
        let address = bound.metrics_address().unwrap();
        let _served = served_at(bound).await;
        let other = got(address, "GET /metricsx HTTP/1.1\r\n\r\n").await;
        assert!(other.starts_with("HTTP/1.1 404 Not Found\r\n"), "{other}");
        assert_eq!(got(address, &"a".repeat(8_193)).await, "");
        let taken = Options { metrics_address: Some(address), ..Options::default() };
        let error = Bound::new(Logs, taken).await.err().unwrap();
        assert!(matches!(error, ServeError::Metrics { .. }), "{error}");
        let text = error.to_string();
        assert!(
            text.starts_with(&format!("cannot serve metrics at {address}: Address already in use")),
            "{text}"
        );
        assert!(text.contains("; set another --metrics-address"), "{text}");
    }

    #[tokio::test]
    async fn a_client_that_is_silent_is_closed() {
        let bound = Bound::new(Logs, options()).await.unwrap();
        let address = bound.metrics_address().unwrap();
        let served = served_at(bound).await;
        let mut silent = TcpStream::connect(address).await.unwrap();
        metrics(address).await;
        tokio::time::pause();
        let began = tokio::time::Instant::now();
        assert_eq!(silent.read(&mut [0]).await.unwrap(), 0);
        assert!(began.elapsed().as_secs() <= 5, "{:?}", began.elapsed());
        drop(served);
    }
}
