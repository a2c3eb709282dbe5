//! Evictions.

use extender_policy_api::v1beta1 as api;
use tonic::Code;

use crate::{
    case::{self, Case, Stop},
    declared::Verb,
    suite::Suite,
};

pub(super) fn cases() -> Vec<Case> {
    case::table! {
        "preempt.kept" Must ["16.1"] "kept candidates and victims are offered ones, each once" => |suite|
            super::calls::about(suite, Verb::Preempt, &[12; 10]).await;
        "preempt.no-candidates" Must ["10.1"] "a request without candidates is refused" => no_candidates;
        "preempt.candidate-count" Must ["10.1"] "too few or too many candidates are refused" => candidate_count;
        "preempt.no-victims" Must ["10.1"] "a candidate without victims is refused" => no_victims;
        "preempt.placeholder" Must ["16.4"] "a placeholder, which has no victims" => placeholder;
        "preempt.unknown-victims" Must ["16.2"] "victims of which only the UID is known" => unknown_victims;
        "preempt.violations" Must ["16.2"] "violations of PodDisruptionBudgets are accepted" => violations;
        "preempt.many" Must ["16.3"] "500 candidates with 3 to 20 victims each" => many;
    }
}

async fn no_candidates(suite: &Suite) -> Result<(), Stop> {
    let mut question = suite.random_question(Verb::Preempt, 2)?;
    question.candidates.clear();
    suite.refused(&question, Code::InvalidArgument, "2 nodes and no `candidates`").await
}

async fn candidate_count(suite: &Suite) -> Result<(), Stop> {
    let question = suite.random_question(Verb::Preempt, 2)?;
    let mut fewer = question.clone();
    fewer.candidates.pop();
    suite.refused(&fewer, Code::InvalidArgument, "2 nodes and 1 entry of `candidates`").await?;
    let mut more = question;
    more.candidates.extend(more.candidates.clone());
    suite.refused(&more, Code::InvalidArgument, "2 nodes and 4 entries of `candidates`").await
}

async fn no_victims(suite: &Suite) -> Result<(), Stop> {
    let mut question = suite.random_question(Verb::Preempt, 2)?;
    if let Some(last) = question.candidates.last_mut() {
        last.victims.clear();
        // Not an empty entry, which would be refused for that.
        last.pdb_violations = 1;
    }
    suite.refused(&question, Code::InvalidArgument, "a candidate without victims").await
}

async fn placeholder(suite: &Suite) -> Result<(), Stop> {
    let mut question = suite.random_question(Verb::Preempt, 3)?;
    question.candidates[1] = api::Candidate { placeholder: true, ..api::Candidate::default() };
    suite.ask(&question).await.map(drop)
}

async fn unknown_victims(suite: &Suite) -> Result<(), Stop> {
    let mut question = suite.random_question(Verb::Preempt, 5)?;
    let victims = question.candidates.iter_mut().flat_map(|candidate| &mut candidate.victims);
    victims.for_each(|victim| victim.pod = None);
    suite.ask(&question).await.map(drop)
}

async fn violations(suite: &Suite) -> Result<(), Stop> {
    let mut question = suite.random_question(Verb::Preempt, 5)?;
    question.candidates.iter_mut().for_each(|candidate| candidate.pdb_violations = 1);
    suite.ask(&question).await.map(drop)
}

async fn many(suite: &Suite) -> Result<(), Stop> {
    let terms = suite.terms(Verb::Preempt)?;
    let nodes = 500;
    let mut question = suite.random_question(Verb::Preempt, nodes)?;
    let pod = suite.objects().pod();
    for (at, candidate) in question.candidates.iter_mut().enumerate() {
        let uid = |number: usize| format!("uid-{at}-{number}");
        let pod = || Some(Box::new(terms.victim(&pod, crate::sent::Extent::Declared)));
        candidate.victims.extend((0..17).map(|number| api::Victim { uid: uid(number), pod: pod() }));
    }
    // No more is read of the response than the gateway reads.
    suite.ask(&question).await.map(drop)
}
