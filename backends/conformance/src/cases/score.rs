//! Scores.

use crate::{
    answer::Verdict,
    case::{self, Case, Stop, failed, skipped},
    declared::Verb,
    suite::Suite,
};

pub(super) fn cases() -> Vec<Case> {
    case::table! {
        "score.one-each" Must ["14.1"] "one score for each node" => |suite|
            super::calls::about(suite, Verb::Score, &[1, 3, 120]).await;
        "score.absent" Must ["14.1"] "nodes without an opinion are named once, in order" => |suite|
            super::calls::about(suite, Verb::Score, &[1, 3, 120]).await;
        "score.range" Should ["14.2"] "scores are within the declared bounds" => range;
        "score.rejected" Must ["34.1"] "Score is answered for nodes that Filter rejects" => rejected;
    }
}

async fn range(suite: &Suite) -> Result<(), Stop> {
    let bounds = suite.terms(Verb::Score)?.scores();
    for (_, answer) in super::calls::answered(suite, Verb::Score, &[60; 5]).await? {
        for verdict in &answer.verdicts {
            if let Verdict::Scored(score) = verdict
                && !bounds.contains(score)
            {
                let (min, max) = bounds.into_inner();
                return failed(format!(
                    "a score is {score}; declared are {min} to {max}: the gateway clamps it"
                ));
            }
        }
    }
    Ok(())
}

async fn rejected(suite: &Suite) -> Result<(), Stop> {
    suite.terms(Verb::Score)?;
    suite.terms(Verb::Filter)?;
    let scene = suite.scene(60);
    let filtered = suite.ask(&suite.question(Verb::Filter, &scene)?).await?;
    let rejected = filtered.verdicts.iter().enumerate();
    let rejected: Vec<_> =
        rejected.filter(|(_, verdict)| **verdict != Verdict::Accepted).map(|(at, _)| at).collect();
    if rejected.is_empty() {
        return skipped("no node was rejected; name values of labels with --value");
    }
    suite.ask(&suite.question(Verb::Score, &scene.select(&rejected))?).await.map(drop)
}
