//! Decides a bind call: chooses the binder and determines the final state.
//!
//! The interested backends are called one after the other, and the gateway itself binds if none of them does: with
//! an extender that binds, kube-scheduler does not use its own binder. Regardless of a backend's answer, the state
//! in the apiserver is decisive ([`BindingState`]). Calls share no state, so concurrent binds do not wait for each
//! other.

mod error;

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use extender_gateway_core::{BackendFailure, FailureKind, Verb};
use extender_otlp::TraceContext;
use tokio::time::{Instant, sleep};

pub use self::error::BindError;
use super::{CallError, Decider, failures::Failed};
use crate::{
    backend::{Attempt, Backend},
    cluster::binder::{Apiserver, BindingState},
    config::{self, BackendName, BindFailurePolicy, BindSettings, Mode},
    contract::bind::{BindQuestion, Bound},
    object::{self, pod::ObjectPod},
    record::{BackendAttempt, BackendOutcome, CallRecord, OnFailure, OpenAttempt, Outcome},
};
use extender_gateway_core::Assignment;

/// The pause before the second read for a Binding that a backend reports; it doubles up to the longest one.
const FIRST_PAUSE: Duration = Duration::from_millis(10);
const LONGEST_PAUSE: Duration = Duration::from_millis(500);

/// A reported Binding that does not appear within this time does not exist: the apiserver answers reads of a pod
/// from its latest state.
const SHOWS_WITHIN: Duration = Duration::from_secs(1);

/// The binders.
#[derive(Debug)]
pub struct Binders {
    /// Creates Bindings.
    pub apiserver: Apiserver,
    /// The backend that is called first, if it matches.
    pub first: Option<BackendName>,
}

/// Whether a step left the pod bound.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum BindOutcome {
    Bound,
    /// The next binder is called.
    NotBound,
}

/// One bind call.
struct BindAttempt<'c> {
    decider: &'c Decider,
    binders: &'c Binders,
    assignment: &'c Assignment,
    id: String,
    trace: Option<TraceContext>,
    /// The deadline of the response, in any state.
    deadline: Instant,
    /// Until when a binder may be called; the rest is for the final read.
    ask_until: Instant,
}

/// The fields of a pod that the call needs.
struct BindPod<'p> {
    pod: ObjectPod<'p>,
    json: &'p Bytes,
}

impl Decider {
    /// Binds the pod to the node. Success means that the Binding exists.
    ///
    /// # Errors
    /// See [`CallError`]. After some errors the pod may still become bound a moment later; kube-scheduler sees
    /// that.
    pub async fn bind(
        &self,
        (assignment, began): (&Assignment, Instant),
        record: &mut CallRecord,
    ) -> Result<(), CallError> {
        let binders = self.binders.as_ref().ok_or(BindError::NoBinder)?;
        let deadline = began + self.timeouts.bind;
        let ask_until = began + self.timeouts.asking_to_bind();
        let (id, trace) = (record.id.clone(), record.trace);
        let attempt = BindAttempt { decider: self, binders, assignment, id, trace, deadline, ask_until };
        if self.some_may_bind(&assignment.namespace) && attempt.backends(record).await? == BindOutcome::Bound
        {
            return Ok(());
        }
        attempt.built_in().await
    }

    /// Whether any backend can bind. If none can, no facts about the pod are needed.
    fn some_may_bind(&self, namespace: &str) -> bool {
        let may = |backend: &config::BackendSettings| backend.bind.is_some() && backend.mode == Mode::Enforce;
        !self.exempt.contains(namespace) && self.backends.iter().any(|backend| may(&backend.settings))
    }
}

impl<'c> BindAttempt<'c> {
    /// Calls the interested backends until one has bound the pod.
    async fn backends(&self, record: &mut CallRecord) -> Result<BindOutcome, CallError> {
        let json = self.pod().await?;
        match BindingState::read(&json, self.assignment) {
            BindingState::Bound => return Ok(BindOutcome::Bound),
            BindingState::Free => {}
            excluded => return Err(BindError::from(excluded).into()),
        }
        let pod = object::pod::parse(&json).map_err(|error| BindError::Apiserver(error.into()))?;
        let known = BindPod { pod, json: &json };
        for (backend, settings) in self.order(&known.pod) {
            let at = record.backends.len();
            record.backends.push(BackendOutcome::new(&backend.settings, policy(settings.failure_policy)));
            let attempt = record.recorder.start_attempt(at, self.trace);
            let part = &mut record.backends[at];
            if self.ask((backend, settings), &known, (part, attempt)).await? == BindOutcome::Bound {
                return Ok(BindOutcome::Bound);
            }
        }
        Ok(BindOutcome::NotBound)
    }

    /// The pod's JSON, which selects the binders; the request only names the pod. The watch may not have delivered
    /// the pod's latest state yet.
    async fn pod(&self) -> Result<Bytes, BindError> {
        if let Some(watched) = self.watched() {
            return Ok(watched);
        }
        let Assignment { namespace, name, .. } = self.assignment;
        let found = self.binders.apiserver.pod(namespace, name, self.deadline).await;
        found.map_err(BindError::Apiserver)?.ok_or(BindError::Pod(BindingState::Gone))
    }

    /// The pod from the watch, if it is the same pod and unbound. Otherwise the watch is behind, or the call is
    /// late or wrong, and only the apiserver can tell.
    fn watched(&self) -> Option<Bytes> {
        let Assignment { namespace, name, uid, .. } = self.assignment;
        let pod = self.decider.known.pods.as_ref()?.get(uid)?;
        let meant = (&pod.namespace, &pod.name) == (namespace, name);
        (meant && pod.node.is_empty()).then(|| pod.json.clone())
    }

    /// The interested backends: the configured binder first, then the others in effective order.
    fn order(&self, pod: &ObjectPod<'_>) -> Vec<(&'c Arc<Backend>, &'c BindSettings)> {
        let mut asked: Vec<_> = self.decider.asked(pod, |backend| backend.bind.as_ref()).collect();
        // False sorts before true, and the sort is stable.
        asked.sort_by_key(|(backend, _)| Some(&backend.settings.name) != self.binders.first.as_ref());
        asked
    }

    async fn ask(
        &self,
        (backend, settings): (&Backend, &BindSettings),
        known: &BindPod<'_>,
        (part, mut attempt): (&mut BackendOutcome, OpenAttempt),
    ) -> Result<BindOutcome, CallError> {
        let answer = self.answer((backend, settings), known, &mut attempt).await;
        attempt.finish(&answer);
        match answer {
            Ok(Bound::Yes) => {
                part.outcome = Outcome::Bound("bound".to_owned());
                self.confirm(backend, known, part).await
            }
            Ok(Bound::Declined(why)) => {
                part.outcome = Outcome::Bound(format!("declined: {why}"));
                tracing::debug!(backend = %backend.settings.name, pod = known.pod.name(), "declined to bind: {why}");
                Ok(BindOutcome::NotBound)
            }
            Err(failure) => {
                let failed = self.failed_call(known, part.policy);
                self.decider.failures.record(&backend.settings, &failure, failed);
                part.outcome = Outcome::Failed(failure.clone());
                self.failed((backend, settings), failure).await
            }
        }
    }

    async fn answer(
        &self,
        (backend, settings): (&Backend, &BindSettings),
        known: &BindPod<'_>,
        attempt: &mut BackendAttempt,
    ) -> Result<Bound, BackendFailure> {
        let session = backend.session()?;
        session.info.bind.clone()?;
        let BindPod { pod, json } = known;
        let question = BindQuestion { call: &self.id, assignment: self.assignment, pod, json };
        let timeout = settings.timeout.min(self.ask_until.duration_since(Instant::now()));
        attempt.set_requested(1);
        backend.bind(&session, question, Attempt { timeout, rpcs: &mut attempt.rpcs }).await
    }

    /// Waits for the Binding that a backend reports.
    async fn confirm(
        &self,
        backend: &Backend,
        known: &BindPod<'_>,
        part: &mut BackendOutcome,
    ) -> Result<BindOutcome, CallError> {
        let mut pause = FIRST_PAUSE;
        let shown = Instant::now() + SHOWS_WITHIN;
        loop {
            let read = Instant::now();
            let truth = self.truth().await;
            let over = Instant::now() + pause >= self.deadline;
            match truth {
                BindingState::Bound => return Ok(BindOutcome::Bound),
                BindingState::Free if !over && read < shown => sleep(pause).await,
                BindingState::Unknown(_) if !over => sleep(pause).await,
                // The backend may be right: the state is unknown, or the pod was replaced.
                truth @ (BindingState::Unknown(_) | BindingState::Gone | BindingState::OtherUid(_)) => {
                    return Err(BindError::from(truth).into());
                }
                truth @ (BindingState::Free | BindingState::Elsewhere(_)) => {
                    let detail = format!("it reported the pod as bound, but {truth}");
                    let failure = BackendFailure::new(FailureKind::Malformed, detail);
                    part.policy = OnFailure::Fail;
                    let failed = self.failed_call(known, part.policy);
                    self.decider.failures.record(&backend.settings, &failure, failed);
                    part.outcome = Outcome::Failed(failure.clone());
                    return Err(call_error(backend, failure));
                }
            }
            pause = (pause * 2).min(LONGEST_PAUSE);
        }
    }

    /// Determines the state after a failure: the response was lost, but the bind may have succeeded.
    async fn failed(
        &self,
        (backend, settings): (&Backend, &BindSettings),
        failure: BackendFailure,
    ) -> Result<BindOutcome, CallError> {
        if was_asked(&failure) {
            match self.truth().await {
                BindingState::Bound => return Ok(BindOutcome::Bound),
                BindingState::Free => {}
                excluded => return Err(BindError::from(excluded).into()),
            }
        }
        match settings.failure_policy {
            BindFailurePolicy::Fail => Err(call_error(backend, failure)),
            BindFailurePolicy::Next => Ok(BindOutcome::NotBound),
        }
    }

    /// Binds the pod. An existing Binding, by any binder, counts as success.
    async fn built_in(&self) -> Result<(), CallError> {
        let Err(refused) = self.binders.apiserver.bind(self.assignment, self.ask_until).await else {
            return Ok(());
        };
        match self.truth().await {
            BindingState::Bound => Ok(()),
            BindingState::Free | BindingState::Unknown(_) => Err(BindError::Apiserver(refused).into()),
            excluded => Err(BindError::from(excluded).into()),
        }
    }

    fn failed_call<'k>(&self, known: &'k BindPod<'_>, policy: OnFailure) -> Failed<'k> {
        Failed { verb: Verb::Bind, policy, pod: &known.pod, trace: self.trace }
    }

    async fn truth(&self) -> BindingState {
        self.binders.apiserver.binding_state(self.assignment, self.deadline).await
    }
}

/// Whether the backend may have received the request, and so may have bound the pod in spite of the failure. This
/// includes gRPC statuses: they can come from a proxy, or from a backend that only knows its own timeout.
fn was_asked(failure: &BackendFailure) -> bool {
    match failure.kind {
        FailureKind::Unreachable | FailureKind::Unsuitable | FailureKind::CircuitOpen => false,
        FailureKind::Late
        | FailureKind::Reset
        | FailureKind::Oversize
        | FailureKind::Status
        | FailureKind::Malformed
        | FailureKind::Internal => true,
    }
}

fn call_error(backend: &Backend, failure: BackendFailure) -> CallError {
    CallError::Backend { name: backend.settings.name.to_string(), verb: Verb::Bind, failure }
}

fn policy(policy: BindFailurePolicy) -> OnFailure {
    match policy {
        BindFailurePolicy::Fail => OnFailure::Fail,
        BindFailurePolicy::Next => OnFailure::Next,
    }
}
