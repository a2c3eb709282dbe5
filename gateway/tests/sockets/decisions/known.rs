//! Calls whose answers were cached.

use extender_gateway_api::NodeVerdict;
use extender_policy_api::v1beta1::GetInfoResponse;
use serde_json::json;

use super::{accepted, part, rejected, totals, verdict};
use crate::support::{
    admin::Seen,
    backend::{configured, info},
    function::{Function, about, labelled, pure, sibling},
    reading,
};

/// A gateway that knows the nodes a, which is refused, b and c, and the backend that says so.
async fn start(info: GetInfoResponse) -> (Function, Seen) {
    let function = Function::start(info).await;
    let backend = configured("only", &function.backend, "filter: {timeout: 60s}, score: {timeout: 60s}");
    let seen = Seen::start(&format!("nodes: {{source: Watch}}\nbackends:\n{backend}")).await;
    for (name, labels) in [
        ("a", json!({"refused": "draining", "rule": "rack drain"})),
        ("b", json!({"score": "3"})),
        ("c", json!({"score": "5"})),
    ] {
        seen.gateway.table.apply(labelled(name, &labels).as_bytes()).unwrap();
    }
    (function, seen)
}

/// The rejection of node a.
fn by_rule(name: &str) -> NodeVerdict {
    NodeVerdict { rule: Some(name.to_owned()), ..rejected("draining") }
}

#[tokio::test]
async fn a_remembered_answer_has_its_verdicts_and_took_no_time() {
    let (function, seen) = start(pure(reading::facts())).await;
    for number in 1..=2 {
        seen.gateway.post("/filter", about(&sibling(number), &["a", "b", "c"])).await;
    }
    let call = seen.call(2).await;
    let of_backend = part(&call, "only");
    assert_eq!((of_backend.asked, of_backend.known, of_backend.rejected), (0, 3, 1));
    assert!(of_backend.seconds == 0.0, "the call did not wait: {of_backend:?}");
    assert_eq!(verdict(&call, "a", "only"), Some(&by_rule("rack drain")));
    assert_eq!(verdict(&call, "b", "only"), Some(&accepted()));

    // One node more than is cached.
    seen.gateway.table.apply(labelled("d", &json!({})).as_bytes()).unwrap();
    seen.gateway.post("/filter", about(&sibling(3), &["a", "b", "c", "d"])).await;
    let call = seen.call(3).await;
    assert_eq!((part(&call, "only").asked, part(&call, "only").known), (1, 3));
    assert!(part(&call, "only").seconds > 0.0);
    assert_eq!(verdict(&call, "a", "only"), Some(&by_rule("rack drain")), "of a partly known answer, too");
    assert_eq!(verdict(&call, "d", "only"), Some(&accepted()));
    assert_eq!(function.filtered(), [vec!["a", "b", "c"], vec!["d"]]);
}

#[tokio::test]
async fn scores_that_came_with_filter_are_known_to_prioritize() {
    let (function, seen) = start(info(reading::facts())).await;
    seen.gateway.post("/filter", about(&sibling(1), &["a", "b", "c"])).await;
    let reply = seen.gateway.post("/prioritize", about(&sibling(1), &["b", "c"])).await.json();
    assert!(function.scored().is_empty());
    let call = seen.call(2).await;
    assert_eq!((part(&call, "only").asked, part(&call, "only").known), (0, 2));
    let (told, logged) = totals(&reply, &call);
    assert_eq!(told, json!([{"Host": "b", "Score": 3}, {"Host": "c", "Score": 5}]));
    assert_eq!(logged, told);
    assert_eq!(verdict(&call, "c", "only").unwrap().raw, Some(5));
}
