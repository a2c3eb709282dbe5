//! What backends answer: without a script, that everything fits and nothing is to be changed.

use extender_policy_api::v1beta1::{self as api, RejectionKind};

use crate::backend::{Act, Received, applied};

/// The answer without a script.
pub(crate) fn default(received: &Received, revision: &str) -> Act {
    let result = Some(api::Result::answered(received.nodes().count, revision));
    match received.method.as_str() {
        "Filter" => Act::answer(&api::FilterResponse { result, ..Default::default() }),
        "Score" => {
            let absent: Vec<_> = (0..received.nodes().count).collect();
            let scores = Some(api::Scores { values: vec![0; absent.len()], absent });
            Act::answer(&api::ScoreResponse { result, scores })
        }
        "Preempt" => {
            let candidates = received.decode::<api::PreemptRequest>().candidates;
            let kept = |(position, candidate): (u32, api::Candidate)| {
                let victims = (0..).zip(candidate.victims).map(|(at, _)| at).collect();
                api::KeptCandidate { position, victims, ..Default::default() }
            };
            Act::answer(&api::PreemptResponse { result, kept: (0..).zip(candidates).map(kept).collect() })
        }
        "Bind" => binding(api::BindOutcome::Declined),
        "BeforeFilter" | "BeforeFilterNodes" | "BeforeScore" => change(received, None, Vec::new()),
        "SyncNodes" => applied(received),
        "Report" => Act::Message(Vec::new()),
        "Watch" => Act::Open(Vec::new()),
        _ => Act::Status(12, "not implemented", ""),
    }
}

fn evaluated(received: &Received) -> api::Result {
    api::Result::answered(received.nodes().count, "")
}

/// Rejects the nodes with these names for this reason.
pub(crate) fn reject(received: &Received, names: &[&str], reason: &str, kind: RejectionKind) -> Act {
    let is_rejected = |(_, name): &(u32, &str)| names.contains(name);
    let positions: Vec<_> =
        (0..).zip(received.names()).filter(is_rejected).map(|(position, _)| position).collect();
    let rejection =
        api::Rejection { reason: reason.into(), kind: kind.into(), positions, ..Default::default() };
    let rejections = Some(rejection).filter(|rejection| !rejection.positions.is_empty());
    let rejections = rejections.into_iter().collect();
    Act::answer(&api::FilterResponse { result: Some(evaluated(received)), rejections, scores: None })
}

/// The same, whatever evictions would change.
pub(crate) fn rejecting(names: &'static [&'static str], reason: &'static str) -> impl Fn(&Received) -> Act {
    move |received| reject(received, names, reason, RejectionKind::Unspecified)
}

/// Scores for these names; for other nodes there is no opinion.
pub(crate) fn scores(received: &Received, scores: &[(&str, i32)]) -> api::Scores {
    let score = |name: &str| scores.iter().find(|(scored, _)| *scored == name).map(|(_, score)| *score);
    let values: Vec<_> = received.names().into_iter().map(score).collect();
    let absent = (0..).zip(&values).filter(|(_, value)| value.is_none()).map(|(at, _)| at).collect();
    api::Scores { values: values.into_iter().map(Option::unwrap_or_default).collect(), absent }
}

/// Answers these scores.
pub(crate) fn scoring(given: Vec<(&'static str, i32)>) -> impl Fn(&Received) -> Act {
    move |received| {
        let scores = Some(scores(received, &given));
        Act::answer(&api::ScoreResponse { result: Some(evaluated(received)), scores })
    }
}

/// Answers this outcome of a bind.
pub(crate) fn binding(outcome: api::BindOutcome) -> Act {
    Act::answer(&api::BindResponse { outcome: outcome.into(), message: "scripted".into() })
}

/// Answers these changes to a hook.
pub(crate) fn change(received: &Received, pod: Option<api::PodChange>, nodes: Vec<api::NodeChange>) -> Act {
    let result = Some(api::Result::answered(received.nodes().count.max(1), ""));
    Act::answer(&api::ChangeResponse { result, pod, nodes })
}
