//! Metadata of calls: trace context, and whatever else comes.

use http::{HeaderName, HeaderValue};

use crate::{
    case::{self, Case, Stop},
    client::Extras,
    declared::{ALL_BUT_BIND, Verb},
    suite::Suite,
};

const SAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01";
const NOT_SAMPLED: &str = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-00";

/// Values that are not a `traceparent`.
const UNPARSABLE: [&str; 6] = [
    "",
    "00",
    "ff-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
    "00-00000000000000000000000000000000-0000000000000000-01",
    "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01-",
    "zz-zzzzzzzzzzzzzzzzzzzzzzzzzzzzzzzz-zzzzzzzzzzzzzzzz-zz",
];

pub(super) fn cases() -> Vec<Case> {
    case::table! {
        for ALL_BUT_BIND: "traced" Must ["36.1"] "a trace context changes no answer" => traced;
        for ALL_BUT_BIND: "traceparent" Must ["36.1", "36.2"] "a broken traceparent changes no answer" => broken;
        for ALL_BUT_BIND: "tracestate" Must ["36.1"] "a broken tracestate changes no answer" => tracestate;
        for ALL_BUT_BIND: "metadata" Must ["39.1"] "other metadata changes no answer" => other;
    }
}

fn header(name: &'static str, value: &str) -> (HeaderName, HeaderValue) {
    let value = HeaderValue::from_bytes(value.as_bytes()).unwrap_or(HeaderValue::from_static("invalid"));
    (HeaderName::from_static(name), value)
}

async fn same_with(suite: &Suite, verb: Verb, sets: Vec<Vec<(HeaderName, HeaderValue)>>) -> Result<(), Stop> {
    let question = suite.random_question(verb, 6)?;
    let without = suite.ask(&question).await?;
    for metadata in sets {
        let what = format!("with {:?}", metadata.first().map(|(name, value)| (name.as_str(), value)));
        let extras = Extras { metadata, ..Extras::default() };
        let with = suite.ask_on(&suite.client, &question, extras).await.map_err(|stop| stop.after(&what))?;
        super::calls::same_unless_changing(suite, &question, &without, &with, &what).await?;
    }
    Ok(())
}

async fn traced(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    let sets = [SAMPLED, NOT_SAMPLED].map(|value| vec![header("traceparent", value)]);
    same_with(suite, verb, sets.into()).await
}

async fn broken(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    let mut sets: Vec<_> = UNPARSABLE.iter().map(|value| vec![header("traceparent", value)]).collect();
    sets.push(vec![header("traceparent", SAMPLED), header("traceparent", NOT_SAMPLED)]);
    sets.push(vec![header("traceparent", &"0".repeat(4_000))]);
    same_with(suite, verb, sets).await
}

async fn tracestate(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    let values = ["", "=", "a=b,a=b", &"k=v,".repeat(700)];
    let sets = values.iter().map(|value| vec![header("traceparent", SAMPLED), header("tracestate", value)]);
    same_with(suite, verb, sets.collect()).await
}

async fn other(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    let many = (0..50).filter_map(|number| {
        let name = HeaderName::from_bytes(format!("x-conformance-{number}").as_bytes()).ok()?;
        Some((name, HeaderValue::from_static("value")))
    });
    let sets = vec![
        vec![header("user-agent", "conformance/1")],
        vec![header("x-conformance-bin", "AAECAwQ")],
        vec![header("authorization", "Bearer conformance")],
        vec![header("grpc-trace-bin", "AAAB")],
        many.collect(),
    ];
    same_with(suite, verb, sets).await
}
