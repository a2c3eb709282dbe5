//! Counts a pod on its node before it is bound.
//!
//! kube-scheduler filters nodes for the next pod before it calls bind for the previous one, so two pods can both have
//! seen room for one. Therefore the backends that have pods counted are asked once more when a pod is bound, about its
//! node alone. From this answer on the pod counts, and only one pod at a time is in between. Mirrors the Reserve
//! extension point of kube-scheduler.

use bytes::Bytes;
use extender_gateway_core::{
    Assignment,
    filter::{Rejected, Verdict},
};
use tokio::time::{Instant, timeout_at};

use super::{Call, CallError, Decider, ask::Participant, call_context::CallContext};
use crate::{
    backend::Backend,
    cluster::pods::PodTable,
    object,
    record::{CallRecord, Outcome},
    wire::Request,
};

/// A pod that counts on its node although it is not bound yet. When this is dropped, it no longer does, unless it was
/// bound.
#[derive(Debug)]
pub(super) struct Reservation<'d> {
    /// `None` once the pod is bound.
    pods: Option<&'d PodTable>,
    uid: &'d str,
}

impl Reservation<'_> {
    /// The pod is bound: it counts until the watch of pods says otherwise.
    pub(super) fn keep(mut self) {
        self.pods = None;
    }
}

impl Drop for Reservation<'_> {
    fn drop(&mut self) {
        if let Some(pods) = self.pods {
            pods.forget(self.uid);
        }
    }
}

impl Decider {
    /// The pods, if some are counted. If not, nothing is reserved.
    pub(super) fn counted_pods(&self) -> Option<&PodTable> {
        self.settings.tables.pods.as_deref().filter(|pods| pods.is_counting())
    }

    /// Asks the backends that have pods counted whether the pod still fits the node, and counts it there.
    ///
    /// # Errors
    /// It no longer fits, the answer is unknown, or other pods took until this instant.
    pub(super) async fn reserve<'d>(
        &'d self,
        pods: &'d PodTable,
        (assignment, json): (&'d Assignment, &Bytes),
        until: Instant,
        record: &mut CallRecord,
    ) -> Result<Reservation<'d>, CallError> {
        let Ok(_one_at_a_time) = timeout_at(until, pods.reserving.lock()).await else {
            return Err(CallError::NoLongerFits("too many pods are bound at the same time".to_owned()));
        };
        let tables = &self.settings.tables;
        // What the watch has just reported.
        pods.pass_on(tables.node_tables());
        let asked = self.ask_again((assignment, json), until, record).await;
        for part in &mut record.backends {
            if let Outcome::Filtered(heard) = &part.outcome {
                let text =
                    if heard.refusals.is_empty() { "still accepts the node" } else { "rejects the node" };
                part.outcome = Outcome::Bound(text.to_owned());
            }
        }
        asked?;
        pods.assume(json, &assignment.node)?;
        pods.pass_on(tables.node_tables());
        Ok(Reservation { pods: Some(pods), uid: &assignment.uid })
    }

    async fn ask_again(
        &self,
        (assignment, json): (&Assignment, &Bytes),
        until: Instant,
        record: &mut CallRecord,
    ) -> Result<(), CallError> {
        // Without a table, the facts about nodes come with filter calls only.
        if self.settings.tables.table.is_none() {
            return Ok(());
        }
        let request = Request::about(json, &assignment.node)?;
        let pod = object::pod::parse(json)?;
        let call = Call { request: &request, pod: &pod, began: Instant::now() };
        let mut context = CallContext::new(self, call, record);
        context.deadline = context.deadline.min(until);
        let (participants, seats) = self.participants(&mut context, may_count_pods, record).await?;
        let (verdict, _) = self.fold(&context, &participants, seats, record).await;
        self.check(&participants, verdict)
    }

    fn check(&self, participants: &[Participant<'_>], verdict: Verdict) -> Result<(), CallError> {
        match verdict {
            Verdict::Decided(Rejected { groups, .. }) => match groups.first() {
                None => Ok(()),
                Some(group) => Err(CallError::NoLongerFits(self.reason(participants, group).text)),
            },
            Verdict::Failed { seat, failure } => {
                let backend = &participants[seat].backend.settings;
                Err(CallError::backend(backend, extender_gateway_core::Verb::Filter, failure))
            }
            Verdict::NotYetKnown { nodes } => Err(CallError::NotYetKnown(nodes)),
        }
    }
}

/// Whether the backend's filter has pods counted, or may have: of one that is unavailable this is not known, and its
/// failure policy applies, as it does in filter.
fn may_count_pods(backend: &Backend) -> bool {
    let Ok(session) = backend.session() else { return true };
    session.info.filter.as_ref().map_or(true, |plan| plan.common.counts_pods())
}
