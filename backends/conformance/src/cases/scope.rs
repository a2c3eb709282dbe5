//! Verbs that look at one node at a time.

use super::{calls::unless_changing, sizes::fitting};
use crate::{
    answer::{Answer, Verdict, difference},
    case::{self, Case, Stop, skipped},
    declared::{PER_NODE, Verb},
    question::{LARGE, Scene},
    suite::Suite,
};

/// The nodes of a case.
const NODES: usize = 40;

pub(super) fn cases() -> Vec<Case> {
    case::table! {
        for PER_NODE: "per-node-order" Must ["15.1"] "the order of the nodes changes no verdict" => order;
        for PER_NODE: "per-node-subset" Must ["15.1", "32.1"] "nor do other nodes of the request" => subset;
        for PER_NODE: "per-node-sizes" Must ["15.1", "32.1"] "nor does their number, of 1 to 15,000" => sizes;
    }
}

/// The verdicts on these nodes of the scene, in a request of their own, are those of the whole request.
pub(super) async fn same(
    suite: &Suite,
    verb: Verb,
    scene: &Scene,
    whole: &Answer,
    at: &[usize],
) -> Result<(), Stop> {
    let question = suite.question(verb, &scene.select(at))?;
    let selected = suite.ask(&question).await?;
    let verdicts = at.iter().filter_map(|at| whole.verdicts.get(*at).cloned()).collect();
    let (pod, revision) = (whole.pod.clone(), whole.revision.clone());
    let expected = Answer { verdicts, pod, revision, scores: None };
    let (few, count) = (at.iter().take(NODES).collect::<Vec<_>>(), at.len());
    let what = format!("{count} of {} nodes, {few:?}, in a request of their own", scene.nodes.len());
    let difference = difference(&what, &expected.verdicts, &selected.verdicts);
    unless_changing(suite, &question, difference, [&expected, &selected]).await
}

fn per_node(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    if suite.terms(verb)?.is_per_node() { Ok(()) } else { skipped("the verb's scope is not SCOPE_NODE") }
}

async fn whole(suite: &Suite, verb: Verb) -> Result<(Scene, Answer), Stop> {
    per_node(suite, verb)?;
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

/// Nodes alone, requests of each size up to this one, and some larger ones.
const EACH_SIZE: usize = 100;
const LARGER: [usize; 3] = [300, 1_000, 3_000];

async fn sizes(suite: &Suite, verb: Verb) -> Result<(), Stop> {
    per_node(suite, verb)?;
    let (scene, question) = fitting(suite, verb, LARGE)?;
    let whole = suite.ask(&question).await?;
    let sizes = [1; NODES].into_iter().chain(2..=EACH_SIZE).chain(LARGER);
    let mut rest: Vec<_> = (0..scene.nodes.len()).collect();
    for size in sizes {
        let at: Vec<_> = rest.drain(..size.min(rest.len())).collect();
        if !at.is_empty() {
            same(suite, verb, &scene, &whole, &at).await?;
        }
    }
    Ok(())
}
