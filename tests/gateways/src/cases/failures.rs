//! Answers of filter that are no answers: each is a failure, and never "all nodes fit".

use extender_policy_api::v1beta1::{self as api, Verb};
use futures_util::future::BoxFuture;
use h2::Reason;
use prost::Message as _;
use serde_json::json;

use crate::{
    answers::rejecting,
    backend::{Act, Received, framed},
    case::{Case, Check, Group, Nodes, case, ensure, equal, table},
    scene::{about, backend, info, verb},
    stage::Stage,
};

const NODES: [&str; 3] = ["n1", "n2", "n3"];

pub(crate) fn group() -> Group {
    let info = info(vec![verb(Verb::Filter)]);
    Group {
        nodes: Nodes::Calls,
        binds: false,
        backends: vec![
            backend("strict", json!({"filter": {"timeout": "20s", "failurePolicy": "Fail"}}), &info),
            backend("lenient", json!({"filter": {"timeout": "20s", "failurePolicy": "Ignore"}}), &info),
        ],
        cases: wrong(),
    }
}

/// An answer with this result and these positions.
fn answer(result: Option<api::Result>, rejected: &[&[u32]]) -> Act {
    let rejection = |positions: &&[u32]| api::Rejection {
        reason: "no".into(),
        positions: positions.to_vec(),
        ..Default::default()
    };
    let rejections = rejected.iter().map(rejection).collect();
    Act::answer(&api::FilterResponse { result, rejections, scores: None })
}

fn evaluated(count: u32) -> api::Result {
    api::Result::answered(count, "")
}

const MALFORMED: &str = "Failures: not gRPC, not protobuf, no `Result`";
const RANGE: &str = "13.1";
const STATUS: &str = "Failures: a gRPC status other than OK";
const RESET: &str = "Failures: the stream or the connection ended early";

fn wrong() -> Vec<Case> {
    let exactly = |body: Vec<u8>, trailers| Act::Exactly(200, body, trailers);
    let fits = || {
        framed(&api::FilterResponse { result: Some(evaluated(3)), ..Default::default() }.encode_to_vec())
            .to_vec()
    };
    table!(case:
        "failures.unknown-metadata" ["Failures: The gateway ignores all other metadata"]
            "other metadata of an answer is ignored" => other_metadata;
        "failures.no-result" ["11: Anything else is a failure", MALFORMED]
            "an empty message is no answer" => fails(answer(None, &[]));
        "failures.empty-result" ["11: Anything else is a failure"]
            "a result without an outcome is no answer" => fails(answer(Some(api::Result::default()), &[]));
        "failures.fewer" ["11.1"] "too few evaluated nodes are a failure" => fails(answer(Some(evaluated(2)), &[]));
        "failures.more" ["11.1"] "too many evaluated nodes are a failure" => fails(answer(Some(evaluated(4)), &[]));
        "failures.out-of-range" [RANGE, MALFORMED]
            "a position that no node has is a failure" => fails(answer(Some(evaluated(3)), &[&[3]]));
        "failures.twice" [RANGE]
            "a position that is rejected twice is a failure" => fails(answer(Some(evaluated(3)), &[&[1], &[1]]));
        "failures.too-many-entries" ["13: So there are at most `Nodes.count` rejections", MALFORMED]
            "more rejections than nodes are a failure" => fails(answer(Some(evaluated(3)), &[&[0], &[1], &[2], &[]]));
        "failures.not-protobuf" [MALFORMED]
            "bytes that are not protobuf are a failure" => fails(Act::Message(vec![0xff; 9]));
        "failures.oversize" ["13.4"]
            "an answer that is too large is a failure" => fails(Act::answer(&api::FilterResponse {
                result: Some(evaluated(3)),
                rejections: vec![api::Rejection {
                    reason: "r".repeat(80 << 10),
                    positions: vec![0],
                    ..Default::default()
                }],
                scores: None,
            }));
        "failures.no-trailers" [RESET] "an answer without a status is a failure" => fails(exactly(fits(), &[]));
        "failures.repeated-status" ["Failures: not gRPC, not protobuf"]
            "a status that is repeated is a failure" => fails(exactly(fits(), &["grpc-status: 0", "grpc-status: 0"]));
        "failures.status-not-a-number" [MALFORMED]
            "a status that is not a number is a failure" => fails(exactly(fits(), &["grpc-status: ok"]));
        "failures.undefined-status" ["Failures: A status code that gRPC does not define is `UNKNOWN`"]
            "a status that gRPC does not define is a failure" => fails(Act::Status(99, "", ""));
        "failures.torn" [RESET]
            "a part of a message is no answer" => fails(exactly(fits()[..4].to_vec(), &["grpc-status: 0"]));
        "failures.http-status" [MALFORMED]
            "an answer of HTTP alone is a failure" => fails(Act::Exactly(500, Vec::new(), &[]));
        "failures.reset" [RESET] "a stream that is reset is a failure" => fails(Act::Reset(Reason::INTERNAL_ERROR));
        "failures.unavailable" ["49: What the gateway does is the same for every failure", STATUS]
            "UNAVAILABLE is a failure" => fails(Act::Status(14, "no data", ""));
        "failures.aborted" ["49: What the gateway does is the same for every failure"]
            "ABORTED is a failure" => fails(Act::Status(10, "not this pod", ""));
        "failures.overloaded" [STATUS]
            "RESOURCE_EXHAUSTED is a failure" => fails(Act::Status(8, "", "ERROR_REASON_OVERLOADED"));
        "failures.internal" [STATUS] "INTERNAL is a failure" => fails(Act::Status(13, "a bug", ""));
        "failures.unknown-reason" ["policy.proto: OPTIONAL: without it, and with a name that the gateway does not know"]
            "a reason that the gateway does not know changes nothing" => fails(Act::Status(3, "wrong", "ERROR_REASON_OF_TOMORROW"));
    )
}

fn fails(act: Act) -> impl Fn(Stage) -> BoxFuture<'static, Check> {
    move |stage| Box::pin(is_failure(stage, act.clone()))
}

/// With the failure policy Fail kube-scheduler gets an error that names the backend, and with Ignore the nodes of the others; the
/// call is not repeated.
async fn is_failure(stage: Stage, act: Act) -> Check {
    let (strict, lenient) = (stage.backend("strict")?, stage.backend("lenient")?);
    lenient.always("Filter", act.clone());
    strict.on("Filter", rejecting(&["n2"], "no"));
    let mark = lenient.mark();
    let filtered = stage.filter_ok(&about(&NODES)).await?;
    equal(
        "the nodes that are left by the others, with failure policy Ignore",
        &filtered.kept,
        &["n1", "n3"],
    )?;
    let calls = lenient.since(mark, "Filter");
    let asked: Vec<_> = calls.iter().map(Received::names).collect();
    let is_repeated = asked.iter().enumerate().any(|(at, names)| asked[..at].contains(names));
    ensure(!is_repeated, || {
        format!("a backend that has failed is asked about the same nodes again: {asked:?}")
    })?;
    strict.always("Filter", act);
    lenient.always("Filter", Act::Status(14, "", ""));
    let filtered = stage.filter(&about(&NODES)).await?;
    ensure(filtered.kept.is_empty() && filtered.error.contains("strict"), || {
        format!("with failure policy Fail: {}; expected an error that names the backend", filtered.body)
    })
}

async fn other_metadata(stage: Stage) -> Check {
    let answer = api::FilterResponse { result: Some(evaluated(3)), ..Default::default() }.encode_to_vec();
    let trailers =
        &["grpc-status: 0", "grpc-status-details-bin: not base64!", "grpc-message: fine", "x-other: 1"];
    stage.backend("strict")?.always("Filter", Act::Exactly(200, framed(&answer).to_vec(), trailers));
    equal("the nodes that are left", &stage.filter_ok(&about(&NODES)).await?.kept, &NODES)
}
