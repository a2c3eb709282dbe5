//! What an answer is used for.

use extender_policy_api::{
    limits::SNAPSHOT_BYTES,
    v1beta1::{self as api, Purpose},
};
use tonic::Code;

use crate::{
    case::{self, Case, Stop, skipped},
    declared::{ABOUT_NODES, DECIDING, HOOKS, PER_NODE, POD_ALONE, Verb},
    suite::Suite,
};

/// All purposes but that of a decision, and one of a later version.
pub(super) const OTHERS: [(i32, &str); 5] = [
    (Purpose::Speculate as i32, "PURPOSE_SPECULATE"),
    (Purpose::Shadow as i32, "PURPOSE_SHADOW"),
    (Purpose::Replay as i32, "PURPOSE_REPLAY"),
    (Purpose::Simulate as i32, "PURPOSE_SIMULATE"),
    (99, "purpose 99"),
];

pub(super) fn cases() -> Vec<Case> {
    case::table! {
        for ABOUT_NODES: "no-purpose" Must ["10.1"] "a request without a purpose is refused" => no_purpose;
        for POD_ALONE: "no-purpose" Must ["59.2"] "a request without a purpose is refused" => no_purpose;
        for HOOKS: "any-purpose" Must ["59.1"] "every purpose is answered in the same way" => any_purpose;
        for DECIDING: "any-purpose" Must ["10.2"] "without side effects every purpose is answered" => any_purpose;
        for PER_NODE: "snapshot" Must ["56.1"] "the name of a snapshot changes nothing" => snapshot;
        for DECIDING: "only-decides" Must ["10.3"] "with side effects only PURPOSE_DECIDE is answered" => only_decides;
    }
}

async fn no_purpose(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    let question = suite.random_question(verb, 2)?.called(|call| call.purpose = 0);
    suite.refused(&question, Code::InvalidArgument, "a request with PURPOSE_UNSPECIFIED").await
}

async fn any_purpose(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    if suite.terms(verb)?.has_side_effects() {
        return skipped("the verb has side effects");
    }
    let other = |(purpose, name)| (name, move |call: &mut api::Call| call.purpose = purpose);
    same_if(suite, verb, OTHERS.map(other)).await
}

async fn snapshot(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    let longest = "~".repeat(SNAPSHOT_BYTES);
    let names = [("Call.snapshot \"1\"", "1"), ("the longest Call.snapshot", &longest)];
    let names =
        names.map(|(what, name)| (what, move |call: &mut api::Call| name.clone_into(&mut call.snapshot)));
    same_if(suite, verb, names).await
}

/// The answer stays the same after each of these changes of a call.
async fn same_if<const N: usize>(
    suite: &Suite,
    verb: Verb,
    changes: [(&str, impl FnOnce(&mut api::Call)); N],
) -> Result<(), Stop> {
    let question = suite.random_question(verb, 6)?;
    let first = suite.ask(&question).await?;
    for (name, change) in changes {
        let answer = suite.ask(&question.clone().called(change)).await.map_err(|stop| stop.after(name))?;
        super::calls::same_unless_changing(suite, &question, &first, &answer, name).await?;
    }
    Ok(())
}

async fn only_decides(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    if !suite.terms(verb)?.has_side_effects() {
        return skipped("the verb has no side effects");
    }
    let question = suite.random_question(verb, 2)?;
    for (purpose, name) in OTHERS {
        let other = question.clone().called(|call| call.purpose = purpose);
        suite.refused(&other, Code::FailedPrecondition, name).await?;
    }
    suite.ask(&question).await.map(drop).map_err(|stop| stop.after("PURPOSE_DECIDE"))
}
