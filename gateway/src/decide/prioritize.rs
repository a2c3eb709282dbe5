//! Decides a prioritize call.

use std::sync::Arc;

use extender_gateway_core::{
    BackendFailure,
    score::{self, Ballot},
};
use extender_policy_api::v1alpha1::Purpose;
use futures_util::future::join_all;
use tokio::time::Instant;

use super::{Call, CallError, Decider, case::Case, case::Views, failures::Consequence};
use crate::{
    backend::{Backend, info::ScorePlan, link::Link, question::Question},
    config::ScoreSettings,
};

/// One backend of a call.
struct Participant<'d> {
    backend: &'d Backend,
    settings: &'d ScoreSettings,
    ready: Result<(Arc<Link>, Views), BackendFailure>,
}

impl Decider {
    /// The total score of each node; `None` for a node that no backend scored. A backend that fails is left
    /// out, as kube-scheduler leaves out an extender whose prioritize fails.
    ///
    /// # Errors
    /// The request holds a node that cannot be read.
    pub async fn prioritize(&self, call: Call<'_>) -> Result<Vec<Option<i64>>, CallError> {
        let count = call.request.names.count();
        let mut case =
            Case::new(call, self.ids.next(), (self.known.table.as_deref(), self.timeouts.decision));
        let mut participants = Vec::new();
        if count > 0 {
            for (backend, settings) in self.asked(call.pod, |backend| backend.score.as_ref()) {
                participants.push(participant(&mut case, backend, settings).await?);
            }
        }
        let deadline = call.began + self.timeouts.decision;
        let answers = join_all(participants.iter().map(|participant| participant.ask(&case, deadline))).await;
        let mut ballots = Vec::with_capacity(answers.len());
        for (participant, answer) in participants.iter().zip(answers) {
            match answer {
                Ok(ballot) => ballots.extend(ballot.map(|ballot| self.clamp(participant, ballot))),
                Err(failure) => {
                    self.failures.record(
                        participant.backend,
                        "score",
                        &failure,
                        (call.pod, Consequence::LeftOut),
                    );
                }
            }
        }
        let totals = score::totals(count as usize, &ballots);
        if count > 0 {
            self.shadow_score(call, &totals).await;
        }
        Ok(totals)
    }

    fn clamp(&self, participant: &Participant<'_>, mut ballot: Ballot) -> Ballot {
        let outside = ballot.range.clamp(&mut ballot.scores);
        if outside > 0 {
            self.metrics.clamped(participant.backend.settings.name.as_str(), outside as u64);
        }
        ballot
    }
}

async fn participant<'d>(
    case: &mut Case<'_>,
    backend: &'d Backend,
    settings: &'d ScoreSettings,
) -> Result<Participant<'d>, CallError> {
    let ready = match backend.link() {
        Err(failure) => Err(failure),
        Ok(link) => match &link.info.score {
            Err(failure) => Err(failure.clone()),
            Ok(plan) => {
                let told = case.tell(&link.info.pod, &plan.nodes).await?;
                told.map(|views| (Arc::clone(&link), views))
            }
        },
    };
    Ok(Participant { backend, settings, ready })
}

impl Participant<'_> {
    /// Its scores; `None` when it knows none of the nodes.
    async fn ask(&self, case: &Case<'_>, deadline: Instant) -> Result<Option<Ballot>, BackendFailure> {
        let (link, views) = self.ready.as_ref().map_err(Clone::clone)?;
        let ScorePlan { range, normalization, .. } = link.info.score.as_ref().map_err(Clone::clone)?;
        let told = case.nodes(*views);
        if told.count() == 0 {
            return Ok(None);
        }
        let question =
            Question { call: &case.id, purpose: Purpose::Decide, pod: case.pod(*views), nodes: told.all() };
        let within = self.settings.timeout.min(deadline.duration_since(Instant::now()));
        let scores = self.backend.score(link, question, within).await?;
        let weight = self.settings.weight.value();
        Ok(Some(Ballot { weight, normalization: *normalization, range: *range, nodes: told.known(), scores }))
    }
}
