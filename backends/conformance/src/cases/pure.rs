//! Verbs whose answers the gateway caches.

use super::calls::same_unless_changing;
use crate::{
    answer::difference,
    case::{self, Case, Stop, failed, skipped},
    client::Extras,
    declared::{PER_NODE, POD_ALONE, Verb},
    question::Scene,
    suite::Suite,
};

/// Questions of a case.
const QUESTIONS: usize = 10;
const NODES: usize = 20;

pub(super) fn cases() -> Vec<Case> {
    case::table! {
        for PER_NODE: "pure-again" Must ["28.1"] "a pure verb repeats its answers" => again;
        for PER_NODE: "pure-call" Must ["28.1"] "and depends on nothing of `call` but the args" => call;
        for PER_NODE: "pure-connection" Must ["28.1"] "nor on the connection" => connection;
        for POD_ALONE: "pure-again" Must ["59.2"] "a pure hook repeats its changes" => again;
        for POD_ALONE: "pure-call" Must ["59.2"] "and depends on nothing of `call` but the args" => call;
        for POD_ALONE: "pure-connection" Must ["59.2"] "nor on the connection" => connection;
        for PER_NODE: "pure-equal-rows" Must ["28.1"] "equal rows get equal verdicts" => equal_rows;
    }
}

fn pure(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    if suite.terms(verb)?.is_pure() { Ok(()) } else { skipped("the verb is not declared pure") }
}

fn scenes(suite: &Suite) -> Vec<Scene> {
    let mut objects = suite.objects();
    (0..QUESTIONS).map(|_| Scene::random(&mut objects, NODES)).collect()
}

async fn again(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    pure(suite, verb)?;
    let questions =
        scenes(suite).iter().map(|scene| suite.question(verb, scene)).collect::<Result<Vec<_>, _>>()?;
    let mut first = Vec::new();
    for question in &questions {
        first.push(suite.ask(question).await?);
    }
    // In another order, so that an answer that depends on the question before differs.
    for (question, first) in questions.iter().zip(&first).rev() {
        let again = suite.ask(question).await?;
        same_unless_changing(suite, question, first, &again, "the same question again").await?;
    }
    Ok(())
}

async fn call(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    pure(suite, verb)?;
    for (number, scene) in scenes(suite).iter().enumerate() {
        let question = suite.question(verb, scene)?;
        let first = suite.ask(&question).await?;
        let other = question.clone().called(|call| {
            call.id = format!("another-{number}");
            call.gateway = format!("gateway-{number}");
            call.backend = format!("backend-{number}");
        });
        let other = suite.ask(&other).await?;
        let what = "with another call id, gateway and backend";
        same_unless_changing(suite, &question, &first, &other, what).await?;
    }
    Ok(())
}

async fn connection(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    pure(suite, verb)?;
    let client = suite.connect().await?;
    for scene in scenes(suite) {
        let question = suite.question(verb, &scene)?;
        let first = suite.ask(&question).await?;
        let other = suite.ask_on(&client, &question, Extras::default()).await?;
        same_unless_changing(suite, &question, &first, &other, "on another connection").await?;
    }
    Ok(())
}

async fn equal_rows(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    pure(suite, verb)?;
    let scene = suite.scene(NODES);
    let twice: Vec<_> = (0..NODES).chain(0..NODES).collect();
    let answer = suite.ask(&suite.question(verb, &scene.select(&twice))?).await?;
    let (first, second) = answer.verdicts.split_at(NODES);
    match difference("the same row a second time in a request", first, second) {
        Some(text) => failed(text),
        None => Ok(()),
    }
}
