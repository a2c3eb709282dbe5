//! Calls to prioritize.

use extender_gateway_api::NodeVerdict;
use extender_policy_api::v1beta1::{GetInfoResponse, Normalization, Verb};
use prost::Message;
use serde_json::json;

use super::{node, part, totals, verdict};
use crate::support::{
    admin::Seen,
    backend::{Act, Scripted, configured, info, scored},
    by_name, reading,
};

/// A backend's declared scale.
fn scale(normalization: Normalization, reversed: bool, (min, max): (i32, i32)) -> GetInfoResponse {
    let mut info = info(reading::names());
    for verb in info.verbs.iter_mut().filter(|verb| verb.verb() == Verb::Score) {
        verb.normalization = normalization as i32;
        verb.reversed = reversed;
        (verb.score_min, verb.score_max) = (Some(min), Some(max));
    }
    info
}

/// A backend that scores a to c like this.
async fn scoring(info: GetInfoResponse, scores: [i32; 3]) -> Scripted {
    let score = move |name: &str| scores[usize::from(name.as_bytes()[0] - b'a')];
    Scripted::start(info, move |_, message| Act::Message(scored(&message, score).encode_to_vec())).await
}

/// The same without an opinion about the nodes at these positions.
async fn silent_about(info: GetInfoResponse, scores: [i32; 3], absent: &'static [u32]) -> Scripted {
    let score = move |name: &str| scores[usize::from(name.as_bytes()[0] - b'a')];
    let script = move |_: &str, message| {
        let mut answer = scored(&message, score);
        answer.scores.as_mut().unwrap().absent = absent.to_vec();
        Act::Message(answer.encode_to_vec())
    };
    Scripted::start(info, script).await
}

fn counts(raw: i32, normalized: f64, weighted: f64) -> NodeVerdict {
    NodeVerdict {
        raw: Some(raw),
        normalized: Some(normalized),
        weighted: Some(weighted),
        ..NodeVerdict::default()
    }
}

#[tokio::test]
async fn a_call_has_raw_normalized_weighted_and_the_sum_that_was_answered() {
    let plain = scoring(scale(Normalization::None, false, (0, 10)), [3, 99, -4]).await;
    let spread = scoring(scale(Normalization::MinMax, true, (0, 1000)), [0, 300, 1000]).await;
    let failing = Scripted::always(Act::Status(14, "gone")).await;
    let backends = configured("plain", &plain, "score: {timeout: 60s, weight: 2}")
        + &configured("spread", &spread, "score: {timeout: 60s, weight: 3}")
        + &configured("failing", &failing, "score: {timeout: 60s}");
    let seen = Seen::start(&format!("nodes: {{source: NamesOnly}}\nbackends:\n{backends}")).await;
    let reply = seen.gateway.post("/prioritize", by_name(&["a", "b", "c"])).await.json();
    let call = seen.call(1).await;

    let (told, logged) = totals(&reply, &call);
    let expected = json!([{"Host": "a", "Score": 36}, {"Host": "b", "Score": 41}, {"Host": "c", "Score": 0}]);
    assert_eq!(told, expected);
    assert_eq!(logged, told);
    for (name, by_plain, by_spread) in [
        ("a", counts(3, 3.0, 6.0), counts(0, 10.0, 30.0)),
        ("b", counts(10, 10.0, 20.0), counts(300, 7.0, 21.0)),
        ("c", counts(0, 0.0, 0.0), counts(1000, 0.0, 0.0)),
    ] {
        assert_eq!(verdict(&call, name, "plain"), Some(&by_plain), "{name}");
        assert_eq!(verdict(&call, name, "spread"), Some(&by_spread), "{name}");
        assert_eq!(verdict(&call, name, "failing"), None);
    }
    let (plain, spread) = (part(&call, "plain"), part(&call, "spread"));
    assert_eq!((plain.weight, plain.normalization.as_deref(), plain.clamped), (Some(2), Some("None"), 2));
    assert_eq!(
        (spread.weight, spread.normalization.as_deref(), spread.clamped),
        (Some(3), Some("MinMax reversed"), 0)
    );
    let failure = part(&call, "failing").failure.as_ref().unwrap();
    assert_eq!((failure.kind.as_str(), failure.policy.as_str()), ("status", "ignore"));
    assert_eq!((call.verb.as_str(), call.outcome.as_str(), call.left), ("prioritize", "ok", None));
}

#[tokio::test]
async fn a_node_that_nobody_scored_has_no_sum() {
    let facts = Scripted::start(info(reading::facts()), |_, message| {
        Act::Message(scored(&message, |_| 4).encode_to_vec())
    })
    .await;
    let backend = configured("facts", &facts, "score: {timeout: 60s}");
    let seen = Seen::start(&format!("nodes: {{source: Watch}}\nbackends:\n{backend}")).await;
    seen.gateway.table.apply(br#"{"metadata":{"name":"b"}}"#).unwrap();
    let reply = seen.gateway.post("/prioritize", by_name(&["a", "b"])).await.json();
    let call = seen.call(1).await;
    let (told, logged) = totals(&reply, &call);
    assert_eq!(told, json!([{"Host": "b", "Score": 4}]));
    assert_eq!(logged, told);
    assert_eq!((node(&call, "a").total, verdict(&call, "a", "facts")), (None, None));
}

#[tokio::test]
async fn a_node_without_an_opinion_has_the_scores_of_others_alone() {
    let declared = || scale(Normalization::MinMax, false, (0, 1000));
    let silent = silent_about(declared(), [100, 300, 1000], &[2]).await;
    let mute = silent_about(declared(), [100, 300, 1000], &[0, 1, 2]).await;
    let mute = configured("silent", &mute, "score: {timeout: 60s}");
    let plain = scoring(info(reading::names()), [1, 2, 3]).await;
    let silent = configured("silent", &silent, "score: {timeout: 60s}");
    let both = silent.clone() + &configured("plain", &plain, "score: {timeout: 60s}");
    let counted = Some(&counts(300, 10.0, 10.0));
    for (backends, sums, verdict_on_b) in
        [(both, [1, 12, 3], counted), (silent, [0, 10, 0], counted), (mute, [0, 0, 0], None)]
    {
        let seen = Seen::start(&format!("nodes: {{source: NamesOnly}}\nbackends:\n{backends}")).await;
        let reply = seen.gateway.post("/prioritize", by_name(&["a", "b", "c"])).await.json();
        let call = seen.call(1).await;
        let [a, b, c] = sums;
        let expected =
            json!([{"Host": "a", "Score": a}, {"Host": "b", "Score": b}, {"Host": "c", "Score": c}]);
        assert_eq!(reply, expected, "300 is the largest that counts");
        assert_eq!((verdict(&call, "b", "silent"), verdict(&call, "c", "silent")), (verdict_on_b, None));
    }
}

#[tokio::test]
async fn a_position_without_a_score_is_a_failure() {
    for (absent, why) in [
        (&[3][..], "position 3 in scores.absent is out of range: there are 3 scores"),
        (&[1, 0], "position 0 in scores.absent is not in ascending order"),
    ] {
        let broken = silent_about(info(reading::names()), [1, 2, 3], absent).await;
        let backend = configured("broken", &broken, "score: {timeout: 60s}");
        let seen = Seen::start(&format!("nodes: {{source: NamesOnly}}\nbackends:\n{backend}")).await;
        seen.gateway.post("/prioritize", by_name(&["a", "b", "c"])).await;
        let call = seen.call(1).await;
        let failure = part(&call, "broken").failure.as_ref().unwrap();
        assert_eq!((failure.kind.as_str(), failure.message.as_str()), ("malformed", why));
    }
}

#[tokio::test]
async fn the_scores_of_a_shadow_are_shown_and_not_added() {
    let real = scoring(info(reading::names()), [1, 2, 3]).await;
    let shadow = scoring(info(reading::names()), [9, 8, 7]).await;
    let backends = configured("real", &real, "score: {timeout: 60s}")
        + &configured("shadow", &shadow, "mode: Shadow, score: {timeout: 60s, weight: 5}");
    let seen = Seen::start(&format!("nodes: {{source: NamesOnly}}\nbackends:\n{backends}")).await;
    let reply = seen.gateway.post("/prioritize", by_name(&["a", "b", "c"])).await.json();
    let counted = r#"extender_gateway_backend_shadow_answers_total{backend="shadow",verb="score",outcome="disagrees"} 1"#;
    seen.gateway.until_counted("the shadow", counted).await;
    let calls = seen.calls(1).await;
    let (told, logged) = totals(&reply, &calls[0]);
    assert_eq!(logged, told);
    assert_eq!(verdict(&calls[0], "a", "shadow"), Some(&counts(9, 9.0, 45.0)));
    let part = part(&calls[0], "shadow");
    assert_eq!((part.answer.as_deref(), part.weight), (Some("disagrees"), Some(5)));
}
