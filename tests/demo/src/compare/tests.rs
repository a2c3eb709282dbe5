//! The comparison finds errors in an answer.

use serde_json::json;

use super::*;
use crate::{calls, question::KnownNodes};

fn opinion<T>(policy: &str, weight: u32, of_nodes: Vec<T>) -> Opinion<T> {
    Opinion { policy: policy.to_owned(), weight, of_nodes }
}

fn question() -> Question {
    let [call, ..] = calls::captured();
    Question::read(&call.body, &calls::known_nodes().unwrap()).unwrap()
}

/// Rack refuses the first node, quota the first and the last.
fn refusals() -> Vec<Opinion<Option<String>>> {
    let (drained, over) = (Some("drained".to_owned()), Some("over quota".to_owned()));
    vec![opinion("rack", 1, vec![drained, None, None]), opinion("quota", 1, vec![over.clone(), None, over])]
}

fn names(question: &Question) -> [&str; 3] {
    [0, 1, 2].map(|place| question.nodes[place].name.as_str())
}

#[test]
fn an_answer_that_follows_the_policies_is_no_surprise() {
    let question = question();
    let [first, second, third] = names(&question);
    let result = json!({
        "NodeNames": [second],
        "FailedNodes": {third: "quota: over quota"},
        "FailedAndUnresolvableNodes": {first: "rack: drained"},
    });
    let outcome = FilterOutcome::of(&question, &refusals(), &serde_json::from_value(result).unwrap());
    assert!(outcome.surprises.is_empty(), "{:?}", outcome.surprises);
    assert_eq!(outcome.staying, [second]);
    let who: Vec<_> = outcome.refusals[0].iter().map(|refusal| refusal.policy.as_str()).collect();
    assert_eq!(who, ["rack", "quota"]);
}

#[test]
fn a_wrong_filter_answer_is_a_surprise() {
    let question = question();
    let [first, second, third] = names(&question);
    let right = json!({first: "rack: drained", third: "quota: over quota"});
    let cases = [
        (json!({"NodeNames": [second, third], "FailedNodes": right}), "the gateway leaves"),
        (json!({"NodeNames": [second]}), "the gateway's reason is None"),
        (
            json!({"NodeNames": [second], "FailedNodes": {first: "quota: over quota"}}),
            "the gateway's reason is Some",
        ),
        (json!({"NodeNames": [second], "FailedNodes": right, "Error": "late"}), "filter fails: late"),
        (json!({"NodeNames": [second], "FailedNodes": right, "Nodes": {"items": [{}]}}), "as it was sent"),
    ];
    for (result, expected) in cases {
        let shown = result.to_string();
        let outcome = FilterOutcome::of(&question, &refusals(), &serde_json::from_value(result).unwrap());
        assert!(outcome.surprises.iter().any(|surprise| surprise.contains(expected)), "{shown}: {outcome:?}");
    }
}

#[test]
fn objects_are_recognised_by_their_bytes() {
    let [_, _, call, _] = calls::captured();
    let question = Question::read(&call.body, &KnownNodes::new()).unwrap();
    let objects = [&question.nodes[1].json, &question.nodes[2].json].map(String::as_str).join(",");
    let result = format!(r#"{{"Nodes":{{"items":[{objects}]}}}}"#);
    let result = serde_json::from_str(&result).unwrap();
    assert_eq!(staying(&question, &result), [&*question.nodes[1].name, &*question.nodes[2].name]);
}

#[test]
fn sums_are_weighted_and_compared() {
    let question = question();
    let opinions = [opinion("rack", 1, vec![4, 0, 1]), opinion("zone", 2, vec![5, 0, -1])];
    let list = |scores: [i64; 3]| -> Vec<HostPriority> {
        let pairs = names(&question).into_iter().zip(scores);
        pairs.map(|(host, score)| HostPriority { host: host.to_owned(), score }).collect()
    };
    let outcome = ScoreOutcome::of(&question, &opinions, &list([14, 0, -1])).unwrap();
    assert!(outcome.surprises.is_empty(), "{:?}", outcome.surprises);
    assert_eq!(outcome.best(), Some(14));
    let outcome = ScoreOutcome::of(&question, &opinions, &list([14, 0, 0])).unwrap();
    assert_eq!(outcome.surprises.len(), 1);
    let outcome = ScoreOutcome::of(&question, &opinions, &list([14, 0, -1])[..2]).unwrap();
    assert_eq!(outcome.surprises.len(), 2);
}
