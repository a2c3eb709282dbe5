//! Backends in shadow mode: called in the background and compared with the decision. No call waits for them, nor for the
//! encoding of what they are sent: that begins after the response.

use std::sync::Arc;

use bytes::Bytes;
use extender_gateway_backend::{Backend, endpoints::Caller, session::Session};
use extender_gateway_contract::{
    api::ReadsId,
    nodes::NodesField,
    preempt::PreemptQuestion,
    question::{CallFields, Question, Wants},
};
use extender_gateway_core::{
    BackendFailure, PolicyVerb,
    filter::{Asked, Heard, Refusal},
    preempt::{Added, Candidate, Chain, Kept, Taken, Terms},
    score::{self, Ballot},
};
use extender_gateway_object::pod::{self, ObjectPod};
use extender_gateway_pace::fair_queue::Flow;
use extender_gateway_record::{Agreement, CallRecord, OpenAttempt, Outcome};
use extender_gateway_settings::{AddedVictims, PreemptSettings};
use extender_policy_api::v1beta1 as api;
use tokio::{sync::OwnedSemaphorePermit, task::yield_now, time::Instant};

use super::{
    Call, CallerNeeds, Decider, DeciderSettings, PreemptCall,
    asker::Asker,
    call_context::{CallContext, Encodings},
    preempt::encoded::EncodedVictims,
    prioritize::{self, Scored},
};

/// A backend in shadow mode that is called after the response of a call.
struct LaterCall {
    backend: Arc<Backend>,
    verb: PolicyVerb,
    record: CallRecord,
    /// Its permit among the concurrent shadow calls to the backend; `None` if it got none, and fails.
    permit: Option<OwnedSemaphorePermit>,
}

/// A decision about nodes that backends in shadow mode are compared with.
pub(super) enum Decided {
    /// The nodes that filter leaves, ascending.
    Left(Vec<u32>),
    /// Which nodes of the call have the best total.
    Best(Arc<[bool]>),
}

/// A call to a backend in shadow mode, for all verbs.
struct ShadowCall {
    session: Arc<Session>,
    pod: Bytes,
    /// The declaration that pod and nodes are encoded with.
    reads_id: ReadsId,
    /// The number of the state of the nodes; 0 without one.
    snapshot: u64,
    nodes: NodesField,
    question: ShadowQuestion,
}

/// What is asked of a backend in shadow mode. Positions are those of nodes in the request, ascending.
enum ShadowQuestion {
    /// Which of the remaining nodes would it reject?
    Filter { nodes: Vec<u32> },
    /// How would it score the nodes? `best` are those of the call that the decision scores best.
    Score { nodes: Vec<u32>, best: Arc<[bool]> },
    /// Which of the remaining candidates would it change? `messages` are the same as they are sent.
    Preempt { candidates: Vec<Candidate>, messages: Vec<api::Candidate>, settings: PreemptSettings },
}

/// A call; `None` if it has no nodes; or why the backend is unavailable.
type Prepared = Result<Option<ShadowCall>, BackendFailure>;

impl Decider {
    /// Calls the backends in shadow mode that filter or score, after the response: as if they came last. Any rejection of
    /// a remaining node is a disagreement, and so is having none of the best nodes among its own best. The request is in
    /// memory until what they are sent is encoded.
    pub(super) fn shadow_nodes(
        &self,
        verb: PolicyVerb,
        call: Call<'_>,
        record: &CallRecord,
        encodings: Encodings,
        decided: impl FnOnce() -> Decided,
    ) {
        let calls = self.later_calls(verb, call.pod, record);
        if calls.is_empty() {
            return;
        }
        let (settings, request, decided) = (Arc::clone(&self.settings), Arc::clone(call.request), decided());
        self.settings.observer.spawn(async move {
            // With HTTP/2 the response is written by the connection's task, which is woken after this one.
            yield_now().await;
            let json = request.pod();
            // The decision has read it.
            let Ok(pod) = pod::offered(&json) else { return };
            let call = Call {
                request: &request,
                pod: &pod,
                began: Instant::now(),
                flow: Flow::Own,
                needs: CallerNeeds::default(),
            };
            let mut context = CallContext::in_shadow(&settings, call, &calls[0].record, encodings);
            for later in calls {
                let prepared = decided.prepare(&mut context, later.verb, &later.backend).await;
                later.spawn(&settings, prepared);
                // Encoding takes long if there are many nodes.
                yield_now().await;
            }
        });
    }

    /// The same for those that preempt: any change of the remaining candidates is a disagreement.
    pub(super) fn shadow_preempt(
        &self,
        call: PreemptCall<'_>,
        record: &CallRecord,
        left: &Arc<Vec<Candidate>>,
    ) {
        let calls = self.later_calls(PolicyVerb::Preempt, call.pod, record);
        if calls.is_empty() {
            return;
        }
        let (settings, request, left) =
            (Arc::clone(&self.settings), Arc::clone(call.request), Arc::clone(left));
        self.settings.observer.spawn(async move {
            yield_now().await;
            let json = request.pod();
            let Ok(pod) = pod::offered(&json) else { return };
            let call = PreemptCall { request: &request, pod: &pod, began: Instant::now(), flow: Flow::Own };
            for later in calls {
                let prepared = victims(&settings, call, &later.backend, &left).await;
                later.spawn(&settings, prepared);
                yield_now().await;
            }
        });
    }

    /// Those that get a permit. The others have failed, and nothing is read or encoded for them.
    fn later_calls(&self, verb: PolicyVerb, pod: &ObjectPod<'_>, record: &CallRecord) -> Vec<LaterCall> {
        let shadows = self.shadows(pod, verb, record);
        let shadows = shadows.filter(|backend| backend.settings.timeouts()[verb].is_some());
        let later = |backend: &Arc<Backend>| {
            let record = record.of_shadow(&backend.settings, verb, self.shadow_reason(backend));
            let later = LaterCall { backend: Arc::clone(backend), verb, record, permit: None };
            match backend.shadow_call() {
                Ok(permit) => Some(LaterCall { permit: Some(permit), ..later }),
                Err(failure) => {
                    later.spawn(&self.settings, Err(failure));
                    None
                }
            }
        };
        shadows.filter_map(later).collect()
    }
}

impl LaterCall {
    /// Calls the backend in a separate task. Unavailability is recorded as well.
    fn spawn(self, settings: &DeciderSettings, prepared: Prepared) {
        let Some(prepared) = prepared.transpose() else { return };
        let observer = Arc::clone(&settings.observer);
        let purpose = settings.purpose.of_shadow_calls();
        settings.observer.spawn(async move {
            let Self { backend, verb, record, permit: _permit } = self;
            let mut attempt = record.recorder.start_attempt(0, record.trace);
            let timeout = backend.settings.timeouts()[verb].unwrap_or_default();
            let answer = match prepared {
                Ok(call) => {
                    let caller = Caller { verb, pod: &record.pod.uid };
                    let (flow, deadline) = (Flow::Own, None);
                    let asker = Asker { backend: &backend, caller, flow, purpose, timeout, deadline };
                    call.ask(&record.id, asker, &mut attempt).await
                }
                Err(failure) => Err(failure),
            };
            observer.record_shadow(verb.of_call(), &record.with_shadow_outcome(answer, attempt));
        });
    }
}

impl Decided {
    /// The call for the nodes that have rows, or why the backend is unavailable. Waits for no node.
    async fn prepare(&self, context: &mut CallContext<'_>, verb: PolicyVerb, backend: &Backend) -> Prepared {
        // Nodes that cannot be parsed cannot be encoded for a backend.
        let Ok(ready) = context.ready(verb, backend).await else { return Ok(None) };
        let ready = ready?;
        if ready.session.info.has_side_effects(verb) {
            return Ok(None);
        }
        let encoded = context.nodes(&ready);
        let has_row = |node: &u32| encoded.unknown.binary_search(node).is_err();
        let nodes: Vec<u32> = match self {
            Self::Left(nodes) => nodes.iter().copied().filter(has_row).collect(),
            Self::Best(best) => (0..).take(best.len()).filter(has_row).collect(),
        };
        if nodes.is_empty() {
            return Ok(None);
        }
        Ok(Some(ShadowCall {
            pod: context.pod(&ready).clone(),
            reads_id: ready.session.info.about_nodes(verb)?.reads_id,
            snapshot: encoded.snapshot,
            nodes: encoded.field(&encoded.slots(&Asked::Some(nodes.clone()))),
            session: ready.session,
            question: match self {
                Self::Left(_) => ShadowQuestion::Filter { nodes },
                Self::Best(best) => ShadowQuestion::Score { nodes, best: Arc::clone(best) },
            },
        }))
    }
}

/// The call, if there are candidates, or why the backend is unavailable. Waits for no node.
async fn victims(
    decider: &DeciderSettings,
    call: PreemptCall<'_>,
    backend: &Backend,
    left: &[Candidate],
) -> Prepared {
    let Some(settings) = &backend.settings.preempt else { return Ok(None) };
    let session = backend.session(Caller { verb: PolicyVerb::Preempt, pod: call.pod.uid() })?;
    if session.info.has_side_effects(PolicyVerb::Preempt) {
        return Ok(None);
    }
    let encoded = decider.encode_victims(call, Instant::now(), &session, left).await?;
    let EncodedVictims { pod, reads_id, candidates, nodes: Some(nodes), messages, .. } = encoded else {
        return Ok(None);
    };
    let question = ShadowQuestion::Preempt { candidates, messages, settings: settings.clone() };
    Ok(Some(ShadowCall { session, pod, reads_id, snapshot: 0, nodes, question }))
}

impl ShadowCall {
    /// Calls the backend and compares its answer with the decision.
    async fn ask(
        self,
        id: &str,
        asker: Asker<'_>,
        attempt: &mut OpenAttempt,
    ) -> Result<(Agreement, Outcome), BackendFailure> {
        let Self { session, pod, reads_id, snapshot, nodes, question } = self;
        attempt.set_requested(nodes.count as usize);
        let (backend, purpose) = (asker.backend, asker.purpose);
        let mut tries = asker.begin(&session, attempt)?;
        let call = CallFields { id, purpose, reads: reads_id, snapshot };
        let request = Question { call, pod: &pod, nodes: &nodes, wants: Wants::Nothing };
        match question {
            ShadowQuestion::Filter { nodes } => {
                let refusals = backend.filter(&session, request, tries.request()).await?.inline()?.refusals;
                let agreement = agreement_on_nodes(&refusals);
                Ok((agreement, Outcome::Filtered(Heard { nodes: Asked::Some(nodes), refusals })))
            }
            ShadowQuestion::Score { nodes, best } => {
                let scores = backend.score(&session, request, tries.request()).await?.inline()?;
                let Scored { ballot, outside, .. } =
                    prioritize::scored(backend, &session, Some(nodes), scores)?;
                Ok((agreement_on_scores(&ballot, &best), Outcome::Scored(ballot, outside)))
            }
            ShadowQuestion::Preempt { candidates, messages, settings } => {
                let request = PreemptQuestion { call, pod: &pod, nodes: &nodes, candidates: &messages };
                let kept = backend.preempt(&session, request, tries.request()).await?;
                agreement_on_victims(&candidates, kept, &settings)
            }
        }
    }
}

/// Compares an answer about these candidates with the decision, which left them.
fn agreement_on_victims(
    candidates: &[Candidate],
    kept: Vec<Kept>,
    settings: &PreemptSettings,
) -> Result<(Agreement, Outcome), BackendFailure> {
    let added = match settings.added_victims {
        AddedVictims::Refused => Added::Refused,
        // Its victims are not evicted: any added victim is a disagreement.
        AddedVictims::Allowed => Added::Checked(&|_, _| Ok(())),
    };
    let mut chain = Chain::begin(candidates.to_vec());
    match chain.take(candidates, Ok(kept), Terms { policy: settings.failure_policy, added }) {
        Taken::Counted => {
            let agreement = if chain.left() == candidates { Agreement::Agrees } else { Agreement::Disagrees };
            Ok((agreement, Outcome::candidates(chain.left())))
        }
        Taken::Skipped(failure) | Taken::Failed(failure) => Err(failure),
    }
}

/// The nodes with the largest total; all nodes if none has one.
pub(super) fn best(totals: &[Option<i64>]) -> Arc<[bool]> {
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
