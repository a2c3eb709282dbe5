//! Counts a pod on its node before it is bound.
//!
//! kube-scheduler filters nodes for the next pod before it calls bind for the previous one, so two pods can both have
//! seen room for one. Therefore the backends whose filter depends on bound pods are asked once more when a pod is bound, about its
//! node alone. From this answer on the pod counts, and only one pod at a time is in between. Mirrors the Reserve
//! extension point of kube-scheduler, and the assumed pods of its cache.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use extender_gateway_backend::{Backend, info::ClusterTables};
use extender_gateway_cluster::{
    binder::{ApiserverError, BindingState},
    head::ObjectHead,
    pods::{AssumptionId, PodTable},
};
use extender_gateway_core::{
    Assignment, PolicyVerb,
    filter::{Rejected, Verdict},
};
use extender_gateway_object::pod::ObjectPod;
use extender_gateway_pace::fair_queue::Flow;
use extender_gateway_record::{BindPart, CallRecord, Outcome};
use extender_gateway_wire::{Names, Request, WireError};
use tokio::{
    runtime::Handle,
    time::{Instant, timeout_at},
};

use super::{
    Call, CallError, CallerNeeds, Decider, ask::Participant, bind::BindEnd, call_context::CallContext,
};

/// How long a pod counts after a Binding with an uncertain end, unless the watch of pods tells the end before: the
/// apiserver ends a request after a minute, and a watch takes much less than the rest.
const UNCERTAIN: Duration = Duration::from_secs(90);

/// A pod that counts on its node although it may not be bound yet.
#[derive(Debug)]
pub struct AssumedPod {
    tables: ClusterTables,
    pods: Arc<PodTable>,
    uid: String,
    /// `None` once the end is known.
    id: Option<AssumptionId>,
}

impl AssumedPod {
    /// Ends it. A bound pod counts until the watch of pods says otherwise, and one whose end is not known for a while.
    pub fn end(mut self, end: BindEnd) {
        match end {
            BindEnd::Bound => self.id = None,
            BindEnd::NotBound => {
                if let Some(id) = self.id.take() {
                    self.pods.forget(&self.uid, id);
                    self.pods.pass_on(self.tables.node_tables());
                }
            }
            // Dropped.
            BindEnd::Uncertain => {}
        }
    }
}

impl Drop for AssumedPod {
    /// The end is uncertain: the answer was lost, or the caller disconnected.
    fn drop(&mut self) {
        let Some(id) = self.id else { return };
        let (tables, pods) = (self.tables.clone(), Arc::clone(&self.pods));
        let uid = std::mem::take(&mut self.uid);
        match Handle::try_current() {
            Ok(runtime) => drop(runtime.spawn(async move {
                pods.forget_later(&uid, id, UNCERTAIN).await;
                pods.pass_on(tables.node_tables());
            })),
            Err(_) => pods.forget(&uid, id),
        }
    }
}

/// A pod that is about to be bound.
pub(super) struct Placement<'p> {
    pub(super) assignment: &'p Assignment,
    pub(super) json: &'p Bytes,
    pub(super) pod: &'p ObjectPod<'p>,
    /// Until when it may wait for other pods.
    pub(super) until: Instant,
    pub(super) flow: Flow,
}

impl Decider {
    /// The pods, if they are counted, or if a backend whose answers count may have them counted.
    pub(super) fn counted_pods(&self) -> Option<&Arc<PodTable>> {
        let pods = self.settings.tables.pods.as_ref()?;
        (pods.is_counting() || self.has_limits()).then_some(pods)
    }

    /// Whether a filter whose answers count depends on bound pods, or may do so.
    pub(super) fn has_limits(&self) -> bool {
        let enforces = |backend: &Backend| backend.settings.filter.is_some() && self.may_enforce(backend);
        self.backends.iter().any(|backend| enforces(backend) && backend.may_depend_on_pods())
    }

    /// Counts a pod on its node, after the backends that depend on bound pods have accepted it there once more. `None` if
    /// the watch of pods already has it on a node.
    ///
    /// # Errors
    /// It no longer fits, the answer is unknown, or other pods took until this instant.
    pub(super) async fn reserve(
        &self,
        pods: &Arc<PodTable>,
        placement: Placement<'_>,
        record: &mut CallRecord,
    ) -> Result<Option<AssumedPod>, CallError> {
        let Placement { assignment, json, pod, until, flow } = placement;
        let tables = &self.settings.tables;
        let names = Arc::new(Names::of(&[&assignment.node]));
        let request = Request::about(json.clone(), names).map_err(|error| unreadable(&error))?;
        let request = Arc::new(request);
        let concerns = |backend: &Backend| self.asks_again(backend);
        let mut asked = self.asked(pod, |backend| backend.filter.as_ref());
        let _one_at_a_time = if asked.any(|(backend, _)| concerns(backend)) {
            let Ok(turn) = timeout_at(until, pods.reserving.lock()).await else {
                return Err(CallError::NoLongerFits("backends were still asked about other pods".to_owned()));
            };
            // kube-scheduler's plugin has told that it counts: it takes no room from itself.
            let _counts = pods.looking_for_assumed();
            // What the watch has just reported.
            pods.pass_on(tables.node_tables());
            let call =
                Call { request: &request, pod, began: Instant::now(), flow, needs: CallerNeeds::default() };
            let answer = self.ask_again(call, until, record).await;
            tell_of_bind(record);
            answer?;
            Some(turn)
        } else {
            None
        };
        Ok(self.assumed(pods, pod, &assignment.node))
    }

    /// Counts a pod, of this JSON, on the node that kube-scheduler has chosen for it. `None` if no pods are counted, if the watch
    /// of pods already has it on a node, or if it is gone: nothing would end that.
    pub fn assume(&self, json: &[u8], pod: &ObjectPod<'_>, node: &str) -> Option<AssumedPod> {
        let pods = self.counted_pods()?;
        let version = ObjectHead::of(json).resource_version.parse();
        // First, or it could come in between.
        let has_reached = version.is_ok_and(|version| pods.source_health.has_reached(version));
        let is_gone = has_reached && pods.get(pod.uid()).is_none();
        if is_gone || !pod.node_name().is_empty() { None } else { self.assumed(pods, pod, node) }
    }

    fn assumed(&self, pods: &Arc<PodTable>, pod: &ObjectPod<'_>, node: &str) -> Option<AssumedPod> {
        let tables = self.settings.tables.clone();
        let assumption = pods.assume(pod, node);
        pods.pass_on(tables.node_tables());
        let (pods, uid) = (Arc::clone(pods), pod.uid().to_owned());
        assumption.map(|id| AssumedPod { tables, pods, uid, id: Some(id) })
    }

    /// Whether the filter of a backend is asked again: it depends on bound pods, and can be called twice. Without a node
    /// table, the facts about nodes come with filter calls only.
    fn asks_again(&self, backend: &Backend) -> bool {
        let side_effects =
            backend.any_session().is_ok_and(|session| session.info.has_side_effects(PolicyVerb::Filter));
        self.settings.tables.table.is_some() && backend.may_depend_on_pods() && !side_effects
    }

    async fn ask_again(
        &self,
        call: Call<'_>,
        until: Instant,
        record: &mut CallRecord,
    ) -> Result<(), CallError> {
        let mut context = CallContext::new(&self.settings, call, record);
        context.deadline = context.deadline.min(until);
        self.before_filter(&mut context, record).await?;
        let select = |backend: &Backend| self.asks_again(backend);
        let (participants, seats) = self.participants(&mut context, select, record).await?;
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
                Err(CallError::backend(&participants[seat].backend.settings, PolicyVerb::Filter, failure))
            }
            Verdict::NotYetKnown { .. } => {
                Err(CallError::NoLongerFits("the node is not yet known to the gateway".to_owned()))
            }
        }
    }
}

/// In the record of a bind, a verdict is about one node.
fn tell_of_bind(record: &mut CallRecord) {
    for part in &mut record.backends {
        if let Outcome::Filtered(heard) = &part.outcome {
            let said = if heard.refusals.is_empty() { BindPart::Accepts } else { BindPart::Rejects };
            part.outcome = Outcome::Bound(said);
        }
    }
}

/// The pod is from the apiserver, not from the request.
fn unreadable(error: &WireError) -> BindingState {
    BindingState::Unknown(ApiserverError::malformed(error))
}
