//! Spans on their way to a real collector, over both protocols, with TLS, and without a collector.

#![expect(clippy::unwrap_used, reason = "a test fails by panicking")]

use std::{
    collections::HashMap,
    net::SocketAddr,
    sync::Arc,
    time::{Duration, SystemTime},
};

use bytes::Bytes;
use extender_collector::{Collector, ReceivedSpan};
use extender_otlp::{
    Delivery, Explicit, Exporters, Parent, Program, Settings, Span, Spans, StartError, TraceContext,
};
use http::{HeaderMap, HeaderValue, Response};
use opentelemetry::{
    InstrumentationScope, KeyValue,
    trace::{Event, Link, SpanKind, Status},
};
use rcgen::{CertifiedKey, generate_simple_self_signed};
use rustls::{ServerConfig, crypto::ring, pki_types::PrivateKeyDer};
use tokio::{
    io::copy_bidirectional,
    net::{TcpListener, TcpStream},
    runtime::Handle,
    time::timeout,
};
use tokio_rustls::TlsAcceptor;

/// Longer than anything here takes.
const TEST_TIMEOUT: Duration = Duration::from_mins(1);

/// Settings that send at once, with these additional variables.
fn settings(endpoint: &str, more: &[(&str, &str)]) -> Settings {
    let mut variables: HashMap<_, _> =
        [("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint), ("OTEL_BSP_SCHEDULE_DELAY", "10")].into();
    variables.extend(more.iter().copied());
    let scope = InstrumentationScope::builder("deciding").with_version("7").build();
    let program = Program { service: "extender-gateway".into(), version: "1.2".into(), scope };
    let lookup = |name: &str| variables.get(name).map(|value| (*value).to_owned());
    Settings::resolve(program, &Explicit::default(), lookup)
}

fn started(endpoint: &str, more: &[(&str, &str)]) -> Exporters {
    Exporters::start(&settings(endpoint, more), &Handle::current()).unwrap()
}

fn span(name: &'static str) -> Span {
    let now = SystemTime::now();
    Span::new(name, TraceContext::root(), now..now)
}

/// A span with all fields.
fn whole(parent: &TraceContext, linked: &TraceContext) -> Span {
    let start = SystemTime::UNIX_EPOCH + Duration::from_secs(1_700_000_000);
    let attributes = |what: &'static str| vec![KeyValue::new("what", what)];
    Span {
        kind: SpanKind::Client,
        state: "vendor=1".parse().unwrap(),
        parent: Parent::Remote(parent.span_id),
        attributes: vec![
            KeyValue::new("nodes", 500),
            KeyValue::new("share", 0.5),
            KeyValue::new("late", true),
        ],
        links: vec![Link::new(linked.remote(), attributes("link"), 0)],
        events: vec![Event::new("backend", start, attributes("event"), 0)],
        status: Status::error("no answer in 200 ms"),
        ..Span::new("Filter", parent.child(), start..start + Duration::from_millis(3))
    }
}

fn assert_whole(received: &ReceivedSpan, sent: &Span, parent: &TraceContext, linked: &TraceContext) {
    let span = &received.span;
    assert_eq!((&*span.name, span.kind, &*span.trace_state), ("Filter", 3, "vendor=1"));
    assert_eq!(span.trace_id, parent.trace_id.to_bytes());
    assert_eq!(span.span_id, sent.context.span_id.to_bytes());
    assert_eq!(span.parent_span_id, parent.span_id.to_bytes());
    assert_eq!(span.start_time_unix_nano, 1_700_000_000_000_000_000);
    assert_eq!(span.end_time_unix_nano - span.start_time_unix_nano, 3_000_000);
    // Sampled; its parent is known to be of another process.
    assert_eq!(span.flags, 0x301);
    let expected = [("nodes", "500"), ("share", "0.5"), ("late", "true")];
    let expected = expected.map(|(key, value)| (key.to_owned(), value.to_owned()));
    assert_eq!(received.attributes, expected.into());
    assert_eq!(
        (span.links[0].trace_id.clone(), &*received.links()[0]["what"]),
        (linked.trace_id.to_bytes().into(), "link")
    );
    assert_eq!((&*received.events()[0].0, &*received.events()[0].1["what"]), ("backend", "event"));
    let status = span.status.as_ref().unwrap();
    assert_eq!((status.code, &*status.message), (2, "no answer in 200 ms"));
    assert_eq!(received.scope, ("deciding".to_owned(), "7".to_owned()));
    assert_eq!(
        (&*received.resource["service.name"], &*received.resource["service.version"]),
        ("extender-gateway", "1.2")
    );
    assert_eq!(received.resource["telemetry.sdk.language"], "rust");
}

/// A span arrives whole.
async fn delivers(collector: &Collector, endpoint: &str, more: &[(&str, &str)]) {
    let exporters = started(endpoint, more);
    let (parent, linked) = (TraceContext::root(), TraceContext::root());
    let sent = whole(&parent, &linked);
    exporters.spans().unwrap().send(sent.clone());
    let received = collector.spans(1).await;
    assert_whole(&received[0], &sent, &parent, &linked);
    assert_eq!(received[0].headers["x-tenant"], "blue green");
    assert_eq!(received[0].headers.get_all("user-agent").iter().count(), 1);
    exporters.shutdown(TEST_TIMEOUT).await;
}

const HEADERS: (&str, &str) = ("OTEL_EXPORTER_OTLP_HEADERS", "x-tenant=blue%20green");

#[tokio::test]
async fn everything_arrives_over_grpc() {
    let collector = Collector::grpc().unwrap();
    delivers(&collector, &collector.endpoint(), &[HEADERS, ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]).await;
}

#[tokio::test]
async fn everything_arrives_over_http() {
    let collector = Collector::http().unwrap();
    delivers(&collector, &collector.endpoint(), &[HEADERS]).await;
}

/// TLS in front of a collector: its address and the file with its certificate.
async fn behind_tls(collector: SocketAddr, protocol: &[u8]) -> (String, tempfile::NamedTempFile) {
    let CertifiedKey { cert, signing_key } = generate_simple_self_signed(["localhost".to_owned()]).unwrap();
    let file = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(file.path(), cert.pem()).unwrap();
    let key = PrivateKeyDer::try_from(signing_key.serialize_der()).unwrap();
    let config = ServerConfig::builder_with_provider(Arc::new(ring::default_provider()));
    let config = config.with_safe_default_protocol_versions().unwrap().with_no_client_auth();
    let mut config = config.with_single_cert(vec![cert.der().clone()], key).unwrap();
    config.alpn_protocols = vec![protocol.to_vec()];
    let acceptor = TlsAcceptor::from(Arc::new(config));
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("https://localhost:{}", listener.local_addr().unwrap().port());
    tokio::spawn(async move {
        while let Ok((tcp, _)) = listener.accept().await {
            let acceptor = acceptor.clone();
            tokio::spawn(async move {
                let mut tls = acceptor.accept(tcp).await?;
                copy_bidirectional(&mut tls, &mut TcpStream::connect(collector).await?).await
            });
        }
    });
    (endpoint, file)
}

#[tokio::test]
async fn everything_arrives_over_tls() {
    for (protocol, alpn) in [("grpc", &b"h2"[..]), ("http/protobuf", b"http/1.1")] {
        let collector = match protocol {
            "grpc" => Collector::grpc().unwrap(),
            _ => Collector::http().unwrap(),
        };
        let (endpoint, certificate) = behind_tls(collector.address(), alpn).await;
        let path = certificate.path().to_str().unwrap();
        let more =
            [HEADERS, ("OTEL_EXPORTER_OTLP_PROTOCOL", protocol), ("OTEL_EXPORTER_OTLP_CERTIFICATE", path)];
        delivers(&collector, &endpoint, &more).await;
    }
}

#[tokio::test]
async fn a_collector_whose_certificate_is_not_trusted_gets_nothing() {
    let collector = Collector::grpc().unwrap();
    let (endpoint, _) = behind_tls(collector.address(), b"h2").await;
    let (_, other) = behind_tls(collector.address(), b"h2").await;
    let path = other.path().to_str().unwrap();
    let exporters = started(
        &endpoint,
        &[("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"), ("OTEL_EXPORTER_OTLP_CERTIFICATE", path)],
    );
    exporters.spans().unwrap().send(span("secret"));
    exporters.shutdown(TEST_TIMEOUT).await;
    let delivery = exporters.spans().unwrap().delivery();
    assert_eq!((delivery.failed, collector.count()), (1, 0));
    assert!(delivery.fault.is_some());
}

#[tokio::test]
async fn a_certificate_file_that_is_none_ends_the_start() {
    let file = tempfile::NamedTempFile::new().unwrap();
    for path in [file.path().to_str().unwrap(), "/nowhere/ca.crt"] {
        let settings = settings("https://localhost:4318", &[("OTEL_EXPORTER_OTLP_CERTIFICATE", path)]);
        let error = Exporters::start(&settings, &Handle::current()).unwrap_err();
        assert!(matches!(error, StartError::Certificate { .. }), "{error}");
        assert!(error.to_string().contains(path), "{error}");
    }
}

/// A collector that answers the first request with a broken header in the trailers, and the others correctly.
async fn broken_at_first(listener: TcpListener) {
    let mut broken = true;
    while let Ok((tcp, _)) = listener.accept().await {
        let mut connection = h2::server::handshake(tcp).await.unwrap();
        while let Some(Ok((request, mut respond))) = connection.accept().await {
            let mut body = request.into_body();
            let mut trailers = HeaderMap::new();
            if std::mem::take(&mut broken) {
                trailers.insert("grpc-status", HeaderValue::from_static("3"));
                trailers.insert("grpc-status-details-bin", HeaderValue::from_static("!not base64!"));
            } else {
                trailers.insert("grpc-status", HeaderValue::from_static("0"));
            }
            tokio::spawn(async move {
                while let Some(Ok(bytes)) = body.data().await {
                    body.flow_control().release_capacity(bytes.len()).unwrap();
                }
                let head = Response::builder().header("content-type", "application/grpc").body(()).unwrap();
                let mut answer = respond.send_response(head, false).unwrap();
                answer.send_data(Bytes::from_static(&[0; 5]), false).unwrap();
                answer.send_trailers(trailers).unwrap();
            });
        }
    }
}

#[tokio::test]
async fn a_broken_answer_does_not_end_the_delivery() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", listener.local_addr().unwrap());
    tokio::spawn(broken_at_first(listener));
    let exporters = started(&endpoint, &[("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc")]);
    let spans = exporters.spans().unwrap();
    spans.send(span("lost"));
    let settled = async |done: fn(&Delivery) -> bool| {
        while !done(&spans.delivery()) {
            tokio::task::yield_now().await;
        }
        spans.delivery()
    };
    let broken = timeout(TEST_TIMEOUT, settled(|delivery| delivery.failed == 1)).await.unwrap();
    assert!(broken.fault.is_some_and(|fault| fault.contains("the answer of the collector cannot be read")));
    spans.send(span("delivered"));
    let mended = timeout(TEST_TIMEOUT, settled(|delivery| delivery.delivered == 1)).await.unwrap();
    assert_eq!((mended.fault, mended.failed), (None, 1));
    exporters.shutdown(TEST_TIMEOUT).await;
}

/// How many spans named "later" were sent before one of them arrived.
async fn sent_until_one_arrives(spans: &Spans, collector: &Collector) -> u64 {
    let mut sent = 0;
    loop {
        spans.send(span("later"));
        sent += 1;
        // The exporter still tries to send its queue.
        let arrived = timeout(Duration::from_millis(20), collector.spans(collector.count() + 1)).await;
        if arrived.is_ok_and(|arrived| arrived.iter().any(|received| received.span.name == "later")) {
            return sent;
        }
    }
}

#[tokio::test]
async fn without_a_collector_spans_are_dropped_and_later_ones_arrive() {
    const SENT: u64 = 100_000;
    // No other process gets the port meanwhile.
    let socket = Collector::socket().unwrap();
    let address = socket.local_addr().unwrap();
    let more = [("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"), ("OTEL_BSP_MAX_QUEUE_SIZE", "100")];
    let exporters = started(&format!("http://{address}"), &more);
    let spans = exporters.spans().unwrap();
    for _ in 0..SENT {
        spans.send(span("early"));
        assert!(spans.delivery().waiting <= 100, "{spans:?}");
    }
    let collector = Collector::grpc_on(socket).unwrap();
    let later = timeout(TEST_TIMEOUT, sent_until_one_arrives(spans, &collector)).await.unwrap();
    exporters.shutdown(TEST_TIMEOUT).await;
    let delivery = spans.delivery();
    assert_eq!((delivery.waiting, &delivery.fault), (0, &None), "{delivery:?}");
    assert_eq!(delivery.delivered + delivery.failed + delivery.dropped, SENT + later, "{delivery:?}");
    assert_eq!(delivery.delivered, collector.count() as u64, "{delivery:?}");
    assert!(delivery.dropped > 0, "{delivery:?}");
}

#[tokio::test]
async fn what_cannot_be_sent_over_http_is_counted() {
    let closed_port = Collector::socket().unwrap();
    let exporters = started(&format!("http://{}", closed_port.local_addr().unwrap()), &[]);
    let spans = exporters.spans().unwrap();
    spans.send(span("lost"));
    exporters.shutdown(TEST_TIMEOUT).await;
    let delivery = spans.delivery();
    assert_eq!((delivery.failed, delivery.delivered), (1, 0));
    assert!(delivery.fault.unwrap().contains("network error"));
}

#[tokio::test]
async fn a_collector_that_never_answers_does_not_hold_up_the_end() {
    let silent = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let endpoint = format!("http://{}", silent.local_addr().unwrap());
    for protocol in ["grpc", "http/protobuf"] {
        let more = [("OTEL_EXPORTER_OTLP_PROTOCOL", protocol), ("OTEL_EXPORTER_OTLP_TIMEOUT", "3600000")];
        let exporters = started(&endpoint, &more);
        exporters.spans().unwrap().send(span("stuck"));
        let ended = exporters.shutdown(Duration::from_millis(50));
        timeout(TEST_TIMEOUT, ended).await.unwrap();
        // Spans sent after the end are lost, without harm.
        exporters.spans().unwrap().send(span("after"));
    }
}

/// The underlying crates read the environment, too, and what they find there must not go to the collector that the
/// settings name. A test has no environment of its own, so this one runs itself as a process with one.
#[tokio::test]
async fn nothing_of_the_environment_is_added_to_what_the_settings_say() {
    const NAME: &str = "nothing_of_the_environment_is_added_to_what_the_settings_say";
    const VARIABLES: [(&str, &str); 5] = [
        ("OTEL_EXPORTER_OTLP_HEADERS", "authorization=of-another,x-tenant=another"),
        ("OTEL_EXPORTER_OTLP_ENDPOINT", "http://127.0.0.1:1"),
        ("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "nonsense"),
        ("OTEL_RESOURCE_ATTRIBUTES", "service.name=another,deployment=another"),
        ("OTEL_BSP_SCHEDULE_DELAY", "3600000"),
    ];
    if std::env::var_os(VARIABLES[0].0).is_none() {
        let mut child = std::process::Command::new(std::env::current_exe().unwrap());
        let ran = child.args([NAME, "--exact"]).envs(VARIABLES).output().unwrap();
        let said = String::from_utf8_lossy(&ran.stdout);
        assert!(ran.status.success() && said.contains("1 passed"), "{said}");
        return;
    }
    let (grpc, http) = (Collector::grpc().unwrap(), Collector::http().unwrap());
    for (collector, protocol) in [(grpc, "grpc"), (http, "http/protobuf")] {
        let endpoint = collector.endpoint();
        delivers(&collector, &endpoint, &[HEADERS, ("OTEL_EXPORTER_OTLP_PROTOCOL", protocol)]).await;
        let received = &collector.spans(1).await[0];
        assert!(!received.headers.contains_key("authorization"), "{:?}", received.headers);
        assert_eq!(received.headers.get_all("x-tenant").iter().count(), 1);
        assert!(!received.resource.contains_key("deployment"), "{:?}", received.resource);
    }
}
