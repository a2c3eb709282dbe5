//! Scores: clamped, normalized, reversed, weighed, added and rounded.

use std::sync::Arc;

use extender_policy_api::v1beta1::{self as api, Normalization, Verb, VerbInfo};
use futures_util::future::BoxFuture;
use serde_json::{Value, json};
use tokio::sync::Barrier;

use crate::{
    answers::scoring,
    backend::{Act, Received},
    case::{Case, Check, Declared, Group, Nodes, case, equal, table},
    scene::{about, backend, info, verb},
    stage::Stage,
};

const NODES: [&str; 3] = ["n1", "n2", "n3"];

type Scores = &'static [(&'static str, i32)];

pub(crate) fn group() -> Group {
    let mut cases = totals();
    cases.extend(wrong());
    cases.push(case(
        "scores.at-once",
        &["15: Score is always called with the nodes of the prioritize call"],
        "all backends are asked about all nodes, at once",
        at_once,
    ));
    Group { nodes: Nodes::Calls, binds: false, backends: backends(), cases }
}

fn backends() -> Vec<Declared> {
    let scored =
        |name, settings: Value, normalization: Normalization, range: Option<(i32, i32)>, reversed| {
            let score = VerbInfo {
                normalization: normalization.into(),
                score_min: range.map(|(min, _)| min),
                score_max: range.map(|(_, max)| max),
                reversed,
                ..verb(Verb::Score)
            };
            backend(name, json!({ "score": settings }), &info(vec![score]))
        };
    let usual = || json!({"timeout": "20s"});
    vec![
        scored("none", usual(), Normalization::None, None, false),
        scored("thrice", json!({"timeout": "20s", "weight": 3}), Normalization::None, None, false),
        scored("bounded", usual(), Normalization::None, Some((0, 10)), false),
        scored("range", usual(), Normalization::Range, Some((-5, 5)), false),
        scored("max", usual(), Normalization::Max, None, false),
        scored("max2", usual(), Normalization::Max, None, false),
        scored("max3", usual(), Normalization::Max, None, false),
        scored("minmax", usual(), Normalization::MinMax, None, false),
        scored("reversed", usual(), Normalization::MinMax, None, true),
        scored("chosen", json!({"timeout": "20s", "normalize": "MinMax"}), Normalization::None, None, false),
    ]
}

const ORDER: &str = "63: Scores are clamped to the declared range first";
const SUM: &str = "Normalization: The sum over backends, each times its weight, is exact";
const ABSENT: &str = "63: A node in `absent` is left out of all of it";

fn totals() -> Vec<Case> {
    table!(case:
        "scores.clamped" ["14.2", ORDER]
            "scores are clamped to the declared range" => total(&[("bounded", &[("n1", -7), ("n2", 12), ("n3", 3)])], [0, 10, 3]);
        "scores.none" ["Normalization: NONE", "63: Nothing is clamped after that"]
            "without a normalization scores stay as they are" => total(&[("none", &[("n1", -4), ("n2", 25), ("n3", 7)])], [-4, 25, 7]);
        "scores.least" ["63: The least number of 32 bits counts as the next one"]
            "the least number of 32 bits is the next one" => total(&[("none", &[("n1", i32::MIN), ("n2", i32::MAX), ("n3", 0)])], [-2_147_483_647, 2_147_483_647, 0]);
        "scores.range" ["Normalization: RANGE", ORDER]
            "a range becomes 0 to 10" => total(&[("range", &[("n1", -9), ("n2", 0), ("n3", 5)])], [0, 5, 10]);
        "scores.max" ["Normalization: MAX"]
            "the largest becomes 10" => total(&[("max", &[("n1", 0), ("n2", 4), ("n3", 8)])], [0, 5, 10]);
        "scores.max-not-positive" ["Normalization: MAX"]
            "all are 0 if the largest is not positive" => total(&[("max", &[("n1", -1), ("n2", 0), ("n3", -5)])], [0, 0, 0]);
        "scores.max-negative" ["63: Nothing is clamped after that"]
            "negative scores stay negative" => total(&[("max", &[("n1", -4), ("n2", 0), ("n3", 8)])], [-5, 0, 10]);
        "scores.min-max" ["Normalization: MIN_MAX"]
            "the smallest becomes 0, the largest 10" => total(&[("minmax", &[("n1", 10), ("n2", 20), ("n3", 15)])], [0, 10, 5]);
        "scores.min-max-equal" ["Normalization: MIN_MAX"]
            "equal scores become 0" => total(&[("minmax", &[("n1", 7), ("n2", 7), ("n3", 7)])], [0, 0, 0]);
        "scores.reversed" ["Normalization: `reversed` turns the result into 10 minus it"]
            "reversed scores are 10 minus the normalized ones" => total(&[("reversed", &[("n1", 10), ("n2", 20), ("n3", 15)])], [10, 0, 5]);
        "scores.chosen" ["info.proto: These are properties of the code; the operator can only"]
            "the operator's normalization counts" => total(&[("chosen", &[("n1", 1), ("n2", 2), ("n3", 1)])], [0, 10, 0]);
        "scores.weighed" [SUM]
            "scores count times the weight" => total(&[("thrice", &[("n1", 2), ("n2", -1), ("n3", 0)])], [6, -3, 0]);
        "scores.added" [SUM]
            "scores of several backends are added" => total(&[("none", &[("n1", 1), ("n2", 2), ("n3", 3)]), ("thrice", &[("n1", 1), ("n2", 1), ("n3", 1)])], [4, 5, 6]);
        "scores.exact" ["63: Scores are clamped", SUM]
            "the sum is rounded, not its parts" => total(&[("max", &[("n1", 1), ("n2", 3)]), ("max2", &[("n1", 1), ("n2", 3)]), ("max3", &[("n1", 1), ("n2", 3)])], [10, 30, 0]);
        "scores.half-up" [SUM]
            "a half is rounded away from zero" => total(&[("max", &[("n1", 1), ("n2", -1), ("n3", 4)])], [3, -3, 10]);
        "scores.absent" [ABSENT, "Normalization: Largest and smallest are those of the nodes in the request"]
            "a node without an opinion is left out of the normalization" => total(&[("minmax", &[("n2", 3), ("n3", 4)]), ("none", &[("n1", 2)])], [2, 0, 10]);
        "scores.absent-reversed" [ABSENT]
            "nothing is added for a node without an opinion, reversed or not" => total(&[("reversed", &[("n2", 3), ("n3", 4)])], [0, 10, 0]);
        "scores.no-opinion" ["63: It is listed all the same, with 0 if no backend has an opinion"]
            "nodes without any opinion are listed with 0" => total(&[], [0, 0, 0]);
    )
}

/// These raw scores have these totals for the nodes n1, n2 and n3.
fn total(
    given: &'static [(&'static str, Scores)],
    totals: [i64; 3],
) -> impl Fn(Stage) -> BoxFuture<'static, Check> {
    move |stage| {
        Box::pin(async move {
            for (backend, scores) in given {
                stage.backend(backend)?.on("Score", scoring(scores.to_vec()));
            }
            totals_are(&stage, totals).await
        })
    }
}

async fn totals_are(stage: &Stage, totals: [i64; 3]) -> Check {
    let expected: Vec<_> =
        NODES.iter().zip(totals).map(|(name, total)| ((*name).to_owned(), total)).collect();
    equal("the totals", &stage.prioritize(&about(&NODES)).await?, &expected)
}

/// Answers of Score that are failures, of a backend beside another one.
fn wrong() -> Vec<Case> {
    let scores = |count, values: &[i32], absent: &[u32]| {
        let scores = Some(api::Scores { values: values.to_vec(), absent: absent.to_vec() });
        Act::answer(&api::ScoreResponse { result: Some(api::Result::answered(count, "")), scores })
    };
    table!(case:
        "scores.no-result" ["11: Anything else is a failure"]
            "an answer without a result is ignored" => ignores(Act::Message(Vec::new()));
        "scores.fewer" ["14.1"] "too few scores are a failure" => ignores(scores(3, &[9, 9], &[]));
        "scores.more" ["14.1"] "too many scores are a failure" => ignores(scores(3, &[9; 4], &[]));
        "scores.absent-out-of-range" ["14.1"]
            "an absent position that no node has is a failure" => ignores(scores(3, &[9; 3], &[3]));
        "scores.absent-unordered" ["14.1"]
            "absent positions that are not in order are a failure" => ignores(scores(3, &[9; 3], &[1, 0]));
        "scores.status" ["49: What the gateway does is the same for every failure"]
            "an error of one backend leaves the scores of others" => ignores(Act::Status(13, "a bug", ""));
    )
}

fn ignores(act: Act) -> impl Fn(Stage) -> BoxFuture<'static, Check> {
    move |stage| Box::pin(ignored(stage, act.clone()))
}

async fn ignored(stage: Stage, act: Act) -> Check {
    stage.backend("none")?.always("Score", act);
    stage.backend("thrice")?.on("Score", scoring(vec![("n1", 1), ("n2", 2), ("n3", 3)]));
    totals_are(&stage, [3, 6, 9]).await
}

async fn at_once(stage: Stage) -> Check {
    let barrier = Arc::new(Barrier::new(2));
    for name in ["none", "max"] {
        let barrier = Arc::clone(&barrier);
        let score = scoring(vec![("n1", 1), ("n2", 1), ("n3", 1)]);
        stage
            .backend(name)?
            .on("Score", move |received| Act::Together(Arc::clone(&barrier), Box::new(score(received))));
    }
    totals_are(&stage, [11, 11, 11]).await?;
    let calls = stage.backend("none")?.received("Score");
    let names = calls.last().map(Received::names);
    equal("the nodes", &names.unwrap_or_default().len(), &3)
}
