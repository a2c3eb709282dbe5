//! Pure verbs, whose answers are cached, and scores that come with answers of filter.

use extender_policy_api::v1beta1::{self as api, Effects, GetInfoResponse, Verb, VerbInfo};
use serde_json::{Value, json};

use crate::{
    answers::{reject, rejecting, scores},
    backend::{Act, Backend, Received},
    case::{Check, Group, Nodes, case, ensure, equal, table},
    scene::{about, backend, fresh, in_full, info, node, pod, racked, reads_identity, verb},
    stage::Stage,
};

const NODES: [&str; 3] = ["n1", "n2", "n3"];

/// So many calls that one in a thousand which is sent anyway changes nothing.
const CALLS: usize = 5;

pub(crate) fn group() -> Group {
    let with = |effects: i32, kind: Verb| VerbInfo { effects, ..verb(kind) };
    let pure = Effects::Pure.into();
    let filter = json!({"filter": {"timeout": "20s", "failurePolicy": "Fail"}});
    let both = json!({"filter": {"timeout": "20s", "failurePolicy": "Fail"}, "score": {"timeout": "20s"}});
    let unnamed = GetInfoResponse { revision: String::new(), ..info(vec![with(pure, Verb::Filter)]) };
    let other_reads = VerbInfo { reads: Some(reads_identity()), ..verb(Verb::Score) };
    let backends = vec![
        backend("pure", filter.clone(), &info(vec![with(pure, Verb::Filter)])),
        backend("unnamed", filter.clone(), &unnamed),
        backend("impure", filter.clone(), &info(vec![verb(Verb::Filter)])),
        backend("future", filter, &info(vec![with(63, Verb::Filter)])),
        backend("round", both.clone(), &info(vec![verb(Verb::Filter), verb(Verb::Score)])),
        backend("other-reads", both.clone(), &info(vec![verb(Verb::Filter), other_reads])),
        backend("half-pure", both, &info(vec![verb(Verb::Filter), with(pure, Verb::Score)])),
    ];
    let cases = table!(case:
        "pure.cached" ["info.proto: Nothing: the answer for a node is a function", "30: Its bytes and those of `Pod.topology_counts` are the cache key"]
            "answers of a pure verb are used for all pods of a template" => cached;
        "pure.row" ["31: Answers are cached as long as `GetInfoResponse` stays the same"]
            "of a call with one changed node only this one is asked about" => changed_row;
        "pure.class" ["30: Its bytes and those of `Pod.topology_counts` are the cache key"]
            "a pod that differs in what is read is asked about" => other_class;
        "pure.revision" ["31: Answers are cached as long as `GetInfoResponse` stays the same"]
            "a new revision ends the use of cached answers" => revision;
        "pure.no-revision" ["31: Answers of a backend without a revision are not cached"]
            "without a revision nothing is cached" => |stage| each_time(stage, "unnamed");
        "pure.not-pure" ["info.proto: It may depend on the time, on earlier calls or on external data"]
            "a verb that is not pure is called each time" => |stage| each_time(stage, "impure");
        "pure.unknown-effects" ["65: A value of `Miss` that the gateway does not know is a miss"]
            "a verb with unknown effects is called each time" => |stage| each_time(stage, "future");
        "rounds.wanted" ["33: `want_scores` is set if both verbs are configured"]
            "scores are wanted where both verbs read the same, and both are pure or neither" => wanted;
        "rounds.used" ["34: The gateway uses such scores of a verb that is not pure"]
            "scores that came with filter are used" => used;
        "rounds.none" ["33.1", "policy.proto: Absent: the gateway calls Score"]
            "without scores Score is called" => none;
        "rounds.changed" ["34: The gateway uses such scores of a verb that is not pure"]
            "scores are not used for a node that has changed" => changed_since;
        "rounds.wrong-count" ["33.1"] "another number of scores is a failure" => wrong_count;
    );
    Group { nodes: Nodes::Calls, binds: false, backends, cases }
}

async fn calls(stage: &Stage, name: &str, body: &Value) -> Check<Vec<Received>> {
    let backend = stage.backend(name)?;
    let mark = backend.mark();
    stage.filter_ok(body).await?;
    Ok(backend.since(mark, "Filter"))
}

/// Another pod of the template `TEMPLATE`, about which nothing is cached yet at first.
fn of_template(template: &str, nodes: &[Value]) -> Value {
    let mut pod = pod(&fresh());
    pod["metadata"]["labels"]["app"] = template.into();
    in_full(&pod, nodes)
}

fn nodes() -> Vec<Value> {
    NODES.map(node).into()
}

/// Rejects n2, under the revision of the handshake.
fn pure_rejecting(backend: &Backend) {
    let of = backend.clone();
    backend.on("Filter", move |received| {
        let mut answer: api::FilterResponse = decoded(&rejecting(&["n2"], "no")(received));
        answer.result.get_or_insert_default().revision = of.info().revision;
        Act::answer(&answer)
    });
}

fn decoded<M: prost::Message + Default>(act: &Act) -> M {
    match act {
        Act::Message(message) => M::decode(&**message).unwrap_or_default(),
        _ => M::default(),
    }
}

async fn cached(stage: Stage) -> Check {
    let template = fresh();
    pure_rejecting(stage.backend("pure")?);
    equal(
        "the calls for the first pod",
        &calls(&stage, "pure", &of_template(&template, &nodes())).await?.len(),
        &1,
    )?;
    let mut asked = 0;
    for _ in 0..CALLS {
        asked += calls(&stage, "pure", &of_template(&template, &nodes())).await?.len();
        let filtered = stage.filter_ok(&of_template(&template, &nodes())).await?;
        equal("the nodes that are left", &filtered.kept, &["n1", "n3"])?;
    }
    ensure(asked <= 1, || {
        format!("{asked} of {CALLS} calls for more pods of the template are sent; expected none")
    })
}

async fn changed_row(stage: Stage) -> Check {
    let template = fresh();
    calls(&stage, "pure", &of_template(&template, &nodes())).await?;
    let changed = [racked("n1", "other"), node("n2"), node("n3")];
    let calls = calls(&stage, "pure", &of_template(&template, &changed)).await?;
    let names: Vec<_> = calls.iter().map(Received::names).collect();
    equal("the nodes that are asked about", &names, &[["n1"]])
}

async fn other_class(stage: Stage) -> Check {
    for _ in 0..2 {
        equal("the calls", &calls(&stage, "pure", &of_template(&fresh(), &nodes())).await?.len(), &1)?;
    }
    Ok(())
}

async fn revision(stage: Stage) -> Check {
    let (backend, template) = (stage.backend("pure")?, fresh());
    calls(&stage, "pure", &of_template(&template, &nodes())).await?;
    let changed = GetInfoResponse { revision: "r2".into(), ..backend.info() };
    backend.declare(&changed);
    let mark = backend.mark();
    let next = |calls: &[Received]| calls.iter().filter(|call| call.stream > mark).nth(1).map(drop);
    backend.until("GetInfo is called again", "GetInfo", next).await?;
    // The answer to the first of both has been read when the second is sent.
    let asked = calls(&stage, "pure", &of_template(&template, &nodes())).await?.len();
    equal("the calls under the new revision", &asked, &1)
}

async fn each_time(stage: Stage, name: &'static str) -> Check {
    let template = fresh();
    for _ in 0..3 {
        equal("the calls", &calls(&stage, name, &of_template(&template, &nodes())).await?.len(), &1)?;
    }
    Ok(())
}

async fn wanted(stage: Stage) -> Check {
    for (name, wanted) in [("round", true), ("other-reads", false), ("half-pure", false), ("impure", false)] {
        let calls = calls(&stage, name, &about(&NODES)).await?;
        let wants: Vec<_> =
            calls.iter().map(|call| call.decode::<api::FilterRequest>().want_scores).collect();
        equal(&format!("`want_scores` for {name}"), &wants, &[wanted])?;
    }
    Ok(())
}

/// Fits everywhere, with the score 5 for n1 and 7 for n2; how often Score is called for it and what the totals are.
async fn round(
    stage: &Stage,
    early: Option<api::Scores>,
    second: impl Fn(Value) -> Value,
) -> Check<(usize, Vec<i64>)> {
    let backend = stage.backend("round")?;
    backend.on("Filter", move |received| {
        let mut answer: api::FilterResponse =
            decoded(&reject(received, &[], "", api::RejectionKind::Unspecified));
        answer.result.get_or_insert_default().revision = "r1".into();
        answer.scores = early.clone().map(|given| {
            if given.values.is_empty() { scores(received, &[("n1", 5), ("n2", 7), ("n3", 0)]) } else { given }
        });
        Act::answer(&answer)
    });
    backend.on("Score", |received| {
        let result = Some(api::Result::answered(received.nodes().count, "r1"));
        let scores = Some(scores(received, &[("n1", 1), ("n2", 2), ("n3", 3)]));
        Act::answer(&api::ScoreResponse { result, scores })
    });
    let (mark, body) = (backend.mark(), about(&NODES));
    stage.filter_ok(&body).await?;
    let totals = stage.prioritize(&second(body)).await?.into_iter().map(|(_, total)| total).collect();
    Ok((backend.since(mark, "Score").len(), totals))
}

async fn used(stage: Stage) -> Check {
    let found = round(&stage, Some(api::Scores::default()), |body| body).await?;
    equal("the calls of Score, and the totals", &found, &(0, vec![5, 7, 0]))
}

async fn none(stage: Stage) -> Check {
    equal("the calls of Score, and the totals", &round(&stage, None, |body| body).await?, &(1, vec![1, 2, 3]))
}

async fn changed_since(stage: Stage) -> Check {
    let changes = |mut body: Value| {
        body["Nodes"]["items"][0]["metadata"]["labels"]["rack"] = "other".into();
        body
    };
    let found = round(&stage, Some(api::Scores::default()), changes).await?;
    ensure(found == (1, vec![1, 7, 0]), || {
        format!("the calls of Score, and the totals: {found:?}; expected one, and 1, 7, 0")
    })
}

async fn wrong_count(stage: Stage) -> Check {
    stage.backend("round")?.on("Filter", |received| {
        let mut answer: api::FilterResponse =
            decoded(&reject(received, &[], "", api::RejectionKind::Unspecified));
        answer.scores = Some(api::Scores { values: vec![1], absent: Vec::new() });
        Act::answer(&answer)
    });
    let filtered = stage.filter(&about(&NODES)).await?;
    ensure(!filtered.error.is_empty(), || format!("{}; expected an error", filtered.body))
}
