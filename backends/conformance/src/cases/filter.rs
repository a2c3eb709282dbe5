//! Rejections, and scores that come with them.

use extender_policy_api::limits::{REASON_BYTES, RULE_BYTES};

use super::calls::{about, answered, unless_changing};
use crate::{
    answer::{Answer, Verdict, difference},
    case::{self, Case, Stop, failed, skipped},
    declared::Verb,
    question::Question,
    suite::Suite,
};

const NODES: usize = 60;

pub(super) fn cases() -> Vec<Case> {
    case::table! {
        "filter.positions" Must ["13.1"] "each position is in range and rejected once" => |suite|
            about(suite, Verb::Filter, &[NODES; 5]).await;
        "filter.reasons" Should ["13.2"] "reasons are not empty" => reasons;
        "filter.one-line" Should ["13.6"] "reasons are one line, without `%`" => one_line;
        "filter.text-lengths" Should ["13.5"] "reasons and names of rules are not cut" => text_lengths;
        "filter.constant-reasons" Should ["13.2"] "reasons stay the same" => constant_reasons;
        "filter.grouped" Should ["13.3"] "one rejection for each reason, not for each node" => grouped;
        "filter.want-scores" Must ["33.1"] "scores with the verdicts: one for each node, or none" => |suite|
            suite.ask(&with_scores(suite)?).await.map(drop);
        "filter.same-scores" Must ["33.2"] "they are the scores that Score gives" => same_scores;
    }
}

/// The reason and the rule of each rejection keep a rule.
async fn rejected(suite: &Suite, mistake: impl Fn(&str, &str) -> Option<String>) -> Result<(), Stop> {
    for (_, answer) in answered(suite, Verb::Filter, &[NODES; 5]).await? {
        for verdict in &answer.verdicts {
            if let Verdict::Rejected { reason, rule, .. } = verdict
                && let Some(mistake) = mistake(reason, rule)
            {
                return failed(mistake);
            }
        }
    }
    Ok(())
}

async fn reasons(suite: &Suite) -> Result<(), Stop> {
    let empty =
        || "a node is rejected with an empty reason; the pod's condition then says `rejected`".to_owned();
    rejected(suite, |reason, _| reason.trim().is_empty().then(empty)).await
}

async fn one_line(suite: &Suite) -> Result<(), Stop> {
    rejected(suite, |reason, _| {
        let replaced = reason.find(|char: char| char.is_control() || char == '%')?;
        Some(format!("the reason {reason:?} has {:?}", reason[replaced..].chars().next()?))
    })
    .await
}

async fn text_lengths(suite: &Suite) -> Result<(), Stop> {
    rejected(suite, |reason, rule| {
        let (reason, rule) = (reason.len(), rule.len());
        (reason > REASON_BYTES || rule > RULE_BYTES).then(|| {
            format!(
                "a reason has {reason} bytes and its rule {rule}; the gateway reads {REASON_BYTES} and {RULE_BYTES}"
            )
        })
    })
    .await
}

async fn constant_reasons(suite: &Suite) -> Result<(), Stop> {
    for (question, answer) in answered(suite, Verb::Filter, &[NODES; 5]).await? {
        let again = suite.ask(&question).await?;
        for pair in answer.verdicts.iter().zip(&again.verdicts) {
            if let (Verdict::Rejected { reason: first, .. }, Verdict::Rejected { reason: second, .. }) = pair
                && first != second
            {
                return failed(format!(
                    "equal questions got the reasons {first:?} and {second:?}; kube-scheduler retries a pod whenever the \
                     text changes"
                ));
            }
        }
    }
    Ok(())
}

async fn grouped(suite: &Suite) -> Result<(), Stop> {
    suite.terms(Verb::Filter)?;
    // The same row many times has one reason.
    let scene = suite.scene(NODES);
    let whole = suite.ask(&suite.question(Verb::Filter, &scene)?).await?;
    let rejected = whole.verdicts.iter().position(|verdict| matches!(verdict, Verdict::Rejected { .. }));
    let Some(at) = rejected else {
        return skipped("no node was rejected; name values of labels with --value");
    };
    let question = suite.question(Verb::Filter, &scene.select(&[at; NODES]))?;
    let response = suite.respond(&question).await?;
    let crate::answer::Response::Filter(response) = response else { return Ok(()) };
    let mut seen = std::collections::BTreeSet::new();
    let repeated = response.rejections.iter().find(|rejection| {
        !seen.insert((&rejection.reason, &rejection.rule, rejection.kind(), rejection.retry_after_seconds))
    });
    match repeated {
        Some(rejection) => failed(format!(
            "{} rejections for {NODES} equal nodes; {:?} comes more than once",
            response.rejections.len(),
            rejection.reason
        )),
        None => Ok(()),
    }
}

/// A question that may want scores, as a gateway decides it.
fn with_scores(suite: &Suite) -> Result<Question, Stop> {
    let (filter, score) = (suite.terms(Verb::Filter)?, suite.terms(Verb::Score)?);
    let alike = score.is_per_node()
        && !score.has_side_effects()
        && score.is_pure() == filter.is_pure()
        && score.reads() == filter.reads();
    if !alike {
        return skipped(
            "filter and score do not read the same, so scores are not asked for with the verdicts",
        );
    }
    let question = suite.random_question(Verb::Filter, NODES)?;
    Ok(Question { want_scores: true, ..question })
}

async fn same_scores(suite: &Suite) -> Result<(), Stop> {
    let question = with_scores(suite)?;
    let filtered = suite.ask(&question).await?;
    let Some(scores) = filtered.scores.clone() else {
        return skipped("filter leaves the scores out; the gateway calls Score");
    };
    let score = Question { verb: Verb::Score, want_scores: false, ..question };
    let by_score = suite.ask(&score).await?;
    let difference = difference("Score after Filter", &scores, &by_score.verdicts);
    let with_verdicts = Answer { verdicts: scores, ..filtered };
    unless_changing(suite, &score, difference, [&with_verdicts, &by_score]).await
}
