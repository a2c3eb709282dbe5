//! The plain question of each verb. If it is not answered, nothing else is worth asking.

use crate::{
    case::{self, Case, Stop},
    declared::{ALL_BUT_BIND, Verb},
    question::Scene,
    suite::Suite,
};

/// The nodes of each question. Many together, so that a policy that fails for some labels fails here.
const NODES: [usize; 5] = [3, 60, 60, 60, 200];

pub(super) fn cases() -> Vec<Case> {
    case::table! {
        for ALL_BUT_BIND: "answered" Must ["10.2"] "plain questions are answered" => answered;
    }
}

async fn answered(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    suite.terms(verb)?;
    plain(suite, verb).await.inspect_err(|_| suite.give_up(verb))
}

async fn plain(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    let mut objects = suite.objects();
    for nodes in NODES {
        let scene = Scene::random(&mut objects, nodes);
        suite.ask(&suite.question(verb, &scene)?).await?;
    }
    Ok(())
}
