//! Traces that continue: from a caller's span, and into a backend.

use std::time::Duration;

use extender_collector::Collector;
use extender_otlp::Ratio;
use extender_policy_sdk::{Bound, Options, Telemetry};
use tokio::sync::oneshot;

use super::{SERVER, Spans, Traced, all, assert_within, choice, exporters, gateway, traceparent};
use crate::support::{
    backend::Scripted,
    by_name,
    function::{about_objects, labelled, sibling},
    http::Client,
    sdk::{Labelled, facts},
};

const TRACE: &str = "0af7651916cd43dd8448eb211c80319c";
const CALLER: &str = "b7ad6b7169203331";

async fn post_with(traced: &Traced, traceparent: &str) {
    let mut client = Client::connect(traced.gateway.address).await;
    let answer = client.post_with(("traceparent", traceparent), "/filter", &by_name(&["a"])).await;
    assert_eq!(answer.json()["NodeNames"], serde_json::json!(["a"]), "{traceparent}");
}

#[tokio::test]
async fn a_caller_that_is_sampled_is_continued_whatever_the_ratio() {
    let backend = Scripted::refusing(&[], "", 3).await;
    let traced = Traced::of(choice(Ratio::NONE), &backend).await;
    post_with(&traced, &format!("00-{TRACE}-{CALLER}-01")).await;
    let spans = traced.spans(3).await;
    let door = spans.one("POST /filter");
    let caller: Vec<u8> =
        (0..8).map(|at| u8::from_str_radix(&CALLER[2 * at..2 * at + 2], 16).unwrap()).collect();
    assert_eq!(door.span.parent_span_id, caller);
    assert_within(spans.one("decide filter"), door);
    assert!(spans.0.iter().all(|span| traceparent(span, "01")[3..35] == *TRACE));
    assert_eq!(backend.metadata("Filter", "traceparent"), [traceparent(spans.asked("only"), "01")]);
}

#[tokio::test]
async fn a_caller_that_is_not_sampled_is_continued_and_not_kept() {
    let backend = Scripted::refusing(&[], "", 3).await;
    let traced = Traced::of(all(), &backend).await;
    post_with(&traced, &format!("00-{TRACE}-{CALLER}-00")).await;
    let [told] = &backend.metadata("Filter", "traceparent")[..] else { panic!("asked once") };
    assert!(told.starts_with(&format!("00-{TRACE}-")) && told.ends_with("-00"), "{told}");
    assert_eq!(traced.last().await.names(), [""; 0]);
}

#[tokio::test]
async fn a_header_that_names_no_span_is_as_none() {
    let backend = Scripted::refusing(&[], "", 3).await;
    let traced = Traced::of(all(), &backend).await;
    let zeros = format!("00-{TRACE}-0000000000000000-01");
    let wrong = ["", "1", "\u{1f4a5}", zeros.as_str(), &TRACE.repeat(9)];
    for value in wrong {
        post_with(&traced, value).await;
    }
    let spans = traced.spans(3 * wrong.len()).await;
    let doors = spans.all("POST /filter");
    assert_eq!(doors.len(), wrong.len());
    assert!(doors.iter().all(|door| door.span.parent_span_id.is_empty()));
}

#[tokio::test]
async fn a_backend_of_the_sdk_continues_the_trace_of_its_question() {
    let collector = Collector::grpc().unwrap();
    let endpoint = collector.endpoint();
    let telemetry = Telemetry::variables([
        ("OTEL_EXPORTER_OTLP_ENDPOINT", endpoint.as_str()),
        ("OTEL_EXPORTER_OTLP_PROTOCOL", "grpc"),
        ("OTEL_BSP_SCHEDULE_DELAY", "5"),
    ]);
    let options = Options { telemetry, drain: Duration::ZERO, ..Options::default() };
    let policy = Bound::new(Labelled::new(facts), options).await.unwrap();
    let address = policy.address();
    let (_running, stopped) = oneshot::channel::<()>();
    tokio::spawn(policy.until(async { drop(stopped.await) }));

    let exporters = exporters(&endpoint);
    let only = format!("- {{name: only, url: 'http://{address}', filter: {{timeout: 60s}}}}\n");
    let rest = format!("timeouts: {{decision: 60s}}\nnodes: {{source: Request}}\nbackends:\n{only}");
    let gateway = gateway(&exporters, all(), &rest).await;
    let nodes = [labelled("a", &serde_json::json!({"refused": "no"})), labelled("b", &serde_json::json!({}))];
    gateway.post("/filter", about_objects(&sibling(1), &nodes)).await;
    let spans = Spans(collector.spans(4).await);
    let served = spans.0.iter().find(|span| span.resource["service.name"] != "extender-gateway").unwrap();
    assert_within(served, spans.asked("only"));
    assert_eq!(served.span.kind, SERVER);
    assert_eq!(served.resource["service.name"], "labelled");
    let decision = spans.one("decide filter");
    let said =
        ["extender.call.id", "extender.nodes.evaluated", "extender.nodes.rejected", "extender.backend.name"];
    let said = said.map(|key| &*served.attributes[key]);
    assert_eq!(said, [&*decision.attributes["extender.call.id"], "2", "1", "only"]);
}
