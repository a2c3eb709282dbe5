//! The plain question of each verb. If it is not answered, nothing else is worth asking.

use std::error::Error as _;

use tokio::time::{Instant, sleep};
use tonic::Code;

use crate::{
    PAUSE,
    case::{self, Case, Stop},
    declared::{ALL_BUT_BIND, Verb},
    question::Scene,
    suite::Suite,
};

/// The nodes of each question. Many together, so that a policy that fails for some labels fails here.
const NODES: [usize; 5] = [3, 60, 60, 60, 200];

pub(super) fn cases() -> Vec<Case> {
    case::table! {
        for ALL_BUT_BIND: "answered" Must ["10.1"] "plain questions are answered" => answered;
    }
}

async fn answered(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    suite.terms(verb)?;
    plain(suite, verb).await.inspect_err(|_| suite.give_up(verb))
}

async fn plain(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    ready(suite, verb).await?;
    let mut objects = suite.objects();
    for nodes in NODES {
        let scene = Scene::random(&mut objects, nodes);
        suite.ask(&suite.question(verb, &scene)?).await?;
    }
    Ok(())
}

/// Waits, as `--wait` says, for a policy that cannot decide yet, because its data comes after its start.
async fn ready(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    let until = Instant::now() + suite.target.wait;
    let question = suite.random_question(verb, 1)?;
    while Instant::now() < until {
        match suite.send(verb, question.encode()).await? {
            // Without a source it is the policy's own.
            Err(status) if status.code() == Code::Unavailable && status.source().is_none() => {
                sleep(PAUSE).await;
            }
            _ => break,
        }
    }
    Ok(())
}
