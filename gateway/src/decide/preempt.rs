//! Decides a preempt call: interested backends are called one after the other, each for the candidates that the
//! earlier ones left.
//!
//! A backend that needs facts about nodes is not called for a node that the table still does not know after the
//! wait for unknown nodes. If its answer counts, that node is no longer a candidate, under either failure policy,
//! since the backend's verdict on it is unknown.
//! patience for such nodes. If its answer counts, that node is no longer a candidate, under
//! either failure policy, since the backend's verdict on it is unknown.

mod encoded;
mod shadow;

use std::sync::Arc;

use extender_gateway_core::{
    BackendFailure, Verb,
    preempt::{Added, Candidate, Chain, Kept, Taken, Terms},
};
use extender_policy_api::v1alpha1::Purpose;
use tokio::time::Instant;

use self::encoded::EncodedVictims;
use super::{CallError, Decider, failures::Failed};
use crate::{
    backend::{Attempt, Backend},
    cluster::pods::PodTable,
    config::{AddedVictims, PreemptSettings},
    contract::{pod::pod_field, preempt::PreemptQuestion},
    object::pod::ObjectPod,
    record::{BackendAttempt, BackendOutcome, CallRecord, Outcome},
    wire::PreemptRequest,
};

/// A preempt call as received by `door`.
#[derive(Debug, Clone, Copy)]
pub struct PreemptCall<'c> {
    /// The request.
    pub request: &'c PreemptRequest,
    /// The pod that needs room.
    pub pod: &'c ObjectPod<'c>,
    /// When it was received; the decision's budget starts here.
    pub began: Instant,
}

/// One backend of a preempt call.
#[derive(Clone, Copy)]
struct PreemptStep<'s> {
    call: PreemptCall<'s>,
    backend: &'s Arc<Backend>,
    settings: &'s PreemptSettings,
    /// Until when the call waits for unknown nodes.
    until: Instant,
}

/// The effect of a backend's answer.
struct Asked {
    told: EncodedVictims,
    kept: Result<Vec<Kept>, BackendFailure>,
}

impl Decider {
    /// The candidates that all backends leave, in the request's order.
    ///
    /// # Errors
    /// See [`CallError`].
    pub async fn preempt(
        &self,
        call: PreemptCall<'_>,
        record: &mut CallRecord,
    ) -> Result<Vec<Candidate>, CallError> {
        let mut chain = Chain::begin(call.request.candidates());
        let until = self.unknown_nodes_deadline(call.began);
        let mut unknown = 0;
        for (backend, settings) in self.asked(call.pod, |backend| backend.preempt.as_ref()) {
            if chain.left().is_empty() {
                break;
            }
            let step = PreemptStep { call, backend, settings, until };
            unknown += self.step(step, record, &mut chain).await?;
        }
        if chain.left().is_empty() && unknown > 0 {
            return Err(CallError::NotYetKnown { nodes: unknown });
        }
        self.shadow_preempt(call, record, chain.left()).await;
        record.left = Some(u32::try_from(chain.left().len()).unwrap_or(u32::MAX));
        Ok(chain.into_left())
    }

    /// Calls one backend and applies its answer. Returns how many candidates were dropped because their nodes are
    /// unknown.
    async fn step(
        &self,
        step: PreemptStep<'_>,
        record: &mut CallRecord,
        chain: &mut Chain,
    ) -> Result<u32, CallError> {
        let PreemptStep { call, backend, settings, .. } = step;
        let at = record.backends.len();
        record.backends.push(BackendOutcome::new(&backend.settings, settings.failure_policy.into()));
        let mut attempt = record.recorder.start_attempt(at, record.trace);
        let asked = self.ask(step, &record.id, chain.left(), &mut attempt).await;
        let asked =
            asked.unwrap_or_else(|failure| Asked { told: EncodedVictims::default(), kept: Err(failure) });
        let check = |node, uid: &str| addable(self.known.pods.as_deref(), call, (node, uid));
        let added = match settings.added_victims {
            AddedVictims::Refused => Added::Refused,
            AddedVictims::Allowed => Added::Checked(&check),
        };
        let terms = Terms { policy: settings.failure_policy, added };
        let Asked { told, kept } = asked;
        let unknown = u32::try_from(told.unknown.len()).unwrap_or(u32::MAX);
        if kept.is_ok() {
            let part = &mut record.backends[at];
            (part.unknown, part.deleted, part.oversize) = (told.unknown, told.deleted, told.oversize);
        }
        let taken = chain.take(&told.candidates, kept, terms);
        let failure = match &taken {
            Taken::Skipped(failure) | Taken::Failed(failure) => Some(failure),
            Taken::Counted => None,
        };
        attempt.finish(&failure.map_or(Ok(()), |failure| Err(failure.clone())));
        let part = &mut record.backends[at];
        part.outcome = match failure {
            None => Outcome::Candidates(victims(chain.left())),
            Some(failure) => {
                let (policy, trace) = (part.policy, record.trace);
                let failed = Failed { verb: Verb::Preempt, policy, pod: call.pod, trace };
                self.failures.record(&backend.settings, failure, failed);
                Outcome::Failed(failure.clone())
            }
        };
        match taken {
            Taken::Counted => {
                self.metrics.unknown_nodes(u64::from(unknown));
                Ok(unknown)
            }
            Taken::Skipped(_) => Ok(0),
            Taken::Failed(failure) => {
                let name = backend.settings.name.to_string();
                Err(CallError::Backend { name, verb: Verb::Preempt, failure })
            }
        }
    }

    /// # Errors
    /// The backend cannot be called.
    async fn ask(
        &self,
        step: PreemptStep<'_>,
        id: &str,
        left: &[Candidate],
        attempt: &mut BackendAttempt,
    ) -> Result<Asked, BackendFailure> {
        let PreemptStep { call, backend, settings, until } = step;
        let session = backend.session()?;
        let told = self.tell(call, until, &session, left).await?;
        let Some(nodes) = &told.nodes else {
            return Ok(Asked { told, kept: Ok(Vec::new()) });
        };
        let pod = pod_field(call.pod, &session.info.pod, &call.request.pod());
        attempt.set_requested(told.candidates.len());
        let purpose = Purpose::Decide;
        let question = PreemptQuestion { call: id, purpose, pod: &pod, nodes, candidates: &told.messages };
        let deadline = call.began + self.timeouts.decision;
        let timeout = settings.timeout.min(deadline.duration_since(Instant::now()));
        let attempt = Attempt { timeout, rpcs: &mut attempt.rpcs };
        let kept = backend.preempt(&session, question, attempt).await;
        Ok(Asked { told, kept })
    }
}

/// The number of victims on each remaining node.
fn victims(left: &[Candidate]) -> Vec<(u32, u32)> {
    let count = |candidate: &Candidate| u32::try_from(candidate.victims.len()).unwrap_or(u32::MAX);
    left.iter().map(|candidate| (candidate.node, count(candidate))).collect()
}

/// Checks a victim that a backend adds. kube-scheduler only checks that the pod is on the node: it would even evict
/// a pod of higher priority.
fn addable(pods: Option<&PodTable>, call: PreemptCall<'_>, (node, uid): (u32, &str)) -> Result<(), String> {
    let node = call.request.name(node);
    let Some(victim) = pods.and_then(|pods| pods.get(uid)) else {
        return Err("no such pod is known".to_owned());
    };
    if victim.node != node {
        return Err(format!("it is not on node {node}"));
    }
    let priority = call.pod.priority();
    if victim.priority >= priority {
        return Err(format!("its priority {} is not lower than the pod's, {priority}", victim.priority));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
