//! Verbs whose answers the gateway caches.

use std::{
    iter,
    time::{Duration, Instant},
};

use extender_policy_api::limits::NAME_BYTES;
use tonic::Code;

use super::{
    calls::{about, answered, same_unless_changing},
    sizes::fitting,
};
use crate::{
    answer::difference,
    asked::Asked,
    case::{self, Case, Stop, failed, skipped},
    client::Extras,
    declared::{PER_NODE, POD_ALONE, Verb},
    suite::{Suite, answer},
    table::{by_table, filled},
};

/// Questions of a case.
const QUESTIONS: usize = 10;
const NODES: usize = 20;

pub(super) fn cases() -> Vec<Case> {
    case::table! {
        for PER_NODE: "pure-call" Must ["28.1"] "and depends on nothing of `call` but the args" => call;
        for PER_NODE: "pure-timeout" Must ["28.1"] "nor on the remaining time" => timeout;
        for POD_ALONE: "pure-call" Must ["59.2"] "and depends on nothing of `call` but the args" => call;
        for POD_ALONE: "pure-timeout" Must ["59.2"] "nor on the remaining time" => timeout;
        for PER_NODE: "pure-equal-rows" Must ["28.1"] "equal rows get equal verdicts" => equal_rows;
    }
}

/// The last cases of a run, so that the questions of all others are old.
pub(super) fn last_cases() -> Vec<Case> {
    case::table! {
        for PER_NODE: "pure-again" Must ["28.1"] "a pure verb repeats its answers, also at the end of the run" => again;
        for POD_ALONE: "pure-again" Must ["59.2"] "a pure hook repeats its changes, also at the end of the run" => again;
    }
}

pub(super) fn pure(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    if suite.terms(verb)?.is_pure() { Ok(()) } else { skipped("the verb is not declared pure") }
}

/// How old the oldest question is before it is repeated.
const APART: Duration = Duration::from_millis(if cfg!(test) { 300 } else { 5_000 });

/// Repetitions end after so many nodes, or this time.
const REPEATED_NODES: u32 = if cfg!(test) { 20_000 } else { 150_000 };
const REPEATING: Duration = Duration::from_secs(if cfg!(test) { 60 } else { 2 });

/// The nodes of the question that is repeated most, and what a call counts at least: it has a price of its own.
const MANY: usize = 1_000;
const LEAST: u32 = 200;

/// What was asked in the whole run is asked again, and then one large question many times.
async fn again(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    pure(suite, verb)?;
    about(suite, verb, &[NODES; QUESTIONS]).await?;
    let terms = suite.terms(verb)?;
    let (scene, mut question) = fitting(suite, verb, MANY)?;
    let answer = suite.ask(&question).await?;
    let by_tables = suite.declared.holds_tables() && verb.has_nodes() && terms.has_facts();
    // The fastest way, where there is one.
    let table = if by_tables { Some(filled(suite, terms, &scene).await?) } else { None };
    if let Some(table) = &table {
        question = by_table(suite, terms, &scene, table.all(&scene));
    }
    let (kept, large) = (suite.asked.of(verb), Asked::new(&question, answer));
    let oldest = kept.iter().map(|asked| asked.at).min().unwrap_or(large.at);
    tokio::time::sleep_until((oldest + APART).into()).await;
    let (mut nodes, begun) = (0, Instant::now());
    for asked in kept.iter().chain(iter::repeat(&large)) {
        if nodes >= REPEATED_NODES || begun.elapsed() > REPEATING {
            break;
        }
        same_again(suite, asked).await?;
        nodes += asked.question.count().max(LEAST);
    }
    if let Some(table) = table { table.close().await } else { Ok(()) }
}

async fn same_again(suite: &Suite, asked: &Asked) -> Result<(), Stop> {
    let what = format!("the same question again after {:.1?}", asked.at.elapsed());
    let now = suite.ask_again(asked).await.map_err(|stop| stop.after(&what))?;
    let Some(difference) = asked.answer.difference(&what, &now) else { return Ok(()) };
    let changed = asked.answer.revision != now.revision
        || suite.handshake().await?.revision != suite.declared.info.revision;
    if changed { skipped("the policy's revision changed during the run") } else { failed(difference) }
}

/// Names of every length, one of them as long as those of the other cases.
async fn call(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    pure(suite, verb)?;
    for ((question, first), length) in
        answered(suite, verb, &[NODES; QUESTIONS]).await?.iter().cycle().zip(1..=NAME_BYTES)
    {
        let name = format!("{length:x<length$}");
        let what = format!("with {name:?} as the id of the call, the gateway, the backend and the cluster");
        let other = question.clone().called(|call| {
            call.id.clone_from(&name);
            call.gateway.clone_from(&name);
            call.backend.clone_from(&name);
            call.cluster = name;
        });
        same_unless_changing(suite, question, first, &suite.ask(&other).await?, &what).await?;
    }
    Ok(())
}

/// The remaining time in milliseconds. A backend may be late with the least.
const REMAINING: [u64; 4] = [400, 2_000, 30_000, 3_600_000];

async fn timeout(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    pure(suite, verb)?;
    for (question, first) in answered(suite, verb, &[NODES; QUESTIONS]).await? {
        for timeout in REMAINING.map(Duration::from_millis) {
            let what = format!("with {timeout:?} left");
            let extras = Extras { timeout: Some(timeout), nodes: question.count(), ..Extras::default() };
            match suite.client.verb(verb, question.encode(), extras).await? {
                Ok(bytes) => {
                    let answer = answer(&question, &bytes).map_err(|stop| stop.after(&what))?;
                    same_unless_changing(suite, &question, &first, &answer, &what).await?;
                }
                Err(status) if matches!(status.code(), Code::DeadlineExceeded | Code::Cancelled) => {}
                Err(status) => return Err(Stop::refused(&what, &status)),
            }
        }
    }
    Ok(())
}

async fn equal_rows(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    pure(suite, verb)?;
    let scene = suite.scene(NODES);
    let twice: Vec<_> = (0..NODES).chain(0..NODES).collect();
    let answer = suite.ask(&suite.question(verb, &scene.select(&twice))?).await?;
    let (first, second) = answer.verdicts.split_at(NODES);
    difference("the same row a second time in a request", first, second).map_or(Ok(()), failed)
}
