//! Backends in shadow mode: called in the background and compared with the decision. No call waits for them, nor for what they
//! are sent about nodes.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use bytes::Bytes;
use extender_gateway_backend::{Attempt, Backend, session::Session};
use extender_gateway_contract::{
    preempt::PreemptQuestion,
    question::{CallFields, Question, ScoresWanted},
};
use extender_gateway_core::{
    BackendFailure, PolicyVerb,
    filter::{Asked, Heard, Refusal},
    preempt::{Added, Candidate, Chain, Kept, Taken, Terms},
    score::{self, Ballot},
};
use extender_gateway_pace::fair_queue::Flow;
use extender_gateway_record::{Agreement, BackendAttempt, CallRecord, Outcome};
use extender_gateway_settings::{AddedVictims, PreemptSettings};
use extender_policy_api::v1alpha1::{self as api, Purpose};
use futures_util::FutureExt;
use tokio::sync::OwnedSemaphorePermit;

use super::{
    Call, Decider,
    call_context::{CallContext, LaterNodes},
    prioritize::{self, Scored},
};

/// A call to a backend in shadow mode, for all verbs.
pub(super) struct ShadowCall {
    pub(super) backend: Arc<Backend>,
    pub(super) session: Arc<Session>,
    pub(super) pod: Bytes,
    /// The id of the declaration that pod and nodes are encoded with.
    pub(super) reads_id: u32,
    /// The number of the state of the nodes; 0 without one.
    pub(super) snapshot: u64,
    pub(super) nodes: LaterNodes,
    pub(super) timeout: Duration,
    pub(super) question: ShadowQuestion,
    /// Its permit among the concurrent shadow calls to the backend.
    pub(super) _permit: OwnedSemaphorePermit,
}

/// What is asked of a backend in shadow mode. Positions are those of nodes in the request, ascending.
pub(super) enum ShadowQuestion {
    /// Which of the remaining nodes would it reject?
    Filter { nodes: Vec<u32> },
    /// How would it score the nodes? `best` are those of the call that the decision scores best.
    Score { nodes: Vec<u32>, best: Vec<bool> },
    /// Which of the remaining candidates would it change?
    Preempt(PreemptShadow),
}

/// The candidates that a backend in shadow mode is called for.
pub(super) struct PreemptShadow {
    pub(super) candidates: Vec<Candidate>,
    /// The same as they are sent.
    pub(super) messages: Vec<api::Candidate>,
    pub(super) settings: PreemptSettings,
}

/// A call; `None` if it has no nodes; or why the backend is unavailable.
pub(super) type Prepared = Result<Option<ShadowCall>, BackendFailure>;

impl Decider {
    /// Calls the shadow backends that filter for the remaining nodes, as if they came last: any rejection is a
    /// disagreement.
    pub(super) async fn shadow_filter(
        &self,
        call: Call<'_>,
        record: &CallRecord,
        context: &mut CallContext<'_>,
        left: impl Iterator<Item = u32> + Clone,
    ) {
        for backend in self.shadows(call.pod, PolicyVerb::Filter, record) {
            let Some(settings) = &backend.settings.filter else { continue };
            let question = |nodes| ShadowQuestion::Filter { nodes };
            let prepared =
                prepare(context, PolicyVerb::Filter, backend, settings.timeout, left.clone(), question).await;
            self.spawn(PolicyVerb::Filter, backend, record, prepared);
        }
    }

    /// Calls the shadow backends that score: having none of the best nodes among its own best is a disagreement.
    pub(super) async fn shadow_score(
        &self,
        call: Call<'_>,
        record: &CallRecord,
        context: &mut CallContext<'_>,
        totals: &[Option<i64>],
    ) {
        for backend in self.shadows(call.pod, PolicyVerb::Score, record) {
            let Some(settings) = &backend.settings.score else { continue };
            let all = 0..u32::try_from(totals.len()).unwrap_or(u32::MAX);
            let question = |nodes| ShadowQuestion::Score { nodes, best: best(totals) };
            let prepared =
                prepare(context, PolicyVerb::Score, backend, settings.timeout, all, question).await;
            self.spawn(PolicyVerb::Score, backend, record, prepared);
        }
    }

    /// Calls a backend in shadow mode in a separate task, which outlives the call. Unavailability is recorded as well,
    /// and a panic is counted.
    pub(super) fn spawn(&self, verb: PolicyVerb, backend: &Backend, record: &CallRecord, prepared: Prepared) {
        let Some(prepared) = prepared.transpose() else { return };
        let record = record.of_shadow(&backend.settings, verb, self.shadow_reason(backend));
        let observer = Arc::clone(&self.settings.observer);
        let metrics = Arc::clone(&observer.metrics);
        let purpose = self.settings.purpose.of_shadow_calls();
        let work = AssertUnwindSafe(async move {
            let mut attempt = record.recorder.start_attempt(0, record.trace);
            let answer = match prepared {
                Ok(call) => call.ask(&record.id, purpose, &mut attempt).await,
                Err(failure) => Err(failure),
            };
            observer.record_shadow(verb.of_call(), &record.with_shadow_outcome(answer, attempt));
        });
        self.settings.observer.spawn(async move {
            if work.catch_unwind().await.is_err() {
                metrics.panicked();
            }
        });
    }
}

impl PreemptShadow {
    /// Compares an answer with the decision.
    fn compare(
        &self,
        answer: Result<Vec<Kept>, BackendFailure>,
    ) -> Result<(Agreement, Outcome), BackendFailure> {
        let added = match self.settings.added_victims {
            AddedVictims::Refused => Added::Refused,
            // Its victims are not evicted: any added victim is a disagreement.
            AddedVictims::Allowed => Added::Checked(&|_, _| Ok(())),
        };
        let mut chain = Chain::begin(self.candidates.clone());
        match chain.take(&self.candidates, answer, Terms { policy: self.settings.failure_policy, added }) {
            Taken::Counted => {
                let agreement =
                    if chain.left() == self.candidates { Agreement::Agrees } else { Agreement::Disagrees };
                Ok((agreement, Outcome::candidates(chain.left())))
            }
            Taken::Skipped(failure) | Taken::Failed(failure) => Err(failure),
        }
    }
}

/// The call for the nodes that have rows, or why the backend is unavailable. Waits for no node.
async fn prepare(
    context: &mut CallContext<'_>,
    verb: PolicyVerb,
    backend: &Arc<Backend>,
    timeout: Duration,
    nodes: impl Iterator<Item = u32>,
    question: impl FnOnce(Vec<u32>) -> ShadowQuestion,
) -> Prepared {
    let permit = backend.shadow_call()?;
    context.switch_to_shadow();
    // Nodes that cannot be parsed cannot be encoded for a backend.
    let Ok(ready) = context.ready(verb, backend).await else { return Ok(None) };
    let ready = ready?;
    if ready.session.info.has_side_effects(verb) {
        return Ok(None);
    }
    let encoded = context.nodes(&ready);
    let nodes: Vec<u32> = nodes.filter(|node| encoded.unknown.binary_search(node).is_err()).collect();
    if nodes.is_empty() {
        return Ok(None);
    }
    Ok(Some(ShadowCall {
        backend: Arc::clone(backend),
        pod: context.pod(&ready).clone(),
        reads_id: ready.reads_id,
        snapshot: encoded.snapshot,
        session: ready.session,
        nodes: encoded.later(&encoded.slots(&Asked::Some(nodes.clone()))),
        timeout,
        question: question(nodes),
        _permit: permit,
    }))
}

impl ShadowCall {
    /// Calls the backend and compares its answer with the decision.
    async fn ask(
        self,
        id: &str,
        purpose: Purpose,
        attempt: &mut BackendAttempt,
    ) -> Result<(Agreement, Outcome), BackendFailure> {
        let Self { backend, session, pod, reads_id, snapshot, nodes, timeout, question, .. } = self;
        let nodes = nodes.into_field();
        attempt.set_requested(nodes.count as usize);
        let attempt = Attempt { timeout, flow: Flow::Own, rpcs: &mut attempt.rpcs };
        let call = CallFields { id, purpose, reads_id, snapshot };
        let request = Question { call, pod: &pod, nodes: &nodes, scores: ScoresWanted::Unwanted };
        match question {
            ShadowQuestion::Filter { nodes } => {
                let refusals = backend.filter(&session, request, attempt).await?.inline()?.refusals;
                let agreement = agreement_on_nodes(&refusals);
                Ok((agreement, Outcome::Filtered(Heard { nodes: Asked::Some(nodes), refusals })))
            }
            ShadowQuestion::Score { nodes, best } => {
                let scores = backend.score(&session, request, attempt).await?.inline()?;
                let Scored { ballot, outside } = prioritize::scored(&backend, &session, Some(nodes), scores)?;
                Ok((agreement_on_scores(&ballot, &best), Outcome::Scored(ballot, outside)))
            }
            ShadowQuestion::Preempt(preempt) => {
                let candidates = &preempt.messages;
                let request = PreemptQuestion { call, pod: &pod, nodes: &nodes, candidates };
                preempt.compare(backend.preempt(&session, request, attempt).await)
            }
        }
    }
}

/// The nodes with the largest total; all nodes if none has one.
fn best(totals: &[Option<i64>]) -> Vec<bool> {
    let largest = totals.iter().flatten().max();
    totals.iter().map(|total| largest.is_none() || total.as_ref() == largest).collect()
}

fn agreement_on_nodes(refusals: &[Refusal]) -> Agreement {
    let refused = refusals.iter().any(|refusal| !refusal.positions.is_empty());
    if refused { Agreement::Disagrees } else { Agreement::Agrees }
}

fn agreement_on_scores(ballot: &Ballot, best: &[bool]) -> Agreement {
    let worth = score::normalized(ballot);
    let worths = || ballot.scores.iter().map(|score| worth(*score));
    let largest = worths().fold(f64::NEG_INFINITY, f64::max);
    let is_favorite = |(_, worth): &(&u32, f64)| worth.total_cmp(&largest).is_eq();
    let nodes = ballot.nodes.as_deref().unwrap_or_default();
    let mut favorites = nodes.iter().zip(worths()).filter(is_favorite);
    if favorites.any(|(node, _)| best[*node as usize]) { Agreement::Agrees } else { Agreement::Disagrees }
}

#[cfg(test)]
mod tests {
    use extender_gateway_core::score::{Direction, Normalization, Range};

    use super::*;

    #[test]
    fn an_opinion_is_formed_on_what_would_count() {
        let agreement = |normalization, scores: &[i32]| {
            let range = Range { least: Some(0), largest: Some(10) };
            let (nodes, mut scores) = (Some(vec![0, 2]), scores.to_vec());
            range.clamp(&mut scores);
            let ballot = Ballot { weight: 3, normalization, range, nodes, scores };
            agreement_on_scores(&ballot, &[false, true, true])
        };
        let (least, largest) = (Direction::LeastIsBest, Direction::LargestIsBest);
        assert_eq!(agreement(Normalization::None, &[4, 5]), Agreement::Agrees);
        assert_eq!(agreement(Normalization::None, &[5, 4]), Agreement::Disagrees);
        assert_eq!(agreement(Normalization::None, &[50, 20]), Agreement::Agrees, "both are clamped to 10");
        assert_eq!(agreement(Normalization::MinMax(least), &[5, 4]), Agreement::Agrees);
        assert_eq!(agreement(Normalization::MinMax(least), &[4, 5]), Agreement::Disagrees);
        assert_eq!(
            agreement(Normalization::Max(largest), &[-1, -5]),
            Agreement::Agrees,
            "nothing is worth anything"
        );
    }
}
