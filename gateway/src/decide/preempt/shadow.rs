//! Backends in shadow that preempt: what they would change of what is left.

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
    PreemptCall, Step,
    encoded::EncodedVictims,
    victims,
};
use crate::{
    account::{Account, Exchanges, Opinion, Part, Policy, Said},
    backend::{preempt::Question, question::pod_field},
    config::{AddedVictims, PreemptSettings},
};

/// What would it change of the candidates that are left?
struct PreemptShadow {
    told: EncodedVictims,
    settings: PreemptSettings,
}

impl Decider {
    /// Asks the shadows that preempt about the candidates that are left, as if they came last: to change
    /// something is to disagree.
    pub(super) async fn shadow_preempt(&self, call: PreemptCall<'_>, account: &Account, left: &[Candidate]) {
        for backend in self.shadows(call.pod) {
            let Some(settings) = &backend.settings.preempt else { continue };
            let step = Step { call, backend, settings, until: Instant::now() };
            let prepared = self.prepare(step, account, left).await;
            self.spawn(backend, account, prepared);
        }
    }

    /// The question, unless there is nothing to ask about, or why it cannot be asked. Waits for no node.
    async fn prepare(
        &self,
        step: Step<'_>,
        account: &Account,
        left: &[Candidate],
    ) -> Prepared<PreemptShadow> {
        let Step { call, backend, settings, until } = step;
        let link = backend.link()?;
        if link.info.preempt.as_ref().is_ok_and(|plan| plan.side_effects) {
            return Ok(None);
        }
        let mut told = self.tell(call, until, &link, left).await?;
        let Some(nodes) = told.nodes.take() else { return Ok(None) };
        let pod = pod_field(call.pod, &link.info.pod, &call.request.pod());
        let account = account.beside(Part::new(backend, Policy::Ignore));
        let (backend, within) = (Arc::clone(backend), settings.timeout);
        let call = ShadowCall { backend, link, account, pod, nodes, within };
        Ok(Some((call, PreemptShadow { told, settings: settings.clone() })))
    }
}

impl ShadowQuestion for PreemptShadow {
    const VERB: Verb = Verb::Preempt;

    async fn ask(self, call: &ShadowCall, record: &mut Exchanges) -> Result<(Opinion, Said), BackendFailure> {
        let ShadowCall { backend, link, account, pod, nodes, within } = call;
        let (purpose, candidates) = (Purpose::Shadow, &self.told.messages);
        let question = Question { call: &account.id, purpose, pod, nodes, candidates };
        let answer = backend.preempt(link, question, (*within, record)).await;
        self.opinion(answer)
    }
}

impl PreemptShadow {
    fn opinion(&self, answer: Result<Vec<Kept>, BackendFailure>) -> Result<(Opinion, Said), BackendFailure> {
        let added = match self.settings.added_victims {
            AddedVictims::Refused => Added::Refused,
            // Nobody is evicted for it: to name one more is to disagree, whoever it is.
            AddedVictims::Allowed => Added::Checked(&|_, _| Ok(())),
        };
        let asked = &self.told.candidates;
        let mut chain = Chain::begin(asked.clone());
        match chain.take(asked, answer, Terms { policy: self.settings.failure_policy, added }) {
            Taken::Counted => {
                let opinion = if chain.left() == asked { Opinion::Agrees } else { Opinion::Disagrees };
                Ok((opinion, Said::Kept(victims(chain.left()))))
            }
            Taken::Skipped(failure) | Taken::Failed(failure) => Err(failure),
        }
    }
}
