//! Calls that end with an error, without an answer, or without one of their backends.

use super::{node, part, verdict};
use crate::support::{
    admin::Seen,
    backend::{Act, Scripted, configured, info},
    by_name,
    http::Client,
    reading, until,
};

/// A request written by hand.
fn raw(body: &str) -> String {
    format!("POST /filter HTTP/1.1\r\nHost: gateway\r\nContent-Length: {}\r\n\r\n{body}", body.len())
}

async fn start(filter: &str, act: Act) -> (Scripted, Seen) {
    let bad = Scripted::always(act).await;
    let good = Scripted::refusing(&["b"], "no", 0).await;
    let backends = configured("bad", &bad, filter) + &configured("good", &good, "filter: {timeout: 60s}");
    (bad, Seen::start(&format!("nodes: {{source: NamesOnly}}\nbackends:\n{backends}")).await)
}

#[tokio::test]
async fn a_failure_that_ends_the_call_is_said_with_its_policy_and_what_was_answered() {
    let (_bad, seen) = start("filter: {timeout: 60s}", Act::Status(13, "broken")).await;
    let error = seen.gateway.post("/filter", by_name(&["a", "b"])).await.error();
    let call = seen.call(1).await;
    assert_eq!((call.outcome.as_str(), call.left), ("backend", None));
    assert_eq!(call.message, Some(error));
    let failure = part(&call, "bad").failure.as_ref().unwrap();
    assert_eq!((failure.kind.as_str(), failure.policy.as_str()), ("status", "fail"));
    assert!(failure.message.contains("broken"), "{failure:?}");
    assert!(part(&call, "bad").seconds > 0.0);
    assert_eq!(verdict(&call, "a", "bad"), None);
    assert_eq!(node(&call, "a").rejected_by, None);
}

#[tokio::test]
async fn a_failure_that_is_ignored_leaves_the_call_whole() {
    let settings = "filter: {timeout: 60s, failurePolicy: Ignore}";
    let (_bad, seen) = start(settings, Act::Message(vec![0xff])).await;
    seen.gateway.post("/filter", by_name(&["a", "b"])).await;
    let call = seen.call(1).await;
    assert_eq!((call.outcome.as_str(), &call.message, call.left), ("ok", &None, Some(1)));
    let failure = part(&call, "bad").failure.as_ref().unwrap();
    assert_eq!((failure.kind.as_str(), failure.policy.as_str()), ("malformed", "ignore"));
    assert_eq!(node(&call, "b").rejected_by.as_deref(), Some("good"));
    let names: Vec<&str> = call.backends.iter().map(|part| part.name.as_str()).collect();
    assert_eq!(names, ["good", "bad"], "in the order in which answers count");
}

#[tokio::test]
async fn a_backend_that_cannot_be_asked_took_no_time() {
    let mut mute = info(reading::names());
    mute.verbs.clear();
    let bad = Scripted::start(mute, |_, _| Act::Hang).await;
    let bad = configured("bad", &bad, "filter: {timeout: 60s, failurePolicy: Ignore}");
    let seen = Seen::start(&format!("nodes: {{source: NamesOnly}}\nbackends:\n{bad}")).await;
    seen.gateway.post("/filter", by_name(&["a"])).await;
    let call = seen.call(1).await;
    let part = part(&call, "bad");
    assert_eq!(part.failure.as_ref().unwrap().kind, "unsuitable");
    assert!((part.asked, part.seconds) == (0, 0.0), "{part:?}");
}

#[tokio::test]
async fn a_call_whose_caller_hangs_up_is_gone() {
    let (bad, seen) = start("filter: {timeout: 60s}", Act::Hang).await;
    let mut client = Client::connect(seen.gateway.address).await;
    client.write(raw(&by_name(&["a", "b"])).as_bytes()).await;
    until("it is not asked", || !bad.messages("Filter").is_empty()).await;
    drop(client);
    let call = seen.call(1).await;
    let why = "the caller disconnected before the response";
    assert_eq!((call.outcome.as_str(), call.message.as_deref(), call.left), ("gone", Some(why), None));
    assert_eq!((call.offered, call.backends.len()), (2, 2));
    bad.canceled().await;
    let metrics = seen.gateway.metrics.text();
    assert!(
        metrics.contains("extender_gateway_calls_total{verb=\"filter\",outcome=\"gone\"} 1\n"),
        "{metrics}"
    );
    assert!(metrics.contains("extender_gateway_calls_in_flight{verb=\"filter\"} 0\n"), "{metrics}");
}

#[tokio::test]
async fn a_request_that_cannot_be_read_is_no_call_of_the_log() {
    let (_bad, seen) = start("filter: {timeout: 60s, failurePolicy: Ignore}", Act::Reset).await;
    assert!(seen.gateway.post("/filter", "{").await.error().contains("bad request"));
    seen.gateway.post("/filter", by_name(&["a"])).await;
    let calls = seen.calls(1).await;
    assert_eq!(calls.len(), 1);
    assert_eq!(part(&calls[0], "bad").failure.as_ref().unwrap().kind, "reset");
}
