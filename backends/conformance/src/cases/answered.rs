//! The plain question of each verb. If it is not answered, nothing else is worth asking.

use tokio::time::{Instant, sleep};
use tonic::Code;

use crate::{
    PAUSE,
    case::{self, Case, Stop},
    declared::{ALL_BUT_BIND, Verb},
    question::{Question, Scene},
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
        let question = suite.question(verb, &Scene::random(&mut objects, nodes))?;
        ready(suite, &question).await?;
        suite.ask(&question).await?;
    }
    Ok(())
}

/// Waits, as `--wait` says, for a policy that cannot decide yet, because its data comes after its start.
async fn ready(suite: &Suite, question: &Question) -> Result<(), Stop> {
    let until = Instant::now() + suite.target.wait;
    loop {
        match suite.send(question.verb, question.encode()).await? {
            Err(status) if status.code() == Code::Unavailable && Instant::now() < until => sleep(PAUSE).await,
            _ => return Ok(()),
        }
    }
}
