//! Decides a prioritize call.

mod question;

use extender_gateway_core::{
    BackendFailure, Verb,
    filter::Asked,
    score::{self, Ballot},
};
use futures_util::future::join_all;

use self::question::ScoreQuestion;
use super::{
    Call, CallError, Decider,
    ask::{NodeContext, Participant},
    call_context::CallContext,
    failures::Failed,
};
use crate::{
    backend::info::ScorePlan,
    config::ScoreSettings,
    record::{BackendOutcome, CallRecord, OnFailure, Outcome},
};

impl Decider {
    /// The total score of each node; `None` for a node that is not listed. A backend that fails is ignored, as
    /// kube-scheduler ignores an extender whose prioritize fails. An interested backend without a `score` block
    /// gives every node 0, as an extender without `prioritizeVerb` does.
    ///
    /// # Errors
    /// The request contains a node that cannot be parsed.
    pub async fn prioritize(
        &self,
        call: Call<'_>,
        record: &mut CallRecord,
    ) -> Result<Vec<Option<i64>>, CallError> {
        let count = call.request.names.count();
        let mut context =
            CallContext::new(call, record, &self.known, self.unknown_nodes_deadline(call.began));
        let prefetched = self.prefetched.take(call.pod.uid());
        let mut participants = Vec::new();
        let mut lists_all = false;
        if count > 0 {
            for backend in self.enforced(call.pod) {
                let Some(settings) = &backend.settings.score else {
                    lists_all = true;
                    continue;
                };
                let ready = context.ready::<ScorePlan>(backend).await?;
                let (place, timeout) = (record.backends.len(), settings.timeout);
                record.backends.push(BackendOutcome::new(&backend.settings, OnFailure::Ignore));
                participants.push(Participant { place, backend, settings, timeout, ready });
            }
        }
        let question = ScoreQuestion { early: &prefetched };
        let deadline = call.began + self.timeouts.decision;
        let about = NodeContext { context: &context, nodes: &Asked::All, deadline };
        let asked = participants.iter().map(|participant| participant.ballot(&question, about));
        let answers = join_all(asked).await;
        self.record_scores(call, answers, record);
        let ballots: Vec<&Ballot> = record.backends.iter().filter_map(BackendOutcome::ballot).collect();
        let mut totals = score::totals(count as usize, &ballots);
        if lists_all {
            score::list_all(&mut totals);
        }
        self.shadow_score(call, record, &mut context, &totals).await;
        Ok(totals)
    }

    /// Records each answer in the part of its backend. Only ballots count.
    fn record_scores(&self, call: Call<'_>, answers: Vec<ScoreAnswer>, record: &mut CallRecord) {
        for (part, answer) in record.backends.iter_mut().zip(answers) {
            match answer {
                Ok(None) => {}
                Ok(Some(mut ballot)) => {
                    let outside = ballot.range.clamp(&mut ballot.scores);
                    part.outcome = Outcome::Scored(ballot, outside);
                }
                Err(failure) => {
                    let failed = Failed {
                        verb: Verb::Prioritize,
                        policy: part.policy,
                        pod: call.pod,
                        trace: record.trace,
                    };
                    self.failures.record(&part.backend, &failure, failed);
                    part.outcome = Outcome::Failed(failure);
                }
            }
        }
    }
}

/// A ballot, if something was scored.
type ScoreAnswer = Result<Option<Ballot>, BackendFailure>;

impl Participant<'_, ScoreSettings> {
    /// Its scores; `None` if no node has a row for it.
    async fn ballot(&self, question: &ScoreQuestion<'_>, about: NodeContext<'_>) -> ScoreAnswer {
        let scores = self.ask(question, about).await?;
        let Some(ready) = self.ready.as_ref().ok().filter(|_| !scores.is_empty()) else { return Ok(None) };
        let ScorePlan { range, normalization, .. } =
            ready.session.info.score.as_ref().map_err(Clone::clone)?;
        let (range, normalization) = (*range, *normalization);
        let (weight, nodes) = (self.settings.weight.value(), about.context.nodes(ready.views).known());
        Ok(Some(Ballot { weight, normalization, range, nodes, scores }))
    }
}
