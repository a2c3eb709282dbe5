//! Circuit breakers: a backend that costs time is asked a few times, and then only by probes.

use std::time::Duration;

use extender_gateway_api::{CircuitState, Status};
use extender_gateway_pace::cadences::Cadences;
use prost::Message;
use serde_json::json;
use tokio::sync::watch;

use crate::support::{
    Gateway,
    admin::Admin,
    backend::{Act, Scripted, configured, filtered, info},
    by_name, eager, ended, reading, until,
};

/// Enough calls to open a breaker.
const OPENS: usize = 5;

/// A gateway in front of `racks`, which filters and scores, and of what follows.
async fn before(racks: &Scripted, verbs: &str, rest: &str, cadences: Cadences) -> Gateway {
    let racks = configured("racks", racks, verbs);
    Gateway::start_paced(
        &format!("nodes: {{source: Request}}\ntimeouts: {{decision: 60s}}\nbackends:\n{racks}{rest}"),
        cadences,
    )
    .await
}

async fn filter(gateway: &Gateway) -> serde_json::Value {
    gateway.post("/filter", by_name(&["a", "b"])).await.json()
}

async fn status(admin: Admin) -> Status {
    serde_json::from_slice(&admin.send("GET", "/debug/status", "").await.body).unwrap()
}

/// Probes follow at once.
fn probing() -> Cadences {
    Cadences { probe: Duration::from_millis(1), ..eager() }
}

#[tokio::test]
async fn a_late_backend_that_may_be_ignored_costs_its_timeout_a_few_times() {
    let late = Scripted::always(Act::Hang).await;
    let zones = Scripted::refusing(&["a"], "no", 0).await;
    let gateway = before(
        &late,
        "filter: {timeout: 150ms, failurePolicy: Ignore}",
        &configured("zones", &zones, "filter: {}"),
        eager(),
    )
    .await;
    for _ in 0..OPENS + 15 {
        assert_eq!(filter(&gateway).await["NodeNames"], json!(["b"]));
    }
    assert_eq!(late.messages("Filter").len(), OPENS, "it is not asked further");
    for counted in [
        r#"failures_total{backend="racks",verb="filter",kind="late",policy="ignore"} 5"#,
        r#"circuit_openings_total{backend="racks",verb="filter"} 1"#,
        r#"circuit_openings_total{backend="zones",verb="filter"} 0"#,
    ] {
        gateway.until_counted("breaker", counted).await;
    }
}

#[tokio::test]
async fn handshakes_alone_close_nothing() {
    let late = Scripted::always(Act::Hang).await;
    let gateway = before(&late, "filter: {timeout: 150ms}", "", eager()).await;
    for _ in 0..OPENS {
        filter(&gateway).await;
    }
    let handshakes = late.messages("GetInfo").len();
    until("no more handshakes", || late.messages("GetInfo").len() >= handshakes + 3).await;
    let error = filter(&gateway).await["Error"].as_str().unwrap().to_owned();
    assert!(error.ends_with("backend racks failed filter: no answer within 150 ms"), "{error}");
    let counted = r#"failures_total{backend="racks",verb="filter",kind="circuit_open",policy="fail"} 1"#;
    gateway.until_counted("breaker", counted).await;
    assert_eq!(late.messages("Filter").len(), OPENS);
}

#[tokio::test]
async fn a_late_score_does_not_stop_filter() {
    let late = Scripted::start(info(reading::names()), |verb, message| match verb {
        "Filter" => Act::Message(filtered(&message, &["a"], "no").encode_to_vec()),
        _ => Act::Hang,
    })
    .await;
    let gateway = before(&late, "filter: {}, score: {timeout: 150ms}", "", eager()).await;
    for _ in 0..OPENS + 2 {
        gateway.post("/prioritize", by_name(&["b", "c"])).await;
    }
    assert_eq!(late.messages("Score").len(), OPENS);
    assert_eq!(filter(&gateway).await["NodeNames"], json!(["b"]));
    assert_eq!(late.messages("Filter").len(), 1);
}

#[tokio::test]
async fn a_probe_that_is_answered_closes_it_and_the_status_shows_it_meanwhile() {
    let (works, working) = watch::channel(false);
    let racks = Scripted::start(info(reading::names()), move |_, message| {
        if !*working.borrow() {
            return Act::Hang;
        }
        Act::Message(filtered(&message, &["a"], "no").encode_to_vec())
    })
    .await;
    let gateway = before(&racks, "filter: {timeout: 150ms}", "", probing()).await;
    let admin = Admin::of(&gateway).await;
    for _ in 0..OPENS {
        filter(&gateway).await;
    }
    let status_then = status(admin).await;
    let circuits = &status_then.backends[0].verbs[0].circuits;
    assert_eq!((circuits.len(), circuits[0].state), (1, CircuitState::Open), "{circuits:?}");
    assert_eq!(circuits[0].cause, "no answer within 150 ms");
    works.send_replace(true);
    let answered = async { while filter(&gateway).await["NodeNames"] != json!(["b"]) {} };
    ended("no probe", answered).await;
    assert!(status(admin).await.backends[0].verbs[0].circuits.is_empty());
    assert_eq!(filter(&gateway).await["NodeNames"], json!(["b"]), "it is called as before");
}

#[tokio::test]
async fn what_a_backend_says_about_some_pods_at_once_changes_nothing_for_the_others() {
    let statuses = (1..=16).map(|code| Act::Status(code, "this pod"));
    for act in statuses.chain([Act::Reset, Act::Refuse, Act::Http(503), Act::Framed(vec![0xff])]) {
        let script = act.clone();
        let racks = Scripted::start(info(reading::names()), move |_, message| {
            if crate::support::backend::names(&message) == ["bad"] {
                return script.clone();
            }
            Act::Message(filtered(&message, &["a"], "no").encode_to_vec())
        })
        .await;
        let gateway = before(&racks, "filter: {timeout: 30s, failurePolicy: Ignore}", "", eager()).await;
        for _ in 0..OPENS + 3 {
            let bad = gateway.post("/filter", by_name(&["bad"])).await.json();
            assert_eq!((&bad["NodeNames"], &bad["Error"]), (&json!(["bad"]), &json!("")), "ignored: {act:?}");
        }
        assert_eq!(filter(&gateway).await["NodeNames"], json!(["b"]), "{act:?}");
        gateway
            .until_counted("no opening", r#"circuit_openings_total{backend="racks",verb="filter"} 0"#)
            .await;
    }
}

#[tokio::test]
async fn calls_that_end_with_one_connection_are_one_failure() {
    let racks = Scripted::start(info(reading::names()), |_, message| {
        // The last one takes the others with it.
        if crate::support::backend::names(&message) == ["drop"] { Act::Drop } else { Act::Hang }
    })
    .await;
    let gateway = before(&racks, "filter: {}", "", eager()).await;
    let hanging = futures_util::future::join_all((0..10).map(|_| filter(&gateway)));
    let dropping = async {
        until("10 calls", || racks.messages("Filter").len() >= 10).await;
        gateway.post("/filter", by_name(&["drop"])).await
    };
    tokio::join!(hanging, dropping);
    gateway.until_counted("resets", r#"kind="reset",policy="fail"} 11"#).await;
    gateway.until_counted("no opening", r#"circuit_openings_total{backend="racks",verb="filter"} 0"#).await;
}
