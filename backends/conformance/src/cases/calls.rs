//! What every answer about nodes must keep.

use std::time::Duration;

use bytes::{Bytes, BytesMut};
use extender_policy_api::v1beta1 as api;
use futures_util::future::{join_all, try_join_all};

use crate::{
    answer::{Answer, Response},
    case::{self, Case, Stop, failed, skipped},
    client::Extras,
    declared::{ABOUT_NODES, ALL_BUT_BIND, DECIDING, Verb},
    question::{Question, Scene},
    suite::Suite,
    table::table_verbs,
};

/// Calls at once.
const AT_ONCE: usize = 64;

/// Calls that are canceled before the backend has answered.
const CANCELED: usize = 200;

pub(super) fn cases() -> Vec<Case> {
    case::table! {
        for DECIDING: "evaluated" Must ["11.1"] "result.evaluated is the number of nodes" => |suite, verb|
            about(suite, verb, &[1, 1, 1, 1, 2, 7, 500]).await;
        for ALL_BUT_BIND: "revision" Must ["7.2"] "result.revision is that of the handshake" => revision;
        for ALL_BUT_BIND: "no-handshake" Must ["3.1"] "without a handshake, on another connection, the answer is the same" => no_handshake;
        for ABOUT_NODES: "unknown-form" Must ["12.1"] "nodes in an unknown form are a miss" => unknown_form;
        for ABOUT_NODES: "miss-alone" Must ["11.2"] "a miss has neither a revision nor anything else" => miss_alone;
        for ALL_BUT_BIND: "unknown-fields" Must ["8.4"] "unknown fields change no answer" => unknown_fields;
        for DECIDING: "response-size" Must ["13.4"] "the response is not too large for the gateway" => |suite, verb|
            about(suite, verb, &[1, 100]).await;
        for ALL_BUT_BIND: "at-once" Must ["52.1"] "64 calls at once have the answers of single ones" => at_once;
        for ALL_BUT_BIND: "canceled" Must ["17.1"] "200 canceled calls do no harm" => canceled;
        for ALL_BUT_BIND: "no-time" Must ["17.1"] "calls without time left do no harm" => no_time;
        for ALL_BUT_BIND: "empty-facts" Must ["10.1"] "objects without any facts are answered" => empty_facts;
        for ALL_BUT_BIND: "extremes" Must ["10.1"] "the largest and odd values are answered" => extremes;
    }
}

/// Random questions about so many nodes with their answers. Each is checked as a whole; no more is read of it than the
/// gateway does.
pub(super) async fn answered(
    suite: &Suite,
    verb: Verb,
    counts: &[usize],
) -> Result<Vec<(Question, Answer)>, Stop> {
    let (mut objects, mut answered) = (suite.objects(), Vec::new());
    for nodes in counts {
        let question = suite.question(verb, &Scene::random(&mut objects, *nodes))?;
        let answer = suite.ask(&question).await?;
        answered.push((question, answer));
    }
    Ok(answered)
}

pub(super) async fn about(suite: &Suite, verb: Verb, counts: &[usize]) -> Result<(), Stop> {
    answered(suite, verb, counts).await.map(drop)
}

async fn revision(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    let answer = suite.ask(&suite.random_question(verb, 3)?).await?;
    let declared = &suite.declared.info.revision;
    // Without one nothing is cached, which is allowed.
    if answer.revision != *declared && !answer.revision.is_empty() {
        // The policy may have changed in between.
        let now = suite.handshake().await?.revision;
        if answer.revision != now {
            let given = &answer.revision;
            return failed(format!("`result.revision` is {given:?}; GetInfo says {now:?}"));
        }
    }
    Ok(())
}

async fn no_handshake(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    suite.terms(verb)?;
    let client = suite.connect().await?;
    for (question, first) in answered(suite, verb, &[20; 10]).await? {
        let other = suite.ask_on(&client, &question, Extras::default()).await?;
        same_unless_changing(suite, &question, &first, &other, "on another connection").await?;
    }
    Ok(())
}

async fn of_unknown_form(suite: &Suite, verb: Verb) -> Result<Response, Stop> {
    let mut question = suite.random_question(verb, 3)?;
    if let Some(nodes) = &mut question.nodes {
        nodes.form = None;
    }
    // The form of a later version: field 15 of Nodes.
    let answered = suite.send(verb, question.encode_with(&[&[0x7a, 3][..], b"new"].concat())).await?;
    let bytes = answered.map_err(|status| Stop::refused("nodes in an unknown form", &status))?;
    Ok(Response::decode(verb, &bytes)?)
}

async fn unknown_form(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    let response = of_unknown_form(suite, verb).await?;
    if response.miss() == Some(api::Miss::FormUnknown) {
        return Ok(());
    }
    failed(format!("nodes in an unknown form: {response:?}; expected `result.miss` MISS_FORM_UNKNOWN"))
}

async fn miss_alone(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    let mut responses = vec![of_unknown_form(suite, verb).await?];
    if suite.declared.holds_tables() && table_verbs(suite).any(|terms| terms.verb == verb) {
        let nodes = api::NodeRef { table: suite.table_name(), ids: vec![1, 2, 3], ..api::NodeRef::default() };
        responses.push(suite.respond(&suite.random_question(verb, 3)?.by_table(nodes)).await?);
    }
    let wrong = responses.iter().find(|response| response.miss().is_some() && !response.is_miss_alone());
    wrong.map_or(Ok(()), |response| failed(format!("{response:?}: expected `result.miss` and nothing else")))
}

/// Fields of all four wire types that no version defines.
pub(super) fn with_unknown_fields(message: &[u8]) -> Bytes {
    let mut bytes = BytesMut::from(message);
    prost::encoding::uint64::encode(15_000, &7, &mut bytes);
    prost::encoding::fixed64::encode(15_001, &7, &mut bytes);
    prost::encoding::string::encode(15_002, &"later".to_owned(), &mut bytes);
    prost::encoding::fixed32::encode(15_003, &7, &mut bytes);
    bytes.freeze()
}

async fn unknown_fields(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    let question = suite.random_question(verb, 8)?;
    let known = suite.ask(&question).await?;
    let answered = suite.send(verb, question.encode_with(&with_unknown_fields(&[]))).await?;
    let bytes = answered.map_err(|status| Stop::refused("a request with unknown fields", &status))?;
    let later = crate::suite::answer(&question, &bytes)?;
    same_unless_changing(suite, &question, &known, &later, "with unknown fields").await
}

/// How often a question is repeated to see whether its answers change by themselves.
const REPETITIONS: usize = 4;

/// Answers that must be equal, under one revision. Those of a policy that is not pure may change by themselves: then the
/// question is repeated, and if its own answers differ, nothing can be compared.
pub(super) async fn same_unless_changing(
    suite: &Suite,
    question: &Question,
    first: &Answer,
    other: &Answer,
    what: &str,
) -> Result<(), Stop> {
    unless_changing(suite, question, first.difference(what, other), [first, other]).await
}

/// A difference is a failure unless the answers to the question change by themselves.
pub(super) async fn unless_changing(
    suite: &Suite,
    question: &Question,
    difference: Option<String>,
    between: [&Answer; 2],
) -> Result<(), Stop> {
    let Some(difference) = difference else { return Ok(()) };
    let [one, other] = between.map(|answer| &answer.revision);
    if one != other {
        return skipped("the policy's revision changed between two answers");
    }
    let first = suite.ask(question).await?;
    if &first.revision != one {
        return skipped("the policy's revision changed between two answers");
    }
    if !suite.terms(question.verb)?.is_pure() {
        for _ in 0..REPETITIONS {
            if !suite.ask(question).await?.agrees_with(&first) {
                return skipped("equal questions get different answers, and the verb is not declared pure");
            }
        }
        // An answer that depends on those before it, such as a quota, is not the one that was compared.
        if !between.iter().any(|answer| answer.agrees_with(&first)) {
            return skipped("the answers change with each question, and the verb is not declared pure");
        }
    }
    failed(difference)
}

async fn at_once(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    if suite.terms(verb)?.has_side_effects() {
        return skipped("the verb has side effects");
    }
    let mut objects = suite.objects();
    let scenes = (0..AT_ONCE).map(|_| Scene::random(&mut objects, 5));
    let questions = scenes.map(|scene| suite.question(verb, &scene)).collect::<Result<Vec<_>, _>>()?;
    let mut before = Vec::new();
    for question in &questions {
        before.push(suite.ask(question).await?);
    }
    let together = try_join_all(questions.iter().map(|question| suite.ask(question))).await?;
    for ((question, alone), beside) in questions.iter().zip(&before).zip(&together) {
        same_unless_changing(suite, question, alone, beside, "beside other calls").await?;
    }
    Ok(())
}

async fn canceled(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    let question = suite.random_question(verb, 200)?;
    let client = suite.connect().await?;
    let calls = (0..CANCELED).map(|number| {
        let call = suite.ask_on(&client, &question, Extras::default());
        // Some before the request is sent, some after.
        let after = Duration::from_micros(u64::try_from(number).unwrap_or_default() * 50);
        tokio::time::timeout(after, call)
    });
    drop(join_all(calls).await);
    // The connection may be closed: libraries take so many resets for an attack.
    suite.ask(&question).await.map(drop)
}

async fn no_time(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    let question = suite.random_question(verb, 200)?;
    // The first ones end before they are sent, as at a gateway that is late.
    for microseconds in [0, 1, 200, 1_000, 20_000, 500_000] {
        let timeout = Some(Duration::from_micros(microseconds));
        let extras = Extras { timeout, nodes: question.count(), ..Extras::default() };
        drop(suite.client.verb(verb, question.encode(), extras).await?);
    }
    suite.ask(&question).await.map(drop)
}

async fn empty_facts(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    let mut scene = suite.scene(3);
    for node in &mut scene.nodes {
        node.facts = api::NodeFacts { unschedulable: Some(false), ..api::NodeFacts::default() };
        node.usage = api::NodeUsage::default();
        node.labels.clear();
        node.annotations.clear();
    }
    scene.pod.facts = api::PodFacts {
        namespace: "default".to_owned(),
        priority: Some(0),
        requests: Some(api::Resources::default()),
        nonzero_requests: Some(api::NonZero::default()),
        ..api::PodFacts::default()
    };
    scene.pod.identity = api::PodIdentity::default();
    scene.pod.labels.clear();
    scene.pod.annotations.clear();
    let mut question = suite.question(verb, &scene)?;
    for candidate in &mut question.candidates {
        candidate.victims.iter_mut().for_each(|victim| victim.pod = None);
    }
    suite.ask(&question).await.map(drop)
}

async fn extremes(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    let most = api::Resources {
        milli_cpu: i64::MAX,
        memory: i64::MAX,
        ephemeral_storage: i64::MAX,
        pods: i64::MAX,
        others: [("example.com/gpu".to_owned(), i64::MAX)].into(),
    };
    let odd = ["\u{0}", "\u{1f600}", "%s%n", "../..", "'; --", &"x".repeat(4_096)].map(str::to_owned);
    let mut scene = suite.scene(odd.len());
    for ((node, text), letter) in scene.nodes.iter_mut().zip(&odd).zip('a'..) {
        let values = node.labels.values_mut().chain(node.annotations.values_mut());
        values.for_each(|value| value.clone_from(text));
        node.facts.allocatable = Some(most.clone());
        node.facts.capacity = Some(most.clone());
        node.facts.taints.push(api::Taint { key: text.clone(), value: text.clone(), effect: text.clone() });
        node.name = letter.to_string().repeat(253);
    }
    scene.pod.facts.requests = Some(most);
    scene.pod.facts.priority = Some(i32::MIN);
    scene.pod.labels.values_mut().for_each(|value| "\u{10ffff}".clone_into(value));
    suite.ask(&suite.question(verb, &scene)?).await.map(drop)
}

#[cfg(test)]
mod tests {
    use prost::Message as _;

    use super::*;

    #[test]
    fn unknown_fields_are_ignored_by_prost() {
        let call = api::Call { id: "x".to_owned(), ..api::Call::default() };
        assert_eq!(api::Call::decode(with_unknown_fields(&call.encode_to_vec())).unwrap(), call);
    }
}
