//! Filter returns the scores if the backend's declaration allows it, and prioritize requests only the missing ones.

use std::time::Duration;

use crate::support::{
    Gateway,
    backend::{configured, info},
    function::{Brings, Function, about, labelled, pure, sibling},
    reading, steady,
};
use extender_gateway_pace::cadences::Cadences;
use extender_policy_api::v1beta1::{self as api, FilterRequest, GetInfoResponse, Scope};
use prost::Message;
use serde_json::{Value, json};

const BOTH: &str = "filter: {timeout: 60s}, score: {timeout: 60s}";

/// A backend, and a gateway that knows the nodes a to d, which it scores 1 to 4.
async fn start(info: GetInfoResponse, rest: &str) -> (Function, Gateway) {
    paced(info, rest, steady()).await
}

async fn paced(info: GetInfoResponse, rest: &str, cadences: Cadences) -> (Function, Gateway) {
    let function = Function::start(info).await;
    let backend = configured("only", &function.backend, rest);
    let rest = format!("nodes: {{source: Watch}}\ntimeouts: {{decision: 60s}}\nbackends:\n{backend}");
    let gateway = Gateway::start_paced(&rest, cadences).await;
    for (score, node) in (1..).zip(NODES) {
        apply(&gateway, node, score);
    }
    (function, gateway)
}

const NODES: [&str; 4] = ["a", "b", "c", "d"];

fn apply(gateway: &Gateway, node: &str, score: u32) {
    let node = labelled(node, &json!({"score": score.to_string()}));
    gateway.table.apply(node.as_bytes()).unwrap();
}

async fn filter(gateway: &Gateway, pod: &Value) {
    let answer = gateway.post("/filter", about(pod, &NODES)).await.json();
    assert_eq!(answer["NodeNames"], json!(NODES), "{answer}");
}

/// The scores of these nodes, in their order.
async fn prioritize(gateway: &Gateway, pod: &Value, names: &[&str]) -> Vec<i64> {
    let answer = gateway.post("/prioritize", about(pod, names)).await.json();
    answer.as_array().unwrap().iter().map(|host| host["Score"].as_i64().unwrap()).collect()
}

fn wanted(function: &Function) -> Vec<bool> {
    let messages = function.backend.messages("Filter").into_iter();
    messages.map(|message| FilterRequest::decode(message).unwrap().want_scores).collect()
}

#[tokio::test]
async fn prioritize_asks_nobody_about_what_came_with_filter() {
    let (function, gateway) = start(info(reading::facts()), BOTH).await;
    for number in 0..3 {
        filter(&gateway, &sibling(number)).await;
        assert_eq!(prioritize(&gateway, &sibling(number), &["d", "b"]).await, [4, 2], "some of the nodes");
    }
    assert_eq!(wanted(&function), [true; 3]);
    assert!(function.scored().is_empty());
    let line = r#"extender_gateway_backend_known_nodes_total{backend="only",verb="score",source="early"} 6"#;
    assert!(gateway.metrics.text().contains(line));
}

#[tokio::test]
async fn what_does_not_fit_together_takes_two_rounds() {
    let change = |change: fn(&mut GetInfoResponse)| {
        let mut info = info(reading::without_identity(reading::facts()));
        change(&mut info);
        info
    };
    for (what, info) in [
        ("a score that reads something else", change(|info| info.verbs[1].reads = Some(reading::names()))),
        (
            "a score that depends on the whole set",
            change(|info| info.verbs[1].scope = Scope::WholeSet as i32),
        ),
        ("a score with side effects", change(|info| info.verbs[1].set_effects(api::Effects::ChangesOutside))),
        ("a pure score alone", change(|info| info.verbs[1].set_effects(api::Effects::Pure))),
        ("a pure filter alone", change(|info| info.verbs[0].set_effects(api::Effects::Pure))),
    ] {
        let (function, gateway) = start(info, BOTH).await;
        filter(&gateway, &sibling(1)).await;
        prioritize(&gateway, &sibling(1), &["d", "a"]).await;
        assert_eq!(wanted(&function), [false], "{what}");
        assert_eq!(function.scored(), [["d", "a"]], "{what}");
    }
    let (function, gateway) = start(info(reading::facts()), "filter: {timeout: 60s}").await;
    filter(&gateway, &sibling(1)).await;
    assert_eq!(wanted(&function), [false], "its scores are not used");
}

#[tokio::test]
async fn what_depends_on_the_whole_set_is_asked_about_all_nodes_of_prioritize() {
    let mut info = pure(reading::facts());
    info.verbs[1].set_effects(api::Effects::ReadsOutside);
    info.verbs[1].set_scope(Scope::WholeSet);
    let (function, gateway) = start(info, BOTH).await;
    for number in 0..2 {
        filter(&gateway, &sibling(number)).await;
        assert_eq!(prioritize(&gateway, &sibling(number), &["c", "a", "b"]).await, [3, 1, 2]);
    }
    assert_eq!(function.filtered().len(), 1, "filter is pure");
    assert_eq!(function.scored(), [["c", "a", "b"]; 2]);
}

#[tokio::test]
async fn scores_are_good_for_one_prioritize_of_the_same_pod() {
    let (function, gateway) = start(info(reading::facts()), BOTH).await;
    filter(&gateway, &sibling(1)).await;
    prioritize(&gateway, &sibling(2), &["a", "b"]).await;
    assert_eq!(function.scored(), [["a", "b"]], "a sibling's are not its own");
    prioritize(&gateway, &sibling(1), &["a", "b"]).await;
    assert_eq!(function.scored().len(), 1);
    prioritize(&gateway, &sibling(1), &["a", "b"]).await;
    assert_eq!(function.scored().len(), 2, "they were taken");
    filter(&gateway, &sibling(3)).await;
    let mut relabelled = sibling(3);
    relabelled["metadata"]["labels"]["app"] = json!("db");
    prioritize(&gateway, &relabelled, &["a", "b"]).await;
    assert_eq!(function.scored().len(), 3, "the same UID, and not the pod that was scored");
}

#[tokio::test]
async fn scores_do_not_wait_for_ever() {
    for (early_scores, asked) in [(Duration::from_hours(1), 0), (Duration::ZERO, 1)] {
        let cadences = Cadences { early_scores, ..steady() };
        let (function, gateway) = paced(info(reading::facts()), BOTH, cadences).await;
        filter(&gateway, &sibling(1)).await;
        assert_eq!(prioritize(&gateway, &sibling(1), &["a", "b"]).await, [1, 2]);
        assert_eq!(function.scored().len(), asked, "they wait for {early_scores:?}");
    }
}

#[tokio::test]
async fn only_nodes_that_have_changed_since_filter_are_asked_about() {
    let (function, gateway) = start(info(reading::facts()), BOTH).await;
    filter(&gateway, &sibling(1)).await;
    apply(&gateway, "b", 9);
    gateway.table.remove("c");
    apply(&gateway, "c", 3);
    assert_eq!(prioritize(&gateway, &sibling(1), &NODES).await, [1, 9, 3, 4]);
    assert_eq!(function.scored(), [["b", "c"]]);
}

#[tokio::test]
async fn filter_may_come_without_the_scores_that_were_wanted() {
    for pure_verbs in [false, true] {
        let mut info = pure(reading::facts());
        info.verbs.iter_mut().for_each(|verb| {
            verb.set_effects(if pure_verbs { api::Effects::Pure } else { api::Effects::ReadsOutside });
        });
        let (function, gateway) = start(info, BOTH).await;
        function.state().brings = Brings::Nothing;
        filter(&gateway, &sibling(1)).await;
        assert_eq!(prioritize(&gateway, &sibling(1), &["a", "d"]).await, [1, 4]);
        assert_eq!((wanted(&function), function.scored().len()), (vec![true], 1));
    }
}

#[tokio::test]
async fn a_node_without_an_opinion_is_remembered_as_one() {
    for info in [info(reading::facts()), pure(reading::facts())] {
        let (function, gateway) =
            start(info, "filter: {timeout: 60s}, score: {timeout: 60s, normalize: MinMax}").await;
        gateway.table.apply(labelled("d", &json!({"score": "none"})).as_bytes()).unwrap();
        for number in 0..2 {
            filter(&gateway, &sibling(number)).await;
            assert_eq!(prioritize(&gateway, &sibling(number), &["d", "c", "b", "a"]).await, [0, 10, 5, 0]);
        }
        assert!(function.scored().is_empty());
    }
}

#[tokio::test]
async fn another_number_of_scores_makes_the_answer_malformed() {
    let (function, gateway) = start(info(reading::facts()), BOTH).await;
    function.state().brings = Brings::OneTooMany;
    let error = gateway.post("/filter", about(&sibling(1), &NODES)).await.error();
    assert_eq!(error, "extender-gateway: backend only failed filter: 5 scores for 4 nodes");
    let line = r#"extender_gateway_backend_failures_total{backend="only",verb="filter",kind="malformed",policy="fail"} 1"#;
    assert!(gateway.metrics.text().contains(line));
}
