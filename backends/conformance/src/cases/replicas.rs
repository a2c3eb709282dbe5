//! Replicas of a backend, and the same policy in another language: equal revisions, equal answers.

use super::calls::same_unless_changing;
use crate::{
    case::{self, Case, Stop, failed, skipped},
    client::Extras,
    declared::{ALL_BUT_BIND, Verb},
    question::{Question, Scene},
    suite::Suite,
};

/// Questions of a case, and the nodes of each.
const QUESTIONS: usize = 40;
const NODES: usize = 30;

pub(super) fn cases() -> Vec<Case> {
    case::table! {
        for ALL_BUT_BIND: "replicas" Must ["7.3"] "replicas with one revision give equal answers" => replicas;
    }
}

async fn replicas(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    suite.terms(verb)?;
    let Some((_, replica)) = suite.target.connect_replica().await else {
        return skipped("there is no other replica: name one with --replica URL");
    };
    let replica = replica.map_err(|error| Stop::Failed(format!("the replica: {}", crate::causes(&error))))?;
    let declared = suite.declared_on(&replica).await.map_err(|stop| stop.after("the replica"))?;
    let revisions = [&suite.declared.info.revision, &declared.info.revision];
    if revisions[0] != revisions[1] {
        return skipped(format!("the replicas have the revisions {:?} and {:?}", revisions[0], revisions[1]));
    }
    let Some(terms) = declared.verb(verb) else {
        return failed(format!("the replica does not list {}", verb.name()));
    };
    let mut objects = suite.objects();
    for _ in 0..QUESTIONS {
        let scene = Scene::random(&mut objects, NODES);
        let question = suite.question(verb, &scene)?;
        let here = suite.ask(&question).await?;
        // With what the replica declares, which may be another.
        let there = Question::new(terms, &scene, &suite.args);
        let there = suite.ask_on(&replica, &there, Extras::default()).await?;
        same_unless_changing(suite, &question, &here, &there, "from the replica").await?;
    }
    Ok(())
}
