//! Valid and invalid queries of the log.

use extender_gateway_api::{API_VERSION, DecisionList};
use prost::Message;
use serde_json::json;

use super::of_pod;
use crate::support::{
    admin::Seen,
    backend::{Act, Scripted, configured, info, scored},
    by_name, reading,
};

/// Three calls: filter of pod 1 over a and b, of which `zones` refuses b; prioritize of pod 1 over a, where
/// `failing` fails; filter of pod 2 over c.
async fn start() -> (Seen, [Scripted; 2]) {
    let zones = Scripted::refusing(&["b"], "no", 3).await;
    let failing = Scripted::start(info(reading::names()), |verb, message| match verb {
        "Score" => Act::Status(13, "no"),
        _ => Act::Message(scored(&message, |_| 0).encode_to_vec()),
    })
    .await;
    let backends = configured("zones", &zones, "filter: {timeout: 60s}, score: {timeout: 60s}")
        + &configured("failing", &failing, "score: {timeout: 60s}");
    let seen = Seen::start(&format!("nodes: {{source: NamesOnly}}\nbackends:\n{backends}")).await;
    // A call is recorded after its response, so that the next one on another connection could come before it.
    let calls =
        [("/filter", "1", &["a", "b"] as &[&str]), ("/prioritize", "1", &["a"]), ("/filter", "2", &["c"])];
    for (count, (path, uid, nodes)) in (1..).zip(calls) {
        seen.gateway.post(path, of_pod(uid, nodes)).await;
        seen.settled(count).await;
    }
    (seen, [zones, failing])
}

/// Calls as verb and UID, the newest first.
fn found(list: &DecisionList) -> Vec<String> {
    list.items.iter().map(|call| format!("{} {}", call.verb, call.pod.uid)).collect()
}

#[tokio::test]
async fn each_parameter_restricts() {
    let (seen, _backends) = start().await;
    let (one, scored, two) = ("filter 1", "prioritize 1", "filter 2");
    for (query, expected) in [
        ("", &[two, scored, one] as &[&str]),
        ("?", &[two, scored, one]),
        ("?pod=pod-1", &[scored, one]),
        ("?pod=pod-9", &[]),
        ("?namespace=shop", &[two, scored, one]),
        ("?namespace=mill", &[]),
        ("?uid=2", &[two]),
        ("?node=b", &[one]),
        ("?node=a", &[scored, one]),
        ("?backend=failing", &[scored]),
        ("?backend=unknown", &[]),
        ("?verdict=rejected", &[one]),
        ("?verdict=accepted", &[two, one]),
        ("?verdict=scored", &[scored]),
        ("?verdict=failed", &[scored]),
        ("?verdict=failed&nodes=none", &[scored]),
        ("?verdict=rejected&nodes=none", &[one]),
        ("?node=b&nodes=none", &[one]),
        ("?verdict=disagreed", &[]),
        ("?verdict=failed&backend=zones", &[]),
        ("?verdict=rejected&node=a", &[]),
        ("?verdict=accepted&node=a", &[one]),
        ("?verb=prioritize", &[scored]),
        ("?verb=bind", &[]),
        ("?verb=filter&pod=pod-2&namespace=shop&uid=2&node=c&backend=zones&verdict=accepted&limit=1", &[two]),
        ("?limit=3", &[two, scored, one]),
        ("?pod=pod%2D1&verb=filter", &[one]),
    ] {
        let list = seen.admin.decisions(query).await;
        assert_eq!(found(&list), expected, "{query}");
        assert!(!list.truncated, "{query}");
        assert_eq!((list.api_version.as_str(), list.kind.as_str()), (API_VERSION, "DecisionList"));
        assert_eq!((list.gateway.as_str(), list.log.calls, list.log.pods), ("test", 3, 2), "{query}");
    }
}

#[tokio::test]
async fn a_limit_takes_the_newest_and_says_that_there_are_more() {
    let (seen, _backends) = start().await;
    for (limit, expected) in [(0, &[] as &[&str]), (1, &["filter 2"]), (2, &["filter 2", "prioritize 1"])] {
        let list = seen.admin.decisions(&format!("?limit={limit}")).await;
        assert_eq!(
            (found(&list), list.truncated),
            (expected.iter().map(ToString::to_string).collect(), true)
        );
    }
}

#[tokio::test]
async fn of_a_call_with_the_node_only_that_node_is_shown() {
    let (seen, _backends) = start().await;
    let [call] = &seen.admin.decisions("?node=b").await.items[..] else { panic!("one call") };
    assert_eq!(call.offered, 2, "of the whole call");
    let expected = json!([{"name": "b", "rejectedBy": "zones", "reason": "no", "backends": {"zones": {"rejected": "no"}}}]);
    assert_eq!(json!(call.nodes), expected);
}

#[tokio::test]
async fn a_call_without_its_nodes_is_otherwise_the_same() {
    let (seen, _backends) = start().await;
    let mut calls = seen.admin.decisions("").await.items;
    for call in &mut calls {
        call.nodes.clear();
    }
    assert_eq!(seen.admin.decisions("?nodes=none").await.items, calls);
    assert_eq!(calls[2].backends[0].rejected, 1);
}

#[tokio::test]
async fn a_wrong_parameter_is_refused_with_a_sentence() {
    let (seen, _backends) = start().await;
    for (query, expected) in [
        (
            "verdict=maybe",
            "unknown variant `maybe`, expected one of `accepted`, `rejected`, `scored`, `failed`, `disagreed`",
        ),
        ("verb=score", "unknown verb \"score\"; known are filter, prioritize, preempt, bind"),
        ("limit=-1", "invalid digit found in string"),
        ("limit=many", "invalid digit found in string"),
        ("limit=", "cannot parse integer from empty string"),
        ("nods=a", "unknown field `nods`, expected one of `pod`, `namespace`, `uid`, `node`, `backend`,"),
        ("nodes=a", "unknown variant `a`, expected `all` or `none`"),
        ("ids=a", "unknown field `ids`"),
        ("pod=a&pod=b", "duplicate field `pod`"),
    ] {
        let (status, error) = seen.admin.refused(&format!("/debug/decisions?{query}")).await;
        assert_eq!(status, 400, "{query}");
        assert!(error.contains(expected), "{query}: {error}");
    }
}

#[tokio::test]
async fn an_unknown_path_lists_those_that_exist() {
    let (seen, _backends) = start().await;
    let (status, error) = seen.admin.refused("/debug/decision").await;
    assert_eq!(status, 404);
    assert!(
        error.starts_with(
            "no such path /debug/decision; available: GET / (a page for browsers), GET /debug/decisions, "
        ),
        "{error}"
    );
    let answer = seen.admin.send("DELETE", "/debug/decisions", "").await;
    assert_eq!(answer.status, 405);
    assert_eq!(answer.json()["error"], "method DELETE not allowed at /debug/decisions");
}

#[tokio::test]
async fn a_call_is_shown_while_others_come() {
    let (seen, _backends) = start().await;
    let calls = async {
        for _ in 0..50 {
            seen.gateway.post("/filter", by_name(&["a", "b"])).await;
        }
    };
    let looks = async {
        for _ in 0..50 {
            assert_eq!(found(&seen.admin.decisions("?uid=2").await), ["filter 2"]);
        }
    };
    tokio::join!(calls, looks);
}
