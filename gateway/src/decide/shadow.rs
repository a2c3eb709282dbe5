//! Backends in shadow mode: called in the background and compared with the decision. No call waits for them.

use std::{panic::AssertUnwindSafe, sync::Arc, time::Duration};

use bytes::Bytes;
use extender_gateway_core::{
    BackendFailure, Verb,
    filter::{Asked, Heard, Refusal},
    score::{self, Ballot},
};
use extender_policy_api::v1alpha1::Purpose;
use futures_util::FutureExt;
use tokio::sync::OwnedSemaphorePermit;

use super::{
    Call, Decider,
    call_context::{CallContext, Ready},
};
use crate::{
    backend::{
        Attempt, Backend,
        info::{FilterPlan, Plan, ScorePlan},
        session::Session,
    },
    config::Mode,
    contract::{
        nodes::NodesField,
        question::{Question, ScoresWanted},
    },
    object::pod::ObjectPod,
    observe::Observer,
    record::{Agreement, BackendOutcome, CallRecord, OnFailure, Outcome, Rpcs},
};

/// A call to a backend in shadow mode, for all verbs.
pub(super) struct ShadowCall {
    pub(super) backend: Arc<Backend>,
    pub(super) session: Arc<Session>,
    /// The record of this call, separate from that of the decision.
    pub(super) record: CallRecord,
    pub(super) pod: Bytes,
    pub(super) nodes: NodesField,
    pub(super) within: Duration,
    /// Its permit among the concurrent shadow calls to the backend.
    pub(super) _place: OwnedSemaphorePermit,
}

/// A verb's request to a backend in shadow mode, and the comparison of its answer.
pub(super) trait ShadowQuestion: Send + Sync + 'static {
    /// The verb.
    const VERB: Verb;

    /// Calls the backend and compares the answer with the decision.
    fn ask(
        self,
        call: &ShadowCall,
        rpcs: &mut Rpcs,
    ) -> impl Future<Output = Result<(Agreement, Outcome), BackendFailure>> + Send;
}

/// A request; `None` if it has no nodes; or why the backend is unavailable.
pub(super) type Prepared<Q> = Result<Option<(ShadowCall, Q)>, BackendFailure>;

/// Which of the remaining nodes would it reject?
struct FilterShadow {
    /// The positions of the nodes in the request, ascending.
    asked: Vec<u32>,
}

/// How would it score the nodes?
struct ScoreShadow {
    /// The positions of the nodes in the request, ascending.
    asked: Vec<u32>,
    /// Which nodes of the call are the best by the decision.
    best: Vec<bool>,
}

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
        for backend in self.shadows(call.pod) {
            let Some(settings) = &backend.settings.filter else { continue };
            let prepared =
                prepare::<FilterPlan>(context, record, backend, settings.timeout, left.clone()).await;
            let prepared = prepared.map(|shadow| shadow.map(|(call, asked)| (call, FilterShadow { asked })));
            self.spawn(backend, record, prepared);
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
        for backend in self.shadows(call.pod) {
            let Some(settings) = &backend.settings.score else { continue };
            let all = 0..u32::try_from(totals.len()).unwrap_or(u32::MAX);
            let prepared = prepare::<ScorePlan>(context, record, backend, settings.timeout, all).await;
            let question = |asked| ScoreShadow { asked, best: best(totals) };
            let prepared = prepared.map(|shadow| shadow.map(|(call, asked)| (call, question(asked))));
            self.spawn(backend, record, prepared);
        }
    }

    /// Calls a backend in shadow mode in a separate task, which outlives the call. Unavailability is recorded as well.
    pub(super) fn spawn<Q: ShadowQuestion>(
        &self,
        backend: &Arc<Backend>,
        record: &CallRecord,
        prepared: Prepared<Q>,
    ) {
        match prepared {
            Ok(None) => {}
            Ok(Some((call, question))) => self.spawn_counted(|observer| async move {
                let mut attempt = call.record.start_attempt();
                attempt.set_requested(call.nodes.count as usize);
                let answer = question.ask(&call, &mut attempt.rpcs).await;
                observer.settle_beside(Q::VERB, &call.record.with_shadow_outcome(answer, attempt));
            }),
            Err(failure) => {
                let record = record.of_shadow(BackendOutcome::new(&backend.settings, OnFailure::Ignore));
                self.spawn_counted(|observer| async move {
                    let attempt = record.start_attempt();
                    observer.settle_beside(Q::VERB, &record.with_shadow_outcome(Err(failure), attempt));
                });
            }
        }
    }

    /// Runs this in the background, detached from the call. A panic is counted.
    fn spawn_counted<F>(&self, work: impl FnOnce(Arc<Observer>) -> F)
    where
        F: Future<Output = ()> + Send + 'static,
    {
        let (metrics, work) = (Arc::clone(&self.metrics), work(Arc::clone(&self.observer)));
        self.observer.beside(async move {
            if AssertUnwindSafe(work).catch_unwind().await.is_err() {
                metrics.panicked();
            }
        });
    }

    /// The interested backends in shadow mode.
    pub(super) fn shadows(&self, pod: &ObjectPod<'_>) -> impl Iterator<Item = &Arc<Backend>> {
        self.interested(pod).filter(|backend| backend.settings.mode == Mode::Shadow)
    }
}

/// The request for the nodes that have rows, and their positions, unless there are none, or why the backend is
/// unavailable. Waits for no node.
async fn prepare<P: Plan>(
    context: &mut CallContext<'_>,
    record: &CallRecord,
    backend: &Arc<Backend>,
    within: Duration,
    nodes: impl Iterator<Item = u32>,
) -> Prepared<Vec<u32>> {
    let place = backend.shadow_call()?;
    context.decided();
    // Nodes that cannot be parsed cannot be encoded for a backend.
    let Ok(ready) = context.ready::<P>(backend).await else { return Ok(None) };
    let Ready { session, views } = ready?;
    if P::of(&session.info).as_ref().is_ok_and(|plan| plan.common().side_effects) {
        return Ok(None);
    }
    let told = context.nodes(views);
    let asked: Vec<u32> = nodes.filter(|node| told.unknown.binary_search(node).is_err()).collect();
    if asked.is_empty() {
        return Ok(None);
    }
    let lines = told.lines(&Asked::Some(asked.clone()));
    let call = ShadowCall {
        backend: Arc::clone(backend),
        session,
        record: record.of_shadow(BackendOutcome::new(&backend.settings, OnFailure::Ignore)),
        pod: context.pod(views).clone(),
        nodes: told.part(&lines),
        within,
        _place: place,
    };
    Ok(Some((call, asked)))
}

impl ShadowCall {
    fn question(&self) -> Question<'_> {
        let (call, pod, nodes) = (&self.record.id, &self.pod, &self.nodes);
        Question { call, purpose: Purpose::Shadow, pod, nodes, scores: ScoresWanted::Unwanted }
    }

    pub(super) fn attempt<'r>(&self, rpcs: &'r mut Rpcs) -> Attempt<'r> {
        Attempt { timeout: self.within, rpcs }
    }
}

impl ShadowQuestion for FilterShadow {
    const VERB: Verb = Verb::Filter;

    async fn ask(self, call: &ShadowCall, rpcs: &mut Rpcs) -> Result<(Agreement, Outcome), BackendFailure> {
        let answer = call.backend.filter(&call.session, call.question(), call.attempt(rpcs)).await?;
        let refusals = answer.inline()?.refusals;
        let opinion = opinion_on_nodes(&refusals);
        Ok((opinion, Outcome::Filtered(Heard { nodes: Asked::Some(self.asked), refusals })))
    }
}

impl ShadowQuestion for ScoreShadow {
    const VERB: Verb = Verb::Prioritize;

    async fn ask(self, call: &ShadowCall, rpcs: &mut Rpcs) -> Result<(Agreement, Outcome), BackendFailure> {
        let answer = call.backend.score(&call.session, call.question(), call.attempt(rpcs)).await?;
        let scores = answer.inline()?;
        let ScorePlan { range, normalization, .. } =
            call.session.info.score.as_ref().map_err(Clone::clone)?;
        let (range, normalization) = (*range, *normalization);
        let weight = call.backend.settings.score.as_ref().map_or(1, |score| score.weight.value());
        let mut ballot = Ballot { weight, normalization, range, nodes: Some(self.asked), scores };
        let outside = range.clamp(&mut ballot.scores);
        Ok((opinion_on_scores(&ballot, &self.best), Outcome::Scored(ballot, outside)))
    }
}

/// The nodes with the largest total; all nodes if none has one.
fn best(totals: &[Option<i64>]) -> Vec<bool> {
    let largest = totals.iter().flatten().max();
    totals.iter().map(|total| largest.is_none() || total.as_ref() == largest).collect()
}

fn opinion_on_nodes(refusals: &[Refusal]) -> Agreement {
    let refused = refusals.iter().any(|refusal| !refusal.positions.is_empty());
    if refused { Agreement::Disagrees } else { Agreement::Agrees }
}

fn opinion_on_scores(ballot: &Ballot, best: &[bool]) -> Agreement {
    let worth = score::normalized(ballot);
    let worths = || ballot.scores.iter().map(|score| worth(*score));
    let most = worths().fold(f64::NEG_INFINITY, f64::max);
    let is_favourite = |(_, worth): &(&u32, f64)| worth.total_cmp(&most).is_eq();
    let nodes = ballot.nodes.as_deref().unwrap_or_default();
    let mut favourites = nodes.iter().zip(worths()).filter(is_favourite);
    if favourites.any(|(node, _)| best[*node as usize]) { Agreement::Agrees } else { Agreement::Disagrees }
}

#[cfg(test)]
mod tests {
    use extender_gateway_core::score::{Direction, Normalization, Range};

    use super::*;

    #[test]
    fn an_opinion_is_formed_on_what_would_count() {
        let opinion = |normalization, scores: &[i32]| {
            let range = Range { least: Some(0), largest: Some(10) };
            let (nodes, mut scores) = (Some(vec![0, 2]), scores.to_vec());
            range.clamp(&mut scores);
            let ballot = Ballot { weight: 3, normalization, range, nodes, scores };
            opinion_on_scores(&ballot, &[false, true, true])
        };
        let (least, largest) = (Direction::LeastIsBest, Direction::LargestIsBest);
        assert_eq!(opinion(Normalization::None, &[4, 5]), Agreement::Agrees);
        assert_eq!(opinion(Normalization::None, &[5, 4]), Agreement::Disagrees);
        assert_eq!(opinion(Normalization::None, &[50, 20]), Agreement::Agrees, "both are clamped to 10");
        assert_eq!(opinion(Normalization::MinMax(least), &[5, 4]), Agreement::Agrees);
        assert_eq!(opinion(Normalization::MinMax(least), &[4, 5]), Agreement::Disagrees);
        assert_eq!(
            opinion(Normalization::Max(largest), &[-1, -5]),
            Agreement::Agrees,
            "nothing is worth anything"
        );
    }
}
