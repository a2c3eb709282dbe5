//! Traces of calls: what a real collector receives.

mod away;
mod calls;
mod continued;
mod failures;
mod links;
mod sampling;
mod verbs;

use std::{sync::Arc, time::Duration};

use crate::support::{
    Gateway, TEST_TIMEOUT,
    backend::{Scripted, configured},
    configuration,
};
use extender_collector::{Attributes, Collector, ReceivedSpan};
use extender_gateway_observe::{Metrics, Observer, Tracer, traces::TraceSettings};
use extender_otlp::{Explicit, Exporter, Exporters, Program, Protocol, Ratio, Sampler, Settings};
use opentelemetry::{
    InstrumentationScope,
    trace::{SpanId, TraceId},
};
use tokio::runtime::Handle;

/// A call that takes longer than this is not slow.
const NEVER: Duration = Duration::from_hours(1);

const NAMES: &str = "nodes: {source: NamesOnly}";
const ANNOTATION: &str = "example.com/traceparent";

/// The kinds of spans in OTLP.
const INTERNAL: i32 = 1;
const SERVER: i32 = 2;
const CLIENT: i32 = 3;

/// All calls are kept, and annotations are read.
fn all() -> TraceSettings {
    choice(Ratio::ALL)
}

/// This share of pods is kept.
fn choice(ratio: Ratio) -> TraceSettings {
    TraceSettings { sampler: Sampler::Parent(ratio), slow: NEVER, annotation: Some(ANNOTATION.to_owned()) }
}

/// Sends spans to this address, at once.
fn exporters(endpoint: &str) -> Exporters {
    let program = Program {
        service: "extender-gateway".to_owned(),
        version: "1".to_owned(),
        scope: InstrumentationScope::builder("extender-gateway").build(),
    };
    let explicit = Explicit {
        endpoint: Some(endpoint.to_owned()),
        protocol: Some(Protocol::Grpc),
        traces: Some(Exporter::Otlp),
        timeout: Some(TEST_TIMEOUT),
        ..Explicit::default()
    };
    let mut settings = Settings::resolve(program, &explicit, |_| None);
    settings.batch.delay = Duration::from_millis(5);
    Exporters::start(&settings, &Handle::current()).unwrap()
}

/// A gateway that sends its spans there.
async fn gateway(exporters: &Exporters, choice: TraceSettings, rest: &str) -> Gateway {
    let tracer = Tracer::new(exporters.spans().unwrap().clone(), choice);
    let mut observer = Observer::new(Arc::new(Metrics::new()), 1 << 20);
    observer.tracer = Some(tracer);
    Gateway::start_seen(configuration("", rest), observer).await
}

/// A gateway, and the collector that gets its spans.
struct Traced {
    gateway: Gateway,
    collector: Collector,
    exporters: Exporters,
}

impl Traced {
    async fn start(choice: TraceSettings, rest: &str) -> Self {
        let collector = Collector::grpc().unwrap();
        let exporters = exporters(&collector.endpoint());
        let rest = &format!("timeouts: {{decision: 60s}}\n{rest}");
        Self { gateway: gateway(&exporters, choice, rest).await, collector, exporters }
    }

    /// A gateway with a single backend, which filters and scores.
    async fn of(choice: TraceSettings, backend: &Scripted) -> Self {
        let only = configured("only", backend, "filter: {timeout: 60s}, score: {timeout: 60s}");
        Self::start(choice, &format!("{NAMES}\nbackends:\n{only}")).await
    }

    /// The spans once there are this many, by name and in the order of their creation.
    async fn spans(&self, count: usize) -> Spans {
        let spans = Spans(self.collector.spans(count).await);
        assert_eq!(spans.0.len(), count, "{:#?}", spans.names());
        spans
    }

    /// All spans that were sent.
    async fn last(self) -> Spans {
        self.exporters.shutdown(Duration::from_mins(1)).await;
        Spans(self.collector.spans(0).await)
    }
}

/// What a collector received.
struct Spans(Vec<ReceivedSpan>);

impl Spans {
    fn names(&self) -> Vec<String> {
        self.0.iter().map(|span| span.span.name.clone()).collect()
    }

    /// Those of a name.
    fn all(&self, name: &str) -> Vec<&ReceivedSpan> {
        self.0.iter().filter(|span| span.span.name == name).collect()
    }

    /// The one of a name.
    #[track_caller]
    fn one(&self, name: &str) -> &ReceivedSpan {
        let [span] = self.all(name)[..] else { panic!("not one {name}: {:?}", self.names()) };
        span
    }

    /// The request to a backend.
    #[track_caller]
    fn asked(&self, backend: &str) -> &ReceivedSpan {
        let of_backend = |span: &&ReceivedSpan| {
            span.span.kind == CLIENT && span.attributes["extender.backend.name"] == backend
        };
        self.0.iter().find(of_backend).unwrap_or_else(|| panic!("{backend}: {:?}", self.names()))
    }
}

/// The span's place as W3C metadata says it.
fn traceparent(span: &ReceivedSpan, flags: &str) -> String {
    format!("00-{}-{flags}", place(&span.span.trace_id, &span.span.span_id))
}

/// Two ids as text.
fn place(trace: &[u8], span: &[u8]) -> String {
    let (trace, span) = (trace.try_into().unwrap(), span.try_into().unwrap());
    format!("{}-{}", TraceId::from_bytes(trace), SpanId::from_bytes(span))
}

/// Whether one span is a child of the other, and within its time.
#[track_caller]
fn assert_within(span: &ReceivedSpan, parent: &ReceivedSpan) {
    let (span, parent) = (&span.span, &parent.span);
    assert_eq!((&span.trace_id, &span.parent_span_id), (&parent.trace_id, &parent.span_id));
    let (start, end) = (span.start_time_unix_nano, span.end_time_unix_nano);
    assert!(parent.start_time_unix_nano <= start && start <= end, "{span:#?} in {parent:#?}");
    assert!(end <= parent.end_time_unix_nano, "{span:#?} in {parent:#?}");
}

/// The code and the text of a status: 0 is unset, 2 an error.
fn status(span: &ReceivedSpan) -> (i32, &str) {
    span.span.status.as_ref().map_or((0, ""), |status| (status.code, &status.message))
}

fn attributes(attributes: &[(&str, &str)]) -> Attributes {
    attributes.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect()
}

/// The attributes of a span, without those that vary.
fn steady(span: &ReceivedSpan) -> Attributes {
    let differs = ["client.port", "server.port", "extender.call.id", "http.request.body.size"];
    let mut attributes = span.attributes.clone();
    for key in differs.into_iter().chain(["http.response.body.size"]) {
        if let Some(value) = attributes.remove(key).filter(|_| key != "extender.call.id") {
            assert!(value.parse::<u64>().is_ok(), "{key}: {value}");
        }
    }
    attributes
}
