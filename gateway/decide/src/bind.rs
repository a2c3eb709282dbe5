//! Decides a bind call: chooses the binder and determines the final state.
//!
//! The interested backends are called one after the other, and the gateway itself binds if none of them does: with
//! an extender that binds, kube-scheduler does not use its own binder. Regardless of a backend's answer, the state
//! in the apiserver is decisive ([`BindingState`]). Concurrent binds do not wait for each other, except in
//! [`reserve`](super::reserve) while a verb depends on bound pods.

use std::{
    pin::pin,
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use extender_gateway_backend::{Attempt, Backend, endpoints::Caller, outcomes::AskedPod};
use extender_gateway_cluster::{
    binder::{Apiserver, BindingState},
    pods::PodFollower,
};
use extender_gateway_contract::bind::{BindQuestion, Bound};
use extender_gateway_core::{Assignment, BackendFailure, FailureKind, PolicyVerb};
use extender_gateway_object::{self as object, pod::ObjectPod};
use extender_gateway_pace::{backoff::Backoff, fair_queue::Flow};
use extender_gateway_record::{BindPart, CallRecord, OnFailure, OpenAttempt, Outcome};
use extender_gateway_settings::{BackendName, BindFailurePolicy, BindSettings};
use extender_policy_api::v1beta1::Purpose;
use tokio::time::{Instant, sleep, timeout_at};

use super::{CallError, Decider, asker::Asker, reserve::Placement};

/// The pauses between reads of a pod whose Binding a backend reports, and between attempts to create one.
const PAUSES: Backoff = Backoff::new(Duration::from_millis(10), Duration::from_millis(500));

/// A reported Binding that does not appear within this time does not exist: the apiserver answers reads of a pod
/// from its latest state.
const SHOWS_WITHIN: Duration = Duration::from_secs(1);

/// How long the watch of pods may take to show it, which saves a read. It usually needs a few milliseconds.
const WATCH_SHOWS_WITHIN: Duration = Duration::from_millis(100);

/// The binders.
#[derive(Debug)]
pub struct Binders {
    /// Creates Bindings.
    pub apiserver: Apiserver,
    /// The backend that is called first, if it matches.
    pub first: Option<BackendName>,
}

/// One bind call.
pub(super) struct BindCall<'c> {
    pub(super) decider: &'c Decider,
    pub(super) binders: &'c Binders,
    assignment: &'c Assignment,
    flow: Flow,
    /// The deadline of the response, in any state.
    deadline: Instant,
    /// Until when a binder may be called; the rest is for the final read.
    pub(super) ask_until: Instant,
    /// Whether something may bind the pod that this call does not know of when it ends: a backend that failed to answer or
    /// that says that it has bound it, or a request for a Binding whose end is not known.
    may_yet_bind: AtomicBool,
}

impl Decider {
    /// The longest time of a bind call; `None` without a binder.
    pub fn bind_timeout(&self) -> Option<Duration> {
        self.settings.binders.is_some().then_some(self.settings.timeouts.bind)
    }

    /// Binds the pod to the node. Success means that the Binding exists.
    ///
    /// # Errors
    /// See [`CallError`]. After some errors the pod may still become bound a moment later; kube-scheduler sees
    /// that.
    pub async fn bind(
        &self,
        assignment: &Assignment,
        began: Instant,
        flow: Flow,
        record: &mut CallRecord,
    ) -> Result<(), CallError> {
        let binders = self.settings.binders.as_ref().ok_or(CallError::NoBinder)?;
        let deadline = began + self.settings.timeouts.bind;
        let ask_until = began + self.settings.timeouts.asking_to_bind();
        let may_yet_bind = AtomicBool::new(false);
        let call = BindCall { decider: self, binders, assignment, flow, deadline, ask_until, may_yet_bind };
        let result = self.place(&call, record).await;
        self.report_end(&call, &result);
        result
    }

    /// Binds the pod once it counts on the node, if pods are counted.
    async fn place(&self, call: &BindCall<'_>, record: &mut CallRecord) -> Result<(), CallError> {
        let BindCall { assignment, ask_until, flow, .. } = *call;
        let Some(pods) = self.counted_pods() else { return call.bind(record).await };
        let json = match call.pod().await {
            Ok(json) => json,
            // It is counted for scores or shadows alone.
            Err(_) if !self.has_limits() => return call.bind(record).await,
            Err(state) => return Err(state.into()),
        };
        if is_bound(BindingState::read(&json, assignment))? {
            return Ok(());
        }
        let pod = object::pod::parse(&json).map_err(BindingState::from)?;
        let (member, assumed) = {
            let placement = Placement { assignment, json: &json, pod: &pod, until: ask_until, flow };
            let reserving = pin!(self.reserve(pods, placement, record));
            match call.enter_gang(pods, &pod).await? {
                None => (None, reserving.await?),
                Some(mut member) => {
                    let assumed = call.with_others(&mut member, reserving).await?;
                    (Some(member), assumed)
                }
            }
        };
        let result = call.bind(record).await;
        let end = call.end(&result);
        if let Some(member) = member {
            member.ended(end != BindEnd::NotBound);
        }
        if let Some(assumed) = assumed {
            assumed.end(end);
        }
        result
    }

    /// Reports how an attempt to place a pod has ended to the backends that were asked about the pod.
    fn report_end(&self, call: &BindCall<'_>, result: &Result<(), CallError>) {
        let Assignment { uid, node, .. } = call.assignment;
        let end = call.end(result);
        for outcomes in self.backends.iter().map(|backend| &backend.outcomes) {
            match (result, end) {
                (Err(CallError::Bind(BindingState::Elsewhere(other))), _) => outcomes.on_node(uid, other),
                (Err(CallError::Bind(BindingState::Gone | BindingState::OtherUid(_))), _) => {
                    outcomes.gone(uid);
                }
                (_, BindEnd::Bound) => outcomes.on_node(uid, node),
                (_, BindEnd::NotBound) => outcomes.not_bound(uid, None),
                (_, BindEnd::Uncertain) => {}
            }
        }
    }
}

/// How an attempt to bind a pod has ended.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum BindEnd {
    /// The pod is bound to the node.
    Bound,
    /// It is not bound to the node, and will not be by this attempt.
    NotBound,
    /// It may be, or become, bound to the node.
    Uncertain,
}

impl<'c> BindCall<'c> {
    fn end(&self, result: &Result<(), CallError>) -> BindEnd {
        match result {
            Ok(()) => BindEnd::Bound,
            // No pod is bound twice, and no Binding is for a pod that is gone.
            Err(CallError::Bind(
                BindingState::Elsewhere(_) | BindingState::Gone | BindingState::OtherUid(_),
            )) => BindEnd::NotBound,
            Err(_) if self.may_yet_bind.load(Ordering::Relaxed) => BindEnd::Uncertain,
            Err(_) => BindEnd::NotBound,
        }
    }

    fn mark_uncertain(&self) {
        self.may_yet_bind.store(true, Ordering::Relaxed);
    }

    async fn bind(&self, record: &mut CallRecord) -> Result<(), CallError> {
        // If no backend can bind, no facts about the pod are needed.
        let decider = self.decider;
        let may_bind = |backend: &Backend| backend.settings.bind.is_some() && decider.may_enforce(backend);
        let exempt = self.decider.settings.exempt.contains(&self.assignment.namespace);
        if !exempt
            && decider.backends.iter().any(|backend| may_bind(backend))
            && self.backends(record).await?
        {
            return Ok(());
        }
        self.built_in().await
    }

    /// Calls the interested backends until one has bound the pod. Returns whether it is bound.
    async fn backends(&self, record: &mut CallRecord) -> Result<bool, CallError> {
        let json = self.pod().await?;
        if is_bound(BindingState::read(&json, self.assignment))? {
            return Ok(true);
        }
        let pod = object::pod::parse(&json).map_err(|error| BindingState::Unknown(error.into()))?;
        for (backend, settings) in self.order(&pod) {
            if self.ask(backend, settings, &pod, &json, record).await? {
                return Ok(true);
            }
        }
        Ok(false)
    }

    /// The pod's JSON, which selects the binders; the request only names the pod. The watch may not have delivered
    /// the pod's latest state yet.
    async fn pod(&self) -> Result<Bytes, BindingState> {
        if let Some(watched) = self.watched() {
            return Ok(watched);
        }
        let Assignment { namespace, name, .. } = self.assignment;
        let found = self.binders.apiserver.pod(namespace, name, self.deadline).await;
        found.map_err(BindingState::Unknown)?.ok_or(BindingState::Gone)
    }

    /// The pod from the watch, if it is the same pod and unbound. Otherwise the watch is behind, or the call is
    /// late or wrong, and only the apiserver can tell.
    fn watched(&self) -> Option<Bytes> {
        let Assignment { namespace, name, uid, .. } = self.assignment;
        let pod = self.decider.settings.tables.pods.as_ref()?.get(uid)?;
        let is_same = (&pod.namespace, &pod.name) == (namespace, name);
        pod.whole().filter(|_| is_same && pod.node.is_empty())
    }

    /// The interested backends: the configured binder first, then the others in effective order.
    fn order(&self, pod: &ObjectPod<'_>) -> Vec<(&'c Arc<Backend>, &'c BindSettings)> {
        let mut asked: Vec<_> = self.decider.asked(pod, |backend| backend.bind.as_ref()).collect();
        // False sorts before true, and the sort is stable.
        asked.sort_by_key(|(backend, _)| Some(&backend.settings.name) != self.binders.first.as_ref());
        asked
    }

    /// Calls a backend, and determines whether the pod is bound.
    async fn ask(
        &self,
        backend: &Backend,
        settings: &BindSettings,
        pod: &ObjectPod<'_>,
        json: &Bytes,
        record: &mut CallRecord,
    ) -> Result<bool, CallError> {
        let at = record.add_part(&backend.settings, PolicyVerb::Bind, settings.failure_policy);
        let mut attempt = record.recorder.start_attempt(at, record.trace);
        let answer = self.answer(backend, settings, &record.id, pod, json, &mut attempt).await;
        let may_have_bound = answer.is_err() && !attempt.rpcs.excludes_an_effect();
        attempt.finish(&answer);
        let failure = match answer {
            Ok(Bound::Yes) => {
                record.backends[at].outcome = Outcome::Bound(BindPart::Bound);
                self.mark_uncertain();
                return self.confirm(backend, record, at).await;
            }
            Ok(Bound::Declined(why)) => {
                tracing::debug!(backend = %backend.settings.name, pod = self.assignment.name, "declined to bind: {why}");
                record.backends[at].outcome = Outcome::Bound(BindPart::Declined(why));
                return Ok(false);
            }
            Ok(Bound::No(why)) => BackendFailure::new(FailureKind::NotBound, why),
            Err(failure) => failure,
        };
        if may_have_bound {
            self.mark_uncertain();
        }
        self.decider.record_failure(PolicyVerb::Bind, &failure, record, at);
        self.failed(backend, settings, failure).await
    }

    async fn answer(
        &self,
        backend: &Backend,
        settings: &BindSettings,
        id: &str,
        pod: &ObjectPod<'_>,
        json: &Bytes,
        attempt: &mut OpenAttempt,
    ) -> Result<Bound, BackendFailure> {
        let asker = Asker {
            backend,
            caller: Caller { verb: PolicyVerb::Bind, pod: &self.assignment.uid },
            flow: self.flow,
            purpose: Purpose::Decide,
            timeout: settings.timeout,
            deadline: Some(self.ask_until),
        };
        let session = asker.session()?;
        // Nothing is requested of a backend that cannot bind.
        session.info.bind()?;
        attempt.set_requested(1);
        let question = BindQuestion { call: id, assignment: self.assignment, pod, json };
        let mut tries = asker.begin(&session, attempt)?;
        let Assignment { namespace, name, uid, .. } = self.assignment;
        let about = Some(AskedPod { call: id, namespace, name, uid });
        backend.bind(&session, question, Attempt { asked: about, ..tries.request() }).await
    }

    /// Waits for the Binding that a backend reports.
    async fn confirm(
        &self,
        backend: &Backend,
        record: &mut CallRecord,
        at: usize,
    ) -> Result<bool, CallError> {
        if self.is_watched_on_node().await {
            return Ok(true);
        }
        let mut pauses = PAUSES;
        let shown = Instant::now() + SHOWS_WITHIN;
        loop {
            let read = Instant::now();
            let state = self.state().await;
            let pause = pauses.next_pause();
            let over = Instant::now() + pause >= self.deadline;
            match state {
                BindingState::Bound => return Ok(true),
                BindingState::Free if !over && read < shown => sleep(pause).await,
                BindingState::Unknown(_) if !over => sleep(pause).await,
                // The backend may be right: the state is unknown, or the pod was replaced.
                BindingState::Unknown(_) | BindingState::Gone | BindingState::OtherUid(_) => {
                    return Err(state.into());
                }
                BindingState::Free | BindingState::Elsewhere(_) => {
                    let detail = format!("it reported the pod as bound, but {state}");
                    let failure = BackendFailure::new(FailureKind::Malformed, detail);
                    record.backends[at].policy = OnFailure::Fail;
                    self.decider.record_failure(PolicyVerb::Bind, &failure, record, at);
                    return Err(CallError::backend(&backend.settings, PolicyVerb::Bind, failure));
                }
            }
        }
    }

    /// Whether the watch of pods shows the pod on the node, or does so in a moment. A node is never taken back.
    async fn is_watched_on_node(&self) -> bool {
        let Assignment { namespace, name, uid, node } = self.assignment;
        let Some(pods) = &self.decider.settings.tables.pods else { return false };
        if pods.get(uid).is_none() {
            return false;
        }
        // The time after that is for the read.
        let until = self.ask_until.min(Instant::now() + WATCH_SHOWS_WITHIN);
        let shown = timeout_at(until, pods.on_a_node(uid)).await;
        shown.is_ok_and(|pod| (&pod.namespace, &pod.name, &pod.node) == (namespace, name, node))
    }

    /// Determines the state after a failure: the response was lost, but the bind may have succeeded, or an earlier one.
    async fn failed(
        &self,
        backend: &Backend,
        settings: &BindSettings,
        failure: BackendFailure,
    ) -> Result<bool, CallError> {
        if was_asked(&failure) {
            match self.state().await {
                // Nothing is looked for that the answer has not excluded.
                BindingState::Unknown(_) if failure.kind == FailureKind::NotBound => {}
                state => {
                    if is_bound(state)? {
                        return Ok(true);
                    }
                }
            }
        }
        match settings.failure_policy {
            BindFailurePolicy::Fail => Err(CallError::backend(&backend.settings, PolicyVerb::Bind, failure)),
            BindFailurePolicy::Next => Ok(false),
        }
    }

    /// Binds the pod. An existing Binding, by any binder, counts as success. While the apiserver is away it is tried
    /// again: after an error kube-scheduler writes a condition about it, which can arrive when the pod is bound already.
    async fn built_in(&self) -> Result<(), CallError> {
        let (mut pauses, mut was_away, mut uncertain) = (PAUSES, false, None);
        loop {
            let Err(failure) = self.binders.apiserver.bind(self.assignment, self.ask_until).await else {
                return Ok(());
            };
            let state = self.state().await;
            let is_away = failure.is_away() || state.is_away();
            if uncertain.is_none() && !failure.excludes_an_effect() {
                self.mark_uncertain();
                uncertain = Some(failure.clone());
            }
            match state {
                BindingState::Bound => return Ok(()),
                BindingState::Free | BindingState::Unknown(_) => {}
                excluded => return Err(excluded.into()),
            }
            let pause = pauses.next_pause();
            if !(is_away || was_away) || Instant::now() + pause >= self.ask_until {
                // The one that may have bound the pod, although later ones could not.
                return Err(BindingState::Unknown(uncertain.unwrap_or(failure)).into());
            }
            sleep(pause).await;
            was_away = is_away;
        }
    }

    async fn state(&self) -> BindingState {
        self.binders.apiserver.binding_state(self.assignment, self.deadline).await
    }
}

/// Whether the pod is bound; an error if its state excludes that it can be, or is unknown.
fn is_bound(state: BindingState) -> Result<bool, CallError> {
    match state {
        BindingState::Bound => Ok(true),
        BindingState::Free => Ok(false),
        excluded => Err(excluded.into()),
    }
}

/// Whether the backend may have received the request, and so may have bound the pod in spite of the failure. This
/// includes gRPC statuses: they can come from a proxy, or from a backend that only knows its own timeout.
fn was_asked(failure: &BackendFailure) -> bool {
    match failure.kind {
        FailureKind::Unreachable
        | FailureKind::Unsuitable
        | FailureKind::CircuitOpen
        | FailureKind::Overloaded => false,
        FailureKind::Late
        | FailureKind::Reset
        | FailureKind::Oversize
        | FailureKind::Status
        | FailureKind::Malformed
        | FailureKind::NotBound
        | FailureKind::Internal => true,
    }
}
