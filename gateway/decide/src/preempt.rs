//! Decides a preempt call: interested backends are called one after the other, each for the candidates that the
//! earlier ones left.
//!
//! A backend that needs facts about nodes is not called for a node that the table still does not know after the
//! wait for unknown nodes. If its answer counts, that node is no longer a candidate, under either failure policy,
//! since the backend's verdict on it is unknown.

pub(super) mod encoded;

use std::sync::Arc;

use extender_gateway_backend::{Backend, endpoints::Caller};
use extender_gateway_cluster::pods::PodTable;
use extender_gateway_contract::{preempt::PreemptQuestion, question::CallFields};
use extender_gateway_core::{
    BackendFailure, PolicyVerb,
    preempt::{Added, Candidate, Chain, Kept, Taken, Terms},
};
use extender_gateway_object::pod::ObjectPod;
use extender_gateway_pace::fair_queue::Flow;
use extender_gateway_record::{CallRecord, OpenAttempt, Outcome};
use extender_gateway_settings::{AddedVictims, PreemptSettings};
use extender_gateway_wire::PreemptRequest;
use tokio::time::Instant;

use self::encoded::EncodedVictims;
use super::{CallError, Decider, asker::Asker};

/// A preempt call as received by `door`.
#[derive(Debug, Clone, Copy)]
pub struct PreemptCall<'c> {
    /// The request.
    pub request: &'c Arc<PreemptRequest>,
    /// The pod that needs room.
    pub pod: &'c ObjectPod<'c>,
    /// When it was received; the decision's budget starts here.
    pub began: Instant,
    /// Whose calls it is queued with.
    pub flow: Flow,
}

/// What one backend is asked in a call.
#[derive(Clone, Copy)]
struct PreemptStep<'c> {
    backend: &'c Backend,
    settings: &'c PreemptSettings,
    /// Until when the call waits for unknown nodes.
    wait_until: Instant,
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
    ) -> Result<Arc<Vec<Candidate>>, CallError> {
        let mut chain = Chain::begin(call.request.candidates());
        let wait_until = self.settings.unknown_nodes_deadline(call.began);
        let mut unknown = 0;
        for (backend, settings) in self.asked(call.pod, |backend| backend.preempt.as_ref()) {
            if chain.left().is_empty() {
                break;
            }
            unknown +=
                self.step(call, PreemptStep { backend, settings, wait_until }, record, &mut chain).await?;
        }
        if chain.left().is_empty() && unknown > 0 {
            return Err(CallError::NotYetKnown(unknown));
        }
        record.left = Some(u32::try_from(chain.left().len()).unwrap_or(u32::MAX));
        let left = Arc::new(chain.into_left());
        self.shadow_preempt(call, record, &left);
        Ok(left)
    }

    /// Calls one backend and applies its answer. Returns how many candidates were dropped because their nodes are
    /// unknown.
    async fn step(
        &self,
        call: PreemptCall<'_>,
        step: PreemptStep<'_>,
        record: &mut CallRecord,
        chain: &mut Chain,
    ) -> Result<u32, CallError> {
        let PreemptStep { backend, settings, .. } = step;
        let at = record.add_part(&backend.settings, PolicyVerb::Preempt, settings.failure_policy);
        let mut attempt = record.recorder.start_attempt(at, record.trace);
        let (encoded, kept) = self.ask(call, step, &record.id, chain.left(), &mut attempt).await.map_or_else(
            |failure| (EncodedVictims::default(), Err(failure)),
            |(encoded, kept)| (encoded, Ok(kept)),
        );
        let unknown = u32::try_from(encoded.not_sent.unknown.len()).unwrap_or(u32::MAX);
        record.backends[at].not_sent = encoded.not_sent;
        let check = |node, uid: &str| addable(self.settings.tables.pods.as_deref(), call, node, uid);
        let added = match settings.added_victims {
            AddedVictims::Refused => Added::Refused,
            AddedVictims::Allowed => Added::Checked(&check),
        };
        let taken = chain.take(&encoded.candidates, kept, Terms { policy: settings.failure_policy, added });
        match &taken {
            Taken::Counted => {
                attempt.finish(&Ok(()));
                record.backends[at].outcome = Outcome::candidates(chain.left());
                self.metrics().process().unknown_nodes.inc_by(u64::from(unknown));
            }
            Taken::Skipped(failure) | Taken::Failed(failure) => {
                attempt.finish(&Err::<(), _>(failure.clone()));
                self.record_failure(PolicyVerb::Preempt, failure, record, at);
            }
        }
        match taken {
            Taken::Counted => Ok(unknown),
            Taken::Skipped(_) => Ok(0),
            Taken::Failed(failure) => {
                Err(CallError::backend(&backend.settings, PolicyVerb::Preempt, failure))
            }
        }
    }

    /// The candidates that a backend is called for, and its answer.
    ///
    /// # Errors
    /// There is no answer.
    async fn ask(
        &self,
        call: PreemptCall<'_>,
        step: PreemptStep<'_>,
        id: &str,
        left: &[Candidate],
        attempt: &mut OpenAttempt,
    ) -> Result<(EncodedVictims, Vec<Kept>), BackendFailure> {
        let PreemptStep { backend, settings, wait_until } = step;
        let asker = Asker {
            backend,
            caller: Caller { verb: PolicyVerb::Preempt, pod: call.pod.uid() },
            flow: call.flow,
            purpose: self.settings.purpose.of_calls(),
            timeout: settings.timeout,
            deadline: Some(call.began + self.settings.timeouts.decision),
        };
        let mut session = asker.session()?;
        let mut encoded = self.settings.encode_victims(call, wait_until, &session, left).await?;
        let mut tries = asker.begin(&session, attempt)?;
        loop {
            let Some(nodes) = &encoded.nodes else { return Ok((encoded, Vec::new())) };
            tries.attempt.set_requested(encoded.candidates.len());
            let purpose = self.settings.purpose.of_calls();
            let question = PreemptQuestion {
                call: CallFields { id, purpose, reads: encoded.reads_id, snapshot: 0 },
                pod: &encoded.pod,
                nodes,
                candidates: &encoded.messages,
            };
            match backend.preempt(&session, question, tries.request()).await {
                Ok(kept) => return Ok((encoded, kept)),
                Err(failure) => session = tries.elsewhere(&session, |_| true).ok_or(failure)?,
            }
            encoded = self.settings.encode_victims(call, wait_until, &session, left).await?;
        }
    }
}

/// Checks a victim that a backend adds. kube-scheduler only checks that the pod is on the node: it would even evict
/// a pod of higher priority.
fn addable(pods: Option<&PodTable>, call: PreemptCall<'_>, node: u32, uid: &str) -> Result<(), String> {
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
