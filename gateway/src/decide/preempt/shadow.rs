//! Backends in shadow that preempt: what they would change of what is left.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use extender_gateway_core::{
    BackendFailure,
    preempt::{Added, Candidate, Chain, Kept, Taken, Terms},
};
use extender_policy_api::v1alpha1::Purpose;
use tokio::time::Instant;

use super::{super::Decider, PreemptCall, told::Told, victims};
use crate::{
    account::{Account, Exchanges, Opinion, Part, Policy, Said},
    backend::{
        Backend,
        link::Link,
        preempt::Question,
        question::{Nodes, pod_field},
    },
    config::{AddedVictims, PreemptSettings},
};

/// A question that is put beside the decision.
struct Aside {
    backend: Arc<Backend>,
    link: Arc<Link>,
    account: Account,
    pod: Bytes,
    nodes: Nodes,
    told: Told,
    within: Duration,
}

impl Decider {
    /// Asks the shadows that preempt about the candidates that are left, as if they came last: to change
    /// something is to disagree.
    pub(super) async fn shadow_preempt(
        &self,
        (call, account): (PreemptCall<'_>, &Account),
        left: &[Candidate],
    ) {
        for backend in self.shadows(call.pod) {
            let Some(settings) = &backend.settings.preempt else { continue };
            let aside = self.aside_about((call, account), (backend, settings), left).await;
            let Some(aside) = self.to_be_asked("preempt", (backend, account), aside) else { continue };
            let settings = settings.clone();
            self.beside(|observer| async move {
                let mut inquiry = aside.account.inquire();
                inquiry.asks_about(aside.told.candidates.len());
                let answer = aside.ask(&mut inquiry.exchanges).await;
                let said = aside.opinion(answer, &settings);
                observer.settle_beside("preempt", &aside.account.with(said, inquiry));
            });
        }
    }

    /// The question, unless there is nothing to ask about, or why it cannot be put. Waits for no node.
    async fn aside_about(
        &self,
        (call, account): (PreemptCall<'_>, &Account),
        (backend, settings): (&Arc<Backend>, &PreemptSettings),
        left: &[Candidate],
    ) -> Result<Option<Aside>, BackendFailure> {
        let link = backend.link()?;
        if link.info.preempt.as_ref().is_ok_and(|plan| plan.side_effects) {
            return Ok(None);
        }
        let mut told = self.tell((call, Instant::now()), &link, left).await?;
        let Some(nodes) = told.nodes.take() else { return Ok(None) };
        let pod = pod_field(call.pod, &link.info.pod, &call.request.pod());
        let account = account.beside(Part::new(backend, Policy::Ignore));
        let backend = Arc::clone(backend);
        Ok(Some(Aside { backend, link, account, pod, nodes, told, within: settings.timeout }))
    }
}

impl Aside {
    async fn ask(&self, record: &mut Exchanges) -> Result<Vec<Kept>, BackendFailure> {
        let Self { account, pod, nodes, told, .. } = self;
        let question =
            Question { call: &account.id, purpose: Purpose::Shadow, pod, nodes, candidates: &told.messages };
        self.backend.preempt(&self.link, question, (self.within, record)).await
    }

    fn opinion(
        &self,
        answer: Result<Vec<Kept>, BackendFailure>,
        settings: &PreemptSettings,
    ) -> Result<(Opinion, Said), BackendFailure> {
        let added = match settings.added_victims {
            AddedVictims::Refused => Added::Refused,
            // Nobody is evicted for it: to name one more is to disagree, whoever it is.
            AddedVictims::Allowed => Added::Checked(&|_, _| Ok(())),
        };
        let asked = &self.told.candidates;
        let mut chain = Chain::begin(asked.clone());
        match chain.take(asked, answer, Terms { policy: settings.failure_policy, added }) {
            Taken::Counted => {
                let opinion = if chain.left() == asked { Opinion::Agrees } else { Opinion::Disagrees };
                Ok((opinion, Said::Kept(victims(chain.left()))))
            }
            Taken::Skipped(failure) | Taken::Failed(failure) => Err(failure),
        }
    }
}
