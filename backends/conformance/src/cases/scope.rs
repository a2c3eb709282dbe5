//! Verbs that look at one node at a time.

use super::calls::unless_changing;
use crate::{
    answer::{Answer, Verdict, difference},
    case::{self, Case, Stop, skipped},
    declared::{PER_NODE, Verb},
    question::Scene,
    suite::Suite,
};

/// The nodes of a case.
const NODES: usize = 40;

pub(super) fn cases() -> Vec<Case> {
    case::table! {
        for PER_NODE: "per-node-order" Must ["15.1"] "the order of the nodes changes no verdict" => order;
        for PER_NODE: "per-node-subset" Must ["15.1", "32.1"] "nor do other nodes of the request" => subset;
        for PER_NODE: "per-node-alone" Must ["15.1", "32.1"] "a node alone gets the same verdict" => alone;
    }
}

/// The verdicts on these nodes of the scene, in a request of their own, are those of the whole request.
async fn same(suite: &Suite, verb: Verb, scene: &Scene, whole: &Answer, at: &[usize]) -> Result<(), Stop> {
    let selected = suite.ask(&suite.question(verb, &scene.select(at))?).await?;
    let expected: Vec<_> = at.iter().filter_map(|at| whole.verdicts.get(*at).cloned()).collect();
    let what = format!("the nodes {at:?} of {NODES} in a request of their own");
    let difference = difference(&what, &expected, &selected.verdicts);
    unless_changing(suite, &suite.question(verb, scene)?, difference, [whole, &selected]).await
}

async fn whole(suite: &Suite, verb: Verb) -> Result<(Scene, Answer), Stop> {
    if !suite.terms(verb)?.is_per_node() {
        return skipped("the verb's scope is not SCOPE_NODE");
    }
    let scene = suite.scene(NODES);
    let answer = suite.ask(&suite.question(verb, &scene)?).await?;
    Ok((scene, answer))
}

async fn order(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    let (scene, answer) = whole(suite, verb).await?;
    let mut random = suite.objects().random;
    for _ in 0..3 {
        same(suite, verb, &scene, &answer, &random.shuffled(NODES)).await?;
    }
    Ok(())
}

async fn subset(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    let (scene, answer) = whole(suite, verb).await?;
    let mut random = suite.objects().random;
    // Of those with the same verdict, which a policy that ranks nodes would tell apart.
    let rejected =
        |at: &usize| !matches!(answer.verdicts.get(*at), Some(Verdict::Accepted | Verdict::Unchanged));
    let (some, others): (Vec<_>, Vec<_>) = (0..NODES).partition(rejected);
    let half = random.shuffled(NODES).into_iter().take(NODES / 2).collect();
    for at in [some, others, half] {
        if !at.is_empty() {
            same(suite, verb, &scene, &answer, &at).await?;
        }
    }
    Ok(())
}

async fn alone(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    let (scene, answer) = whole(suite, verb).await?;
    for at in 0..NODES {
        same(suite, verb, &scene, &answer, &[at]).await?;
    }
    Ok(())
}
