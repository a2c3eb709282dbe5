//! Backends in shadow mode that preempt: what they would change of the result.

use std::sync::Arc;

use extender_gateway_core::{
    BackendFailure, Verb,
    preempt::{Added, Candidate, Chain, Kept, Taken, Terms},
};
use extender_policy_api::v1alpha1::Purpose;
use tokio::time::Instant;

use super::{
    super::{
        Decider,
        shadow::{Prepared, ShadowCall, ShadowQuestion},
    },
    PreemptCall, PreemptStep,
    encoded::EncodedVictims,
    victims,
};
use crate::{
    config::{AddedVictims, PreemptSettings},
    contract::{pod::pod_field, preempt::PreemptQuestion},
    record::{Agreement, BackendOutcome, CallRecord, OnFailure, Outcome, Rpcs},
};

/// Which of the remaining candidates would it change?
struct PreemptShadow {
    told: EncodedVictims,
    settings: PreemptSettings,
}

impl Decider {
    /// Calls the shadow backends that preempt for the remaining candidates, as if they came last: any change is a
    /// disagreement.
    pub(super) async fn shadow_preempt(
        &self,
        call: PreemptCall<'_>,
        record: &CallRecord,
        left: &[Candidate],
    ) {
        for backend in self.shadows(call.pod) {
            let Some(settings) = &backend.settings.preempt else { continue };
            let step = PreemptStep { call, backend, settings, until: Instant::now() };
            let prepared = self.prepare(step, record, left).await;
            self.spawn(backend, record, prepared);
        }
    }

    /// The request, if there are candidates, or why the backend is unavailable. Waits for no node.
    async fn prepare(
        &self,
        step: PreemptStep<'_>,
        record: &CallRecord,
        left: &[Candidate],
    ) -> Prepared<PreemptShadow> {
        let PreemptStep { call, backend, settings, until } = step;
        let place = backend.shadow_call()?;
        let session = backend.session()?;
        if session.info.preempt.as_ref().is_ok_and(|plan| plan.side_effects) {
            return Ok(None);
        }
        let mut told = self.tell(call, until, &session, left).await?;
        let Some(nodes) = told.nodes.take() else { return Ok(None) };
        let pod = pod_field(call.pod, &session.info.pod, &call.request.pod());
        let record = record.of_shadow(BackendOutcome::new(&backend.settings, OnFailure::Ignore));
        let (backend, within) = (Arc::clone(backend), settings.timeout);
        let call = ShadowCall { backend, session, record, pod, nodes, within, _place: place };
        Ok(Some((call, PreemptShadow { told, settings: settings.clone() })))
    }
}

impl ShadowQuestion for PreemptShadow {
    const VERB: Verb = Verb::Preempt;

    async fn ask(self, call: &ShadowCall, rpcs: &mut Rpcs) -> Result<(Agreement, Outcome), BackendFailure> {
        let ShadowCall { backend, session, record, pod, nodes, .. } = call;
        let (purpose, candidates) = (Purpose::Shadow, &self.told.messages);
        let question = PreemptQuestion { call: &record.id, purpose, pod, nodes, candidates };
        let answer = backend.preempt(session, question, call.attempt(rpcs)).await;
        self.opinion(answer)
    }
}

impl PreemptShadow {
    fn opinion(
        &self,
        answer: Result<Vec<Kept>, BackendFailure>,
    ) -> Result<(Agreement, Outcome), BackendFailure> {
        let added = match self.settings.added_victims {
            AddedVictims::Refused => Added::Refused,
            // Its victims are not evicted: any added victim is a disagreement.
            AddedVictims::Allowed => Added::Checked(&|_, _| Ok(())),
        };
        let asked = &self.told.candidates;
        let mut chain = Chain::begin(asked.clone());
        match chain.take(asked, answer, Terms { policy: self.settings.failure_policy, added }) {
            Taken::Counted => {
                let opinion = if chain.left() == asked { Agreement::Agrees } else { Agreement::Disagrees };
                Ok((opinion, Outcome::Candidates(victims(chain.left()))))
            }
            Taken::Skipped(failure) | Taken::Failed(failure) => Err(failure),
        }
    }
}
